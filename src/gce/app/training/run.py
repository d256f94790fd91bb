"""A run as a function: from beginning to end (`train`), or from where it was cut off (`resume`).

Picks task, model and the place where the run is kept, and returns the result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Never, Unpack

from attrs import evolve, frozen

from gce.app.evaluation.baselines import check_references, reference_scores, solve_rates
from gce.app.evaluation.checkpoints import arrays_digest, restore, shape_of
from gce.app.evaluation.demonstrations import texts_digest
from gce.app.evaluation.resolution import folds_tip, resolution
from gce.app.evaluation.scoring import RESUME, accuracy, answer_record, ask, check_answers, stored_shares
from gce.app.evaluation.stored_runs import iteration_records
from gce.app.interruption import resume_call, saying_if_interrupted, saying_if_slow
from gce.app.loaded_model import LoadedModel, trained_model
from gce.app.notebook import watch_of
from gce.app.settings.checks import check_variants
from gce.app.settings.keywords import StoppingKeywords, TrainKeywords
from gce.app.settings.records import WARM_UP_PART, TrainSettings, parts_of_warm_up
from gce.app.settings.stored import from_stored, is_flat
from gce.app.settings.values import changed, full_names, settings_from
from gce.app.training.cut_off import cut_off_of_run
from gce.app.training.final_tests import FinalTests, Shift, planned_shifts
from gce.app.training.first_tests import taken_once
from gce.app.training.forgetting import OtherTask, forgetting_after, forgetting_before, planned_other_tasks
from gce.app.training.given import Given, algorithm_of, evaluator_of, with_model, with_names
from gce.app.training.loop import iterate, why_stop
from gce.app.training.preparation import (
    Examples,
    check_pool,
    check_strategy,
    check_task,
    demonstrations_of,
    place_adapter,
)
from gce.app.training.records import (
    evaluators_between_tests,
    gain_between_tests,
    mean_rewards,
    moved_arrays,
    summary_of,
    versions,
)
from gce.app.training.result import Result
from gce.app.training.same_answer import same_answer_of
from gce.app.training.state import Run, RunState, Watcher
from gce.app.training.state import resume as resumed_state
from gce.app.training.time_limit import TimeIsUp, in_minutes, is_over, no_time_to_train, stage
from gce.app.training.tracking import TrackedWatcher
from gce.app.training.unearned import unearned_of_run
from gce.app.wiring.models import AUTO_SAMPLER, default_model, find_learning_model, with_sampler_chosen
from gce.app.wiring.names import find_strategy, plain_name
from gce.app.wiring.runs import find_adapter, place_of
from gce.app.wiring.scores import with_scores
from gce.app.wiring.system import SystemClock
from gce.app.wiring.tasks import (
    check_no_function,
    find_preset,
    find_task,
    problems_digest,
    same_problems,
    say_if_many,
    task_name,
)
from gce.app.wiring.trackers import find_tracker, folder_of, identity_of
from gce.domain.algorithms import Algorithm
from gce.domain.diagnosis import falls
from gce.domain.evaluators.judges import JUDGE
from gce.domain.learning import ModelState
from gce.domain.models import AUTO_PRECISION
from gce.domain.problems import Problem, Split
from gce.domain.serialization import to_plain
from gce.domain.strategies.requests import Strategy
from gce.domain.tasks import Listed, Task, draw_problems
from gce.domain.tasks.reward import all_right
from gce.domain.tracking import TrackedRun, plain_settings
from gce.errors import BadInput, SettingError
from gce.ports.evaluator import Evaluator
from gce.ports.model import LearningModel, Probe
from gce.ports.runs import RunReader, Runs, RunWriter
from gce.ports.tracker import Tracker

__all__ = ["Prepared", "prepared_again", "resume", "train"]

FITTED_TO = 100
"""Training problems a tier to which prompt-blind baselines are fitted in a run; `gce audit` takes 500."""
Watch = Callable[[int], Watcher]
"""From the number of the last iteration to who watches the run."""


def train(
    settings: TrainSettings | None = None,
    *misplaced: Never,
    task: str | Task | None = None,
    model: Any = None,
    algorithm: str | Algorithm | None = None,
    evaluator: str | Evaluator | None = None,
    run: str | Path | None = None,
    runs: Runs | None = None,
    measure_before: bool = True,
    progress: bool = True,
    watch: Watch | None = None,
    track: str | Tracker | None = None,
    sources: Mapping[str, str] | None = None,
    **given: Unpack[TrainKeywords],
) -> Result:
    """Train a model on its own verified answers, from beginning to end.

    Settings are keywords: each by its own name, as `learning_rate=3e-4`, or a whole section as a mapping of what
    differs, as `optimizer={"learning_rate": 3e-4}`. What is not given has the value of the `recipe`. Common ones:

        iterations      at most so many rounds of sampling and training (default 3)
        minutes         time limit, with time left for the tests at the end, which are taken whole (default None)
        problems        problems of an iteration, over all tiers (default 64)
        samples         rollouts of each problem (default 8)
        temperature     of rollouts (default 0.8)
        max_tokens      of a completion (tokens, default None: the task's)
        learning_rate   of AdamW (default 0.001)
        updates         optimizer steps of an iteration (default 8)
        test            test problems a tier, before and after training (default 200)
        shifts          test problems a tier of each shift after training (default None: 40, with test of 40 up)
        seed            of problems, rollouts, batches and the adapter (default 0)

    docs/SETTINGS.md, and `gce train --help-all` in a shell, have all of them.

    Args:
        settings: all settings as one record, instead of keywords; the other arguments replace what it says.
        misplaced: nothing; what stands here is refused with the keyword to use.
        task: a name or a `Task`, which is taken as it is.
        model: a name, settings of the section `model`, what `gce.load_model` returned, or a model of one's own (a
            Sampler and Learner of `gce.ports.model`). A model that was loaded by name is loaded again for the run, with
            the run's settings: what was loaded stays as it was.
        algorithm: a name, or an `Algorithm`.
        evaluator: a name, or an `Evaluator` of `gce.ports.evaluator`.
        run: the directory where the run is kept, new or empty; None for the memory. With `runs`, its name there.
        runs: where to keep it, where that is one's own.
        measure_before: whether the test is also taken before the first iteration.
        progress: whether progress is shown: below the cell of a notebook, else on standard error.
        watch: (number of the last iteration) -> what receives progress instead of the screen.
        sources: where settings come from that differ from the defaults, by dotted name; kept with the run.
        track: the name of an experiment tracker, or a `gce.ports.tracker.Tracker`, which is told every iteration.
        given: settings.

    Raises:
        KeyboardInterrupt: the run was interrupted; the message says how it is resumed.
        SettingError: a value out of range, or settings that contradict one another.
        GceError: the task, the model or the place of the run cannot be used; or the run was refused on its way.
    """
    for each in (settings, task):
        check_no_function(each)
    if not isinstance(settings, TrainSettings | None):
        raise BadInput(f"settings must be a TrainSettings, got {settings!r:.60}: write gce.train(task=...)")
    if misplaced:
        raise BadInput(
            f"expected settings alone before keywords, got {misplaced!r:.60}, too: write gce.train(task=...)"
        )
    if settings is not None and given:
        raise ValueError(f"expected settings as a whole or one by one, got both: {', '.join(sorted(given))}")
    _check_kinds(task=(task, str, Task), run=(run, str, Path))
    settings, own_model = with_model(settings_from(given) if settings is None else settings, model)
    settings = with_names(settings, algorithm, evaluator)
    own_runs, in_memory = runs is not None, run is None and runs is None
    runs, name = place_of(run, runs)
    runs.check_free(name)
    tracker = None if track is None else find_tracker(track)
    found = task if isinstance(task, Task) else find_task(task or settings.task)
    settings = evolve(settings, task=settings.task if task is None else task_name(task))
    settings = evolve(settings, preset=find_preset(found, settings.preset))
    if not settings.model.name:
        settings = changed(settings, {"model.name": default_model(found)})
    own_task = task if isinstance(task, Task) else None
    watcher = (watch or watch_of(progress))(settings.last_iteration)
    with saying_if_interrupted(
        f"interrupted while the model {_called(settings)} was being loaded: the run did not begin"
    ):
        prepared, stored = _prepared(settings, Given(own_task, own_model, algorithm, evaluator), watcher)
    if sources:
        stored["sources"] = dict(sources)
    again = f"{resume_call(name, prepared.settings, {}, own_runs=own_runs)} goes on"
    how = "it was in memory alone: give run='runs/1' to keep it" if in_memory else again
    with saying_if_interrupted(f"the run was interrupted; {how}"), runs.create(name, stored) as store:
        return _followed(prepared, runs, store, watcher, tracker, measure_before=measure_before)


def resume(
    run: str | Path,
    changes: Mapping[str, Any] | None = None,
    *,
    task: Task | None = None,
    model: Any = None,
    algorithm: Algorithm | None = None,
    evaluator: Evaluator | None = None,
    runs: Runs | None = None,
    discard_after: int | None = None,
    measure_before: bool = True,
    progress: bool = True,
    watch: Watch | None = None,
    track: str | Tracker | None = None,
    **given: Unpack[StoppingKeywords],
) -> Result:
    """Go on with a run from its last commit, or from an earlier iteration: `gce.resume("runs/1", iterations=6)`.

    Args:
        run: the directory where it is kept.
        changes: settings of the section `stopping` by dotted name, as `{"stopping.iterations": 6}`.
        task: what the run was begun with, where that was no name.
        model: likewise.
        algorithm: likewise.
        evaluator: likewise.
        runs: as in `train`.
        discard_after: the iteration to go back to, whose checkpoint must be kept; what came after is lost.
        measure_before: as in `train`, where the run was cut off before that.
        progress: as in `train`.
        watch: as in `train`.
        track: as in `train`; where the tracker allows it, the record that it has of the run goes on.
        given: settings of the section `stopping` by their own names.

    Raises:
        SettingError: a change of another setting.
        BadInput: what the run began with is not the same any more, or an earlier version made it.
        GceError: as in `train`.
    """
    _check_kinds(task=(task, Task), run=(run, str, Path))
    own_runs = runs is not None
    runs, name = place_of(run, runs)
    tracker = None if track is None else find_tracker(track)
    changes = full_names({**(changes or {}), **given})
    interrupted = f"interrupted while the run {name} and its model were being loaded: the run is as it was"
    # Nothing is lost for a command that is refused. What is to be discarded may be damaged: `open` checks the rest.
    with saying_if_interrupted(interrupted), runs.read(name, verify=discard_after is None) as reader:
        own_model = (None if model.origin else model.model) if isinstance(model, LoadedModel) else model
        others = Given(task, own_model, algorithm, evaluator)
        settings = _settings_again(reader, changes)
        watcher = (watch or watch_of(progress))(settings.last_iteration)
        prepared = prepared_again(reader, settings, others, watcher)
    again = resume_call(name, prepared.settings, changes, own_runs=own_runs)
    words = f"the run was interrupted; {again} goes on"
    with saying_if_interrupted(words), runs.open(name, discard_after=discard_after) as store:
        watcher.say(*_repeats(prepared.settings, store))
        return _followed(prepared, runs, store, watcher, tracker, measure_before=measure_before)


def _repeats(settings: TrainSettings, store: RunWriter) -> Iterator[str]:
    """That a warm-up which was interrupted repeats the steps since its last part was kept."""
    last, steps = store.last(), settings.demonstrations.warm_up
    done = last[0] if last else 0
    if done < parts_of_warm_up(steps):
        yield f"warm-up: on from step {done * WARM_UP_PART} of {steps}; steps taken after it are repeated"


def _check_kinds(**given: tuple[Any, ...]) -> None:
    """BadInput where an argument is neither None nor of one of its kinds."""
    for name, (value, *kinds) in given.items():
        if value is not None and not isinstance(value, tuple(kinds)):
            raise BadInput(f"{name} must be a {' or '.join(kind.__name__ for kind in kinds)}, got {value!r:.60}")


@frozen(eq=False)
class Prepared:
    """What a run goes on with."""

    settings: TrainSettings
    task: Task
    verifier: Evaluator
    """Judges what no further evaluator is asked about: demonstrations and reference answers."""
    evaluator: Evaluator
    """Judges rollouts and tests: the same, with further evaluators beside it."""
    algorithm: Algorithm
    model: LearningModel
    """Its adapter placed."""
    worked: Examples
    strategy: Strategy
    shifts: Mapping[str, Shift]
    """Measured after training, by what differs."""
    others: Sequence[OtherTask]
    """Measured before and after training."""


def _prepared(settings: TrainSettings, given: Given, watcher: Watcher) -> tuple[Prepared, dict[str, Any]]:
    """What a new run begins with, and what is stored of that."""
    task = given.task or find_task(settings.task)
    algorithm = algorithm_of(settings, given)
    check_task(settings, task)
    check_variants(settings, algorithm)
    evaluation, pool = settings.evaluation, settings.curriculum.pool
    say_if_many({"test": evaluation.test, "dev": evaluation.dev, "training": pool})
    learned = _learned(settings)
    try:
        settings = evolve(settings, lora=evolve(settings.lora, **shape_of(learned)))
    except SettingError as error:
        raise BadInput(f"the checkpoint {settings.model.adapter} is damaged: {error}") from error
    verifier = evaluator_of(settings, task, given)
    evaluator = with_scores(verifier, task, settings)
    shifts = planned_shifts(settings, task, given.evaluator or settings.evaluator)
    others = planned_other_tasks(settings, task)
    strategy = find_strategy(settings.rollouts.strategy)
    worked = _demonstrations(settings, strategy, task, verifier, watcher)
    check_pool(settings, task, worked)
    if settings.model.sampler == AUTO_SAMPLER:  # A resumed run keeps the choice.
        settings = with_sampler_chosen(settings)
        watcher.say(f"sampler: {settings.model.sampler or 'the model itself'}")
    model = _model(settings, task, given.model, watcher)
    if settings.model.precision == AUTO_PRECISION:  # Measured now, and kept for a resumed run.
        settings = changed(settings, {"model.precision": model.info().precision})
    if date := model.info().template_date:  # A resumed run writes the same prompts on another day.
        settings = changed(settings, {"model.template_date": date})
    check_strategy(strategy, task, model, worked)
    if learned is None:
        layers = place_adapter(settings, task, model)
    else:
        restore(model, learned, settings.model.adapter, settings.model.name)
        layers = model.info().adapted_layers
    stored = {"settings": to_plain(settings), "layers": list(layers), "versions": versions()}
    stored["policy"] = model.info().identity
    if learned is not None:
        stored["adapter"] = arrays_digest(learned)
    if digest := problems_digest(settings.task, task):
        stored["problems"] = digest
    if worked:
        stored["examples"] = texts_digest(worked)
    return Prepared(settings, task, verifier, evaluator, algorithm, model, worked, strategy, shifts, others), stored


def prepared_again(run: RunReader, settings: TrainSettings, given: Given, watcher: Watcher) -> Prepared:
    """What the run began with, its model too; BadInput where it is not the same any more."""
    task = given.task or find_task(settings.task)
    same_problems(settings.task, task, run.config.get("problems", ""))
    verifier = evaluator_of(settings, task, given)
    evaluator = with_scores(verifier, task, settings)
    shifts = planned_shifts(settings, task, given.evaluator or settings.evaluator)
    others = planned_other_tasks(settings, task)
    strategy = find_strategy(settings.rollouts.strategy)
    worked = _demonstrations(settings, strategy, task, verifier, watcher)
    if "examples" in run.config and texts_digest(worked) != run.config["examples"]:
        raise BadInput("the task's demonstrations differ from those that the run began with: start a new run")
    learned = _learned(settings)
    if learned is not None and arrays_digest(learned) != run.config["adapter"]:
        raise BadInput(f"{settings.model.adapter} is not the adapter that the run began with: restore that one")
    model = _model(settings, task, given.model, watcher)
    check_strategy(strategy, task, model, worked)
    if learned is not None:
        restore(model, learned, settings.model.adapter, settings.model.name)
    elif run.config["layers"] and isinstance(model, Probe):
        model.attach(run.config["layers"])
    if run.config["policy"] != model.info().identity:
        raise BadInput(f"{_called(settings)} is not the model that the run began with: its weights differ")
    if (date := model.info().template_date) != settings.model.template_date:
        raise BadInput(
            f"the chat template of {_called(settings)} reads the date {date or 'no more'}, and read "
            f"{settings.model.template_date or 'none'} when the run began: give the model as it was"
        )
    algorithm = algorithm_of(settings, given)
    return Prepared(settings, task, verifier, evaluator, algorithm, model, worked, strategy, shifts, others)


def _demonstrations(
    settings: TrainSettings, strategy: Strategy, task: Task, verifier: Evaluator, watcher: Watcher
) -> Examples:
    with saying_if_slow(watcher.say, "judging the task's demonstrations"):
        return demonstrations_of(settings, strategy, task, verifier)


def _model(settings: TrainSettings, task: Task, given: Any, watcher: Watcher) -> LearningModel:
    with saying_if_slow(watcher.say, f"loading {_called(settings)}"):
        return find_learning_model(settings, task, given, say=watcher.say)


def _learned(settings: TrainSettings) -> ModelState | None:
    """What the run begins with, where that is an earlier run's checkpoint."""
    return find_adapter(settings.model.adapter) if settings.model.adapter else None


def _settings_again(run: RunReader, given: Mapping[str, Any]) -> TrainSettings:
    """The settings that the run was started with; only when to stop may be another."""
    others = sorted((name for name in given if not name.startswith("stopping.")), key=lambda name: name.split(".")[-1])
    if others:
        names = ", ".join(f"{{{name}}}" for name in others)
        message = f"a resumed run keeps its settings: leave out {names}"
        raise SettingError(others[0], "that of the run", given[others[0]], message)
    if not {"settings", "layers"} <= set(run.config):
        raise BadInput(f"expected a run that gce train made in {run.name}, got another program's")
    if is_flat(run.config["settings"]):
        version = run.config.get("versions", {}).get("gce", "0.1.0")
        raise BadInput(
            f"{run.name} was made by gce {version}, whose runs this version reads but does not go on with: install gce "
            f"{version} to resume it, or start a new run"
        )
    return changed(from_stored(run.config["settings"]), given)


def _followed(
    prepared: Prepared,
    runs: Runs,
    store: RunWriter,
    watcher: Watcher,
    tracker: Tracker | None,
    *,
    measure_before: bool,
) -> Result:
    """As `_finished`, with the tracker, where there is one, told of the run."""
    settings = prepared.settings
    if tracker is None:
        return _finished(prepared, runs, store, watcher, measure_before=measure_before)
    tracked = TrackedWatcher(watcher, tracker)
    folder, flat = folder_of(runs, store.name), plain_settings(to_plain(settings))
    shown = {name: plain_name(each) if isinstance(each, str) else each for name, each in flat.items()}
    followed = TrackedRun(store.name, identity_of(folder), folder, shown)
    with tracked.following(followed):
        result = _finished(prepared, runs, store, tracked, measure_before=measure_before)
        tracked.result(result.summary)
        return result


def _finished(prepared: Prepared, runs: Runs, store: RunWriter, watcher: Watcher, *, measure_before: bool) -> Result:
    """Measure, go on from where the store stands until there is a reason to stop, measure again."""
    settings, task, evaluator, model = prepared.settings, prepared.task, prepared.evaluator, prepared.model
    minutes, clock = settings.stopping.minutes, SystemClock()
    began = clock.now()
    watcher.say(*_begins(prepared, store.name))
    test = _problems(prepared, "test", settings.evaluation.test)
    run = Run(
        *(settings, task, evaluator, prepared.algorithm, model, store, clock, watcher),
        dev=(),
        # The tests at the end take as long as those before: past half the time, none would be left to train.
        deadline=None if minutes is None else began + 30 * minutes,
        demonstrations=prepared.worked,
        strategy=prepared.strategy,
    )
    earlier = sum(sum(record["seconds"].values()) for record in store.read("iterations"))
    timed = measure_before or minutes is not None
    take = partial(_test, run, test if timed else (), "before")
    try:
        measured, anew = taken_once(run, "before", take, began)
        elsewhere = forgetting_before(run, prepared.others) if measure_before else None
    except TimeIsUp:
        raise no_time_to_train(minutes or 0.0) from None
    earlier += 0.0 if anew else measured["seconds"]
    earlier += 0.0 if elsewhere is None else elsewhere.earlier
    untrained = model.state()
    run = evolve(run, start=untrained, dev=_problems(prepared, "dev", settings.evaluation.dev))
    if minutes is not None:
        shifted = sum(each.most for each in prepared.shifts.values())
        # The test at the end takes about as long as the one before, and shifts in proportion.
        tests = (1 + shifted / max(len(test), 1)) * measured["seconds"]
        tests += 0.0 if elsewhere is None else elsewhere.seconds
        run = evolve(run, deadline=began - earlier + 60 * minutes - tests)
        if is_over(run) and store.last() is None:
            raise no_time_to_train(minutes)
    state, stopped = _iterated(run)
    run = evolve(run, deadline=None)
    final = FinalTests(run, state.iteration)
    earlier += final.seconds
    first = stored_shares(measured["tiers"])
    n = settings.evaluation.test
    tested = final.result("after", n, partial(_test, run, test, "after"))
    after = stored_shares(tested["tiers"])
    shifts = final.shifts(prepared.shifts)
    references = (
        reference_scores(task, prepared.verifier, settings.preset, test, fitted_to=FITTED_TO) if test else ((), ())
    )
    check_references([score.share for row in references for score in row], settings.stopping.min_coverage)
    records = iteration_records(store)
    summary = summary_of(run, state, first, after, *map(solve_rates, references))
    with runs.read(store.name, verify=False) as reader:
        summary |= {"truncated": cut_off_of_run(reader, records)}
        same = same_answer_of(reader.each_answer("test-after"), [task])
        summary |= {"same_answer": same} if same else {}
        summary |= gain_between_tests(reader) | evaluators_between_tests(reader, settings.evaluators)
        if task.reward is not all_right:
            summary |= mean_rewards(reader, *references)
            unearned = unearned_of_run(reader, task, records)
            summary |= {} if unearned is None else {"unearned": to_plain(unearned)}
    summary |= {"shifts": shifts} if shifts else {}
    if elsewhere is not None:
        summary["forgetting"] = to_plain(forgetting_after(run, final, prepared.others, elsewhere, runs))
    summary |= {"stopped": stopped, "falls": to_plain(falls(records)), "moved": moved_arrays(untrained, model.state())}
    summary |= {"updates": sum(record.updates for record in records)}
    summary["seconds"] = round(earlier + clock.now() - began, 1)
    store.write_summary(summary)
    return Result(store.name, settings, trained_model(model, _called(settings)), summary, runs, task)


def _called(settings: TrainSettings) -> str:
    """What the model is called."""
    return plain_name(settings.model.name)


def _begins(prepared: Prepared, name: str) -> Iterator[str]:
    """What is said of a run before it begins."""
    settings, info = prepared.settings, prepared.model.info()
    called = _called(settings)
    yield f"{called} on {prepared.task.name}/{settings.preset}, seed {settings.seed}, run {name}"
    if info.note:
        yield f"{called}: {info.note}"
    if f"{JUDGE}{called}" in settings.evaluators.judges:
        yield f"{JUDGE}{called}: a second copy of the model is in memory, whose weights stay as they are"
    draw = prepared.task.draw
    tip = "" if isinstance(draw, Listed) and draw.is_fold else folds_tip()
    yield from resolution(prepared.task, settings.preset, settings.evaluation.test, tip=tip)
    if info.trainable_parameters:
        yield (
            f"training {info.trainable_parameters:,} of {info.parameters:,} parameters "
            f"({100 * info.trainable_share:.1f} %), in blocks {', '.join(map(str, info.adapted_layers))}"
        )
    if parts := settings.last_iteration - settings.stopping.iterations:
        first = "iteration 1 is" if parts == 1 else f"iterations 1 to {parts} are"
        yield f"{first} the warm-up: {settings.demonstrations.warm_up} optimizer steps on demonstrations"


def _problems(prepared: Prepared, split: Split, count: int) -> tuple[Problem, ...]:
    """Evaluation problems: of every tier, the same for every run, whatever its seed."""
    task, preset = prepared.task, prepared.settings.preset
    return tuple(
        problem for tier in task.tiers(preset) for problem in draw_problems(task, preset, tier.name, split, count)
    )


def _iterated(run: Run) -> tuple[RunState, str]:
    """The state after the last iteration, from where the store stands, and why it was the last.

    The best checkpoint is kept all along, and those of `evaluation.keep_every`.
    """
    try:
        state = resumed_state(run)
    except ValueError as error:
        raise BadInput(f"{_called(run.settings)} is not the model that the run began with: {error}") from error
    _keep(run, state)
    try:
        for next_state, _ in iterate(run, state):
            state = next_state
            _keep(run, state)
    except TimeIsUp:
        return _without_last(run, state)
    return state, why_stop(run, state)


def _without_last(run: Run, state: RunState) -> tuple[RunState, str]:
    """The state after the last complete iteration, the model put back to it, and what was dropped."""
    assert run.start is not None
    run.model.restore(run.start)
    warming_up = state.updates < run.settings.demonstrations.warm_up
    what = f"iteration {state.iteration + 1}{', of the warm-up' * warming_up}"
    limit = in_minutes(run.settings.stopping.minutes or 0.0)
    return resumed_state(run), f"the limit of {limit} was reached in {what}, of which nothing was learned"


def _keep(run: Run, state: RunState) -> None:
    """Keep the checkpoints of the best iteration so far and of each `keep_every`th, beside the newest."""
    every = run.settings.evaluation.keep_every
    kept = [] if every is None else list(range(every, state.iteration + 1, every))
    if state.best is not None:
        kept.append(state.best[0])
    if kept:
        run.store.pin(*kept)


def _test(run: Run, problems: Sequence[Problem], moment: str) -> dict[str, Any]:
    """Greedy accuracy on test problems as plain data, its answers kept; LowCoverage where too many failed."""
    seed, max_tokens = run.settings.seed, run.settings.rollouts.max_tokens
    advance = stage(run, f"test {moment}", len(problems))
    answers = ask(run.model, run.task, run.evaluator, problems, seed=seed, max_tokens=max_tokens, on_answer=advance)
    if problems:
        run.store.write_answers(f"test-{moment}", map(answer_record, answers))
    check_answers(f"test problems {moment} training", answers, run.settings.stopping.min_coverage, hint=RESUME)
    return {"tiers": to_plain(accuracy(answers))}
