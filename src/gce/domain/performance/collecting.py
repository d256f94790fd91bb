"""Candidates for performance tasks, from two versions of code; and drafts of their workloads and tests.

A draft raises NotImplementedError where a person has to write something: nothing can be measured until then. Sources
are parsed, never run. Knows no repository and no package index.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Sequence, Set

from attrs import frozen

from gce.domain.performance.overlap import changed_functions, definitions, parsed
from gce.domain.performance.patches import Change, Patch, is_safe
from gce.domain.text import printable

__all__ = [
    "SPEED",
    "Commit",
    "Target",
    "draft_tests",
    "draft_workload",
    "import_root",
    "is_source",
    "measurable",
    "notes_on",
    "targets_of",
]

SPEED = re.compile(
    r"\b(?:perf|performance|faster|fast[ -]?path|speed(?:s|ed|ing)?[ -]?ups?|speed|slow|slower|slowness|slowdown"
    r"|optimi[sz]\w{1,10}|accelerat\w{1,5}|efficien\w{1,4}|memoi[sz]\w{1,5}|quadratic|latency|throughput)\b"
    r"|\bO\([^()\n]{1,20}\)",
    re.IGNORECASE,
)
"""What the message of a performance commit says."""
_MOST_SOURCES = 10
"""Files of sources that a candidate changes; larger changes are seldom about speed."""
_MOST_NAMED = 40
_MOST_SIGNATURE = 200
_COMPILED = (".c", ".cc", ".cpp", ".cu", ".h", ".hpp", ".pyx", ".pxd", ".rs", ".f90")
_NOT_MEASURED = re.compile(
    r"(?:^|/)(?:tests?|testing|docs?|examples?|bench\w*|asv_bench|tools|scripts|ci)/"
    r"|(?:^|/)(?:test_[^/]*|[^/]*_test|conftest|setup|noxfile|tasks)\.py$"
)


@frozen
class Commit:
    """A commit with one parent."""

    hash: str
    parent: str
    date: str
    """ISO 8601."""
    message: str


@frozen
class Target:
    """A function that was changed and exists before and after."""

    path: str
    name: str
    """Qualified, as `Class.method`."""
    signature: str
    """One line, as `method(self, size=1)`."""

    @property
    def module(self) -> str:
        """Dotted name of its module; empty where no import statement can name it."""
        name = self.path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        named = all(part.isidentifier() for part in name.split("."))
        return name if named and parsed(f"import {name}") else ""  # No part is a keyword.

    @property
    def public(self) -> bool:
        """Whether no part of its path or name begins with an underscore."""
        return not re.search(r"(?:^|[/.])_(?!_init__\.py)", f"{self.path}/{self.name}")


def is_source(path: str) -> bool:
    """Whether a file is Python code that a package's users run, by its path."""
    return path.endswith(".py") and is_safe(path) and not _NOT_MEASURED.search(path)


def measurable(paths: Collection[str]) -> bool:
    """Whether a commit that changes these files may be a candidate: few Python sources, and no compiled ones."""
    return 1 <= sum(map(is_source, paths)) <= _MOST_SOURCES and not any(path.endswith(_COMPILED) for path in paths)


def targets_of(changes: Sequence[Change]) -> tuple[Target, ...]:
    """Return the functions of sources that were changed and exist before and after; public ones first."""
    found = []
    for change in changes:
        if is_source(change.path) and change.before is not None and change.after is not None:
            before, after = _functions(change.before), _functions(change.after)
            changed = {name.partition(":")[2] for name in changed_functions(Patch((change,)))}
            names = changed & before.keys() & after.keys()
            found += [Target(change.path, name, _signature(before[name])) for name in names]
    return tuple(sorted(found, key=lambda each: (not each.public, each.path, each.name)))


def import_root(path: str, files: Set[str]) -> str:
    """Return the directory from which a module is imported, with a slash at its end; empty for the root of the tree.

    That is the first directory above it without an `__init__.py`.
    """
    parts = path.split("/")[:-1]
    while parts and "/".join([*parts, "__init__.py"]) in files:
        parts.pop()
    return "".join(f"{part}/" for part in parts)


def draft_workload(targets: Sequence[Target]) -> str:
    """Return a workload that calls the first target; what a person has to complete raises NotImplementedError."""
    target = targets[0] if targets else None
    if target and target.module and "." not in target.name:
        asked = "a tuple of arguments"
        run = f"    from {target.module} import {target.name}\n\n    return {target.name}(*input)\n"
    else:
        asked = "plain data"
        run = _missing(f"import {target.name if target else 'what is slow'}, call it with the input, return plain data")
    setup = _missing(f"return {asked}, drawn from rng, on which {_called(target)} is slow")
    functions = [
        f"def setup(seed):\n    rng = random.Random(seed)\n{setup}",
        f"def run(input):\n{run}",
        "def equal(a, b):\n    return a == b\n",
    ]
    return "import random\n\n\n" + "\n\n".join(functions)


def draft_tests(targets: Sequence[Target]) -> str:
    """Return tests of the first target, which a person has to complete."""
    called = _called(targets[0] if targets else None)
    return f"def test_edge_cases():\n{_missing(f'return what {called} returns for edge cases, as plain data')}"


def _called(target: Target | None) -> str:
    return target.signature if target else "the code"


def notes_on(targets: Sequence[Target]) -> str:
    """Return which functions were changed, one a line."""
    more = f"\nand {len(targets) - _MOST_NAMED} more" if len(targets) > _MOST_NAMED else ""
    lines = "\n".join(f"{each.path}: {each.name}" for each in targets[:_MOST_NAMED])
    return f"Changed functions:\n{lines}{more}"


def _missing(asked: str) -> str:
    return f"    raise NotImplementedError({printable(asked)!r})\n"


def _signature(function: ast.FunctionDef) -> str:
    try:
        return f"{function.name}({printable(ast.unparse(function.args))})"[:_MOST_SIGNATURE]
    except RecursionError:  # A default of hostile depth.
        return function.name


def _functions(content: bytes) -> dict[str, ast.FunctionDef]:
    """Return functions by their qualified names, without those inside of functions; none of what does not parse."""
    found = definitions(parsed(content) or [])
    return {name: node for name, node in found if isinstance(node, ast.FunctionDef)}
