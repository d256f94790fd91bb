"""The files of an ONNX export, examined before ONNX Runtime loads them."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from pathlib import Path
from typing import Any

from attrs import frozen

from gce.adapters.models.formats.model_files import directory_digest, read_settings
from gce.errors import MissingExtra, ModelError, one_line

try:
    import onnx
except ImportError as error:
    raise MissingExtra("onnx", "onnx") from error

__all__ = ["OnnxFiles", "examine_directory"]

_NOT_WEIGHTS = (onnx.TensorProto.INT64, onnx.TensorProto.BOOL)
"""Types of constants such as shapes and axes."""


@frozen
class OnnxFiles:
    """What the files of a directory say."""

    graph: Path
    digest: str
    """SHA-256 of config.json, model.onnx and its external data."""
    parameters: int
    context: int | None


def examine_directory(directory: Path) -> OnnxFiles:
    """Examine a directory that `optimum-cli export onnx --task text-generation-with-past` writes.

    Raises:
        ModelError: a file is missing, or is not what its name says, or lies outside the directory.
        BadInput: a file cannot be read.
    """
    for name in ("model.onnx", "config.json", "tokenizer.json"):
        if not (directory / name).is_file():
            raise ModelError(f"expected a directory with an ONNX export, found no {name} in {str(directory)!r}")
    graph = _inside(directory, "model.onnx")
    try:
        model = onnx.load(graph, load_external_data=False)
    except Exception as error:  # The vendor may raise anything for a damaged or foreign file.
        raise ModelError(f"{graph} is not an ONNX model: {one_line(error)}") from error
    named = {each.value for tensor in _tensors(model) for each in tensor.external_data if each.key == "location"}
    weights = {graph, *(_inside(directory, location) for location in named)}
    context = read_settings(directory / "config.json").get("max_position_embeddings")
    return OnnxFiles(
        graph=graph,
        digest=directory_digest(directory, weights),
        parameters=sum(prod(each.dims) for each in model.graph.initializer if each.data_type not in _NOT_WEIGHTS),
        context=context if isinstance(context, int) and context > 0 else None,
    )


def _inside(directory: Path, location: str) -> Path:
    """Return the path of a file; ModelError if it lies outside the directory, or is missing."""
    path = directory / location
    try:
        inside, there = path.resolve().is_relative_to(directory.resolve()), path.is_file()
    except (OSError, ValueError):  # No file can have this name.
        inside = there = False
    if not inside:
        raise ModelError(f"the ONNX model in {str(directory)!r} has data outside the directory: {location[:200]!r}")
    if not there:
        raise ModelError(f"the ONNX model in {str(directory)!r} lacks its external data: no file {location[:200]!r}")
    return path


def _tensors(message: Any) -> Iterator[Any]:
    """Yield all tensors of a model, also those of subgraphs, attributes and functions."""
    if isinstance(message, onnx.TensorProto):
        yield message
        return
    for field, value in message.ListFields():
        if field.message_type is not None:
            for part in (value,) if hasattr(value, "ListFields") else value:
                yield from _tensors(part)
