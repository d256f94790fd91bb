"""A file of an evaluation's answers: a resumable JSONL file, one line per conversation, written as answers arrive.

The first line describes the evaluation. An incomplete last line is dropped. A failed answer is asked again by the next
command.
"""

from __future__ import annotations

import fcntl
import json
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from io import FileIO
from pathlib import Path
from types import TracebackType
from typing import Any

from gce.app.evaluation.scoring import answer_record, stored_reward
from gce.app.wiring.files import check_appended
from gce.domain.answers import Answer
from gce.domain.completions import Completion
from gce.domain.conversations import Conversation
from gce.domain.problems import Problem
from gce.domain.serialization import from_plain
from gce.domain.verdicts import Verdict
from gce.errors import BadInput

__all__ = ["AnswerFile"]


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
        self._done: dict[str, dict[str, Conversation]] = {}
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

    def done(self, mode: str) -> Mapping[str, Conversation]:
        """Return the stored conversations of a strategy, by name."""
        return self._done.get(mode, {})

    def seconds(self, mode: str) -> float:
        """Return the total seconds of a strategy's conversations."""
        return self._seconds.get(mode, 0.0)

    def add(self, mode: str, name: str, conversation: Conversation, seconds: float) -> None:
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
            "attempts": [
                {**answer_record(attempt), "error": attempt.completion.error} for attempt in conversation.attempts
            ],
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
                except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
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
        attempts = tuple(self._attempt(each) for each in record["attempts"])
        conversation = Conversation(attempts, record["replies"], record["prompt_tokens"], record["tokens"])
        mode = record["mode"]
        if not conversation.last.failed:  # A failed answer is asked again; its new answer is on a later line.
            self._done.setdefault(mode, {})[record["name"]] = conversation
        self._seconds[mode] = self.seconds(mode) + record["seconds"]

    def _attempt(self, record: Mapping[str, Any]) -> Answer:
        names = ("text", "finish_reason", "policy", "tokens", "error")
        completion = Completion(key=record["problem"], **{name: record[name] for name in names})
        verdicts = tuple(from_plain(Verdict, verdict) for verdict in record["verdicts"])
        problem, reward = self._problems[record["problem"]], stored_reward(record)
        return Answer(problem, completion, verdicts, reward, record["right"], record.get("score"))
