"""What a report says about runs and studies: sections of sentences, tables and figures, for any page or file.

Reads committed records alone, so a run that still goes on is reported as far as it has come. Knows what is to be
shown, not how a page looks.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from attrs import evolve, frozen

from gce.adapters import figures
from gce.adapters.figures import Figure
from gce.adapters.run_reader import RunReader
from gce.app.audit import best_of, shortcut_margins
from gce.app.config import parts_of_warm_up
from gce.app.evaluation import stored_outcome, stored_shares
from gce.app.examples import EXAMPLES_DRAWN, also_from
from gce.app.reading import UNVERIFIED
from gce.app.resolve import find_task, stored_problem
from gce.app.study import STUDIES, effect_rows, effects, finished, unclear
from gce.app.terminal import accuracy_rows, count_words, coverage_cell, difference_cell, rollout_rows, share_cell
from gce.domain.advantages import ALGORITHMS
from gce.domain.serialization import from_plain
from gce.domain.tasks import Task
from gce.domain.types import Interval, IterationRecord
from gce.errors import BadInput

__all__ = ["Section", "Table", "names_of", "sections_of"]

ANSWERS = 4
"""Sample answers that are drawn."""

LAST_ROLLOUTS = 500
"""From which they are chosen where no test was taken."""

Shares = Mapping[str, Interval]


@frozen
class Table:
    """Text in columns; the first is to the left."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@frozen
class Section:
    """A part of a report under one heading."""

    title: str
    words: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()
    figures: tuple[Figure, ...] = ()


def sections_of(paths: Sequence[Path], *, verify: bool = True) -> list[Section]:
    """Each path is a run directory or a study's; runs are verified first, or the report begins by saying that not.

    Raises:
        BadInput: one is neither.
    """
    named = zip(paths, names_of(paths), strict=True)
    runs = {path: _Run(path, name, verify) for path, name in named if _is_run(path)}
    found = [] if verify else [Section("Records", (UNVERIFIED,))]
    found += _compared(list(runs.values()))
    for path in paths:
        found += list(_run_sections(runs[path], len(paths) > 1)) if path in runs else _studies(path, verify)
    return found


def _is_run(path: Path) -> bool:
    return (path / "run.sqlite").is_file()


def names_of(paths: Sequence[Path]) -> list[str]:
    """The last part of each path, and as many before it as are needed to tell them apart."""
    parts = [path.resolve().parts for path in paths]
    for count in range(1, max(map(len, parts)) + 1):
        names = ["/".join(each[-count:]) for each in parts]
        if len(set(names)) == len(set(parts)):
            break
    return names


@frozen
class _Records:
    """What a report needs of a run."""

    config: dict[str, Any]
    iterations: list[IterationRecord]
    evaluations: list[dict[str, Any]]
    summary: dict[str, Any] | None
    answers: list[dict[str, Any]]
    """To test problems at the end; of a run that goes on, the last rollouts."""
    card: dict[str, Any] | None


@frozen(slots=False)
class _Run:
    """A run's records, read once."""

    path: Path
    name: str
    verify: bool

    @cached_property
    def _read(self) -> _Records:
        with RunReader(self.path, verify=self.verify) as reader:
            return _Records(
                {**reader.config, "settings": reader.settings},
                [from_plain(IterationRecord, record) for record in reader.read("iterations")],
                list(reader.read("evaluations")),
                reader.summary(),
                reader.answers("test-after") or list(deque(reader.read("rollouts"), maxlen=LAST_ROLLOUTS)),
                reader.card(),
            )

    @property
    def settings(self) -> Mapping[str, Any]:
        found: dict[str, Any] = self._read.config["settings"]
        return found

    @property
    def versions(self) -> Mapping[str, Any]:
        found: dict[str, Any] = self._read.config.get("versions", {})
        return found

    @property
    def records(self) -> list[IterationRecord]:
        return self._read.iterations

    @property
    def summary(self) -> dict[str, Any] | None:
        return self._read.summary

    @property
    def answers(self) -> list[dict[str, Any]]:
        return self._read.answers

    @property
    def card(self) -> dict[str, Any] | None:
        return self._read.card

    @cached_property
    def task(self) -> Task:
        return find_task(self.settings["task"])

    @cached_property
    def tiers(self) -> tuple[str, ...]:
        return tuple(tier.name for tier in self.task.tiers(self.settings["preset"]))

    def shares(self, what: str) -> Shares:
        """Test accuracy `before` or `after`; before also of a run that goes on."""
        found = (self.summary or {}).get(what)
        if found is None and what == "before":
            found = next((each["tiers"] for each in self._read.evaluations), None)
        return stored_shares(found or {})

    @cached_property
    def blind(self) -> Shares:
        """The best answer that ignores the problem, in each tier."""
        floors = (self.summary or {}).get("floors", {})
        return best_of({name: stored_shares(row) for name, row in floors.items()})


def _run_sections(run: _Run, several: bool) -> Iterator[Section]:
    before, slug = (f"{run.name}: ", re.sub("[^0-9A-Za-z]+", "-", run.name) + "-") if several else ("", "")
    for section in (
        _result(run),
        *_validity(run),
        _dynamics(run),
        _dev(run),
        _curriculum(run),
        *_bootstrap(run),
        _buffer(run),
        _answers(run),
        _costs(run),
        _settings(run),
    ):
        renamed = tuple(evolve(figure, name=slug + figure.name) for figure in section.figures)
        yield Section(before + section.title, section.words, section.tables, renamed)


def _result(run: _Run) -> Section:
    settings, summary = run.settings, run.summary
    words = [f"{settings['model']} on {run.task.name}/{settings['preset']}, seed {settings['seed']}."]
    if summary is None:
        parts = sum(not record.tiers for record in run.records)
        steps = settings.get("warm_up", 0) - sum(record.updates for record in run.records)
        last = settings["iterations"] + parts + parts_of_warm_up(max(0, steps))
        wanted = f" of {last}" if len(run.records) <= last else ""
        words.append(f"The run goes on, or was cut off: {len(run.records)}{wanted} iterations.")
    else:
        words.append(
            f"{summary['rollouts']:,} rollouts, {summary['correct_traces']:,} right, {summary['updates']} updates, "
            f"{summary['seconds']:,.0f} s; {summary['stopped']}."
        )
    rows = {
        "before": run.shares("before"),
        "after": run.shares("after"),
        "best blind answer": run.blind,
        **{name: stored_shares(row) for name, row in (summary or {}).get("heuristics", {}).items()},
    }
    rows = {name: row for name, row in rows.items() if row}
    if not rows:
        return Section("Result", (*words, "No test problems were answered yet."))
    sizes = {
        tier: max(row[tier].n + row[tier].failed for row in rows.values() if tier in row)
        for tier in run.tiers
        if any(tier in row for row in rows.values())
    }
    n = count_words(sizes, run.settings.get("test", 0))
    words.append(f"Greedy accuracy on test problems in % with 95 % Wilson intervals, {n}.")
    table = Table(*accuracy_rows(rows, run.tiers))
    shown = {
        name: {tier: share for tier, share in row.items() if share.n}
        for name, row in rows.items()
        if name in ("before", "after", "best blind answer")
    }
    tables = [table]
    after = rows.get("after")
    if after and run.blind:
        gaps = shortcut_margins(after, run.blind)
        cells = (difference_cell(gaps[tier], digits=0) if tier in gaps else "-" for tier in run.tiers)
        row = ("after - best blind answer", *cells)
        tables.append(Table(("shortcut margin, points", *run.tiers), (row,)))
    return Section("Result", tuple(words), tuple(tables), (figures.bars("result", "Accuracy on test problems", shown),))


def _dynamics(run: _Run) -> Section:
    if not run.records:
        return Section("Training", ("No iteration is done yet.",))
    trained = list(dict.fromkeys(tier for record in run.records for tier in record.tiers))
    right: dict[str, list[tuple[float, float]]] = {tier: [] for tier in trained}
    cut: dict[str, list[tuple[float, float]]] = {tier: [] for tier in trained}
    for record in run.records:
        for tier, count in record.tiers.items():
            right[tier].append((record.iteration, count.correct / count.rollouts))
            cut[tier].append((record.iteration, count.truncated / count.rollouts))
    loss = [(float(record.iteration), record.loss) for record in run.records if record.loss is not None]
    entropy = [(float(record.iteration), record.entropy) for record in run.records if record.entropy is not None]
    panels: dict[str, figures.Points] = {
        "rollouts right, %": right,
        "rollouts cut off, %": cut,
        "loss, nats a token": {"loss": loss},
        "entropy, nats a token": {"entropy": entropy},
    }
    shares = ("rollouts right, %", "rollouts cut off, %")
    drawn = figures.lines("training", "Training rollouts and updates", panels, shares=shares)
    if not trained:
        return Section("Training", ("Worked examples were learned; there are no rollouts yet.",), (), (drawn,))
    return Section("Training", (), (Table(*rollout_rows(run.records)),), (drawn,))


def _dev(run: _Run) -> Section:
    looks = {
        tier: {
            tier: [
                (record.iteration, record.dev[tier])
                for record in run.records
                if tier in record.dev and record.dev[tier].n
            ]
        }
        for tier in run.tiers
    }
    looks = {tier: found for tier, found in looks.items() if found[tier]}
    if not looks:
        return Section("Accuracy over iterations", ("No dev problems were looked at.",))
    drawn = figures.lines("dev", "Greedy accuracy on dev problems, %", {}, shares=tuple(looks), intervals=looks)
    return Section("Accuracy over iterations", ("Dev problems, 95 % Wilson intervals.",), (), (drawn,))


def _curriculum(run: _Run) -> Section:
    trained = run.task.training_tiers(run.settings["preset"], ladder=run.settings.get("ladder", False))
    found: dict[str, list[float | None]] = {tier: [] for tier in trained}
    first: dict[str, int | None] = dict.fromkeys(trained)
    for record in run.records:
        for tier in trained:
            count = record.tiers.get(tier)
            found[tier].append(count.correct / count.rollouts if count else None)
            if count and count.correct and first[tier] is None:
                first[tier] = record.iteration
    words = "Share of training rollouts that were right; framed: the iteration of a tier's first right trace."
    drawn = figures.grid("curriculum", "When each tier began to be solved", found, first, across="iteration")
    return Section("Curriculum", (words,), (), (drawn,) if any(record.tiers for record in run.records) else ())


def _bootstrap(run: _Run) -> list[Section]:
    """What worked examples were for, and how rollouts fared with and without; nothing where there were none."""
    learned = run.settings.get("warm_up", 0)
    shown_ones = run.settings.get("bootstrap", "none") != "none"
    if not learned and not shown_ones:
        return []
    oracle = run.settings["examples"] == "solver"
    words = f"Examples were worked out {'by a solver: an oracle was used' if oracle else 'by a plain rule, no solver'}."
    if learned:
        count = EXAMPLES_DRAWN * run.settings["shots"]
        words += (
            f" The warm-up, before the first rollouts, has {learned} steps on {count} examples a tier at "
            f"most{also_from(run.settings)}. They never enter the buffer, and none is a problem of training."
        )
    if not shown_ones:
        return [Section("Worked examples", (words,))]
    words += f" Up to {run.settings['shots']} were shown"
    words += "." if learned else "; learning never saw them."
    panels: dict[str, dict[str, list[tuple[float, float]]]] = {"right with examples, %": {}, "right without, %": {}}
    shown, alone = panels.values()
    rows = []
    for record in run.records:
        for tier, count in record.tiers.items():
            bare, right = count.rollouts - count.shown, count.correct - count.shown_correct
            rows.append((f"{record.iteration}", tier, f"{count.shown_correct}/{count.shown}", f"{right}/{bare}"))
            if count.shown:
                shown.setdefault(tier, []).append((record.iteration, count.shown_correct / count.shown))
            if bare:
                alone.setdefault(tier, []).append((record.iteration, right / bare))
    table = Table(("iteration", "tier", "right with examples", "right without"), tuple(rows))
    drawn = figures.lines("bootstrap", "Rollouts with and without worked examples", panels, shares=tuple(panels))
    return [Section("Worked examples", (words,), (table,) if rows else (), (drawn,) if rows else ())]


def _buffer(run: _Run) -> Section:
    found = {str(record.iteration): dict(record.buffer) for record in run.records}
    if not any(found.values()):
        return Section("Replay buffer", ("No right trace was kept.",))
    drawn = figures.stacks("buffer", "Traces held after each iteration", found, unit="traces", across="iteration")
    algorithm = run.settings.get("algorithm", "raft")
    unused = f"Kept beside: {algorithm} learns from each iteration's own rollouts."
    words = (unused,) if ALGORITHMS[algorithm].weigh is not None else ()
    return Section("Replay buffer", words, (), (drawn,))


def _answers(run: _Run) -> Section:
    """A right and a wrong answer of the last tiers that have them, drawn where the task can draw."""
    answers = run.answers
    if not answers:
        return Section("Sample answers", ("No answer yet.",))
    failed = sum(stored_outcome(each) == "failed" for each in answers)
    answers = [each for each in answers if stored_outcome(each) != "failed"]
    chosen: list[dict[str, Any]] = []
    for tier in reversed(run.tiers):
        for right in (False, True):
            chosen += [each for each in answers if each["tier"] == tier and each["right"] is right][:1]
    drawn, faults = [], []
    for number, answer in enumerate(chosen[:ANSWERS]):
        try:
            problem = stored_problem(run.task, answer)
        except BadInput as error:
            faults.append(f"No chart: {error}.")
            break
        found = run.task.chart(problem, answer["text"])
        if found is not None and found.bars:
            title = f"{answer['problem'].split('/', 1)[1]}: {'right' if answer['right'] else 'wrong'}"
            drawn.append(figures.chart(f"answer-{number + 1}", title, found))
            faults += [f"{title}. {' '.join(found.faults)}"] if found.faults else []
    kinds = Counter(
        next((violation["kind"] for verdict in each["verdicts"] for violation in verdict["violations"]), "none named")
        for each in answers
        if not each["right"]
    )
    rows = tuple((kind, str(count)) for kind, count in kinds.most_common())
    if failed:
        faults.append(f"{failed} answers failed: they could not be given or judged, and count for nothing.")
    words = (*faults, "What is wrong with wrong answers, by the first violation:" if rows else "No answer was wrong.")
    return Section("Sample answers", words, (Table(("violation", "answers"), rows),) if rows else (), tuple(drawn))


def _costs(run: _Run) -> Section:
    if not run.records:
        return Section("Cost", ("No iteration is done yet.",))
    found = {str(record.iteration): dict(record.seconds) for record in run.records}
    drawn = figures.stacks("cost", "Seconds of each stage", found, unit="seconds", across="iteration")
    total: Counter[str] = Counter()
    for record in run.records:
        total.update(record.seconds)
    rows = tuple((stage, f"{seconds:.1f}") for stage, seconds in total.items())
    return Section("Cost", (), (Table(("stage", "seconds in all iterations"), rows),), (drawn,))


def _settings(run: _Run) -> Section:
    summary = run.summary or {}
    kept = ("policy", "trainable_parameters", "trainable_share", "peak_bytes", "updates", "buffer", "best")
    rows = [(name, _plain(value)) for name, value in run.settings.items()]
    facts = [(name, _plain(summary[name])) for name in kept if name in summary]
    facts += [(name, _plain(value)) for name, value in run.versions.items()]
    return Section(
        "Settings and hashes", (), (Table(("setting", "value"), tuple(rows)), Table(("fact", "value"), tuple(facts)))
    )


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _validity(run: _Run) -> list[Section]:
    card = run.card
    if card is None:
        return []
    try:
        if card.get("policy") != (run.summary or {}).get("policy"):
            return [Section("Validity card", ("The card was made before the run went on: run gce validity again.",))]
        rows = tuple(
            (
                line["what"],
                share_cell(line["value"], line["low"], line["high"]) if line["n"] else "-",
                str(line["n"]),
                coverage_cell(line["n"] / (line["n"] + failed) if (failed := line.get("failed", 0)) else 1.0),
            )
            for line in card["lines"]
        )
        return [Section("Validity card", tuple(card["words"]), (Table(("", "% (95 %)", "n", "coverage"), rows),))]
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise BadInput(f"{run.path}/validity.json is no validity card: run gce validity again, or delete it") from error


def _compared(runs: Sequence[_Run]) -> list[Section]:
    """Runs on the same problems side by side; a section for each kind of problems that several runs have."""
    kinds: dict[tuple[str, str], list[_Run]] = defaultdict(list)
    for run in runs:
        kinds[run.task.name, run.settings["preset"]].append(run)
    found = []
    for (task, preset), group in kinds.items():
        rows: dict[str, Shares] = {}
        for run in group:
            rows |= {f"{run.name}, {what}": run.shares(what) for what in ("before", "after") if run.shares(what)}
        if len(group) < 2 or not rows:
            continue
        table = Table(*accuracy_rows(rows, group[0].tiers))
        after = {name.removesuffix(", after"): row for name, row in rows.items() if name.endswith(", after")}
        title = f"Runs compared on {task}/{preset}"
        drawn = (figures.bars(f"compared-{task}-{preset}", "Accuracy on test problems", after),) if after else ()
        found.append(Section(title, ("Test accuracy in %, 95 % Wilson intervals.",), (table,), drawn))
    return found


def _studies(path: Path, verify: bool) -> list[Section]:
    sections = []
    for name, conditions in STUDIES.items():
        runs = finished(path, conditions, verify=verify)
        if not runs:
            continue
        found = effects(runs, conditions)
        head, rows = effect_rows(found, runs)
        what = Table(("condition", "what"), tuple((each.condition, conditions[each.condition].what) for each in found))
        drawn = {
            f"{effect.condition} vs {effect.against}": (
                effect.difference.value,
                effect.difference.low,
                effect.difference.high,
            )
            for effect in found
            if effect.difference is not None
        }
        words = ["Differences are paired by seed and problem; bootstrap intervals over test problems, for these seeds."]
        if names := ", ".join(unclear(found)):
            words.append(f"Not told from nothing, by p below 0.05 and all seeds on one side: {names}.")
        pictures = (figures.effects(f"study-{name}", f"What each condition of {name} does", drawn),) if drawn else ()
        sections.append(Section(f"Study: {name}", tuple(words), (Table(head, tuple(rows)), what), pictures))
    if sections:
        return sections
    raise BadInput(f"expected a run or a study with finished runs in {path}, found neither")
