"""Takes the weights of a plain Llama out of mlx, for `NumpyLlama`. Knows which models are plain; runs none."""

from __future__ import annotations

from collections.abc import Iterable

import mlx.core as mx
import mlx.nn as nn
import numpy as np
from mlx_lm.models import llama

from gce.adapters.draws import Array
from gce.adapters.numpy_llama import BlockWeights, LlamaWeights

__all__ = ["llama_weights"]


def llama_weights(model: nn.Module) -> LlamaWeights | None:
    """The weights of a plain float32 Llama, as `NumpyLlama` takes them; None for any other model."""
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


def _block_weights(layer: nn.Module, size: int) -> BlockWeights:
    attention, mlp = layer.self_attn, layer.mlp
    mixed = _columns([attention.q_proj, attention.k_proj, attention.v_proj], layer.input_layernorm)
    mixed[:, : attention.n_heads * size] *= np.float32(size**-0.5)
    return BlockWeights(
        queries_keys_values=mixed,
        output=_columns([attention.o_proj]),
        gate_up=_columns([mlp.gate_proj, mlp.up_proj], layer.post_attention_layernorm),
        down=_columns([mlp.down_proj]),
    )


def _columns(linears: Iterable[nn.Module], norm: nn.Module | None = None) -> Array:
    """The linears side by side as one matrix of (inputs, outputs), with the weights of the norm before them."""
    matrix: Array = np.ascontiguousarray(np.concatenate([np.array(linear.weight) for linear in linears]).T)
    return matrix if norm is None else matrix * np.array(norm.weight)[:, None]
