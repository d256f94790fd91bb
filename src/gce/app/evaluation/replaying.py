"""Make stored answers of a run or an evaluation again, from their keys, and compare text and verdict.

Every random draw of an answer has a name, so that its key, the stored settings and the weights determine it. What they
do not determine is how the backend adds up: an answer that was sampled in a batch may differ when it is sampled alone.
The run or file is not changed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

from attrs import evolve, frozen

from gce.app.evaluation.answer_file import open_answers
from gce.app.evaluation.checkpoints import arrays_digest, restore
from gce.app.evaluation.conversations import Opening, check_needs, hold, opening_of
from gce.app.evaluation.demonstrations import few_shot_turns, turns_before
from gce.app.evaluation.run import evaluated_model
from gce.app.evaluation.scoring import ask, judge, stored_outcome, stored_reward
from gce.app.evaluation.settings import EvaluateSettings, evaluate_settings
from gce.app.evaluation.stored_runs import stored_settings
from gce.app.notebook import watch_of
from gce.app.training.given import Given
from gce.app.training.records import versions
from gce.app.training.run import Prepared, prepared_again
from gce.app.training.sampling import rollout_opening, rollout_sampling
from gce.app.training.state import Watcher
from gce.app.transcripts import StoredAnswer, find_answers, stored_answers, task_of
from gce.app.wiring.access import access_of
from gce.app.wiring.evaluators import VERIFIER, find_evaluator
from gce.app.wiring.models import TEMPLATE_SETTINGS
from gce.app.wiring.names import find_strategy, is_given, is_trained, plain_name
from gce.app.wiring.runs import find_adapter, open_run
from gce.app.wiring.solvers import find_solve
from gce.app.wiring.tasks import stored_problem
from gce.domain.answers import Answer
from gce.domain.completions import Completion
from gce.domain.learning import ModelState
from gce.domain.problems import Problem, ProblemId
from gce.domain.strategies.requests import MODEL, Settings
from gce.domain.strategies.single_turn import FEW_SHOT
from gce.domain.tasks import ProblemSource, Task
from gce.errors import BadInput
from gce.ports.evaluator import Evaluator
from gce.ports.model import Adaptable, Sampler
from gce.ports.runs import AnswerReader, RunReader

__all__ = ["Replayed", "replay"]

_MOST_NAMED = 6
Sampled = Callable[[Sequence[StoredAnswer]], Sequence[Answer]]
"""From the stored answers of a batch to the same answers, sampled again together."""


@frozen
class Replayed:
    """A stored answer, and the same one made again."""

    key: str
    moment: str
    batch: int
    """How many answers were sampled together now."""
    of: int
    """How many were sampled together then, unless the run was interrupted meanwhile."""
    was: str
    """Outcome that is stored."""
    now: str
    was_reward: float | None
    now_reward: float | None
    was_text: str
    now_text: str
    rejudged: str
    """Outcome of the stored text under the current verifier."""
    same_verdict: bool
    """Whether outcome and reward are equal, rewards within the evaluator's tolerance."""
    why: tuple[str, ...]
    """Known reasons for a difference, the likeliest first; empty where text and verdict are the same."""

    @property
    def same_text(self) -> bool:
        """Whether every character is the same."""
        return self.was_text == self.now_text

    @property
    def failed(self) -> bool:
        """Whether it could not be made or judged again."""
        return self.now == "failed"

    @property
    def first_difference(self) -> int | None:
        """Number of equal characters before the first different one; None where the texts are the same."""
        if self.same_text:
            return None
        pairs = zip(self.was_text, self.now_text, strict=False)
        shorter = min(len(self.was_text), len(self.now_text))
        return next((place for place, (one, other) in enumerate(pairs) if one != other), shorter)


@frozen(eq=False)
class _Source:
    """What stored answers of one moment are made again with."""

    task: Task
    evaluator: Evaluator
    sampled: Sampled
    batch_of: Callable[[StoredAnswer], Sequence[StoredAnswer]]
    """The stored answers that were sampled together with one, itself included, in the order of their requests."""
    differing: tuple[str, ...]
    """What is known to differ from the installation that made the run."""


def replay(
    run: str,
    key: str,
    *,
    moment: str | None = None,
    batch: bool = False,
    adapter: str | Path | None = None,
    precision: str | None = None,
    verify: bool = True,
    watcher: Watcher | None = None,
) -> list[Replayed]:
    """Make the answers that a key names again: one rollout, or all answers to a problem.

    Args:
        run: a run directory of `gce train`, or a file of `gce evaluate --answers`.
        key: a rollout's key, or a problem's; see `gce.app.transcripts.find_answers`.
        moment: only answers of this moment (after, before, rollouts), of a file those of this strategy.
        batch: sample everything that was sampled together with an answer, so that its batch is the same.
        adapter: of a file, the checkpoint with which its trained strategies were asked; a file holds its digest only.
        precision: of a file, the precision that the model was loaded with; None for the default.
        verify: whether to check the run's digests first.
        watcher: told of what takes long.

    Raises:
        BadInput: no answer has this key, or what it was made with is not there any more: task, model, weights.
        DamagedStore: the run is not as written.
    """
    watcher = watcher or watch_of(True)(0)
    if Path(run).is_file():
        with open_answers(run) as answers:
            if "asked" not in answers.config:
                raise BadInput(f"{run} has rows of gce answers, which do not say how they were sampled: give the run")
            chosen = find_answers(answers, key, moment)
            of_strategy = cache(partial(_of_file, answers, adapter=adapter, precision=precision, watcher=watcher))
            return _replayed(lambda stored: of_strategy(stored.moment), chosen, batch=batch)
    if adapter is not None or precision is not None:
        name = "adapter" if adapter is not None else "precision"
        raise BadInput(f"a run has its own {name}", hint=f"leave out {{{name}}}")
    with open_run(run, verify=verify) as reader:
        chosen = find_answers(reader, key, moment)
        settings = stored_settings(reader)
        if is_given(settings.task):
            task_of(reader)  # Says that it has to be given again.
        prepared = prepared_again(reader, settings, Given(None, None, None, None), watcher)
        return _replayed(partial(_of_run, reader, prepared, prepared.model.state()), chosen, batch=batch)


def _replayed(
    source_of: Callable[[StoredAnswer], _Source], chosen: Sequence[StoredAnswer], *, batch: bool
) -> list[Replayed]:
    found = []
    for stored in chosen:
        if stored.record["finish_reason"] == "error":
            raise BadInput(f"{_key(stored)} failed when it was sampled: there is no answer to compare with")
        source = source_of(stored)
        then = source.batch_of(stored)
        asked = then if batch else [stored]
        answers = source.sampled(asked)
        place = next(place for place, each in enumerate(asked) if each.number == stored.number)
        found.append(_compared(source, stored, answers[place], len(asked), len(then)))
    return found


def _compared(source: _Source, stored: StoredAnswer, answer: Answer, batch: int, of: int) -> Replayed:
    record = stored.record
    completion = Completion(_key(stored), record["text"], record["finish_reason"], record["policy"])
    rejudged = judge(source.task, source.evaluator, answer.problem, completion)
    was, was_reward = stored_outcome(record), stored_reward(record)
    same = was == answer.outcome and _close(was_reward, answer.reward, source.evaluator.tolerance)
    found = Replayed(
        key=_key(stored),
        moment=stored.moment,
        batch=batch,
        of=of,
        was=was,
        now=answer.outcome,
        was_reward=was_reward,
        now_reward=answer.reward,
        was_text=record["text"],
        now_text=answer.completion.text,
        rejudged=rejudged.outcome,
        same_verdict=same,
        why=(),
    )
    if found.same_text and same:
        return found
    return evolve(found, why=_why(found, record["policy"], answer.completion.policy, source.differing))


def _why(found: Replayed, was: str, now: str, differing: tuple[str, ...]) -> tuple[str, ...]:
    why = []
    if found.failed:
        why.append("it could not be made or judged again")
    if found.rejudged != found.was:
        why.append(f"the verifier has changed: it now judges the stored text {found.rejudged}")
    if not found.same_text:
        if was != now:
            why.append(f"the weights differ: {was[:16]} then, {now[:16]} now")
        if found.batch < found.of:
            why.append(
                f"it was sampled in a batch of {found.of} and now alone: sums in another order round differently, and "
                "a sampled token can change with them; {batch} samples the whole batch again"
            )
        why += differing
        if not why:
            why.append("no difference is known: the backend may not repeat its answers, or the processor is another")
    return tuple(why)


def _close(one: float | None, other: float | None, tolerance: float) -> bool:
    return one == other if one is None or other is None else abs(one - other) <= tolerance


def _key(stored: StoredAnswer) -> str:
    return str(stored.record.get("key", stored.problem))


def _of_run(run: RunReader, prepared: Prepared, start: ModelState, stored: StoredAnswer) -> _Source:
    """What an answer of a training run is made with, the weights that wrote it in the model."""
    settings, task, evaluator, model = prepared.settings, prepared.task, prepared.evaluator, prepared.model
    is_rollout = stored.moment == "rollouts"
    iteration = int(stored.record["iteration"]) - 1 if is_rollout else None
    if iteration == 0 or stored.moment == "before":
        restore(model, start, run.name, settings.model.name)
    else:
        restore(model, _checkpoint(run, iteration), run.name, settings.model.name)
    source = ProblemSource(task)

    def tested(stored: Sequence[StoredAnswer]) -> Sequence[Answer]:
        problems = [stored_problem(source, each.record) for each in stored]
        return ask(model, task, evaluator, problems, seed=settings.seed, max_tokens=settings.rollouts.max_tokens)

    def rolled_out(stored: Sequence[StoredAnswer]) -> Sequence[Answer]:
        openings = {_key(each): _rollout(prepared, each, stored_problem(source, each.record)) for each in stored}
        held = hold(openings, {MODEL: model}, task, evaluator, rollout_sampling(settings, {}))
        return [held[_key(each)].last for each in stored]

    def batch_of(one: StoredAnswer) -> Sequence[StoredAnswer]:
        every = stored_answers(run, [one.moment])
        return [each for each in every if not is_rollout or _wave(each, settings.rollouts.samples) == wave]

    wave = _wave(stored, settings.rollouts.samples) if is_rollout else None
    sampled = rolled_out if is_rollout else tested
    return _Source(task, evaluator, sampled, batch_of, _differing(run.config.get("versions", {})))


def _checkpoint(run: RunReader, iteration: int | None) -> ModelState:
    try:
        return run.checkpoint(iteration)[1]
    except BadInput as error:
        raise BadInput(
            f"the weights that wrote it are not kept: {error}. A run keeps those of its newest and its best iteration; "
            "rollouts of the iteration after one of them, and of the first iteration, can be made again"
        ) from error


def _wave(stored: StoredAnswer, first: int) -> tuple[int, bool]:
    """Iteration, and whether it is of the second wave, whose samples have the numbers from `first` on."""
    return int(stored.record["iteration"]), int(_key(stored).rpartition("/")[2]) >= first


def _rollout(prepared: Prepared, stored: StoredAnswer, problem: Problem) -> Opening:
    settings, strategy = prepared.settings, prepared.strategy
    number, sample = int(stored.record["iteration"]), int(_key(stored).rpartition("/")[2])
    if stored.record["shown"] and not strategy.needs_examples:
        strategy = FEW_SHOT
    shots = settings.demonstrations.shots if strategy.needs_examples else 0
    before = turns_before(problem, prepared.worked, shots, number)
    return rollout_opening(settings, prepared.task, strategy, problem, number, sample, before)


def _differing(then: Mapping[str, str]) -> tuple[str, ...]:
    now = versions()
    changed = [
        f"{name} {then.get(name, 'none')} then, {now.get(name, 'none')} now"
        for name in sorted({*then, *now})
        if then.get(name) != now.get(name)
    ]
    return (f"another backend or version: {'; '.join(changed[:_MOST_NAMED])}",) if then and changed else ()


def _of_file(
    answers: AnswerReader, moment: str, *, adapter: str | Path | None, precision: str | None, watcher: Watcher
) -> _Source:
    """What the answers of a strategy of an evaluation are made with."""
    asked = answers.config["asked"]
    given = _settings_of(asked, precision)
    task, strategy = task_of(answers), find_strategy(moment)
    evaluator = find_evaluator(task, given.runner, given.evaluator)
    learned = _learned(asked, moment, adapter)
    model = evaluated_model(given, task, asked["preset"], learned, watcher, access_of(given))
    if learned is not None:
        assert isinstance(model, Adaptable)
        restore(model, learned, str(adapter), given.model_name)
    drawing = Settings(given.seed, given.temperature, given.samples, given.max_tokens)
    if strategy.needs_examples:
        solve = find_solve(given.examples)
        turns = few_shot_turns(task, evaluator, asked["preset"], asked["tiers"], given.shots, solve=solve)
        drawing = evolve(drawing, examples=turns)
    check_needs(strategy, task, drawing, model)
    source = ProblemSource(task)

    def sampled(stored: Sequence[StoredAnswer]) -> Sequence[Answer]:
        openings = {}
        for each in stored:
            problem = stored_problem(source, {"problem": _problem(each)})
            openings[_key(each)] = opening_of(_key(each), strategy, task, problem, drawing)
        assert isinstance(model, Sampler)
        held = hold(openings, {MODEL: model}, task, evaluator, drawing)
        return [held[_key(each)].last for each in stored]

    def place(each: StoredAnswer) -> tuple[int, int, int]:
        problem = ProblemId.parse(_problem(each))
        return asked["tiers"].index(problem.tier), problem.index, int(_key(each).rpartition("/")[2])

    def batch_of(_one: StoredAnswer) -> Sequence[StoredAnswer]:
        return sorted(stored_answers(answers, [moment]), key=place)

    differing = ["a file of answers does not keep precision, device, threads and versions: they may be others"]
    if "learn" not in model.info().capabilities:
        differing.append("a model behind a server may not repeat its answers, whatever its seed")
    return _Source(task, evaluator, sampled, batch_of, tuple(differing))


def _problem(stored: StoredAnswer) -> str:
    """The problem that a conversation was about, where its last attempt may be about a variant of it."""
    return _key(stored).rpartition("/")[0]


def _settings_of(asked: Mapping[str, Any], precision: str | None) -> EvaluateSettings:
    """The settings of an evaluation, as its file keeps them."""
    for name, what in (("roles", "models for other roles"), ("shown", "the best trajectories of a run as examples")):
        if name in asked:
            raise BadInput(f"an evaluation with {what} cannot be replayed: its file does not keep them")
    if is_given(evaluator := asked.get("evaluator", VERIFIER)):
        raise BadInput(f"the evaluator {plain_name(evaluator)!r} was given from Python: replay needs one by name")
    names = ("task", "preset", "model", "split", "n", "samples", "temperature", "max_tokens", "seed", "shots")
    more = ("examples", "problem_seed", "evaluator", *TEMPLATE_SETTINGS)
    chosen = {name: asked[name] for name in (*names, *more) if name in asked}
    return evaluate_settings(chosen | ({} if precision is None else {"precision": precision}))


def _learned(asked: Mapping[str, Any], strategy: str, adapter: str | Path | None) -> ModelState | None:
    """The adapter that a trained strategy was asked with."""
    if not is_trained(strategy):
        return None
    if adapter is None:
        raise BadInput(f"the strategy {strategy} was asked with an adapter", hint="give it with {adapter}")
    learned = find_adapter(adapter)
    if arrays_digest(learned) != asked["adapter"]:
        raise BadInput(f"{adapter} is not the adapter that the evaluation was made with: its arrays differ")
    return learned
