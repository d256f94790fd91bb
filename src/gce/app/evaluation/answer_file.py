"""A file of an evaluation's answers: a resumable JSONL file, one line per conversation, written as answers arrive.

The first line describes the evaluation. An incomplete last line is dropped. A failed answer is asked again by the next
command.
"""

from __future__ import annotations

import fcntl
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext, suppress
from io import FileIO
from pathlib import Path
from types import TracebackType
from typing import Any

from attrs import field, fields, frozen

from gce.app.evaluation.scoring import answer_record, stored_reward
from gce.app.wiring.files import check_appended
from gce.app.wiring.runs import open_run
from gce.domain.answers import Answer, Reading
from gce.domain.completions import Completion, FinishReason
from gce.domain.conversations import Conversation
from gce.domain.problems import Message, Problem, ProblemId
from gce.domain.serialization import from_plain, to_plain
from gce.domain.verdicts import Status, Verdict
from gce.errors import BadInput
from gce.ports.runs import AnswerReader

__all__ = [
    "MOMENT_HELP",
    "SOURCE_HELP",
    "AnswerFile",
    "open_answers",
    "stored_answer",
    "stored_conversations",
    "stored_setting",
]

SOURCE_HELP = "a run directory of gce train, or a file of gce evaluate --answers or of gce answers --to jsonl"
MOMENT_HELP = (
    "only answers to test problems after or before training, or rollouts; of a file, those of a strategy (default: all)"
)

_NOT_OURS = (ValueError, LookupError, TypeError, AttributeError, RecursionError)
"""What reading a line of another program's file raises."""


def _not_finite(name: str) -> float:
    raise ValueError(f"expected finite numbers, got {name}")


def stored_setting(path: Path, name: str) -> Any:
    """Return a setting of the evaluation whose answers a file keeps; None if it has none, or there is no such file."""
    with suppress(OSError, *_NOT_OURS), path.open("rb") as file:  # `AnswerFile` says what is wrong with it.
        return json.loads(file.readline(2**24))["evaluation"].get(name)
    return None


class AnswerFile:
    """The answers of one evaluation; a context manager."""

    def __init__(self, path: Path, asked: Mapping[str, Any], problems: Sequence[Problem]) -> None:
        """Open or create `path` for the evaluation that `asked` describes in plain data.

        Raises:
            BadInput: the file cannot be written, another process writes it, it is another kind of file, or it holds
                answers of another evaluation.
        """
        self._path = path
        self._problems = {problem.key: problem for problem in problems}
        self._done: dict[tuple[str, str], dict[str, Conversation]] = {}
        self._seconds: dict[str, float] = {}
        header = json.loads(json.dumps({"evaluation": dict(asked)}))
        with ExitStack() as opened:
            check_appended(path, instead="give another {answers}")
            try:
                # Unbuffered, so that closing the file does not repeat a failed write.
                self._file: FileIO = opened.enter_context(FileIO(path, "a+"))
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                whole = self._read(header)
                self._file.truncate(whole)
                if not whole:
                    self._write(header)
            except BlockingIOError as error:
                raise BadInput(
                    f"another evaluation writes {path}", hint="wait until it ends, or give another {answers}"
                ) from error
            except OSError as error:
                raise BadInput(f"cannot write {path}: {error.strerror}") from error
            opened.pop_all()

    def __enter__(self) -> AnswerFile:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._file.close()

    def done(self, mode: str, digest: str = "") -> Mapping[str, Conversation]:
        """Return the stored conversations of a strategy, by name; `digest` is of the file that describes it."""
        return self._done.get((mode, digest), {})

    def seconds(self, mode: str) -> float:
        """Return the total seconds of a strategy's conversations."""
        return self._seconds.get(mode, 0.0)

    def add(self, mode: str, name: str, conversation: Conversation, seconds: float, digest: str = "") -> None:
        """Write a conversation that took `seconds` after the previous one."""
        record = {
            "mode": mode,
            "name": name,
            "problem": conversation.last.problem.key,
            "digest": conversation.last.problem.digest,
            "tier": conversation.last.problem.tier,
            "right": conversation.last.right,
            "outcome": conversation.last.outcome,
            "replies": conversation.replies,
            "prompt_tokens": conversation.prompt_tokens,
            "tokens": conversation.tokens,
            "seconds": seconds,
            **({"scored": conversation.scored} if conversation.scored else {}),
            **({"described_by": digest} if digest else {}),
            "attempts": [_record(attempt, self._problems[attempt.problem.key]) for attempt in conversation.attempts],
        }
        try:
            self._write(record)
        except OSError as error:
            raise BadInput(f"cannot write {self._path}: {error.strerror}; what it has so far is kept") from error

    def _write(self, record: Mapping[str, Any]) -> None:
        line = memoryview((json.dumps(record) + "\n").encode())
        while line:
            line = line[self._file.write(line) :]

    def _read(self, header: Mapping[str, Any]) -> int:
        """Read the stored conversations; return the number of bytes in complete lines."""
        whole = 0
        with self._path.open("rb") as lines:
            for number, line in enumerate(lines):
                if not line.endswith(b"\n") and (number or (json.dumps(header) + "\n").encode().startswith(line)):
                    break  # Incomplete: cut off while it was written.
                try:
                    record = json.loads(line)
                    if number == 0:
                        self._check(header, record["evaluation"])
                    else:
                        self._take(record)
                except _NOT_OURS as error:
                    raise BadInput(
                        f"line {number + 1} of {self._path} is no answer of an evaluation",
                        hint="give another {answers}",
                    ) from error
                whole += len(line)
        return whole

    def _check(self, header: Mapping[str, Any], found: Mapping[str, Any]) -> None:
        expected = header["evaluation"]
        for name in sorted({*expected, *found}):
            if expected.get(name) != found.get(name):
                raise BadInput(
                    f"{self._path} has answers of another evaluation: its {name} is {found.get(name)!r}, "
                    f"not {expected.get(name)!r}",
                    hint="give another {answers}",
                )

    def _take(self, record: Mapping[str, Any]) -> None:
        conversation = _conversation(record, map(self._attempt, record["attempts"]))
        mode = record["mode"]
        if not conversation.last.failed:  # A failed answer is asked again; its new answer is on a later line.
            self._done.setdefault((mode, record.get("described_by", "")), {})[record["name"]] = conversation
        self._seconds[mode] = self.seconds(mode) + record["seconds"]

    def _attempt(self, record: Mapping[str, Any]) -> Answer:
        found, problem = from_plain(_Attempt, record), self._problems[record["problem"]]
        if found.instance is not None:
            instance = from_plain(type(problem.instance), found.instance)
            problem = Problem(problem.id, instance, found.prompt, found.digest)
        said = {
            name: getattr(found, name) for name in ("text", "finish_reason", "policy", "tokens", "error", "reasoning")
        }
        completion = Completion(problem.key, **said)
        return Answer(
            problem,
            completion,
            found.verdicts,
            stored_reward(record),
            found.right,
            found.score,
            found.reading,
            found.notes,
        )


@frozen
class _Attempt:
    """An attempt as it is stored: see `answer_record`."""

    problem: str
    tier: str
    prompt: tuple[Message, ...]
    text: str
    tokens: int | None
    finish_reason: FinishReason
    policy: str
    right: bool
    verdicts: tuple[Verdict, ...]
    digest: str = ""
    outcome: Status | None = None
    reward: float | None = None
    score: float | None = None
    error: str = ""
    reasoning: str = ""
    reading: Reading = ""
    notes: Mapping[str, float] = field(factory=dict)
    instance: Any = None
    """Of a variant of the problem; None for the problem itself."""


def _record(attempt: Answer, problem: Problem) -> dict[str, Any]:
    """An attempt as `_Attempt` says."""
    variant = {} if attempt.problem == problem else {"instance": to_plain(attempt.problem.instance)}
    reading = {"reading": attempt.reading} if attempt.reading else {}
    notes = {"notes": dict(attempt.notes)} if attempt.notes else {}
    return {**answer_record(attempt), "error": attempt.completion.error, **reading, **notes, **variant}


def _conversation(record: Mapping[str, Any], attempts: Iterable[Answer]) -> Conversation:
    counts = (record["replies"], record["prompt_tokens"], record["tokens"])
    return Conversation(tuple(attempts), *counts, scored=record.get("scored", 0))


def open_answers(name: str, *, verify: bool = True) -> AbstractContextManager[AnswerReader]:
    """Open a run for reading, or a file of answers, which has no digests to verify: JSON lines of `gce answers`, too.

    Raises:
        BadInput: there is neither.
        DamagedStore: the run is not as written.
    """
    path = Path(name)
    if not path.is_file():
        return open_run(name, verify=verify)
    return nullcontext(_Rows.open(path) if _has_rows(path) else _Reader.open(path))


def stored_conversations(path: Path) -> dict[str, list[Conversation]]:
    """Return the conversations of a file of answers by strategy, in the order of their problems: see `stored_answer`.

    Raises:
        BadInput: it is no file of answers.
    """
    last: dict[tuple[str, str], Conversation] = {}
    for number, record in _lines(path):
        if number > 1:
            last[record["mode"], record["name"]] = _conversation(record, map(stored_answer, record["attempts"]))
    found: dict[str, list[Conversation]] = {}
    for (mode, _), held in last.items():
        found.setdefault(mode, []).append(held)
    for each in found.values():
        each.sort(key=lambda held: (held.last.problem.tier, held.last.problem.id.index))
    return found


def stored_answer(record: Mapping[str, Any]) -> Answer:
    """Return an answer as a run or a file has stored it, its problem with the plain instance of a variant, if any.

    Raises:
        ValueError: it is not one of this version.
    """
    prompt = from_plain(tuple[Message, ...], record.get("prompt", ()))
    problem = Problem(ProblemId.parse(record["problem"]), record.get("instance"), prompt, record.get("digest") or "")
    said = (problem.key, record["text"], record["finish_reason"], record["policy"])
    completion = Completion(*said, tokens=record.get("tokens"))
    verdicts = from_plain(tuple[Verdict, ...], record["verdicts"])
    reward, reading = stored_reward(record), record.get("reading", "")
    notes = from_plain(dict[str, float], record.get("notes", {}))
    return Answer(problem, completion, verdicts, reward, record["right"], record.get("score"), reading, notes)


@frozen
class _Reader:
    """A file of answers, as `AnswerReader` says; the answers of a strategy go by its name."""

    name: str
    config: dict[str, Any]
    last: Mapping[tuple[str, str], int]
    """By strategy and name, the line of a conversation that counts: what failed is asked again."""

    @staticmethod
    def open(path: Path) -> _Reader:
        last: dict[tuple[str, str], int] = {}
        asked: Mapping[str, Any] = {}
        for number, record in _lines(path):
            if number == 1:
                asked = record["evaluation"]
            else:
                last[record["mode"], record["name"]] = number
        settings = {name: asked[name] for name in ("task", "preset", "seed", "evaluator") if name in asked}
        strategies = list(dict.fromkeys(strategy for strategy, _ in last))
        config = {"settings": settings, "problems": asked.get("records", ""), "strategies": strategies, "asked": asked}
        return _Reader(str(path), config, last)

    def read(self, _stream: str) -> Iterator[dict[str, Any]]:
        return iter(())

    def each_answer(self, name: str) -> Iterator[dict[str, Any]]:
        for number, record in _lines(Path(self.name)):
            if number > 1 and record["mode"] == name and self.last.get((name, record["name"])) == number:
                yield {"digest": record.get("digest"), **record["attempts"][-1], "key": record["name"]}


def _lines(path: Path) -> Iterator[tuple[int, Any]]:
    """The numbered lines of a file of answers, checked; without the last one while it is written."""
    with path.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            if number > 1 and not line.endswith(b"\n"):
                return
            try:
                record = json.loads(line, parse_constant=_not_finite)
                if number == 1:
                    record["evaluation"].items()
                else:
                    attempt = record["attempts"][-1]
                    from_plain(tuple[str, str], [record["mode"], record["name"]])
                    for violation in (each for verdict in attempt["verdicts"] for each in verdict["violations"]):
                        if "jobs" in violation:  # So version 0.1.0 called the labels.
                            violation["about"] = violation.pop("jobs")
                    from_plain(_Attempt, attempt)
            except _NOT_OURS as error:
                raise BadInput(
                    f"line {number} of {path} is no answer of an evaluation",
                    hint="expected a run, or a file of {answers} of gce evaluate",
                ) from error
            yield number, record


def _has_rows(path: Path) -> bool:
    """Whether it is a file of `gce answers --to jsonl`, as its first line says."""
    with path.open("rb") as lines:
        try:
            return isinstance(json.loads(lines.readline())["moment"], str)
        except _NOT_OURS:
            return False


@frozen
class _Row:
    """What is read of a row of `gce answers`."""

    moment: str
    problem: str
    tier: str
    outcome: Status
    correct: bool | None
    reward: float | None
    score: float | None
    finish_reason: FinishReason
    tokens: int | None
    policy: str
    digest: str | None
    text: str

    @property
    def record(self) -> dict[str, Any]:
        """As `answer_record`, without the prompt; the outcome stands for the verdicts, which the row does not hold."""
        names = ("problem", "tier", "outcome", "reward", "score", "finish_reason", "tokens", "policy", "digest", "text")
        shown = {name: getattr(self, name) for name in names}
        verdict: dict[str, Any] = {"status": self.outcome, "score": self.score, "evaluator": "", "violations": []}
        return {**shown, "right": bool(self.correct), "verdicts": [verdict], "together": True}


@frozen
class _Rows:
    """A file of `gce answers --to jsonl`, as `AnswerReader` says; its moments stand for the strategies."""

    name: str
    config: dict[str, Any]

    @staticmethod
    def open(path: Path) -> _Rows:
        found = [(row.moment, ProblemId.parse(row.problem).task) for row in _rows(path)]
        tasks = sorted({task for _, task in found})
        if len(tasks) != 1:
            raise BadInput(f"expected answers to one task in {path}, got {', '.join(tasks)}")
        moments = tuple(dict.fromkeys(moment for moment, _ in found))
        return _Rows(str(path), {"settings": {"task": tasks[0]}, "strategies": moments})

    def read(self, stream: str) -> Iterator[dict[str, Any]]:
        return (row.record for row in _rows(Path(self.name)) if row.moment == stream)

    def each_answer(self, name: str) -> Iterator[dict[str, Any]]:
        return self.read(name.removeprefix("test-"))


def _rows(path: Path) -> Iterator[_Row]:
    with path.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            try:
                row = json.loads(line)
                found = from_plain(_Row, {each.name: row[each.name] for each in fields(_Row)})
                ProblemId.parse(found.problem)
            except _NOT_OURS as error:
                raise BadInput(f"line {number} of {path} is no row of gce answers") from error
            yield found
