"""What an experiment tracker is told of a run: its settings once, then a row of numbers an iteration.

Names are those that TRL and the Hugging Face Trainer log under, where they have one. Knows no tracker.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from attrs import frozen

from gce.domain.forgetting import Forgetting
from gce.domain.measurements import (
    Interval,
    IterationRecord,
    MeanReward,
    TierCount,
    TrainingMetrics,
    add_counts,
)

__all__ = ["TrackedRun", "forgetting_values", "iteration_values", "plain_settings", "result_values"]

_UNUSUAL = re.compile(r"[^\w .-]")
"""What some trackers refuse in the name of a metric."""


@frozen
class TrackedRun:
    """A run as a tracker knows it."""

    name: str
    identity: str
    """Of this run alone: the same when the run is resumed. ASCII letters and digits."""
    folder: str
    """The run's directory, in which files of the tracker may be kept; empty for a run in memory."""
    settings: Mapping[str, str | int | float | bool]
    """By dotted name, as `optimizer.learning_rate`."""


def plain_settings(settings: Mapping[str, Any], prefix: str = "") -> dict[str, str | int | float | bool]:
    """Nested settings by dotted name; lists and mappings of values as text, and without those that are not set."""
    found: dict[str, str | int | float | bool] = {}
    for name, value in settings.items():
        if isinstance(value, Mapping):
            found |= plain_settings(value, f"{prefix}{name}.")
        elif isinstance(value, (list, tuple)):
            found[prefix + name] = ", ".join(map(str, value))
        elif value is not None:
            found[prefix + name] = value
    return found


def iteration_values(record: IterationRecord) -> dict[str, float]:
    """The numbers of one iteration. What it does not have, as rollouts in a warm-up, is left out.

    Rates and rewards are in [0, 1], lengths in tokens, times in seconds; docs/howto/trackers.md defines each. There is
    no mean reward by tier where each reward is 0 or 1.
    """
    found: dict[str, float] = {"train/updates": record.updates, "train/admitted": record.admitted}
    found |= _by_tier("train/buffer", record.buffer)
    found["train/buffer"] = sum(record.buffer.values())
    measured = {"loss": record.loss, "grad_norm": record.gradient_norm, "entropy": record.entropy}
    measured |= {"tokens_per_second": record.tokens_per_second}
    if record.metrics is not None:
        measured |= _named(record.metrics)
    found |= {f"train/{name}": value for name, value in measured.items() if value is not None}
    if record.tiers:
        found |= _rollout_values(add_counts(list(record.tiers.values())))
        found["train/failed"] = sum(record.failed.values())
        found |= _by_tier("train/solve_rate", {tier: _solve_rate(count) for tier, count in record.tiers.items()})
        lengths = {tier: count.mean_tokens for tier, count in record.tiers.items()}
        found |= _by_tier("train/completions/mean_length", lengths)
    if record.graded:
        rewards = {tier: count.total_reward / count.rollouts for tier, count in record.tiers.items()}
        found |= _by_tier("train/reward", rewards)
    found |= _measured("eval/accuracy", record.dev) | _measured("eval/reward", record.dev_reward)
    return found | {f"time/{stage}": seconds for stage, seconds in record.seconds.items()}


def result_values(
    rows: Mapping[str, Mapping[str, Interval] | Mapping[str, MeanReward]], *, of: str = "test"
) -> dict[str, float]:
    """Accuracy or mean reward on test problems, or what else they are `of`, by moment or baseline, and tier."""
    return {name: value for row, found in rows.items() for name, value in _measured(f"{of}/{row}", found).items()}


def forgetting_values(found: Forgetting) -> dict[str, float]:
    """Loss on the fixed text, and accuracy on other tasks by tier, before and after training."""
    text = found.text
    values = {} if text is None else {"forgetting/loss_before": text.before, "forgetting/loss": text.after}
    tasks = found.tasks.items()
    rows = {f"accuracy_before/{_plain(name)}": task.before for name, task in tasks}
    rows |= {f"accuracy/{_plain(name)}": task.after for name, task in tasks}
    return values | result_values(rows, of="forgetting")


def _named(metrics: TrainingMetrics) -> dict[str, float | None]:
    """By the names that TRL has, where it has one."""
    low, high = metrics.clipped_low, metrics.clipped_high
    return {
        "reward_std": metrics.reward_std,
        "learning_rate": metrics.learning_rate,
        "kl": metrics.kl,
        "approx_kl": metrics.approx_kl,
        "clip_ratio/low_mean": low,
        "clip_ratio/high_mean": high,
        "clip_ratio/region_mean": None if low is None or high is None else low + high,
        "sampling/sampling_logp_difference/mean": metrics.logp_difference,
        "sampling/sampling_logp_difference/max": metrics.max_logp_difference,
        "completions/max_length": metrics.max_length,
        "num_tokens": metrics.tokens,
    }


def _rollout_values(count: TierCount) -> dict[str, float]:
    """Of the rollouts of all tiers together."""
    return {
        "train/solve_rate": _solve_rate(count),
        "train/reward": count.total_reward / count.rollouts,
        "train/rollouts": count.rollouts,
        "train/unparsed_ratio": count.unparsed / count.rollouts,
        "train/completions/mean_length": count.mean_tokens,
        "train/completions/clipped_ratio": count.truncated / count.rollouts,
        "train/frac_reward_zero_std": count.equal_rewards / count.problems,
    }


def _solve_rate(count: TierCount) -> float:
    return count.correct / count.rollouts


def _measured(name: str, found: Mapping[str, Interval] | Mapping[str, MeanReward]) -> dict[str, float]:
    """By tier, and their mean where all were measured."""
    values = {tier: each.value for tier, each in found.items() if each.n}
    mean = {name: sum(values.values()) / len(values)} if values and len(values) == len(found) else {}
    return _by_tier(name, values) | mean


def _by_tier(name: str, values: Mapping[str, float]) -> dict[str, float]:
    return {f"{name}/{_plain(tier)}": value for tier, value in values.items()}


def _plain(name: str) -> str:
    return _UNUSUAL.sub("_", name)
