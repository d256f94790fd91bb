"""A model's config.json as mlx-lm has to be told it, so that mlx-lm computes what transformers computes.

mlx-lm reads the names of older versions of transformers and ignores settings that it does not know: the model loads and
is wrong. So transformers reads the file, and what it understood is passed on by the names that mlx-lm reads. A setting
is passed on only where a comparison with transformers has shown that mlx-lm follows it (`attacks/model_families.py`
makes the table); any other setting must have its default value.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from attrs import field, frozen
from transformers import AutoConfig

from gce.errors import ModelError, one_line

__all__ = ["Family", "MlxConfig", "differences", "families", "mlx_arguments", "read_config"]

ROPE_KEYS: Mapping[str, frozenset[str]] = {
    "default": frozenset(),
    "linear": frozenset({"factor"}),
    "llama3": frozenset({"factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"}),
    "yarn": frozenset({"factor", "beta_fast", "beta_slow", "original_max_position_embeddings"}),
}
"""Settings of each type of RoPE scaling that mlx-lm computes as transformers does."""
WINDOWED = ("sliding_window", "use_sliding_window", "max_window_layers", "layer_types")
"""Settings that change nothing in texts within the sliding window."""


@frozen
class Family:
    """What was compared with transformers for one `model_type`."""

    follows: frozenset[str] = field(converter=frozenset)
    """Settings that mlx-lm follows as transformers does, or that change nothing in either."""
    rope_types: tuple[str, ...] = field(converter=tuple, default=())
    window: bool = True
    """Whether mlx-lm applies the sliding window; if not, texts must fit in it."""


@frozen
class MlxConfig:
    """What mlx-lm is told of a model."""

    arguments: Mapping[str, Any]
    context: int | None
    """Maximum tokens of prompt and completion together; None if the file does not say."""
    note: str = ""


@cache
def families() -> Mapping[str, Family]:
    """The families of models that were compared, by `model_type`."""
    table = json.loads((resources.files("gce") / "data" / "mlx_families.json").read_text(encoding="utf-8"))
    common = table.pop("common")
    return {name: Family(**{**row, "follows": [*common, *row["follows"]]}) for name, row in table.items()}


def read_config(directory: Path) -> MlxConfig:
    """Read the config.json of a directory.

    Raises:
        ModelError: transformers does not know the model, or mlx-lm may compute something else; the message names the
            setting.
    """
    try:
        kind = json.loads((directory / "config.json").read_bytes())["model_type"]
        if (family := families().get(kind)) is None:
            raise _not_compared(directory, "model_type", kind, f"with {', '.join(sorted(families()))}")
        config = AutoConfig.from_pretrained(directory)
        for name, value, expected in differences(config, family):
            raise _not_compared(directory, name, value, f"in models of type {kind} with {expected!r}")
    except ModelError:
        raise
    except Exception as error:  # The vendor may raise anything for a damaged or foreign file.
        raise ModelError(f"could not load a model from {str(directory)!r}: config.json: {one_line(error)}") from error
    context, window = getattr(config, "max_position_embeddings", None), _window(config)
    if family.window or window is None or (context is not None and context <= window):
        return MlxConfig(mlx_arguments(config), context)
    note = f"its context is the sliding window of {window:,} tokens, beyond which mlx-lm would attend to all"
    return MlxConfig(mlx_arguments(config), window, note)


def mlx_arguments(config: Any) -> dict[str, Any]:
    """Return the settings that transformers read, by their names and by those that mlx-lm knows them by."""
    known = type(config)().to_dict()  # Settings that transformers ignores are not passed on.
    found: dict[str, Any] = {name: value for name, value in config.to_dict().items() if name in known}
    for name, stored in config.attribute_map.items():
        found.setdefault(name, found.get(stored))
        found.setdefault(stored, found.get(name))
    if "hidden_size" in found and found.get("num_attention_heads"):
        found.setdefault("head_dim", found["hidden_size"] // found["num_attention_heads"])
    rope = found.get("rope_parameters") or {}
    by_layer = {kind: value for kind, value in rope.items() if isinstance(value, dict)}
    if by_layer:
        rope = by_layer.get("full_attention", rope)
        found["rope_local_base_freq"] = by_layer.get("sliding_attention", rope).get("rope_theta")
    if rope:
        scaled = {name: value for name, value in rope.items() if name not in ("rope_theta", "partial_rotary_factor")}
        found["rope_theta"] = rope.get("rope_theta")
        found["rope_scaling"] = None if rope.get("rope_type", "default") == "default" else scaled
        if "partial_rotary_factor" in rope:
            found["partial_rotary_factor"] = rope["partial_rotary_factor"]
    return found


def differences(config: Any, family: Family) -> Iterator[tuple[str, Any, Any]]:
    """Yield name, value and expected value of each setting that mlx-lm may not follow."""
    values = config.to_dict()
    free = family.follows if family.window else family.follows | set(WINDOWED)
    default = type(config)(**{name: value for name, value in values.items() if name in free}).to_dict()
    # What mlx-lm assumes where it does not follow the setting.
    assumed = {"head_dim": values.get("hidden_size", 0) // (values.get("num_attention_heads") or 1)}
    for name, value in values.items():
        if name == "rope_parameters":
            yield from _rope_differences(value or {}, default.get(name) or {}, family)
        elif name not in free and name in (*default, *assumed) and value not in (default.get(name), assumed.get(name)):
            yield name, value, default.get(name)


def _rope_differences(
    rope: Mapping[str, Any], default: Mapping[str, Any], family: Family
) -> Iterator[tuple[str, Any, Any]]:
    by_layer = {layers: value for layers, value in rope.items() if isinstance(value, dict)}
    for layers, values in by_layer.items() or [("", rope)]:
        expected = default.get(layers) or {} if layers else default
        path, start = ("rope_parameters" + f".{layers}" * bool(layers), f"{layers}:" if layers else "")
        rope_type = values.get("rope_type", "default")
        if start + rope_type not in family.rope_types:
            known = [name.removeprefix(start) for name in family.rope_types if name.startswith(start)]
            yield f"{path}.rope_type", rope_type, " or ".join(known)
        read = {"rope_type", "type", "rope_theta", *ROPE_KEYS.get(rope_type, ())}
        if rope_type == "default" and "rope_parameters.partial_rotary_factor" in family.follows:
            read.add("partial_rotary_factor")
        for name, value in values.items():
            if name not in read and value != expected.get(name):
                yield f"{path}.{name}", value, expected.get(name)


def _window(config: Any) -> int | None:
    """Return the sliding window that transformers applies in some layer; None if there is none."""
    window: int | None = getattr(config, "sliding_window", None)
    kinds = getattr(config, "layer_types", None)
    slides = kinds is None or "sliding_attention" in kinds
    return window if slides and getattr(config, "use_sliding_window", True) else None


def _not_compared(directory: Path, name: str, value: Any, compared: str) -> ModelError:
    return ModelError(
        f"{directory / 'config.json'} has {name} = {value!r}, and mlx-lm was compared with transformers only "
        f"{compared}",
        hint="give hf:NAME, which is computed by transformers (pip install '.[hf]')",
    )
