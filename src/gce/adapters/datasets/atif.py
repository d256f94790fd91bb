"""Traces as trajectories in ATIF, the Agent Trajectory Interchange Format of the Harbor framework, and back.

A trace that is written and read again is the same: what ATIF has no field for stands in `extra`, under `gce`. Read from
other programs' trajectories are messages, tool calls and results, tool definitions, token ids, log-probabilities and
names of models; left out are reasoning apart from the message, costs, times, notes and trajectories of subagents.
Images are refused.

Source: https://github.com/harbor-framework/harbor/blob/main/rfcs/0001-trajectory-format.md, version 1.7.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from attrs import evolve, field, frozen

from gce.adapters.datasets.record_files import MOST_BYTES, read_records
from gce.adapters.system.input_files import parse_json, read_input
from gce.domain.completions import Completion
from gce.domain.learning import Author, Trace, Turn
from gce.domain.problems import Message, Role, ToolCall
from gce.domain.serialization import OMIT_DEFAULT, from_plain, to_plain
from gce.domain.traces import conversation_digest
from gce.errors import BadInput

__all__ = ["VERSION", "atif_of_trace", "check_plain", "joined_text", "read_atif", "trace_of_atif"]

VERSION = "ATIF-v1.7"
Source = Literal["system", "user", "agent"]
_READ = tuple(f"ATIF-v1.{minor}" for minor in range(8))
_OURS = "gce"
"""The key in `extra` under which stands what ATIF has no field for."""
_DEPTH = 100
"""Levels of nesting at most."""
_TOKENS = 2**31
_ROLES: Mapping[Source, Role] = {"system": "system", "user": "user", "agent": "assistant"}
_SOURCES = {role: source for source, role in _ROLES.items()}
_AUTHORS: Mapping[str, Author] = {"system": "task", "user": "user", "agent": "policy"}
_ABOUT = ("problem", "tier", "iteration", "verdicts", "content_digest", "reward")
"""Fields of a trace that ATIF has none for."""
_OF_TURN = ("author", "completion", "trained", "weights")
"""Fields of a turn that ATIF has none for."""
_BY_AGENTS = ("model_name", "reasoning_effort", "reasoning_content", "tool_calls", "metrics")
"""Fields of a step that belong to agents alone."""

Extra = Mapping[str, Any] | None


@frozen
class Call:
    """ToolCallSchema."""

    tool_call_id: str
    function_name: str
    arguments: Mapping[str, Any]
    extra: Extra = field(default=None, metadata=OMIT_DEFAULT)


@frozen
class Result:
    """ObservationResultSchema."""

    source_call_id: str | None = field(default=None, metadata=OMIT_DEFAULT)
    content: Any = field(default=None, metadata=OMIT_DEFAULT)
    """Text, or a list of parts."""
    subagent_trajectory_ref: Any = field(default=None, metadata=OMIT_DEFAULT)
    extra: Extra = field(default=None, metadata=OMIT_DEFAULT)


@frozen
class Observation:
    """ObservationSchema."""

    results: tuple[Result, ...]


@frozen
class Metrics:
    """MetricsSchema."""

    prompt_tokens: int | None = field(default=None, metadata=OMIT_DEFAULT)
    completion_tokens: int | None = field(default=None, metadata=OMIT_DEFAULT)
    cached_tokens: int | None = field(default=None, metadata=OMIT_DEFAULT)
    cost_usd: float | None = field(default=None, metadata=OMIT_DEFAULT)
    prompt_token_ids: tuple[int, ...] | None = field(default=None, metadata=OMIT_DEFAULT)
    completion_token_ids: tuple[int, ...] | None = field(default=None, metadata=OMIT_DEFAULT)
    logprobs: tuple[float, ...] | None = field(default=None, metadata=OMIT_DEFAULT)
    extra: Extra = field(default=None, metadata=OMIT_DEFAULT)


@frozen
class Step:
    """StepObject."""

    step_id: int
    source: Source
    message: Any
    """Text, or a list of parts."""
    timestamp: str | None = field(default=None, metadata=OMIT_DEFAULT)
    model_name: str | None = field(default=None, metadata=OMIT_DEFAULT)
    reasoning_effort: Any = field(default=None, metadata=OMIT_DEFAULT)
    reasoning_content: str | None = field(default=None, metadata=OMIT_DEFAULT)
    tool_calls: tuple[Call, ...] | None = field(default=None, metadata=OMIT_DEFAULT)
    observation: Observation | None = field(default=None, metadata=OMIT_DEFAULT)
    metrics: Metrics | None = field(default=None, metadata=OMIT_DEFAULT)
    is_copied_context: bool | None = field(default=None, metadata=OMIT_DEFAULT)
    llm_call_count: int | None = field(default=None, metadata=OMIT_DEFAULT)
    extra: Extra = field(default=None, metadata=OMIT_DEFAULT)


@frozen
class Agent:
    """AgentSchema."""

    name: str
    version: str
    model_name: str | None = field(default=None, metadata=OMIT_DEFAULT)
    tool_definitions: tuple[Mapping[str, Any], ...] | None = field(default=None, metadata=OMIT_DEFAULT)
    extra: Extra = field(default=None, metadata=OMIT_DEFAULT)


@frozen
class Trajectory:
    """The root of a document."""

    schema_version: str
    agent: Agent
    steps: tuple[Step, ...]
    session_id: str | None = field(default=None, metadata=OMIT_DEFAULT)
    trajectory_id: str | None = field(default=None, metadata=OMIT_DEFAULT)
    notes: str | None = field(default=None, metadata=OMIT_DEFAULT)
    final_metrics: Extra = field(default=None, metadata=OMIT_DEFAULT)
    continued_trajectory_ref: str | None = field(default=None, metadata=OMIT_DEFAULT)
    subagent_trajectories: Any = field(default=None, metadata=OMIT_DEFAULT)
    extra: Extra = field(default=None, metadata=OMIT_DEFAULT)

    @property
    def key(self) -> str:
        """Names its trace."""
        found = (name for name in (self.trajectory_id, self.session_id) if name is not None)
        return next(found, "trajectory")


def atif_of_trace(trace: Trace, *, version: str = "unknown") -> dict[str, Any]:
    """`trace` as a trajectory of gce in this `version`: plain data for a JSON file.

    A turn is a step, but results of tools stand in the step that called for them, or where none did in one of source
    system that says nothing.
    """
    maker = Agent("gce", version, trace.completion.policy or None, trace.tools or None)
    steps: list[Step] = []
    for turn in trace.turns:
        if turn.message.role != "tool":
            steps.append(_step(turn, len(steps) + 1, trace.key, maker))
            continue
        if not steps or (steps[-1].source != "agent" and steps[-1].observation is None):
            steps.append(Step(len(steps) + 1, "system", ""))
        before = () if steps[-1].observation is None else steps[-1].observation.results
        steps[-1] = evolve(steps[-1], observation=Observation((*before, _result(turn, steps[-1]))))
    about = {name: value for name, value in to_plain(trace).items() if name in _ABOUT}
    found = Trajectory(
        VERSION,
        maker,
        tuple(steps),
        trajectory_id=trace.key,
        final_metrics={"total_steps": len(steps)},
        extra={_OURS: about},
    )
    plain: dict[str, Any] = to_plain(found)
    return plain


def trace_of_atif(data: Any, *, problem: str | None = None, tier: str = "", iteration: int = 0) -> Trace:
    """The trace in a trajectory; all that its agent's model wrote is trained on, copied context apart.

    `problem` (by default the trajectory's name), `tier` and `iteration` are for trajectories that gce did not write.

    Raises:
        ValueError: it is no ATIF of versions 1.0 to 1.7, has an image, or nothing to train on; one line says where.
    """
    check_plain(data)
    if not isinstance(data, Mapping) or data.get("schema_version") not in _READ:
        found = data.get("schema_version") if isinstance(data, Mapping) else data
        raise ValueError(f"expected a trajectory with a schema_version from {_READ[0]} to {VERSION}, got {found!r:.60}")
    trajectory = from_plain(Trajectory, data)
    turns: list[Turn] = []
    for number, step in enumerate(trajectory.steps, 1):
        try:
            _check_step(step, number)
            turns += _turns(step, trajectory.key, trajectory.agent)
        except ValueError as error:
            raise ValueError(f"step {number}: {error}") from error
    shown = [turn.message.content for turn in turns if not turn.trained]
    about: dict[str, Any] = {
        "problem": trajectory.key if problem is None else problem,
        "tier": tier,
        "iteration": iteration,
        "verdicts": [],
        "content_digest": conversation_digest("\n".join(shown), turns),
        **_ours(trajectory.extra, _ABOUT),
    }
    tools = [dict(tool) for tool in trajectory.agent.tool_definitions or ()]
    return from_plain(Trace, {**about, "key": trajectory.key, "turns": to_plain(turns), "tools": tools})


def read_atif(path: str | os.PathLike[str]) -> Iterator[Trace]:
    """The traces of a file: one trajectory in a `.json` file, else one a line, plain or compressed by gzip.

    Raises:
        BadInput: the file cannot be read, is too large, or has something that is no trajectory; the line says which.
    """
    path = Path(path)
    alone = path.suffix == ".json"
    records = [parse_json(read_input(path, MOST_BYTES), str(path))] if alone else read_records(path)
    for number, record in enumerate(records, 1):
        try:
            yield trace_of_atif(record)
        except ValueError as error:
            where = "" if alone else f", trajectory {number}"
            raise BadInput(f"{path}{where}: {error}") from error


def _step(turn: Turn, number: int, key: str, agent: Agent) -> Step:
    message, completion = turn.message, turn.completion
    step = Step(number, _SOURCES[message.role], message.content)
    if message.role == "assistant":
        step = evolve(step, tool_calls=tuple(map(_call, message.tool_calls)) or None)
        if completion is not None:
            step = evolve(step, model_name=completion.policy or None, llm_call_count=1, metrics=_metrics(completion))
    (read,) = _turns(step, key, agent)
    return evolve(step, extra=_difference(turn, read))


def _metrics(completion: Completion) -> Metrics:
    return Metrics(
        prompt_tokens=completion.prompt_tokens,
        completion_tokens=completion.tokens,
        prompt_token_ids=completion.prompt_token_ids,
        completion_token_ids=completion.token_ids,
        logprobs=completion.log_probabilities,
    )


def _call(call: ToolCall) -> Call:
    try:
        value = parse_json(call.arguments, "arguments")
        check_plain(value)
    except (BadInput, ValueError):
        value = None
    arguments = value if isinstance(value, dict) else {}
    same = json.dumps(arguments) == call.arguments
    return Call(call.id, call.name, arguments, None if same else {_OURS: {"arguments": call.arguments}})


def _result(turn: Turn, step: Step) -> Result:
    known = {call.tool_call_id for call in step.tool_calls or ()}
    name = turn.message.tool_call_id
    result = Result(name if name and name in known else None, turn.message.content)
    ours = (_difference(turn, _turn_of_result(result)) or {}).get(_OURS, {})
    if name and name not in known:
        ours = {**ours, "tool_call_id": name}
    return evolve(result, extra={_OURS: ours} if ours else None)


def _difference(turn: Turn, read: Turn) -> Extra:
    """What a reader has to be told to get `turn` and not `read`."""
    wanted, found = _beside_message(turn), _beside_message(read)
    if wanted["completion"] and found["completion"]:
        for name, value in found.pop("completion").items():
            if wanted["completion"][name] == value:
                del wanted["completion"][name]
        found["completion"] = {}
    ours = {name: value for name, value in wanted.items() if value != found[name]}
    return {_OURS: ours} if ours else None


def _beside_message(turn: Turn) -> dict[str, Any]:
    return {name: to_plain(getattr(turn, name)) for name in _OF_TURN}


def _turns(step: Step, key: str, agent: Agent) -> list[Turn]:
    """A step's message and its results."""
    results = [] if step.observation is None else list(map(_turn_of_result, step.observation.results))
    text = joined_text(step.message)
    if step.source == "system" and results and not text:
        return results  # It says nothing: it is there for them.
    message = Message(_ROLES[step.source], text, tuple(map(_tool_call, step.tool_calls or ())))
    by_model = step.source == "agent" and step.llm_call_count != 0
    turn = Turn(
        "task" if step.source == "agent" and not by_model else _AUTHORS[step.source],
        message,
        _completion(step, text, key, agent) if by_model else None,
        trained=by_model and not step.is_copied_context,
    )
    return [_told(turn, step.extra), *results]


def _completion(step: Step, text: str, key: str, agent: Agent) -> Completion:
    known = step.metrics or Metrics()
    told = {"prompt_tokens": known.prompt_tokens, "tokens": known.completion_tokens}
    counts: dict[str, Any] = {name: count for name, count in told.items() if count is not None}
    return Completion(
        f"{key}/{step.step_id}",
        text,
        "stop",
        policy=step.model_name or agent.model_name or "",
        prompt_token_ids=known.prompt_token_ids,
        token_ids=known.completion_token_ids,
        log_probabilities=known.logprobs,
        **counts,
    )


def _tool_call(call: Call) -> ToolCall:
    told = _ours(call.extra, ("arguments",))
    return from_plain(
        ToolCall, {"id": call.tool_call_id, "name": call.function_name, "arguments": json.dumps(call.arguments), **told}
    )


def _turn_of_result(result: Result) -> Turn:
    told = _ours(result.extra, ("tool_call_id", *_OF_TURN))
    name = told.pop("tool_call_id", result.source_call_id or "")
    if not isinstance(name, str):
        raise ValueError(f"expected text as a tool_call_id, got {name!r:.60}")
    message = Message("tool", joined_text("" if result.content is None else result.content), tool_call_id=name)
    return _told(Turn("tool", message), {_OURS: told})


def _told(turn: Turn, extra: Extra) -> Turn:
    """`turn` with what `extra` says otherwise."""
    told = _ours(extra, _OF_TURN)
    if not told:
        return turn
    completion = told.get("completion")
    if isinstance(completion, Mapping) and turn.completion is not None:
        told["completion"] = {**to_plain(turn.completion), **completion}
    return from_plain(Turn, {**to_plain(turn), **told})


def _ours(extra: Extra, names: Sequence[str]) -> dict[str, Any]:
    """What gce said beside ATIF's own fields."""
    told = (extra or {}).get(_OURS, {})
    if not isinstance(told, Mapping) or not set(told) <= set(names):
        raise ValueError(f"expected an object with {', '.join(names)} at most as extra.{_OURS}, got {told!r:.60}")
    return dict(told)


def joined_text(content: Any) -> str:
    """A message's text; parts are joined by line feeds. ValueError where one is not text."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise ValueError(f"expected text or a list of parts, got {content!r:.60}")
    found = []
    for part in content:
        if not isinstance(part, Mapping) or part.get("type") != "text" or not isinstance(part.get("text"), str):
            raise ValueError(f"expected parts that are text, as traces hold no others, got {part!r:.60}")
        found.append(part["text"])
    return "\n".join(found)


def _check_step(step: Step, number: int) -> None:
    """What its fields do not say of themselves."""
    if step.step_id != number:
        raise ValueError(f"expected step_id {number}, got {step.step_id}")
    wrong = [name for name in _BY_AGENTS if getattr(step, name) is not None]
    if step.source != "agent" and wrong:
        raise ValueError(f"expected {wrong[0]} of an agent alone, got it of source {step.source!r}")
    if step.llm_call_count == 0 and (step.metrics or step.reasoning_content is not None):
        raise ValueError("expected no metrics and no reasoning_content where llm_call_count is 0")
    known = {call.tool_call_id for call in step.tool_calls or ()}
    for result in step.observation.results if step.observation else ():
        if result.source_call_id is not None and result.source_call_id not in known:
            raise ValueError(f"expected a source_call_id among its tool calls, got {result.source_call_id!r:.60}")
    if step.metrics is not None:
        _check_metrics(step.metrics)


def _check_metrics(metrics: Metrics) -> None:
    ids, logs = metrics.completion_token_ids, metrics.logprobs
    strange = [token for token in (*(metrics.prompt_token_ids or ()), *(ids or ())) if not 0 <= token < _TOKENS]
    if strange:
        raise ValueError(f"expected token ids from 0 to {_TOKENS - 1}, got {strange[0]}")
    if ids is not None and logs is not None and len(ids) != len(logs):
        raise ValueError(f"expected one of logprobs for each of {len(ids)} completion_token_ids, got {len(logs)}")


def check_plain(data: Any) -> None:
    """Raise ValueError for data nested too deeply, or a number that JSON lacks."""
    waiting = [(data, 0)]
    while waiting:
        value, depth = waiting.pop()
        if depth > _DEPTH:
            raise ValueError(f"expected data nested at most {_DEPTH} deep")
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError(f"expected finite numbers, got {value!r}")
        if isinstance(value, Mapping):
            waiting += ((each, depth + 1) for each in value.values())
        elif isinstance(value, (list, tuple)):
            waiting += ((each, depth + 1) for each in value)
