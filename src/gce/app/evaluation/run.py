"""An evaluation: a model, strategies and problems in; conversations and estimates out."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import cached_property, partial
from itertools import islice
from typing import Any, Unpack

from attrs import evolve, field, frozen

from gce.app.answers import Answers
from gce.app.evaluation.answer_file import AnswerFile, stored_setting
from gce.app.evaluation.checkpoints import arrays_digest, restore, shape_of
from gce.app.evaluation.comparison import Measured, against
from gce.app.evaluation.conversations import check_needs, converse
from gce.app.evaluation.demonstrations import Turns, few_shot_turns
from gce.app.evaluation.learned_examples import best_trajectories, shown_digest
from gce.app.evaluation.one_outcome import Asked, one_outcome_lines
from gce.app.evaluation.resolution import all_tip, folds_call, folds_tip, resolution
from gce.app.evaluation.results import shown
from gce.app.evaluation.scoring import answer_record, judge_each
from gce.app.evaluation.settings import EvaluateKeywords, EvaluateSettings, evaluate_settings
from gce.app.evaluation.several_models import (
    alone_of,
    check_at_once,
    check_several,
    is_metered,
    settings_of,
    used_lines,
)
from gce.app.evaluation.shifts import AS_ASKED, answers_of_shift, shifts_of
from gce.app.evaluation.shown_answers import is_own
from gce.app.evaluation.splits import ALL, check_listed, drawn, split_words
from gce.app.interruption import saying_if_interrupted, saying_if_slow
from gce.app.loaded_model import LoadedModel, model_of
from gce.app.notebook import watch_of
from gce.app.options import MOST_ANSWERS
from gce.app.settings.records import LoraSettings
from gce.app.shown import Part, html_of, lines_of
from gce.app.terminal import as_given
from gce.app.training.state import Watcher
from gce.app.wiring.access import Access, access_of
from gce.app.wiring.evaluators import VERIFIER, find_evaluator
from gce.app.wiring.files import check_appended
from gce.app.wiring.models import TEMPLATE_SETTINGS, check_no_template, check_precision, default_model, find_model
from gce.app.wiring.names import TRAINED, entry, find_strategy, is_trained, name_of
from gce.app.wiring.runs import find_adapter, open_run
from gce.app.wiring.solvers import find_solve
from gce.app.wiring.system import peak_bytes, reset_peak
from gce.app.wiring.tasks import find_preset, find_task, find_tiers, problems_digest, say_if_many
from gce.domain.answers import Answer
from gce.domain.conversations import Conversation
from gce.domain.learning import ModelState
from gce.domain.measurements import Interval
from gce.domain.metrics import METRICS, Metric, MetricSettings, by_tier
from gce.domain.paired import Gain
from gce.domain.problems import Problem
from gce.domain.serialization import to_plain
from gce.domain.statistics import Estimate
from gce.domain.strategies.requests import ANOTHER, Settings, Strategy
from gce.domain.strategies.single_turn import FEW_SHOT, ZERO_SHOT
from gce.domain.tasks import Task
from gce.domain.text import counted
from gce.errors import BadInput, ModelError, SettingError
from gce.ports.evaluator import Evaluator
from gce.ports.model import Adaptable, Sampler

__all__ = ["EvaluateSettings", "Evaluation", "evaluate", "evaluated", "evaluated_model", "saying_what_was_used"]


@frozen(slots=False, repr=False)
class Evaluation:
    """What an evaluation found, by strategy: the name that it was asked for under. Printed, it is the table."""

    settings: EvaluateSettings
    task: Task
    evaluator: Evaluator
    preset: str
    problems: tuple[Problem, ...]
    strategies: Mapping[str, Strategy]
    metrics: Mapping[str, Metric[Any]]
    """Those that were asked for, by the name that they were asked for under."""
    measured: Mapping[str, Measured]
    shifts: Mapping[str, Evaluation] = field(factory=dict)
    """The same on the task's distribution shifts, by what differs; empty unless they were asked for."""

    @property
    def conversations(self) -> dict[str, tuple[Conversation, ...]]:
        """With the answers, in the order of the problems."""
        return {name: each.conversations for name, each in self.measured.items()}

    def estimates(self, metric: Metric[Any] | str = "accuracy") -> dict[str, dict[str, Interval | Estimate]]:
        """By strategy and tier; the metric is one's own, or its name."""
        metric = self._metric(metric)
        settings = MetricSettings(interval=self.settings.interval)
        return {name: by_tier(metric, each, settings) for name, each in self.conversations.items()}

    def answers(self) -> Answers:
        """Every answer that counts, with its strategy, prompt and verdicts."""
        return Answers(
            lambda: (
                {**self._row(name), **answer_record(each.last)}
                for name, held in self.conversations.items()
                for each in held
            )
        )

    def _row(self, name: str) -> dict[str, str]:
        strategy = {"strategy": self.strategies[name].name if self.settings.models else name}
        return {"model": name, **strategy} if self.settings.models else strategy

    def __str__(self) -> str:
        return "\n".join(lines_of(self._shown))

    def __repr__(self) -> str:
        settings, strategies = self.settings, ", ".join(self.strategies)
        return f"<Evaluation of {settings.model_name} on {self.task.name}/{self.preset}: {strategies}>"

    def _repr_html_(self) -> str:
        return html_of(self._shown)

    @cached_property
    def _shown(self) -> list[Part]:
        return shown(self)[1]

    def gains(self, metric: Metric[Any] | str = "accuracy") -> dict[str, Gain]:
        """Each strategy against zero-shot, or else against the first one, see `against`."""
        return against(self.measured, self._metric(metric))

    def _metric(self, metric: Metric[Any] | str) -> Metric[Any]:
        return {**METRICS, **self.metrics}[metric] if isinstance(metric, str) else metric


def evaluate(
    task: Task | str = "scheduling",
    model: Any = None,
    *,
    progress: bool = True,
    watcher: Watcher | None = None,
    **settings: Unpack[EvaluateKeywords],
) -> Evaluation:
    """Measure a model on problems of a task.

    Other settings are keywords, the fields of `gce.EvaluateSettings`. Common ones:

        preset          set of tiers (default None: the task's first)
        adapter         checkpoint of a run, for the strategies trained, trained-few-shot ... (default None)
        strategies      one or several, as ["zero-shot", "few-shot"] (default: zero-shot, with an adapter trained)
        tiers           one or several (default: all)
        split           test, dev, or all for every question of a list (default "test")
        n               problems a tier (default 200)
        samples         conversations about each problem, for pass@k (default 1)
        shifts          whether to measure the distribution shifts that the task declares, too (default False)
        temperature     of sampling; 0 is greedy (default 0.0)
        max_tokens      of a reply (tokens, default None: the task's)
        seed            of sampling (default 0)
        answers         file that keeps the answers: the same call then continues (default None)
        models          several models on the same problems, compared with the first (default: none)
        max_cost        US dollars, max_tokens_total and max_minutes: limits of all requests (default None)
        cache           directory that keeps answers of models behind servers (default None)

    `help(gce.EvaluateSettings)` has all of them.

    Args:
        task: a task, or its name.
        model: a name, what `gce.load_model` returned, a run's `result.model`, a function of messages or a model of
            one's own; None takes the task's default.
        progress: whether progress is shown: below the cell of a notebook, else on standard error.
        watcher: receives progress instead of the screen.
        settings: further settings by name.

    Raises:
        SettingError: no such setting, or a value out of range.
        BadInput: a name or a combination of settings that cannot be used; nothing has been asked then.
        GceError: the model, its adapter or the file of answers cannot be used.
    """
    given = evaluate_settings({"task": task, "model": model, **settings})
    watcher, access = watcher or watch_of(progress)(0), access_of(given)
    with saying_what_was_used(watcher, access):
        return _several(given, watcher, access) if given.models else evaluated(given, watcher, access)


@contextmanager
def saying_what_was_used(watcher: Watcher, access: Access) -> Iterator[None]:
    """Say at the end what all requests together cost."""
    try:
        yield
    except ModelError:
        watcher.say(*used_lines(access))
        raise
    watcher.say(*used_lines(access))


def _several(given: EvaluateSettings, watcher: Watcher, access: Access) -> Evaluation:
    """Each model on the same problems; the result has a row for each, compared with the first."""
    check_several(given)
    task = find_task(given.task) if isinstance(given.task, str) else given.task
    alone = dict(zip(given.model_names, map(partial(alone_of, given), given.models), strict=True))
    for each in alone.values():
        check_at_once(each, task, access)
    found = {}
    for name, each in alone.items():
        watcher.say(f"model {name}")
        found[name] = evaluated(_with_another(each, alone, task, watcher, access), watcher, access)
    first = next(iter(found.values()))
    (strategy,) = first.strategies
    return evolve(
        first,
        settings=given,
        strategies={name: each.strategies[strategy] for name, each in found.items()},
        measured={name: each.measured[strategy] for name, each in found.items()},
    )


def _with_another(
    given: EvaluateSettings, alone: Mapping[str, EvaluateSettings], task: Task, watcher: Watcher, access: Access
) -> EvaluateSettings:
    """The settings for one of several models, with the next of them as another one where the strategy asks it."""
    if not any(ANOTHER in each.roles for each in _strategies(given).values()) or ANOTHER in given.roles:
        return given
    names = list(alone)
    following = alone[names[(names.index(given.model_name) + 1) % len(names)]]
    another = evaluated_model(following, task, find_preset(task, given.preset or ""), None, watcher, access)
    return evolve(given, roles={ANOTHER: another, **given.roles})


def evaluated(given: EvaluateSettings, watcher: Watcher, access: Access) -> Evaluation:
    """One model."""
    strategies, metrics = _strategies(given), _metrics(given)
    found = find_task(given.task) if isinstance(given.task, str) else given.task
    given = evolve(given, model=default_model(found) if given.model is None else given.model)
    if given.answers is not None and given.template_date is None:  # The same call goes on another day.
        given = evolve(given, template_date=stored_setting(given.answers, "template_date"))
    preset = find_preset(found, given.preset or "")
    distributions = {AS_ASKED: _distribution(given, found, preset, strategies)}
    distributions |= _shifts(given, found, preset, strategies)
    learned = None if given.adapter is None else find_adapter(given.adapter)
    with saying_if_interrupted(f"interrupted while the model {given.model_name} was being loaded: nothing was asked"):
        loaded = evaluated_model(given, found, preset, learned, watcher, access)
    counted = None if is_metered(given) else access
    results = {}
    for what, each in distributions.items():
        if len(distributions) > 1:
            watcher.say(f"{what}: {each.task.name}/{each.preset}")
        results[what] = each.measured(strategies, metrics, loaded, learned, watcher, counted)
    result = results.pop(AS_ASKED)
    return evolve(result, shifts=results)


@frozen
class _Distribution:
    """A task and a preset that are to be measured, and how."""

    given: EvaluateSettings
    task: Task
    preset: str
    tiers: tuple[str, ...]
    evaluator: Evaluator
    drawing: Settings

    def measured(
        self,
        strategies: Mapping[str, Strategy],
        metrics: Mapping[str, Metric[Any]],
        loaded: Sampler,
        learned: ModelState | None,
        watcher: Watcher,
        access: Access | None,
    ) -> Evaluation:
        """Ask the model, or take what is kept of its answers; `access` counts what the model does not count itself."""
        given, task, preset = self.given, self.task, self.preset
        tip = all_tip() if given.split == "test" and not _trained_models(given) else folds_tip()
        watcher.say(*resolution(task, preset, given.n, given.split, tip="" if given.split == ALL else tip))
        for strategy in strategies.values():
            check_needs(strategy, task, self.drawing, loaded, roles=given.roles, environments=given.environments)
        problems = tuple(
            problem
            for tier in self.tiers
            for problem in drawn(task, preset, tier, given.split, given.n, seed=given.problem_seed)
        )
        if not problems:
            raise BadInput(f"task {task.name} has no {split_words(given.split)} problems in preset {preset}")
        asked = _asked(given, task, preset, loaded, problems, learned)
        if given.examples_from is not None:
            asked["shown"] = shown_digest(self.drawing.examples)
        again = "answers='answers.jsonl' keeps answers for that"
        if given.answers is not None:
            again = f"the same call goes on: {given.answers} has the answers"
        with (
            saying_if_interrupted(f"the evaluation was interrupted; {again}"),
            nullcontext() if given.answers is None else AnswerFile(given.answers, asked, problems) as kept,
        ):
            holding = _Holding(given, task, self.evaluator, problems, loaded, self.drawing, kept, watcher, access)
            measured = holding.hold(strategies, learned)
        return Evaluation(given, task, self.evaluator, preset, problems, strategies, metrics, measured)


def _distribution(
    given: EvaluateSettings, task: Task, preset: str, strategies: Mapping[str, Strategy]
) -> _Distribution:
    check_listed(task, given.split)
    evaluator = find_evaluator(task, given.runner, given.evaluator)
    tiers = find_tiers(task, preset, given.tiers)
    drawing = Settings(given.seed, given.temperature, given.samples, given.max_tokens)
    if any(strategy.needs_examples for strategy in strategies.values()):
        drawing = evolve(drawing, examples=_examples(given, task, evaluator, preset, tiers))
    return _Distribution(given, task, preset, tiers, evaluator, drawing)


def _examples(
    given: EvaluateSettings, task: Task, evaluator: Evaluator, preset: str, tiers: Sequence[str]
) -> dict[str, Turns]:
    """Few-shot examples by tier: demonstrations, or the best trajectories of a run."""
    if given.examples_from is None:
        return few_shot_turns(task, evaluator, preset, tiers, given.shots, solve=find_solve(given.examples))
    with open_run(given.examples_from) as run:
        return best_trajectories(run, given.task_name, tiers, given.shots)


def _shifts(
    given: EvaluateSettings, task: Task, preset: str, strategies: Mapping[str, Strategy]
) -> dict[str, _Distribution]:
    """The distribution shifts that are asked for, by what differs; each keeps its answers in a file of its own.

    Few-shot examples are those of the shift.
    """
    found = {}
    for what, (shifted, other) in shifts_of(task, preset).items() if given.shifts else ():
        answers = given.answers and answers_of_shift(given.answers, what)
        if answers is not None:
            check_appended(answers, instead="give another {answers}")
        found[what] = _distribution(
            evolve(given, task=shifted, preset=other, answers=answers), shifted, other, strategies
        )
    if given.shifts and not found:
        message = f"task {task.name} declares no distribution shifts: leave out {{shifts}}"
        raise SettingError("shifts", "False", True, message)
    return found


def _metrics(given: EvaluateSettings) -> dict[str, Metric[Any]]:
    """The metrics that are asked for, by name."""
    return {
        each if isinstance(each, str) else each.name: entry(each, METRICS, Metric, "metric")
        if isinstance(each, str)
        else each
        for each in given.metrics
    }


def _strategies(given: EvaluateSettings) -> dict[str, Strategy]:
    """The strategies that are asked for, by name."""
    if given.n * given.samples > MOST_ANSWERS:
        asked = f"{given.n:,} times {given.samples:,}"
        message = f"expected {{n}} times {{samples}} of at most {MOST_ANSWERS:,} answers per tier, got {asked}"
        raise SettingError("n", f"at most {MOST_ANSWERS:,} answers per tier", asked, message)
    if given.samples > 1 and given.temperature == 0.0:
        message = "{samples} above 1 needs {temperature} above 0: greedy answers to a problem are all equal"
        raise SettingError("temperature", "above 0", 0.0, message)
    if given.answers is not None:
        if not given.answers.parent.is_dir():
            raise BadInput(f"cannot write {given.answers}: {given.answers.parent} is no directory")
        check_appended(given.answers, instead="give another {answers}")
    default = ZERO_SHOT.name if given.adapter is None else TRAINED
    strategies = {
        each if isinstance(each, str) else each.name: find_strategy(each) if isinstance(each, str) else each
        for each in given.strategies or (default,)
    }
    if len(strategies) < len(given.strategies):
        raise BadInput(f"expected strategies with different names, got {', '.join(strategies)} more than once")
    trained = [name for name in strategies if is_trained(name)]
    if trained and given.adapter is None:
        message = f"strategy {trained[0]} needs {{adapter}}: give a run's checkpoints/last"
        raise SettingError("adapter", "a run's checkpoint", None, message)
    if given.samples > 1 and len(strategies) > 1:
        raise SettingError("samples", "1", given.samples, "{samples} above 1 needs a single strategy")
    if given.adapter is not None and not trained:
        message = "{adapter} is used only by the strategies trained, trained-few-shot and so on: add one of them"
        raise SettingError("adapter", "none", given.adapter, message)
    if given.split == ALL:
        _check_untrained(given, strategies)
    if given.shifts:
        _check_shifts(given, strategies)
    say_if_many({split_words(given.split): given.n})
    return strategies


def _trained_models(given: EvaluateSettings) -> list[str]:
    """What of the models is known to have learned: an adapter, or a model that a run left."""
    models = [each for each in (*given.models, given.model) if isinstance(each, LoadedModel) and each.has_learned]
    return [*([f"the adapter {given.adapter}"] if given.adapter is not None else []), *(each.name for each in models)]


def _check_untrained(given: EvaluateSettings, strategies: Mapping[str, Strategy]) -> None:
    """SettingError where training questions, which are among all, were learned or are shown."""
    if trained := _trained_models(given):
        message = (
            f"{{split}} {ALL} has the training questions too, and {trained[0]} may have learned them: leave out "
            f"{{split}}, or {folds_call()} tests each question with a model that was not trained on it"
        )
        raise SettingError("split", "test or dev", ALL, message)
    if shown := [name for name, each in strategies.items() if each.needs_examples]:
        message = (
            f"{{split}} {ALL} has the training questions too, and {shown[0]} shows some with their answers: leave out "
            "one of them"
        )
        raise SettingError("split", "test or dev", ALL, message)


def _check_shifts(given: EvaluateSettings, strategies: Mapping[str, Strategy]) -> None:
    """SettingError where a setting does not go with shifts, whose table has one row of accuracy for each."""
    if len(strategies) > 1:
        message = f"{{shifts}} needs a single strategy, got {', '.join(strategies)}: evaluate them one by one"
        raise SettingError("strategies", "a single strategy", tuple(strategies), message)
    if given.samples > 1:
        message = "{shifts} needs {samples} of 1: its table has accuracy, not pass@k"
        raise SettingError("samples", "1", given.samples, message)
    if given.metrics:
        message = "{shifts} compares accuracy alone: leave out {metrics}"
        raise SettingError("metrics", "none", given.metrics, message)


def evaluated_model(
    given: EvaluateSettings, task: Task, preset: str, learned: ModelState | None, watcher: Watcher, access: Access
) -> Sampler:
    """The model, without what it learned."""
    model = model_of(given.model)
    if isinstance(model, str):
        settings = evolve(settings_of(given, preset), lora=LoraSettings(**shape_of(learned)))
        with saying_if_slow(watcher.say, f"loading {model}"):
            model = find_model(settings, task, access)
    else:
        check_precision(given.precision, given.model_name)
        check_no_template(given, given.model_name)
    if not isinstance(model, Sampler):
        raise BadInput(f"model {given.model_name} cannot be evaluated: it has no sample method")
    if learned is not None and not isinstance(model, Adaptable):
        raise BadInput(f"model {given.model_name} takes no adapter", hint="leave out {adapter}")
    return model


def _asked(
    given: EvaluateSettings,
    task: Task,
    preset: str,
    model: Sampler,
    problems: Sequence[Problem],
    learned: ModelState | None,
) -> dict[str, Any]:
    """What the answers follow from: an evaluation that differs in any of it is another one."""
    names = ("split", "n", "samples", "temperature", "max_tokens", "seed", "shots", "examples")
    shown = json.dumps(to_plain(tuple(problem.prompt for problem in problems)))
    records = problems_digest(given.task_name, task)
    evaluator = name_of(given.evaluator, type(given.evaluator).__qualname__)
    roles = {role: each.info().identity for role, each in given.roles.items()}
    return (
        {"task": given.task_name, "model": given.model_name}
        | {name: getattr(given, name) for name in names}
        | {
            **({"records": records} if records else {}),  # What is hidden in them stands in no prompt.
            **({"problem_seed": given.problem_seed} if given.problem_seed else {}),
            **({"roles": roles} if roles else {}),
            **({"evaluator": evaluator} if evaluator != VERIFIER else {}),
            **{name: value for name in TEMPLATE_SETTINGS if (value := getattr(given, name))},
            **({"template_date": date} if (date := model.info().template_date) else {}),
            "preset": preset,
            "tiers": list(dict.fromkeys(problem.tier for problem in problems)),
            "problems": hashlib.sha256(shown.encode()).hexdigest(),
            "policy": model.info().identity,
            "adapter": "" if learned is None else arrays_digest(learned),
        }
    )


@frozen
class _Holding:
    """What all conversations have in common."""

    given: EvaluateSettings
    task: Task
    evaluator: Evaluator
    problems: tuple[Problem, ...]
    model: Sampler
    drawing: Settings
    kept: AnswerFile | None
    watcher: Watcher
    access: Access | None

    def hold(self, strategies: Mapping[str, Strategy], learned: ModelState | None) -> dict[str, Measured]:
        """What each strategy gives; what is kept already is not asked again."""
        if note := self.model.info().note:
            self.watcher.say(f"{self.given.model_name}: {note}")
        found: dict[str, Measured] = {}
        # What needs no adapter comes first: there is one model, and it takes the adapter once.
        for name in sorted(strategies, key=lambda name: is_trained(name)):
            if is_trained(name) and learned is not None and self.given.adapter is not None:
                assert isinstance(self.model, Adaptable)
                restore(self.model, learned, self.given.adapter, self.given.model_name)
                learned = None
            reset_peak()
            found[name] = self._measured(name, strategies[name])
            judged = found[name].judged
            right, failed = sum(each.right for each in judged), sum(each.failed for each in judged)
            said = f"{right} of {len(judged) - failed} right" + (f", {failed} failed" if failed else "")
            self.watcher.say(f"{name}: {said}, {found[name].seconds:.0f} s", *self._one_outcome(name, judged))
        return {name: found[name] for name in strategies}

    def _one_outcome(self, name: str, judged: Sequence[Answer]) -> list[str]:
        """What is said where all answers, or none, are right."""
        few_shot = "" if self.given.split == ALL else as_given("strategies", FEW_SHOT.name)
        proposals = [f"few-shot examples ({few_shot})"] if few_shot and name == ZERO_SHOT.name else []
        preset = self.problems[0].id.preset
        names = [tier.name for tier in self.task.tiers(preset)]
        easier = names[: min(names.index(problem.tier) for problem in self.problems)]
        tiers = f"an easier tier ({as_given('tiers')}: {', '.join(easier)})" if easier else ""
        asked = Asked(self.task, self.given.task_name, preset, self.given.max_tokens, proposals, few_shot, tiers)
        answers = [answer for answer in judged if not answer.failed]
        lines = one_outcome_lines(name, asked, answers)
        # Answers to questions are shown below the table.
        return [line for line in lines if line.startswith(("warning", "  try: "))] if is_own(self.task) else lines

    def _reused(self, name: str, digest: str) -> dict[str, Conversation]:
        """Stored conversations, judged again: since they were written, the verifier may have changed.

        A single attempt gets its new verdict. Where a verdict on one of several attempts changed, the conversation is
        held again, because later turns depend on it.
        """
        kept = self.kept
        found = {} if kept is None else dict(kept.done(name, digest))
        if kept is None or not found or not self.evaluator.deterministic:
            return found
        attempts = [(each.problem, each.completion) for held in found.values() for each in held.attempts]
        judged, stored, changed = judge_each(self.task, self.evaluator, attempts), len(found), 0
        for which, held in list(found.items()):
            again = tuple(islice(judged, len(held.attempts)))
            pairs = list(zip(held.attempts, again, strict=True))
            if any((old.outcome, old.reward) != (new.outcome, new.reward) and not new.failed for old, new in pairs):
                changed += 1
                del found[which]
                if len(again) == 1:
                    attempt = evolve(again[0], reading=held.last.reading, notes=held.last.notes)
                    found[which] = evolve(held, attempts=(attempt,))
                    kept.add(name, which, found[which], 0.0, digest)
        said = f"; {counted(changed, 'verdict')} changed" if changed else ""
        self.watcher.say(f"{name}: {counted(stored, 'answer')} reused from {self.given.answers}, judged again{said}")
        return found

    def _measured(self, name: str, strategy: Strategy) -> Measured:
        kept, done = self.kept, self._reused(name, strategy.digest)
        left = len(self.problems) * self.given.samples - len(done)
        if self.access is not None and left:
            self.access.ledger.check()
        advance = self.watcher.stage(name, left)
        before, began = 0.0 if kept is None else kept.seconds(name), time.perf_counter()
        last = began

        def ended(which: str, conversation: Conversation) -> None:
            nonlocal last, left
            now = time.perf_counter()
            if kept is not None:
                kept.add(name, which, conversation, now - last, strategy.digest)
            last = now
            advance()
            left -= 1
            if self.access is not None:
                self.access.count(conversation.prompt_tokens, conversation.tokens)
                if left:
                    self.access.ledger.check()

        conversations = converse(
            strategy,
            self.model,
            self.task,
            self.evaluator,
            self.problems,
            self.drawing,
            roles=self.given.roles,
            environments=self.given.environments,
            done=done,
            on_end=ended,
        )
        return Measured(tuple(conversations), before + time.perf_counter() - began, peak_bytes())
