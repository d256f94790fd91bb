"""Tokens a second of the shipped model in ONNX Runtime, with and without its cache: `python -m benchmarks.onnx_cache`.

For each length of the context, prints the rate of greedy decoding of one sequence right after so many tokens, the
median over rounds in which both take turns: with the cache each step reads one token, without it the whole sequence.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.onnx_export import export_llama
from gce.adapters.models.backends.onnx.files import examine_directory
from gce.adapters.models.backends.onnx.graph import DecoderGraph
from gce.adapters.models.backends.onnx.model import OnnxDecoder
from gce.app.wiring.models import shipped_model_path


def main() -> None:
    """Print one JSON object for each length."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--lengths", default="64,256,1024", help="tokens of context (default %(default)s)")
    parser.add_argument("--tokens", type=int, default=8, help="tokens decoded in each round (default %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="rounds (default %(default)s)")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = examine_directory(export_llama(shipped_model_path(), Path(folder))).graph
        graph = DecoderGraph(path, threads=1)
        for length in map(int, given.lengths.split(",")):
            context = tuple(2 + place % 1000 for place in range(length))
            (prefix,) = OnnxDecoder(graph, 1).prefill([context[:-1]])
            rates: dict[str, list[float]] = {"with_cache": [], "without_cache": []}
            for _ in range(given.rounds):
                found = [
                    _timed(rates["with_cache"], partial(_cached, graph, prefix, context[-1], given.tokens)),
                    _timed(rates["without_cache"], partial(_whole, graph, context, given.tokens)),
                ]
                assert found[0] == found[1], "the same tokens, with and without the cache"
            medians = {name: round(float(np.median(each)), 1) for name, each in rates.items()}
            ratio = round(float(np.median(np.divide(rates["with_cache"], rates["without_cache"]))), 1)
            print(json.dumps({"context": length, **medians, "ratio": ratio}), flush=True)


def _timed(rates: list[float], work: Callable[[], list[int]]) -> list[int]:
    begun = time.perf_counter()
    found = work()
    rates.append(len(found) / (time.perf_counter() - begun))
    return found


def _cached(graph: DecoderGraph, prefix: Any, token: int, count: int) -> list[int]:
    decoder, found = OnnxDecoder(graph, 1), [token]
    decoder.place(0, prefix)
    for _ in range(count):
        found.append(int(decoder.logits(np.array(found[-1:])).argmax()))
    return found[1:]


def _whole(graph: DecoderGraph, context: tuple[int, ...], count: int) -> list[int]:
    found: list[int] = []
    for _ in range(count):
        *_, (logits, _cache) = graph.read((*context, *found))
        found.append(int(logits[-1].argmax()))
    return found


if __name__ == "__main__":
    main()
