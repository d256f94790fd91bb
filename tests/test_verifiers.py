"""Packages of verifiers: tasksets of 0.4 and exported tasks; environments of 0.1 where that version is installed."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest
from round_trips import NAMES, SIZE, check_round_trip, exported

from gce.app.wiring.environments import find_environment
from gce.app.wiring.sandboxes import SANDBOXES, why_not
from gce.app.wiring.tasks import find_task
from gce.domain.answers import answered_by
from gce.domain.completions import Completion
from gce.domain.tasks import ProblemSource, Task
from gce.errors import BadInput
from gce.testing.contracts.foreign_task import check_foreign_task

pytest.importorskip("verifiers")
NEW = find_spec("verifiers.v1") is not None
pytestmark = pytest.mark.skipif(all(map(why_not, SANDBOXES)), reason="no sandbox works here")
tasksets = pytest.mark.skipif(not NEW, reason="verifiers is older than 0.4")
environments = pytest.mark.skipif(NEW, reason="verifiers has no load_environment any more")

SUMS = """
import verifiers.v1 as vf

__all__ = ["Sums"]

class Data(vf.TaskData):
    answer: str

class Sum(vf.Task[Data]):
    @vf.reward(weight=1.0)
    async def correct(self, trace) -> float:
        return float(trace.last_reply == self.data.answer)

    @vf.reward(weight=0.5)
    async def short(self, trace) -> float:
        return float(len(trace.last_reply) < 4)

    @vf.reward(weight=-0.25)
    async def polite(self, trace) -> float:
        if trace.last_reply == "raise":
            raise RuntimeError("the database is away")
        return float("please" in trace.last_reply)

class Sums(vf.Taskset[Sum]):
    def load(self):
        for n in range(30):
            data = Data(prompt=f"What is {n} + {n}?", system_prompt="Be brief.", answer=str(2 * n))
            yield Sum(data, self.config.task)
"""
RUNTIME = SUMS.replace("async def correct(self, trace)", "async def correct(self, trace, runtime)")
FIRST = "    @vf.reward(weight=1.0)"


def with_lines(*lines: str) -> str:
    """The taskset with more lines in its task."""
    return SUMS.replace(FIRST, "\n".join(f"    {line}" for line in lines) + f"\n\n{FIRST}")


CONTAINER = with_lines("NEEDS_CONTAINER = True")
SETUP = with_lines("async def setup(self, trace, runtime):", "    pass")
MIXED = SUMS.replace("            yield Sum(", "            yield (Sum if n % 2 else Other)(").replace(
    "class Sums(", "class Other(Sum):\n    pass\n\nclass Sums("
)
METRIC = with_lines("@vf.metric", "async def passed(self, trace, runtime) -> float:", "    return 1.0")
INTERCEPT = with_lines("@vf.intercept", "def guard(self, response: vf.Response):", "    pass")

OLD = """
import verifiers as vf
from datasets import Dataset

def correct(completion, answer, **kwargs):
    return float(completion[-1]["content"] == answer)

async def short(parser, completion):
    return float(len(parser.parse_answer(completion)) < 4)

def unused(state):
    raise RuntimeError("a metric")

def load_environment(size=30, judge=False):
    rows = [{"question": f"What is {n} + {n}?", "answer": str(2 * n)} for n in range(size)]
    rubric = vf.Rubric(funcs=[correct, short, unused], weights=[1.0, 0.5, 0.0])
    return vf.SingleTurnEnv(
        dataset=Dataset.from_list(rows), system_prompt="Be brief.", rubric=vf.JudgeRubric() if judge else rubric
    )
"""


def module(place: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (place / "own_sums.py").write_text(text)
    place.chmod(0o755)
    monkeypatch.chdir(place)
    find_environment.cache_clear()


def reward_of(task: Task, text: str) -> float | None:
    """Of a response to the task `What is 7 + 7?`."""
    source = ProblemSource(task)
    for split in ("train", "dev", "test"):
        for problem in source.first("questions", "all", split, 30):
            if "What is 7 + 7?" in problem.prompt[-1].content:
                said = Completion("a", text, "stop", policy="")
                return answered_by(task, problem, said, task.judge(problem, said)).reward
    raise AssertionError("expected the problem in some split")


@tasksets
def test_rewards_of_a_taskset_are_weighted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From -0.25 to 1.5: short and wrong is 0.5, which is 0.75 / 1.75 of the range."""
    module(tmp_path, SUMS, monkeypatch)
    task = find_task("verifiers:own-sums")
    check_foreign_task(task, problems=2)
    assert reward_of(task, "14") == 1.0
    assert reward_of(task, "15") == pytest.approx(0.75 / 1.75)
    assert reward_of(task, "please, 14") == 0.0
    assert reward_of(task, "raise") is None
    (problem,) = ProblemSource(task).first("questions", "all", "test", 1)
    assert [message.role for message in problem.prompt] == ["system", "user"]


@tasksets
@pytest.mark.parametrize(
    ("text", "says"),
    [
        (RUNTIME, "a running program"),
        (CONTAINER, "a container"),
        (SETUP, "a running program"),
        (METRIC, "a running program"),
        (INTERCEPT, "changed responses"),
        (SUMS.replace('__all__ = ["Sums"]', "__all__ = []"), "exports no Taskset"),
        (SUMS.replace("range(30)", "range(0)"), "it has no tasks"),
        (MIXED, "tasks of several classes"),
    ],
)
def test_what_is_not_supported_is_refused_in_one_line(
    text: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module(tmp_path, text, monkeypatch)
    with pytest.raises(BadInput, match=says) as caught:
        find_task("verifiers:own_sums")
    assert "\n" not in str(caught.value)


@environments
def test_rewards_of_an_environment_are_weighted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A function without a weight is a metric, and is not called."""
    module(tmp_path, OLD, monkeypatch)
    task = find_task("verifiers:own-sums?size=20")
    check_foreign_task(task, problems=2)
    assert reward_of(task, "14") == 1.0
    assert reward_of(task, "15") == pytest.approx(0.5 / 1.5)
    assert reward_of(task, "fourteen") == 0.0


def test_a_number_of_tasks_that_is_none_is_named() -> None:
    for n in ("many", "0", "null"):
        with pytest.raises(BadInput, match="expected n to be a whole number from 1"):
            find_task(f"verifiers:own_sums?n={n}")


@environments
def test_a_judge_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    module(tmp_path, OLD.replace("vf.JudgeRubric()", "vf.JudgeRubric(judge_client=object())"), monkeypatch)
    with pytest.raises(BadInput, match="judge model is not supported"):
        find_task("verifiers:own_sums?judge=true")


def round_trip(name: str, count: int, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sent = exported(name, "verifiers", place)
    monkeypatch.chdir(place)
    find_environment.cache_clear()
    back = find_task(f"verifiers:{sent.identifier}?split=test&admit_at={sent.task.admit_at}")
    source = ProblemSource(back)
    found = {
        problem.instance.row["place"]: problem
        for split in ("train", "dev", "test")
        for problem in source.first("questions", "all", split, SIZE)
    }
    assert len(found) == SIZE
    check_round_trip(sent, back, found.__getitem__, count)


@tasksets
@pytest.mark.parametrize("name", NAMES)
def test_a_task_that_goes_out_comes_in_with_the_same_verdicts(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    round_trip(name, 50, tmp_path, monkeypatch)


@tasksets
@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_thousand_verdicts_are_the_same(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    round_trip(name, 1000, tmp_path, monkeypatch)


def test_a_package_that_is_not_there_is_named() -> None:
    with pytest.raises(BadInput, match="no module 'no_such_taskset'"):
        find_task("verifiers:no-such-taskset")
