"""Whether a patch changed what the human's patch changed, and which quadrant that puts an attempt into.

Names of files and functions alone are compared; no model is asked. Python sources are parsed, never run.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from attrs import frozen

from gce.domain.performance.decision import Verdict
from gce.domain.performance.patches import Patch

__all__ = ["GAINS", "Overlap", "Quadrant", "changed_functions", "definitions", "overlap", "parsed", "quadrant"]

Quadrant = Literal["true success", "right target but failed", "lucky win", "neither"]

_OUTSIDE = "<module>"
_MOST_PARSED = 1_000_000
"""Bytes of a file that is parsed; the syntax tree of more could fill the memory."""

GAINS: frozenset[Verdict] = frozenset({"partial", "matches the human", "beats the human"})
"""Verdicts of candidates that are faster."""


@frozen
class Overlap:
    """What a patch and the human's have in common, as shares of what either changed (Jaccard), in [0, 1]."""

    files: float
    functions: float
    target: bool
    """Whether some function that the human changed was changed; where the human changed only code outside of functions,
    whether such code of the same file was; where no Python, whether some file was."""


def overlap(patch: Patch, human: Patch) -> Overlap:
    """Compare the files and functions that two patches of the same base change."""
    functions, theirs = changed_functions(patch), changed_functions(human)
    files, their_files = set(patch.paths), set(human.paths)
    named = {name for name in theirs if not name.endswith(f":{_OUTSIDE}")}  # Many patches add an import.
    met = functions & (named or theirs) if theirs else files & their_files
    return Overlap(_shared(files, their_files), _shared(functions, theirs), bool(met))


def quadrant(found: Overlap, verdict: Verdict) -> Quadrant:
    """Return the quadrant of an attempt: was the target the human's, and is the candidate correct and faster?"""
    if verdict in GAINS:
        return "true success" if found.target else "lucky win"
    return "right target but failed" if found.target else "neither"


def changed_functions(patch: Patch) -> frozenset[str]:
    """Return `path:qualified.name` of functions that were changed, added or removed.

    Comments and layout do not count. Code outside of functions is `path:<module>`; a file that does not parse, or has
    more than 1,000,000 bytes, counts as that alone.
    """
    found = set()
    for change in patch.changes:
        if change.path.endswith(".py"):
            before, after = _code(change.before), _code(change.after)
            names = {name for name in {*before, *after} if before.get(name) != after.get(name)}
            found |= {f"{change.path}:{name}" for name in names}
    return frozenset(found)


def _code(content: bytes | None) -> Mapping[str, str]:
    """Return the code of each function by its qualified name, nested functions with the one around them."""
    body = parsed(content) if content else []
    if body is None:
        return {_OUTSIDE: repr(content)}
    try:
        found: dict[str, str] = {}
        for name, node in definitions(body):  # Overloads have one name.
            found[name] = found.get(name, "") + ast.dump(node)
        return found
    except RecursionError:
        return {_OUTSIDE: repr(content)}


def parsed(content: bytes | str) -> list[ast.stmt] | None:
    """Return the statements of a source; None if it has more than 1,000,000 bytes, or is not Python."""
    try:
        return ast.parse(content).body if len(content) <= _MOST_PARSED else None
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def definitions(body: Sequence[ast.stmt], prefix: str = "", outside: str = _OUTSIDE) -> Iterator[tuple[str, ast.stmt]]:
    """Yield statements with the qualified name of the function that they define, or of the class around them."""
    for node in body:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                yield f"{prefix}{node.name}", node
            case ast.ClassDef():
                yield from definitions(node.body, f"{prefix}{node.name}.", f"{prefix}{node.name}")
            case _:
                yield outside, node


def _shared(some: set[str] | frozenset[str], others: set[str] | frozenset[str]) -> float:
    either = some | others
    return len(some & others) / len(either) if either else 0.0
