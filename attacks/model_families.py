"""Find out which settings of which families of models mlx-lm follows as transformers does.

For each family that both know, a tiny random model is saved by transformers and computed by both. Then each setting of
its config.json is varied alone, and some settings together. mlx-lm follows a setting if both agree on all
log-probabilities although they differ from those before, or if the setting changes nothing in transformers. The result
is the table that `gce.adapters.models.backends.mlx.config` reads: a setting that it does not name must have its default
value.

    python -m attacks.model_families                 # write the table: 20 minutes on a core
    python -m attacks.model_families llama qwen2     # write the rows of some families
"""

from __future__ import annotations

import importlib.util
import json
import random
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import torch
from mlx_lm.utils import MODEL_REMAPPING
from transformers import AutoConfig, AutoModelForCausalLM
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

from gce.adapters.models.backends.mlx.config import ROPE_KEYS, WINDOWED, Family, differences, mlx_arguments
from gce.adapters.models.backends.mlx.files import load_weights
from gce.errors import one_line

__all__ = ["COMMON", "TOLERANCE", "measured", "save_random", "tiny_config", "transformers_scores", "variations"]

HUGE = ("longcat_flash", "kimi_linear", "minimax", "minimax_m2", "mimo_v2_flash", "recurrent_gemma")
"""Families whose default sizes this script does not make small."""
TABLE = Path("src/gce/data/mlx_families.json")
TOLERANCE, ROUNDING = 1e-3, 10
"""Maximum difference of log-probabilities: in nats, or in multiples of transformers' error in single precision."""
WINDOW, SHORT, LONG = 24, 20, 90
"""Tokens of the sliding window, and of texts within and beyond it."""
SIZES: Mapping[str, Any] = {
    **{"vocab_size": 320, "hidden_size": 64, "num_hidden_layers": 4, "intermediate_size": 96},
    **{"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "max_position_embeddings": 512},
    **{"n_embd": 64, "n_layer": 4, "n_head": 4, "n_positions": 512, "n_inner": 96, "rotary_dim": 8},
    **{"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0, "sliding_window": WINDOW},
    **{"num_experts": 4, "num_local_experts": 4, "n_routed_experts": 4, "num_experts_per_tok": 2},
    **{"moe_num_experts": 4, "moe_k": 2, "moe_intermediate_size": 32, "shared_expert_intermediate_size": 32},
    **{"use_sliding_window": True, "max_window_layers": 1},
    **{"n_group": 1, "topk_group": 1, "first_k_dense_replace": 1, "query_pre_attn_scalar": 16},
    **{"hidden_size_per_layer_input": 16, "vocab_size_per_layer_input": 320, "num_kv_shared_layers": 0},
    **{"q_lora_rank": 16, "kv_lora_rank": 16, "qk_nope_head_dim": 16, "qk_rope_head_dim": 16, "v_head_dim": 16},
    **{"linear_num_value_heads": 2, "linear_num_key_heads": 2, "linear_key_head_dim": 16, "linear_value_head_dim": 16},
    **{"mamba_n_heads": 8, "mamba_d_head": 16, "mamba_n_groups": 1, "mamba_d_state": 8, "mamba_d_ssm": 128},
}
"""What makes a model tiny; each is a setting of some families."""
COMMON = (
    *("vocab_size", "hidden_size", "num_hidden_layers", "intermediate_size", "num_attention_heads"),
    *("max_position_embeddings", "bos_token_id", "eos_token_id", "pad_token_id"),
    *("sep_token_id", "decoder_start_token_id", "tokenizer_class", "quantization", "quantization_config"),
    *("architectures", "dtype", "torch_dtype", "id2label", "label2id", "initializer_range", "model_type"),
    *("transformers_version", "use_cache", "_name_or_path", "name_or_path"),
)
"""Settings that every family follows, and those that change no log-probability."""


LATENT = {"num_key_value_heads": 4, "head_dim": 16, "num_experts_per_tok": 2, "n_shared_experts": 1}
FAMILY_SIZES: Mapping[str, Mapping[str, Any]] = {
    "gemma3_text": {"num_hidden_layers": 7},
    **dict.fromkeys(("deepseek_v2", "deepseek_v3", "deepseek_v32", "glm4_moe_lite", "minicpm3"), LATENT),
    "dots1": {"n_shared_experts": 1},
}


OTHER_HEADS: Mapping[str, list[Any]] = {"head_dim": [32], "num_key_value_heads": [1, 4]}
ROPES: Mapping[str, Mapping[str, Any]] = {
    "default": {},
    "linear": {"factor": 3.0},
    "llama3": {
        **{"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0},
        "original_max_position_embeddings": 32,
    },
    "yarn": {"factor": 4.0, "original_max_position_embeddings": 32, "beta_fast": 16.0, "beta_slow": 2.0},
}


def tiny_config(family: str, **changed: Any) -> Any:
    """Return the configuration of a tiny model, with these settings changed."""
    known = AutoConfig.for_model(family).to_dict()
    sizes = {name: size for name, size in SIZES.items() if name in known} | dict(FAMILY_SIZES.get(family, {}))
    return AutoConfig.for_model(family, **sizes | changed)


def save_random(config: Any, directory: Path, *, seed: int = 3) -> Any:
    """Save a random model of this configuration, and return it; biases and norms are random too."""
    torch.manual_seed(seed)
    model = AutoModelForCausalLM.from_config(config).float().eval()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            spread = 0.2 if parameter.ndim > 1 else 0.1
            parameter.add_(spread * torch.randn(parameter.shape, generator=generator))
    model.save_pretrained(directory)
    return model


def transformers_scores(model: Any, tokens: Sequence[int]) -> np.ndarray:
    """Return transformers' log-probabilities, (tokens, vocabulary)."""
    with torch.no_grad():
        logits = model(torch.tensor([list(tokens)]), use_cache=False).logits[0]
    scores: np.ndarray = logits.log_softmax(-1).numpy()
    return scores


def mlx_scores(directory: Path, arguments: Mapping[str, Any], tokens: Sequence[int]) -> np.ndarray:
    """Return mlx-lm's log-probabilities with these settings, (tokens, vocabulary)."""
    model = load_weights(directory, arguments)[0]
    model.set_dtype(mx.float32)
    logits = model(mx.array([list(tokens)]))[0].astype(mx.float32)
    return np.array(logits - mx.logsumexp(logits, axis=-1, keepdims=True))


def candidates(name: str, value: Any) -> list[Any]:
    """Return other values of a setting."""
    if name in OTHER_HEADS:
        return OTHER_HEADS[name]
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        return [16, 2 * value, value + 1]
    if isinstance(value, float):
        return [1.5 * value + 0.1, 0.4 * value]
    if isinstance(value, str):
        return ["relu", "gelu", "silu", "gelu_pytorch_tanh"] if "act" in name else []
    if name == "layer_types" and value:
        return [value[::-1], [("sliding_attention", "full_attention")[place % 2] for place in range(len(value))]]
    return [2.0, 16, True] if value is None else []


def variations(config: Any, skipped: Sequence[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the names of settings with changes that vary each alone."""
    for name, value in config.to_dict().items():
        if name not in skipped and name != "rope_parameters":
            for other in candidates(name, value):
                if other != value:
                    yield name, {name: other}
    rope = config.to_dict().get("rope_parameters") or {}
    by_layer = {kind: value for kind, value in rope.items() if isinstance(value, dict)}
    for kind in ROPE_KEYS if rope else ():
        changed = {"rope_type": kind, "rope_theta": 500.0, **ROPES[kind]}
        if not by_layer:
            yield f"rope:{kind}", {"rope_parameters": {**rope, **changed}}
        for layers in by_layer:
            yield f"rope:{layers}:{kind}", {"rope_parameters": {**rope, layers: {**by_layer[layers], **changed}}}
    for share in (0.25, 0.5) if rope and not by_layer else ():
        yield "rope_parameters.partial_rotary_factor", {"rope_parameters": {**rope, "partial_rotary_factor": share}}


class CannotTell(Exception):
    """transformers does not take a configuration, or the change is too small to see."""


class Comparison:
    """A tiny model of a family, computed by both libraries with changed settings."""

    def __init__(self, family: str) -> None:
        self.family = family
        self.tokens = np.random.default_rng(0).integers(3, 300, LONG).tolist()
        self.expected, scores, _ = self.computed({})
        difference = np.abs(self.expected - scores).max(axis=-1)
        self.short, self.long = float(difference[:SHORT].max()), float(difference.max())
        self.compared = slice(None) if self.long <= TOLERANCE else slice(SHORT)

    def computed(self, changed: Mapping[str, Any]) -> tuple[np.ndarray, np.ndarray, Callable[[], float]]:
        """Return the log-probabilities of transformers and of mlx-lm, and what computes transformers' rounding error.

        Raises:
            CannotTell: transformers refuses these settings.
        """
        with tempfile.TemporaryDirectory() as folder:
            try:
                model = save_random(tiny_config(self.family, **changed), Path(folder))
                expected = transformers_scores(model, self.tokens)
            except Exception as error:
                raise CannotTell(one_line(error)) from error
            scores = mlx_scores(Path(folder), mlx_arguments(AutoConfig.from_pretrained(folder)), self.tokens)

        def rounding() -> float:
            with suppress(RuntimeError):  # Some kernels are for single precision only.
                return float(np.abs(expected - transformers_scores(model.double(), self.tokens)).max())
            return 0.0

        return expected, scores, rounding

    def agrees(self, changed: Mapping[str, Any]) -> bool | None:
        """Return whether both compute the same; None if the change has no effect in transformers."""
        try:
            expected, scores, rounding = self.computed(changed)
        except CannotTell:
            raise
        except Exception:  # mlx-lm may raise anything for settings that it does not read.
            return False
        effect = np.abs(expected - self.expected)[self.compared].max()
        if not effect:
            return None
        difference = np.abs(expected - scores)[self.compared].max()
        same = bool(difference <= TOLERANCE or difference <= ROUNDING * rounding())
        if same and effect < 10 * TOLERANCE:
            raise CannotTell("too small an effect")
        return same


def measured(family: str, say: Callable[[str], None] = lambda _: None) -> dict[str, Any] | None:
    """Return the row of the table; None if mlx-lm computes something else with the settings of the tiny model."""
    comparison = Comparison(family)
    say(f"{family}: {comparison.short:.2g} nats within {SHORT} tokens, {comparison.long:.2g} within {LONG}")
    if comparison.short > TOLERANCE:
        return None
    window = comparison.long <= TOLERANCE
    changes = list(variations(tiny_config(family), (*COMMON, *(() if window else WINDOWED))))
    verdicts: dict[str, list[bool | None]] = {name: [] for name, _ in changes}
    for name, changed in changes:
        with suppress(CannotTell):
            verdicts[name].append(comparison.agrees(changed))
    follows = {name for name, seen in verdicts.items() if seen and False not in seen}
    draw = random.Random(0)
    for _ in range(40):
        chosen = {name: changed for name, changed in changes if name in follows and draw.random() < 0.4}
        with suppress(CannotTell):
            if chosen and comparison.agrees(_joined(chosen)) is False:
                # Settings without an effect of their own are suspected first.
                smallest = _smallest(comparison, chosen, sorted(chosen, key=lambda name: True not in verdicts[name]))
                say(f"{family}: not together: {', '.join(smallest)}")
                follows.discard(min(smallest, key=lambda name: True in verdicts[name]))
    say(f"{family}: does not follow {', '.join(sorted(verdicts.keys() - follows)) or 'nothing'}")
    row: dict[str, Any] = {
        "follows": sorted(name for name in follows if not name.startswith("rope:")),
        "rope_types": sorted(name.removeprefix("rope:") for name in follows if name.startswith("rope:")),
        **({} if window else {"window": False}),
    }
    compared = Family(**{**row, "follows": [*COMMON, *row["follows"]]})
    return None if list(differences(tiny_config(family), compared)) else row


def _smallest(comparison: Comparison, changes: Mapping[str, Any], order: Sequence[str]) -> Mapping[str, Any]:
    """Return as few of the changes as still make a difference, leaving out the first of `order` first."""
    for name in order:
        fewer = {other: changed for other, changed in changes.items() if other != name}
        with suppress(CannotTell):
            if fewer and comparison.agrees(_joined(fewer)) is False:
                changes = fewer
    return changes


def _joined(changes: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    return {name: value for changed in changes.values() for name, value in changed.items()}


def main(names: Sequence[str]) -> None:
    """Measure these families, or all that both libraries know, and write the table."""
    known = [
        name
        for name in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
        if name not in HUGE and importlib.util.find_spec(f"mlx_lm.models.{MODEL_REMAPPING.get(name, name)}")
    ]
    table: dict[str, Any] = json.loads(TABLE.read_text(encoding="utf-8")) if names else {}
    table["common"] = list(COMMON)
    for name in names or known:
        table.pop(name, None)
        try:
            if "text_config" in AutoConfig.for_model(name).to_dict():
                print(f"{name}: not measured, as it reads more than text")
                continue
            row = measured(name, say=lambda text: print(text, flush=True))
        except (Exception, SystemExit) as error:
            print(f"{name}: not measured: {type(error).__name__}: {one_line(error)}", flush=True)
            continue
        table |= {} if row is None else {name: row}
        write(table)


def write(table: Mapping[str, Any]) -> None:
    """Write the table, a line for each family."""
    rows = (f"{json.dumps(name)}: {json.dumps(row)}" for name, row in sorted(table.items()))
    TABLE.write_text("{\n" + ",\n".join(rows) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    mx.set_default_device(mx.cpu)
    mx.disable_compile()
    torch.set_num_threads(1)
    main(sys.argv[1:])
