"""GRPO by `hf:` models and by TRL's `GRPOTrainer`, on a GPU or the CPU: `python -m benchmarks.grpo_torch MODEL`.

Both have the same weights, prompts, rewards, groups, batches, precision, LoRA shape, optimizer and loss, each in a
process of its own; they take turns. Printed are the medians of sampled tokens per second, trained tokens and updates
per second, seconds of an iteration, and GPU memory, and the ratio of iterations per second.

With `--gain`, both learn to count, and the time until the mean reward of held-out prompts has risen by so much is
printed. Held-out rewards are measured greedily, by the same code for both, outside the clock.

TRL samples with transformers' `generate`, or its continuous batching with `--peer trl_continuous`, not with vLLM.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from attrs import Factory, define, frozen

from benchmarks.contest import Contestant, Outcome, Turn, compete
from benchmarks.peers import RANK, SCALE, chat, grpo_trainer, problems
from gce.adapters.models.backends.torch import decoder
from gce.adapters.models.backends.torch.model import load_torch_model
from gce.adapters.models.local.lora import LoraSettings, OptimizerSettings
from gce.app.wiring.models import model_directory
from gce.domain.completions import SampleRequest
from gce.domain.learning import Trace, TrainingBatch, single_turn
from gce.domain.problems import Message

CLIP = 0.2
DTYPES = {"bf16": torch.bfloat16, "fp32": torch.float32}

SHOWN = "Count from 5 in steps of 2. Write exactly 4 numbers, separated by commas. Answer: 5, 7, 9, 11."

Question = tuple[Message, ...]
Reward = Callable[[Question, str], float]


@frozen(kw_only=True)
class Shape:
    """What both contestants are given."""

    model: str
    precision: str
    cpu: bool
    prompts: int
    samples: int
    tokens: int
    batch: int
    iterations: int
    learning_rate: float
    temperature: float = 1.0
    graphs: bool = True
    gain: float = 0.0
    most: int = 0
    """Most iterations before the gain is given up."""
    every: int = 2
    """Iterations between two measurements of the held-out reward."""

    @property
    def steps(self) -> int:
        """Optimizer steps of an iteration."""
        steps, left = divmod(self.prompts * self.samples, self.batch)
        if left:
            raise ValueError(f"expected batches that divide {self.prompts * self.samples} rollouts, got {self.batch}")
        return steps

    def questions(self) -> list[Question]:
        """Questions to learn from."""
        if self.gain:
            return counting(range(0, 80), 256)
        return [problem.prompt for problem in problems(self.prompts, "T5")]

    def reward(self) -> Reward:
        """The reward of an answer; where only time is measured, one that differs within groups."""
        return count_reward if self.gain else lambda _, text: len(text) % 10 / 10


def counting(starts: range, count: int) -> list[Question]:
    """Questions to count on from a number in steps of 1 to 5."""
    draw = random.Random(starts.start)
    found: list[Question] = []
    for _ in range(count):
        start, step, numbers = draw.choice(starts), draw.choice([1, 2, 3, 5]), draw.randint(4, 8)
        asked = f"{SHOWN} Count from {start} in steps of {step}. Write exactly {numbers} numbers, separated by commas."
        found.append((Message("user", asked),))
    return found


def count_reward(question: Question, text: str) -> float:
    """The share of the numbers that are right and in place, of all that are asked for or written."""
    start, step, numbers = map(int, re.findall(r"\d+", question[0].content)[-3:])
    expected = [start + step * place for place in range(numbers)]
    written = [int(number) for number in re.findall(r"\d{1,6}", text)[:50]]
    right = sum(one == other for one, other in zip(expected, written, strict=False))
    return right / max(len(expected), len(written))


@define
class Clock:
    """Seconds and counts of an iteration's parts, by name."""

    found: dict[str, float] = Factory(dict)

    def add(self, name: str, amount: float) -> None:
        """Add to one of them."""
        self.found[name] = self.found.get(name, 0.0) + amount

    def timed(self, name: str, work: Callable[..., Any]) -> Callable[..., Any]:
        """Return `work`, whose seconds are added."""

        def run(*given: Any, **named: Any) -> Any:
            begun = now()
            done = work(*given, **named)
            self.add(name, now() - begun)
            return done

        return run


def now() -> float:
    """The time when all that was begun on the GPU has ended."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter()


def ours(**given: Any) -> Callable[[], Turn]:
    """Through the ports of `gce`."""
    shape = Shape(**given)
    bf16 = shape.precision == "bf16"
    if not shape.graphs:
        decoder._recordable = lambda _: False  # type: ignore[assignment]
    loaded: Any = load_torch_model(
        shape.model,
        device="cpu" if shape.cpu else None,
        lora=LoraSettings(rank=RANK, scale=SCALE),
        optimizer=OptimizerSettings(learning_rate=shape.learning_rate, tokens_per_pass=1 << 30),
        max_batch=shape.prompts * shape.samples,
        bf16=bf16,
    )
    loaded.attach(range(loaded.info().layers))
    before, questions, reward = loaded.state(), shape.questions(), shape.reward()

    def iterate(number: int, clock: Clock) -> None:
        first = number * shape.prompts % len(questions)
        asked = {
            f"{place}/{sample}": questions[(first + place) % len(questions)]
            for place in range(shape.prompts)
            for sample in range(shape.samples)
        }
        requests = [
            SampleRequest(key, question, 1_000_003 * number + place, shape.temperature, shape.tokens)
            for place, (key, question) in enumerate(asked.items())
        ]
        sample = clock.timed("sampling", lambda: {each.key: each for each in loaded.sample(requests)})
        found = sample()
        clock.add("tokens", sum(len(each.token_ids) for each in found.values()))
        rewards = {key: reward(question, found[key].text) for key, question in asked.items()}
        learned = []
        for place in range(shape.prompts):
            group = [f"{place}/{sample}" for sample in range(shape.samples)]
            mean, spread = (of([rewards[key] for key in group]) for of in (statistics.fmean, statistics.stdev))
            for key in group:
                trace = Trace(key, str(place), "", 1, single_turn(asked[key], found[key]), (), key)
                learned.append((trace, (rewards[key] - mean) / (spread + 1e-4)))
        random.Random(number).shuffle(learned)  # As TRL does.
        update = clock.timed("updating", loaded.update)
        for start in range(0, len(learned), shape.batch):
            traces, weights = zip(*learned[start : start + shape.batch], strict=True)
            update(TrainingBatch(traces=traces, weights=weights, clip=CLIP))

    def iterations(clock: Clock) -> Iterator[None]:
        number = 0
        while True:
            iterate(number, clock)
            number += 1
            yield

    def run(most: int, clock: Clock, stop: Callable[[int], bool]) -> None:
        loaded.restore(before)
        for done, _ in enumerate(iterations(clock), start=1):
            if stop(done) or done == most:
                return

    return _turns(shape, run, loaded.engine.model, loaded._tokenizer)


def trl(*, continuous: bool = False, **given: Any) -> Callable[[], Turn]:
    """`GRPOTrainer.train`, with PEFT's adapter on the same linears."""
    from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback

    shape = Shape(**given)
    model = AutoModelForCausalLM.from_pretrained(shape.model, dtype=DTYPES[shape.precision])
    tokenizer = AutoTokenizer.from_pretrained(shape.model)
    questions, reward = shape.questions(), shape.reward()
    trainer, restore = grpo_trainer(
        *(model, tokenizer, list(map(chat, questions)), lambda place, text: reward(questions[place], text)),
        blocks=len(model.model.layers),
        max_steps=shape.steps,
        per_device_train_batch_size=shape.batch,
        steps_per_generation=shape.steps,
        num_generations=shape.samples,
        max_completion_length=shape.tokens,
        temperature=shape.temperature,
        epsilon=CLIP,
        learning_rate=shape.learning_rate,
        lr_scheduler_type="constant",
        max_grad_norm=1.0,
        use_cpu=shape.cpu,
        bf16=shape.precision == "bf16",
        use_transformers_continuous_batching=continuous,
    )
    generate, prepare = trainer._generate, trainer._generate_and_score_completions

    class Stop(TrainerCallback):  # type: ignore[misc]
        def __init__(self, stop: Callable[[int], bool], clock: Clock) -> None:
            self._stop, self.clock, self.begun = stop, clock, now()

        def on_train_begin(self, *_: Any, **__: Any) -> None:
            self.clock.add("set-up", now() - self.begun)

        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            if state.global_step % shape.steps == 0 and self._stop(state.global_step // shape.steps):
                control.should_training_stop = True

    def run(most: int, clock: Clock, stop: Callable[[int], bool]) -> None:
        restore()

        def counted(*given: Any, **named: Any) -> Any:
            found = generate(*given, **named)
            clock.add("tokens", sum(map(len, found[1])))
            return found

        trainer._generate = clock.timed("sampling", counted)
        trainer._generate_and_score_completions = clock.timed("preparing", prepare)
        trainer.optimizer = trainer.lr_scheduler = None
        trainer.args.max_steps = most * shape.steps
        callback = Stop(stop, clock)
        trainer.add_callback(callback)
        trainer.train()
        trainer.remove_callback(callback)

    return _turns(shape, run, trainer.model, tokenizer)


def trl_continuous(**given: Any) -> Callable[[], Turn]:
    """The same with transformers' continuous batching."""
    return trl(continuous=True, **given)


Run = Callable[[int, Clock, Callable[[int], bool]], None]
"""(most iterations, clock, whether to stop after so many) runs GRPO from the base on."""


def _turns(shape: Shape, run: Run, model: Any, tokenizer: Any) -> Callable[[], Turn]:
    return (lambda: _time_to_gain(shape, run, model, tokenizer)) if shape.gain else (lambda: _speed(shape, run))


def _speed(shape: Shape, run: Run) -> Turn:
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    clock = Clock()
    begun = now()
    run(shape.iterations, clock, lambda _: False)
    found = clock.found
    # `GRPOTrainer.train` collects garbage and makes a data loader: a run does so once.
    seconds = now() - begun - found.get("set-up", 0.0)
    updating = found.get("updating") or seconds - found["preparing"]
    measures = {
        "sampled tokens/s": found["tokens"] / found["sampling"],
        "trained tokens/s": found["tokens"] / updating,
        "updates/s": shape.iterations * shape.steps / updating,
        "seconds an iteration": seconds / shape.iterations,
        "tokens a completion": found["tokens"] / shape.iterations / shape.prompts / shape.samples,
    }
    if torch.cuda.is_available():
        measures["GiB allocated"] = torch.cuda.max_memory_allocated() / 2**30
        measures["GiB reserved"] = torch.cuda.max_memory_reserved() / 2**30
        torch.cuda.empty_cache()  # The other contestant is on the same GPU.
    return Turn(shape.iterations, seconds, measures)


def _time_to_gain(shape: Shape, run: Run, model: Any, tokenizer: Any) -> Turn:
    held_out = counting(range(100, 180), 64)
    run(1, Clock(), lambda _: False)  # Warms up.
    outside, clock = 0.0, Clock()
    curve: list[tuple[float, float]] = []

    def stop(done: int) -> bool:
        nonlocal outside
        if done % shape.every:
            return False
        paused = now()
        found = greedy_reward(model, tokenizer, held_out, shape)
        curve.append((paused - begun - outside - clock.found.get("set-up", 0.0), found))
        print(f"  {curve[-1][0]:.2f} s, {done} iterations: {found:.3f} (at the start {start:.3f})", file=sys.stderr)
        outside += now() - paused
        return found >= start + shape.gain

    start = _base_reward(model, tokenizer, held_out, shape)
    begun = now()
    run(shape.most, clock, stop)
    measures = {"reward at the start": start, "at the end": curve[-1][1], "reached": curve[-1][1] >= start + shape.gain}
    return Turn(1.0, curve[-1][0], measures)


def _base_reward(model: Any, tokenizer: Any, questions: Sequence[Question], shape: Shape) -> float:
    """The held-out reward with the adapter off."""
    from peft.tuners.tuners_utils import BaseTunerLayer

    layers = [module for module in model.modules() if isinstance(module, BaseTunerLayer)]
    for layer in layers:
        layer.enable_adapters(False)
    found = greedy_reward(model, tokenizer, questions, shape)
    for layer in layers:
        layer.enable_adapters(True)
    return found


def greedy_reward(model: Any, tokenizer: Any, questions: Sequence[Question], shape: Shape) -> float:
    """The mean reward of greedy answers, by transformers' `generate` for both contestants."""
    asked = list(map(chat, questions))
    tokenizer.padding_side = "left"
    tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token
    given = tokenizer.apply_chat_template(
        asked, add_generation_prompt=True, padding=True, return_tensors="pt", return_dict=True
    ).to(model.device)
    training = model.training
    model.eval()
    with torch.no_grad():
        found = model.generate(
            **given, max_new_tokens=shape.tokens, do_sample=False, pad_token_id=tokenizer.pad_token_id
        )
    model.train(training)
    texts = tokenizer.batch_decode(found[:, given["input_ids"].shape[1] :], skip_special_tokens=True)
    return statistics.fmean(count_reward(*pair) for pair in zip(questions, texts, strict=True))


def stored(model: str, precision: str, folder: str) -> str:
    """Return a directory with the model in this precision."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    directory = model_directory(model)
    dtype = json.loads((Path(directory) / "config.json").read_text())
    dtype = dtype.get("dtype", dtype.get("torch_dtype"))
    if dtype == str(DTYPES[precision]).removeprefix("torch."):
        return directory
    AutoModelForCausalLM.from_pretrained(directory, dtype=DTYPES[precision]).save_pretrained(folder)
    AutoTokenizer.from_pretrained(directory).save_pretrained(folder)
    return folder


def _lines(names: Sequence[str], outcomes: Sequence[Outcome]) -> Iterator[str]:
    for name, outcome in zip(names, outcomes, strict=True):
        yield f"{name}:"
        yield f"  seconds: {', '.join(f'{turn.seconds:.2f}' for turn in outcome.turns)}"
        for measure in outcome.turns[0].measures:
            found = [float(turn.measures[measure]) for turn in outcome.turns]
            yield f"  {measure}: {statistics.median(found):,.4g} ({min(found):,.4g} to {max(found):,.4g})"
    ratio, low, high = outcomes[0].against(outcomes[1])
    yield f"{names[0]} is {ratio:.2f} times as fast as {names[1]} ({low:.2f} to {high:.2f})"


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="smollm2, or a directory or hub name of a model")
    parser.add_argument("--precision", choices=list(DTYPES), default="bf16")
    parser.add_argument("--cpu", action="store_true", help="use no GPU")
    parser.add_argument("--prompts", type=int, default=16, help="prompts of an iteration")
    parser.add_argument("--samples", type=int, default=8, help="rollouts of a prompt")
    parser.add_argument("--tokens", type=int, default=256, help="most tokens of a completion")
    parser.add_argument("--batch", type=int, default=32, help="rollouts of an optimizer step")
    parser.add_argument("--iterations", type=int, default=1, help="iterations of a turn")
    parser.add_argument("--rounds", type=int, default=3, help="turns of each contestant, after one to warm up")
    parser.add_argument("--learning-rate", type=float, default=1e-5)
    parser.add_argument("--peer", choices=["trl", "trl_continuous", "ours"], default="trl")
    parser.add_argument("--no-graphs", action="store_true", help="record no CUDA graphs (with --peer ours: the peer)")
    parser.add_argument("--gain", type=float, default=0.0, help="time until the held-out reward has risen by so much")
    parser.add_argument("--most", type=int, default=60, help="most iterations with --gain")
    options = vars(parser.parse_args())
    model, peer, rounds, plain = (options.pop(name) for name in ("model", "peer", "rounds", "no_graphs"))
    with tempfile.TemporaryDirectory() as folder:
        shape = {**options, "model": stored(model, options["precision"], folder)}
        mine = Contestant("gce", "benchmarks.grpo_torch:ours", {**shape, "graphs": peer == "ours" or not plain})
        theirs = Contestant(
            "gce without CUDA graphs" if peer == "ours" else f"TRL ({peer})",
            f"benchmarks.grpo_torch:{peer}",
            {**shape, "graphs": not plain},
        )
        outcomes = compete([mine, theirs], rounds, warm_up=not options["gain"])
    device = "CPU" if options["cpu"] or not torch.cuda.is_available() else torch.cuda.get_device_name()
    print(f"{model} on {device}: {options}", *_lines([mine.name, theirs.name], outcomes), sep="\n", flush=True)


if __name__ == "__main__":
    main()
