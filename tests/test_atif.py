"""Traces as ATIF trajectories: nothing is lost on the way, what is written is valid, and what is not is refused."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from present import present

from gce.adapters.datasets.atif import VERSION, atif_of_trace, read_atif, trace_of_atif
from gce.domain.completions import Completion
from gce.domain.learning import Trace, Turn, single_turn, trained_turn
from gce.domain.problems import Message, ToolCall
from gce.domain.verdicts import Verdict
from gce.errors import BadInput

TOOLS = ({"type": "function", "function": {"name": "add"}},)
CALL = Turn(
    "policy",
    Message("assistant", "Let me add.", (ToolCall("c1", "add", '{"x": 1}'), ToolCall("c2", "run", '{"x":1}'))),
    Completion(
        "r/0",
        "Let me add. <add>",
        "stop",
        policy="abc",
        prompt_token_ids=(1, 2),
        token_ids=(3, 4),
        log_probabilities=(-0.5, -1.0),
        sampling_log_probabilities=(-0.4, -0.9),
    ),
    trained=True,
    weights=(1.0, 0.0),
)
ANSWER = trained_turn(Completion("r/1", "42", "length", policy="abc"))
TRACE = Trace(
    "r/1",
    "toy/1",
    "T0",
    3,
    (
        Turn("task", Message("system", "You add.")),
        Turn("user", Message("user", "1 + 1?")),
        CALL,
        Turn("tool", Message("tool", "2", tool_call_id="c1")),
        Turn("tool", Message("tool", "no", tool_call_id="elsewhere")),
        Turn("model", Message("assistant", "I would not.")),
        ANSWER,
    ),
    (Verdict("right", 1.0, "sum", "1", {"digits": 2}),),
    "d" * 32,
    reward=0.5,
    tools=TOOLS,
)


def through_json(data: Any) -> Any:
    return json.loads(json.dumps(data, allow_nan=False))


def test_a_conversation_with_tools_is_written_as_the_format_says() -> None:
    found = through_json(atif_of_trace(TRACE, version="1"))
    assert (found["schema_version"], found["trajectory_id"]) == (VERSION, "r/1")
    assert found["agent"] == {"name": "gce", "version": "1", "model_name": "abc", "tool_definitions": list(TOOLS)}
    assert [step["step_id"] for step in found["steps"]] == [1, 2, 3, 4, 5]
    assert [step["source"] for step in found["steps"]] == ["system", "user", "agent", "agent", "agent"]
    call = found["steps"][2]
    assert call["tool_calls"] == [
        {"tool_call_id": "c1", "function_name": "add", "arguments": {"x": 1}},
        {
            "tool_call_id": "c2",
            "function_name": "run",
            "arguments": {"x": 1},
            "extra": {"gce": {"arguments": '{"x":1}'}},
        },
    ]
    assert call["observation"]["results"] == [
        {"source_call_id": "c1", "content": "2"},
        {"content": "no", "extra": {"gce": {"tool_call_id": "elsewhere"}}},
    ]
    assert call["metrics"] == {
        "prompt_tokens": 2,
        "completion_tokens": 2,
        "prompt_token_ids": [1, 2],
        "completion_token_ids": [3, 4],
        "logprobs": [-0.5, -1.0],
    }
    assert (call["model_name"], call["llm_call_count"]) == ("abc", 1)
    told = {"key": "r/0", "text": "Let me add. <add>", "sampling_log_probabilities": [-0.4, -0.9]}
    assert call["extra"] == {"gce": {"completion": told, "weights": [1.0, 0.0]}}
    assert found["steps"][3]["extra"] == {"gce": {"author": "model", "completion": None, "trained": False}}
    assert "extra" not in found["steps"][1], "a user's step says it all"


def test_a_conversation_with_tools_comes_back() -> None:
    assert trace_of_atif(through_json(atif_of_trace(TRACE))) == TRACE


# Any trace

TEXTS = st.text(max_size=4)
LOGS = st.lists(st.floats(-9, 0), max_size=3).map(tuple)
IDS = st.lists(st.integers(0, 2**31 - 1), max_size=3).map(tuple)
ARGUMENTS = st.one_of(
    TEXTS,
    st.dictionaries(TEXTS, st.one_of(TEXTS, st.integers(), st.none()), max_size=2).map(json.dumps),
    st.sampled_from(['{"x": 1e999}', '{"x": NaN}', "[1]", '{"a": 1, "a": 2}', '{"a":' * 200 + "1" + "}" * 200]),
)
CALLS = st.builds(ToolCall, TEXTS, TEXTS, ARGUMENTS)


@st.composite
def completions(draw: Any) -> Completion:
    ids = draw(st.none() | IDS)
    logs = None if ids is None else draw(st.none() | st.just((-1.5,) * len(ids)))
    counts = draw(st.sampled_from([{}, {"tokens": None}, {"prompt_tokens": None}, {"tokens": 7, "prompt_tokens": 0}]))
    return Completion(
        draw(TEXTS),
        draw(TEXTS),
        draw(st.sampled_from(["stop", "length", "error"])),
        policy=draw(TEXTS),
        prompt_token_ids=draw(st.none() | IDS),
        token_ids=ids,
        log_probabilities=logs,
        sampling_log_probabilities=draw(st.none() | LOGS),
        error=draw(TEXTS),
        **counts,
    )


@st.composite
def turns(draw: Any) -> Turn:
    role = draw(st.sampled_from(["system", "user", "assistant", "tool"]))
    message = Message(
        role,
        draw(TEXTS),
        tuple(draw(st.lists(CALLS, max_size=2))) if role == "assistant" else (),
        draw(TEXTS) if role == "tool" else "",
    )
    completion = draw(st.none() | completions())
    written = 0 if completion is None else len(completion.token_ids or ())
    weights = draw(st.sampled_from([(), (0.5,) * written]))
    trained = role == "assistant" and completion is not None and draw(st.booleans())
    author = draw(st.sampled_from(["policy", "model", "user", "task", "tool"]))
    return Turn(author, message, completion, trained=trained, weights=weights)


TRACES = st.builds(
    lambda said, last, **fields: Trace(turns=(*said, trained_turn(last)), **fields),
    st.lists(turns(), max_size=5),
    completions(),
    key=TEXTS,
    problem=TEXTS,
    tier=TEXTS,
    iteration=st.integers(0, 9),
    verdicts=st.sampled_from([(), TRACE.verdicts]),
    content_digest=TEXTS,
    reward=st.none() | st.floats(0, 1),
    tools=st.sampled_from([(), TOOLS]),
)


@pytest.mark.slow
@given(TRACES)
def test_any_trace_comes_back_as_it_was(trace: Any) -> None:
    assert trace_of_atif(through_json(atif_of_trace(trace))) == trace


@pytest.mark.slow
@given(TRACES)
def test_what_is_written_is_valid_by_the_formats_own_models(trace: Any) -> None:
    """Those of the package atif, of Harbor's version 1.7."""
    models = pytest.importorskip("atif")
    models.Trajectory.model_validate(through_json(atif_of_trace(trace)))


# Of other programs

FOREIGN: dict[str, Any] = {
    "schema_version": "ATIF-v1.5",
    "session_id": "s",
    "agent": {"name": "other", "version": "2", "model_name": "big"},
    "steps": [
        {"step_id": 1, "source": "system", "message": "Be brief.", "timestamp": "2026-01-01T00:00:00Z"},
        {
            "step_id": 2,
            "source": "user",
            "message": [{"type": "text", "text": "1 + 1?"}, {"type": "text", "text": "!"}],
        },
        {
            "step_id": 3,
            "source": "agent",
            "message": "",
            "reasoning_content": "hmm",
            "tool_calls": [{"tool_call_id": "c", "function_name": "add", "arguments": {"x": [1, 1]}}],
            "observation": {"results": [{"source_call_id": "c", "content": "2"}, {"content": None}]},
            "metrics": {"completion_token_ids": [7, 8], "prompt_token_ids": [5], "logprobs": [-1, -0.5], "cost_usd": 1},
        },
        {"step_id": 4, "source": "agent", "message": "next", "llm_call_count": 0},
        {"step_id": 5, "source": "agent", "message": "old", "is_copied_context": True},
        {"step_id": 6, "source": "agent", "message": "2", "model_name": "small", "extra": {"mine": 1}},
    ],
    "final_metrics": {"total_steps": 6},
}


def test_a_trajectory_of_another_program_is_read() -> None:
    trace = trace_of_atif(FOREIGN, problem="p", tier="T1")
    assert (trace.key, trace.problem, trace.tier, trace.iteration, trace.reward) == ("s", "p", "T1", 0, None)
    assert [turn.author for turn in trace.turns] == [
        "task",
        "user",
        "policy",
        "tool",
        "tool",
        "task",
        "policy",
        "policy",
    ]
    assert [turn.trained for turn in trace.turns] == [False, False, True, False, False, False, False, True]
    assert trace.turns[1].message.content == "1 + 1?\n!"
    call, result = trace.turns[2], trace.turns[3]
    assert call.message.tool_calls == (ToolCall("c", "add", '{"x": [1, 1]}'),)
    assert result.message == Message("tool", "2", tool_call_id="c")
    assert call.completion == Completion(
        "s/3", "", "stop", "big", prompt_token_ids=(5,), token_ids=(7, 8), log_probabilities=(-1.0, -0.5)
    )
    assert (
        trace.completion.policy == "small"
        and trace.content_digest != trace_of_atif(changed("steps", 5, message="3")).content_digest
    )


def changed(*place: Any, **values: Any) -> dict[str, Any]:
    data = copy.deepcopy(FOREIGN)
    part: Any = data
    for each in place:
        part = part[each]
    part.update(values)
    return data


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = {"x": value}
    return value


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (None, "expected a trajectory with a schema_version from ATIF-v1.0 to ATIF-v1.7, got None"),
        ([], r"expected a trajectory with a schema_version .* got \[\]"),
        (changed(schema_version="ATIF-v2.0"), "got 'ATIF-v2.0'"),
        (changed(schema_version=["x"] * 999), r"got \['x', .{0,60}$"),
        (changed(steps="x" * 10**6), "expected a list, got 'xxxx.{0,40}$"),
        (changed(agent={"name": "x"}), "version: expected this field, got none"),
        (changed("agent", colour="red"), "expected no other fields, got 'colour'"),
        (changed("steps", 0, step_id=2), "step 1: expected step_id 1, got 2"),
        (changed("steps", 0, source="nobody"), "expected one of 'system', 'user', 'agent', got 'nobody'"),
        (
            changed("steps", 0, model_name="x"),
            "step 1: expected model_name of an agent alone, got it of source 'system'",
        ),
        (changed("steps", 0, message=3), "step 1: expected text or a list of parts, got 3"),
        (changed("steps", 0, message=[{"type": "image", "source": {}}]), "step 1: expected parts that are text"),
        (
            changed("steps", 3, metrics={}),
            "step 4: expected no metrics and no reasoning_content where llm_call_count is",
        ),
        (changed("steps", 2, tool_calls=None), "step 3: expected a source_call_id among its tool calls, got 'c'"),
        (changed("steps", 2, "tool_calls", 0, arguments="{}"), "expected an object with text keys, got '{}'"),
        (changed("steps", 2, "metrics", logprobs=[-1]), "one of logprobs for each of 2 completion_token_ids, got 1"),
        (changed("steps", 2, "metrics", logprobs=[-1, float("nan")]), "expected finite numbers, got nan"),
        (changed("steps", 2, "metrics", prompt_token_ids=[2**31]), "token ids from 0 to 2147483647, got 2147483648"),
        (changed("steps", 2, "metrics", prompt_token_ids=[True]), "expected a whole number, got True"),
        (changed("steps", 5, extra={"gce": {"author": "nobody"}}), "step 6: .*author: expected one of 'policy'"),
        (changed("steps", 5, extra={"gce": {"message": {}}}), "step 6: expected an object with author, completion"),
        (changed("steps", 5, extra={"gce": []}), r"step 6: expected an object with .* got \[\]"),
        (changed(extra={"gce": {"verdicts": 3}}), "verdicts: expected a list, got 3"),
        (changed(extra=nested(10**5)), "expected data nested at most 100 deep"),
        (changed(steps=FOREIGN["steps"][:2]), "expected a turn to train on, got none"),
        (changed(steps=[]), "expected a turn to train on, got none"),
    ],
)
def test_what_is_no_trajectory_is_refused_in_one_line(data: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        trace_of_atif(data)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 300


# Files


def test_one_trajectory_in_a_json_file_or_one_a_line(tmp_path: Path) -> None:
    lines, alone = tmp_path / "traces.jsonl", tmp_path / "trajectory.json"
    other = evolve(TRACE, key="other", turns=single_turn((Message("user", "x"),), present(ANSWER.completion)))
    lines.write_text("".join(json.dumps(atif_of_trace(trace)) + "\n" for trace in (TRACE, other)))
    alone.write_text(json.dumps(atif_of_trace(TRACE), indent=2))
    assert list(read_atif(lines)) == [TRACE, other]
    assert list(read_atif(alone)) == [TRACE]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.json", "{", "a.json is not JSON"),
        ("a.json", "[" * 10**5, "nested too deeply"),
        ("a.json", "{}", "a.json: expected a trajectory with a schema_version"),
        ("a.jsonl", json.dumps(atif_of_trace(TRACE)) + "\n{}\n", "a.jsonl, trajectory 2: expected a trajectory"),
        ("a.jsonl", '{"schema_version": NaN}', "a.jsonl, line 1 is not JSON: expected a finite number, got NaN"),
        ("a.jsonl", "", "holds no records"),
    ],
)
def test_a_file_that_cannot_be_read_says_so_in_one_line(tmp_path: Path, name: str, text: str, message: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(BadInput, match=message) as caught:
        list(read_atif(tmp_path / name))
    assert "\n" not in str(caught.value)
