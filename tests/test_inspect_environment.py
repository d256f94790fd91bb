"""Tasks of inspect_ai: prompts as its solvers make them, scores as its scorers give them, and what is refused."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from gce.adapters.environments.inspect_ai import load
from gce.app.wiring.environments import find_environment
from gce.app.wiring.sandboxes import SANDBOXES, why_not
from gce.app.wiring.tasks import find_task
from gce.errors import BadInput
from gce.testing.contracts.foreign_task import check_foreign_task

pytest.importorskip("inspect_ai")
FILE = Path(__file__).parent / "inspect_tasks.py"
SANDBOXED = pytest.mark.skipif(all(map(why_not, SANDBOXES)), reason="no sandbox works here")


@pytest.fixture(autouse=True)
def place(tmp_path: Path) -> Iterator[Path]:
    """A directory with the file alone."""
    shutil.copy(FILE, tmp_path)
    before = Path.cwd()
    os.chdir(tmp_path)
    yield tmp_path
    os.chdir(before)
    find_environment.cache_clear()


def functions(task: str, **options: Any) -> Mapping[str, Callable[..., Any]]:
    """What the worker calls, in this process."""
    given = {"source": str(FILE), "task": task, "arguments": {}, "scorer": "", "value": ""}
    return load({**given, **options})


def scores(found: Mapping[str, Callable[..., Any]], *answers: str) -> list[Any]:
    row = found["row"](1, "{}")
    return [found["score"](answer, row) for answer in answers]


def test_solvers_make_the_prompt_and_the_scorer_the_reward() -> None:
    found = functions("sums", arguments={"most": 5})
    assert found["describe"]() == {"samples": 5, "max_tokens": 1024, "way": "{}"}
    row = found["row"](1, "{}")
    assert row["prompt"] == [
        {"role": "system", "content": "You add."},
        {"role": "user", "content": "What is 1 + 1?\nEnd with the number."},
    ]
    assert row["answer"] == "2"
    assert scores(found, "2", "It is 2", "3", "") == [1.0, 1.0, 0.0, 0.0]


def test_a_choice_that_is_not_made_is_unreadable() -> None:
    found = functions("picks")
    assert found["describe"]()["way"] == "ANSWER: {}"
    assert "A) 1\nB) 2\nC) 3" in found["row"](1, "{}")["prompt"][0]["content"]
    right, wrong, unread = scores(found, "ANSWER: A", "ANSWER: B", "")
    assert (right, wrong) == (1.0, 0.0)
    assert set(unread) == {"unreadable"}


def test_one_of_several_scorers_and_values_is_chosen() -> None:
    assert scores(functions("several", scorer="includes"), "is 2 right?") == [1.0]
    assert scores(functions("values", value="length"), "abc") == [0.3]
    with pytest.raises(ValueError, match=r"length, odd: choose one by \?value="):
        scores(functions("values"), "abc")


@pytest.mark.parametrize(
    ("task", "says"),
    [
        ("shuffled", "prompts differ from call to call"),
        ("graded", "model_graded_qa asks a model"),
        ("twice", "asks a model beside `generate`"),
        ("again", "asks the model more than once"),
        ("tools", "gives the model tools"),
        ("several", r"scorers match, includes: choose one"),
        ("nothing", "no task 'nothing'"),
        ("match", "returned"),
    ],
)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # Of tenacity, in what inspect_ai does before it refuses.
def test_what_cannot_be_served_says_so(task: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        functions(task)["describe"]()


def test_another_sample_in_its_place_is_noticed() -> None:
    found = functions("sums")
    with pytest.raises(ValueError, match="another sample"):
        found["score"]("2", {**found["row"](1, "{}"), "sample": 2})


@SANDBOXED
def test_a_task_keeps_the_contract_in_the_worker() -> None:
    check_foreign_task(find_task("inspect:inspect_tasks.py@picks"), problems=2)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("inspect:inspect_tasks.py", "expected inspect:FILE@TASK"),
        ("inspect:nowhere.py@sums", "no file 'nowhere.py'"),
        ("inspect:no_such_module@sums", "no module 'no_such_module'"),
        ("inspect:inspect_tasks.py@sums?files=nothing.txt", "no file or directory"),
    ],
)
def test_bad_names_say_what_is_wrong(name: str, says: str) -> None:
    with pytest.raises(BadInput, match=says) as caught:
        find_task(name)
    assert "\n" not in str(caught.value)
