"""Contract check for tasks of other frameworks: `check_foreign_task(task)`."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite

from attrs import evolve

from gce.domain.answers import answered_by
from gce.domain.completions import Completion
from gce.domain.problems import Problem, Split
from gce.domain.serialization import from_plain, to_plain
from gce.domain.tasks.own import answer_of
from gce.domain.tasks.questions import Question
from gce.domain.tasks.source import ProblemSource
from gce.domain.tasks.task import Task
from gce.domain.verdicts import Verdict

__all__ = ["STRANGE", "check_foreign_task"]

STRANGE = ("", "\0", "\ud800", "<think>", "9" * 5_000, "{[(" * 400, "nan", "1e999", "__import__('os')._exit(0)")
"""Responses that no scorer may break on in a way that reaches the caller."""
SPLITS: tuple[Split, ...] = ("train", "dev", "test")


def check_foreign_task(task: Task, *, problems: int = 4, right: float = 1.0) -> None:
    """Assert that a task of another framework behaves as one of `gce.task` does.

    Args:
        task: the task.
        problems: how many of each tier and split are looked at.
        right: minimum share of known answers that are judged right.

    Raises:
        AssertionError: it does not.
    """
    assert task.instance_type is Question, "expected problems of the type of `gce.task`"
    source, again = ProblemSource(task), ProblemSource(task)
    digests: dict[str, Split] = {}
    found: list[Problem] = []
    for preset, tiers in task.presets.items():
        for tier in tiers:
            for split in SPLITS:
                drawn = source.first(preset, tier.name, split, problems)
                assert drawn or split != "test", f"expected {split} problems of {preset}/{tier.name}"
                assert drawn == again.first(preset, tier.name, split, problems), "expected the same problems again"
                for problem in drawn:
                    other = digests.setdefault(problem.digest, split)
                    assert other == split, f"{problem.key} is in the splits {other} and {split}"
                found += drawn
    known = [(problem, answer_of(problem.instance)) for problem in found]
    own = [(problem, _completion(task.audit.write(answer))) for problem, answer in known if answer]
    judged = _judged(task, own)
    accepted = sum(answered_by(task, *each, verdicts).right for each, verdicts in zip(own, judged, strict=True))
    assert accepted >= right * len(own), f"{accepted} of {len(own)} known answers are right, expected {right:g} of them"
    _check_strange(task, found[0])
    for problem, completion in own[:3]:
        read = from_plain(Question, to_plain(problem.instance))
        verdicts = task.judge(evolve(problem, instance=read), completion)
        assert verdicts == task.judge(problem, completion), "expected the same verdict on a problem that was read back"


def _check_strange(task: Task, problem: Problem) -> None:
    answers = [(problem, _completion(wrote)) for text in STRANGE for wrote in (text, task.audit.write(text))]
    for (_, completion), verdicts in zip(answers, _judged(task, answers), strict=True):
        for verdict in verdicts:
            shown = ascii(completion.text)[:60]
            if verdict.status == "failed":
                assert verdict.violations and verdict.violations[0].message, f"expected a reason on {shown}"
            else:
                assert verdict.score is not None and isfinite(verdict.score), f"expected a score of {shown}"


def _judged(task: Task, answers: Sequence[tuple[Problem, Completion]]) -> list[tuple[Verdict, ...]]:
    """Verdicts on all at once, which have to be those on each alone and in another order."""
    together = list(task.judge_all(answers))
    if not task.audit.varies:
        alone = [task.judge(*answer) for answer in answers]
        backwards = list(task.judge_all(answers[::-1]))[::-1]
        for one, other, third in zip(together, alone, backwards, strict=True):
            kinds = {tuple((each.status, each.score) for each in verdicts) for verdicts in (one, other, third)}
            assert len(kinds) == 1, f"expected one verdict, together, alone and backwards, got {kinds}"
    return together


def _completion(text: str) -> Completion:
    return Completion("answer", text, "stop", policy="")
