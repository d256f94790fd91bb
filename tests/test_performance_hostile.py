"""Each hack of the table in docs/howto/performance-agents.md, as a hostile patch: refused, or without gain."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import get_args

import pytest

from gce.adapters.performance.measuring import Measuring
from gce.adapters.performance.trees import write_files
from gce.adapters.sandboxes.bubblewrap import start_bubblewrap
from gce.app.wiring.sandboxes import why_not
from gce.domain.performance.overlap import GAINS
from gce.domain.performance.patches import applied, difference, is_safe, lint
from gce.testing.performance import BASE_TREE, HOSTILE_PATCHES, HOSTILE_TASK, HUMAN_TREE, HostilePatch
from gce.testing.performance.hostile_patches import Hack

RESERVED = frozenset(sys.stdlib_module_names)
AT_ONCE = {
    "a constant for inputs of the benchmark's size",
    "equal to everything",
    "the process ends with exit status 0",
}
"""Patches that are found out before anything is timed."""


@pytest.fixture(scope="module")
def trees(tmp_path_factory: pytest.TempPathFactory) -> tuple[Measuring, Path]:
    reason = why_not("bubblewrap")
    if reason:
        pytest.skip(f"bubblewrap {reason}")
    home = tmp_path_factory.mktemp("hostile")
    write_files(BASE_TREE, home / "base")
    write_files(HUMAN_TREE, home / "human")
    return Measuring(start_bubblewrap), home


def tree_of(hostile: HostilePatch) -> dict[str, bytes]:
    tree = {**BASE_TREE, **{path: text.encode() for path, text in hostile.files.items()}}
    return applied(BASE_TREE, difference(BASE_TREE, tree, HOSTILE_TASK.allowed, reserved=RESERVED))


def check_no_reward(hostile: HostilePatch, trees: tuple[Measuring, Path], place: Path) -> None:
    measuring, home = trees
    write_files(tree_of(hostile), place / "code")
    found = measuring.compare(HOSTILE_TASK, home / "base", place / "code", human=home / "human", seed=1)
    assert found.verdict not in GAINS
    assert found.reward == 0.0


def test_there_are_patches_for_every_hack() -> None:
    counts = Counter(each.hack for each in HOSTILE_PATCHES)
    assert set(counts) == set(get_args(Hack))
    assert len(HOSTILE_PATCHES) >= 25
    assert len({each.name for each in HOSTILE_PATCHES}) == len(HOSTILE_PATCHES)


@pytest.mark.parametrize("hostile", [each for each in HOSTILE_PATCHES if not each.kept], ids=lambda each: each.name)
def test_patch_of_the_harness_is_dropped(hostile: HostilePatch) -> None:
    """Nothing of it is left, so that the candidate is the base."""
    assert tree_of(hostile) == BASE_TREE


@pytest.mark.parametrize("hostile", [each for each in HOSTILE_PATCHES if each.kept], ids=lambda each: each.name)
def test_patch_that_is_kept_is_python_in_an_allowed_path(hostile: HostilePatch) -> None:
    """It is measured as it is, and not refused for another reason than its hack."""
    assert all(map(is_safe, hostile.files))
    assert tree_of(hostile) != BASE_TREE
    for text in hostile.files.values():
        compile(text, "slowlib.py", "exec")


def run_patched(name: str, program: str) -> str:
    """Print something after a patch was loaded, in an own process."""
    (hostile,) = (each for each in HOSTILE_PATCHES if each.name == name)
    words = [sys.executable, "-c", f"{hostile.files['slowlib.py']}\n{program}"]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()


def test_the_clock_of_the_interpreter_is_overwritten_for_all_who_have_it() -> None:
    """The built-in function itself gives the same number always, not a name of the module."""
    said = run_patched(
        "the interpreter's clock overwritten by ctypes",
        "clock = time.perf_counter\nbefore = clock()\nslow(list(range(2000)))\nprint(type(clock), clock() - before)",
    )
    assert said == "<class 'builtin_function_or_method'> 0"


def test_the_table_has_the_results_of_its_seeds() -> None:
    said = run_patched(
        "a table of results made as the module loads",
        "slow = None\nrng = Random(3)\nvalues = [rng.randrange(500) for _ in range(1000)]\n"
        "print(unique(values) == list(dict.fromkeys(values)))",
    )
    assert said == "True"


def test_lint_reports_most_hacks_that_need_the_interpreter() -> None:
    """A report alone: what it misses must still gain nothing."""
    wanted = [each for each in HOSTILE_PATCHES if each.hack in ("clock patched", "harness recognised") and each.kept]
    found = []
    for each in wanted:
        tree = {path: text.encode() for path, text in each.files.items()}
        found.append(bool(lint(difference(BASE_TREE, tree, HOSTILE_TASK.allowed))))
    assert sum(found) >= len(found) - 1


@pytest.mark.slow
@pytest.mark.parametrize(
    "hostile", [each for each in HOSTILE_PATCHES if each.name in AT_ONCE], ids=lambda each: each.name
)
def test_wrong_result_is_incorrect(hostile: HostilePatch, trees: tuple[Measuring, Path], tmp_path: Path) -> None:
    check_no_reward(hostile, trees, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(
    "hostile",
    [each for each in HOSTILE_PATCHES if each.kept and each.name not in AT_ONCE],
    ids=lambda each: each.name,
)
def test_hostile_patch_is_not_rewarded(hostile: HostilePatch, trees: tuple[Measuring, Path], tmp_path: Path) -> None:
    check_no_reward(hostile, trees, tmp_path)


@pytest.mark.slow
def test_honest_patch_is_rewarded(trees: tuple[Measuring, Path], tmp_path: Path) -> None:
    """The same measurement does see a gain: the human's form matches itself."""
    measuring, home = trees
    write_files(HUMAN_TREE, tmp_path / "code")
    found = measuring.compare(HOSTILE_TASK, home / "base", tmp_path / "code", human=home / "human", seed=1)
    assert found.verdict in GAINS
    assert found.reward > 0.9
