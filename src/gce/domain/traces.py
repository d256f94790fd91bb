"""Make traces for the replay buffer from judged answers and conversations; write and read traces as stored records.

Does not depend on runs or models.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import Any

from gce.domain.answers import Answer
from gce.domain.completions import Completion
from gce.domain.conversations import Conversation
from gce.domain.learning import Author, Trace, Turn, single_turn, trained_turn
from gce.domain.problems import Message, Problem, Role
from gce.domain.serialization import from_plain, to_plain
from gce.domain.verdicts import Verdict

__all__ = [
    "conversation_digest",
    "trace_digest",
    "trace_of",
    "trace_of_conversation",
    "trace_of_record",
    "trace_record",
    "turns_of",
]

_WRITTEN_BY: Mapping[Role, Author] = {"system": "task", "user": "task", "assistant": "model", "tool": "tool"}
_NOTHING = ("context", "error")
"""Finish reasons of completions without text."""


def trace_of(
    problem: Problem,
    said: Completion | str | Sequence[Turn],
    verdicts: Sequence[Verdict] | Verdict,
    *,
    iteration: int = 0,
    key: str | None = None,
    reward: float | None = None,
    tools: Sequence[Mapping[str, Any]] = (),
) -> Trace:
    """Return the trace of an answer, or of a whole conversation with its prompt, for `gce.admit`.

    The buffer accepts every trace. The caller decides which traces are positives: by the task's reward, as the training
    loop does, or by `verdict.right`. Plain text stands for a completion of an unknown model. The key must be unique
    among traces. It defaults to the key of the last trained completion; for plain text, to the problem's key with the
    content digest.

    Raises:
        ValueError: no turn of the conversation is trained on.
    """
    if isinstance(said, str):
        said = Completion(key or f"{problem.key}/{trace_digest(problem, said)}", said, "stop", policy="")
    turns = single_turn(problem.prompt, said) if isinstance(said, Completion) else tuple(said)
    trained = [turn for turn in turns if turn.trained]
    if key is None:
        key = next((turn.completion.key for turn in reversed(trained) if turn.completion is not None), "")
    return Trace(
        key=key,
        problem=problem.key,
        tier=problem.tier,
        iteration=iteration,
        turns=turns,
        verdicts=(verdicts,) if isinstance(verdicts, Verdict) else tuple(verdicts),
        content_digest=conversation_digest(problem.digest, turns),
        reward=reward,
        tools=tuple(tools),
    )


def trace_of_conversation(
    said: Iterable[Message | Completion | Answer | Turn],
    *,
    iteration: int = 0,
    key: str | None = None,
    reward: float | None = None,
    tools: Sequence[Mapping[str, Any]] = (),
) -> Trace:
    """Return the trace of a finished conversation, prompt first; all that the model wrote is trained on.

    A `Completion` (a draft) or an `Answer` (judged) was written by the model. A `Message` was not: it is attributed to
    the task, to a tool or, with role assistant, to another model. A `Turn` is used as it is. Completions without text
    (finish reason context or error) are left out. The last answer supplies the problem, the verdicts and, unless
    `reward` is given, the reward.

    Raises:
        ValueError: there is no answer, or nothing that the model wrote.
    """
    said = tuple(said)
    answers = [each for each in said if isinstance(each, Answer)]
    if not answers:
        raise ValueError("expected a conversation with a judged answer, got none")
    turns = tuple(turn for each in said for turn in _turns(each))
    last = answers[-1]
    reward = last.reward if reward is None else reward
    return trace_of(last.problem, turns, last.verdicts, iteration=iteration, key=key, reward=reward, tools=tools)


def turns_of(conversation: Conversation) -> tuple[Turn, ...]:
    """Return the turns that led to the final attempt, with the model's own turns marked as trained.

    These are the prompt and text of the reply that is the attempt, or of the last reply if the strategy composed the
    attempt itself. An assistant message in that prompt counts as the model's own if it repeats, word for word, the
    model's reply to the messages before it. Rewritten replies, and replies that the strategy does not show again, are
    not trained on. Empty if the model wrote nothing.
    """
    said = [(read, each) for read, each in conversation.said if each.finish_reason not in _NOTHING]
    if not said:
        return ()
    counts = conversation.last.completion
    shown, last = next((pair for pair in reversed(said) if pair[1] == counts), said[-1])
    turns = []
    for place, message in enumerate(shown):
        own = (each for read, each in said if read == shown[:place] and message == Message("assistant", each.text))
        completion = next(own, None)
        turns.append(Turn(_WRITTEN_BY[message.role], message) if completion is None else trained_turn(completion))
    return (*turns, trained_turn(last))


def trace_digest(problem: Problem, *texts: str) -> str:
    """Return the deduplication key of trained texts, up to whitespace, and their problem: 32 hexadecimal digits."""
    return _digest(problem.digest, texts)


def conversation_digest(problem: str, turns: Iterable[Turn]) -> str:
    """Return `trace_digest` of a conversation about the problem with this digest; tool calls are part of the texts."""
    return _digest(problem, [_lesson(turn) for turn in turns if turn.trained])


def trace_record(trace: Trace) -> dict[str, Any]:
    """Return `trace` as plain data, for a run's stream `traces`.

    Nothing is written twice: a turn that shows its completion's text has no message, and prompt ids that continue an
    earlier turn's tokens are written without those.
    """
    record: dict[str, Any] = to_plain(trace)
    seen: list[int] = []
    for turn in record["turns"]:
        if turn["message"] == _shown(turn):
            del turn["message"]
        read, written = _ids(turn)
        if seen and read[: len(seen)] == seen:
            turn["continues"] = True
            turn["completion"]["prompt_token_ids"] = read[len(seen) :]
        if read and written:
            seen = [*read, *written]
    return record


def trace_of_record(record: Mapping[str, Any]) -> Trace:
    """Return the trace that `trace_record` wrote, or that version 0.1.0 stored.

    Raises:
        ValueError: data of another shape.
    """
    record = _migrated(record)
    turns, seen = [], list[int]()
    for turn in record.get("turns", ()):
        turn = {"message": _shown(turn), **turn}
        read, written = _ids(turn)
        if turn.pop("continues", False):
            read = [*seen, *read]
            turn["completion"] = {**turn["completion"], "prompt_token_ids": read}
        if read and written:
            seen = [*read, *written]
        turns.append(turn)
    return from_plain(Trace, {**record, "turns": turns})


def _migrated(record: Mapping[str, Any]) -> Mapping[str, Any]:
    """Convert a stored trace to the current form.

    Version 0.1.0 had one turn: the messages shown, and the completion.
    """
    if "messages" not in record:
        return record
    shown = [{"author": "task", "message": message} for message in record["messages"]]
    answer = {"author": "policy", "completion": record["completion"], "trained": True}
    kept = {name: value for name, value in record.items() if name not in ("messages", "completion", "digest")}
    return {**kept, "turns": [*shown, answer], "content_digest": record["digest"]}


def _shown(turn: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the message of a stored turn that was written without one."""
    completion = turn.get("completion")
    return {"role": "assistant", "content": completion["text"]} if completion else None


def _ids(turn: Mapping[str, Any]) -> tuple[list[int], list[int]]:
    """Return the prompt ids and the generated ids of a stored turn."""
    completion = turn.get("completion") or {}
    return completion.get("prompt_token_ids") or [], completion.get("token_ids") or []


def _turns(said: Message | Completion | Answer | Turn) -> tuple[Turn, ...]:
    match said:
        case Answer():
            return _turns(said.completion)
        case Completion():
            return () if said.finish_reason in _NOTHING else (trained_turn(said),)
        case Message():
            return (Turn(_WRITTEN_BY[said.role], said),)
        case _:
            return (said,)


def _digest(problem: str, texts: Iterable[str]) -> str:
    lines = "\n".join((problem, *(" ".join(text.split()) for text in texts)))
    return blake2b(lines.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def _lesson(turn: Turn) -> str:
    """Return what a trained turn teaches: its text and its tool calls."""
    text = "" if turn.completion is None else turn.completion.text
    return "\n".join((text, *(f"{call.name} {call.arguments}" for call in turn.message.tool_calls)))
