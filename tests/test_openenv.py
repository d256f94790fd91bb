"""Servers of OpenEnv on this machine: played turn by turn, hostile ones, and exported tasks that come in again."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve
from round_trips import NAMES, check_round_trip, exported

from gce.adapters.evaluators.verifier import TaskVerifier
from gce.adapters.models.scripted import ScriptedModel
from gce.app.cli import main
from gce.app.evaluation.conversations import converse
from gce.app.wiring.environments import find_environment
from gce.app.wiring.runs import open_run
from gce.app.wiring.tasks import find_task
from gce.domain.answers import Answer, answered_by
from gce.domain.completions import Completion, SampleRequest
from gce.domain.conversations import Conversation
from gce.domain.problems import Problem
from gce.domain.strategies import STRATEGIES
from gce.domain.strategies.requests import STEP, Act, Observation, Settings, episodes_of
from gce.domain.tasks import Task, draw_problems
from gce.domain.traces import trace_of_record
from gce.errors import BadInput
from gce.testing.contracts.environment import check_environment
from gce.testing.contracts.foreign_task import check_foreign_task

pytest.importorskip("websockets")

import openenv_stub
from openenv_server import FAULTS, SECRETS, Echo, Guessing, OpenEnvServer, secret

OPTIONS = "low=-200&high=10&admit_at=6&wait=5"


@pytest.fixture
def server() -> Iterator[OpenEnvServer]:
    with OpenEnvServer() as found:
        yield found
    find_environment.cache_clear()


def task_of(server: OpenEnvServer, options: str = OPTIONS) -> Task:
    return find_task(f"openenv:{server.url}?{options}")


def problems(task: Task, count: int = 1) -> tuple[Problem, ...]:
    preset = next(iter(task.presets))
    return draw_problems(task, preset, task.tiers(preset)[0].name, "test", count)


def judged(task: Task, problem: Problem, text: str) -> Answer:
    completion = Completion("answer", text, "stop", policy="")
    return answered_by(task, problem, completion, task.judge(problem, completion))


def guesses(*numbers: int) -> list[str]:
    return [json.dumps({"number": number}) for number in numbers]


def bisects(request: SampleRequest) -> str:
    """Guess the middle of what is possible after all that was said."""
    low = int(request.messages[0].content.split("from ")[1].split()[0])
    high = low + SECRETS - 1
    for guess, said in zip(request.messages[1::2], request.messages[2::2], strict=True):
        number = json.loads(guess.content.partition(">")[2].partition("<")[0])["number"]
        low, high = (number + 1, high) if "larger" in said.content else (low, number - 1)
    return f'<action>{{"number": {(low + high) // 2}}}</action>'


def held(task: Task, count: int = 1, said: Any = bisects) -> list[Conversation]:
    asked = problems(task, count)
    return converse(STRATEGIES["episode"], ScriptedModel(said), task, TaskVerifier(task), asked, Settings())


def test_a_server_keeps_the_contracts_of_tasks_and_environments(server: OpenEnvServer) -> None:
    task = task_of(server)
    check_foreign_task(task, problems=2)
    (problem,) = problems(task)
    low, number = secret(problem.instance.row["seed"])
    wrong = next(each for each in range(low, low + SECRETS) if each != number)
    task = task_of(server, f"{OPTIONS}&steps=30")  # What does not end is not tried a thousand times.
    acts = [Act(STEP, {"action": each}) for each in guesses(wrong, number)]
    check_environment(lambda: episodes_of(task).open(problem), acts)


def test_rewards_are_summed_and_an_episode_that_is_not_ended_gets_the_lowest(server: OpenEnvServer) -> None:
    """Two wrong guesses and the right one: -1 -1 +10 = 8, that is 208/210 of the range."""
    task = task_of(server)
    (problem,) = problems(task)
    low, number = secret(problem.instance.row["seed"])
    write, wrong = episodes_of(task).write, low if number > low else low + 1
    right = judged(task, problem, write(guesses(wrong, wrong, number)))
    assert right.reward == pytest.approx(208 / 210) and right.right
    assert judged(task, problem, write(guesses(wrong, wrong))).reward == 0.0
    assert judged(task, problem, write(guesses(number, wrong))).reward == 1.0, "what follows the end is not played"
    first = problem.prompt[0].content
    assert first.startswith(f"Guess my number, from {low} to") and '"The guess"' in first and "metadata" not in first


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("no idea", "no answer between <action>"),
        ("<action>{</action>", "no JSON"),
        ("<action>[1]</action>", "a JSON object"),
        ('<action>{"number": 1e999}</action>', "no JSON"),
        ('<action>{"number": "\\ud800"}</action>', "no JSON"),
        (f'<action>{{"number": {"9" * 5_000}}}</action>', "no JSON"),
        (f"<action>{'[' * 50_000}</action>", "no JSON"),
        (f'<action>{{"number": {"[" * 940 + "]" * 940}}}</action>', "no JSON|not legal"),
        (f'<action>{{"number": "{"x" * 70_000}"}}</action>', "at most 65,536"),
        ('<action>{"number": "seven"}</action>', "number: Input should be an integer"),
        ('<action>{"number": 3, "other": 4}</action>', "not legal"),
        ('<action>{"number": -5}</action>', "turn by turn with the strategy episode"),
        ("<episode>[]</episode>", "no list of 1 to 200 actions"),
        ("<episode>" + json.dumps(["{}"] * 201) + "</episode>", "no list of 1 to 200 actions"),
    ],
)
def test_one_response_that_is_no_whole_episode_is_unreadable(server: OpenEnvServer, text: str, says: str) -> None:
    task = task_of(server)
    found = judged(task, problems(task)[0], text)
    assert found.outcome == "unreadable" and found.reward == 0.0
    assert re.search(says, found.verdicts[0].violations[0].message)


def test_nesting_is_bounded_wherever_it_is_read(server: OpenEnvServer) -> None:
    """By the model's actions and the server's observations alike: no depth ends the run."""
    task = task_of(server)
    environment = episodes_of(task).open(problems(task)[0])
    environment.reset(seconds=5.0)
    for depth in range(500, 1_000, 5):
        nested = "[" * depth + "]" * depth
        found = environment.step(Act(STEP, {"action": f'{{"number": {nested}}}'}))
        assert isinstance(found, Observation) and found.illegal


def test_a_model_plays_turn_by_turn_and_another_process_finds_the_same_verdict(server: OpenEnvServer) -> None:
    task = task_of(server)
    found = held(task, 8)
    assert all(each.last.right for each in found) and {each.replies for each in found} <= {1, 2, 3, 4, 5}
    before = [each.last.verdicts for each in found]
    find_environment.cache_clear()
    fresh = task_of(server)
    again = [fresh.judge(each.last.problem, each.last.completion) for each in found]
    assert fresh is not task and again == before


def test_an_illegal_action_is_told_and_counted(server: OpenEnvServer) -> None:
    said = iter(['<action>{"number": "x"}</action>', "hm"])
    (found,) = held(task_of(server), said=lambda _request: next(said, '<action>{"number": -1}</action>'))
    told = [each.content for each in found.said[-1][0] if each.role == "user"]
    assert "number: Input should be an integer" in told[1] and "Nothing has changed" in told[1]
    assert "Nothing has changed" in told[2] and told[3] == "It is larger.\nReward: -1"
    assert found.last.notes == {"turns": 20.0, "illegal actions": 2.0} and found.last.outcome == "wrong"


def test_a_server_that_takes_one_session_gives_the_same_verdicts() -> None:
    """Eight episodes at once on one session: each turn plays its episode again."""
    counts = {}
    for sessions in (1, 3, 100):
        with OpenEnvServer(sessions=sessions) as server:
            found = held(task_of(server), 8)
            counts[sessions] = [(each.last.completion.text, each.last.reward) for each in found]
            assert not any(each.last.failed for each in found)
        find_environment.cache_clear()
    assert counts[1] == counts[3] == counts[100]


def test_a_session_that_the_server_closed_between_turns_is_played_again(server: OpenEnvServer) -> None:
    task = task_of(server)
    (problem,) = problems(task)
    low, _ = secret(problem.instance.row["seed"])
    environment = episodes_of(task).open(problem)
    environment.reset(seconds=5.0)
    first = [environment.step(Act(STEP, {"action": each})) for each in guesses(low - 1, low - 2)]
    server.faults = ["drop"]
    opened = server.opened
    assert environment.step(Act(STEP, {"action": guesses(low - 3)[0]})) == first[0]
    assert server.opened == opened + 1 and not server.faults


def test_after_an_interruption_no_reply_is_taken_for_another_one(
    server: OpenEnvServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = task_of(server)
    (problem,) = problems(task)
    low, number = secret(problem.instance.row["seed"])
    environment = episodes_of(task).open(problem)
    environment.reset(seconds=5.0)

    def interrupted(_data: Any) -> Any:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr("gce.adapters.environments.openenv_sessions._reply", interrupted)
        environment.step(Act(STEP, {"action": guesses(low - 1)[0]}))
    assert environment.step(Act(STEP, {"action": guesses(number)[0]})).done


@pytest.mark.parametrize("fault", FAULTS)
def test_a_server_that_misbehaves_fails_the_answer_with_what_it_did(fault: str, server: OpenEnvServer) -> None:
    """In a turn, and in the verdict: never a reward of 0."""
    task = task_of(server, "low=-200&high=10&wait=1")
    (problem,) = problems(task)
    number = secret(problem.instance.row["seed"])[1]
    listed = episodes_of(task).write(guesses(number))
    assert judged(task, problem, listed).right
    server.faults = [fault] * 1000
    began = time.monotonic()
    for found in (held(task)[0].last, judged(task, problem, listed)):
        assert found.failed and found.reward is None and len(found.reason) > 20, found
        assert "\n" not in found.reason and found.reason.isprintable()
    assert time.monotonic() - began < 20.0
    server.faults = []
    assert judged(task, problem, listed).right, "and then goes on"


@pytest.mark.parametrize("fault", ["hang", "drop", "no JSON", "raises", "text as done", "other each time"])
def test_a_server_that_misbehaves_at_once_is_refused_in_one_line(fault: str, server: OpenEnvServer) -> None:
    server.faults, server.on = [fault] * 100_000, "reset"
    with pytest.raises(BadInput) as caught:
        task_of(server, "wait=1")
    assert len(str(caught.value)) < 500 and "\n" not in str(caught.value)


class Drifting(Guessing):
    """Says something else each time, and gives the same reward."""

    said = 0

    def step(self, action: Any) -> dict[str, Any]:
        found = super().step(action)
        Drifting.said += 1
        found["data"]["observation"]["hint"] += f" ({Drifting.said})"
        return found


def test_a_server_that_says_something_else_the_next_time_has_failed_unless_that_is_meant() -> None:
    with OpenEnvServer(Drifting) as server:
        task = task_of(server)
        last = held(task)[0].last
        assert last.failed and "no verdict can be repeated" in last.reason
        varying = task_of(server, f"{OPTIONS}&varies=true")
        assert held(varying)[0].last.right and varying.audit.varies
    find_environment.cache_clear()


def test_text_actions_are_whole_responses_and_the_task_may_say_where_an_episode_ends() -> None:
    with OpenEnvServer(Echo) as server:
        task = task_of(server, "steps=2&high=50&hello=Good+day.&admit_at=20")
        check_foreign_task(task)
        (problem,) = problems(task)
        assert problem.prompt[0].content == "Good+day.\n\nYour whole response is the action: What to say"
        (found,) = held(task, said=lambda request: f"I said {len(request.messages)} things.")
        assert found.replies == 2 and found.last.reward == pytest.approx(32 / 50)
    find_environment.cache_clear()


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("openenv:127.0.0.1:1", "expected openenv:http://HOST:PORT"),
        ("openenv:ftp://127.0.0.1", "expected openenv:http://HOST:PORT"),
        ("openenv:http://me:secret@127.0.0.1", "without a user's name"),
        ("openenv:http://127.0.0.1:99999", "expected openenv:http://HOST:PORT"),
        ("openenv:http://127.0.0.1:1", "expected the schema of an OpenEnv server at http://127.0.0.1:1/schema"),
        ("openenv:{}?steps=0", "expected steps to be a whole number from 1 on, got 0"),
        ("openenv:{}?actions=many", "expected actions to be a whole number from 1"),
        ("openenv:{}?wait=0", "expected wait to be a whole number from 1"),
        ("openenv:{}/nowhere", "404"),
    ],
)
def test_bad_names_say_what_is_wrong(name: str, says: str, server: OpenEnvServer) -> None:
    with pytest.raises(BadInput, match=says.replace("/", ".")) as caught:
        find_task(name.format(server.url))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("schema", [[], {"properties": []}, {"properties": {"a": 1}}, "x"])
def test_a_schema_that_is_none_is_refused(schema: Any) -> None:
    with OpenEnvServer(schema=schema) as server, pytest.raises(BadInput, match="expected the schema of an OpenEnv"):
        task_of(server)


def scripted(server: OpenEnvServer, place: Path, options: str, *texts: str) -> list[str]:
    answers = place / "said.jsonl"
    answers.write_text(json.dumps({"text": texts}) + "\n", encoding="utf-8")
    return ["--task", f"openenv:{server.url}?{options}", "--model", f"scripted:{answers}"]


def test_an_evaluation_runs_on_the_command_line(
    server: OpenEnvServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = scripted(server, tmp_path, "low=-20&high=10", '<action>{"number": 0}</action>')
    command = ["evaluate", *model, "--strategies", "zero-shot,episode@2", "--n", "3", "--json"]
    assert main(command) == 0
    found = json.loads(capsys.readouterr().out)["modes"]
    assert found["episode@2"]["coverage"] == found["zero-shot"]["coverage"] == 1.0
    server.faults = ["raises"] * 1000
    assert main(command) == 3, "nothing could be played"
    assert "the server says EXECUTION_ERROR: a fault" in capsys.readouterr().err


def test_all_turns_of_an_episode_are_learned_from(
    server: OpenEnvServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two guesses end an episode here, and any two are right; a reply that is unreadable is trained on with them."""
    pytest.importorskip("safetensors", reason="checkpoints are safetensors")
    said = ('<action>{"number": 0}</action>', "hm", '<action>{"number": 1}</action>')
    model = scripted(server, tmp_path, "steps=2&low=-20&high=20&admit_at=-2", *said)
    run = tmp_path / "run"
    sizes = ["--iterations", "1", "--problems", "2", "--rollouts", "2", "--test", "2", "--dev", "0"]
    command = ["train", *model, "--strategy", "episode@6", "--algorithm", "sft-top", *sizes, "--run-dir", str(run)]
    assert main(command) == 0, capsys.readouterr().err
    with open_run(str(run)) as stored:
        traces = [trace_of_record(each) for each in stored.read("traces")]
    assert traces
    for trace in traces:
        turns = [turn for turn in trace.turns if turn.message.role == "assistant"]
        assert len(turns) >= 2 and all(turn.trained for turn in turns)


def load_server(place: Path) -> Any:
    spec = spec_from_file_location("exported_app", place / "server" / "app.py")
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@contextmanager
def started(place: Path, *command: str) -> Iterator[str]:
    """The URL of a server that a command starts in a directory, given a port."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    path = os.pathsep.join([str(place), *sys.path])
    process = subprocess.Popen(
        [sys.executable, "-m", *command, "--port", str(port)], cwd=place, env={**os.environ, "PYTHONPATH": path}
    )
    try:
        for _ in range(600):
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                break
            except OSError:
                assert process.poll() is None, "the server ended"
                time.sleep(0.1)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()
        find_environment.cache_clear()


@contextmanager
def served(place: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The URL of an exported server: the real package's where that is installed, else one that takes its place."""
    if find_spec("openenv") is not None:
        with started(place, "server.app") as url:
            yield url
        return
    openenv_stub.install(monkeypatch)
    module = load_server(place)

    class Exported:
        """As the package does: errors are replies, records are objects."""

        def __init__(self) -> None:
            self.environment = module.app.environment()

        def reset(self, **data: Any) -> dict[str, Any]:
            return self.reply(lambda: self.environment.reset(**data))

        def step(self, action: Any) -> dict[str, Any]:
            return self.reply(lambda: self.environment.step(module.GceAction(**action)))

        def reply(self, act: Any) -> dict[str, Any]:
            try:
                found = act()
            except Exception as error:
                return {"type": "error", "data": {"code": "EXECUTION_ERROR", "message": str(error)}}
            shown = {name: getattr(found, name) for name in ("prompt", "outcome", "reason")}
            return {"type": "observation", "data": {"observation": shown, "reward": found.reward, "done": found.done}}

    with OpenEnvServer(Exported, schema={"properties": {"response": {"type": "string"}}}) as server:
        yield server.url


def test_an_environment_of_the_package_itself_is_played(tmp_path: Path) -> None:
    """Its template echoes messages, without an end, on one session: a tenth of a reward for each character up to 1."""
    pytest.importorskip("openenv.cli", reason="the package openenv is not installed")
    subprocess.run([sys.executable, "-m", "openenv.cli", "init", "echoing"], cwd=tmp_path, check=True, timeout=120)
    with started(tmp_path / "echoing", "uvicorn", "server.app:app") as url:
        task = find_task(f"openenv:{url}?steps=3&high=3&admit_at=2")
        check_foreign_task(task)
        said = ["hello world", "abcde", "x"]
        (found,) = held(task, said=lambda request: said[len(request.messages) // 2])
        assert found.last.right is False and found.last.reward == pytest.approx((1.0 + 0.5 + 0.1) / 3)
        assert found.said[1][0][-1].content == "echoed_message: hello world\nmessage_length: 11\nReward: 1"


def round_trip(name: str, count: int, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sent = exported(name, "openenv", place)
    with served(place, monkeypatch) as url:
        back = find_task(f"openenv:{url}?split=test&admit_at={sent.task.admit_at}")
        first = problems(back, 100)
        assert {each.prompt for each in first} <= {each.prompt for each in sent.problems["test"]}

        def twin(number: int) -> Problem:
            """Its seed is the number of the row."""
            return evolve(first[0], instance=evolve(first[0].instance, row={"seed": number}))

        check_round_trip(sent, back, twin, count)
        (played,) = converse(
            STRATEGIES["episode"], ScriptedModel(lambda _: "0"), back, TaskVerifier(back), first[:1], Settings()
        )
        assert played.replies == 1 and not played.last.failed
    find_environment.cache_clear()


@pytest.mark.parametrize("name", NAMES)
def test_a_task_that_goes_out_comes_in_with_the_same_verdicts(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    round_trip(name, 50, tmp_path, monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_thousand_verdicts_are_the_same(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    round_trip(name, 1000, tmp_path, monkeypatch)
