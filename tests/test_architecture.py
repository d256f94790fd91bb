"""The shape of the package, held by tests: who imports whom, what importing does, and what no module may do.

Each rule is a function from a module's source to its complaints, tried on sources that break it before it is trusted
with the package. The sources are those of the installed `gce`.
"""

from __future__ import annotations

import ast
import graphlib
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, cached_property
from pathlib import Path

import pytest
from attrs import frozen

import gce

ROOT = Path(gce.__file__).parent

# fmt: off
PURE_STANDARD_LIBRARY = {
    "__future__", "abc", "ast", "base64", "binascii", "bisect", "builtins", "collections", "contextlib", "copy",
    "dataclasses", "decimal", "difflib", "enum", "fnmatch", "fractions", "functools", "graphlib", "hashlib", "heapq",
    "itertools", "json", "math", "numbers", "operator", "random", "re", "reprlib", "shlex", "statistics", "string",
    "struct", "textwrap", "types", "typing", "unicodedata",
}
"""What domain and ports may use: no clock, no files, no processes. `random` is looked at more closely below."""

ADAPTERS_ONLY = {
    "gguf", "gymnasium", "httpx2", "huggingface_hub", "inspect_ai", "lm_eval", "mlflow", "mlx", "mlx_lm", "ortools",
    "peft", "psycopg", "pyarrow", "reasoning_gym", "safetensors", "scipy_openblas32", "sqlite3", "tensorboard",
    "tokenizers", "torch", "trackio", "transformers", "verifiers", "wandb", "websockets",
}
# fmt: on
WEB_ONLY = {"httptools", "multipart", "python_multipart", "starlette", "uvicorn"}
"""What pages and endpoints are made with; nothing but `gce.app.web` knows it."""
TEMPLATES = {"jinja2"}
"""What pages and chat templates are made with."""
SIMULATIONS = {"av", "onnxruntime", "rapidocr", "stable_baselines3"}
HEAVY = ADAPTERS_ONLY | WEB_ONLY | TEMPLATES | SIMULATIONS | {"cattrs", "hypothesis", "matplotlib", "rich"}
"""What `import gce` leaves alone."""

INWARD = {
    "domain": {"gce.domain"},
    "ports": {"gce.domain", "gce.ports"},
    "adapters": {"gce.adapters", "gce.domain", "gce.errors", "gce.ports"},
    "testing": {"gce.domain", "gce.errors", "gce.ports", "gce.testing"},
    "app": {"gce"},
    "errors": set[str](),
    "": {"gce"},
}
"""What each part of the package may import of the package. The empty name is `gce` itself."""

VENDORS = {
    "domain": {"attrs", "numpy"},
    "ports": {"numpy"},
    "testing": {"attrs", "hypothesis", "numpy"},
    "errors": set[str](),
}
"""Where this is said at all: what a part may import of others. `cattrs` in domain is a rule of its own."""

CHECKERS = {"ortools"}
"""Vendors that `testing` may ask as well, inside functions: what checks an adapter shares no code with it."""

GENERATORS = {"BitGenerator", "Generator", "PCG64", "PCG64DXSM", "Philox", "SFC64", "SeedSequence", "default_rng"}
# fmt: off
MLX_DRAWS = {
    "bernoulli", "categorical", "gumbel", "laplace", "multivariate_normal", "normal", "permutation", "randint",
    "truncated_normal", "uniform",
}
# fmt: on
AMBIENT = ("os.environ", "os.environb", "os.getenv", "os.getenvb", "os.putenv", "logging.basicConfig")
PICKLERS = {"_pickle", "cloudpickle", "dill", "joblib", "marshal", "pickle", "shelve"}


RUNS_CODE = {"gce.adapters.environments.reproductions", "gce.adapters.sandboxes.inside"}
"""Runs programs, and only ever in a sandbox."""
RUNS_OWN_CODE = {"gce.domain.tasks.faster.generate"}
"""Runs functions that it puts together from its own text."""
CHANGES = {
    *("add", "append", "appendleft", "clear", "discard", "extend", "insert", "pop", "popitem", "popleft", "remove"),
    *("setdefault", "sort", "update"),
}
"""Methods that change a list, set, dict or deque."""

UNFORESEEN = {
    "gce.adapters.models.servers.policy_sampler:secrets.token_hex",
    "gce.adapters.sandboxes.view:secrets.randbelow",
    "gce.adapters.sandboxes.container:secrets.randbelow",
    "gce.adapters.sandboxes.inside:os.urandom",
    "gce.adapters.sandboxes.scorers_inside:os.urandom",
    "gce.adapters.sandboxes.process:secrets.token_bytes",
    "gce.app.web.api.simulations:uuid.uuid4",
    "gce.app.web.jobs:secrets.token_hex",
    "gce.app.web.safety:secrets.token_bytes",
    "gce.app.web.safety:secrets.token_urlsafe",
}
"""What no program may be able to guess, and no result depends on."""

SEEDS_OTHERS = {"gce.adapters.environments.reasoning_gym:random.seed"}
"""Seeds the shared generator for a framework that draws from it, in a process of its own."""


@frozen
class Module:
    """One source file of the package."""

    name: str
    tree: ast.Module
    is_package: bool = False

    @cached_property
    def nodes(self) -> list[ast.AST]:
        """All of them, in the order of `ast.walk`."""
        return list(ast.walk(self.tree))

    @property
    def part(self) -> str:
        return [*self.name.split("."), ""][1]

    @property
    def private(self) -> bool:
        return any(part.startswith("_") for part in self.name.split("."))


@frozen
class Import:
    """One name that a module imports, in full: `from gce.domain import buffer` imports gce.domain.buffer."""

    name: str
    line: int
    deferred: bool
    """In a function, or read by type checkers only: importing the module does not import this."""

    def within(self, names: set[str]) -> bool:
        return any(self.name == name or self.name.startswith(f"{name}.") for name in names)

    @property
    def top(self) -> str:
        return self.name.split(".")[0]


def module(name: str, source: str, *, is_package: bool = False) -> Module:
    return Module(name, ast.parse(source), is_package)


@cache
def modules() -> list[Module]:
    found = []
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT.parent).with_suffix("").parts
        is_package = parts[-1] == "__init__"
        name = ".".join(parts[:-1] if is_package else parts)
        found.append(module(name, path.read_text(encoding="utf-8"), is_package=is_package))
    return found


@cache
def imports(module: Module) -> Sequence[Import]:
    """Every import of the module: statements at any depth, and literal names given to `import_module`."""

    def walk(node: ast.AST, deferred: bool) -> Iterator[Import]:
        match node:
            case ast.Import(names=names):
                yield from (Import(alias.name, node.lineno, deferred) for alias in names)
            case ast.ImportFrom(names=names):
                base = absolute(module, node)
                yield from (Import(f"{base}.{alias.name}".rstrip(".*"), node.lineno, deferred) for alias in names)
            case ast.Call(
                func=ast.Name("import_module" | "__import__") | ast.Attribute(attr="import_module"),
                args=[ast.Constant(str(name)), *_],
            ):
                yield Import(name, node.lineno, deferred)
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda() | ast.If(test=ast.Name("TYPE_CHECKING")):
                deferred = True
        for child in ast.iter_child_nodes(node):
            yield from walk(child, deferred)

    return list(walk(module.tree, False))


def absolute(module: Module, node: ast.ImportFrom) -> str:
    """The package that a `from ... import` reads from."""
    if not node.level:
        return node.module or ""
    above = module.name.split(".")
    above = above[: len(above) - node.level + module.is_package]
    return ".".join([*above, node.module] if node.module else above)


@cache
def full_names(module: Module) -> Callable[[ast.AST], str]:
    """What an expression names, aliases resolved: `np.random.rand` is numpy.random.rand; '' where it names nothing."""
    aliases: dict[str, str] = {}
    for node in module.nodes:
        if isinstance(node, ast.Import):
            aliases |= {alias.asname: alias.name for alias in node.names if alias.asname}
            aliases |= {alias.name.split(".")[0]: alias.name.split(".")[0] for alias in node.names if not alias.asname}
        elif isinstance(node, ast.ImportFrom):
            aliases |= {alias.asname or alias.name: f"{absolute(module, node)}.{alias.name}" for alias in node.names}

    def resolve(node: ast.AST) -> str:
        match node:
            case ast.Name(id=name):
                return aliases.get(name, "")
            case ast.Attribute(value=value, attr=attribute):
                owner = resolve(value)
                return owner and f"{owner}.{attribute}"
        return ""

    return resolve


def outward_imports(module: Module) -> Iterator[str]:
    """Imports that point outward, or at a vendor that this part of the package may not know."""
    for found in imports(module):
        where = f"{module.name}:{found.line} imports {found.name}"
        part = module.part if module.part in INWARD else ""
        vendors = VENDORS.get(part)
        if found.top == "gce":
            if not found.within(INWARD[part]):
                yield f"{where}: {part} may import {sorted(INWARD[part])} of this package"
        elif found.top in ADAPTERS_ONLY:
            if part != "adapters" and not (part == "testing" and found.top in CHECKERS and found.deferred):
                yield f"{where}: only adapters do"
        elif found.top in WEB_ONLY:
            if not module.name.startswith("gce.app.web"):
                yield f"{where}: only gce.app.web does"
        elif found.top in TEMPLATES:
            if part != "adapters" and not module.name.startswith("gce.app.web"):
                yield f"{where}: only adapters and gce.app.web do"
        elif part == "domain" and found.top == "cattrs":
            if not found.deferred:
                yield f"{where}: only inside functions that need it"
        elif found.top in sys.stdlib_module_names:
            if part in ("domain", "ports") and found.top not in PURE_STANDARD_LIBRARY:
                yield f"{where}: {part} is pure"
        elif vendors is not None and found.top not in vendors:
            yield f"{where}: {part} may import {sorted(vendors)} of others"


def impure_calls(module: Module) -> Iterator[str]:
    """Files and terminals in the domain; anywhere, `hash` (differs between processes) and code from text."""
    banned = {"eval", "exec", "hash"} - ({"exec"} if module.name in RUNS_CODE | RUNS_OWN_CODE else set())
    if module.part in ("domain", "ports"):
        banned |= {"breakpoint", "input", "open", "print"}
    for node in module.nodes:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in banned:
            yield f"{module.name}:{node.lineno} calls {node.func.id}()"


def global_draws(module: Module) -> Iterator[str]:
    """Draws from a generator that all share, and generators seeded by the operating system."""
    resolve = full_names(module)
    for node in module.nodes:
        if isinstance(node, ast.Call):
            name = resolve(node.func)
            place = f"{module.name}:{node.lineno} calls {name}"
            if name == "random.Random" or (name.startswith("numpy.random.") and name.split(".")[2] in GENERATORS):
                if not node.args and not node.keywords:
                    yield f"{place} without a seed"
            elif name.startswith("mlx.core.random.") and name.split(".")[3] in MLX_DRAWS:
                if not any(keyword.arg == "key" for keyword in node.keywords):
                    yield f"{place} without a key"
            elif f"{module.name}:{name}" in UNFORESEEN | SEEDS_OTHERS:
                pass
            elif name.startswith(("random.", "numpy.random.", "secrets.", "uuid.uuid1", "uuid.uuid4", "os.urandom")):
                yield f"{place}: nothing draws from a shared generator"
    for found in imports(module):
        if found.name.startswith("random.") and found.name != "random.Random":
            yield f"{module.name}:{found.line} imports {found.name}: nothing draws from a shared generator"


def pickles(module: Module) -> Iterator[str]:
    """Pickle under any of its names: it runs code from files, and its bytes do not repeat."""
    for found in imports(module):
        if found.top in PICKLERS:
            yield f"{module.name}:{found.line} imports {found.name}"
    for node in module.nodes:
        match node:
            case ast.keyword(arg="allow_pickle", value=ast.Constant(value=False)):
                pass
            case ast.keyword(arg="allow_pickle"):
                yield f"{module.name}:{node.value.lineno} allows pickle"


def ambient_reads(module: Module) -> Iterator[str]:
    """What happens while a module is imported and depends on the environment, or sets up logging."""
    resolve = full_names(module)

    def walk(node: ast.AST) -> Iterator[str]:
        if resolve(node) in AMBIENT:
            yield f"{module.name}:{node.lineno} uses {resolve(node)} at import"  # type: ignore[attr-defined]
        for child in imported_with(node):
            yield from walk(child)

    return walk(module.tree)


def imported_with(node: ast.AST) -> Iterator[ast.AST]:
    """The parts of `node` that run when its module is imported."""
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            yield from node.decorator_list
            yield from ast.iter_child_nodes(node.args)
        case ast.Lambda():
            yield from ast.iter_child_nodes(node.args)
        case ast.If(test=ast.Compare(left=ast.Name("__name__"))):
            pass
        case _:
            yield from ast.iter_child_nodes(node)


def unsorted_names(module: Module) -> Iterator[str]:
    """A public module without a sorted `__all__`: constants, then classes, then functions, as ruff sorts them."""
    if module.private or (module.is_package and not any(defines(node) for node in module.tree.body)):
        return
    for node in module.tree.body:
        match node:
            case ast.Assign(targets=[ast.Name("__all__")]) | ast.AnnAssign(target=ast.Name("__all__")):
                names = list(ast.literal_eval(node.value)) if node.value else []
                if names != sorted(set(names), key=ruff_order):
                    yield f"{module.name}:{node.lineno} has an unsorted __all__"
                return
    yield f"{module.name} has no __all__"


def ruff_order(name: str) -> tuple[bool, bool, str]:
    is_constant = name.isupper() and len(name) > 1
    return not is_constant, not name[0].isupper(), name


def defines(node: ast.stmt) -> bool:
    docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    return not docstring and not (isinstance(node, ast.ImportFrom) and node.module == "__future__")


def raw_output(module: Module) -> Iterator[str]:
    """Output past `gce.app.terminal`, which escapes what others wrote: `print` and the standard streams themselves."""
    if module.name == "gce.app.terminal":
        return
    resolve = full_names(module)
    harmless = {
        id(node.value)
        for node in module.nodes
        if isinstance(node, ast.Attribute) and node.attr in ("fileno", "flush", "isatty")
    }
    for node in module.nodes:
        match node:
            case ast.Call(func=ast.Name("print"), keywords=keywords):
                if not any(keyword.arg == "file" for keyword in keywords):
                    yield f"{module.name}:{node.lineno} calls print()"
            case ast.Attribute() | ast.Name():
                if resolve(node) in ("sys.stdout", "sys.stderr", "sys.__stdout__") and id(node) not in harmless:
                    yield f"{module.name}:{node.lineno} uses {resolve(node)}"


def shared_state(module: Module) -> Iterator[str]:
    """In the domain, what one call leaves behind for the next: a module's own container that a function changes."""
    if module.part != "domain":
        return
    own = {
        target.id
        for node in module.tree.body
        if isinstance(node, ast.Assign | ast.AnnAssign)
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if isinstance(target, ast.Name)
    }
    for node in module.nodes:
        match node:
            case ast.Global(names=names):
                yield f"{module.name}:{node.lineno} declares {names} global"
            case ast.Call(func=ast.Attribute(value=ast.Name(name), attr=method)) if name in own and method in CHANGES:
                yield f"{module.name}:{node.lineno} changes {name} by {method}"
            case ast.Subscript(value=ast.Name(name), ctx=ast.Store() | ast.Del()) if name in own:
                yield f"{module.name}:{node.lineno} changes {name}"


def imported_commands(module: Module) -> Iterator[str]:
    """A command is a face: other faces use what it calls, never the command itself."""
    for found in imports(module):
        if found.within({"gce.app.commands"}) and module.name != "gce.app.cli":
            yield f"{module.name}:{found.line} imports {found.name}"


def adapters_outside_wiring(module: Module) -> Iterator[str]:
    """In the application only the composition root knows which adapters there are."""
    if module.part != "app" or module.name.startswith("gce.app.wiring"):
        return
    for found in imports(module):
        if found.within({"gce.adapters"}):
            yield f"{module.name}:{found.line} imports {found.name}: only gce.app.wiring does"


def models_asked_for_attributes(module: Module) -> Iterator[str]:
    """`getattr` or `hasattr` on a model: what a model can do stands in its `ModelInfo`."""
    if module.part != "app":
        return
    for node in module.nodes:
        match node:
            case ast.Call(func=ast.Name("getattr" | "hasattr"), args=[ast.Name(name), *_]) if "model" in name:
                yield f"{module.name}:{node.lineno} asks {name} for an attribute"


def circles(found: Mapping[str, set[str]]) -> list[list[str]]:
    """Modules that import each other, by way of others or not."""
    sorter = graphlib.TopologicalSorter(found)
    try:
        sorter.prepare()
    except graphlib.CycleError as error:
        return [error.args[1]]
    return []


BROKEN = [
    (outward_imports, "gce.domain.x", "from gce.ports.clock import Clock"),
    (outward_imports, "gce.domain.x", "from gce import Problem"),
    (outward_imports, "gce.domain.x", "from gce.errors import BadInput"),
    (outward_imports, "gce.domain.x", "from ..adapters import blas"),
    (outward_imports, "gce.domain.x", "def f():\n    import gce.app.training.loop"),
    (outward_imports, "gce.domain.x", "import time"),
    (outward_imports, "gce.testing.x", "import ortools"),
    (outward_imports, "gce.testing.x", "def f():\n    import torch"),
    (outward_imports, "gce.testing.x", "from gce.app import loop"),
    (outward_imports, "gce.domain.x", "from os import path"),
    (outward_imports, "gce.domain.x", "import cattrs"),
    (outward_imports, "gce.domain.x", "import rich"),
    (outward_imports, "gce.domain.x", "if TYPE_CHECKING:\n    from gce.ports.solver import Solver"),
    (outward_imports, "gce.domain.x", "def f():\n    import torch"),
    (outward_imports, "gce.ports.x", "from gce.adapters.models.backends.mlx.blas import use_fast_blas"),
    (outward_imports, "gce.ports.x", "import attrs"),
    (outward_imports, "gce.adapters.x", "from gce.app import loop"),
    (outward_imports, "gce.adapters.x", "from gce.testing import contracts"),
    (outward_imports, "gce.app.x", "import mlx.core as mx"),
    (outward_imports, "gce.app.commands.x", "def f():\n    from starlette.applications import Starlette"),
    (outward_imports, "gce.app.x", "import importlib\nmx = importlib.import_module('mlx.core')"),
    (outward_imports, "gce.app.x", "def f():\n    import sqlite3"),
    (outward_imports, "gce.testing.x", "from gce.adapters import memory"),
    (outward_imports, "gce.testing.x", "import pytest"),
    (outward_imports, "gce.errors", "from gce.domain import problems"),
    (outward_imports, "gce", "import ortools"),
    (impure_calls, "gce.domain.x", "print(1)"),
    (impure_calls, "gce.domain.x", "def f(path):\n    return open(path).read()"),
    (impure_calls, "gce.app.x", "key = hash('T0')"),
    (impure_calls, "gce.app.x", "eval('1')"),
    (impure_calls, "gce.adapters.x", "exec('1')"),
    (global_draws, "gce.adapters.x", "import secrets\nsecrets.token_bytes(16)"),
    (global_draws, "gce.domain.x", "import random\nrandom.shuffle([])"),
    (global_draws, "gce.domain.x", "import random as r\nr.random()"),
    (global_draws, "gce.domain.x", "from random import choice"),
    (global_draws, "gce.domain.x", "import random\nrandom.Random()"),
    (global_draws, "gce.domain.x", "import numpy as np\nnp.random.rand(3)"),
    (global_draws, "gce.domain.x", "import numpy as np\nnp.random.default_rng()"),
    (global_draws, "gce.domain.x", "from numpy import random\nrandom.normal()"),
    (global_draws, "gce.domain.x", "from numpy.random import seed\nseed(0)"),
    (global_draws, "gce.adapters.x", "import mlx.core as mx\nmx.random.categorical(logits)"),
    (global_draws, "gce.adapters.x", "import mlx.core as mx\nmx.random.bernoulli(0.5)"),
    (global_draws, "gce.app.x", "import uuid\nuuid.uuid4()"),
    (pickles, "gce.adapters.x", "import pickle"),
    (pickles, "gce.adapters.x", "def f():\n    from joblib import dump"),
    (pickles, "gce.adapters.x", "np.load(path, allow_pickle=True)"),
    (ambient_reads, "gce.app.x", "import os\nHOME = os.environ['HOME']"),
    (ambient_reads, "gce.app.x", "from os import environ as e\nHOME = e.get('HOME')"),
    (ambient_reads, "gce.app.x", "import os\nclass A:\n    home = os.getenv('HOME')"),
    (ambient_reads, "gce.app.x", "import os\ndef f(home=os.getenv('HOME')):\n    pass"),
    (ambient_reads, "gce.app.x", "import logging\nlogging.basicConfig()"),
    (raw_output, "gce.app.x", "print('x')"),
    (raw_output, "gce.adapters.x", "def f(name):\n    print(name, flush=True)"),
    (raw_output, "gce.app.x", "import sys\nprint('x', file=sys.stderr)"),
    (raw_output, "gce.app.x", "import json, sys\njson.dump({}, sys.stdout)"),
    (raw_output, "gce.app.x", "from sys import stdout as out\nout.write('x')"),
    (shared_state, "gce.domain.x", "KNOWN = {}\ndef f(): KNOWN[1] = 2"),
    (shared_state, "gce.domain.x", "KNOWN: list[int] = []\ndef f(): KNOWN.append(2)"),
    (shared_state, "gce.domain.x", "N = 0\ndef f():\n    global N\n    N += 1"),
    (imported_commands, "gce.app.reports.x", "from gce.app.commands.train import run"),
    (imported_commands, "gce.app.commands.x", "from gce.app.commands import train"),
    (adapters_outside_wiring, "gce.app.commands.x", "from gce.adapters.runs.memory_store import MemoryStore"),
    (models_asked_for_attributes, "gce.app.x", "def f(model): return getattr(model, 'layers', ())"),
    (unsorted_names, "gce.app.x", "def f(): pass"),
    (unsorted_names, "gce.app.x", "__all__ = ['b', 'a']"),
    (unsorted_names, "gce.app.x", "__all__ = ['Apple', 'TASKS']"),
    (unsorted_names, "gce.app.x", "__all__ = ['a', 'a']"),
]

SOUND = [
    (
        outward_imports,
        "gce.domain.x",
        "import math, attrs, numpy as np\nfrom . import problems\nfrom gce.domain import y",
    ),
    (outward_imports, "gce.domain.x", "def f():\n    from cattrs import Converter"),
    (outward_imports, "gce.domain.x", "if TYPE_CHECKING:\n    from cattrs import Converter"),
    (outward_imports, "gce.adapters.x", "import time, sqlite3, mlx.core\nfrom gce.errors import GceError"),
    (outward_imports, "gce.app.x", "import json, rich\nfrom gce.adapters import blas\nfrom ..domain import problems"),
    (outward_imports, "gce.app.web.x", "from starlette.routing import Route"),
    (outward_imports, "gce.testing.x", "import time\ndef f():\n    from ortools.sat.python import cp_model"),
    (outward_imports, "gce", "def __getattr__(name):\n    from gce.domain.problems import Problem"),
    (impure_calls, "gce.domain.x", "class A:\n    def __hash__(self): return self.hash()"),
    (impure_calls, "gce.app.x", "print(open('x')); mx.eval(1)"),
    (global_draws, "gce.domain.x", "import random\nrandom.Random(7).random()"),
    (global_draws, "gce.domain.x", "import numpy as np\ndef f(g: np.random.Generator): return g.random()"),
    (global_draws, "gce.domain.x", "import numpy as np\nnp.random.Generator(np.random.Philox(key=3))"),
    (global_draws, "gce.domain.x", "def f(random): return random.choice([1])"),
    (global_draws, "gce.adapters.x", "import mlx.core as mx\nmx.random.categorical(x, key=mx.random.key(0))"),
    (pickles, "gce.adapters.x", "np.load(path, allow_pickle=False)"),
    (ambient_reads, "gce.app.x", "import os\ndef f(): return os.environ['HOME']"),
    (ambient_reads, "gce.app.x", "import os\nif __name__ == '__main__':\n    print(os.environ)"),
    (raw_output, "gce.adapters.x", "def f(lock):\n    print(1, file=lock)"),
    (raw_output, "gce.app.x", "import sys\nsys.stdout.flush(); sys.stdout.fileno(); sys.stdin.buffer.read()"),
    (raw_output, "gce.app.terminal", "import sys\nprint(1, file=sys.stderr)"),
    (shared_state, "gce.domain.x", "TABLE = {1: 2}\ndef f():\n    found = dict(TABLE)\n    found[2] = 3"),
    (imported_commands, "gce.app.cli", "from gce.app.commands import train"),
    (adapters_outside_wiring, "gce.app.wiring.x", "from gce.adapters.runs.memory_store import MemoryStore"),
    (models_asked_for_attributes, "gce.app.x", "def f(backend): return getattr(backend, 'name')"),
    (unsorted_names, "gce.app.x", "__all__ = ['TASKS', 'Apple', 'f', 'g']"),
    (unsorted_names, "gce.app._x", "def f(): pass"),
    (unsorted_names, "gce.__main__", "main()"),
]

RULES = [
    *(outward_imports, impure_calls, global_draws, pickles, ambient_reads, raw_output, unsorted_names),
    *(shared_state, imported_commands, adapters_outside_wiring, models_asked_for_attributes),
]


@pytest.mark.parametrize(("rule", "name", "source"), BROKEN)
def test_a_rule_finds_what_breaks_it(rule: Callable[[Module], Iterator[str]], name: str, source: str) -> None:
    assert list(rule(module(name, source)))


@pytest.mark.parametrize(("rule", "name", "source"), SOUND)
def test_a_rule_lets_pass_what_keeps_it(rule: Callable[[Module], Iterator[str]], name: str, source: str) -> None:
    assert not list(rule(module(name, source)))


def test_a_package_without_names_needs_no_list_of_them() -> None:
    assert not list(unsorted_names(module("gce.app", '"""Thin."""', is_package=True)))
    assert list(unsorted_names(module("gce.app", "from gce.app.training.loop import run", is_package=True)))


def test_relative_imports_of_a_package_start_at_the_package_itself() -> None:
    inside = module("gce.domain", "from . import problems\nfrom .. import app", is_package=True)
    assert [found.name for found in imports(inside)] == ["gce.domain.problems", "gce.app"]


@pytest.mark.slow
def test_the_walk_sees_the_whole_package() -> None:
    names = {module.name for module in modules()}
    assert {
        "gce",
        "gce.errors",
        "gce.domain.problems",
        "gce.ports.model",
        "gce.adapters",
        "gce.app",
        "gce.testing",
    } <= names
    assert {module.part for module in modules()} - set(INWARD) <= {"__main__"}


@pytest.mark.slow
@pytest.mark.parametrize("rule", RULES)
def test_every_module_keeps_the_rule(rule: Callable[[Module], Iterator[str]]) -> None:
    assert not [complaint for module in modules() for complaint in rule(module)]


def test_no_modules_import_each_other_in_a_circle() -> None:
    names = {module.name for module in modules()}
    found = {
        module.name: {
            next((name for name in (each.name, each.name.rpartition(".")[0]) if name in names), "")
            for each in imports(module)
            if each.top == "gce" and not each.deferred
        }
        - {"", module.name}
        for module in modules()
    }
    assert circles({"a": {"b"}, "b": {"a"}})
    assert not circles(found)


def python(code: str, folder: Path) -> str:
    """What `code` prints in an interpreter of its own, started where nothing can be imported by accident."""
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_import_gce_loads_nothing_heavy(tmp_path: Path) -> None:
    print_loaded = "import sys; print(*{name.split('.')[0] for name in sys.modules})"
    bare = set(python(print_loaded, tmp_path).split())
    loaded = set(python(f"import gce; {print_loaded}", tmp_path).split())
    assert "gce" in loaded
    assert not (loaded - bare) & HEAVY


@pytest.mark.slow
def test_import_gce_costs_at_most_150_milliseconds_over_bare_python(tmp_path: Path) -> None:
    """The median of nine differences between neighbours in time: a busy machine slows both alike."""

    def seconds(code: str) -> float:
        began = time.perf_counter()
        python(code, tmp_path)
        return time.perf_counter() - began

    seconds("import gce")  # The first import may compile.
    costs = [seconds("import gce") - seconds("pass") for _ in range(9)]
    assert statistics.median(costs) <= 0.15, costs


@pytest.mark.slow
def test_all_but_adapters_and_testing_imports_with_the_core_alone(tmp_path: Path) -> None:
    extras = HEAVY - {"cattrs", "sqlite3"}  # These two are always there: the core's, and Python's own.
    names = [
        module.name
        for module in modules()
        if module.part not in ("adapters", "testing")
        and not module.name.startswith("gce.app.web")
        and not module.name.endswith("__main__")
    ]
    python(
        f"import sys, importlib\nfor vendor in {sorted(extras)}: sys.modules[vendor] = None\n"
        f"for name in {names}: importlib.import_module(name)",
        tmp_path,
    )


def test_a_test_without_the_marker_network_stays_on_this_machine() -> None:
    with socket.socket() as outside, pytest.raises(RuntimeError, match="mark it"):
        outside.connect(("192.0.2.1", 80))  # An address that belongs to nobody (RFC 5737).
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
        assert client.getpeername() == server.getsockname()
