"""Updates and tokens per second of the learner on torch, by the number of its processes.

`python -m benchmarks.learner_processes MODEL --processes 1,2` uses as many GPUs, or the CPU. The batch consists
of random tokens: what is measured is time.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from gce.adapters.models.backends.torch.model import load_torch_model
from gce.adapters.models.local.lora import LoraSettings, OptimizerSettings
from gce.adapters.models.local.token_sequences import Example
from gce.domain.learning import Objective


def measure(arguments: argparse.Namespace, processes: int) -> tuple[float, float]:
    """Return updates and trained tokens per second; the first update, which starts the processes, is left out."""
    model = load_torch_model(
        arguments.model,
        lora=LoraSettings(layers=tuple(range(arguments.layers))),
        optimizer=OptimizerSettings(tokens_per_pass=arguments.tokens_per_pass),
        bf16=arguments.bf16,
        gradient_checkpointing=arguments.gradient_checkpointing,
        load_in_4bit=arguments.load_in_4bit,
        processes=processes,
    )
    engine, draw = model.engine, np.random.default_rng(0)
    rows = draw.integers(3, 40, (arguments.batch, arguments.length)).tolist()
    examples = [Example(tuple(row), 1, 1.0) for row in rows]
    engine.step(examples, Objective(), rate=1.0)
    began = time.perf_counter()
    for _ in range(arguments.updates):
        engine.step(examples, Objective(), rate=1.0)
    rate = arguments.updates / (time.perf_counter() - began)
    return rate, rate * sum(example.trained for example in examples)


def main() -> None:
    """Print one line for each number of processes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", help="directory or hub name of a model")
    parser.add_argument("--processes", default="1,2", help="numbers of processes")
    parser.add_argument("--updates", type=int, default=10)
    parser.add_argument("--batch", type=int, default=16, help="sequences of a batch")
    parser.add_argument("--length", type=int, default=256, help="tokens of a sequence")
    parser.add_argument("--layers", type=int, default=4, help="adapted blocks, from the input")
    parser.add_argument("--tokens-per-pass", type=int, default=1024)
    for switch in ("--bf16", "--gradient-checkpointing", "--load-in-4bit"):
        parser.add_argument(switch, action="store_true")
    arguments = parser.parse_args()
    for processes in map(int, arguments.processes.split(",")):
        updates, tokens = measure(arguments, processes)
        print(f"{processes} processes: {updates:.2f} updates/s, {tokens:,.0f} tokens/s", flush=True)


if __name__ == "__main__":
    main()
