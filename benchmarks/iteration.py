"""Whole iterations: 84 rollouts, every one judged, learning from 28 of them, 18 problems answered greedily.

The reference's loop, rebuilt as the peer, takes one sequence at a time and one update for each trace; ours batches.
Both learn from as many traces, right or wrong: what is measured is time, and an untrained model finds few right ones.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.contest import Turn, measured
from benchmarks.peers import load_gce, load_mlx_lm, mlx_lm_trainer, problems, turns
from gce.domain.completions import SampleRequest
from gce.domain.learning import Trace, TrainingBatch, single_turn
from gce.domain.problems import Problem
from gce.domain.tasks.scheduling.verify import verify

TIERS = {"T0": 3, "T1": 3, "T2": 3, "T3": 3, "T4": 9}
ROLLOUTS = 4
TRACES_OF = 3
"""Learning takes each third rollout."""
TEST = ("T0", "T1", "T2", "T3", "T4", "T5")
BATCH = 16
BLOCKS = 8
LEARNING_RATE = 2e-4
CUT = 512
"""Tokens of a training sequence at most, in the reference."""


def ours(model: str, tokens: int) -> Callable[[], Turn]:
    """Through the ports of `gce`, traces in batches of 16."""
    loaded = load_gce(model, blocks=BLOCKS, learning_rate=LEARNING_RATE)
    drawn = [problem for tier, count in TIERS.items() for problem in problems(count, tier)]
    held_back = [problem for tier in TEST for problem in problems(12, tier)[9:]]
    before = loaded.state()
    number = 0

    def work() -> float:
        nonlocal number
        number += 1
        asked = {
            f"{place}/{sample}": (
                problem,
                SampleRequest(f"{place}/{sample}", problem.prompt, number * 1000 + 4 * place + sample, 0.8, tokens),
            )
            for place, problem in enumerate(drawn)
            for sample in range(ROLLOUTS)
        }
        found = list(loaded.sample([request for _, request in asked.values()]))
        verdicts = [verify(asked[completion.key][0].instance, completion.text) for completion in found]
        traces = [
            Trace(
                completion.key,
                "p",
                "T0",
                1,
                single_turn(asked[completion.key][0].prompt, completion),
                (verdict,),
                completion.key,
            )
            for completion, verdict in zip(found, verdicts, strict=True)
        ][::TRACES_OF]
        for start in range(0, len(traces), BATCH):
            batch = tuple(traces[start : start + BATCH])
            loaded.update(TrainingBatch(batch, (1.0,) * len(batch)))
        greedy = [SampleRequest(problem.key, problem.prompt, 0, 0.0, tokens) for problem in held_back]
        for completion in loaded.sample(greedy):
            verify(next(p for p in held_back if p.key == completion.key).instance, completion.text)
        return 1

    def turn() -> Turn:
        loaded.restore(before)  # What was learned in one turn must not make the next one shorter.
        return measured(work)

    return turn


def reference(model: str, tokens: int) -> Callable[[], Turn]:
    """With mlx-lm and the same BLAS: `generate` for each sequence, its trainer with batches of one."""
    loaded, tokenizer = load_mlx_lm(model, fast_blas=True)
    from mlx.utils import tree_flatten, tree_unflatten
    from mlx_lm import generate
    from mlx_lm.sample_utils import make_sampler
    from mlx_lm.tuner.datasets import CacheDataset, ChatDataset

    train = mlx_lm_trainer(loaded, blocks=BLOCKS, learning_rate=LEARNING_RATE, batch_size=1, max_seq_length=CUT)
    drawn = [problem for tier, count in TIERS.items() for problem in problems(count, tier)]
    held_back = [problem for tier in TEST for problem in problems(12, tier)[9:]]
    before = dict(tree_flatten(loaded.trainable_parameters()))

    def answer(problem: Problem, temperature: float) -> str:
        prompt = tokenizer.apply_chat_template(turns(problem), add_generation_prompt=True)
        return generate(loaded, tokenizer, prompt, max_tokens=tokens, sampler=make_sampler(temperature))

    def work() -> float:
        loaded.eval()
        found = [(problem, answer(problem, 0.8)) for problem in drawn for _ in range(ROLLOUTS)]
        for problem, text in found:
            verify(problem.instance, text)
        chats: list[Any] = [
            {"messages": [*turns(problem), {"role": "assistant", "content": text}]}
            for problem, text in found[::TRACES_OF]
        ]
        train(CacheDataset(ChatDataset(chats, tokenizer, mask_prompt=True)))
        loaded.eval()
        for problem in held_back:
            verify(problem.instance, answer(problem, 0.0))
        return 1

    def turn() -> Turn:
        loaded.update(tree_unflatten(list(before.items())))
        return measured(work)

    return turn
