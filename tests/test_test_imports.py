"""What an extra brings, a test imports only after `pytest.importorskip`: without the extra the test is skipped by name.

A module of the package, of the checkout or beside a test counts for all that importing it imports. Helpers that are no
tests may import at their top what they need, and each test that imports them has to ask for it.
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from present import present
from test_architecture import Module, absolute, imports, module

import gce

TESTS = Path(__file__).parent
BASES = (TESTS, TESTS / "crash", TESTS.parent)
"""Where tests find modules that no package brings."""
SOURCES = Path(gce.__file__).parents[1]
"""Where `gce` is; installed, beside all other packages."""
PROJECT = tomllib.loads((TESTS.parent / "pyproject.toml").read_text("utf-8"))["project"]
COMES_WITH = {"markupsafe": "jinja2"}
"""Packages that no extra names, beside the one that brings them."""


def installed_everywhere() -> set[str]:
    """Packages of the standard library, of the core and of the extra `test`."""
    requirements = [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["test"]]
    distributions = {present(re.match(r"[\w-]+", requirement))[0] for requirement in requirements}
    packages = packages_distributions().items()
    return {*sys.stdlib_module_names, *(name for name, brought_by in packages if distributions & set(brought_by))}


EVERYWHERE = installed_everywhere()


@cache
def source_of(name: str) -> Path | None:
    """The file of a module of the package, of the checkout or beside a test; a folder without `__init__.py` counts."""
    for base in [SOURCES] if name.split(".")[0] == "gce" else BASES:
        place = base.joinpath(*name.split("."))
        for path in (place.with_suffix(".py"), place / "__init__.py", place):
            if path.is_file() or (path == place and any(place.glob("*.py"))):
                return path
    return None


@cache
def modules_in(name: str) -> list[str]:
    """The modules that importing a full name imports: `gce.domain.buffer.Buffer` has gce, gce.domain and its buffer."""
    parts = name.split(".")
    prefixes = [".".join(parts[: length + 1]) for length in range(len(parts))]
    return [prefix for prefix in prefixes if source_of(prefix)]


@cache
def read(name: str) -> Module:
    path = present(source_of(name))
    source = path.read_text("utf-8") if path.is_file() else ""
    return module(name, source, is_package=path.stem != name.rpartition(".")[2] or path.is_dir())


@cache
def imported(name: str) -> tuple[frozenset[str], frozenset[str]]:
    """Modules of the checkout that importing a full name imports first, and packages."""
    inside = modules_in(name)
    names = {found.name for each in inside for found in imports(read(each)) if not found.deferred}
    modules = {each for name in names for each in modules_in(name)}
    packages = {name.split(".")[0] for name in (names if inside else {name}) if not modules_in(name)}
    return frozenset(modules | set(inside)), frozenset(packages)


@cache
def needed(name: str) -> frozenset[str]:
    """Packages of extras without which this full name cannot be imported."""
    seen: set[str] = set()
    packages: set[str] = set()
    names = {name}
    while names:
        seen |= names
        found = [imported(each) for each in names]
        packages.update(*(those for _, those in found))
        names = set().union(*(modules for modules, _ in found)) - seen
    return frozenset({COMES_WITH.get(package, package) for package in packages} - EVERYWHERE)


def unguarded_imports(tests: Module) -> Iterator[str]:
    """Imports of what an extra brings that no `importorskip` comes before, in the function or at the module's top."""
    may_import_at_top = not tests.name.startswith(("test_", "conftest"))

    def walk(node: ast.AST, guarded: set[str], in_function: bool) -> Iterator[str]:
        names: list[str] = []
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                guarded, in_function = set(guarded), True
            case ast.If(test=ast.Name("TYPE_CHECKING")):
                return
            case ast.Call(func=ast.Attribute(attr="importorskip"), args=[ast.Constant(str(name)), *_]):
                guarded.add(name.split(".")[0])
            case ast.Import():
                names = [alias.name for alias in node.names]
            case ast.ImportFrom():
                names = [f"{absolute(tests, node)}.{alias.name}" for alias in node.names]
        missing = {package for name in names for package in needed(name)} - guarded
        if may_import_at_top and not in_function:
            guarded |= missing
        elif missing:
            yield f"{tests.name}:{node.lineno} needs importorskip of {sorted(missing)}"  # type: ignore[attr-defined]
        for child in ast.iter_child_nodes(node):
            yield from walk(child, guarded, in_function)

    return walk(tests.tree, set(), False)


@pytest.mark.parametrize(
    "source",
    [
        "import torch",
        "from mlx.utils import tree_flatten",
        "import torch\npytest.importorskip('torch')",
        "def test_x():\n    import torch",
        "def test_x():\n    pytest.importorskip('torch')\ndef test_y():\n    import torch",
        "from gce.app.web.protocol import PIECE",
        "from full_store import full_store",
    ],
)
def test_an_import_that_nothing_guards_is_found(source: str) -> None:
    assert list(unguarded_imports(module("test_x", source)))


@pytest.mark.parametrize(
    "source",
    [
        "import numpy, pytest, hypothesis, attrs, json\nfrom attr import field",
        "torch = pytest.importorskip('torch.nn')\nimport torch",
        "def test_x():\n    pytest.importorskip('torch')\n    import torch",
        "if TYPE_CHECKING:\n    import torch",
        "from gce.adapters.models.scripted import ScriptedModel\nfrom tiny_llama import write_tiny_llama",
        "pytest.importorskip('ray')\nfrom full_store import full_store",
    ],
)
def test_an_import_that_is_guarded_passes(source: str) -> None:
    assert not list(unguarded_imports(module("test_x", source)))


def test_a_helper_imports_at_its_top_what_its_tests_ask_for() -> None:
    assert not list(unguarded_imports(module("helper", "import ray\ndef start():\n    import ray.util")))
    assert list(unguarded_imports(module("helper", "def start():\n    import ray")))


@pytest.mark.slow
def test_tests_import_what_an_extra_brings_only_after_importorskip() -> None:
    paths = [path for path in TESTS.rglob("*.py") if path.parent in (TESTS, TESTS / "crash")]
    assert len(paths) > 200
    assert not [complaint for path in paths for complaint in unguarded_imports(read(path.stem))]
