"""Studies: conditions that differ from a reference in one setting, and the comparisons between them.

A study is a directory with one run directory for each condition and seed. Independent of models and of how a run is
made.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import field, frozen

from gce.app.settings.records import TrainSettings
from gce.app.settings.stored import from_stored
from gce.app.settings.values import flat_values
from gce.domain.tasks import TASKS
from gce.errors import SettingError

__all__ = ["STUDIES", "Condition", "check_common", "check_stored", "values_of"]


@frozen
class Condition:
    """One condition of a study."""

    what: str
    settings: Mapping[str, Any] = field(factory=dict)
    """Settings that replace the study's own."""
    against: str = ""
    """Name of the condition to compare with; empty for none."""
    variant: str = ""
    """Suffix of a task variant to use instead of the study's task."""


_HALF = {"lora.layers": 2}
_ENOUGH = {"optimizer.reuse": 4.0}
"""Passes over few traces, so that every algorithm can take the same number of updates."""


def _with(algorithm: str) -> dict[str, Any]:
    return {**_ENOUGH, "objective.algorithm": algorithm}


STUDIES: Mapping[str, Mapping[str, Condition]] = {
    "ablations": {
        "full": Condition("the settings of gce train"),
        "accept-all": Condition("control: every rollout is admitted", {"buffer.admission": "all"}, "full"),
        "shuffled": Condition("control: verdicts permuted within each tier", {"buffer.admission": "shuffled"}, "full"),
        "format-only": Condition(
            "control: every rollout whose answer can be read is admitted", {"buffer.admission": "format"}, "full"
        ),
        "random-reward": Condition(
            "control: rewards by chance, as often as rollouts of the tier are right",
            {"buffer.admission": "random"},
            "full",
        ),
        "no-reasoning": Condition("the prompt asks only for the answer line", {}, "full", variant="answer-only"),
        "no-accumulation": Condition(
            "the buffer keeps only the traces of the current iteration", {"buffer.accumulate": False}, "full"
        ),
        "no-deduplication": Condition("the buffer keeps duplicate traces", {"buffer.deduplicate": False}, "full"),
        "as-it-comes": Condition(
            "equal weight for every trace, whatever its tier", {"buffer.weighting": "equal"}, "full"
        ),
        "uniform-sampling": Condition(
            "the same number of problems for each tier", {"curriculum.sampling": "uniform"}, "full"
        ),
        "probed-layers": Condition(
            "LoRA on two blocks, chosen by probing", {**_HALF, "lora.targeting": "probe"}, "full"
        ),
        "last-layers": Condition("LoRA on the last two blocks", {**_HALF, "lora.targeting": "last"}, "probed-layers"),
        "random-layers": Condition("LoRA on two random blocks", {**_HALF, "lora.targeting": "random"}, "probed-layers"),
    },
    "algorithms": {
        "raft": Condition("rejection sampling on right traces of all iterations", {**_ENOUGH}),
        "raft++": Condition(
            "all right traces of the current iteration, clipped ratios",
            _with("raft++"),
            "raft",
        ),
        "grpo": Condition("group-relative advantages, clipped ratios", _with("grpo"), "raft"),
        "reinforce-rej": Condition(
            "weights 1 and -1 for problems with mixed outcomes, clipped ratios",
            _with("reinforce-rej"),
            "raft",
        ),
        "weighted": Condition(
            "raft, plus as many wrong rollouts per batch with weight -0.1",
            {**_with("weighted"), "objective.negative": 0.1},
            "raft",
        ),
        "rloo": Condition("leave-one-out baseline, ratios of sequences", _with("rloo"), "raft"),
        "dr-grpo": Condition("rewards less the group's mean, loss over a constant", _with("dr-grpo"), "raft"),
        "dapo": Condition("grpo on mixed outcomes alone, clipped higher above", _with("dapo"), "raft"),
        "gspo": Condition("group-relative advantages, mean ratios of sequences", _with("gspo"), "raft"),
    },
}
"""Studies by name; `gce ablate --study` runs one."""


def values_of(condition: Condition, common: Mapping[str, Any], seed: int) -> dict[str, Any] | None:
    """Return the settings of one run by dotted name; None if the task has no such variant."""
    settings = {**common, **condition.settings, "seed": seed}
    if condition.variant:
        settings["task"] = f"{common.get('task', 'scheduling')}-{condition.variant}"
        if settings["task"] not in TASKS:
            return None
    return settings


FREE = frozenset(
    {
        *("evaluation.test", "evaluation.dev", "evaluation.dev_every", "evaluation.shifts", "evaluation.also_measure"),
        *("model.threads", "model.device", "stopping.min_coverage"),
    }
)
"""Settings in which runs of one study may differ, because they do not affect training."""


def check_common(common: Mapping[str, Any], conditions: Mapping[str, Condition]) -> None:
    """Refuse common settings that the conditions vary.

    Raises:
        SettingError: a common setting that a condition sets too.
    """
    varied = {name for condition in conditions.values() for name in condition.settings}
    for name in sorted(varied & set(common)):
        message = f"the study's conditions differ in {{{name}}}: leave out {{{name}}}"
        raise SettingError(name, "that of each condition", common[name], message)
    if (test := common.get("evaluation.test", 2)) < 2:
        message = f"a study needs {{evaluation.test}} of at least 2, got {test}"
        raise SettingError("evaluation.test", "at least 2", test, message)


def check_stored(stored: Mapping[str, Any], wanted: TrainSettings, where: str) -> None:
    """Check that an existing run has the wanted settings; settings that the run predates have their defaults.

    Raises:
        SettingError: it was made with other settings.
    """
    made = flat_values(from_stored(stored))
    for name, value in flat_values(wanted).items():
        if name not in FREE and made[name] != value:
            raise SettingError(
                name,
                repr(value),
                made[name],
                f"{where} was made with {{{name}}} {made[name]!r}, expected {value!r}: give another directory, or the "
                "settings that the study was begun with",
            )
