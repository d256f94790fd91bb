"""A Llama in the Hugging Face layout as an ONNX decoder with the inputs and outputs that optimum exports, in float32.

    export_llama(shipped_model_path(), Path("exported"))

The graph is written node by node: this takes no torch, and computes what the model computes.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from safetensors.numpy import load_file


def export_llama(source: Path, target: Path, *, external: bool = False) -> Path:
    """Write model.onnx and the other files of an export; with `external`, the weights stand in model.onnx_data."""
    target.mkdir(parents=True, exist_ok=True)
    config = json.loads((source / "config.json").read_text())
    model = llama_graph(config, load_file(source / "model.safetensors"))
    options: dict[str, Any] = {"save_as_external_data": True, "location": "model.onnx_data"} if external else {}
    onnx.save(model, target / "model.onnx", **options)
    for name in ("config.json", "tokenizer.json", "tokenizer_config.json"):
        shutil.copyfile(source / name, target / name)
    (target / "generation_config.json").write_text(json.dumps({"eos_token_id": config["eos_token_id"]}))
    return target


def llama_graph(config: dict[str, Any], weights: dict[str, Any]) -> onnx.ModelProto:
    """Return the decoder as a model."""
    heads, groups = config["num_attention_heads"], config["num_key_value_heads"]
    size = config.get("head_dim") or config["hidden_size"] // heads
    blocks, hidden = config["num_hidden_layers"], heads * size
    graph = _Nodes()
    embedding = np.asarray(weights["model.embed_tokens.weight"], np.float32)

    def weight(name: str) -> Any:
        return np.asarray(weights[name], np.float32)

    def normal(x: str, name: str) -> str:
        mean = graph("ReduceMean", graph("Mul", x, x), np.array([-1]))
        root = graph("Sqrt", graph("Add", mean, np.float32(config["rms_norm_eps"])))
        return graph("Mul", graph("Div", x, root), weight(name))

    def linear(x: str, name: str) -> str:
        return graph("MatMul", x, weight(name).T)

    def split(x: str, count: int) -> str:
        return graph("Transpose", graph("Reshape", x, np.array([0, 0, count, size])), perm=[0, 2, 1, 3])

    def turned(x: str) -> str:
        first, second = (
            graph("Slice", x, np.array([start]), np.array([start + size // 2]), np.array([3]))
            for start in (0, size // 2)
        )
        other = graph("Concat", graph("Neg", second), first, axis=3)
        return graph("Add", graph("Mul", x, cosine), graph("Mul", other, sine))

    frequencies = config["rope_theta"] ** -(np.arange(0, size, 2, dtype=np.float32) / size)
    places = graph("Cast", graph("Unsqueeze", "position_ids", np.array([1, 3])), to=TensorProto.FLOAT)
    half = graph("Mul", places, frequencies.astype(np.float32))
    angles = graph("Concat", half, half, axis=3)
    cosine, sine = graph("Cos", angles), graph("Sin", angles)

    total = graph("Shape", "attention_mask", start=1, end=2)
    width = graph("Shape", "input_ids", start=1, end=2)
    columns = graph("Range", np.array(0), graph("Squeeze", total), np.array(1))
    before = graph("Squeeze", graph("Sub", total, width))
    own = graph("Add", graph("Range", np.array(0), graph("Squeeze", width), np.array(1)), before)
    earlier = graph("LessOrEqual", columns, graph("Unsqueeze", own, np.array([1])))
    held = graph("Cast", graph("Unsqueeze", "attention_mask", np.array([1, 2])), to=TensorProto.BOOL)
    bias = graph("Where", graph("And", held, earlier), np.float32(0), np.float32(-1e30))
    bias = graph("Unsqueeze", bias, np.array([1]))

    x = graph("Gather", embedding, "input_ids")
    for block in range(blocks):
        at = f"model.layers.{block}"
        near = normal(x, f"{at}.input_layernorm.weight")
        query, key = (
            turned(split(linear(near, f"{at}.self_attn.{name}_proj.weight"), count))
            for name, count in (("q", heads), ("k", groups))
        )
        value = split(linear(near, f"{at}.self_attn.v_proj.weight"), groups)
        key, value = (
            graph("Concat", f"past_key_values.{block}.{part}", new, axis=2, output=f"present.{block}.{part}")
            for part, new in (("key", key), ("value", value))
        )
        # The heads of a group share its keys and values.
        query = graph("Reshape", query, np.array([0, groups, heads // groups, -1, size]))
        apart = graph("Transpose", graph("Unsqueeze", key, np.array([2])), perm=[0, 1, 2, 4, 3])
        scores = graph("Mul", graph("MatMul", query, apart), np.float32(size**-0.5))
        shares = graph("Softmax", graph("Add", scores, bias), axis=-1)
        seen = graph("MatMul", shares, graph("Unsqueeze", value, np.array([2])))
        seen = graph("Transpose", graph("Reshape", seen, np.array([0, heads, -1, size])), perm=[0, 2, 1, 3])
        seen = graph("Reshape", seen, np.array([0, 0, hidden]))
        x = graph("Add", x, linear(seen, f"{at}.self_attn.o_proj.weight"))
        near = normal(x, f"{at}.post_attention_layernorm.weight")
        gate, up = (linear(near, f"{at}.mlp.{name}_proj.weight") for name in ("gate", "up"))
        gated = graph("Mul", graph("Mul", gate, graph("Sigmoid", gate)), up)
        x = graph("Add", x, linear(gated, f"{at}.mlp.down_proj.weight"))
    head = embedding if config.get("tie_word_embeddings") else weight("lm_head.weight")
    graph("MatMul", normal(x, "model.norm.weight"), head.T, output="logits")
    return graph.model(blocks, groups, size, len(head))


class _Nodes:
    """The nodes of a graph and its constants; a call adds a node and returns the name of its output."""

    def __init__(self) -> None:
        self._nodes: list[onnx.NodeProto] = []
        self._constants: list[onnx.TensorProto] = []

    def __call__(self, kind: str, *inputs: Any, output: str = "", **attributes: Any) -> str:
        names = [each if isinstance(each, str) else self._constant(each) for each in inputs]
        output = output or f"n{len(self._nodes)}"
        self._nodes.append(helper.make_node(kind, names, [output], **attributes))
        return output

    def _constant(self, value: Any) -> str:
        name = f"c{len(self._constants)}"
        self._constants.append(numpy_helper.from_array(np.ascontiguousarray(value).reshape(np.shape(value)), name))
        return name

    def model(self, blocks: int, groups: int, size: int, words: int) -> onnx.ModelProto:
        """Return a model whose inputs and outputs have the names of optimum."""

        def of(kind: int, name: str, *shape: Any) -> onnx.ValueInfoProto:
            return helper.make_tensor_value_info(name, kind, list(shape))

        past, total = "past_sequence_length", "past_sequence_length + sequence_length"
        whole = [of(TensorProto.INT64, name, "batch_size", "sequence_length") for name in ("input_ids", "position_ids")]
        whole.insert(1, of(TensorProto.INT64, "attention_mask", "batch_size", total))
        parts = [f"{block}.{part}" for block in range(blocks) for part in ("key", "value")]
        cache, longer = (
            [of(TensorProto.FLOAT, f"{name}.{part}", "batch_size", groups, columns, size) for part in parts]
            for name, columns in (("past_key_values", past), ("present", total))
        )
        logits = of(TensorProto.FLOAT, "logits", "batch_size", "sequence_length", words)
        graph = helper.make_graph(self._nodes, "llama", [*whole, *cache], [logits, *longer], self._constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
