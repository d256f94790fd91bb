"""Where many answers of a run were cut off at the maximum tokens: what is kept of it, and what is said."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gce.app.evaluation.one_outcome import cut_off_words, ended_early, is_cut_off, mostly_loops, share_words
from gce.app.evaluation.scoring import stored_outcome
from gce.app.evaluation.stored_runs import iteration_records
from gce.app.training.sampling import Rollout
from gce.app.training.state import Run
from gce.domain.measurements import IterationRecord
from gce.ports.runs import RunReader

__all__ = ["TESTS", "answers_cut_off", "cut_off_in", "cut_off_of_run", "first_cut_off", "rollouts_cut_off"]

TESTS = "test answers after training"


def first_cut_off(run: Run, rollouts: Sequence[Rollout]) -> str:
    """A warning in the first iteration in which many rollouts are cut off; empty in all others, or if that is meant."""
    if run.settings.rollouts.early_stop:
        return ""
    limit = run.settings.rollouts.max_tokens or run.task.max_tokens
    said = cut_off_words("rollouts", *ended_early([rollout.judged for rollout in rollouts]), limit=limit)
    if not said or any(cut_off_words("rollouts", *rollouts_cut_off([each])) for each in iteration_records(run.store)):
        return ""
    return f"warning: {said}"


def cut_off_of_run(run: RunReader, records: Sequence[IterationRecord]) -> dict[str, Any]:
    """What the summary holds: how many rollouts, and answers to test problems after training, were cut off."""
    answers = list(run.each_answer("test-after"))
    found = {"rollouts": rollouts_cut_off(records), "after": answers_cut_off(answers)}
    plain: dict[str, Any] = {what: {"cut_off": cut, "n": n} for what, (cut, n) in found.items()}
    return plain | {"loops": mostly_loops([each["text"] for each in answers if each["finish_reason"] == "length"])}


def rollouts_cut_off(records: Sequence[IterationRecord]) -> tuple[int, int]:
    """How many rollouts were cut off, and of how many."""
    counts = [count for record in records for count in record.tiers.values()]
    return sum(count.truncated for count in counts), sum(count.rollouts for count in counts)


def answers_cut_off(answers: Iterable[Mapping[str, Any]]) -> tuple[int, int]:
    """How many stored answers were cut off, and of how many that did not fail."""
    ends = [answer["finish_reason"] for answer in answers if stored_outcome(answer) != "failed"]
    return ends.count("length"), len(ends)


def cut_off_in(summary: Mapping[str, Any], *, limit: int | None, early_stop: float) -> list[str]:
    """What is said at the end of a run of at most `limit` tokens an answer; nothing where few answers were cut off.

    Where `early_stop` is above 0, rollouts are cut off by it, and left out.
    """
    found = summary.get("truncated", {})
    names = {"rollouts": "rollouts", "after": TESTS}
    if early_stop:
        del names["rollouts"]
    ends = {names[what]: (each["cut_off"], each["n"]) for what, each in found.items() if what in names}
    *others, last = [what for what, (cut, n) in ends.items() if is_cut_off(cut, n)] or [""]
    said = [share_words(what, *ends[what]) for what in others]
    loops = last == TESTS and found.get("loops", False)
    words = cut_off_words(last, *ends[last], limit=limit, loops=loops) if last else ""
    return [f"warning: {' and '.join([*said, words])}"] if words else []
