"""Refuse combinations of settings that would silently have no effect, or another effect."""

from __future__ import annotations

from gce.app.settings.records import ADMISSION, ASYNC, TrainSettings, all_settings
from gce.app.settings.values import flat_values
from gce.app.wiring.executors import RAY
from gce.domain.algorithms import Algorithm
from gce.domain.strategies.single_turn import ZERO_SHOT
from gce.errors import SettingError

__all__ = ["check_variants"]


def check_variants(settings: TrainSettings, algorithm: Algorithm) -> None:
    """Refuse settings that contradict each other or the algorithm.

    Raises:
        SettingError: the first conflict; the message says what to do.
    """
    buffer, shown, restart = settings.buffer, settings.demonstrations, settings.optimizer.restart
    if buffer.admission == "all" and (buffer.drop_solved or algorithm.name not in ("raft", "raft++")):
        raise _conflict(
            settings,
            "buffer.admission",
            "{buffer.admission} all admits every rollout",
            "it needs {objective.algorithm} raft, without {buffer.drop_solved}",
        )
    if ADMISSION.share(buffer.admission) is not None and algorithm.name not in ("raft", "raft++", "sft-top"):
        raise _conflict(
            settings,
            "buffer.admission",
            f"{{buffer.admission}} {buffer.admission} chooses which rollouts are admitted, and {algorithm.name} weighs "
            "all of them",
            "it needs {objective.algorithm} raft, raft++ or sft-top",
        )
    _check_groups(settings, algorithm)
    if settings.rollouts.governor == "adaptive" and (
        buffer.drop_solved or algorithm.top is not None or ADMISSION.share(buffer.admission) is not None
    ):
        raise _conflict(
            settings,
            "rollouts.governor",
            "{rollouts.governor} adaptive stops a problem before all its rollouts are drawn, and positives here are "
            "chosen among all of them",
            "use {rollouts.governor} fixed",
        )
    rollouts = settings.rollouts
    if rollouts.second_wave_by == "critic" and (not rollouts.second_wave or buffer.admission == "all"):
        raise _conflict(
            settings,
            "rollouts.second_wave_by",
            "{rollouts.second_wave_by} critic allocates additional rollouts by predicted rewards",
            "it needs {rollouts.second_wave}, and another {buffer.admission} than all",
        )
    if rollouts.early_stop and (
        rollouts.strategy != ZERO_SHOT.name or algorithm.weigh is not None or buffer.admission != "verified"
    ):
        raise _conflict(
            settings,
            "rollouts.early_stop",
            "{rollouts.early_stop} leaves out answers that are probably wrong, from which nothing may be learned",
            "it needs {objective.algorithm} raft, {rollouts.strategy} zero-shot and {buffer.admission} verified",
        )
    if buffer.weighting == "surprise" and (buffer.admission == "all" or algorithm.weigh is not None):
        raise _conflict(
            settings,
            "buffer.weighting",
            "{buffer.weighting} surprise weights traces in the replay buffer by rewards and their predictions",
            "it needs {objective.algorithm} raft, and another {buffer.admission} than all",
        )
    if settings.curriculum.ladder and settings.rollouts.problems_by_tier:
        raise _conflict(
            settings,
            "curriculum.ladder",
            f"recipe {settings.recipe} sets the number of problems of each tier",
            "{curriculum.ladder} needs {rollouts.problems}",
        )
    if shown.bootstrap != "none" and buffer.admission not in ("verified", "reasoned"):
        raise _conflict(
            settings,
            "demonstrations.bootstrap",
            "{demonstrations.bootstrap} uses the verdicts to decide when a tier no longer needs few-shot examples",
            "leave out {buffer.admission}",
        )
    if shown.bootstrap != "none" and settings.rollouts.strategy != ZERO_SHOT.name:
        raise _conflict(
            settings,
            "rollouts.strategy",
            "{demonstrations.bootstrap} adds few-shot examples to a zero-shot prompt",
            "it needs {rollouts.strategy} zero-shot",
        )
    if shown.bootstrap != "none" and settings.rollouts.samples < 2:
        raise _conflict(
            settings,
            "rollouts.samples",
            "{demonstrations.bootstrap} needs {rollouts.samples} of at least 2",
            "one with few-shot examples, one without",
        )
    if shown.bootstrap != "none" and settings.objective.importance_cap is not None:
        raise _conflict(
            settings,
            "objective.importance_cap",
            "{objective.importance_cap} needs the log-probabilities of rollouts, and those with few-shot examples were "
            "sampled from another prompt",
            "leave out {demonstrations.bootstrap}",
        )
    if not shown.warm_up and (shown.warm_up_also or shown.warm_up_rate):
        raise _conflict(
            settings,
            "demonstrations.warm_up",
            "{demonstrations.warm_up_also} and {demonstrations.warm_up_rate} configure the SFT warm-up",
            "give the number of its steps with {demonstrations.warm_up}",
        )
    for name in ("model.adapter", "demonstrations.warm_up"):
        if restart and flat_values(settings)[name]:
            raise _conflict(
                settings,
                "optimizer.restart",
                f"{{optimizer.restart}} restarts every iteration from the base model, without {{{name}}}",
                "leave out one of them",
            )
    if settings.objective.credit != "outcome":
        _check_credit(settings, algorithm)
    elif settings.objective.credit_samples != all_settings()["objective.credit_samples"].default:
        raise _conflict(
            settings,
            "objective.credit_samples",
            "{objective.credit_samples} is the number of continuations of a prefix",
            "it needs {objective.credit} prefix-value",
        )
    executor = settings.executor
    if executor.schedule == ASYNC and executor.kind != RAY:
        raise _conflict(
            settings,
            "executor.schedule",
            "{executor.schedule} async samples rollouts on workers of Ray while the learner works",
            "it needs {executor.kind} ray",
        )
    if executor.schedule != ASYNC and executor.staleness != all_settings()["executor.staleness"].default:
        raise _conflict(
            settings,
            "executor.staleness",
            "{executor.staleness} is how many iterations the weights that write rollouts are behind",
            "it needs {executor.schedule} async",
        )
    if algorithm.weigh is not None:
        _check_without_buffer(settings)


def _check_groups(settings: TrainSettings, algorithm: Algorithm) -> None:
    """Refuse rollouts that an algorithm cannot compare: one per problem, or all greedy and so the same."""
    rollouts, credit = settings.rollouts, settings.objective.credit
    if not algorithm.compares and credit == "outcome":
        return
    for name, usable, expected in (
        ("rollouts.samples", rollouts.samples >= 2, "give {rollouts.samples} 2 or more"),
        ("rollouts.temperature", rollouts.temperature > 0.0, "give {rollouts.temperature} above 0"),
    ):
        if not usable:
            what = f"algorithm}} {algorithm.name}" if algorithm.compares else f"credit}} {credit}"
            value = flat_values(settings)[name]
            why = f"{{objective.{what} compares different rollouts of a problem, and {{{name}}} is {value:g}"
            raise _conflict(settings, name, why, expected)


def _check_credit(settings: TrainSettings, algorithm: Algorithm) -> None:
    """Refuse what does not go with credit for parts of answers."""
    if algorithm.weigh is None or algorithm.ratio != "token":
        raise _conflict(
            settings,
            "objective.credit",
            "{objective.credit} prefix-value weighs each token of an iteration's own rollouts",
            "it needs {objective.algorithm} grpo, dr-grpo, dapo, reinforce-rej or raft++",
        )
    if settings.rollouts.strategy != ZERO_SHOT.name:
        raise _conflict(
            settings,
            "objective.credit",
            "{objective.credit} prefix-value continues an answer after its prompt",
            "it needs {rollouts.strategy} zero-shot",
        )
    if settings.evaluators.combination is not None or settings.buffer.admission != "verified":
        raise _conflict(
            settings,
            "objective.credit",
            "{objective.credit} prefix-value takes its values from the verifier's own rewards",
            "leave out {evaluators.teach} and {buffer.admission}",
        )


def _check_without_buffer(settings: TrainSettings) -> None:
    """Refuse replay buffer settings if the algorithm trains on each iteration's own rollouts."""
    algorithm, values = settings.objective.algorithm, flat_values(settings)
    if settings.demonstrations.bootstrap != "none":
        raise _conflict(
            settings,
            "objective.algorithm",
            f"{algorithm} needs the log-probabilities of rollouts, and those with few-shot examples were sampled from "
            "another prompt",
            "use {objective.algorithm} raft",
        )
    for name in (
        *("optimizer.restart", "buffer.drop_solved", "buffer.per_problem", "buffer.deduplicate", "buffer.accumulate"),
    ):
        if values[name] != all_settings()[name].default:
            raise _conflict(
                settings,
                name,
                f"{{{name}}} configures the replay buffer, and {algorithm} trains on each iteration's own rollouts",
                "use {objective.algorithm} raft",
            )


def _conflict(settings: TrainSettings, name: str, why: str, expected: str) -> SettingError:
    return SettingError(name, expected, flat_values(settings)[name], f"{why}: {expected}")
