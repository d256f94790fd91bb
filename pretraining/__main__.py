"""Pretrains `gce-tiny`: `python -m pretraining train --directory DIR`, then `... install --directory DIR`.

`export` writes the weights of the last checkpoint into DIR, also while training goes on; `install` puts them into the
package and writes the card. `train --stop-at 0.25` stops after a quarter of the tokens, with a weak model in DIR.

Resumes from its own checkpoints to the same weights on the same machine. Needs the extra `pretrain` (torch,
transformers, tokenizers).
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from pretraining import INSTALLED, SEED, SHARDS
from pretraining.card import write_card
from pretraining.training import SHAPE, export, train


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(prog="python -m pretraining", description=__doc__)
    parser.add_argument("command", choices=("train", "export", "install"))
    parser.add_argument("--directory", type=Path, required=True, help="checkpoints, log and results")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--scale", type=float, default=1.0, help="share of the full number of tokens")
    parser.add_argument("--stop-at", type=float, default=1.0, help="stop after this share of the tokens: a weak model")
    parser.add_argument(
        "--processes", type=int, default=SHARDS, help="processes that share each batch; other weights for each number"
    )
    options = parser.parse_args()
    if options.command == "train":
        train(options.directory, options.seed, options.scale, options.processes, options.stop_at)
        return
    weights = torch.load(options.directory / "checkpoint.pt", weights_only=True)["model"]
    model = LlamaForCausalLM(LlamaConfig(**SHAPE, vocab_size=len(weights["model.embed_tokens.weight"])))
    model.load_state_dict(weights)
    export(options.directory, model)
    if options.command == "install":
        INSTALLED.mkdir(parents=True, exist_ok=True)
        for name in ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"):
            shutil.copyfile(options.directory / name, INSTALLED / name)
        write_card(INSTALLED, options.directory / "log.jsonl", options.seed, options.processes)


if __name__ == "__main__":
    main()
