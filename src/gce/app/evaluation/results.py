"""The result of an evaluation, for programs and for people."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from gce.app.evaluation.baselines import (
    best_of,
    check_references,
    conclusion,
    heuristics_line,
    reference_answers,
    reference_rows,
    reward_gains_over,
    solve_rates,
)
from gce.app.evaluation.belief_measures import belief_measures, measures_table
from gce.app.evaluation.comparison import Measured, attempts, compared_with
from gce.app.evaluation.one_outcome import (
    cut_off_words,
    ended_early,
    equal_rewards,
    mostly_loops,
    texts_cut_off,
    unreadable_words,
)
from gce.app.evaluation.revisions import revision_parts
from gce.app.evaluation.rewards import Rewards, is_graded, reference_rewards, rewards_of_conversations
from gce.app.evaluation.scoring import OPTION, check_answers, stored_shares
from gce.app.evaluation.shifts import shift_parts
from gce.app.evaluation.shown_answers import answers_table, right_answer, same_answer_words
from gce.app.evaluation.splits import split_words, splits_of
from gce.app.shown import Part, lines_of
from gce.app.tables.cells import SIGNIFICANT, count_words, difference_cell, interval_cell, p_cell, share_cell
from gce.app.tables.summary import reward_rows, score_tables
from gce.app.terminal import is_verbose
from gce.app.wiring.models import SHIPPED_MODEL, shipped_model_path
from gce.domain.baselines import PolicyScore, scores_of_answers
from gce.domain.figures import Table
from gce.domain.measurements import Interval
from gce.domain.metrics import METRICS, Metric, point
from gce.domain.metrics.means import REWARD
from gce.domain.outcomes import coverage
from gce.domain.paired import Gain
from gce.domain.serialization import to_plain
from gce.domain.statistics import Estimate, mean_over_tiers
from gce.domain.strategies import Strategy
from gce.domain.tasks import Task

if TYPE_CHECKING:
    from gce.app.evaluation.run import Evaluation
    from gce.app.evaluation.settings import EvaluateSettings

__all__ = ["check_result", "costs_table", "shown", "summary"]

FITTED_TO = 100
"""Training problems a tier that fixed reference answers are fitted to."""
REFERENCES_SHOWN = 3
"""References that a single strategy is compared with in the table; plain data have all."""


def summary(result: Evaluation) -> tuple[dict[str, Any], list[str]]:
    """Plain data, and lines of text: see `shown`."""
    plain, parts = shown(result)
    return plain, lines_of(parts)


def shown(result: Evaluation) -> tuple[dict[str, Any], list[Part]]:
    """Plain data, and what is shown: strategies beside reference rows, or pass@k where samples are several."""
    given = result.settings
    counts = count_words(Counter(problem.tier for problem in result.problems), given.n)
    where = f"{given.model_name} on {result.task.name}/{result.preset}, {split_words(given.split)} problems"
    if given.models:
        where += f", {next(iter(result.strategies.values())).name}"
    plain, parts = _samples(result) if given.samples > 1 else _strategies(result)
    plain["split"] = given.split
    if result.task.teaching.beliefs is not None:
        measures = belief_measures(result.conversations)
        plain["beliefs"] = to_plain(measures)
        parts += ["", measures_table(measures, list(result.measured))] if measures else []
    alarms = {name: alarm for name, each in result.measured.items() if (alarm := equal_rewards(each.judged))}
    if alarms:
        plain["alarms"] = alarms
        parts += ["", *(f"{name}: {alarm}" for name, alarm in alarms.items())]
    if warned := [line for name, each in result.measured.items() for line in _warnings(name, each, given, result.task)]:
        plain["warnings"] = warned
        parts += ["", *warned]
    name, first = next(iter(result.measured.items()))
    if samples := answers_table(result.task, first.judged):
        parts += ["", *([f"{name}:"] if len(result.measured) > 1 else []), samples]
    texts = [(answer.completion.text, right_answer(answer.problem.instance)) for answer in first.judged]
    if same := same_answer_words(result.task, texts):
        plain["same_answer"] = same
        parts += ["", f"warning: {same}"]
    for name, metric in result.metrics.items():
        found = result.estimates(metric)
        plain.setdefault("metrics", {})[name] = to_plain(found)
        if not (metric is REWARD and "mean_reward" in plain):  # It is shown already.
            parts += ["", _metric_table(metric, found, _tiers(result))]
    if any(
        each.reading == "revised" for held in result.conversations.values() for one in held for each in one.attempts
    ):
        plain["revisions"], more = revision_parts(result.conversations, given.interval)
        parts += ["", *more]
    if result.shifts:
        plain["shifts"], more = shift_parts(result)
        parts += ["", *more]
    return plain, [f"{where}, % right (95 % interval), {counts}", *parts]


def _warnings(name: str, found: Measured, given: EvaluateSettings, task: Task) -> Iterator[str]:
    """How many answers were cut off, and how many could not be read."""
    limit = given.max_tokens or task.max_tokens
    loops = mostly_loops(texts_cut_off(found.judged))
    if words := cut_off_words("answers", *ended_early(found.judged), limit=limit, loops=loops):
        yield f"warning: {name}: {words}"
    if words := unreadable_words(found.judged, task):
        yield f"{name}: {words}"


def check_result(result: Evaluation, plain: Mapping[str, Any], least: float) -> None:
    """LowCoverage where too few answers of a strategy, or of a reference row, could be given and judged."""
    for what, each in {"": result, **result.shifts}.items():
        for name, measured in each.measured.items():
            check_answers(f"{name}, {what}" if what else name, measured.judged, least, hint=OPTION)
    rows = [*plain.get("floors", {}).values(), *plain.get("heuristics", {}).values()]
    check_references([share for row in rows for share in stored_shares(row).values()], least)


def _tiers(result: Evaluation) -> list[str]:
    return list(dict.fromkeys(problem.tier for problem in result.problems))


def _samples(result: Evaluation) -> tuple[dict[str, Any], list[Part]]:
    (name,) = result.measured
    tiers = _tiers(result)
    found = {each: result.estimates(each)[name] for each in METRICS if each.startswith("pass@")}
    passed: dict[str, Any] = {each: row for each, row in found.items() if row}
    cells = tuple(
        (each, *(share_cell(row[tier].value, row[tier].low, row[tier].high) if tier in row else "-" for tier in tiers))
        for each, row in passed.items()
    )
    shares: dict[str, Any] = result.estimates()[name]
    plain = {"pass_at": to_plain(passed), "samples": result.settings.samples}
    plain |= {"temperature": result.settings.temperature, "n": result.settings.n}
    plain |= {"tiers": to_plain(shares), "coverage": coverage(shares.values())}
    more, rewards = _rewards(result)
    parts: list[Part] = ["", Table(*reward_rows(rewards, tiers, _held_out(result)))] if rewards else []
    return plain | more, [Table(("", *tiers), cells), *parts, *_failures(result.measured)]


def _rewards(
    result: Evaluation,
    references: tuple[Sequence[PolicyScore], Sequence[PolicyScore]] = ((), ()),
    notes: Container[str] = (),
) -> tuple[dict[str, Any], dict[str, Rewards]]:
    """Mean rewards by rows, with those of references, and as plain data; nothing where all rewards are 0 or 1."""
    method = result.settings.interval
    found = {name: rewards_of_conversations(each, method=method) for name, each in result.conversations.items()}
    floors, heuristics = map(reference_rewards, references)
    if not is_graded([*found.values(), *floors.values(), *heuristics.values()]):
        return {}, {}
    rows: dict[str, Rewards] = {_starred(name, notes): row for name, row in found.items()}
    rows |= reference_rows(floors, heuristics)
    modes = {name: {"tiers": row, "mean": mean_over_tiers(row.values())} for name, row in found.items()}
    return {"mean_reward": to_plain({"modes": modes, "floors": floors, "heuristics": heuristics})}, rows


def _starred(name: str, notes: Container[str]) -> str:
    return f"{name} *" if name in notes else name


def _held_out(result: Evaluation) -> list[str]:
    return [tier.name for tier in result.task.tiers(result.preset) if tier.held_out]


def _strategies(result: Evaluation) -> tuple[dict[str, Any], list[Part]]:
    given, found = result.settings, result.measured
    answers = reference_answers(result.task, result.evaluator, result.preset, result.problems, fitted_to=FITTED_TO)
    blind_scores, heuristic_scores = (scores_of_answers(result.task, each, method=given.interval) for each in answers)
    references = blind_scores, heuristic_scores
    floors, heuristics = map(solve_rates, references)
    notes = _notes(given, result.strategies)
    shares: dict[str, dict[str, Any]] = result.estimates()
    rows: dict[str, Mapping[str, Any]] = {_starred(name, notes): row for name, row in shares.items()}
    rows |= reference_rows(floors, heuristics)
    plain_rewards, rewards = _rewards(result, references, notes)
    parts: list[Part] = score_tables(rows, rewards, _tiers(result), _held_out(result))
    if floors and rewards:
        parts.append(conclusion(reference_rewards(blind_scores), graded=True))
    elif floors:
        parts.append(conclusion(floors, graded=False))
    parts += heuristics_line(heuristics)
    if floors and "train" in splits_of(given.split):
        parts.append("Fixed answers of prompt-blind baselines come from training questions, which are among these.")
    parts += [f"* {name}: {note}" for name, note in notes.items()]
    gains, reward_gains = result.gains(), result.gains(REWARD) if rewards else {}
    over = {name: reward_gains_over({**answers[0], **answers[1]}, found[name].judged) for name in found if rewards}
    again = {
        name: attempts(found[name], method=given.interval)
        for name, strategy in result.strategies.items()
        if strategy.attempts > 1
    }
    unit = "mean of tiers" if len(_tiers(result)) > 1 else "difference"
    if len(found) > 1:
        parts += ["", costs_table(found)]
        reference = compared_with(found)
        parts += ["", _gains_table(gains, reference, unit)] if gains else []
        parts += ["", _gains_table(reward_gains, reference, unit, rewards=True)] if reward_gains else []
    else:
        if rewards and floors:
            parts += _against_guessing(result, reference_rewards(blind_scores), next(iter(over.values())))
        if is_verbose():
            parts += [part for each in over.values() if each for part in _gains_over_references(each, unit)]
    parts += _failures(found)
    most = max((strategy.attempts for strategy in result.strategies.values()), default=1)
    parts += ["", _attempts_table(again, most)] if again else []
    plain = {
        "modes": {
            name: {
                "tiers": to_plain(shares[name]),
                "mean": to_plain(mean_over_tiers(shares[name].values())),
                "coverage": coverage(shares[name].values()),
                "note": notes.get(name, ""),
                **measured.costs,
                "against": to_plain(gains[name]) if name in gains else None,
                **({"against_reward": to_plain(reward_gains[name])} if name in reward_gains else {}),
                **({"reward_over": to_plain(over[name])} if over.get(name) else {}),
                "attempts": to_plain(again[name]) if name in again else None,
            }
            for name, measured in found.items()
        },
        "floors": to_plain(floors),
        "heuristics": to_plain(heuristics),
        "n": given.n,
    }
    return plain | plain_rewards, parts


def _failures(found: Mapping[str, Measured]) -> list[str]:
    """A line for each strategy in which prompts did not fit the model's context, and one where something failed."""
    lines = []
    for name, measured in found.items():
        for counted, answers in (
            ("did not fit into the model's context and count as wrong", measured.no_room),
            ("failed and are excluded from accuracy", [each for each in measured.judged if each.failed]),
        ):
            if answers:
                first = f"{answers[0].problem.tier}: {answers[0].reason or answers[0].completion.error}"
                lines.append(f"{name}: {len(answers)} of {len(measured.judged)} {counted}; {first}")
    return lines


def costs_table(found: Mapping[str, Measured]) -> Table:
    """A row for each strategy; seconds are those of the whole batch, divided by its conversations."""
    head = ("per problem", "replies", "prompt tokens", "generated tokens", "seconds", "truncated", "prompt too long")
    rows = []
    for name, measured in found.items():
        costs = measured.costs
        tokens = ("-" if costs[each] is None else f"{costs[each]:.0f}" for each in ("prompt_tokens", "tokens"))
        shares = (f"{100 * (costs[each] or 0.0):.0f} %" for each in ("cut_off", "no_room"))
        rows.append((name, f"{costs['replies']:.2f}", *tokens, f"{costs['seconds']:.3f}", *shares))
    return Table(head, tuple(rows))


def _gains_table(gains: Mapping[str, Gain], reference: str, unit: str, *, rewards: bool = False) -> Table:
    head = (f"gain over {reference}", f"{unit}, points", "gained", "lost", "p (McNemar)", "p (Holm)")
    digits, scale = 1, 100.0
    if rewards:
        head = (f"gain in mean reward over {reference}", unit, "gained", "lost", "p (sign flip)", "p (Holm)")
        digits, scale = 3, 1.0
    rows = []
    for name, each in gains.items():
        mean = difference_cell(each.mean, digits=digits, scale=scale)
        rows.append((name, mean, f"{each.gained}", f"{each.lost}", p_cell(each.p), p_cell(each.adjusted)))
    return Table(head, tuple(rows))


def _against_guessing(result: Evaluation, floors: Mapping[str, Rewards], over: Mapping[str, Gain]) -> Iterator[str]:
    """Whether the mean reward of a single strategy is above that of every prompt-blind baseline, by the exact tests."""
    (held,) = result.conversations.values()
    mean = mean_over_tiers(rewards_of_conversations(held, method=result.settings.interval).values())
    blind = mean_over_tiers(best_of(floors).values())
    gains = [over[name] for name in floors if name in over]
    if mean is None or blind is None or not gains:
        return
    p = max(gain.adjusted for gain in gains)
    if mean.value <= blind.value or any(gain.mean.value <= 0.0 for gain in gains):
        said = "not better than guessing"
    else:
        shown = "better" if p < SIGNIFICANT else "not shown to be better"
        said = f"{shown} than guessing, p {'' if p < 0.001 else '= '}{p_cell(p)}"
    yield f"mean reward {mean.value:.3f}; best prompt-blind {blind.value:.3f}: {said}"


def _gains_over_references(gains: Mapping[str, Gain], unit: str) -> list[Part]:
    """The gains over the references that are hardest to beat, and how many there are besides."""
    hardest = dict(sorted(gains.items(), key=lambda each: each[1].mean.value)[:REFERENCES_SHOWN])
    parts: list[Part] = ["", _gains_table(hardest, "reference", unit, rewards=True)]
    if more := len(gains) - len(hardest):
        said = f"These references are the hardest to beat; the gain over {more} more is no smaller"
        parts.append(f"{said} (`gce evaluate --json` has all).")
    return parts


def _metric_table(metric: Metric[Any], found: Mapping[str, Mapping[str, Any]], tiers: Sequence[str]) -> Table:
    """A row for each strategy; shares are in percent."""
    head = (f"{metric.name}, %" if metric.unit == "share" else metric.name, *tiers)
    rows = tuple((name, *(_cell(metric, row.get(tier)) for tier in tiers)) for name, row in found.items())
    return Table(head, rows)


def _cell(metric: Metric[Any], found: Interval | Estimate | None) -> str:
    if found is None:
        return "-"
    if metric.unit == "share":
        return share_cell(point(found), found.low, found.high)
    return f"{point(found):.3g} ({found.low:.3g} to {found.high:.3g})"


def _attempts_table(found: Mapping[str, Any], most: int) -> Table:
    head = (f"up to {most} attempts", "right at first attempt", "right at last", "recovered", "attempts")
    rows = []
    for name, each in found.items():
        cells = (interval_cell(share) for share in (each.first, each.trajectory, each.recovered))
        rows.append((name, *cells, f"{each.used:.2f}"))
    return Table(head, tuple(rows))


def _notes(given: EvaluateSettings, strategies: Mapping[str, Strategy]) -> dict[str, str]:
    """What has to be known beside a strategy's row: oracle use, and what the shipped model saw of its format."""
    model, formats = given.model_name, dict[str, str]()
    if model == SHIPPED_MODEL:
        formats = json.loads((shipped_model_path() / "card.json").read_text()).get("formats", {})
    notes: dict[str, str] = {}
    for name, strategy in strategies.items():
        said = []
        if "examples" in strategy.needs and given.examples_from is not None:
            said.append(f"the best trajectories of the run {given.examples_from} as examples")
        elif "examples" in strategy.needs and given.examples == "solver":
            said.append("demonstrations from an exact solver (an oracle)")
        said += [f"{model} was pretrained with {words}" for each, words in formats.items() if strategy.name == each]
        if said:
            notes[name] = "; ".join(said)
    return notes
