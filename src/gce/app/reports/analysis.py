"""The sections of an analysis, for a terminal and for a page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from attrs import fields

from gce.app.analysis.analysis import Analysis, Comparison
from gce.app.analysis.evidence import SHARES
from gce.app.analysis.sources import Setup, differing_settings
from gce.app.reports.section import Section
from gce.app.tables.cells import coverage_cell, difference_cell, p_cell, percent, share_cell
from gce.domain.analysis.associations import LEAST_PROBLEMS
from gce.domain.analysis.correlations import LEAST_UNITS
from gce.domain.figures import Effects, Lines, Table
from gce.domain.metrics import METRICS
from gce.domain.statistics import Estimate
from gce.domain.text import counted

__all__ = ["analysis_sections"]

MOST_PAIRS = 12
"""Pairs of measures that the table of correlations shows; `--json` has all."""
MOST_OF_A_NAME = 54
"""Characters of a run's or a model's name in the catalogue."""
_IN_TOKENS = ("tokens", "prompt tokens")

Measures = Mapping[str, Mapping[str, Estimate]]


def analysis_sections(found: Analysis) -> list[Section]:
    """Return the catalogue, and a section for each scale."""
    return [_catalogue(found), *_trajectories(found), *_runs(found), _setups(found), *_across(found)]


def _catalogue(found: Analysis) -> Section:
    """What there is; what is the same in all rows is said in a sentence."""
    columns = {"setup": [each.label for each in found.catalogue]}
    same = []
    for field in fields(Setup):
        if field == fields(Setup).settings:
            continue
        values = [getattr(each.setup, field.name) or "no" for each in found.catalogue]
        if len(set(values)) > 1:
            columns[field.name] = [_clipped(each) for each in values]
        elif field != fields(Setup).asked or values[0] != "no":
            same.append(f"{field.name}: {values[0]}")
    for name in differing_settings(each.setup for each in found.catalogue):
        columns[name] = [_clipped(dict(each.setup.settings).get(name, "-")) for each in found.catalogue]
    columns["answers"] = [str(each.answers) for each in found.catalogue]
    columns["problems"] = [str(each.problems) for each in found.catalogue]
    columns["coverage"] = [coverage_cell(1 - each.failed / each.answers) for each in found.catalogue]
    count = len({each.setup for each in found.catalogue})
    words = [
        f"{counted(len(found.catalogue), 'set')} of answers, {counted(count, 'setup')}: task, model, strategy, "
        "training, and what else was asked for."
    ]
    words += [f"The same in all: {'; '.join(same)}."] if same else []
    return Section("Catalogue", tuple(words), (Table(tuple(columns), tuple(zip(*columns.values(), strict=True))),))


def _clipped(name: str) -> str:
    """A name without its middle, where it is long."""
    half = MOST_OF_A_NAME // 2
    return name if len(name) <= MOST_OF_A_NAME else f"{name[: half - 3]}...{name[-half:]}"


def _trajectories(found: Analysis) -> Iterator[Section]:
    head = ("reward", "least", "25 %", "median", "75 %", "largest")
    rows = tuple((name, *(f"{each:.3f}" for each in row)) for name, row in found.rewards.items())
    tables, words = [Table(head, rows)], []
    if found.associations is None:
        words.append(
            f"Which features go with rewards was not tested: that takes {LEAST_PROBLEMS} problems, and rewards and "
            "features that differ within the tiers of a setup."
        )
    else:
        share = found.associations.explained
        words += [
            "Features that go with rewards: the difference in reward for a feature larger by one standard deviation, "
            "among answers of one setup and tier, other features equal; 95 %, clustered by problem. This is "
            "association, not cause.",
            f"All features together predict {100 * share.value:.1f} % ({100 * share.low:.1f} to {100 * share.high:.1f})"
            f" of the variance on problems that no fit saw; n = {counted(found.associations.n, 'answer')} to "
            f"{counted(found.associations.problems, 'problem')}.",
        ]
        features = tuple(
            (name, difference_cell(each.change, digits=3, scale=1.0), p_cell(each.p), p_cell(each.adjusted))
            for name, each in found.associations.features.items()
        )
        tables.append(Table(("feature", "difference in reward", "p", "p (Holm)"), features))
    yield Section("Trajectories", tuple(words), tuple(tables))
    if found.evidence:
        yield _evidence(found)


def _evidence(found: Analysis) -> Section:
    head = ("log-probability, nats", "answers", *(f"at {percent(share)}" for share in SHARES))
    rows: list[tuple[str, ...]] = []
    for name, each in found.evidence.items():
        rows.append((name, str(len(each.answers)), *map(_brief, each.answer)))
        if each.against is not None:
            count = sum(one.against is not None for one in each.answers)
            rows.append((f"{name}, b against 1 - b", str(count), *map(_brief, each.against)))
    words = [
        "Log-probability of the stored answer line after shares of the text before it, as the scoring model reads it "
        "(means over answers, 95 %, clustered by problem). A text that leads to its answer makes it more probable; one "
        "that does not was not needed for it. b against 1 - b: less that of the opposite belief in the same form."
    ]
    if found.other_model:
        words.append("Some answers were given by another model than the one that scores them.")
    paths = {
        name: {one.problem: list(zip(SHARES, one.answer, strict=True)) for one in each.answers}
        for name, each in found.evidence.items()
    }
    title = "Log-probability of the answer line along the text"
    figure = Lines("evidence", title, paths, across="share of the text")
    return Section("Evidence along the text", tuple(words), (Table(head, tuple(rows)),), (figure,))


def _brief(found: Estimate) -> str:
    return f"{found.value:.2f} ({found.low:.2f} to {found.high:.2f})"


def _runs(found: Analysis) -> Iterator[Section]:
    names = list(dict.fromkeys(name for row in found.runs.values() for name in row))
    tables, words = [], []
    if len(names) > len({each.setup for each in found.catalogue}):
        tables.append(_measures(found.runs, names))
        words.append("Measures over all tiers together, 95 % intervals.")
    if found.training:
        tables.append(_gains("effect of training", found.training))
        words.append("Effect of training: mean reward after less before, paired by problem; Holm's correction.")
    if tables:
        yield Section("Runs", tuple(words), tuple(tables))


def _setups(found: Analysis) -> Section:
    names = list(dict.fromkeys(each.label for each in found.catalogue))
    words = ["Measures over all tiers and runs of a setup together, 95 % intervals, clustered by problem."]
    if not found.setups:
        words = ["No measure is kept, and none was to be computed."]
    tables = [_measures(found.setups, names)] if found.setups else []
    if found.across_seeds:
        rows = tuple(
            (name, str(count), difference_cell(each, digits=3, scale=1.0))
            for name, (count, each) in found.across_seeds.items()
        )
        tables.append(Table(("effect of training", "runs", "mean reward"), rows))
        words.append("Effect of training over runs: bootstrap over runs and problems, too narrow with few runs.")
    return Section("Setups", tuple(words), tuple(tables))


def _across(found: Analysis) -> Iterator[Section]:
    if len({each.setup for each in found.catalogue}) < 2:
        return
    words, tables, figures = [], [], []
    if found.comparisons:
        words.append(
            "Setups compared on the same problems: mean reward, paired by problem; Holm's correction. Agreement is the "
            "rank correlation of their rewards over problems: whether they find the same problems hard."
        )
        compared = {f"{each.second} - {each.first}": each for each in found.comparisons}
        tables.append(_gains("difference", compared))
        shown = {name: each.gain.mean for name, each in compared.items()}
        effects = {name: (each.value, each.low, each.high) for name, each in shown.items()}
        figures.append(Effects("comparisons", "Differences of setups", effects, unit="points of mean reward"))
    if found.related:
        rows = tuple(
            (
                f"{each.first}, {each.second}",
                f"{each.correlation.value:+.2f}",
                f"{each.correlation.low:+.2f} to {each.correlation.high:+.2f}",
                str(each.correlation.n),
                p_cell(each.correlation.p),
                p_cell(each.adjusted),
            )
            for each in found.related[:MOST_PAIRS]
        )
        tables.append(Table(("rank correlation of", "value", "95 %", "setups", "p", "p (Holm)"), rows))
        count = len(found.related)
        words.append(
            f"Measures correlated over setups of one task, the {len(rows)} of {count} pairs with the least p values. "
            "Measures of the same answers share their noise, and setups of one model are alike: both make correlations "
            "look firmer than they are."
        )
    else:
        words.append(f"Measures were not correlated: that takes {LEAST_UNITS} setups of one task that differ in both.")
    yield Section("Across setups", tuple(words), tuple(tables), tuple(figures))


def _gains(head: str, found: Mapping[str, Comparison]) -> Table:
    rows = tuple(
        (
            name,
            str(each.n),
            difference_cell(each.gain.mean, digits=3, scale=1.0),
            f"{each.gain.gained}/{each.gain.lost}",
            p_cell(each.gain.p),
            p_cell(each.gain.adjusted),
            "-" if each.agreement is None else f"{each.agreement:+.2f}",
        )
        for name, each in found.items()
    )
    return Table((head, "n", "mean reward", "up/down", "p", "p (Holm)", "agreement"), rows)


def _measures(found: Measures, names: Sequence[str]) -> Table:
    rows = tuple((metric, *(_cell(metric, row.get(name)) for name in names)) for metric, row in found.items())
    return Table(("measure", *names), rows)


def _cell(metric: str, found: Estimate | None) -> str:
    if found is None:
        return "-"
    if metric in METRICS and METRICS[metric].unit == "share":
        return f"{share_cell(found.value, found.low, found.high)} %"
    digits = 0 if metric in _IN_TOKENS else 3
    value, low, high = (f"{each:.{digits}f}" for each in (found.value, found.low, found.high))
    return f"{value} ({low} to {high})"
