"""From judged answers and conversations to traces, which the replay buffer takes; and traces as stored records.

Knows nothing of runs and models.
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
"""Finish reasons of completions that wrote nothing."""


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
    """The trace of an answer, or of a whole conversation with its prompt, for `gce.admit`.

    The buffer takes every trace: whether it is a positive is for the caller to say, by the task's reward as the loop
    does, or as `verdict.right`. Text alone stands for a completion of no known model. The key, unique among traces, is
    by default that of the last trained completion, for text the problem's with the content digest.

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
    """The trace of a finished conversation, prompt first, with all that the model itself wrote marked trained.

    A `Completion` (a draft) or an `Answer` (judged) is the model's. A `Message` is not: it is taken for the task's, a
    tool's or, of role assistant, another model's; a `Turn` is taken as it is. Completions that wrote nothing (finish
    reason context or error) are left out. The last answer says of which problem the trace is; its verdicts, and unless
    another is given its reward, are the trace's.

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
    """The turns that led to the attempt that counts, with those that the model wrote marked trained.

    They are the prompt and text of the reply that the attempt is, or of the last one where the strategy put the attempt
    together itself. An assistant's message in that prompt is the model's own if it is, word for word, what the model
    replied to the messages before it; what a strategy rewrote, and replies that it did not show again, are not trained.
    Empty where the model wrote nothing.
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
    """Same problem, same texts of its trained turns up to whitespace: the same lesson. 32 hexadecimal digits."""
    return _digest(problem.digest, texts)


def conversation_digest(problem: str, turns: Iterable[Turn]) -> str:
    """`trace_digest` of a conversation about the problem with this digest; calls of tools belong to the texts."""
    return _digest(problem, [_lesson(turn) for turn in turns if turn.trained])


def trace_record(trace: Trace) -> dict[str, Any]:
    """`trace` as plain data, for a run's stream `traces`.

    Nothing is written twice: a turn that shows its completion's text has no message, and prompt ids that go on from an
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
    """The trace that `trace_record` wrote, or that version 0.1.0 stored.

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
    """A stored trace in today's form. Version 0.1.0 had one turn: the messages shown, and the completion."""
    if "messages" not in record:
        return record
    shown = [{"author": "task", "message": message} for message in record["messages"]]
    answer = {"author": "policy", "completion": record["completion"], "trained": True}
    kept = {name: value for name, value in record.items() if name not in ("messages", "completion", "digest")}
    return {**kept, "turns": [*shown, answer], "content_digest": record["digest"]}


def _shown(turn: Mapping[str, Any]) -> dict[str, Any] | None:
    """What a stored turn without a message shows."""
    completion = turn.get("completion")
    return {"role": "assistant", "content": completion["text"]} if completion else None


def _ids(turn: Mapping[str, Any]) -> tuple[list[int], list[int]]:
    """Of a stored turn: what was read, and what was written."""
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
    """What a trained turn teaches: its text, and the tools that it calls."""
    text = "" if turn.completion is None else turn.completion.text
    return "\n".join((text, *(f"{call.name} {call.arguments}" for call in turn.message.tool_calls)))
