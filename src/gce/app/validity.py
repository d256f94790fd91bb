"""`gce validity`: numbers for four ways in which an evaluation can mislead, and the shortcut margin beside them."""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from attrs import evolve, frozen

from gce.adapters.durable_files import write_file
from gce.adapters.run_reader import CARD, RunReader, sealed
from gce.app.audit import best_of, shortcut_margins
from gce.app.config import from_plain as config_from_plain
from gce.app.evaluate import learned_from, restore
from gce.app.evaluation import Judged, accuracy, ask, check_coverage, stored_outcome, stored_shares
from gce.app.mode_tables import Measured, attempts
from gce.app.models import find_model
from gce.app.modes import MODES, Settings, converse
from gce.app.options import PATH, PROBLEMS, THREADS
from gce.app.resolve import find_task, same_file, say_if_many, stored_problem
from gce.app.terminal import Terminal, coverage_cell, put, put_json, share_cell, table
from gce.domain.diagnosis import falls, first_gains
from gce.domain.serialization import from_plain, to_plain
from gce.domain.statistics import mean_difference, mean_of_tiers, wilson
from gce.domain.tasks import Task, draw_problems
from gce.domain.types import Interval, IterationRecord, Problem
from gce.errors import BadInput
from gce.ports.model import Sampler

__all__ = ["Line", "add_arguments", "judge_steps", "run"]

DESCRIPTION = """\
Measure how far a run's result can be trusted, and keep the card in the run (validity.json, shown by gce report).

  distributional   fresh problems against the very problems that training sampled, and those of them in the
                   buffer (which the model had solved); held-out tiers; problems unlike those trained on
  temporal         how far any tier fell from its best, and when its first true gain came (a sequential test)
  scope            what a second and third attempt with feedback recover
  process          of right answers, how many have only true steps; of wrong ones, where the first false step stands
  shortcut margin  accuracy minus that of the best answer that ignores the problem
"""


@frozen
class Line:
    """A measured share or difference of shares."""

    what: str
    value: float
    low: float
    high: float
    n: int
    """0 where nothing was there to be measured."""
    failed: int = 0
    """Further answers, which could not be given or judged."""

    @property
    def coverage(self) -> float:
        """The share of all that were asked which did not fail."""
        return self.n / (self.n + self.failed) if self.failed else 1.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command line of `gce validity`."""
    parser.description = DESCRIPTION
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("run", type=PATH, metavar="RUN", help="a run directory of gce train that has ended")
    parser.add_argument(
        "--n", type=PROBLEMS, default=100, help="problems a tier for what has to be measured (default 100)"
    )
    parser.add_argument("--threads", type=THREADS, help="of CPU work (default: one for each core)")
    parser.add_argument("--json", action="store_true", help="print the card as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    say_if_many({"--n": arguments.n})
    with RunReader(arguments.run) as reader:
        facts = _Facts.read(reader)
        problems = reader.config.get("problems", "")
    config = config_from_plain({**facts.settings, "threads": arguments.threads})
    task = find_task(config.task, config.runner)
    same_file(config.task, problems)
    model = find_model(config, task)
    last = arguments.run / "checkpoints" / "last"
    restore(model, learned_from(last), last, config.model)
    if getattr(model, "policy", "") != facts.policy:
        raise BadInput(f"{config.model} with {last} is not the model that the run ended with: its weights are others")
    measuring = _Measuring(model, task, config.preset, arguments.n, config.max_tokens, Terminal())
    lines = [
        *_distributional(measuring, facts),
        *_scope(measuring),
        *_process(task, facts.answers),
        *_margins(facts),
    ]
    found = {"policy": facts.policy, "words": _temporal(facts), "lines": to_plain(lines), "n": arguments.n}
    card = sealed(found)
    path = arguments.run / CARD
    try:
        write_file(path, (json.dumps(card, indent=1) + "\n").encode())
    except OSError as error:
        raise BadInput(f"cannot write {path}: {error.strerror}") from error
    if arguments.json:
        put_json(card, indent=1)
    else:
        put(*table(["", "% (95 % interval)", "n", "coverage"], [_row(line) for line in lines]).split("\n"))
        put("", *card["words"])
    worst = min(lines, key=lambda line: line.coverage)
    check_coverage(worst.what, worst.failed, worst.n + worst.failed, config.min_coverage)
    return 0


def _row(line: Line) -> list[str]:
    share = share_cell(line.value, line.low, line.high) if line.n else "not judged"
    return [line.what, share, str(line.n), coverage_cell(line.coverage)]


@frozen
class _Facts:
    """What the run's records say."""

    settings: Mapping[str, Any]
    policy: str
    records: tuple[IterationRecord, ...]
    before: Mapping[str, Interval]
    after: Mapping[str, Interval]
    blind: Mapping[str, Interval]
    """The best answer that ignores the problem, in each tier of the same test problems."""
    drawn: tuple[str, ...]
    """Keys of the problems that training sampled."""
    in_buffer: frozenset[str]
    """Those of them that have traces in the buffer."""
    answers: tuple[dict[str, Any], ...]
    """To test problems, after training."""

    @classmethod
    def read(cls, reader: RunReader) -> _Facts:
        summary = reader.summary()
        if summary is None:
            raise BadInput(f"the run {reader.path} has not ended: let it end, or go on with gce train --resume")

        return cls(
            reader.settings,
            summary["policy"],
            tuple(from_plain(IterationRecord, record) for record in reader.read("iterations")),
            stored_shares(summary["before"]),
            stored_shares(summary["after"]),
            best_of({name: stored_shares(row) for name, row in summary["floors"].items()}),
            tuple(dict.fromkeys(rollout["problem"] for rollout in reader.read("rollouts"))),
            frozenset(trace["problem"] for trace in reader.read("traces")),
            tuple(reader.answers("test-after")),
        )


@frozen
class _Measuring:
    """How greedy accuracy is taken."""

    model: Any
    task: Task
    preset: str
    n: int
    max_tokens: int | None
    terminal: Terminal

    def ask(self, what: str, task: Task, problems: Sequence[Problem]) -> list[Judged]:
        """Greedy answers."""
        sampler: Sampler = self.model
        advance = self.terminal.stage(what, len(problems))
        return ask(sampler, task, problems, seed=0, max_tokens=self.max_tokens, on_answer=advance)

    def tests(self, task: Task, preset: str, tiers: Sequence[str]) -> list[Problem]:
        """Test problems."""
        return [problem for tier in tiers for problem in draw_problems(task, preset, tier, "test", self.n)]


def _mean(what: str, shares: Mapping[str, Interval]) -> Line:
    found = [share for share in shares.values() if share.n]
    failed = sum(share.failed for share in shares.values())
    if not found:
        return Line(what, 0.0, 0.0, 1.0, 0, failed)
    mean = mean_of_tiers(found)
    return Line(what, mean.value, mean.low, mean.high, sum(share.n for share in found), failed)


def _distributional(measuring: _Measuring, facts: _Facts) -> Iterator[Line]:
    """All means are over the tiers that training sampled, but for those that are held out."""
    task, preset = measuring.task, measuring.preset
    drawn: dict[str, list[Problem]] = {}
    met = set()
    for key in reversed(facts.drawn):
        problem = stored_problem(task, {"problem": key})
        if problem.digest not in met and len(drawn.setdefault(problem.tier, [])) < measuring.n:
            met.add(problem.digest)
            drawn[problem.tier].append(problem)
    trained = [tier for tier in task.training_tiers(preset) if tier in drawn]
    fresh = measuring.ask("fresh problems", task, measuring.tests(task, preset, trained))
    again = measuring.ask("trained on", task, [problem for tier in trained for problem in drawn[tier]])
    first, second = accuracy(fresh), accuracy(again)
    yield _mean("fresh problems of trained tiers", first)
    yield _mean("problems that training sampled", second)
    # A file may have tiers without test problems.
    both = [(second[tier], share) for tier, share in first.items() if share.n and second[tier].n]
    if both:
        apart = mean_difference(*zip(*both, strict=True))
        n = sum(share.n for pair in both for share in pair)
        yield Line("the second minus the first, points", apart.value, apart.low, apart.high, n)
    kept = [answer for answer in again if answer.problem.key in facts.in_buffer]
    yield _mean("those of them that are in the buffer", accuracy(kept))
    for tier in task.tiers(preset):
        if tier.held_out:
            asked = measuring.ask(tier.name, task, measuring.tests(task, preset, [tier.name]))
            yield _mean(f"held out: {tier.name}", accuracy(asked))
    taught = {(task.name, each) for each in (preset, *facts.settings.get("warm_up_also", ()))}
    for what, (name, other) in task.shifts.items():
        shifted, other = find_task(name), other or preset
        if (shifted.name, other) not in taught:
            tiers = [tier for tier in shifted.training_tiers(other) if tier in trained]
            asked = measuring.ask(what, shifted, measuring.tests(shifted, other, tiers))
            yield _mean(f"shift: {what}", accuracy(asked))


def _temporal(facts: _Facts) -> list[str]:
    """In sentences: the largest fall, and first true gains."""
    fell = falls(facts.records)
    looks = sum(bool(record.dev) for record in facts.records)
    if not looks:
        return ["Temporal: no dev problems were looked at during the run."]
    words = [f"Temporal: no tier ended below its best of {looks} looks at dev problems."]
    if fell:
        tier, worst = max(fell.items(), key=lambda item: item[1].best - item[1].last)
        points = 100 * (worst.best - worst.last)
        words = [f"Temporal: the largest fall is {points:.0f} points, {tier} since iteration {worst.iteration}."]
    if facts.before:
        gains = first_gains(facts.records, facts.before)
        listed = ", ".join(f"{tier} {'none' if when is None else when}" for tier, when in gains.items())
        words.append(f"First iteration of true gain (sequential test, 5 % for all tiers and looks): {listed}.")
    return words


def _scope(measuring: _Measuring) -> Iterator[Line]:
    task, preset = measuring.task, measuring.preset
    problems = measuring.tests(task, preset, [tier.name for tier in task.tiers(preset)])
    if not problems:
        return
    advance = measuring.terminal.stage("attempts", len(problems))
    mode = MODES["multi-turn"]
    settings = Settings(max_tokens=measuring.max_tokens)
    answers = converse(mode, measuring.model, task, problems, settings, on_answer=lambda *_: advance())
    found = attempts(Measured(tuple(answers), 0.0))
    failed = sum(answered.last.failed for answered in answers)
    yield evolve(_line("scope: right at the first attempt", found.first), failed=failed)
    yield _line("scope: right at the third at latest", found.trajectory)
    yield _line("scope: of wrong ones, recovered", found.recovered)


def _line(what: str, share: Interval) -> Line:
    return Line(what, share.share, share.low, share.high, share.n)


def _process(task: Task, answers: Sequence[Mapping[str, Any]]) -> Iterator[Line]:
    """Shares of answers by what their steps are, and how far into the reasoning the first false step stands."""
    kinds: dict[bool, list[str]] = {True: [], False: []}
    places = []
    for answer in answers:
        if stored_outcome(answer) == "failed":
            continue
        kind, place = judge_steps(task, stored_problem(task, answer), answer["text"])
        kinds[answer["right"]].append(kind)
        if not answer["right"] and place is not None:
            places.append(place)
    for right, name in ((True, "right"), (False, "wrong")):
        judged = [kind for kind in kinds[right] if kind != "not judged"]
        wanted = "true" if right else "false"
        said = "only true steps" if right else "a false step"
        yield _line(f"process: {name} answers with {said}", wilson(judged.count(wanted), len(judged)))
        skipped = len(kinds[right]) - len(judged)
        yield _line(f"process: {name} answers that cannot be judged", wilson(skipped, len(kinds[right])))
    if places:
        middle = statistics.median(places)
        low, high = (
            (statistics.quantiles(places, n=4, method="inclusive")[i] for i in (0, 2))
            if len(places) > 1
            else (middle, middle)
        )
        yield Line("process: where the first false step stands (median, quartiles)", middle, low, high, len(places))


def judge_steps(task: Task, problem: Problem, text: str) -> tuple[str, float | None]:
    """What the written steps are, and the place of the first false one in (0, 1].

    `true` where every step is, `false` where one is not, `not judged` where one cannot be read or none is written.
    """
    steps = task.judge_steps(problem, text)
    false = [place for place, step in enumerate(steps) if step.status == "false"]
    if false:
        return "false", (false[0] + 1) / len(steps)
    if not steps or any(step.status == "unreadable" for step in steps):
        return "not judged", None
    return "true", None


def _margins(facts: _Facts) -> Iterator[Line]:
    for tier, gap in shortcut_margins(facts.after, facts.blind).items():
        yield Line(f"shortcut margin, points: {tier}", gap.value, gap.low, gap.high, facts.after[tier].n)
