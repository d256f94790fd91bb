"""From names to tasks, presets and tiers: what is found, and what is said of what is not."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import toy_task

from gce.app.wiring.tasks import find_preset, find_task, find_tiers
from gce.domain.tasks import TASKS
from gce.errors import BadInput


def test_a_task_is_found_by_name_and_as_module_and_attribute() -> None:
    assert find_task("scheduling") is TASKS["scheduling"]
    assert find_task("toy_task:ADDITION") is toy_task.ADDITION


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("knitting", "no task 'knitting': choose one of scheduling"),
        ("no_such_module:TASK", "cannot import 'no_such_module' for the task 'no_such_module:TASK': ModuleNotFound"),
        ("toy_task:SUBTRACTION", "module toy_task has no 'SUBTRACTION'"),
        ("toy_task:MODULI", "toy_task:MODULI is dict, expected a gce.Task"),
        (":TASK", "cannot import ''"),
        (".toy_task:ADDITION", "cannot import '.toy_task'"),
        ("", "no task ''"),
    ],
)
def test_what_is_no_task_is_refused_in_one_line(name: str, said: str) -> None:
    with pytest.raises(BadInput) as caught:
        find_task(name)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_module_that_breaks_while_it_is_imported_is_bad_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "half_a_task.py").write_text("TASK = (\n")
    (tmp_path / "angry_task.py").write_text("raise ValueError('two\\nlines')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(BadInput, match=r"half_a_task.*SyntaxError"):
        find_task("half_a_task:TASK")
    with pytest.raises(BadInput, match="ValueError: two lines"):
        find_task("angry_task:TASK")


def test_a_module_beside_the_user_is_found_and_the_path_is_left_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "task_in_this_folder.py").write_text("from toy_task import ADDITION as MINE\n")
    monkeypatch.chdir(tmp_path)
    before = list(sys.path)
    assert find_task("task_in_this_folder:MINE") is toy_task.ADDITION
    assert sys.path == before


def test_the_first_preset_is_the_default() -> None:
    assert find_preset(TASKS["scheduling"], "") == "grounded"
    assert find_preset(TASKS["scheduling"], "paper") == "paper"
    with pytest.raises(BadInput, match="task addition has no preset 'paper': choose one of small"):
        find_preset(toy_task.ADDITION, "paper")


def test_tiers_come_in_the_order_of_the_preset_and_all_where_none_is_named() -> None:
    task = TASKS["scheduling"]
    assert find_tiers(task, "grounded", []) == ("T0", "T1", "T2", "T3", "T4", "T5")
    assert find_tiers(task, "grounded", ["T4", "T0", "T4"]) == ("T0", "T4")
    with pytest.raises(BadInput, match="preset grounded has no tier 'T9': choose from T0, T1, T2, T3, T4, T5"):
        find_tiers(task, "grounded", ["T1", "T9"])
