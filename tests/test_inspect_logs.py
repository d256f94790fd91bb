"""Traces as logs of inspect_ai: nothing is lost on the way, inspect_ai reads what is written, and the reverse."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from test_atif import TRACE, TRACES

from gce.adapters.datasets.atif import read_atif
from gce.adapters.datasets.inspect_logs import inspect_log_of_traces, read_inspect_log, traces_of_inspect_log
from gce.app.cli import main
from gce.domain.learning import Trace
from gce.errors import BadInput, MissingExtra

WHEN = "2026-01-02T03:04:05+00:00"


def log_of(*traces: Trace) -> Any:
    """Through JSON, as a file holds it."""
    return json.loads(json.dumps(inspect_log_of_traces(traces, task="sums", created=WHEN), allow_nan=False))


ANSWER = {"role": "assistant", "content": "Two", "source": "generate", "id": "z", "model": "m/2"}
FOREIGN: dict[str, Any] = {
    "version": 2,
    "status": "success",
    "eval": {"created": WHEN, "task": "sums", "dataset": {}, "model": "m/1", "config": {}},
    "samples": [
        {
            "id": 7,
            "epoch": 2,
            "input": "1 + 1?",
            "target": "2",
            "messages": [
                {"role": "system", "content": "attachment://abc"},
                {"role": "user", "content": "1 + 1?", "source": "input"},
                {
                    "role": "assistant",
                    "content": [{"type": "reasoning", "reasoning": "hm"}, {"type": "text", "text": "Let me add."}],
                    "source": "generate",
                    "tool_calls": [{"id": "c", "function": "add", "arguments": {"x": 1}, "type": "function"}],
                },
                {"role": "tool", "content": "2", "tool_call_id": "c", "function": "add"},
                ANSWER,
            ],
            "output": {"model": "m/1", "choices": [{"message": ANSWER, "stop_reason": "max_tokens"}]},
            "scores": {"match": {"value": "C"}},
            "metadata": {},
            "attachments": {"abc": "You add."},
        },
        {"id": 8, "epoch": 1, "messages": [{"role": "user", "content": "?"}], "error": {"message": "down"}},
        {"id": 9, "epoch": 1, "messages": [{"role": "user", "content": "?"}]},
    ],
}


def changed(*place: Any, value: Any) -> Any:
    data = json.loads(json.dumps(FOREIGN))
    found = data
    for each in place[:-1]:
        found = found[each]
    found[place[-1]] = value
    return data


def test_a_conversation_with_tools_is_written_as_the_format_says() -> None:
    log = log_of(TRACE)
    assert log["eval"]["model"] == "abc" and log["results"]["completed_samples"] == 1
    (sample,) = log["samples"]
    assert sample["id"] == "r/1" and sample["scores"] == {"gce": {"value": 0.5}}
    assert [message["role"] for message in sample["input"]] == ["system", "user"]
    assert [message["role"] for message in sample["messages"]] == [turn.message.role for turn in TRACE.turns]
    assert sample["messages"][2]["tool_calls"][0] == {
        "id": "c1",
        "function": "add",
        "arguments": {"x": 1},
        "type": "function",
    }
    assert sample["messages"][3] == {"role": "tool", "content": "2", "tool_call_id": "c1", "function": "add"}
    assert sample["output"]["choices"][0]["stop_reason"] == "max_tokens"


@pytest.mark.slow
@given(TRACES)
def test_any_trace_comes_back_as_it_was(trace: Trace) -> None:
    assert list(traces_of_inspect_log(log_of(trace, TRACE))) == [trace, TRACE]


def test_a_log_of_another_program_is_read() -> None:
    """Failed samples, and those that no model answered, are left out."""
    (trace,) = traces_of_inspect_log(FOREIGN)
    assert (trace.key, trace.problem, trace.reward) == ("7/2", "7", 1.0)
    assert [turn.message.content for turn in trace.turns] == ["You add.", "1 + 1?", "Let me add.", "2", "Two"]
    assert [turn.trained for turn in trace.turns] == [False, False, True, False, True]
    assert [turn.author for turn in trace.turns] == ["task", "user", "policy", "tool", "policy"]
    assert (trace.completion.finish_reason, trace.completion.policy) == ("length", "m/2")
    assert trace.turns[2].message.tool_calls[0].arguments == '{"x": 1}'


@pytest.mark.parametrize(
    ("scores", "reward"),
    [
        ({"a": {"value": "I"}}, 0.0),
        ({"a": {"value": 0.25}}, 0.25),
        ({"a": {"value": True}}, 1.0),
        ({"a": {"value": 3}}, None),
        ({"a": {"value": {"x": 1}}}, None),
        ({"a": {"value": 1}, "b": {"value": 1}}, None),
        (None, None),
    ],
)
def test_the_only_score_in_0_to_1_is_the_reward(scores: Any, reward: float | None) -> None:
    (trace,) = traces_of_inspect_log(changed("samples", 0, "scores", value=scores))
    assert trace.reward == reward


IMAGE = [{"type": "image", "image": "x"}]


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ([], "expected a log of inspect_ai of version 2"),
        ({"version": 1, "eval": {}}, "expected a log of inspect_ai of version 2"),
        (changed("samples", value=None), "expected a log with samples"),
        (changed("samples", 0, value=3), "sample 1: expected an object with messages"),
        (changed("samples", 0, "messages", 1, "role", value="judge"), "sample 1: expected a message with a role"),
        (changed("samples", 0, "messages", 1, "content", value=IMAGE), "sample 1: expected parts that are text"),
        (changed("samples", 0, "messages", 1, "content", value=3), "sample 1: expected text or a list of parts"),
        (changed("samples", 0, "messages", 2, "tool_calls", value=[{"id": 1}]), "sample 1: .*expected"),
        (changed("samples", 0, "metadata", value={"gce": {"x": 1}}), "sample 1: expected an object with key"),
        (
            changed("samples", 0, "metadata", value={"gce": {"turns": []}}),
            "sample 1: expected one of metadata.gce.turns",
        ),
        (
            changed("samples", 0, "metadata", value={"gce": {"turns": [3] * 5}}),
            "sample 1: expected a list of objects as turns",
        ),
        (
            changed("samples", 0, "metadata", value={"gce": {"turns": 3}}),
            "sample 1: expected a list of objects as turns",
        ),
        (
            changed("samples", 0, "metadata", value={"gce": {"turns": [{"arguments": 3}] * 5}}),
            "sample 1: expected one of arguments",
        ),
        (changed("samples", 0, "metadata", value=3), "sample 1: expected an object as metadata"),
        (changed("samples", 0, "output", value=[3]), "sample 1: expected an object as output"),
        (changed("samples", 0, "output", value={"choices": [3]}), "sample 1: expected a list of objects"),
        (
            changed("samples", 0, "output", value={"choices": [{"message": 3}]}),
            "sample 1: expected an object as message",
        ),
        (changed("samples", 0, "messages", 4, "content", value=float("inf")), "expected finite numbers"),
    ],
)
def test_what_is_no_log_is_refused_in_one_line(data: Any, says: str) -> None:
    with pytest.raises(ValueError, match=f"^{says}") as refused:
        list(traces_of_inspect_log(data))
    assert "\n" not in str(refused.value)


@pytest.mark.slow
def test_files_that_cannot_be_read_say_so_in_one_line(tmp_path: Path) -> None:
    for name, data, says in (
        ("a.json", b"{", "a.json is not JSON"),
        ("b.json", b"[]", "b.json: expected a log"),
        ("c.eval", b"x", "c.eval is no .eval file"),
        ("d.json", None, "cannot read"),
    ):
        if data is not None:
            (tmp_path / name).write_bytes(data)
        with pytest.raises(BadInput, match=says):
            list(read_inspect_log(tmp_path / name))
    with zipfile.ZipFile(tmp_path / "e.eval", "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("header.json", b"0" * (257 * 2**20))
    with pytest.raises(BadInput, match=r"e\.eval unpacks to 269,484,032 bytes"):
        list(read_inspect_log(tmp_path / "e.eval"))
    with zipfile.ZipFile(tmp_path / "f.eval", "w") as packed:
        packed.writestr("header.json", b"{}")
    with pytest.raises((BadInput, MissingExtra), match="inspect"):
        list(read_inspect_log(tmp_path / "f.eval"))


def test_a_run_is_written_as_a_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("safetensors", reason="checkpoints are safetensors")
    run, out = tmp_path / "run", tmp_path / "log.json"
    given = ["--task", "toy_task:ADDITION", "--model", "toy_task:careless", "--iterations", "1", "--problems", "4"]
    assert main(["train", *given, "--test", "2", "--run-dir", str(run)]) == 0
    assert main(["traces", str(run), "--to", "inspect", "--out", str(out)]) == 0
    assert f"load them with gce.read_inspect_log('{out}')" in capsys.readouterr().out
    assert main(["traces", str(run), "--to", "atif", "--out", str(tmp_path / "same.jsonl")]) == 0
    traces = list(read_inspect_log(out))
    assert traces and traces == list(read_atif(tmp_path / "same.jsonl"))


@pytest.mark.parametrize("form", ["json", "eval"])
def test_inspect_ai_reads_what_is_written_and_its_files_come_back(form: str, tmp_path: Path) -> None:
    pytest.importorskip("inspect_ai")
    from inspect_ai.log import read_eval_log, write_eval_log

    path = tmp_path / "log.json"
    path.write_text(json.dumps(log_of(TRACE)))
    log = read_eval_log(str(path))
    assert log.samples is not None and log.samples[0].output.completion == "42"
    assert log.samples[0].messages[2].text == "Let me add."
    written = tmp_path / f"again.{form}"
    write_eval_log(log, str(written))
    assert list(read_inspect_log(written)) == [TRACE]
    path.write_text(json.dumps(FOREIGN | {"samples": FOREIGN["samples"][:1]}))
    write_eval_log(read_eval_log(str(path)), str(written))
    (trace,) = read_inspect_log(written)
    assert [turn.message.content for turn in trace.turns] == ["You add.", "1 + 1?", "Let me add.", "2", "Two"]
    assert trace.reward == 1.0
