"""Tokens of traces a second through LoRA's updates: ours, mlx-lm's trainer and PEFT on the same blocks and traces.

A trace is a prompt and one of its continuations. Ours come in an order drawn once; the peers get them sorted by length
in batches of the same size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import ceil
from typing import Any

import numpy as np

from benchmarks.contest import Turn, measured
from benchmarks.peers import load_gce, load_mlx_lm, load_transformers, lora_config, mlx_lm_trainer, problems, turns
from gce.app.settings.records import OptimizerSettings
from gce.domain.completions import Completion
from gce.domain.learning import Trace, TrainingBatch, single_turn
from gce.domain.problems import Message, Problem

LEARNING_RATE = 1e-4


def traces(prompts: int, samples: int, tokens: int, tier: str) -> list[tuple[Problem, str]]:
    """Continuations of about `tokens` tokens: numbers, which no tokenizer packs much differently."""
    rng = np.random.Generator(np.random.Philox(0))
    found = [
        (problem, " ".join(map(str, rng.integers(10, 99, tokens // 3))))
        for problem in problems(prompts, tier)
        for _ in range(samples)
    ]
    return [found[place] for place in rng.permutation(len(found))]


def ours(
    model: str, prompts: int, samples: int, tokens: int, tier: str, blocks: int, batch: int, part: str
) -> Callable[[], Turn]:
    """`LocalModel.update` over every trace.

    `part` says how often: four epochs, of which the first keeps hidden states (`whole`), the first (`first`), a later
    one (`later`), or as many batches, drawn from all traces, as an iteration of the loop takes (`drawn`).
    """
    loaded = load_gce(model, blocks=blocks, learning_rate=LEARNING_RATE)
    learned = [
        _trace(problem.prompt, loaded.prompt_tokens(problem.prompt), loaded.text_tokens(text, end=True), text)
        for problem, text in traces(prompts, samples, tokens, tier)
    ]
    drawing = np.random.Generator(np.random.Philox(1))
    default = OptimizerSettings()

    def batches() -> Iterator[list[Trace]]:
        if part == "drawn":
            for _ in range(min(default.updates, ceil(default.reuse * len(learned) / batch))):
                yield [learned[place] for place in drawing.choice(len(learned), batch, replace=False)]
            return
        for _ in range(4 if part == "whole" else 1):
            for start in range(0, len(learned), batch):
                yield learned[start : start + batch]

    def work() -> float:
        done = 0.0
        for some in batches():
            loaded.update(TrainingBatch(tuple(some), (1.0,) * len(some)))
            done += sum(len(t.completion.prompt_token_ids or ()) + len(t.completion.token_ids or ()) for t in some)
        return done

    def turn() -> Turn:
        if part != "later":
            loaded.attach(loaded.info().adapted_layers)  # Nothing that earlier turns have kept serves this one.
        return measured(work)

    return turn


def _trace(messages: tuple[Message, ...], prompt: tuple[int, ...], written: tuple[int, ...], text: str) -> Trace:
    completion = Completion("t", text, "stop", "none", prompt_token_ids=prompt, token_ids=written)
    return Trace("t", "p", "T5", 1, single_turn(messages, completion), (), "t")


def mlx_lm(
    model: str, prompts: int, samples: int, tokens: int, tier: str, blocks: int, batch: int
) -> Callable[[], Turn]:
    """`mlx_lm.tuner.trainer.train`, once over every trace, prompts masked; every epoch costs the same."""
    loaded, tokenizer = load_mlx_lm(model, fast_blas=True)
    from mlx_lm.tuner.datasets import CacheDataset, ChatDataset

    train = mlx_lm_trainer(loaded, blocks=blocks, learning_rate=LEARNING_RATE, batch_size=batch)
    chats: list[Any] = [
        {"messages": [*turns(problem), {"role": "assistant", "content": text}]}
        for problem, text in traces(prompts, samples, tokens, tier)
    ]
    data = CacheDataset(ChatDataset(chats, tokenizer, mask_prompt=True))
    whole = float(sum(len(data[index][0]) for index in range(len(data))))

    def work() -> float:
        train(data)
        return whole

    return lambda: measured(work)


def peft(model: str, prompts: int, samples: int, tokens: int, tier: str, blocks: int, batch: int) -> Callable[[], Turn]:
    """PEFT's LoRA and AdamW on a model of transformers, once over every trace, prompts masked; epochs cost the same."""
    loaded, tokenizer = load_transformers(model)
    import torch
    from peft import get_peft_model

    adapted = get_peft_model(loaded, lora_config(loaded, blocks))
    adapted.train()
    optimizer = torch.optim.AdamW([each for each in adapted.parameters() if each.requires_grad], lr=LEARNING_RATE)
    chats = [
        (
            tokenizer.apply_chat_template(turns(problem), add_generation_prompt=True, return_dict=False),
            [*tokenizer.encode(text, add_special_tokens=False), tokenizer.eos_token_id],
        )
        for problem, text in traces(prompts, samples, tokens, tier)
    ]
    chats.sort(key=lambda chat: len(chat[0]) + len(chat[1]))

    def padded(rows: list[list[int]], filler: int) -> Any:
        width = max(map(len, rows))
        return torch.tensor([row + [filler] * (width - len(row)) for row in rows])

    def work() -> float:
        done = 0
        for start in range(0, len(chats), batch):
            some = chats[start : start + batch]
            inputs = padded([[*prompt, *written] for prompt, written in some], 0)
            mask = padded([[1] * (len(prompt) + len(written)) for prompt, written in some], 0)
            labels = padded([[-100] * len(prompt) + written for prompt, written in some], -100)
            adapted(input_ids=inputs, attention_mask=mask, labels=labels).loss.backward()
            torch.nn.utils.clip_grad_norm_(adapted.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
            done += int(mask.sum())
        return float(done)

    return lambda: measured(work)
