"""One iteration of GRPO: rollouts in groups, every one judged, an optimizer step on each part of them. Ours, and TRL's.

Both sample `prompts` times `samples` completions of at most `tokens` tokens at temperature 0.8, and learn from all of
them in batches of `batch`. An untrained model finds few right answers, and groups with equal rewards teach nothing, so
answers are judged, and rewarded by their length: what is measured is time.
"""

from __future__ import annotations

from collections.abc import Callable
from statistics import fmean, pstdev

from benchmarks.contest import Turn, measured
from benchmarks.peers import grpo_trainer, load_gce, load_transformers, problems, turns
from gce.domain.completions import SampleRequest
from gce.domain.learning import Trace, TrainingBatch, single_turn
from gce.domain.problems import Problem
from gce.domain.tasks.scheduling.verify import verify

LEARNING_RATE = 1e-5
TEMPERATURE = 0.8
CLIP = 0.2


def _reward(problem: Problem, text: str) -> float:
    verify(problem.instance, text)
    return len(text) % 10 / 10


def ours(model: str, prompts: int, samples: int, tokens: int, tier: str, blocks: int, batch: int) -> Callable[[], Turn]:
    """Through the ports of `gce`."""
    loaded = load_gce(model, blocks=blocks, learning_rate=LEARNING_RATE)
    drawn = problems(prompts, tier)
    before = loaded.state()
    number = 0

    def work() -> float:
        nonlocal number
        number += 1
        asked = {f"{place}/{sample}": problem for place, problem in enumerate(drawn) for sample in range(samples)}
        requests = [
            SampleRequest(key, problem.prompt, 1_000_003 * number + place, TEMPERATURE, tokens)
            for place, (key, problem) in enumerate(asked.items())
        ]
        found = {completion.key: completion for completion in loaded.sample(requests)}
        rewards = {key: _reward(problem, found[key].text) for key, problem in asked.items()}
        learned = []
        for place, problem in enumerate(drawn):
            group = [key for key in asked if key.startswith(f"{place}/")]
            mean, spread = fmean(rewards[key] for key in group), pstdev(rewards[key] for key in group)
            for key in group:
                trace = Trace(key, problem.key, tier, 1, single_turn(problem.prompt, found[key]), (), key)
                learned.append((trace, (rewards[key] - mean) / (spread or 1.0)))
        for start in range(0, len(learned), batch):
            some, weights = zip(*learned[start : start + batch], strict=True)
            loaded.update(TrainingBatch(traces=some, weights=weights, clip=CLIP))
        return 1.0

    def turn() -> Turn:
        loaded.restore(before)  # What was learned in one turn must not change the length of the next one.
        return measured(work)

    return turn


def trl(model: str, prompts: int, samples: int, tokens: int, tier: str, blocks: int, batch: int) -> Callable[[], Turn]:
    """`GRPOTrainer.train` for one generation of rollouts, with PEFT's adapter on the same blocks."""
    loaded, tokenizer = load_transformers(model)
    drawn = problems(prompts, tier)
    steps, left = divmod(prompts * samples, batch)
    if left:
        raise ValueError(f"expected batches that divide {prompts * samples} rollouts, got {batch}")
    trainer, restore = grpo_trainer(
        *(loaded, tokenizer, list(map(turns, drawn)), lambda place, text: _reward(drawn[place], text)),
        blocks=blocks,
        max_steps=steps,
        per_device_train_batch_size=batch,
        steps_per_generation=steps,
        num_generations=samples,
        max_completion_length=tokens,
        temperature=TEMPERATURE,
        epsilon=CLIP,
        learning_rate=LEARNING_RATE,
        use_cpu=True,
        bf16=False,
    )

    def work() -> float:
        trainer.train()
        return 1.0

    def turn() -> Turn:
        restore()
        return measured(work)

    return turn
