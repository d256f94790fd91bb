"""Few-shot examples as a product of training: the best trajectories that a run admitted, as conversations."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence

from gce.app.evaluation.demonstrations import Turns
from gce.app.evaluation.stored_runs import stored_settings
from gce.app.wiring.names import plain_name
from gce.domain.learning import Trace
from gce.domain.problems import Message
from gce.domain.serialization import to_plain
from gce.domain.traces import trace_of_record
from gce.errors import BadInput
from gce.ports.runs import RunReader

__all__ = ["best_trajectories", "shown_digest"]


def best_trajectories(run: RunReader, task: str, tiers: Sequence[str], count: int) -> dict[str, Turns]:
    """Return by tier up to `count` trajectories with the highest rewards, one a problem, joined into one conversation.

    Of equal rewards the earlier comes first. A tier without any, such as a held-out one, gets those of the last tier
    that has some.

    Raises:
        BadInput: the run is of another task, or has admitted nothing.
    """
    of_run = stored_settings(run).task
    if of_run != task:
        raise BadInput(f"expected examples of {plain_name(task)}, and {run.name} is a run of {plain_name(of_run)}")
    best: dict[str, dict[str, Trace]] = {}
    for record in run.read("traces"):
        trace = trace_of_record(record)
        of_tier = best.setdefault(trace.tier, {})
        if trace.problem not in of_tier or _reward(of_tier[trace.problem]) < _reward(trace):
            of_tier[trace.problem] = trace
    if not best:
        raise BadInput(f"{run.name} has admitted no rollouts, so there are no examples to take from it")
    turns = {tier: _joined(of_tier.values(), count) for tier, of_tier in sorted(best.items())}
    return {tier: turns.get(tier, turns[max(turns)]) for tier in tiers}


def shown_digest(examples: Mapping[str, Turns]) -> str:
    """Return the SHA-256 of few-shot examples."""
    return hashlib.sha256(json.dumps(to_plain(dict(examples))).encode()).hexdigest()


def _joined(traces: Iterable[Trace], count: int) -> Turns:
    ranked = sorted(traces, key=lambda trace: -_reward(trace))[:count]
    return tuple(message for each in ranked for message in (*each.messages, Message("assistant", each.completion.text)))


def _reward(trace: Trace) -> float:
    return float(all(verdict.right for verdict in trace.verdicts)) if trace.reward is None else trace.reward
