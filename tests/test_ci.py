"""What `.ci/full` installs is enough for every test: none is skipped wherever it runs."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path

import pytest
from doc_blocks import setup_commands
from present import present

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
EXTRAS = PROJECT["project"]["optional-dependencies"]


def listed(script: str) -> set[str]:
    """Names behind the `extras=` and `tools=` of a script, the script's own left out."""
    return {name for line in re.findall(r"(?:extras|tools)=(\S+)", script) for name in line.split(",")} - {"$extras"}


def distributions(extras: set[str]) -> set[str]:
    """Of these extras, those that they name among others."""
    found: set[str] = set()
    for requirement in (each for extra in extras for each in EXTRAS[extra]):
        name, inner = present(re.match(r"([\w-]+)(?:\[([\w,-]+)\])?", requirement)).groups()
        found |= distributions(set(inner.split(","))) if name == "grounded-eval" else {name.lower()}
    return found


def asked_for(source: str) -> set[str]:
    """Packages without which a test is skipped."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Call(func=ast.Attribute(attr="importorskip" | "find_spec"), args=[ast.Constant(str(name)), *_]):
                found.add(name.partition(".")[0].replace("_", "-"))
    return found


def test_the_full_script_installs_every_extra_and_runs_every_marker() -> None:
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    readme = "".join(setup_commands((ROOT / "README.md").read_text(encoding="utf-8"), "whole"))
    by_readme = {name for names in re.findall(r"pip install '\.\[([\w,-]+)\]'", readme) for name in names.split(",")}
    assert listed(script) | by_readme | {"solver", "mlx"} == set(EXTRAS), "train brings solver and mlx"
    assert 'pytest "${parallel[@]}" -m ""' in script
    assert all(f'command=$(setup_command {number} "$form")' in script for number in (1, 2)), "README's two commands"
    assert (ROOT / ".ci" / "full").read_text(encoding="utf-8").rstrip().endswith('/run" full')


@pytest.mark.slow
@pytest.mark.parametrize("path", sorted((ROOT / "tests").rglob("*.py")), ids=lambda path: path.stem)
def test_no_test_waits_for_a_package_that_no_extra_brings(path: Path) -> None:
    names = asked_for(path.read_text(encoding="utf-8"))
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    besides = re.findall(r"pip install (?:--no-deps )?([a-z][\w-]+)$", script, re.MULTILINE)
    brought = distributions(set(EXTRAS)) | {"mlx", "transformers", "tokenizers", "llama-cpp", *besides}
    assert names <= brought, f"{path.name} is skipped everywhere"


def test_a_package_that_no_extra_brings_is_found() -> None:
    assert asked_for("import pytest\ndef test_x():\n    pytest.importorskip('some_thing.inner')") == {"some-thing"}
    assert "some-thing" not in distributions(set(EXTRAS))
    assert {"torch", "datasets", "mlx-lm", "ortools", "atheris"} <= distributions(set(EXTRAS))
    assert "datasets" not in distributions({"train", "test"})
