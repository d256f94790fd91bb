r"""Strategies that differ in how a belief is read: option likelihoods, repeated samples, and \finalBeliefProb{X}."""

from __future__ import annotations

from math import fsum, isnan

from gce.domain.completions import Completion
from gce.domain.problems import Message, Problem
from gce.domain.strategies.requests import (
    Ask,
    Exchange,
    Failed,
    Score,
    Settings,
    Strategy,
    beliefs_of,
    draft_of,
    whole_number,
)
from gce.domain.tasks.beliefs.log_odds import from_log_odds
from gce.domain.tasks.task import Task, without_thinking

__all__ = ["FINAL_BELIEF", "OPTION_LIKELIHOODS", "REPEATED_SAMPLING"]

OPTIONS = "{situation}\nWhich of these holds?\nA: {first}\nB: {second}\nReply with the letter A or B alone."
IN_BRACES = (
    "{situation}\n{question}\nReason first if you like. Then state the probability X, a decimal from 0 to 1, as "
    "\\finalBeliefProb{{X}}"
)
SAMPLES, MOST = 5, 100
"""Samples of a belief by default, and at most."""
WARM = 0.7
"""Their temperature where the settings are greedy, which would repeat one sample."""


def _option_likelihoods(task: Task, problem: Problem, _settings: Settings) -> Exchange:
    """Softmax over the two letters in both orders of the options; the mean of both counts."""
    known = beliefs_of(task)
    situation, sides = known.situation(problem), known.sides(problem)
    prompts = [OPTIONS.format(situation=situation, first=sides[one], second=sides[1 - one]) for one in (0, 1)]
    replies = yield tuple(Score((*problem.prompt[:-1], Message("user", each)), ("A", "B")) for each in prompts)
    failed = [each for each in replies if isinstance(each, Failed)]
    if failed:
        return failed[0]
    margins = [fsum(first) - fsum(second) for first, second in replies]
    if any(map(isnan, margins)):
        return Failed("the model's log-probabilities of A and B are no numbers")
    beliefs = (from_log_odds(margins[0]), 1.0 - from_log_odds(margins[1]))
    readings = (draft_of(problem, known.write(each), reading="order") for each in beliefs)
    return (*readings, draft_of(problem, known.write(fsum(beliefs) / 2)))


def _with_samples(written: str) -> Strategy:
    count = whole_number(written, 2, MOST)

    def converse(task: Task, problem: Problem, settings: Settings) -> Exchange:
        asked = Ask(problem.prompt, temperature=settings.temperature or WARM, reading="sample")
        samples = yield (asked,) * count
        beliefs = [each.measure("belief") for each in samples]
        readable = [each for each in beliefs if each is not None]
        if 2 * len(readable) < count:
            unread = next(each for each in samples if each.measure("belief") is None)
            return (*samples, draft_of(problem, unread.completion))
        return (*samples, draft_of(problem, beliefs_of(task).write(fsum(readable) / len(readable))))

    return Strategy(
        "repeated-sampling",
        converse,
        f"the mean of {SAMPLES} sampled beliefs, of those that can be read, if at least half can; @N: of N",
        needs=frozenset({"sample", "beliefs"}),
        options=_with_samples,
    )


def _in_braces(task: Task, problem: Problem, _settings: Settings) -> Exchange:
    """The answer line is written below a response from which a probability could be read."""
    known = beliefs_of(task)
    words = IN_BRACES.format(situation=known.situation(problem), question=known.question(problem))
    draft = yield Ask((*problem.prompt[:-1], Message("user", words)), draft=True)
    said: Completion = draft.completion
    belief = known.read(without_thinking(said.text))
    if belief is None:
        return (draft_of(problem, said),)
    text = f"{said.text}\n{known.write(belief)}"
    return (draft_of(problem, Completion(said.key, text, said.finish_reason, said.policy, tokens=said.tokens)),)


OPTION_LIKELIHOODS = Strategy(
    "option-likelihoods",
    _option_likelihoods,
    "softmax over the likelihoods of the options' letters, averaged over both orders of the options",
    needs=frozenset({"score", "beliefs"}),
)
REPEATED_SAMPLING = _with_samples(str(SAMPLES))
FINAL_BELIEF = Strategy(
    "final-belief",
    _in_braces,
    r"the probability as \finalBeliefProb{X} anywhere in the response, the last one counts",
    needs=frozenset({"sample", "beliefs"}),
)
