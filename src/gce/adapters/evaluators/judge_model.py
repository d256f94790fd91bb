"""A language model as an evaluator: it reads the problem and the quoted answer, and replies with a grade."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from gce.domain.completions import Completion, SampleRequest
from gce.domain.evaluators.judges import MAX_TOKENS, judge_measures
from gce.domain.problems import Problem
from gce.domain.randomness import key
from gce.domain.strategies.judge import asked_for_grade, grade_in
from gce.domain.tasks.task import answer_of
from gce.domain.verdicts import Verdict, Violation
from gce.errors import ModelError
from gce.ports.model import Sampler

__all__ = ["JudgeModel"]

TEMPERATURE = 0.8
"""Of repeated grades; a single one is greedy."""
MOST_SILENT = 8
"""Answers in a row that get no reply, after which the judge is not asked any more."""


class JudgeModel:
    """Grades answers from 0 to 1. An answer without a readable grade has no score: its verdict has failed."""

    def __init__(self, name: str, model: Sampler, *, repeats: int = 1, seed: int = 0) -> None:
        """Make a judge called `name`, whose score is the mean of `repeats` grades."""
        self._name = name
        self._model = model
        self._repeats = repeats
        self._seed = seed
        self._silent = 0

    def judge(self, answers: Sequence[tuple[Problem, Completion]]) -> list[Verdict]:
        """Return the verdict on each answer, beside those that decide.

        Raises:
            ModelError: the model replied to none of `MOST_SILENT` answers in a row, each asked twice.
        """
        requests = [
            self._request(place, repeat, *answer)
            for place, answer in enumerate(answers)
            for repeat in range(self._repeats)
        ]
        replies = self._replies(requests)
        unanswered = [each for each in requests if replies[each.key].finish_reason == "error"]
        if unanswered:
            replies |= self._replies(unanswered)
        return [
            self._verdict([replies[f"{place}/{repeat}"] for repeat in range(self._repeats)])
            for place in range(len(answers))
        ]

    def _request(self, place: int, repeat: int, problem: Problem, completion: Completion) -> SampleRequest:
        return SampleRequest(
            f"{place}/{repeat}",
            asked_for_grade(problem.prompt, answer_of(completion).text),
            seed=key(self._seed, self._name, problem.key, completion.key, repeat),
            temperature=TEMPERATURE if self._repeats > 1 else 0.0,
            max_tokens=MAX_TOKENS,
        )

    def _replies(self, requests: Sequence[SampleRequest]) -> dict[str, Completion]:
        found = {each.key: each for each in self._model.sample(requests)}
        if {*found} != {each.key for each in requests}:
            raise ModelError(f"{self._name}: expected one reply to each of {len(requests)} requests, got {len(found)}")
        return found

    def _verdict(self, replies: Sequence[Completion]) -> Verdict:
        grades = [grade_in(each.text) for each in replies]
        used = (sum(each.prompt_tokens or 0 for each in replies), sum(each.tokens or 0 for each in replies))
        measures = judge_measures(*used, grades)
        silent = all(each.finish_reason == "error" for each in replies)
        self._silent = self._silent + 1 if silent else 0
        readable = [grade for grade in grades if grade is not None]
        if readable:
            score = fmean(readable)
            return Verdict("right" if score == 1.0 else "wrong", score, self._name, "1", measures, beside=True)
        last = replies[-1]
        kind, said = "unreadable", f"no grade can be read in its reply {last.text[-80:]!r}"
        if last.finish_reason in ("error", "context"):
            kind, said = "no-reply", f"it did not reply: {last.error or last.finish_reason}"
        if self._silent >= MOST_SILENT:
            raise ModelError(
                f"{self._name} replied to none of {self._silent} answers: {last.error or 'it gave no reason'}",
                hint="resume the run once that is mended",
            )
        failed = (Violation(kind, f"the evaluator {self._name} gave no score: {said}"),)
        return Verdict("failed", None, self._name, "1", measures, failed, beside=True)
