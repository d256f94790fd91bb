"""Traces as a log of inspect_ai, which `inspect view` shows, and back.

A trace is a sample. One that is written and read again is the same: what the log has no field for stands in the
sample's metadata, under `gce`. Read from other programs' logs are messages, tool calls and results, the model's name,
the reason why it stopped, and a score in [0, 1] as the reward; left out are reasoning apart from the text, events,
stores, costs and times, and samples that ended with an error or without an answer of the model. Images are refused.

Logs are written as JSON; `inspect log convert` makes `.eval` files of them. Reading `.eval` takes inspect_ai, as they
are compressed by what Python 3.11 lacks.

Format: https://inspect.aisi.org.uk/eval-logs.html, version 2, as inspect_ai 0.3.285 writes it.
"""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from gce.adapters.datasets.atif import check_plain, joined_text
from gce.adapters.datasets.record_files import MOST_BYTES
from gce.adapters.environments.inspect_ai import LETTERS
from gce.adapters.system.input_files import open_input, parse_json, read_input
from gce.domain.completions import Completion, FinishReason
from gce.domain.learning import Author, Trace, Turn
from gce.domain.problems import Message, ToolCall
from gce.domain.serialization import from_plain, to_plain
from gce.domain.traces import conversation_digest
from gce.errors import BadInput, MissingExtra, one_line

__all__ = ["inspect_log_of_traces", "read_inspect_log", "traces_of_inspect_log"]

_VERSION = 2
_OURS = "gce"
"""The key in a sample's metadata, and the name of our score."""
_OF_TRACE = ("key", "problem", "tier", "iteration", "verdicts", "content_digest", "reward", "tools")
_OF_TURN = ("author", "completion", "trained", "weights")
_AUTHORS: Mapping[str, Author] = {"system": "task", "user": "user", "tool": "tool", "assistant": "model"}
_REASONS: Mapping[str, FinishReason] = {"max_tokens": "length", "model_length": "length"}
_LEFT_OUT = {"events", "events_data", "store", "timelines"}


def inspect_log_of_traces(traces: Sequence[Trace], *, task: str, created: str) -> dict[str, Any]:
    """The traces as a log of the task of this name, created at this time in ISO 8601: plain data for a JSON file."""
    models = dict.fromkeys(trace.completion.policy for trace in traces if trace.completion.policy)
    return {
        "version": _VERSION,
        "status": "success",
        "eval": {
            "created": created,
            "task": task,
            "dataset": {"samples": len(traces), "sample_ids": [trace.key for trace in traces]},
            "model": next(iter(models), "none") if len(models) < 2 else "several",
            "config": {},
        },
        "results": {"total_samples": len(traces), "completed_samples": len(traces), "scores": []},
        "samples": [_sample(trace) for trace in traces],
    }


def traces_of_inspect_log(data: Any) -> Iterator[Trace]:
    """The traces in a log.

    Raises:
        ValueError: it is no log with samples, or one of them cannot be a trace; one line says which.
    """
    check_plain(data)
    if not isinstance(data, Mapping) or data.get("version") != _VERSION or not isinstance(data.get("eval"), Mapping):
        raise ValueError(f"expected a log of inspect_ai of version {_VERSION}, got {data!r:.60}")
    if not isinstance(samples := data.get("samples"), list):
        raise ValueError("expected a log with samples, got one without")
    for number, sample in enumerate(samples, 1):
        try:
            trace = _trace(sample)
        except ValueError as error:
            raise ValueError(f"sample {number}: {one_line(error)}") from error
        if trace is not None:
            yield trace


def read_inspect_log(path: str | os.PathLike[str]) -> Iterator[Trace]:
    """The traces of a log file, `.json` or `.eval`.

    Raises:
        BadInput: the file cannot be read, is too large, or is no log whose samples are conversations of text.
        MissingExtra: it is an `.eval` file, and inspect_ai is not installed.
    """
    path = Path(path)
    data = _unpacked(path) if path.suffix == ".eval" else parse_json(read_input(path, MOST_BYTES), str(path))
    try:
        yield from traces_of_inspect_log(data)
    except ValueError as error:
        raise BadInput(f"{path}: {error}") from error


def _unpacked(path: Path) -> Any:
    try:
        with open_input(path, MOST_BYTES) as file, zipfile.ZipFile(file) as packed:
            size = sum(each.file_size for each in packed.infolist())
    except (zipfile.BadZipFile, OSError) as error:
        raise BadInput(f"{path} is no .eval file: {one_line(error)}") from error
    if size > MOST_BYTES:
        raise BadInput(f"{path} unpacks to {size:,} bytes: expected at most {MOST_BYTES:,}")
    try:
        from inspect_ai.log import read_eval_log
    except ImportError as error:
        raise MissingExtra("inspect-ai", "inspect") from error
    try:
        return read_eval_log(str(path), exclude_fields=_LEFT_OUT).model_dump(mode="json", exclude_none=True)
    except Exception as error:  # Whatever inspect_ai says of a damaged file.
        raise BadInput(f"{path}: inspect_ai cannot read it: {one_line(error)}") from error


def _sample(trace: Trace) -> dict[str, Any]:
    messages = []
    names = {call.id: call.name for turn in trace.turns for call in turn.message.tool_calls}
    for turn in trace.turns:
        message: dict[str, Any] = {"role": turn.message.role, "content": turn.message.content}
        if turn.message.role == "assistant":
            message["source"] = "generate" if turn.completion is not None else "input"
            if turn.completion is not None and turn.completion.policy:
                message["model"] = turn.completion.policy
        if turn.message.tool_calls:
            message["tool_calls"] = [_call(call) for call in turn.message.tool_calls]
        if turn.message.tool_call_id:
            message["tool_call_id"] = turn.message.tool_call_id
            message["function"] = names.get(turn.message.tool_call_id, "")
        messages.append(message)
    first = next(place for place, turn in enumerate(trace.turns) if turn.trained)
    last = max(place for place, turn in enumerate(trace.turns) if turn.trained)
    plain = to_plain(trace)
    about = {name: plain[name] for name in _OF_TRACE if name in plain}
    about["turns"] = [_beside_message(turn) for turn in trace.turns]
    value = trace.reward
    if value is None and trace.verdicts:
        value = float(all(verdict.right for verdict in trace.verdicts))
    choice = {
        "message": messages[last],
        "stop_reason": "max_tokens" if trace.completion.finish_reason == "length" else "stop",
    }
    return {
        "id": trace.key,
        "epoch": 1,
        "input": messages[:first] or "",
        "target": "",
        "messages": messages,
        "output": {"model": trace.completion.policy, "choices": [choice], "completion": trace.completion.text},
        "scores": {} if value is None else {_OURS: {"value": value}},
        "metadata": {_OURS: about},
    }


def _call(call: ToolCall) -> dict[str, Any]:
    return {"id": call.id, "function": call.name, "arguments": _arguments(call.arguments), "type": "function"}


def _arguments(text: str) -> dict[str, Any]:
    """What a model wrote as arguments, as an object; an empty one where it is none."""
    try:
        found = parse_json(text, "arguments")
        check_plain(found)
    except (BadInput, ValueError):
        found = None
    return found if isinstance(found, dict) else {}


def _beside_message(turn: Turn) -> dict[str, Any]:
    """What messages of a log have no field for."""
    plain = to_plain(turn)
    kept = {name: plain[name] for name in _OF_TURN if name in plain}
    if turn.completion is not None and turn.completion.text == turn.message.content:
        del kept["completion"]["text"]
    if any(json.dumps(_arguments(call.arguments)) != call.arguments for call in turn.message.tool_calls):
        kept["arguments"] = [call.arguments for call in turn.message.tool_calls]
    return kept


def _trace(sample: Any) -> Trace | None:
    """The trace of a sample; None where it has nothing to train on."""
    if not isinstance(sample, Mapping) or not isinstance(sample.get("messages"), list):
        raise ValueError(f"expected an object with messages, got {sample!r:.60}")
    if sample.get("error"):
        return None
    attachments = _object(sample, "attachments")
    messages = [_message(each, attachments) for each in sample["messages"]]
    ours = _object(sample, "metadata").get(_OURS)
    if ours is not None:
        return _own(ours, messages)
    key = f"{sample.get('id')}/{sample.get('epoch')}"
    output = _object(sample, "output")
    turns = [
        _turn(each, message, f"{key}/{number}", output)
        for number, (each, message) in enumerate(zip(sample["messages"], messages, strict=True), 1)
    ]
    if not any(turn.trained for turn in turns):
        return None
    shown = "\n".join(turn.message.content for turn in turns if not turn.trained)
    digest = conversation_digest(shown, turns)
    return Trace(key, str(sample.get("id")), "", 0, tuple(turns), (), digest, reward=_reward(sample.get("scores")))


def _own(ours: Any, messages: Sequence[Message]) -> Trace:
    """The trace that gce wrote."""
    if not isinstance(ours, Mapping) or not set(ours) <= {*_OF_TRACE, "turns"}:
        raise ValueError(f"expected an object with {', '.join(_OF_TRACE)} and turns as metadata.{_OURS}")
    beside = _objects(ours, "turns")
    if len(beside) != len(messages):
        raise ValueError(f"expected one of metadata.{_OURS}.turns for each of {len(messages)} messages")
    turns = []
    for told, message in zip(beside, messages, strict=True):
        if not set(told) <= {*_OF_TURN, "arguments"}:
            raise ValueError(f"expected {', '.join(_OF_TURN)} at most in metadata.{_OURS}.turns, got {told!r:.60}")
        turn = {name: told[name] for name in _OF_TURN if name in told} | {"message": to_plain(message)}
        if isinstance(turn.get("completion"), Mapping):
            turn["completion"] = {"text": message.content, **turn["completion"]}
        if "arguments" in told:
            calls, texts = turn["message"].get("tool_calls", []), told["arguments"]
            if not isinstance(texts, list) or len(texts) != len(calls):
                raise ValueError(f"expected one of arguments for each of {len(calls)} tool calls, got {texts!r:.60}")
            turn["message"]["tool_calls"] = [
                call | {"arguments": text} for call, text in zip(calls, texts, strict=True)
            ]
        turns.append(turn)
    return from_plain(Trace, {**ours, "turns": turns})


def _object(given: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """A field that is an object, or left out."""
    found = given.get(name)
    if found is not None and not isinstance(found, Mapping):
        raise ValueError(f"expected an object as {name}, got {found!r:.60}")
    return found or {}


def _objects(given: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    """A field that is a list of objects, or left out."""
    found = given.get(name) or []
    if not isinstance(found, list) or not all(isinstance(each, Mapping) for each in found):
        raise ValueError(f"expected a list of objects as {name}, got {found!r:.60}")
    return found


def _message(given: Any, attachments: Mapping[str, Any]) -> Message:
    if not isinstance(given, Mapping) or given.get("role") not in _AUTHORS:
        raise ValueError(f"expected a message with a role from {', '.join(_AUTHORS)}, got {given!r:.60}")
    content = given.get("content")
    if isinstance(content, list):
        content = [each for each in content if not (isinstance(each, Mapping) and each.get("type") == "reasoning")]
    text = joined_text(content)
    calls = [
        {"id": call.get("id"), "name": call.get("function"), "arguments": json.dumps(_object(call, "arguments"))}
        for call in _objects(given, "tool_calls")
    ]
    name = (given.get("tool_call_id") or "") if given["role"] == "tool" else ""
    text = attachments.get(text.removeprefix("attachment://"), text)
    return from_plain(Message, {"role": given["role"], "content": text, "tool_calls": calls, "tool_call_id": name})


def _turn(given: Mapping[str, Any], message: Message, key: str, output: Mapping[str, Any]) -> Turn:
    """A turn of another program's log: what its model generated is trained on."""
    if message.role != "assistant" or given.get("source") != "generate":
        return Turn(_AUTHORS[message.role], message)
    choice = next(iter(_objects(output, "choices")), {})
    last = given.get("id") is not None and _object(choice, "message").get("id") == given["id"]
    reason = _REASONS.get(str(choice.get("stop_reason")), "stop") if last else "stop"
    model = str(given.get("model") or output.get("model") or "")
    return Turn("policy", message, Completion(key, message.content, reason, policy=model), trained=True)


def _reward(scores: Any) -> float | None:
    """The value of the only score, as a number in [0, 1]; None where there are several, or none that is one."""
    if not isinstance(scores, Mapping) or len(scores) != 1:
        return None
    (score,) = scores.values()
    value = score.get("value") if isinstance(score, Mapping) else None
    if isinstance(value, str):
        value = LETTERS.get(value)
    return float(value) if isinstance(value, (bool, int, float)) and 0.0 <= value <= 1.0 else None
