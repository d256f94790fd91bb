"""Pretrains `gce-tiny`: `python -m pretraining train --directory DIR`, then `... install --directory DIR`.

`export` writes the weights of the last checkpoint into DIR, also while training goes on; `install` puts them into the
package and writes the card. `train --stop-at 0.25` stops after a quarter of the tokens, with a weak model in DIR.

Resumes from its own checkpoints to the same weights on the same machine: example i of a stage depends on (seed, stage,
i) alone. Needs the extra `pretrain` (torch, transformers, tokenizers).
"""

from __future__ import annotations

import argparse
import json
import math
import re
import shutil
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from attrs import evolve
from transformers import LlamaConfig, LlamaForCausalLM

from pretraining.card import write_card
from pretraining.corpus import STAGES, Conversation, Stage, conversation, texts_for_tokens
from pretraining.start import give_look_ups, order_numbers
from pretraining.tokenizer import VOCABULARY, train_tokenizer, write_tokenizer

SHAPE = {
    "hidden_size": 128,
    "num_hidden_layers": 5,
    "intermediate_size": 384,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "head_dim": 32,
    "max_position_embeddings": 4096,
    "rms_norm_eps": 1e-5,
    "tie_word_embeddings": True,
    "initializer_range": 0.08,
    "rope_theta": 1000000.0,
}
PEAK_RATE = 1.5e-3
LAST_RATE = 1e-4
WARM_UP_STEPS = 100
INSTALLED = Path(__file__).parent.parent / "src" / "gce" / "data" / "gce-tiny"
READ_WEIGHT = 0.2
"""Weight in the loss of tokens that the user wrote; what the assistant writes weighs 1."""
READ_EVERY = 4
"""One in so many of the tokens that the user wrote is predicted at all."""
POOL = 512
"""Examples sorted by length together, so that batches are of even length."""


class Encoder:
    """Conversations to token ids, with the loss weight of each."""

    def __init__(self, tokenizer: Any) -> None:
        """Look the special tokens up."""
        self.tokenizer = tokenizer
        self.end = tokenizer.token_to_id("<|end|>")
        self.roles = {role: tokenizer.token_to_id(f"<|{role}|>") for role in ("user", "assistant")}

    def __call__(self, turns: Conversation) -> tuple[list[int], list[float]]:
        """Ids and weights, of even length."""
        ids: list[int] = []
        weights: list[float] = []
        for turn in turns:
            body = [*self.tokenizer.encode(turn.content).ids, self.end]
            ids += [self.roles[turn.role], *body]
            weight = 1.0 if turn.role == "assistant" else READ_WEIGHT
            weights += [0.0, *(weight if weight == 1.0 or at % READ_EVERY == 0 else 0.0 for at in range(len(body)))]
        return ids, weights


def batches(stage: Stage, encode: Encoder, seed: int, start: int) -> Iterator[tuple[np.ndarray, np.ndarray, int]]:
    """Padded ids and weights [rows, length], and the index of the pool they come from; endless."""
    pool = start
    while True:
        examples = [encode(conversation(stage, seed, pool * POOL + index)) for index in range(POOL)]
        examples.sort(key=lambda example: len(example[0]))
        groups: list[list[tuple[list[int], list[float]]]] = [[]]
        for example in examples:
            if groups[-1] and len(example[0]) * (len(groups[-1]) + 1) > stage.batch:
                groups.append([])
            groups[-1].append(example)
        for order in np.random.default_rng([seed, pool]).permutation(len(groups)):
            group = groups[order]
            length = max(len(ids) for ids, _ in group)
            ids = np.zeros((len(group), length), dtype=np.int64)
            weights = np.zeros((len(group), length), dtype=np.float32)
            for row, (some_ids, some_weights) in enumerate(group):
                ids[row, : len(some_ids)] = some_ids
                weights[row, : len(some_weights)] = some_weights
            yield ids, weights, pool
        pool += 1


def rate(tokens: int, total: int, step: int) -> float:
    """Learning rate: warm-up, then half a cosine."""
    share = min(1.0, tokens / total)
    cosine = LAST_RATE + (PEAK_RATE - LAST_RATE) * 0.5 * (1 + math.cos(math.pi * share))
    return cosine * min(1.0, (step + 1) / WARM_UP_STEPS)


class StepAccuracy:
    """Share of tokens predicted right, by the keyword they follow in a line of reasoning, on careful traces."""

    def __init__(self, encode: Encoder, seed: int, examples: int = 96) -> None:
        """Draw the traces."""
        stage = evolve(STAGES[2], name="held-out", care=(1.0, 1.0), drills=0.0, other_formats=0.0)
        self.rows = [encode(conversation(stage, seed, index)) for index in range(examples)]
        words: tuple[str, ...] = ("Order", "Free", "Job", " takes", " needs", " after", ";", " before")
        words += (" out", " wait", " left", " start", " end", " running", " for", " from", " later", "Rest", "Answer")
        self.names = {encode.tokenizer.encode(word).ids[0]: word.strip() for word in words}

    @torch.no_grad()  # type: ignore[untyped-decorator]  # torch is skipped: its types cost a minute
    def __call__(self, model: Any) -> dict[str, float]:
        """Share right by keyword."""
        right: Counter[str] = Counter()
        total: Counter[str] = Counter()
        for ids, weights in self.rows:
            predicted = model(input_ids=torch.tensor([ids])).logits[0].argmax(-1).tolist()
            name = ""
            for at in range(1, len(ids)):
                if weights[at] == 1.0:
                    if name and ids[at] not in self.names:
                        total[name] += 1
                        right[name] += predicted[at - 1] == ids[at]
                    name = self.names.get(ids[at], name)
                else:
                    name = ""
        return {name: round(right[name] / total[name], 4) for name in sorted(total)}


def train(directory: Path, seed: int, scale: float, threads: int, stop_at: float = 1.0) -> None:
    """All stages, or their first `stop_at` of the tokens, from the last checkpoint in `directory` or from nothing."""
    torch.set_num_threads(threads)
    directory.mkdir(parents=True, exist_ok=True)
    stages = [evolve(stage, tokens=int(stage.tokens * scale)) for stage in STAGES]
    total = sum(stage.tokens for stage in stages)
    tokenizer_file = directory / "tokenizer.json"
    if not tokenizer_file.exists():
        write_tokenizer(train_tokenizer(texts_for_tokens(seed + 1), VOCABULARY), directory)
    from tokenizers import Tokenizer

    encode = Encoder(Tokenizer.from_file(str(tokenizer_file)))
    vocabulary = encode.tokenizer.get_vocab_size()
    torch.manual_seed(seed)
    model = LlamaForCausalLM(LlamaConfig(**SHAPE, vocab_size=vocabulary, attn_implementation="sdpa", use_cache=False))
    give_look_ups(model)
    order_numbers(model, encode.tokenizer)
    optimizer = torch.optim.AdamW(_groups(model), PEAK_RATE, betas=(0.9, 0.98), fused=True)
    keep_words(model, encode.tokenizer)
    progress = {"stage": 0, "pool": 0, "tokens": 0, "stage_tokens": 0, "step": 0, "seconds": 0.0}
    checkpoint = directory / "checkpoint.pt"
    if checkpoint.exists():
        stored = torch.load(checkpoint, weights_only=True)
        model.load_state_dict(stored["model"])
        optimizer.load_state_dict(stored["optimizer"])
        progress = stored["progress"]
    accuracy = StepAccuracy(encode, seed + 2)
    log = (directory / "log.jsonl").open("a")
    losses: list[float] = []
    began, now_rate = time.monotonic() - progress["seconds"], 0.0
    while progress["stage"] < len(stages):
        stage = stages[int(progress["stage"])]
        pool = int(progress["pool"])
        for ids, weights, at_pool in batches(stage, encode, seed, pool):
            if at_pool != pool:
                pool = at_pool
                progress |= {"pool": pool, "seconds": time.monotonic() - began}
                line = progress | {"stage_name": stage.name, "loss": float(np.mean(losses)), "rate": now_rate}
                if pool % 8 == 0 or pool == 1:
                    line["steps_right"] = accuracy(model)
                print(json.dumps(line), file=log, flush=True)
                print(json.dumps(line), flush=True)
                losses = []
                _save(checkpoint, model, optimizer, progress)
                if stop_at < 1 and progress["tokens"] >= stop_at * total:
                    export(directory, model)
                    return
                if progress["stage_tokens"] >= stage.tokens:
                    break
            now_rate = rate(int(progress["tokens"]), total, int(progress["step"]))
            for group in optimizer.param_groups:
                group["lr"] = now_rate
            inputs, weight = torch.from_numpy(ids), torch.from_numpy(weights[:, 1:])
            counts = weight > 0
            hidden = model.model(input_ids=inputs[:, :-1]).last_hidden_state[counts]
            nll = torch.nn.functional.cross_entropy(model.lm_head(hidden), inputs[:, 1:][counts], reduction="none")
            weight = weight[counts]
            written = weight == 1.0
            loss = (nll * weight).sum() / weight.sum()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            losses.append(float(nll[written].mean().detach()))
            count = int((ids > 0).sum())
            progress["tokens"] += count
            progress["stage_tokens"] += count
            progress["step"] += 1
        progress |= {"stage": progress["stage"] + 1, "pool": 0, "stage_tokens": 0}
        _save(checkpoint, model, optimizer, progress)
        shutil.copyfile(checkpoint, directory / f"{stage.name}.pt")
    export(directory, model)


def _groups(model: Any) -> list[dict[str, Any]]:
    """Parameters with weight decay, and embeddings without."""
    embeddings = model.model.embed_tokens.weight
    others = [weight for weight in model.parameters() if weight is not embeddings]
    return [{"params": others, "weight_decay": 0.05}, {"params": [embeddings], "weight_decay": 0.0}]


def keep_words(model: Any, tokenizer: Any) -> None:
    """Leave the embeddings of all words as they are drawn, so that none is learned to be a name, or not to be one."""
    words = [number for token, number in tokenizer.get_vocab().items() if re.fullmatch("\u0120[A-Za-z]+", token)]
    mask = torch.ones(len(model.model.embed_tokens.weight), 1)
    mask[words] = 0.0
    model.model.embed_tokens.weight.register_hook(lambda gradient: gradient * mask)


def _save(path: Path, model: Any, optimizer: Any, progress: dict[str, Any]) -> None:
    scratch = path.with_suffix(".new")
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "progress": progress}, scratch)
    scratch.replace(path)


def export(directory: Path, model: Any) -> None:
    """config.json and model.safetensors, as `mlx_lm.load` reads them."""
    from safetensors.torch import save_file

    weights = {name: value.contiguous() for name, value in model.state_dict().items() if name != "lm_head.weight"}
    save_file(weights, str(directory / "model.safetensors"), metadata={"format": "pt"})
    config: dict[str, Any] = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "torch_dtype": "float32"}
    config |= {"vocab_size": model.config.vocab_size, "eos_token_id": 1, "pad_token_id": 0}
    config |= {"attention_bias": False, "mlp_bias": False, **SHAPE}
    (directory / "config.json").write_text(json.dumps(config, indent=1))


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(prog="python -m pretraining", description=__doc__)
    parser.add_argument("command", choices=("train", "export", "install"))
    parser.add_argument("--directory", type=Path, required=True, help="checkpoints, log and results")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--scale", type=float, default=1.0, help="share of the full number of tokens")
    parser.add_argument("--stop-at", type=float, default=1.0, help="stop after this share of the tokens: a weak model")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    options = parser.parse_args()
    if options.command == "train":
        train(options.directory, options.seed, options.scale, options.threads, options.stop_at)
        return
    weights = torch.load(options.directory / "checkpoint.pt", weights_only=True)["model"]
    model = LlamaForCausalLM(LlamaConfig(**SHAPE, vocab_size=len(weights["model.embed_tokens.weight"])))
    model.load_state_dict(weights)
    export(options.directory, model)
    if options.command == "install":
        INSTALLED.mkdir(parents=True, exist_ok=True)
        for name in ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"):
            shutil.copyfile(options.directory / name, INSTALLED / name)
        write_card(INSTALLED, options.directory / "log.jsonl", options.seed)


if __name__ == "__main__":
    main()
