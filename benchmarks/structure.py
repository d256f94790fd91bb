"""`python -m benchmarks.structure [SOURCES]`: how large the files, functions and records of a package are.

SOURCES is the package's folder, by default that of the installed `gce`. Lines are all lines of a file, blank ones and
comments included; a function's go from `def` to its end, those of a nested function among them. A record is a class
with annotated fields. An import circle is a set of modules that import each other while they are imported, directly or
by way of others.
"""

from __future__ import annotations

import argparse
import ast
import statistics
from collections import Counter
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.structure", description=__doc__)
    parser.add_argument("sources", nargs="?", type=Path, help="the package's folder (default: the installed gce)")
    sources = parser.parse_args().sources
    if sources is None:
        spec = find_spec("gce")
        assert spec is not None and spec.origin is not None
        sources = Path(spec.origin).parent
    for name, value in structure(sources).items():
        print(f"{name:<48}{value:>12}")


def structure(sources: Path) -> dict[str, str]:
    """Name and value of each figure."""
    texts = {path: path.read_text("utf-8") for path in sorted(sources.rglob("*.py"))}
    trees = {path: ast.parse(text) for path, text in texts.items()}
    files = {path: len(text.splitlines()) for path, text in texts.items() if text}
    functions = [each.end_lineno - each.lineno + 1 for tree in trees.values() for each in functions_of(tree)]  # type: ignore[operator]
    records = {name: count for tree in trees.values() for name, count in records_of(tree)}
    largest = max(records, key=lambda name: records[name])
    longest = max(files, key=lambda path: files[path])
    circles = import_circles(imports(trees, sources))
    folders = Counter[str]()
    for path, lines in files.items():
        inside = path.relative_to(sources).parts
        folders[inside[0] if len(inside) > 1 else "."] += lines
    return {
        "files that are not empty": f"{len(files)}",
        **{
            f"files at the top of {folder}/": f"{sum(path.parent == sources / folder for path in files)}"
            for folder in ("adapters", "app")
        },
        f"longest file ({longest.relative_to(sources)})": f"{files[longest]}",
        "file length: median, 90th percentile": spread(list(files.values())),
        "function length: median, 90th percentile": spread(functions),
        "longest function": f"{max(functions)}",
        "fields of Task": f"{records.get('Task', 0)}",
        f"fields of the largest record ({largest})": f"{records[largest]}",
        "getattr or hasattr on a model": f"{sum(map(asked_of_models, trees.values()))}",
        "import circles (modules in them)": f"{len(circles)} ({sum(map(len, circles))})",
        **{f"lines in {folder}": f"{lines}" for folder, lines in sorted(folders.items())},
        "lines in all": f"{sum(files.values())}",
    }


def spread(values: list[int]) -> str:
    """The median and the 90th percentile."""
    last = statistics.quantiles(values, n=10, method="inclusive")[-1] if len(values) > 1 else values[0]
    return f"{statistics.median(values):g}, {last:g}"


def functions_of(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Every function and method."""
    return (each for each in ast.walk(tree) if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef))


def records_of(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Classes and how many annotated fields each has; a Protocol's are none."""
    for each in ast.walk(tree):
        if isinstance(each, ast.ClassDef):
            yield each.name, sum(isinstance(node, ast.AnnAssign) and not is_shared(node) for node in each.body)


def is_shared(node: ast.AnnAssign) -> bool:
    """Whether this belongs to the class, and is no field."""
    return "ClassVar" in ast.unparse(node.annotation)


def asked_of_models(tree: ast.Module) -> int:
    """`getattr(model, ...)` and `hasattr(model, ...)`, where the first argument is called a model."""
    found = 0
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name("getattr" | "hasattr"), args=[first, *_]):
                found += "model" in ast.unparse(first).lower()
    return found


def imports(trees: Mapping[Path, ast.Module], sources: Path) -> dict[str, set[str]]:
    """The modules of the package that each one imports when it is imported itself."""

    def name_of(path: Path) -> str:
        return ".".join(path.relative_to(sources.parent).with_suffix("").parts).removesuffix(".__init__")

    names = {name_of(path) for path in trees}
    found: dict[str, set[str]] = {}
    for path, tree in trees.items():
        wanted = {each for node in at_import(tree) for each in imported(node)}
        known = {each if each in names else each.rpartition(".")[0] for each in wanted}
        found[name_of(path)] = (known & names) - {name_of(path)}
    return found


def at_import(node: ast.AST) -> Iterator[ast.AST]:
    """What runs while a module is imported: nothing in functions, nor what only type checkers read."""
    for child in ast.iter_child_nodes(node):
        checked = isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test)
        if not checked and not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield child
            yield from at_import(child)


def imported(node: ast.AST) -> Iterator[str]:
    """Full names that a statement imports."""
    match node:
        case ast.Import(names=names):
            yield from (each.name for each in names)
        case ast.ImportFrom(module=str(module), names=names, level=0):
            yield from (f"{module}.{each.name}" for each in names)


def import_circles(graph: Mapping[str, set[str]]) -> list[set[str]]:
    """Sets of modules each of which reaches all others of its set."""
    reached = {name: reachable(graph, name) for name in graph}
    circles: list[set[str]] = []
    for name in graph:
        circle = {other for other in reached[name] if name in reached[other]}
        if len(circle) > 1 and circle not in circles:
            circles.append(circle)
    return circles


def reachable(graph: Mapping[str, set[str]], start: str) -> set[str]:
    """What can be reached from `start` in one step or more."""
    found: set[str] = set()
    waiting = [*graph[start]]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += graph.get(name, ())
    return found


if __name__ == "__main__":
    main()
