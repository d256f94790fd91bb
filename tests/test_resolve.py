"""From names to tasks, presets, tiers and models: what is found, and what is said of what is not."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import toy_task

from gce.app import resolve
from gce.app.config import RunConfig
from gce.app.resolve import find_model, find_preset, find_task, find_tiers, shipped_model_path
from gce.domain.tasks import TASKS
from gce.errors import BadInput, MissingExtra, ModelError


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


def test_a_factory_is_called_with_the_settings_and_the_task(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toy_task, "echo", lambda *given: given, raising=False)
    config = RunConfig(model="toy_task:echo", seed=5)
    assert find_model(config, toy_task.ADDITION) == (config, toy_task.ADDITION)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("toy_task:MODULI", "toy_task:MODULI is dict, expected a function of settings and task"),
        ("toy_task:nothing", "module toy_task has no 'nothing' \\(given as the model"),
        ("no_such_module:f", "cannot import 'no_such_module' for the model"),
    ],
)
def test_what_is_no_factory_is_refused(name: str, said: str) -> None:
    with pytest.raises(BadInput, match=said):
        find_model(RunConfig(model=name), toy_task.ADDITION)


def test_without_mlx_a_model_names_the_extra_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hidden = [name for name in sys.modules if name.startswith(("mlx", "gce.adapters.mlx"))]
    for name in [*hidden, "gce.adapters.mlx_model"]:
        monkeypatch.delitem(sys.modules, name, raising=False)
    for name in ("mlx", "mlx.core", "mlx_lm"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingExtra, match=r"^mlx is not installed: run  pip install 'gce\[\w+\]'$"):
        find_model(RunConfig(model=str(tmp_path)), toy_task.ADDITION)


def test_an_unknown_model_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("mlx.core")
    with pytest.raises(ModelError, match="no-such-model") as caught:
        find_model(RunConfig(model="./no-such-model"), toy_task.ADDITION)
    assert "\n" not in str(caught.value)


def test_the_shipped_model_is_a_folder_of_the_package_or_said_to_be_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resolve.resources, "files", lambda package: tmp_path / package)
    with pytest.raises(ModelError, match=r"the shipped model is missing from .*: install the package again"):
        shipped_model_path()
    folder = tmp_path / "gce" / "data" / "gce-tiny"
    folder.mkdir(parents=True)
    (folder / "model.safetensors").touch()
    assert shipped_model_path() == folder
