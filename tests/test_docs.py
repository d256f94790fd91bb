"""What README, docs and the changelog name exists: modules, names in them, files; and README's Python runs."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import gce

ROOT = Path(__file__).parents[1]
SOURCES = Path(gce.__file__).parent.parent
HISTORY = {"LOG.md"}
"""Says what things were called when it was written."""
DOCUMENTS = [ROOT / "README.md", *(path for path in sorted((ROOT / "docs").glob("*.md")) if path.name not in HISTORY)]
DOTTED = re.compile(r"(?<![\w./-])gce(?:\.[A-Za-z_]\w*)+")
PATH = re.compile(r"(?<![\w*])[\w./-]+\.py\b")


def names_in(text: str) -> set[str]:
    return set(DOTTED.findall(text))


@cache
def bodies(path: Path) -> dict[str, list[ast.stmt]]:
    """What a module defines or imports, with the body of each class."""
    found: dict[str, list[ast.stmt]] = {}
    for node in defined(ast.parse(path.read_text("utf-8")).body):
        match node:
            case ast.ClassDef(name=name, body=body):
                found[name] = body
            case ast.FunctionDef(name=name):
                found[name] = []
            case ast.Assign(targets=targets):
                found |= {each.id: [] for each in targets if isinstance(each, ast.Name)}
            case ast.AnnAssign(target=ast.Name(name)):
                found[name] = []
            case ast.ImportFrom(names=names) | ast.Import(names=names):
                found |= {alias.asname or alias.name: [] for alias in names}
    return found


def defined(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    for node in body:
        yield from defined(node.body) if isinstance(node, ast.If) else [node]


def exists(name: str) -> bool:
    """Whether this is a module of the package, a name in one, or a member of a class there."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        place = SOURCES.joinpath(*parts[:length])
        path = next((each for each in (place.with_suffix(".py"), place / "__init__.py") if each.is_file()), None)
        if path is None:
            continue
        known = bodies(path)
        if length == len(parts) or (place.is_dir() and (place / parts[length]).is_dir() and length + 1 == len(parts)):
            return True
        if parts[length] not in known:
            return False
        members = [*defined(known[parts[length]])]
        inside = {each.name for each in members if isinstance(each, ast.FunctionDef)}
        inside |= {str(each.target.id) for each in members if isinstance(each, ast.AnnAssign)}  # type: ignore[union-attr]
        return not members or all(member in inside for member in parts[length + 1 :])
    return False


@cache
def files() -> list[str]:
    """Of the checkout, and of the package, which may be installed apart from it."""
    found = [f"/{path.relative_to(ROOT).as_posix()}" for path in ROOT.rglob("*.py")]
    return found + [f"/src/{path.relative_to(SOURCES).as_posix()}" for path in (SOURCES / "gce").rglob("*.py")]


def test_the_walk_tells_what_exists_from_what_does_not() -> None:
    there = "gce.train", "gce.ports.runs.Runs.read", "gce.domain.metrics", "gce.domain.problems.Problem.id"
    assert all(map(exists, there))
    gone = "gce.domain.types", "gce.domain.problems.Fact", "gce.ports.runs.Runs.unpin", "gce.start"
    assert not any(map(exists, gone))
    found = names_in("`gce.app.train` (`python -m gce.app.cli`), see gce.ports.")
    assert found == {"gce.app.train", "gce.app.cli", "gce.ports"}
    assert PATH.findall("`tasks/task.py`, examples/a_b.py.") == ["tasks/task.py", "examples/a_b.py"]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_module_and_name_in_a_document_exists(document: Path) -> None:
    found = names_in(document.read_text("utf-8"))
    assert [name for name in sorted(found) if not exists(name)] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_file_that_a_document_names_exists(document: Path) -> None:
    found = sorted(set(PATH.findall(document.read_text("utf-8"))))
    assert [name for name in found if not any(each.endswith(f"/{name}") for each in files())] == []


def test_the_changelog_says_what_things_are_called_now() -> None:
    """The right column of its tables; the left one has the old names, which are there no more."""
    text = (ROOT / "CHANGELOG.md").read_text("utf-8")
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    assert len(rows) > 150
    assert [name for _, now in rows for name in sorted(names_in(now)) if not exists(name)] == []
    modules = text.partition("### Renamed modules")[2].partition("### ")[0]
    moved = [line.strip("| ").split(" | ")[0].strip("`") for line in modules.splitlines() if line.startswith("| `")]
    places = [SOURCES.joinpath(*name.split(".")) for name in moved]
    stayed = {"gce.app.evaluation", "gce.testing.scheduling"}  # A folder has the name of the module that was split.
    assert {name for name, place in zip(moved, places, strict=True) if place.exists()} <= stayed
    assert [name for name, place in zip(moved, places, strict=True) if place.with_suffix(".py").exists()] == []


def blocks() -> list[str]:
    return re.findall(r"^```python\n(.*?)^```$", (ROOT / "README.md").read_text("utf-8"), re.M | re.S)


@pytest.mark.parametrize("count", [1, pytest.param(None, marks=pytest.mark.slow)])
def test_the_python_in_readme_runs_as_written(count: int | None, tmp_path: Path) -> None:
    """The first block; among the long tests all of them, one after the other, which trains a model."""
    if count is None:
        pytest.importorskip("mlx_lm")
    ran = subprocess.run(
        [sys.executable, "-c", "\n".join(blocks()[:count])],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        timeout=1200,
    )
    assert ran.returncode == 0, ran.stderr
    assert "\nwrong\n" in ran.stdout or "\nunreadable\n" in ran.stdout
