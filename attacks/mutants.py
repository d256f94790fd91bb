"""Mutants of what every figure rests on: `python -m attacks.mutants [MODULE ...]`. Needs the extra `attack`.

Statistics, buffer, sampling policy, algorithms, the parsers and verifiers of scheduling and of programs, and the
resource profile of scheduling.

A mutant is the source with one small change, made by cosmic-ray: another number, operator or comparison, a condition
turned round, a loop left out. The tests worked by hand have to notice each (what only a Hypothesis property notices, it
notices by luck), unless it means the same as the source: attacks/equivalent.toml keeps those, with the reasons why.
Annotations are left alone: they are never evaluated.

Each mutant is tried in a fork of this process, which imports it in place of the source: nothing is written, and pytest
is loaded once. What became of it is a line of FILE, so that the command goes on where it was cut off; where a module's
tests have changed, it tries only its survivors again. Exit status 1 says that a mutant survived without a reason, or
that a kept one does no longer.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import hashlib
import importlib
import importlib.util
import io
import json
import os
import resource
import sys
import tomllib
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.abc import SourceLoader
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

from attrs import evolve, field, frozen

__all__ = ["Mutant", "kept_reasons", "main", "table", "unexplained"]

ROOT = Path(__file__).parent.parent
PACKAGE = "gce.domain"
MUTATED: Mapping[str, tuple[str, ...]] = {
    "statistics": ("test_statistics.py", "test_keyword_only.py"),
    "curriculum": ("test_sampling_policy.py", "test_keyword_only.py"),
    "buffer": ("test_buffer.py", "test_keyword_only.py"),
    "algorithms": ("test_algorithms.py", "test_keyword_only.py"),
    "tasks.scheduling.answer": ("test_answer.py", "test_verify.py"),
    "tasks.scheduling.verify": ("test_answer.py", "test_verify.py"),
    "tasks.scheduling.resource_profile": ("test_resource_profile.py", "test_verify.py"),
    "tasks.programs.answer": ("test_program_answers.py", "test_programs.py"),
    "tasks.programs.verify": ("test_program_answers.py", "test_programs.py"),
}
"""The modules of the package that are changed, each with the tests that judge it."""
CHOSEN = ("-m", "", "-k", "not megabyte and not covers")
"""Tests by the megabyte are about time; simulated coverage takes most of it, and notices by luck too."""
OPTIONS = (
    *("-q", "--assert=plain", "--tb=no", "-p", "no:cacheprovider", "-p", "no:hypothesispytest"),
    *("--rootdir", str(ROOT), "-c", str(ROOT / "pyproject.toml")),
)
SECONDS = 8
"""Of a core, for a mutant; the source itself takes 2 at most."""
EQUIVALENT = ROOT / "attacks" / "equivalent.toml"


@frozen
class Mutant:
    """One change to one line, and what became of it."""

    module: str
    line: str
    """Before the change, without the spaces around it."""
    becomes: str
    source: str = field(default="", eq=False, repr=False)
    """The whole module after the change."""
    function: str = field(default="", eq=False, repr=False)
    """Around the change, if any."""
    fate: str = field(default="survived", eq=False)
    """killed, survived or timed out."""

    def __str__(self) -> str:
        return f"  {self.module}\n  - {self.line}\n  + {self.becomes}"


def kept_reasons(path: Path = EQUIVALENT) -> dict[Mutant, str]:
    """Why each kept mutant means the same as the source."""
    return {
        Mutant(entry["module"], entry["line"], becomes): entry["reason"]
        for entry in tomllib.loads(path.read_text(encoding="utf-8"))["equivalent"]
        for becomes in entry["becomes"]
    }


def table(mutants: Sequence[Mutant], reasons: Mapping[Mutant, str]) -> str:
    """By module: mutants, killed (by a test or by the limit), equivalent by a kept reason, surviving without one."""
    heads = ("mutants", "killed", "equivalent", "surviving", "killed, %")
    width = max(map(len, ("module", *MUTATED))) + 2
    lines = [f"{'module':{width}}" + "".join(f"{head:>12}" for head in heads)]
    for module in dict.fromkeys(mutant.module for mutant in mutants):
        each = [mutant for mutant in mutants if mutant.module == module]
        survivors = [mutant for mutant in each if mutant.fate == "survived"]
        kept = sum(mutant in reasons for mutant in survivors)
        killed = len(each) - len(survivors)
        counts = (len(each), killed, kept, len(survivors) - kept, f"{100 * killed / len(each):.1f}")
        lines.append(f"{module:{width}}" + "".join(f"{count:>12}" for count in counts))
    return "\n".join(lines)


def unexplained(mutants: Sequence[Mutant], reasons: Mapping[Mutant, str]) -> list[str]:
    """What is wrong with the survivors: one without a reason, or a reason without its survivor."""
    survivors = {mutant for mutant in mutants if mutant.fate == "survived"}
    return [
        *(f"no test notices, and no reason is kept:\n{mutant}" for mutant in survivors - reasons.keys()),
        *(f"a reason is kept for what does not survive:\n{mutant}" for mutant in reasons.keys() - survivors),
    ]


def _mutants(module: str, source: str) -> Iterator[Mutant]:
    """All that cosmic-ray makes of a source and that compile, each once."""
    from cosmic_ray.ast import ast_nodes, get_ast
    from cosmic_ray.mutating import mutate_code
    from cosmic_ray.plugins import get_operator, operator_names

    operators = [
        get_operator(name)()
        for name in sorted(operator_names())
        if "BinaryOperator_BitOr" not in name and not get_operator(name).arguments()  # `|` stands in annotations only
    ]
    seen = {source}
    statements = get_ast(source).children
    chunks = [statement.get_code() for statement in statements]
    for at, chunk in enumerate(chunks):
        function = statements[at].name.value if statements[at].type == "funcdef" else ""
        nodes = list(ast_nodes(get_ast(chunk)))
        for operator in operators:
            for place in range(sum(len(list(operator.mutation_positions(node))) for node in nodes)):
                mutated = "".join([*chunks[:at], mutate_code(chunk, operator, place), *chunks[at + 1 :]])
                if mutated not in seen and _compiles(mutated):
                    seen.add(mutated)
                    yield Mutant(module, *_change(source, mutated), mutated, function)


def _compiles(source: str) -> bool:
    """Not where the star of a signature has become another operator."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            compile(source, "mutant", "exec")
        except SyntaxError:
            return False
    return True


def _change(source: str, mutated: str) -> tuple[str, str]:
    """The line that differs, before and after; an empty one where it is gone."""
    before, after = source.splitlines(), mutated.splitlines()
    at = next(at for at, (old, new) in enumerate(zip(before, after, strict=False)) if old != new)
    return before[at].strip(), after[at].strip() if len(before) == len(after) else ""


def _fate(mutant: Mutant) -> str:
    """Run the tests on it in a fork."""
    child = os.fork()
    if not child:
        code = 3
        try:
            code = _test(mutant)
        finally:
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return "survived" if code == 0 else "killed" if code > 0 else "timed out"


def _test(mutant: Mutant) -> int:
    import pytest

    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)
    os.dup2(silence, 2)
    sys.meta_path.insert(0, _Instead(mutant))
    return int(pytest.main([*OPTIONS, "-x", *CHOSEN, *map(str, _tests_of(mutant.module))], plugins=[_Order(mutant)]))


class _Order:
    """Leaves out what Hypothesis draws; tests that call the changed function come first, to kill sooner."""

    def __init__(self, mutant: Mutant) -> None:
        self._function = mutant.function

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        items[:] = [item for item in items if not getattr(item.function, "is_hypothesis_test", False)]
        items.sort(key=lambda item: self._function not in item.function.__code__.co_names)


def _prepare() -> None:
    """Load, once for all forks, what they need and what imports nothing of the package."""
    import pytest

    for name in ("hypothesis.stateful", "numpy.random", "attrs"):
        importlib.import_module(name)
    with contextlib.redirect_stdout(io.StringIO()):
        pytest.main([*OPTIONS, str(ROOT / "tests" / "conftest.py")])
    gc.freeze()


class _Instead(SourceLoader):
    """Imports a mutant where its module is asked for."""

    def __init__(self, mutant: Mutant) -> None:
        self._name, self._source = f"{PACKAGE}.{mutant.module}", mutant.source

    def find_spec(self, name: str, path: object, target: ModuleType | None = None) -> ModuleSpec | None:
        return importlib.util.spec_from_loader(name, self) if name == self._name else None

    def get_filename(self, name: str) -> str:
        return f"{name}, mutated"

    def get_data(self, path: str | bytes) -> bytes:
        return self._source.encode()


def _source_of(module: str) -> str:
    """Read without importing anything of the package, which each fork has to do anew."""
    spec = importlib.util.find_spec("gce")
    assert spec is not None and spec.origin is not None
    path = Path(spec.origin).parent.joinpath("domain", *module.split("."))
    return path.with_suffix(".py").read_text(encoding="utf-8")


def _tests_of(module: str) -> list[Path]:
    return [ROOT / "tests" / name for name in MUTATED[module]]


def _try_all(mutants: Iterable[Mutant], results: Path) -> Iterator[Mutant]:
    """Each mutant with its fate, from the results where it is known, else tried and added to them."""
    tests = {
        module: _digest("".join(path.read_text(encoding="utf-8") for path in _tests_of(module))) for module in MUTATED
    }
    known: dict[str, str] = {}
    if results.exists():
        for entry in map(json.loads, results.read_text(encoding="utf-8").splitlines()):
            if entry["fate"] != "survived" or entry["tests"] in tests.values():
                known[entry["mutant"]] = entry["fate"]
    with results.open("a", encoding="utf-8") as file:
        for mutant in mutants:
            name = _digest(mutant.source)
            if name not in known:
                known[name] = _fate(mutant)
                file.write(json.dumps({"mutant": name, "fate": known[name], "tests": tests[mutant.module]}) + "\n")
                file.flush()
            yield evolve(mutant, fate=known[name])


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(
        prog="python -m attacks.mutants", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--results", type=Path, default=ROOT / "build" / "mutants.jsonl", metavar="FILE")
    parser.add_argument("modules", nargs="*", choices=[[], *MUTATED], metavar="MODULE", help=", ".join(MUTATED))
    arguments = parser.parse_args()
    results, modules = arguments.results, arguments.modules or list(MUTATED)
    if importlib.util.find_spec("cosmic_ray") is None:
        sys.exit("mutants need cosmic-ray: pip install '.[attack]'")
    results.parent.mkdir(parents=True, exist_ok=True)
    sys.dont_write_bytecode = True
    _prepare()
    sources = {module: _source_of(module) for module in modules}
    for module, source in sources.items():
        if _fate(Mutant(module, "", "", source)) != "survived":
            sys.exit(f"expected tests that pass on {module} itself: pytest {' '.join(map(str, _tests_of(module)))}")
    mutants = [mutant for module, source in sources.items() for mutant in _mutants(module, source)]
    tried = []
    for mutant in _try_all(mutants, results):
        tried.append(mutant)
        if len(tried) % 50 == 0:
            print(f"{len(tried)} of {len(mutants)}", file=sys.stderr, flush=True)
    reasons = {mutant: reason for mutant, reason in kept_reasons().items() if mutant.module in modules}
    complaints = unexplained(tried, reasons)
    kept = [f"equivalent: {reasons[mutant]}\n{mutant}" for mutant in tried if mutant in reasons]
    print("\n\n".join([*kept, *complaints, table(tried, reasons)]))
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
