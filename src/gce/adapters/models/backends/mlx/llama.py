"""Convert the weights of a plain Llama, and a LoRA adapter on it, from mlx to numpy. Runs no model."""

from __future__ import annotations

from collections.abc import Iterable

import mlx.core as mx
import mlx.nn as nn
import numpy as np
from mlx_lm.models import llama
from mlx_lm.tuner.lora import LoRALinear

from gce.adapters.models.backends.numpy.llama import BlockWeights, LlamaWeights, LowRank
from gce.adapters.models.local.token_sampling import Array

__all__ = ["llama_adapter", "llama_weights"]


def llama_weights(model: nn.Module) -> LlamaWeights | None:
    """Return the weights of a plain float32 Llama without adapter; None for any other model."""
    if type(model) is not llama.Model:
        return None
    arguments = model.args
    ropes = [layer.self_attn.rope for layer in model.layers]
    matrices = [module for _, module in model.named_modules() if hasattr(module, "weight")]
    if (
        any(layer.use_sliding for layer in model.layers)
        or any(type(rope) is not nn.RoPE or rope.traditional or rope.scale != 1 for rope in ropes)
        or any(type(module) not in (nn.Linear, nn.Embedding, nn.RMSNorm) for module in matrices)
        or any(module.weight.dtype != mx.float32 or "bias" in module for module in matrices)
    ):
        return None
    inner = model.model
    attention = inner.layers[0].self_attn
    embedding = np.array(inner.embed_tokens.weight)
    head = inner.embed_tokens if arguments.tie_word_embeddings else model.lm_head
    return LlamaWeights(
        embedding=embedding,
        blocks=tuple(_block_weights(layer, attention.head_dim) for layer in model.layers),
        head=_columns([head], inner.norm),
        heads=attention.n_heads,
        kv_heads=attention.k_proj.weight.shape[0] // attention.head_dim,
        head_size=attention.head_dim,
        epsilon=arguments.rms_norm_eps,
        rope_base=arguments.rope_theta,
    )


def llama_adapter(model: nn.Module) -> tuple[LowRank, ...]:
    """Return the adapter on a model that `llama_weights` supports, named by the full paths of its layers."""
    paths = {id(module): path for path, module in model.named_modules()}
    return tuple(part for block, layer in enumerate(model.model.layers) for part in _low_ranks(block, layer, paths))


def _low_ranks(block: int, layer: nn.Module, paths: dict[int, str]) -> list[LowRank]:
    found = []
    for matrix, (linears, norm) in _sides(layer).items():
        inputs = None if norm is None else np.array(norm.weight)
        start = 0
        for linear in linears:
            adapted = isinstance(linear, LoRALinear)
            columns = slice(start, start + (linear.linear if adapted else linear).weight.shape[0])
            start = columns.stop
            if adapted:
                # The attention scale is folded into the columns that make queries.
                factor = layer.self_attn.scale if linear is layer.self_attn.q_proj else 1.0
                a, b = np.array(linear.lora_a), np.array(linear.lora_b)
                found.append(LowRank(paths[id(linear)], block, matrix, columns, a, b, linear.scale * factor, inputs))
    return found


def _block_weights(layer: nn.Module, size: int) -> BlockWeights:
    weights = BlockWeights(**{matrix: _columns(linears, norm) for matrix, (linears, norm) in _sides(layer).items()})
    weights.queries_keys_values[:, : layer.self_attn.n_heads * size] *= np.float32(size**-0.5)
    return weights


def _sides(layer: nn.Module) -> dict[str, tuple[tuple[nn.Module, ...], nn.Module | None]]:
    """Return, for each matrix of `BlockWeights`, the linears concatenated in it and the norm before them."""
    attention, mlp = layer.self_attn, layer.mlp
    return {
        "queries_keys_values": ((attention.q_proj, attention.k_proj, attention.v_proj), layer.input_layernorm),
        "output": ((attention.o_proj,), None),
        "gate_up": ((mlp.gate_proj, mlp.up_proj), layer.post_attention_layernorm),
        "down": ((mlp.down_proj,), None),
    }


def _columns(linears: Iterable[nn.Module], norm: nn.Module | None = None) -> Array:
    """Concatenate linears into one matrix of (inputs, outputs), with the weights of the preceding norm folded in."""
    matrix: Array = np.ascontiguousarray(np.concatenate([np.array(linear.weight) for linear in linears]).T)
    return matrix if norm is None else matrix * np.array(norm.weight)[:, None]
