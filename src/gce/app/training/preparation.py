"""Prepare a run from its settings: model, adapted blocks and demonstrations; refuse settings that cannot work."""

from __future__ import annotations

from collections.abc import Mapping

from gce.app.evaluation.conversations import check_needs
from gce.app.evaluation.demonstrations import EXAMPLES_DRAWN, Demonstration, demonstrations_for_training, digests_of
from gce.app.settings.records import TrainSettings, all_settings
from gce.app.settings.values import RECIPES, flat_values
from gce.app.wiring.evaluators import find_evaluator
from gce.app.wiring.solvers import find_solve
from gce.app.wiring.tasks import find_preset
from gce.domain.layer_selection import choose_layers
from gce.domain.randomness import key
from gce.domain.strategies.requests import Settings, Strategy
from gce.domain.tasks import ProblemSource, Task, draw_problems
from gce.errors import BadInput, SettingError
from gce.ports.evaluator import Evaluator
from gce.ports.model import LearningModel, Probe

__all__ = [
    "Examples",
    "check_pool",
    "check_strategy",
    "check_task",
    "demonstrations_of",
    "nothing_to_draw",
    "place_adapter",
]

PROBE_PROMPTS = 4
"""Number of task prompts per tier for the activation probe."""
Examples = Mapping[str, tuple[Demonstration, ...]]


def check_task(settings: TrainSettings, task: Task) -> None:
    """Refuse settings that the task's tiers cannot satisfy.

    Raises:
        SettingError: the first such setting.
        BadInput: there is nothing to train on.
    """
    preset, ladder = settings.preset, settings.curriculum.ladder
    if settings.buffer.admission == "reasoned" and not task.teaching.has_steps:
        message = f"task {task.name} cannot check written steps: {{buffer.admission}} reasoned needs a task that can"
        raise SettingError("buffer.admission", "a value other than reasoned", "reasoned", message)
    training = task.training_tiers(preset, ladder=ladder)
    if not training:
        raise BadInput(f"task {task.name} has no training problems in preset {preset}: evaluate models on it")
    if ladder and training == task.training_tiers(preset):
        message = (
            f"preset {preset} of task {task.name} has no easier curriculum levels: leave out {{curriculum.ladder}}"
        )
        raise SettingError("curriculum.ladder", "false", True, message)
    by_tier = settings.rollouts.problems_by_tier or {}
    if unknown := sorted(set(by_tier) - set(training)):
        message = f"recipe {settings.recipe} samples tiers that {task.name} does not have: {', '.join(unknown)}"
        raise SettingError("rollouts.problems_by_tier", f"tiers among {', '.join(training)}", by_tier, message)
    least, problems = len(training), settings.rollouts.problems
    if problems < least:
        message = f"expected {{rollouts.problems}} of at least {least}, one per training tier, got {problems}"
        raise SettingError("rollouts.problems", f"at least {least}", problems, message)


def check_pool(settings: TrainSettings, task: Task, known: Examples) -> None:
    """Refuse a pool without training problems before the first rollouts run."""
    examples, preset, pool = digests_of(known), settings.preset, settings.curriculum.pool
    source = ProblemSource(task)
    for tier in task.training_tiers(preset, ladder=settings.curriculum.ladder) if pool else ():
        drawn = (source.draw(preset, tier, "train", index, seed=settings.seed) for index in range(pool or 0))
        if all(problem.digest in examples for problem in drawn):
            raise nothing_to_draw(tier, pool)


def nothing_to_draw(tier: str, pool: int | None) -> SettingError:
    """Return the error for a tier all of whose problems are demonstrations."""
    expected = "fewer {demonstrations.shots} or more of {curriculum.pool}"
    message = f"all problems of {tier} are demonstrations: take {expected}"
    return SettingError("curriculum.pool", expected, pool, message)


def check_strategy(strategy: Strategy, task: Task, model: LearningModel, known: Examples) -> None:
    """Raise BadInput if the strategy needs something that training does not provide: other roles, environments."""
    check_needs(strategy, task, Settings(examples=dict.fromkeys(known, ())), model)


def place_adapter(settings: TrainSettings, task: Task, model: LearningModel) -> tuple[int, ...]:
    """Choose the adapted blocks, by probing real task prompts or as the settings say; fixed blocks are kept."""
    if not isinstance(model, Probe):
        return ()
    prompts = [
        problem.prompt
        for tier in task.training_tiers(settings.preset)
        for problem in draw_problems(
            task, settings.preset, tier, "train", PROBE_PROMPTS, seed=key(settings.seed, "probe")
        )
    ]
    activations = model.activation_statistics(prompts)
    _check_size(settings, "lora.layers", len(activations), "the transformer blocks of the model")
    count = min(settings.lora.layers, len(activations))
    try:
        layers = choose_layers(activations, count, strategy=settings.lora.targeting, key=key(settings.seed, "layers"))
    except ValueError as error:
        raise BadInput(str(error)) from error
    model.attach(layers)
    arrays = {name: array.shape for name, array in model.state().arrays.items() if name.startswith("adapter.")}
    inputs = {name.removesuffix("a"): shape[0] for name, shape in arrays.items() if name.endswith(".lora_a")}
    widths = [min(width, arrays[f"{name}b"][1]) for name, width in inputs.items()]
    if widths:
        _check_size(settings, "lora.rank", max(widths), "the width of its widest adapted matrix")
    return layers


def _check_size(settings: TrainSettings, name: str, most: int, what: str) -> None:
    """Refuse more than a model has; the default and a recipe's value mean what there is of a small model."""
    value = flat_values(settings)[name]
    if value > most and value not in (all_settings()[name].default, RECIPES[settings.recipe].get(name)):
        expected = f"at most {most:,}, {what}"
        raise SettingError(name, expected, value, f"{{{name}}} must be {expected}, got {value:,}")


def demonstrations_of(settings: TrainSettings, strategy: Strategy, task: Task, evaluator: Evaluator) -> Examples:
    """The examples that the run starts with, or that its strategy shows; none where it is to do without.

    By tier; those of further presets, which are there for the warm-up alone, by PRESET/TIER. The task's own verifier
    judges them where the evaluator is not deterministic and might find others when the run is resumed.
    """
    starts_with_them = settings.demonstrations.bootstrap != "none" or settings.demonstrations.warm_up
    if not (starts_with_them or strategy.needs_examples):
        return {}
    if not evaluator.deterministic:
        evaluator = find_evaluator(task, settings.executor.runner)
    solve = find_solve(settings.demonstrations.examples)
    count = EXAMPLES_DRAWN * settings.demonstrations.shots
    tiers = task.training_tiers(settings.preset, ladder=settings.curriculum.ladder)
    needed = {"or_else": f"strategy {strategy.name} needs them"} if strategy.needs_examples else {}
    found = demonstrations_for_training(task, evaluator, settings.preset, tiers, count, solve=solve, **needed)
    if strategy.needs_examples and set(tiers) != set(found):
        missing = ", ".join(tier for tier in tiers if tier not in found)
        raise BadInput(f"task {task.name} has no demonstrations of {missing}: strategy {strategy.name} needs them")
    for preset in (find_preset(task, name) for name in settings.demonstrations.warm_up_also):
        if preset == settings.preset:
            message = (
                f"{{demonstrations.warm_up_also}} takes additional presets, and {preset} is the run's own: leave it out"
            )
            raise SettingError("demonstrations.warm_up_also", "additional presets", preset, message)
        others = demonstrations_for_training(task, evaluator, preset, task.training_tiers(preset), count, solve=solve)
        found |= {f"{preset}/{tier}": examples for tier, examples in others.items()}
    return found
