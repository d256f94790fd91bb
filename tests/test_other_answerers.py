"""Answers that come from a cache, a person, a command or a file of a batch, and several models in one table."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st

import gce
from gce.adapters.models.batches import BatchModel
from gce.adapters.models.commands import CommandModel
from gce.adapters.models.human import HumanModel
from gce.adapters.models.ledger import Ledger
from gce.adapters.models.request_hash import request_hash
from gce.adapters.models.wrappers.cached import Cached
from gce.app import cli
from gce.app.evaluation.several_models import answers_of_model
from gce.domain.completions import Completion, SampleRequest
from gce.domain.models import ModelInfo
from gce.domain.problems import Message
from gce.domain.spending import Limits, Price, Used
from gce.errors import BadInput, ModelError, SettingError, Unfinished
from gce.ports.model import Sampler

KEY = "sk-secret-0123456789"
REQUEST = SampleRequest("k", (Message("user", "What is 2 + 2?"),), 7, 0.0, 40)


class Counting:
    """Answers with the prompt, and counts how often it is asked."""

    def __init__(self, **fields: Any) -> None:
        self.asked: list[SampleRequest] = []
        self.fields = {"finish_reason": "stop", "reasoning": "hm", "tokens": 3, **fields}

    def info(self) -> ModelInfo:
        return ModelInfo("counting", frozenset({"sample"}), greedy=True)

    def sample(self, requests: Sequence[SampleRequest]) -> Iterator[Completion]:
        for request in requests:
            self.asked.append(request)
            yield Completion(request.key, f"to {request.messages[-1].content}", policy="counting", **self.fields)


def texts(model: Sampler, *requests: SampleRequest) -> dict[str, str]:
    return {completion.key: completion.text for completion in model.sample(requests)}


# The cache


def test_an_answer_that_is_kept_is_not_asked_again(tmp_path: Path) -> None:
    inner, other = Counting(), evolve(REQUEST, key="o", messages=(Message("user", "other \ud800"),))
    first = list(Cached(inner, tmp_path).sample([REQUEST, other]))
    again = list(Cached(inner, tmp_path).sample([evolve(REQUEST, key="z", seed=8), other]))
    assert len(inner.asked) == 2
    assert [evolve(completion, key="") for completion in again] == [evolve(completion, key="") for completion in first]
    assert [completion.key for completion in again] == ["z", "o"]
    assert again[0].reasoning == "hm"


def test_equal_requests_of_one_call_are_asked_once(tmp_path: Path) -> None:
    inner = Counting()
    assert texts(Cached(inner, tmp_path), REQUEST, evolve(REQUEST, key="l", seed=9)).keys() == {"k", "l"}
    assert len(inner.asked) == 1


@pytest.mark.parametrize("reason", ["error", "context"])
def test_what_is_no_answer_is_not_kept(tmp_path: Path, reason: str) -> None:
    inner = Counting(finish_reason=reason)
    for _ in range(2):
        list(Cached(inner, tmp_path).sample([REQUEST]))
    assert len(inner.asked) == 2
    assert not list(tmp_path.rglob("*.json"))


@pytest.mark.parametrize("content", [b"", b"{", b"\xff", b"[]", b"3", b'{"completion": {"key": 3}}', b"[" * 9999])
def test_a_damaged_file_is_as_if_it_were_not_there(tmp_path: Path, content: bytes) -> None:
    inner = Counting()
    list(Cached(inner, tmp_path).sample([REQUEST]))
    (file,) = tmp_path.rglob("*.json")
    file.write_bytes(content)
    assert texts(Cached(inner, tmp_path), REQUEST) == {"k": "to What is 2 + 2?"}
    assert len(inner.asked) == 2
    list(Cached(inner, tmp_path).sample([REQUEST]))
    assert len(inner.asked) == 2


def test_a_cache_that_cannot_be_written_is_said_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BadInput, match=r"^cannot write .*: give another cache$"):
        list(Cached(Counting(), tmp_path / "file").sample([REQUEST]))


M, N = (ModelInfo(name, frozenset({"sample"}), greedy=True) for name in "mn")
CHANGES: dict[str, Any] = {
    "messages": (Message("system", "What is 2 + 2?"),),
    "max_tokens": 41,
    "temperature": 0.5,
    "stop": ("!",),
}


@pytest.mark.parametrize(("name", "value"), CHANGES.items())
def test_a_hash_differs_where_the_answer_may(name: str, value: Any) -> None:
    assert request_hash(M, evolve(REQUEST, **{name: value})) != request_hash(M, REQUEST) != request_hash(N, REQUEST)


def test_a_seed_counts_only_where_something_is_drawn() -> None:
    assert request_hash(M, evolve(REQUEST, seed=8, key="l")) == request_hash(M, REQUEST)
    warm = evolve(REQUEST, temperature=1.0)
    assert request_hash(M, evolve(warm, seed=8)) != request_hash(M, warm) == request_hash(M, evolve(warm, key="l"))


def test_a_seed_counts_at_temperature_0_unless_the_model_is_known_to_be_greedy_there() -> None:
    unknown = evolve(M, greedy=False)
    assert request_hash(unknown, evolve(REQUEST, seed=8)) != request_hash(unknown, REQUEST)


def test_who_is_greedy_at_temperature_0(tmp_path: Path) -> None:
    """Models that take no temperature draw nevertheless, and a command may have the seed among its words."""
    assert HumanModel(print, lambda _most: None).info().greedy
    assert BatchModel(tmp_path, "openai:gpt-4.1").info().greedy
    assert not BatchModel(tmp_path, "openai:gpt-5").info().greedy
    assert not CommandModel("cat {prompt_file} {seed}").info().greedy


def test_a_command_with_the_seed_is_asked_for_each_seed(tmp_path: Path) -> None:
    model = Cached(CommandModel("echo {seed} {prompt_file}"), tmp_path)
    found = texts(model, REQUEST, evolve(REQUEST, key="l", seed=8))
    assert [text.split()[0] for _, text in sorted(found.items())] == ["7", "8"]


@settings(max_examples=30)
@given(st.lists(st.integers(0, 3), max_size=12), st.lists(st.integers(0, 3), max_size=12))
def test_a_cache_changes_no_answer(tmp_path_factory: pytest.TempPathFactory, one: list[int], two: list[int]) -> None:
    folder, inner = tmp_path_factory.mktemp("cache"), Counting()
    for numbers in (one, two):
        requests = [
            evolve(REQUEST, key=f"{place}", messages=(Message("user", f"{number}"),))
            for place, number in enumerate(numbers)
        ]
        assert texts(Cached(inner, folder), *requests) == texts(Counting(), *requests)
    assert len(inner.asked) == len({*one, *two})


def evaluate(*options: str, n: int = 3) -> int:
    return cli.main(["evaluate", "--task", "toy_task:ADDITION", "--tiers", "T0", "--n", f"{n}", *options])


def test_a_second_command_takes_answers_from_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """And no file in it holds the key, which the server repeats in its answers."""
    pytest.importorskip("httpx2")
    from chat_server import ChatServer

    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    with ChatServer(message={"content": f"{KEY} 5", "reasoning": f"x {KEY}"}) as server:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        given = ("--model", "anthropic:claude-haiku-4-5", "--cache", str(tmp_path / "c"), "--max-cost", "1")
        assert evaluate(*given) == 0
        first, asked = capsys.readouterr(), len(server.bodies)
        assert evaluate(*given, "--answers", str(tmp_path / "a.jsonl")) == 0
        second = capsys.readouterr()
        assert len(server.bodies) == asked
    assert first.out.splitlines()[1] == second.out.splitlines()[1]
    assert "used: " in first.err and "used: " not in second.err
    stored = [file.read_text() for file in tmp_path.rglob("*.json*")]
    assert len(stored) > 2 and not [text for text in stored if KEY[3:] in text]
    assert '"reasoning": "x [key]"' in (tmp_path / "a.jsonl").read_text()


def test_a_cache_is_refused_for_a_model_that_does_more_than_sample(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "answers.jsonl").write_text('{"text": "5"}\n')
    assert evaluate("--model", f"scripted:{tmp_path / 'answers.jsonl'}", "--cache", str(tmp_path / "c")) == 2
    assert "--cache is for models that sample only, not for scripted:" in capsys.readouterr().err


# A person


def person(*lines: str) -> tuple[HumanModel, list[str]]:
    shown: list[str] = []
    typed = iter(lines)
    return HumanModel(shown.append, lambda most: next(typed, "")[:most] or None), shown


def test_a_person_sees_the_prompt_and_types_the_answer() -> None:
    model, shown = person("It is\n", "\n", "4.\n", " . \n")
    request = evolve(REQUEST, messages=(Message("system", "be brief"), Message("user", "a\nb")))
    assert texts(model, request) == {"k": "It is\n\n4."}
    assert shown[:6] == ["--- question 1 of 1", "[system]", "be brief", "[user]", "a", "b"]


def test_a_question_that_is_left_out_failed() -> None:
    model, _ = person("half", ":skip", "4", ".")
    first, second = model.sample([REQUEST, evolve(REQUEST, key="l")])
    assert (first.finish_reason, first.error) == ("error", "the person left it out")
    assert second.text == "4"


def test_a_question_that_is_left_out_is_not_asked_again() -> None:
    model, shown = person(":skip", "4", ".")
    other = evolve(REQUEST, messages=(Message("user", "other"),))
    assert [next(iter(model.sample([each]))).text for each in (REQUEST, REQUEST, other)] == ["", "", "4"]
    assert shown.count("--- question 1 of 1") == 2


def test_an_answer_without_end_is_refused_before_it_is_held() -> None:
    asked: list[int] = []

    def read(most: int) -> str:
        asked.append(most)
        return "x" * min(most, 1 << 18)

    with pytest.raises(BadInput, match=r"^an answer has at most 1,048,576 characters$"):
        list(HumanModel(lambda _line: None, read).sample([REQUEST]))
    assert asked == [(1 << 20) + 1 - place * (1 << 18) for place in range(5)]


@pytest.mark.parametrize("lines", [(":quit",), ("half an answer",), ()])
def test_answers_before_the_end_are_kept_and_not_asked_again(tmp_path: Path, lines: tuple[str, ...]) -> None:
    requests = [evolve(REQUEST, key=f"{i}", messages=(Message("user", f"{i}"),)) for i in range(2)]
    model, _ = person("zero", ".", *lines)
    with pytest.raises(Unfinished, match="the same command goes on"):
        list(Cached(model, tmp_path).sample(requests))
    model, shown = person("one", ".")
    assert texts(Cached(model, tmp_path), *requests) == {"0": "zero", "1": "one"}
    assert shown[0] == "--- question 1 of 1"


def test_a_person_answers_in_the_terminal_and_goes_on_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import io

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdin", io.StringIO("w1\n.\n"))
    assert evaluate("--model", "human:", n=2) == 3
    shown = capsys.readouterr()
    assert shown.out.count("--- question") == 2
    assert "stopped before all questions were answered: the same command goes on" in shown.err
    monkeypatch.setattr(sys, "stdin", io.StringIO("w2\n.\n"))
    assert evaluate("--model", "human:", n=2) == 0
    shown = capsys.readouterr()
    assert shown.out.count("--- question") == 1
    assert len(list((tmp_path / "human-answers").rglob("*.json"))) == 2


def test_a_person_leaves_a_question_out_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import io

    monkeypatch.setattr(sys, "stdin", io.StringIO(":skip\nw1\n.\n"))
    assert evaluate("--model", f"human:{tmp_path}", "--min-coverage", "0", n=2) == 0
    assert capsys.readouterr().out.count("--- question") == 2


@pytest.mark.parametrize("stdin", ["bytes", "closed", "none"])
def test_standard_input_may_be_anything(
    stdin: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import io

    given = io.TextIOWrapper(io.BytesIO(b"\xff\xfe\n.\n"), encoding="utf-8")
    if stdin == "closed":
        given.close()
    monkeypatch.setattr(sys, "stdin", None if stdin == "none" else given)
    assert evaluate("--model", f"human:{tmp_path}", "--min-coverage", "0", n=1) == (0 if stdin == "bytes" else 3)
    if stdin != "bytes":
        assert "stopped before all questions were answered" in capsys.readouterr().err


def test_a_named_directory_of_a_persons_answers_comes_before_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import io

    for name, typed in (("ann", "w1\n.\n"), ("bob", "w2\n.\n")):
        monkeypatch.setattr(sys, "stdin", io.StringIO(typed))
        assert evaluate("--model", f"human:{tmp_path / name}", "--cache", str(tmp_path / "c"), n=1) == 0
        (kept,) = (tmp_path / name).rglob("*.json")
        assert typed[:2] in kept.read_text()
    assert not (tmp_path / "c").exists()


def test_what_a_prompt_holds_does_not_reach_the_terminal_raw(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import io

    import toy_task

    from gce.app.settings.records import ModelSettings, TrainSettings
    from gce.app.wiring.models import find_model

    monkeypatch.setattr(sys, "stdin", io.StringIO("a\n.\n"))
    model = find_model(TrainSettings(model=ModelSettings(name=f"human:{tmp_path}")), toy_task.ADDITION)
    assert isinstance(model, Sampler)
    list(model.sample([evolve(REQUEST, messages=(Message("user", "\x1b[2J\u202eclear\r"),))]))
    assert "\x1b" not in (shown := capsys.readouterr().out) and "\u202e" not in shown and "\r" not in shown


# A command


def command(code: str, *words: str, **options: Any) -> CommandModel:
    """Python code as a command; {prompt_file} is its first argument."""
    escaped = code.replace("{", "{{").replace("}", "}}")
    line = " ".join([sys.executable, "-c", f"'{escaped}'", *(words or ("{prompt_file}",))])
    return CommandModel(line, **{"timeout": 20.0, **options})


def one(model: CommandModel, request: SampleRequest = REQUEST) -> Completion:
    (completion,) = model.sample([request])
    return completion


def test_a_command_gets_the_prompt_in_a_file() -> None:
    found = one(command("import sys; print(open(sys.argv[1]).read().upper())"))
    assert (found.text, found.finish_reason) == ("WHAT IS 2 + 2?", "stop")


def test_a_command_gets_messages_and_numbers() -> None:
    model = command(
        "import json, sys; print([m['role'] for m in json.load(open(sys.argv[1]))], *sys.argv[2:])".replace("'", '"'),
        "{messages_file}",
        "{seed}",
        "{max_tokens}",
        "--t={temperature}",
    )
    request = evolve(REQUEST, messages=(Message("system", "a"), Message("user", "b")))
    assert one(model, request).text == "['system', 'user'] 7 40 --t=0.0"


def test_messages_in_a_prompt_file_have_their_roles() -> None:
    model = command("import sys; print(open(sys.argv[1]).read())")
    request = evolve(REQUEST, messages=(Message("user", "a\nb"), Message("assistant", "c")))
    assert one(model, request).text == "[user]\na\nb\n\n[assistant]\nc"


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("import sys; sys.exit(3)", "the command ended with exit status 3"),
        ('import sys; sys.exit("no\\nmodel")', "the command ended with exit status 1: model"),
        ("import os; os.abort()", "the command ended with exit status -6"),
        ('while True: print("x" * 9999)', "the command printed more than 1,048,576 bytes"),
        ("bytearray(1 << 33)", "the command ended with exit status 1: MemoryError"),
    ],
)
def test_a_command_that_fails_or_exceeds_a_bound_is_an_error(code: str, said: str) -> None:
    if "bytearray" in code and sys.platform != "linux":
        pytest.skip("only Linux holds processes to this limit")
    found = one(command(code))
    assert (found.finish_reason, found.text, found.error) == ("error", "", said)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"
    except OSError:
        return False


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
@pytest.mark.parametrize("leaves", [True, False], ids=["the command ends", "the command stays"])
def test_all_that_a_command_started_ends_with_it(tmp_path: Path, leaves: bool) -> None:
    file = tmp_path / "pid"
    code = (
        "import subprocess, sys, time\n"
        'child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])\n'
        f'open("{file}", "w").write(str(child.pid))\nprint("done", flush=True)\n'
    )
    began = time.monotonic()
    found = one(command(code + ("" if leaves else "time.sleep(600)"), timeout=3.0))
    assert time.monotonic() - began < 15
    assert (found.text, found.error) == (
        ("done", "") if leaves else ("", "the command gave no answer within 3 seconds")
    )
    for _ in range(100):
        if not alive(int(file.read_text())):
            return
        time.sleep(0.05)
    raise AssertionError("a child is left")


def test_commands_run_at_a_time_and_a_closed_iterator_ends_them() -> None:
    model = command("import time; time.sleep(600)", concurrency=4, timeout=600.0)
    requests = [evolve(REQUEST, key=f"{i}") for i in range(9)]
    fast = evolve(REQUEST, key="fast")
    code = 'import sys, time; time.sleep(0 if "fast" in open(sys.argv[1]).read() else 600)'
    model = command(code, concurrency=4, timeout=600.0)
    found = model.sample([*requests[:2], evolve(fast, messages=(Message("user", "fast"),)), *requests[2:]])
    assert next(found).key == "fast"
    began = time.monotonic()
    found.close()  # type: ignore[attr-defined]
    assert time.monotonic() - began < 10
    assert not [thread for thread in threading.enumerate() if "ThreadPool" in thread.name and thread.is_alive()]


def test_the_files_of_a_prompt_are_gone_afterwards() -> None:
    path = one(command("import sys; print(sys.argv[1])")).text
    assert path.endswith("prompt.txt") and not os.path.exists(path)


def test_a_key_that_a_command_prints_is_taken_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MISTRAL_API_KEY", KEY)
    loud = 'import os, sys; key = os.environ["MISTRAL_API_KEY"]; print(key); sys.exit(key if "x" in sys.argv else 0)'
    assert one(command(loud, "{prompt_file}", keys=[KEY])).text == "[key]"
    assert one(command(loud, "{prompt_file}", "x", keys=[KEY])).error.endswith("exit status 1: [key]")


@pytest.mark.parametrize(
    "line",
    [
        "",
        "./agent",
        "./agent '{prompt_file}",
        "./agent {}",
        "./agent {prompt_file} {other}",
        "a {prompt_file",
        "cat {prompt_file!r} command",
        "cat {prompt_file} {seed:04}",
        "cat {prompt_file:{seed}}",
        "'' {prompt_file}",
    ],
)
def test_what_is_no_command_for_a_prompt_is_refused(line: str) -> None:
    with pytest.raises(ModelError, match="command"):
        CommandModel(line)


def test_a_command_that_is_not_there_is_said() -> None:
    with pytest.raises(ModelError, match=r"^cannot run the command './no-such-agent': it is not found, or no program$"):
        CommandModel("./no-such-agent {prompt_file}")
    assert evaluate("--model", "command:no-such-agent {prompt_file}") == 2


def test_no_module_of_this_directory_is_loaded_in_front_of_a_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "resource.py").write_text("raise SystemExit('not this one')")
    monkeypatch.chdir(tmp_path)
    assert one(CommandModel("cat {prompt_file}")).text == "What is 2 + 2?"


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux holds processes to this limit")
def test_a_stricter_limit_of_memory_stays() -> None:
    """In a process of its own, as a hard limit cannot be raised again."""
    code = (
        "import resource\n"
        "from gce.adapters.models.commands import CommandModel\n"
        "from gce.domain.completions import SampleRequest\n"
        "from gce.domain.problems import Message\n"
        "resource.setrlimit(resource.RLIMIT_DATA, (1 << 31, 1 << 31))\n"
        "model = CommandModel('cat {prompt_file}')\n"
        "print(next(iter(model.sample([SampleRequest('k', (Message('user', 'four'),), 0)]))))\n"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert "text='four'" in ended.stdout, (ended.stdout, ended.stderr)


def test_no_shell_reads_a_command() -> None:
    assert one(CommandModel("echo $HOME ; {prompt_file}")).text.startswith("$HOME ; /")


def test_a_command_is_a_model_of_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "agent.py"
    script.write_text("print('w1')")
    assert evaluate("--model", f"command:{sys.executable} {script} {{prompt_file}}", "--concurrency", "2") == 0
    assert "command:" in capsys.readouterr().out


# A batch


def line_of(request: Any, text: str = "4", **response: Any) -> str:
    body = {
        "choices": [{"index": 0, "message": {"content": text, "reasoning": "hm"}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 9, "completion_tokens": 2},
    }
    answer = {"status_code": 200, "body": body, **response}
    return json.dumps({"id": "x", "custom_id": request["custom_id"], "response": answer, "error": None}) + "\n"


def asked_in(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_requests_go_out_in_one_file_and_answers_come_in_another(tmp_path: Path) -> None:
    model, other = BatchModel(tmp_path / "b", "openai:gpt-5-mini"), evolve(REQUEST, key="l", stop=("!",), max_tokens=9)
    with pytest.raises(Unfinished, match=r"^no answer yet to 2 requests, 2 of them written to .*requests-1.jsonl: "):
        list(model.sample([REQUEST, other]))
    first, second = asked_in(tmp_path / "b" / "requests-1.jsonl")
    assert (first["method"], first["url"], len(first["custom_id"])) == ("POST", "/v1/chat/completions", 64)
    message = {"role": "user", "content": "What is 2 + 2?"}
    assert first["body"] == {"model": "gpt-5-mini", "messages": [message], "max_completion_tokens": 40, "seed": 7}
    (tmp_path / "b" / "output.jsonl").write_text(line_of(second, "four! yes") + line_of(first))
    found = {completion.key: completion for completion in model.sample([REQUEST, other])}
    assert (found["k"].text, found["k"].reasoning, found["k"].tokens) == ("4", "hm", 2)
    assert found["l"].text == "four"
    assert "not greedily" in model.info().note


def test_what_was_asked_is_not_written_again_unless_a_batch_came_back_without_it(tmp_path: Path) -> None:
    model, other = BatchModel(tmp_path, "toy"), evolve(REQUEST, key="l", max_tokens=9)
    with pytest.raises(Unfinished):
        list(model.sample([REQUEST]))
    with pytest.raises(Unfinished, match="no answer yet to 1 request, all of them written before"):
        list(model.sample([REQUEST]))
    with pytest.raises(Unfinished, match=r"2 requests, 1 of them written to .*requests-2.jsonl"):
        list(model.sample([REQUEST, other]))
    (second,) = asked_in(tmp_path / "requests-2.jsonl")
    (tmp_path / "one.jsonl").write_text(line_of(second))
    found = model.sample([REQUEST, other])
    assert next(found).key == "l"
    with pytest.raises(Unfinished, match="all of them written before"):
        next(found)
    third = evolve(REQUEST, key="m", max_tokens=8)
    with pytest.raises(Unfinished, match=r"requests-3.jsonl"):
        list(model.sample([REQUEST, third]))
    (tmp_path / "two.jsonl").write_text(line_of(asked_in(tmp_path / "requests-3.jsonl")[0]))
    (tmp_path / "requests-1.jsonl").unlink()
    with pytest.raises(Unfinished, match=r"1 of them written to .*requests-4.jsonl"):
        list(model.sample([REQUEST, third]))


@pytest.mark.parametrize(
    ("response", "reason", "said"),
    [
        ({"status_code": 500, "body": {"error": {"message": "oh"}}}, "error", "the batch has an error: oh"),
        ({"status_code": 400, "body": {"error": {"message": "prompt is too long"}}}, "context", "no room"),
        ({"body": {"choices": []}}, "error", "an answer without choices"),
        ({"body": None}, "error", "an answer without choices"),
    ],
)
def test_an_answer_that_is_an_error_is_one(tmp_path: Path, response: Any, reason: str, said: str) -> None:
    model = BatchModel(tmp_path, "toy")
    with pytest.raises(Unfinished):
        list(model.sample([REQUEST]))
    (tmp_path / "out.jsonl").write_text(line_of(asked_in(tmp_path / "requests-1.jsonl")[0], **response))
    (completion,) = model.sample([REQUEST])
    assert completion.finish_reason == reason and said in completion.error


@pytest.mark.parametrize("line", ["", "{", "[]", "3", '{"custom_id": "x", "response": 3}', "[" * 9999])
def test_what_is_no_file_of_answers_is_said_in_one_line(tmp_path: Path, line: str) -> None:
    (tmp_path / "out.jsonl").write_text(f"{line}\n")
    with pytest.raises(BadInput, match=r"^line 1 of .*out.jsonl is no answer in OpenAI's batch format$"):
        list(BatchModel(tmp_path, "toy").sample([REQUEST]))


def test_a_key_in_a_batch_is_taken_out(tmp_path: Path) -> None:
    model = BatchModel(tmp_path, "toy", keys=[KEY])
    with pytest.raises(Unfinished):
        list(model.sample([REQUEST]))
    (tmp_path / "out.jsonl").write_text(line_of(asked_in(tmp_path / "requests-1.jsonl")[0], text=f"a {KEY}"))
    assert texts(model, REQUEST) == {"k": "a [key]"}


@pytest.mark.parametrize("name", ["", "openai:", "anthropic:claude-haiku-4-5"])
def test_a_batch_needs_a_model_that_speaks_its_format(tmp_path: Path, name: str) -> None:
    with pytest.raises(ModelError, match="expected batch:DIR#MODEL"):
        BatchModel(tmp_path, name)


def test_a_batch_is_a_model_of_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert evaluate("--model", "batch:jobs#toy") == 3
    assert "no answer yet to 3 requests" in capsys.readouterr().err
    lines = [line_of(each, "w1") for each in asked_in(tmp_path / "jobs" / "requests-1.jsonl")]
    (tmp_path / "jobs" / "answers.jsonl").write_text("".join(lines))
    assert evaluate("--model", "batch:jobs#toy") == 0
    assert evaluate("--model", "batch:#toy") == 2


def ledger(cost: float) -> Ledger:
    return Ledger(Limits(cost=cost))


def test_a_batch_counts_at_the_most_before_it_is_written_and_at_what_it_used_afterwards(tmp_path: Path) -> None:
    """14 bytes and twice 16 tokens at $2, 40 tokens at $8 a million: $412 for a million such requests."""
    price, other = Price(2.0, 8.0), evolve(REQUEST, key="l", stop=("!",))
    low = ledger(0.000_823)
    with pytest.raises(Unfinished, match=r"^max_cost is reached, or the next 2 requests could exceed it: 0 requests"):
        list(BatchModel(tmp_path / "b", "toy", ledger=low, price=price).sample([REQUEST, other]))
    assert not (tmp_path / "b").exists()
    with pytest.raises(Unfinished, match="2 of them written"):
        list(BatchModel(tmp_path / "b", "toy", ledger=ledger(0.000_824), price=price).sample([REQUEST, other]))
    first, _ = asked_in(tmp_path / "b" / "requests-1.jsonl")
    (tmp_path / "b" / "out.jsonl").write_text(line_of(first))
    read = ledger(0.000_824)
    model = BatchModel(tmp_path / "b", "toy", ledger=read, price=price)
    for _ in range(2):  # An answer counts once: 9 tokens at $2 and 2 at $8 a million.
        with pytest.raises(Unfinished, match="no answer yet to 1 request"):
            list(model.sample([REQUEST, other]))
        assert read.used == Used(1, 9, 2, 0.000_034)


def test_what_waits_for_an_answer_counts_beside_what_would_be_written(tmp_path: Path) -> None:
    price, other = Price(2.0, 8.0), evolve(REQUEST, key="l", stop=("!",))
    with pytest.raises(Unfinished, match="1 of them written"):
        list(BatchModel(tmp_path, "toy", ledger=ledger(0.0005), price=price).sample([REQUEST]))
    with pytest.raises(Unfinished, match="max_cost is reached, or the next 2 requests"):
        list(BatchModel(tmp_path, "toy", ledger=ledger(0.0005), price=price).sample([REQUEST, other]))
    assert [path.name for path in tmp_path.iterdir()] == ["requests-1.jsonl"]


@pytest.mark.parametrize(
    ("response", "used"),
    [
        ({"status_code": 400, "body": {"error": {"message": "oh"}}}, Used(1)),
        ({"status_code": 500, "body": {"error": {"message": "oh"}}}, Used(1, 46, 40, 0.000_412)),
        ({"body": {"choices": [{"message": {"content": "4"}}]}}, Used(1, 46, 40, 0.000_412)),
    ],
)
def test_an_answer_of_a_batch_without_a_count_may_have_cost_the_most(tmp_path: Path, response: Any, used: Used) -> None:
    found = ledger(1.0)
    model = BatchModel(tmp_path, "toy", ledger=found, price=Price(2.0, 8.0))
    with pytest.raises(Unfinished):
        list(model.sample([REQUEST]))
    (tmp_path / "out.jsonl").write_text(line_of(asked_in(tmp_path / "requests-1.jsonl")[0], **response))
    list(BatchModel(tmp_path, "toy", ledger=(read := ledger(1.0)), price=Price(2.0, 8.0)).sample([REQUEST]))
    assert read.used == used


def test_a_batch_is_held_to_a_limit_of_cost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    given = ("--model", "batch:jobs#openai:gpt-4.1", "--max-cost")
    assert evaluate(*given, "0.000001") == 3
    assert "--max-cost is reached, or the next 3 requests could exceed it" in capsys.readouterr().err
    assert evaluate("--model", "batch:jobs#toy", "--max-cost", "1") == 2
    assert "the price of toy is not known" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
    Path("prices.json").write_text('{"prices": {"batch:openai:gpt-4.1": [0, 0]}}')
    assert evaluate(*given, "0.000001", "--prices", "prices.json") == 3
    assert "3 of them written" in capsys.readouterr().err
    lines = [line_of(each, "w1") for each in asked_in(tmp_path / "jobs" / "requests-1.jsonl")]
    (tmp_path / "jobs" / "answers.jsonl").write_text("".join(lines))
    assert evaluate(*given, "1") == 0
    assert "used: 3 requests, 27 prompt tokens, 6 generated tokens, $0.0001" in capsys.readouterr().err
    assert evaluate(*given, "1", "--dry-run", n=100) == 0
    assert "cost: at most $" in capsys.readouterr().out


# Several models


@pytest.fixture
def scripts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Two models: one says the same always, the other gives right answers to everything."""
    import toy_task

    from gce.adapters.models.scripted import ScriptedModel

    monkeypatch.setattr(toy_task, "wrong", lambda config, task: ScriptedModel(lambda request: "no"), raising=False)
    monkeypatch.setattr(toy_task, "right", lambda config, task: ScriptedModel(solve), raising=False)
    return ["toy_task:wrong", "toy_task:right"]


def solve(request: SampleRequest) -> str:
    import re

    a, b = map(int, re.findall(r"\d+", request.messages[-1].content)[:2])
    return f"w{a + b}"


def test_several_models_are_compared_problem_by_problem(
    scripts: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = tmp_path / "a.jsonl"
    assert evaluate("--models", ",".join(scripts), "--answers", str(kept), n=20) == 0
    shown = capsys.readouterr().out
    assert f"gain over {scripts[0]}" in shown
    assert "zero-shot" in shown.splitlines()[0]
    assert all(f"\n{script} " in shown for script in scripts)
    assert len(list(tmp_path.glob("a.*.jsonl"))) == 2
    assert evaluate("--models", ",".join(scripts), "--answers", str(kept), "--json", n=20) == 0
    captured = capsys.readouterr()
    found = json.loads(captured.out)["modes"]
    assert list(found) == scripts
    assert captured.err.count("20 answers reused") == 2
    assert (found[scripts[1]]["against"]["gained"], found[scripts[1]]["against"]["lost"]) == (20, 0)
    assert found[scripts[0]]["against"] is None
    assert found[scripts[1]]["against"]["p"] == pytest.approx(2**-19)


def test_each_model_has_a_file_of_its_own_whatever_its_name() -> None:
    names = ["a:b", "a-b", "A:b", "a:" + "b" * 300, "a:" + "b" * 301, f"command:{'x/' * 300} {{prompt_file}}", "\udc80"]
    files = [answers_of_model(Path("d/answers.jsonl"), name) for name in names]
    assert len({*files}) == len(names)
    assert files[0] == Path("d/answers.a-b-6783a31e.jsonl")
    assert all(file.parent == Path("d") and file.suffix == ".jsonl" and len(file.name) <= 110 for file in files)


def test_models_may_be_given_themselves() -> None:
    import toy_task

    def none(_messages: Any) -> str:
        return "none"

    def some(_messages: Any) -> str:
        return "some"

    found = gce.evaluate(toy_task.ADDITION, models=[none, some], n=2, progress=False)
    assert list(found.measured) == ["none", "some"] and "none, some on " in str(found)
    assert {(answer["model"], answer["strategy"]) for answer in found.answers()} == {
        ("none", "zero-shot"),
        ("some", "zero-shot"),
    }


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"models": ["gce-tiny"]}, "models needs two or more models of different names, got gce-tiny"),
        ({"models": ["a", "a"]}, "models needs two or more models of different names, got a, a"),
        ({"models": ["a", "b"], "strategies": ["zero-shot", "few-shot"]}, "models needs a single strategy"),
        ({"models": ["a", "b"], "model": "c"}, "models does not go with model"),
        ({"models": ["a", "b"], "shifts": True}, "models does not go with shifts"),
        ({"models": ["a", "b"], "samples": 2, "temperature": 1.0}, "models does not go with samples"),
    ],
)
def test_what_does_not_go_with_several_models_is_refused(given: Any, said: str) -> None:
    import toy_task

    with pytest.raises(SettingError) as caught:
        gce.evaluate(toy_task.ADDITION, n=2, progress=False, **given)
    assert str(caught.value).startswith(said)


def test_what_is_wrong_with_one_model_is_said_before_another_is_asked(
    scripts: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("httpx2")
    monkeypatch.delenv("XAI_API_KEY", raising=False)
    assert evaluate("--models", f"{scripts[0]},xai:grok-4") == 2
    said = capsys.readouterr().err
    assert "model xai:grok-4 needs an API key: set the environment variable XAI_API_KEY" in said
    assert "model toy_task:wrong" not in said


def test_one_ledger_keeps_the_limits_of_all_models(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("httpx2")
    from chat_server import ChatServer

    with ChatServer() as server:
        for name in ("OPENAI", "GROQ"):
            monkeypatch.setenv(f"{name}_BASE_URL", server.url)
            monkeypatch.setenv(f"{name}_API_KEY", KEY)
        limits = ("--max-tokens-total", "1000", "--max-tokens", "40", "--concurrency", "1")
        assert evaluate("--models", "openai:gpt-4.1,groq:llama-3.1-8b-instant", *limits, n=40) == 3
        names = [body["model"] for body in server.bodies]
    assert names.count("gpt-4.1") == 40 and 0 < names.count("llama-3.1-8b-instant") < 40
    assert "--max-tokens-total is reached" in capsys.readouterr().err


def test_a_dry_run_of_several_models_says_what_each_takes(capsys: pytest.CaptureFixture[str]) -> None:
    assert evaluate("--models", "openai:gpt-4.1,human:", "--dry-run", "--max-tokens", "1000", n=100) == 0
    shown = capsys.readouterr().out
    assert "model openai:gpt-4.1:" in shown and "model human::" in shown
    assert shown.count("cost: at most $0.80") == 1 and "not measured, as a person would be asked" in shown
