"""Where a run's graded reward rose and its answers did not become right: what is kept of it, and what is said.

`gce.domain.unearned_rise` has the rule.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from heapq import nlargest
from typing import Any

from attrs import frozen

from gce.app.evaluation.comparison import stored_pairs
from gce.app.evaluation.one_outcome import check_call
from gce.app.evaluation.scoring import stored_reward
from gce.app.tables.cells import difference_cell
from gce.app.wiring.runs import IN_MEMORY
from gce.app.wiring.tasks import stored_problem
from gce.domain.figures import Table
from gce.domain.measurements import IterationRecord
from gce.domain.paired import paired_gain
from gce.domain.serialization import from_plain
from gce.domain.tasks import ProblemSource, Task
from gce.domain.tasks.own import answer_of
from gce.domain.tasks.questions import Question
from gce.domain.text import printable
from gce.domain.unearned_rise import UnearnedRise, last_third, rise_between, rise_over
from gce.ports.runs import RunReader

__all__ = [
    "Unearned",
    "WrongAnswer",
    "known_answer",
    "stored_unearned",
    "unearned_between",
    "unearned_lines",
    "unearned_of_run",
    "unearned_table",
    "unearned_words",
]

SHOWN = 3
"""Wrong answers."""
BEGINNING, END = 60, 100
"""Characters of a longer text that are kept: scores mostly read the end."""

StoredAnswers = Callable[[], Iterable[Mapping[str, Any]]]


@frozen
class WrongAnswer:
    """An answer that is not right and has a reward."""

    problem: str
    """The problem's key."""
    reward: float
    text: str
    """Of a longer one, the beginning and the end."""
    known: str
    """The right answer, where the task's rows have one; likewise."""


@frozen
class Unearned:
    """A reward that rose though answers did not become right."""

    rise: UnearnedRise
    answers: tuple[WrongAnswer, ...]
    """Those with the highest rewards, at most one a problem."""


def unearned_of_run(run: RunReader, task: Task, records: Sequence[IterationRecord]) -> Unearned | None:
    """Judge a run by its tests before and after, and where these show no unearned rise, by its rollouts.

    None where neither shows one, or significantly more test problems are solved after training.
    """

    def before() -> Iterator[Mapping[str, Any]]:
        return run.each_answer("test-before")

    def after() -> Iterator[Mapping[str, Any]]:
        return run.each_answer("test-after")

    right = stored_pairs(before(), after())
    if rise := rise_between(stored_pairs(before(), after(), rewards=True), right):
        return Unearned(rise, _best_wrong(after(), [task]))
    rise = None if right and paired_gain(right).mean.low > 0.0 else rise_over(records)
    if rise is None:
        return None
    first = last_third(records)
    rollouts = (record for record in run.read("rollouts") if record["iteration"] >= first)
    return Unearned(rise, _best_wrong(rollouts, [task]))


def unearned_between(before: StoredAnswers, after: StoredAnswers, tasks: Sequence[Task]) -> Unearned | None:
    """Judge answers to the same problems, each set read anew by a call; `tasks` have their known answers."""
    rewards = stored_pairs(before(), after(), rewards=True)
    rise = rise_between(rewards, stored_pairs(before(), after()))
    return None if rise is None else Unearned(rise, _best_wrong(after(), tasks))


def _best_wrong(answers: Iterable[Mapping[str, Any]], tasks: Sequence[Task]) -> tuple[WrongAnswer, ...]:
    best: dict[str, tuple[float, Mapping[str, Any]]] = {}
    for answer in answers:
        reward, problem = stored_reward(answer), answer.get("digest") or answer["problem"]
        if reward and not answer["right"] and reward > best.get(problem, (0.0, {}))[0]:
            best[problem] = (reward, answer)
    sources = [ProblemSource(task) for task in tasks]
    return tuple(
        WrongAnswer(answer["problem"], reward, _shortened(answer["text"]), _shortened(known_answer(sources, answer)))
        for reward, answer in nlargest(SHOWN, best.values(), key=lambda found: found[0])
    )


def known_answer(sources: Sequence[ProblemSource], answer: Mapping[str, Any]) -> str:
    """The column `answer` of the row; empty where there is none, or the row cannot be drawn again."""
    for source in sources:
        try:
            instance = stored_problem(source, answer).instance
        except Exception:  # A fold has other problems; and a draw may be anybody's, and nothing ends for a sample.
            continue
        return answer_of(instance) if isinstance(instance, Question) else ""
    return ""


def _shortened(text: str) -> str:
    if len(text) <= BEGINNING + END:
        return text
    left_out = len(text) - BEGINNING - END
    return f"{text[:BEGINNING]} [... {left_out:,} characters ...] {text[-END:]}"


def stored_unearned(summary: Mapping[str, Any]) -> Unearned | None:
    """What a summary holds of it."""
    return from_plain(Unearned, summary["unearned"]) if "unearned" in summary else None


def unearned_words(found: Unearned, *, task: str, run: str) -> tuple[str, str, str]:
    """What was seen, what it may mean, and where to look.

    Args:
        found: what was seen.
        task: its name in settings.
        run: where the answers are kept.
    """
    rise = found.rise
    change = difference_cell(rise.reward, digits=3, scale=1.0)
    first, last = ("before", "after") if rise.source == "test problems" else ("at first", "at last")
    seen = (
        f"the mean reward of {rise.source} rose, from {rise.reward_before:.3f} to {rise.reward_after:.3f}, {change}, "
        f"and right answers did not: {rise.right_before:,} of {rise.n_before:,} {first}, {rise.right_after:,} of "
        f"{rise.n_after:,} {last}"
    )
    meaning = (
        "Often the score pays for something other than being right, and training has found it. The wrong answers with "
        "the highest rewards"
    )
    kept = "result.answers()" if run == IN_MEMORY else f"gce transcript {shlex.quote(run)}"
    return seen, meaning, f"{check_call(task)} attacks the score; {kept} shows the answers"


def unearned_lines(found: Unearned, *, task: str, run: str) -> list[str]:
    """The same as lines with the answers, the first a warning."""
    seen, meaning, where = unearned_words(found, task=task, run=run)
    answers = [
        f'  reward {each.reward:.3g}: "{printable(each.text)}"{f", where {each.known!r} is right" * bool(each.known)}'
        for each in found.answers
    ]
    return [f"warning: {seen}", f"  {meaning}:", *answers, f"  try: {where}"]


def unearned_table(found: Unearned) -> Table:
    """The answers as a table."""
    rows = tuple((f"{each.reward:.3g}", each.text, each.known or "-", each.problem) for each in found.answers)
    return Table(("reward", "wrong answer", "right answer", "problem"), rows)
