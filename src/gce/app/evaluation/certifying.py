"""A certificate of a task: what was checked of its splits, its verifier and its problems, with counts and limits.

A line passes, fails, or does not apply, and then says why. It also says what its check cannot show. Nothing here asks a
model.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any, Literal, get_args

from attrs import evolve, frozen

from gce.app.evaluation import baselines
from gce.app.evaluation.checking import check, hold_to
from gce.app.evaluation.scoring import MIN_COVERAGE, check_answers, check_coverage, judge_each
from gce.app.evaluation.shown_problem import plain_problem
from gce.app.options import FITTED, NAME, PROBLEMS_PRINTED, RESPONSES
from gce.app.shown import Part, html_of, lines_of
from gce.app.terminal import put_json
from gce.app.training.records import versions
from gce.app.wiring.again import in_another_process, source_digests
from gce.app.wiring.evaluators import find_evaluator
from gce.app.wiring.sandboxes import AUTO
from gce.app.wiring.solvers import find_solve
from gce.app.wiring.tasks import find_preset, find_task, problems_digest
from gce.domain.baselines import limit_of
from gce.domain.completions import Completion
from gce.domain.figures import Table
from gce.domain.measurements import Interval
from gce.domain.near_duplicates import COMMON, LEAST_SIMILARITY, RUN, near_duplicates
from gce.domain.outcomes import rate
from gce.domain.problems import Problem, Split
from gce.domain.serialization import to_plain
from gce.domain.tasks import Listed, ProblemSource, Task
from gce.domain.text import counted
from gce.errors import GceError, one_line
from gce.ports.evaluator import Evaluator
from gce.testing.verifiers.check import TaskReport
from gce.testing.verifiers.responses import CONSTANTS, HOSTILE

__all__ = ["ELSEWHERE", "Certificate", "Line", "certify"]

FORMAT = 1
HASH_SEEDS = (0, 1, 4_242)
"""Of the processes in which problems and verdicts are made again."""
JUDGED = 5
"""Problems of a tier whose answers are judged in every process."""
NAMED = 3
"""Examples that a line names."""
SECONDS = 600.0
"""Wall-clock limit of each other process."""
ELSEWHERE = "determinism: in a new process"
"""How the check begins to say that it asked no other process, which another line does."""
Result = Literal["pass", "fail", "not applicable"]
Say = Callable[[str], None]


@frozen
class Line:
    """One check."""

    check: str
    n: int
    """How many of what `found` counts were checked."""
    result: Result
    found: str
    """What was found; where the check does not apply, why."""
    limit: str
    """What the check cannot show."""


@frozen(repr=False)
class Certificate:
    """What was checked of a task. Printed, it is the table of `gce certify`."""

    task: str
    preset: str
    asked: int
    """Problems of each tier and split that were asked for."""
    lines: tuple[Line, ...]
    versions: Mapping[str, str]
    digests: Mapping[str, str]
    """SHA-256 of sources, of a list of problems, and of the problems that were checked."""

    @property
    def ok(self) -> bool:
        """Whether no line fails."""
        return all(line.result != "fail" for line in self.lines)

    @property
    def plain(self) -> dict[str, Any]:
        """Plain data, as the file holds it."""
        return {"certificate": FORMAT, "ok": self.ok, **to_plain(self)}

    def __str__(self) -> str:
        return "\n".join(lines_of(self._parts()))

    def __repr__(self) -> str:
        return f"<certificate of {self.task}/{self.preset}: {'ok' if self.ok else 'failed'}>"

    def _repr_html_(self) -> str:
        return html_of(self._parts())

    def _parts(self) -> list[Part]:
        rows = tuple((line.check, line.result, f"{line.n:,}") for line in self.lines)
        parts: list[Part] = [f"{self.task}/{self.preset}: at most {self.asked} problems of each tier and split", ""]
        parts += [Table(("check", "result", "n"), rows), ""]
        parts += [f"{line.check}: {line.found}. Limit: {line.limit}." for line in self.lines]
        parts += ["", *(f"{name} {version}" for name, version in self.versions.items())]
        return parts + [f"SHA-256 of {what}: {digest}" for what, digest in self.digests.items()]


def certify(
    task: str,
    *,
    preset: str | None = None,
    n: int = 50,
    responses: int = 2_000,
    audited: int = 500,
    runner: str = AUTO,
    report: TaskReport | None = None,
    hash_seeds: Sequence[int] | None = None,
    lenient: bool = False,
    say: Say = lambda _said: None,
) -> Certificate:
    """Check a task's splits, verifier, baselines and problems.

    Args:
        task: the task's name; other processes find it by that, too.
        preset: set of tiers; None takes the task's first.
        n: problems of each tier and split.
        responses: generated responses with which the verifier is attacked.
        audited: test problems, and training problems, of each tier for prompt-blind baselines.
        runner: where programs are run that answers consist of.
        report: what `gce check` found of this task and preset, where it was asked already; None asks it.
        hash_seeds: of the other processes in which problems and verdicts are made again; None takes `HASH_SEEDS`.
        lenient: whether a check that cannot be made, as where too many answers could not be judged, does not apply and
            says why, instead of ending all.
        say: told of each check before it begins.

    Raises:
        BadInput: a name or a value that cannot be used.
        LowCoverage: too many answers could not be judged.
    """
    hold_to({"task": (NAME, task), "n": (PROBLEMS_PRINTED, n), "responses": (RESPONSES, responses)})
    hold_to({"audited": (FITTED, audited)})
    found = find_task(task)
    chosen = find_preset(found, preset or "")
    say("drawing problems")
    evaluator, drawn = find_evaluator(found, runner), _drawn(found, chosen, n)
    work = _Work(
        task, found, chosen, responses, audited, runner, evaluator, drawn, report, hash_seeds or HASH_SEEDS, say
    )
    lines = tuple(line for check in CHECKS for line in (_leniently(check, work) if lenient else check(work)))
    digests = source_digests(task)
    if listed := problems_digest(task, found):
        digests["the list of problems"] = listed
    shown = json.dumps([plain_problem(problem) for problem in work.every], sort_keys=True)
    digests["the problems checked"] = sha256(shown.encode()).hexdigest()
    return Certificate(task, chosen, n, lines, versions(), digests)


@frozen(eq=False)
class _Work:
    """What all checks have in common."""

    name: str
    task: Task
    preset: str
    responses: int
    audited: int
    runner: str
    evaluator: Evaluator
    drawn: Mapping[Split, tuple[Problem, ...]]
    report: TaskReport | None
    hash_seeds: Sequence[int]
    say: Say

    @property
    def every(self) -> tuple[Problem, ...]:
        return tuple(problem for of_split in self.drawn.values() for problem in of_split)

    def oracle(self, problem: Problem) -> str | None:
        """The task's own right answer, of an exact solver where its demonstrations take one."""
        return self.task.teaching.demonstration(problem, find_solve("solver"))


def _drawn(task: Task, preset: str, n: int) -> dict[Split, tuple[Problem, ...]]:
    source = ProblemSource(task)
    trained = task.training_tiers(preset)
    found: dict[Split, tuple[Problem, ...]] = {}
    for split in get_args(Split):
        tiers = trained if split == "train" else [tier.name for tier in task.tiers(preset)]
        found[split] = tuple(problem for tier in tiers for problem in source.first(preset, tier, split, n))
    return found


def _leniently(check: Callable[[_Work], Iterator[Line]], work: _Work) -> Iterator[Line]:
    """Its lines until it cannot go on, and then one that says why."""
    try:
        yield from check(work)
    except GceError as error:
        yield Line(check.__name__.strip("_"), 0, "not applicable", one_line(error), "-")


def _splits(work: _Work) -> Iterator[Line]:
    """No problem of one split in another."""
    work.say("comparing splits")
    splits: dict[str, set[Split]] = defaultdict(set)
    for split, problems in work.drawn.items():
        for problem in problems:
            splits[problem.digest].add(split)
    shared = [digest for digest, found in splits.items() if len(found) > 1]
    examples = [problem.key for problem in work.every if problem.digest in shared]
    yield Line(
        "splits disjoint, by digest",
        len(splits),
        "fail" if shared else "pass",
        f"{len(shared)} of {len(splits):,} digests in more than one split{_named(examples)}",
        "equal means what the task's digest calls equal; only the problems drawn here were compared"
        + ("" if isinstance(work.task.draw, Listed) else ", and other ones fall into quarters of the space of digests"),
    )
    if not work.drawn["train"]:
        yield Line("near-duplicates", 0, "not applicable", "the task has no training problems", "-")
        return
    tested = _texts((*work.drawn["test"], *work.drawn["dev"]))
    near = near_duplicates(_texts(work.drawn["train"]), tested)
    examples = [f"{each.other} and {each.one}" for each in near.found]
    template = f"; {near.template:,} consist of the template alone" if near.template else ""
    yield Line(
        "near-duplicates",
        near.compared,
        "not applicable" if not near.compared else "fail" if near.found else "pass",
        f"{len(near.found)} of {near.compared:,} dev and test prompts like a training prompt{_named(examples)}; "
        f"highest similarity {near.highest:.2f}{template}",
        f"runs of {RUN} words that at most {COMMON:.0%} of the prompts have, Jaccard similarity from "
        f"{LEAST_SIMILARITY:g}; paraphrases are not found",
    )


def _oracle(work: _Work) -> Iterator[Line]:
    """The task's own answers are right."""
    work.say("judging oracle answers")
    answers = [(problem, text) for problem in work.every if (text := work.oracle(problem)) is not None]
    check = "oracle answers accepted"
    if not answers:
        yield Line(check, 0, "not applicable", "the task declares no demonstrations and no own answers", "-")
        return
    pairs = ((problem, Completion(problem.key, text, "stop", policy="oracle")) for problem, text in answers)
    judged = list(judge_each(work.task, work.evaluator, pairs))
    check_answers("oracle answers", judged, MIN_COVERAGE)
    refused = [each.problem.key for each in judged if not each.right and not each.failed]
    share: Interval = rate([each.outcome for each in judged])
    yield Line(
        check,
        share.n,
        "fail" if refused else "pass",
        f"{share.correct:,} of {share.n:,} right{_named(refused)}; {len(work.every) - len(answers):,} have none",
        f"up to {100 * (1 - share.low):.1f} % refused is possible (95 %); other right answers were not tried",
    )


def _attacked(work: _Work) -> Iterator[Line]:
    """What `gce check` finds."""
    work.say("attacking the verifier")
    report = work.report or check(
        work.task, preset=work.preset, responses=work.responses, runner=work.runner, problems=JUDGED, progress=False
    )
    check_coverage("verdicts", sum(report.failed.values()), report.verdicts, MIN_COVERAGE, report.failed)
    found = ", ".join(f"{name} {count:,}" for name, count in report.found.items())
    yield Line(
        "verifier withstands gce check",
        report.verdicts,
        "pass" if report.ok else "fail",
        f"findings: {found or 'none'}; exploits {report.exploits.correct:,} of {report.exploits.n:,}"
        + "".join(f"; not checked: {one_line(each)}" for each in report.not_checked if not each.startswith(ELSEWHERE)),
        f"an exploit rate of up to {100 * report.exploits.high:.2f} % among such responses is possible (95 %)",
    )


def _elsewhere(work: _Work) -> Iterator[Line]:
    """The same verdicts, and the same problems from their keys, in other processes and under other hash seeds."""
    work.say("drawing and judging in other processes")
    varies = work.task.audit.varies or not work.evaluator.deterministic
    answers = [] if varies else list(_answers(work))
    given = {"keys": [each.key for each in work.every], "answers": [(problem.key, text) for problem, text in answers]}
    runs = [_in_process(work, seed, given) for seed in work.hash_seeds]
    others = counted(len(runs), "other process", "es")
    seeds = f"{others} with PYTHONHASHSEED {', '.join(map(str, work.hash_seeds))}"
    yield _replayed(work, [each["problems"] for each in runs], seeds)
    here = json.loads(json.dumps(_judged(work.task, work.evaluator, answers)))
    yield _deterministic(answers, [here, *(each["judged"] for each in runs)], f"this one and {seeds}")


def _judged(task: Task, evaluator: Evaluator, answers: Sequence[tuple[Problem, str]]) -> list[dict[str, Any]]:
    """What is said of each answer, without measures."""
    completions = (
        (problem, Completion(str(place), text, "stop", policy="certify"))
        for place, (problem, text) in enumerate(answers)
    )
    return [
        {
            "outcome": each.outcome,
            "right": each.right,
            "verdicts": to_plain([evolve(verdict, measures={}) for verdict in each.verdicts]),
        }
        for each in judge_each(task, evaluator, completions)
    ]


def _in_process(work: _Work, hash_seed: int, given: Mapping[str, Any]) -> dict[str, Any]:
    """What `_main` prints in a process with this hash seed."""
    words, sent = (__name__, work.name, work.runner), json.dumps(given).encode("ascii")
    output = in_another_process(words, hash_seed=hash_seed, seconds=SECONDS, given=sent)
    found: dict[str, Any] = json.loads(output.strip().rpartition(b"\n")[2])
    return found


def _deterministic(answers: Sequence[tuple[Problem, str]], runs: Sequence[Sequence[Any]], seeds: str) -> Line:
    """`runs`: what each process says of each answer."""
    check = "verifier deterministic over processes and hash seeds"
    if not answers:
        return Line(check, 0, "not applicable", "the task says that its verdicts vary, as those of times do", "-")
    failed = sum(each["outcome"] == "failed" for run in runs for each in run)
    check_coverage("verdicts in other processes", failed, len(answers) * len(runs), MIN_COVERAGE)
    different = [
        f"{problem.key} with {text[:30]!r}"
        for (problem, text), *found in zip(answers, *runs, strict=True)
        if not any(each["outcome"] == "failed" for each in found) and any(each != found[0] for each in found[1:])
    ]
    right = sum(each["right"] for each in runs[0])
    return Line(
        check,
        len(answers),
        "fail" if different else "pass",
        f"{len(different)} of {len(answers):,} verdicts differ between {seeds}{_named(different)}; "
        f"{right:,} of the answers are right",
        "the same machine and the same versions; measures, which may hold times, are not compared",
    )


def _replayed(work: _Work, runs: Sequence[Sequence[Any]], seeds: str) -> Line:
    """Problems drawn again from their keys, here and in other processes."""
    expected = {problem.key: _as_json(problem) for problem in work.every}
    again = ProblemSource(work.task)
    drawn = {each.key: again.redraw(each.key) for each in work.every if each.id.index < JUDGED}
    different = {key for key, problem in drawn.items() if _as_json(problem) != expected[key]}
    for found in runs:
        different |= {key for key, problem in zip(expected, found, strict=True) if problem != expected[key]}
    return Line(
        "problems replayed from their keys",
        len(expected),
        "fail" if different else "pass",
        f"{len(different)} of {len(expected):,} problems differ in {seeds}{_named(sorted(different))}",
        "the same machine and the same versions",
    )


def _as_json(problem: Problem) -> Any:
    return json.loads(json.dumps(plain_problem(problem)))


def _answers(work: _Work) -> Iterator[tuple[Problem, str]]:
    """Oracle answers, those of a neighbour, the prompt, and hostile texts, for the first problems of each tier."""
    by_tier: dict[str, list[Problem]] = defaultdict(list)
    for problem in work.drawn["test"] or work.every:
        by_tier[problem.tier].append(problem)
    for problems in by_tier.values():
        chosen = problems[:JUDGED]
        for problem, neighbour in zip(chosen, [*chosen[1:], chosen[0]], strict=True):
            own = [text for each in (problem, neighbour) if (text := work.oracle(each)) is not None]
            for text in (*own, _prompt(problem), *map(work.task.audit.write, CONSTANTS), *HOSTILE):
                yield problem, text


def _blind(work: _Work) -> Iterator[Line]:
    """What answers that ignore the problem score."""
    work.say("scoring prompt-blind baselines")
    tiers, n = [tier.name for tier in work.task.tiers(work.preset)], work.audited
    report = baselines.audit(work.task, work.evaluator, work.preset, tiers, problems=n, fitted_to=n)
    check = "prompt-blind baselines below their limits"
    limited = [score for score in report.prompt_blind if limit_of(work.task, work.preset, score.tier) < 1.0]
    if not limited:
        why = "the task declares no limits" if report.prompt_blind else "the task has no prompt-blind baselines"
        yield Line(check, 0, "not applicable", why, "-")
        return
    baselines.check_references(report.tier_shares, MIN_COVERAGE)
    above = [f"{score.policy} on {score.group}" for score in report.above_limit]
    best = max((score for score in limited if score.share.n), key=lambda score: score.share.share)
    bound = "lower" if work.task.references.assumed else "upper"
    yield Line(
        check,
        sum(report.problems.values()),
        "fail" if above else "pass",
        f"{len(above)} of {len(limited):,} rates above their limit{_named(above)}; highest: {best.policy} on "
        f"{best.group}, {100 * best.share.share:.1f} % ({100 * best.share.low:.1f} to {100 * best.share.high:.1f})",
        f"the {bound} 95 % bound is held to the limit, so few problems prove little; other baselines were not tried",
    )


CHECKS: Sequence[Callable[[_Work], Iterator[Line]]] = (*(_splits, _oracle, _attacked, _blind, _elsewhere),)


def _texts(problems: Sequence[Problem]) -> dict[str, str]:
    return {problem.key: _prompt(problem) for problem in problems}


def _prompt(problem: Problem) -> str:
    return "\n".join(message.content for message in problem.prompt)


def _named(examples: Sequence[str]) -> str:
    more = f" and {len(examples) - NAMED:,} more" if len(examples) > NAMED else ""
    return f" ({', '.join(examples[:NAMED])}{more})" if examples else ""


def _main() -> None:
    """Read keys and answers from standard input, draw the problems again, judge the answers, and print both."""
    given, task = json.load(sys.stdin), find_task(sys.argv[1])
    source, evaluator = ProblemSource(task), find_evaluator(task, sys.argv[2])
    problems = {key: source.redraw(key) for key in given["keys"]}
    judged = _judged(task, evaluator, [(problems[key], text) for key, text in given["answers"]])
    put_json({"problems": [plain_problem(each) for each in problems.values()], "judged": judged})


if __name__ == "__main__":
    _main()
