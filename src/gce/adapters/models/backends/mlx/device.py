"""The device that mlx uses in this process, to explain slow runs. Independent of models."""

from __future__ import annotations

from collections.abc import Callable

from attrs import frozen

from gce.errors import MissingExtra

__all__ = ["Device", "default_device", "matrix_product"]


@frozen
class Device:
    """A device as mlx names it."""

    kind: str
    """`cpu` or `gpu`."""
    name: str
    """The vendor's name, or the architecture if mlx has no name."""


def default_device() -> Device:
    """Return mlx's default device.

    Raises:
        MissingExtra: mlx, or the library of its backend, is not installed.
    """
    try:
        import mlx.core as mx
    except ImportError as exc:
        raise MissingExtra("mlx", "mlx") from exc
    device = mx.default_device()
    facts = mx.device_info(device)
    kind = "gpu" if device == mx.gpu else "cpu"
    return Device(kind, str(facts.get("device_name") or facts.get("architecture") or "unnamed"))


def matrix_product(size: int) -> Callable[[], None]:
    """Return a function that multiplies two float32 matrices of `size` by `size` on the default device and waits.

    Raises:
        MissingExtra: as for `default_device`.
    """
    try:
        import mlx.core as mx
    except ImportError as exc:
        raise MissingExtra("mlx", "mlx") from exc
    left, right = (mx.random.normal((size, size), key=key) for key in mx.random.split(mx.random.key(0)))
    mx.eval(left, right)
    return lambda: mx.eval(left @ right)
