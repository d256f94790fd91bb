r"""Every extension point once: a task, strategy, algorithm, metric, evaluator, model and store of your own.

python own_everything.py
gce train --task own_everything:LARGER --model own_everything:Habits --evaluator own_everything:LastNumber \
        --algorithm own_everything:CENTRED --iterations 4 --test 50
gce evaluate --task own_everything:LARGER --model own_everything:Habits --evaluator own_everything:LastNumber \
        --strategies zero-shot,own_everything:SWAPPED --metrics own_everything:FIRST --n 50
"""

import re
from typing import Any

import numpy as np
from attrs import evolve

import gce
from gce.adapters.runs.memory_store import MemoryRuns
from gce.domain.learning import ModelState, UpdateReport
from gce.domain.models import ModelInfo
from gce.domain.strategies.requests import Ask


def judged(problem: Any, answer: str, evaluator: str) -> tuple[gce.Verdict, ...]:
    right = answer == str(max(problem.instance))
    return (gce.Verdict("right" if right else "wrong", float(right), evaluator, "1"),)


def swapped(task: Any, problem: Any, _settings: Any) -> Any:
    return ((yield Ask(task.prompt(problem.instance[::-1], None))),)


# A task: how problems are drawn and shown, and what a right answer is. This one wants the number and nothing else.
LARGER = gce.Task(
    name="larger",
    presets={"digits": (gce.TaskTier("two"), gce.TaskTier("three", held_out=True))},
    draw=lambda _preset, tier, rng, _solve: tuple(rng.sample(range(10, 100 if tier == "two" else 1000), 2)),
    prompt=lambda pair, _rng: (gce.Message("user", f"Which is larger, {pair[0]} or {pair[1]}?"),),
    digest=str,
    verify=lambda problem, completion, _evidence: judged(problem, completion.text, "larger"),
    instance_type=tuple[int, int],
)
# A strategy: how the model is asked, by a generator of requests. Here the numbers change places.
SWAPPED = gce.Strategy("swapped", swapped, "with the two numbers in the other order")
# An algorithm: from the rewards of one problem's rollouts to their weights in the loss.
CENTRED = gce.Algorithm("centred", lambda rewards: tuple(each - sum(rewards) / len(rewards) for each in rewards))
# A metric: a contribution of each answer, problem or run, and an estimate made from them.
FIRST = evolve(
    gce.METRICS["truncated"],  # A share of answers, its interval included; what is counted is one's own.
    name="first",
    help="answers that name the problem's first number",
    higher_is_better=None,
    contribution=lambda found: f" {found[0].last.problem.instance[0]}." in found[0].last.completion.text,
)


# An evaluator: judges in place of the task's verifier. This one takes the last number in an answer.
class LastNumber:
    deterministic, tolerance = True, 0.0

    def __init__(self, _task: Any = LARGER, _runner: Any = None) -> None: ...

    def judge(self, answers: Any) -> Any:
        for problem, completion in answers:
            numbers = re.findall("[0-9]+", completion.text)
            yield problem, completion, judged(problem, "".join(numbers[-1:]), "last number")


# A model: samples and learns. Its four weights are logits of what it may name: the first, second, smaller or larger.
class Habits:
    def __init__(self, *_given: Any) -> None:
        self.logits = np.zeros(4)

    def info(self) -> ModelInfo:
        identity = f"habits {self.logits.tobytes().hex()}"
        return ModelInfo(identity, frozenset({"sample", "learn"}), parameters=4, trainable_parameters=4)

    def shares(self, messages: Any, temperature: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
        first, second = map(int, re.findall("[0-9]+", messages[0].content))
        powers = np.exp((self.logits - self.logits.max()) / max(temperature, 1e-6))
        return np.array([first, second, min(first, second), max(first, second)]), powers / powers.sum()

    def sample(self, requests: Any) -> Any:
        for each in requests:
            named, shares = self.shares(each.messages, each.temperature)
            said = int(np.random.Generator(np.random.Philox(each.seed)).choice(named, p=shares))
            likely = float(np.log(self.shares(each.messages)[1][named == said].sum()))
            yield gce.Completion(each.key, f"It is {said}.", "stop", self.info().identity, None, (said,), (likely,))

    def update(self, batch: gce.TrainingBatch) -> UpdateReport:
        gradient, loss, count = np.zeros(4), 0.0, len(batch.traces)
        for trace, weight in zip(batch.traces, batch.weights, strict=True):
            named, shares = self.shares(trace.messages)
            same = shares * (named == (trace.completion.token_ids or (0,))[0])
            gradient, loss = gradient + weight * (same / same.sum() - shares), loss - weight * np.log(same.sum())
        self.logits = self.logits + gradient / count  # Plain REINFORCE: neither `batch.clip` nor `batch.kl`.
        return UpdateReport(float(loss) / count, count, float(np.linalg.norm(gradient / count)))

    def state(self) -> ModelState:
        return ModelState({"adapter.logits": self.logits.copy()})

    def restore(self, state: ModelState) -> None:
        self.logits = state.arrays["adapter.logits"].copy()


# A store: where runs are kept. The shipped one in memory, which tells of each run that begins.
class ToldRuns(MemoryRuns):
    def create(self, name: str, config: Any) -> Any:
        print(f"run {name}: {config['settings']['objective']['algorithm']}, {config['settings']['evaluator']}")
        return super().create(name, config)


if __name__ == "__main__":
    own: dict[str, Any] = {"task": LARGER, "evaluator": LastNumber(), "progress": False}
    run = gce.train(**own, model=Habits(), algorithm=CENTRED, runs=ToldRuns(), run="larger")
    for tier, before in run.before.items():
        print(f"{tier} digits: {before.share:.0%} right before, {run.after[tier].share:.0%} after")
    found: Any = gce.evaluate(**own, model=Habits(), strategies=["zero-shot", SWAPPED], metrics=[FIRST], n=50)
    for name, first in found.estimates("first").items():
        print(f"untrained, {name}: names the first number in {first['two'].share:.0%} of its answers")
