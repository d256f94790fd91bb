"""Pretraining in several processes of one thread each, which add their gradients at every step.

Example i of a stage depends on (seed, stage, i) alone, and a run that is taken up again ends with the same weights.
"""

from __future__ import annotations

import json
import math
import re
import shutil
import string
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from attrs import evolve, frozen
from tokenizers import Tokenizer
from transformers import LlamaConfig, LlamaForCausalLM

from pretraining.corpus import STAGES, Conversation, Stage, conversation, learned_words, texts_for_tokens
from pretraining.start import Names, give_look_ups, order_numbers, redraw
from pretraining.tokenizer import VOCABULARY, train_tokenizer, write_tokenizer

__all__ = [
    "DEVIATION",
    "POOL",
    "SHAPE",
    "Encoder",
    "Place",
    "export",
    "groups",
    "model_from_nothing",
    "names_of",
    "train",
]

SHAPE: dict[str, Any] = {
    "hidden_size": 128,
    "num_hidden_layers": 5,
    "intermediate_size": 384,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "head_dim": 32,
    "max_position_embeddings": 4096,
    "rms_norm_eps": 1e-5,
    "tie_word_embeddings": False,
    "initializer_range": 0.08,
    "rope_theta": 1000000.0,
}
DEVIATION: float = SHAPE["initializer_range"]
PEAK_RATE = 1.5e-3
LAST_RATE = 1e-4
MUON_SCALE = 1.5
"""Learning rate of matrices, as a multiple of that of embeddings and norms."""
WARM_UP_STEPS = 100
READ_WEIGHT = 0.2
"""Weight in the loss of tokens that the user wrote; what the assistant writes weighs 1."""
READ_EVERY = 8
"""One in so many of the tokens that the user wrote is predicted at all."""
POOL = 512
"""Examples sorted by length together, so that batches are of even length."""
SAVE_EVERY = 200
"""Steps from one checkpoint to the next."""
MEASURE_EVERY = 400
"""Steps from one measurement of `StepAccuracy` to the next."""


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


@frozen
class Place:
    """How far a process has come in its examples of a stage."""

    pool: int = 0
    group: int = 0


def groups(
    stage: Stage, encode: Encoder, seed: int, *, shard: int, shards: int, place: Place
) -> Iterator[tuple[np.ndarray, np.ndarray, Place]]:
    """Padded ids and weights [rows, length] for one process, from `place` on, and the place behind each; endless."""
    pool, skipped = place.pool, place.group
    while True:
        first = (pool * shards + shard) * POOL
        examples = [encode(conversation(stage, seed, first + index)) for index in range(POOL)]
        examples.sort(key=lambda example: len(example[0]))
        found: list[list[tuple[list[int], list[float]]]] = [[]]
        for example in examples:
            if found[-1] and len(example[0]) * (len(found[-1]) + 1) > stage.batch // shards:
                found.append([])
            found[-1].append(example)
        order = np.random.default_rng([seed, pool, shard]).permutation(len(found))
        for number in range(skipped, len(order)):
            group = found[order[number]]
            length = max(len(ids) for ids, _ in group)
            ids = np.zeros((len(group), length), dtype=np.int64)
            weights = np.zeros((len(group), length), dtype=np.float32)
            for row, (some_ids, some_weights) in enumerate(group):
                ids[row, : len(some_ids)] = some_ids
                weights[row, : len(some_weights)] = some_weights
            last = number + 1 == len(order)
            yield ids, weights, Place(pool + 1, 0) if last else Place(pool, number + 1)
        pool, skipped = pool + 1, 0


def rate(stage: Stage, progress: dict[str, float], total: int) -> float:
    """Learning rate: warm-up, then half a cosine over `total` tokens; in a stage with a rate of its own, a line."""
    if stage.rate is not None:
        return stage.rate + (LAST_RATE - stage.rate) * progress["stage_tokens"] / stage.tokens
    share = min(1.0, progress["tokens"] / total)
    cosine = LAST_RATE + (PEAK_RATE - LAST_RATE) * 0.5 * (1 + math.cos(math.pi * share))
    return cosine * min(1.0, (progress["step"] + 1) / WARM_UP_STEPS)


class StepAccuracy:
    """Share of tokens predicted right, by the keyword they follow in a line of reasoning, on careful traces."""

    def __init__(self, encode: Encoder, seed: int, examples: int = 48) -> None:
        """Draw the traces."""
        stage = evolve(STAGES[2], name="held-out", care=(1.0, 1.0), drills=0.0, plans=0.0, deadlines=0.0)
        stage = evolve(stage, other_formats=0.0)
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


def names_of(tokenizer: Any) -> Names:
    """All letters, and all words that are not in `learned_words`: tokens that mean nothing by themselves."""
    learned = {id_ for word in learned_words() for text in (word, f" {word}") for id_ in tokenizer.encode(text).ids}
    letters = {tokenizer.encode(text).ids[0] for letter in string.ascii_letters for text in (letter, f" {letter}")}
    space = "\u0120"  # as BPE writes it
    texts = {
        number: token
        for token, number in sorted(tokenizer.get_vocab().items())
        if re.fullmatch(f"{space}?[A-Za-z]+", token) and (number in letters or number not in learned)
    }
    words = sorted({text.removeprefix(space) for text in texts.values()})
    places = {word: place for place, word in enumerate(words)}
    return Names(
        tuple(texts),
        tuple(places[text.removeprefix(space)] for text in texts.values()),
        tuple(text.startswith(space) for text in texts.values()),
    )


def train(directory: Path, seed: int, scale: float, shards: int, stop_at: float = 1.0) -> None:
    """All stages, or their first `stop_at` of the tokens, from the last checkpoint in `directory` or from nothing."""
    directory.mkdir(parents=True, exist_ok=True)
    if not (directory / "tokenizer.json").exists():
        write_tokenizer(train_tokenizer(texts_for_tokens(seed + 1), VOCABULARY), directory)
    context = torch.multiprocessing.get_context("spawn")
    model = model_from_nothing(Tokenizer.from_file(str(directory / "tokenizer.json")), seed)
    size = sum(weight.numel() for weight in model.parameters())
    shared = torch.zeros(shards, size + EXTRA).share_memory_()
    places = torch.zeros(shards, 2, dtype=torch.int64).share_memory_()
    barrier = context.Barrier(shards)
    arguments = (directory, seed, scale, shards, stop_at, shared, places, barrier)
    torch.multiprocessing.spawn(_work, arguments, nprocs=shards)


EXTRA = 3
"""Numbers that processes add beside gradients: weight of the loss, tokens read, and the loss of written tokens."""


def model_from_nothing(tokenizer: Any, seed: int) -> Any:
    """The model before its first step."""
    torch.manual_seed(seed)
    vocabulary = tokenizer.get_vocab_size()
    model = LlamaForCausalLM(LlamaConfig(**SHAPE, vocab_size=vocabulary, attn_implementation="sdpa", use_cache=False))
    give_look_ups(model)
    order_numbers(model, tokenizer)
    return model


def _work(
    shard: int,
    directory: Path,
    seed: int,
    scale: float,
    shards: int,
    stop_at: float,
    shared: torch.Tensor,
    places: torch.Tensor,
    barrier: Any,
) -> None:
    """One process: its share of the examples, and the same steps on the same weights as all others."""
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    encode = Encoder(Tokenizer.from_file(str(directory / "tokenizer.json")))
    model, names = model_from_nothing(encode.tokenizer, seed), names_of(encode.tokenizer)
    gradient = _flat_gradient(model)
    optimizers = _optimizers(model)
    stages = [evolve(stage, tokens=int(stage.tokens * scale)) for stage in STAGES]
    total = sum(stage.tokens for stage in stages)
    scheduled = sum(stage.tokens for stage in stages if stage.rate is None)
    progress = {"stage": 0, "tokens": 0, "stage_tokens": 0, "step": 0, "seconds": 0.0}
    place = Place()
    checkpoint = directory / "checkpoint.pt"
    if checkpoint.exists():
        stored = torch.load(checkpoint, weights_only=True)
        model.load_state_dict(stored["model"])
        for optimizer, state in zip(optimizers, stored["optimizers"], strict=True):
            optimizer.load_state_dict(state)
        progress = stored["progress"]
        place = Place(*stored["places"][shard].tolist())
    accuracy = StepAccuracy(encode, seed + 2) if not shard else None
    began = time.monotonic() - progress["seconds"]
    losses: list[float] = []
    embeddings, head = model.model.embed_tokens.weight, model.lm_head.weight

    def save() -> None:
        progress["seconds"] = time.monotonic() - began
        redraw(embeddings, head, names, DEVIATION, seed, "installed")
        states = [optimizer.state_dict() for optimizer in optimizers]
        _save(checkpoint, {"model": model.state_dict(), "optimizers": states, "progress": progress, "places": reached})

    def log() -> None:
        drawn = (int(reached[:, 0].max()) + 1) * shards * POOL
        line = progress | {
            "stage_name": stage.name,
            "examples": drawn,
            "loss": float(np.mean(losses)),
            "rate": now_rate,
        }
        losses.clear()
        if accuracy and (progress["step"] % MEASURE_EVERY == 0 or progress["stage_tokens"] >= stage.tokens):
            line["steps_right"] = accuracy(model)
        with (directory / "log.jsonl").open("a") as file:
            print(json.dumps(line), file=file)
        print(json.dumps(line), flush=True)

    stopped, reached = False, places
    while not stopped and progress["stage"] < len(stages):
        stage = stages[int(progress["stage"])]
        for ids, weights, behind in groups(stage, encode, seed, shard=shard, shards=shards, place=place):
            if progress["stage_tokens"] >= stage.tokens:
                break
            now_rate = rate(stage, progress, scheduled)
            redraw(embeddings, head, names, DEVIATION, seed, shard, int(progress["step"]))
            gradient.zero_()
            extra = _backward(model, ids, weights)
            for weight in (embeddings, head):
                weight.grad[list(names.rows)] = 0.0
            shared[shard, :-EXTRA], shared[shard, -EXTRA:] = gradient, torch.tensor(extra)
            places[shard] = torch.tensor([behind.pool, behind.group])
            barrier.wait()
            added, reached = shared.sum(0), places.clone()
            barrier.wait()
            weights_sum, tokens, loss = added[-EXTRA:].tolist()
            gradient.copy_(added[:-EXTRA] / weights_sum)
            gradient.mul_(min(1.0, 1.0 / (float(gradient.norm()) + 1e-6)))
            for optimizer in optimizers:
                for group in optimizer.param_groups:
                    group["lr"] = now_rate * group["scale"]
                optimizer.step()
            losses.append(loss / weights_sum)
            progress["tokens"] += int(tokens)
            progress["stage_tokens"] += int(tokens)
            progress["step"] += 1
            over = progress["stage_tokens"] >= stage.tokens
            stopped = stop_at < 1 and progress["tokens"] >= stop_at * total
            if not shard and (over or stopped or progress["step"] % SAVE_EVERY == 0):
                save()
                log()
            if over or stopped:
                break
        if not stopped:
            progress |= {"stage": progress["stage"] + 1, "stage_tokens": 0}
            place = Place()
            reached = torch.zeros_like(places)
            if not shard:
                save()
                shutil.copyfile(checkpoint, directory / f"{stage.name}.pt")
    if not shard:
        redraw(embeddings, head, names, DEVIATION, seed, "installed")
        export(directory, model)
    barrier.wait()


def _flat_gradient(model: Any) -> torch.Tensor:
    """One vector in which all gradients are collected, in place."""
    flat = torch.zeros(sum(weight.numel() for weight in model.parameters()))
    at = 0
    for weight in model.parameters():
        weight.grad = flat[at : at + weight.numel()].view_as(weight)
        at += weight.numel()
    return flat


def _optimizers(model: Any) -> list[Any]:
    """Muon (Jordan et al., 2024) for matrices within blocks, AdamW for the rest; `scale` is a factor on the rate."""
    outside = {id(model.model.embed_tokens.weight), id(model.lm_head.weight)}
    matrices = [weight for weight in model.parameters() if id(weight) not in outside and weight.ndim == 2]
    others = [weight for weight in model.parameters() if id(weight) in outside or weight.ndim == 1]
    muon = torch.optim.Muon(matrices, lr=PEAK_RATE, weight_decay=0.05, adjust_lr_fn="match_rms_adamw")
    adam = torch.optim.AdamW(others, PEAK_RATE, betas=(0.9, 0.98), weight_decay=0.0, fused=True)
    for optimizer, scale in ((muon, MUON_SCALE), (adam, 1.0)):
        for group in optimizer.param_groups:
            group["scale"] = scale
    return [muon, adam]


def _backward(model: Any, ids: np.ndarray, weights: np.ndarray) -> tuple[float, float, float]:
    """Add the gradient of the weighted loss; returns the sum of weights, the tokens read, and the weighted loss."""
    inputs, weight = torch.from_numpy(ids), torch.from_numpy(weights[:, 1:])
    counts = weight > 0
    hidden = model.model(input_ids=inputs[:, :-1]).last_hidden_state[counts]
    nll = torch.nn.functional.cross_entropy(model.lm_head(hidden), inputs[:, 1:][counts], reduction="none")
    loss = (nll * weight[counts]).sum()
    loss.backward()
    return float(weight.sum()), float((ids > 0).sum()), float(loss.detach())


def _save(path: Path, state: dict[str, Any]) -> None:
    scratch = path.with_suffix(".new")
    torch.save(state, scratch)
    scratch.replace(path)


def export(directory: Path, model: Any) -> None:
    """config.json and model.safetensors, as `mlx_lm.load` reads them."""
    from safetensors.torch import save_file

    weights = {name: value.contiguous() for name, value in model.state_dict().items()}
    save_file(weights, str(directory / "model.safetensors"), metadata={"format": "pt"})
    config: dict[str, Any] = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "torch_dtype": "float32"}
    config |= {"vocab_size": model.config.vocab_size, "eos_token_id": 1, "pad_token_id": 0}
    config |= {"attention_bias": False, "mlp_bias": False, **SHAPE}
    (directory / "config.json").write_text(json.dumps(config, indent=1))
