"""Transcripts of stored answers: what was asked, what was written, what the verifier found, and the reward.

Read from the records of a run or an evaluation alone, which hold the prompts; problems are drawn again for their
reasoning steps to be judged. Knows neither pages nor terminals.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from attrs import field, frozen

from gce.app.evaluation.scoring import stored_outcome, stored_reward
from gce.app.evaluation.stored_runs import stored_settings
from gce.app.wiring.names import TRAINED, is_given, plain_name
from gce.app.wiring.tasks import find_task, same_problems, stored_problem
from gce.domain.marks import Piece, pieces
from gce.domain.measurements import UNPARSED
from gce.domain.prefix_values import PrefixValues
from gce.domain.problems import Message, Problem, ProblemId
from gce.domain.randomness import key
from gce.domain.serialization import OMIT_DEFAULT, from_plain
from gce.domain.strategies.single_turn import ZERO_SHOT
from gce.domain.tasks import ProblemSource, Task
from gce.domain.traces import trace_of_record
from gce.domain.verdicts import Step
from gce.errors import BadInput, one_line
from gce.ports.runs import AnswerReader

__all__ = [
    "MOMENTS",
    "OUTCOMES",
    "Fault",
    "Sample",
    "StoredAnswer",
    "Transcript",
    "find_answers",
    "moments_of",
    "sample_answers",
    "stored_answers",
    "task_of",
    "transcript",
    "transcripts_of",
]

MOMENTS = ("after", "before", "rollouts")
"""Of a run: answers to test problems after and before training, and training rollouts."""
OUTCOMES = ("right", "wrong", "unreadable", "truncated", "failed")
"""Those that failed (a server, a sandbox or the verifier could not do its part) are in no rate."""
MOST_NAMED = 8
"""Candidates that are listed where a name fits several problems."""
MOST_OF_A_PROBLEM = 1_000
"""Answers to one problem that are found."""


@frozen
class StoredAnswer:
    """An answer as it was stored."""

    moment: str
    number: int
    """Its place among the answers of its moment, from 0."""
    record: Mapping[str, Any] = field(repr=False)

    @property
    def problem(self) -> str:
        """The problem's key."""
        return str(self.record["problem"])

    @property
    def tier(self) -> str:
        """The problem's tier."""
        return str(self.record["tier"])

    @property
    def outcome(self) -> str:
        """One of `OUTCOMES`; truncated are answers that reached the maximum tokens and are not right."""
        found = stored_outcome(self.record)
        if found in ("right", "failed"):
            return found
        if self.record["finish_reason"] == "length":
            return "truncated"
        unparsed = any(fault.kind in UNPARSED for fault in _faults(self.record))
        return "unreadable" if found == "unreadable" or unparsed else "wrong"


@frozen
class Fault:
    """A violation that a verdict names."""

    kind: str
    message: str
    about: tuple[str, ...]
    """Labels of what it concerns."""


@frozen
class Transcript:
    """All that there is to see of one answer."""

    problem: str
    moment: str
    tier: str
    outcome: str
    iteration: int | None
    """Of a rollout."""
    reward: float | None
    """In [0, 1]; None where it failed."""
    prompt: tuple[Message, ...]
    """What the model was shown; empty where the problem cannot be drawn again."""
    text: str
    answer: tuple[Piece, ...]
    """The text in pieces, some of them marked for violations by their numbers."""
    verdicts: tuple[str, ...]
    """Each evaluator and what it said."""
    faults: tuple[Fault, ...]
    steps: tuple[Step, ...]
    """The reasoning, where the task can judge it."""
    finish_reason: str
    tokens: int | None
    policy: str
    """SHA-256 of the weights that wrote it, or the model's name."""
    notes: tuple[str, ...] = ()
    """What is missing, and why."""
    reasoning: str = field(default="", metadata=OMIT_DEFAULT)
    """What the backend reported apart from the answer."""

    values: PrefixValues | None = field(default=None, metadata=OMIT_DEFAULT)
    """Of its prefixes, where a run has measured them."""

    @property
    def within_task(self) -> str:
        """The problem's name without its task."""
        return _within_task(self.problem)

    def place(self, tiers: Sequence[str]) -> tuple[int, ...]:
        """Where it stands in a report, by tier, moment and outcome."""
        moments = (*MOMENTS, self.moment)  # Strategies of an evaluation come behind those of a run.
        return tiers.index(self.tier), moments.index(self.moment), OUTCOMES.index(self.outcome)


@frozen
class Sample:
    """Some answers of each kind, and how many there are."""

    counts: Mapping[tuple[str, str], Mapping[str, int]]
    """By moment and tier, answers by outcome."""
    chosen: tuple[StoredAnswer, ...]
    """First one of each kind, then the second ones."""


def moments_of(run: AnswerReader, moment: str | None = None) -> tuple[str, ...]:
    """`MOMENTS`, of an evaluation its strategies; or the one that was asked for, BadInput where there is no such."""
    known = tuple(run.config.get("strategies", MOMENTS))
    if moment is not None and moment not in known:
        raise BadInput(f"expected a moment of {run.name} from {', '.join(known)}, got {moment!r}")
    return known if moment is None else (moment,)


def stored_answers(run: AnswerReader, moments: Sequence[str] = ()) -> Iterator[StoredAnswer]:
    """All answers of these moments, by default of all, one after another, so that they need not fit in memory."""
    for moment in moments or moments_of(run):
        name = f"test-{moment}" if moment in MOMENTS else moment
        records = run.read(moment) if moment == "rollouts" else run.each_answer(name)
        for number, record in enumerate(records):
            yield StoredAnswer(moment, number, record)


def sample_answers(answers: Iterable[StoredAnswer], *, seed: int, each: int) -> Sample:
    """At most `each` answers of every moment, tier and outcome: the same ones whenever `seed` and the answers are."""
    counts: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    kept: dict[tuple[str, str, str], list[tuple[int, StoredAnswer]]] = defaultdict(list)
    for answer in answers:
        outcome = answer.outcome
        counts[answer.moment, answer.tier][outcome] += 1
        cell = kept[answer.moment, answer.tier, outcome]
        cell.append((key(seed, "transcript", answer.moment, answer.problem, answer.number), answer))
        cell.sort(key=lambda found: found[0])
        del cell[each:]
    chosen = [cell[rank][1] for rank in range(each) for cell in kept.values() if rank < len(cell)]
    return Sample(dict(counts), tuple(chosen))


def find_answers(run: AnswerReader, name: str, moment: str | None = None) -> list[StoredAnswer]:
    """The answers to the one problem that `name` names, at one moment, or at all that have it.

    A name is a problem's key, the key without the task, a rollout's own key, TIER/INDEX, or a part of the key between
    slashes. Without a moment, rollouts are looked at only where no test problem is named.

    Raises:
        BadInput: no problem is named, or several are.
    """
    asked = moments_of(run, moment)
    tested = tuple(each for each in asked if each != "rollouts")
    for moments in filter(None, (tested, asked[len(tested) :])):
        found = _named(stored_answers(run, moments), name)
        if len(found) > 1:
            shown = [_within_task(problem) for problem in list(found)[:MOST_NAMED]]
            more = f" and {len(found) - len(shown):,} more" if len(found) > len(shown) else ""
            raise BadInput(f"expected one problem, {name!r} fits {', '.join(shown)}{more}: give one of these")
        if found:
            return next(iter(found.values()))
    where = f" at the moment {moment}" if moment else ""
    raise BadInput(f"{run.name} has no answer to a problem {name!r}{where}: gce transcript RUN lists some")


def _named(answers: Iterable[StoredAnswer], name: str) -> dict[str, list[StoredAnswer]]:
    """Answers by problem: of those whose key it is; else of those whose tier and index; else of those it is part of."""
    found: tuple[dict[str, list[StoredAnswer]], ...] = ({}, {}, {})
    for answer in answers:
        key = answer.problem
        fits = (
            name in (key, _within_task(key), answer.record.get("key")),
            name == f"{answer.tier}/{key.rpartition('/')[2]}",
            f"/{name.strip('/')}/" in f"/{key}/",
        )
        if any(fits):
            fitting = found[fits.index(True)]
            same = fitting.setdefault(key, [])
            # Where several problems fit, they are named and no more.
            if len(fitting) == 1 and len(same) < MOST_OF_A_PROBLEM:
                same.append(answer)
    return next(filter(None, found), {})


def task_of(run: AnswerReader, given: Task | None = None) -> Task:
    """The task that a run was made with: found by its name, or `given` where it was given from Python.

    Raises:
        BadInput: it is not found, or its problems are not those of the run.
    """
    name = stored_settings(run).task
    if given is None and is_given(name):
        own = plain_name(name)
        raise BadInput(f"the task {own!r} was given from Python, not by a name, and gce.report(run, task=...) takes it")
    task = given or find_task(name)
    same_problems(name, task, run.config.get("problems", ""))
    return task


def transcripts_of(
    run: AnswerReader,
    chosen: Sequence[StoredAnswer],
    given: Task | None = None,
    *,
    source: ProblemSource | None = None,
) -> list[Transcript]:
    """A transcript of each answer; where its problem cannot be drawn again, one that says so.

    `given` is as in `task_of`; `source` draws the problems of its task instead of a new one.
    """
    missing = ""
    try:
        source = source or ProblemSource(task_of(run, given))
    except BadInput as error:
        missing = str(error)
    said = _conversations(run, chosen)
    return [transcript(answer, source, missing, shown=said.get(answer.record.get("key", ""), ())) for answer in chosen]


def transcript(
    answer: StoredAnswer, source: ProblemSource | None, missing: str = "", *, shown: tuple[Message, ...] = ()
) -> Transcript:
    """The transcript of one answer.

    `missing` says why there is no source to draw its problem from; `shown` is what the model read, where it is known.
    """
    record, notes = answer.record, []
    problem: Problem | None = None
    try:
        if source is not None:
            problem = stored_problem(source, record)
    except Exception as error:  # Its draw may be anybody's.
        missing = one_line(error)
    if problem is None:
        notes.append(f"The problem cannot be regenerated: {missing}.")
    prompt = tuple(from_plain(Message, each) for each in record.get("prompt", ()))
    prompt = shown or prompt or (problem.prompt if problem else ())
    if record.get("shown") and not shown:
        notes.append("The model saw few-shot examples before this prompt; they are not stored.")
    if not shown and answer.moment not in (*MOMENTS, ZERO_SHOT.name, TRAINED):
        notes.append(f"What the strategy {answer.moment} shows besides this prompt is not stored.")
    steps: tuple[Step, ...] = ()
    if problem is not None and source is not None:
        try:
            steps = source.task.judge_steps(problem, record["text"])
        except Exception as error:
            notes.append(f"The reasoning steps could not be judged: {one_line(error)}.")
    faults = _faults(record)
    return Transcript(
        problem=answer.problem,
        moment=answer.moment,
        tier=answer.tier,
        outcome=answer.outcome,
        iteration=record.get("iteration"),
        reward=stored_reward(record),
        prompt=prompt,
        text=record["text"],
        reasoning=record.get("reasoning", ""),
        answer=pieces(record["text"], [(fault.about, fault.message) for fault in faults]),
        verdicts=tuple(map(_said_of, record["verdicts"])),
        faults=faults,
        steps=steps,
        finish_reason=record["finish_reason"],
        tokens=record.get("tokens"),
        policy=record["policy"],
        notes=tuple(notes),
        values=from_plain(PrefixValues, record["values"]) if "values" in record else None,
    )


def _said_of(verdict: Mapping[str, Any]) -> str:
    """What an evaluator says: its score, if it stands beside the task's own verdicts."""
    if not verdict.get("beside"):
        return f"{verdict['evaluator']}: {verdict['status']}"
    score = verdict["score"]
    return f"{verdict['evaluator']}: {'no score' if score is None else format(score, '.3f')}"


def _faults(record: Mapping[str, Any]) -> tuple[Fault, ...]:
    return tuple(
        # Version 0.1.0 called the labels jobs.
        Fault(found["kind"], found["message"], tuple(found.get("about") or found.get("jobs") or ()))
        for verdict in record["verdicts"]
        for found in verdict["violations"]
    )


def _conversations(run: AnswerReader, chosen: Iterable[StoredAnswer]) -> dict[str, tuple[Message, ...]]:
    """Of rollouts that were more than a prompt and an answer: all before the answer, which admitted traces keep."""
    wanted = {
        answer.record["key"]
        for answer in chosen
        if answer.record.get("admitted") and (answer.record.get("shown") or answer.record.get("replies", 1) > 1)
    }
    if not wanted:
        return {}
    traces = (record for record in run.read("traces") if record["key"] in wanted)
    return {record["key"]: trace_of_record(record).messages for record in traces}


def _within_task(problem: str) -> str:
    try:
        return ProblemId.parse(problem).within_task
    except ValueError:
        return problem
