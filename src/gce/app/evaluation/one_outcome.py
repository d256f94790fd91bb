"""What is said where answers are all right, or none is: what was seen, samples, and what to try.

For the first rollouts of a run, which then teach nothing, and for an evaluation, which then tells no models apart;
unless graded rewards differ.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from attrs import frozen

from gce.app.tables.cells import percent
from gce.app.terminal import as_called, as_given
from gce.app.wiring.names import is_given
from gce.domain.algorithms import Algorithm
from gce.domain.answers import Answer
from gce.domain.diagnosis import diagnose_first_wave
from gce.domain.measurements import Counted, count_tier
from gce.domain.problems import Problem
from gce.domain.tasks.own import answer_of
from gce.domain.tasks.questions import Question
from gce.domain.tasks.task import Task, is_unfinished, without_thinking
from gce.domain.text import mentions, printable

__all__ = [
    "Asked",
    "check_call",
    "cut_off_words",
    "ended_early",
    "equal_rewards",
    "has_demonstration",
    "is_cut_off",
    "is_extracting",
    "more_tokens",
    "mostly_loops",
    "one_outcome_lines",
    "share_words",
    "texts_cut_off",
    "unreadable_words",
]

SHOWN = 3
"""Answers."""
LEAST_FOR_ALARM = 8
"""Answers from which on equal rewards raise the alarm."""
MANY_UNREADABLE = 0.3
"""Share of answers that are unreadable, from which on it is said whether `extract` is why."""
LEAST_CUT_OFF = 0.1
"""Share of answers that were cut off, from which on it is said."""
LEAST_HOLDING = 0.1
"""Share of answers that hold the known answer, and were refused, from which on the extraction is doubted."""
LOOKED_AT = 200
"""Last characters of an answer that was cut off in which a loop is looked for."""
_LOOP = re.compile(r"(?:(.{3,40}?)\1{3,}|(.{1,2}?)\2{11,}).{0,40}$", re.DOTALL)
MOST_OF_AN_ANSWER = 160
"""Characters of it; of what is wrong with it, half as many."""


@frozen
class Asked:
    """What the answers were given to, and what may be proposed."""

    task: Task
    name: str
    """The task's in settings."""
    preset: str
    max_tokens: int | None
    demonstrated: Sequence[str]
    """Proposals where the task has demonstrations."""
    few_shot: str
    """How few-shot examples are asked for; empty where they cannot be."""
    easier: str = ""
    """A proposal of easier problems, where the task has some that were not asked."""


def one_outcome_lines(
    head: str, asked: Asked, answers: Sequence[Answer], *, algorithm: Algorithm | None = None, credited: int = 0
) -> list[str]:
    """The lines, the first a warning that begins with `head`.

    None where some answers are right and some are wrong, and few were cut off.

    Args:
        head: what the answers are.
        asked: what they were given to.
        answers: those that did not fail.
        algorithm: what learns from them; None for those of an evaluation.
        credited: how many of them learning takes for right.
    """
    if not answers:
        return []
    rewards = [answer.reward or 0.0 for answer in answers]
    count = count_tier([Counted(answer, "", 0, False) for answer in answers], admit_at=asked.task.admit_at)
    found = diagnose_first_wave(
        [count],
        empty=sum(
            not without_thinking(answer.completion.text).strip() and not is_unfinished(answer.completion)
            for answer in answers
        ),
        credited=credited,
        rewards=(min(rewards), max(rewards)),
        needed=asked.task.admit_at,
        algorithm=algorithm,
    )
    # Below the table of an evaluation this stands already, and so does the alarm.
    limit = asked.max_tokens or asked.task.max_tokens
    cut_off = "" if algorithm is None else cut_off_words("answers", *ended_early(answers), limit=limit)
    warned = [f"warning: {head}: {cut_off}"] if cut_off else []
    if found is None:
        return warned
    proposals = {
        "all right": _harder,
        "none right": _easier,
        "cut off": _longer,
        "partial credit": _what_earns,
    }.get(found.kind, _look)
    if found.kind == "partial credit":
        shown = sorted(answers, key=lambda answer: -(answer.reward or 0.0))[:SHOWN]
    else:
        shown = [answers[place] for place in sorted({0, len(answers) // 2, len(answers) - 1})]
    samples = list(dict.fromkeys(map(_sample, shown)))
    tries = [*_extraction(asked.task, answers), *proposals(asked, answers)]
    teaches = count.graded_problems and found.kind in ("none right", "all right")
    if algorithm is not None and not algorithm.graded and teaches:
        tries.append(f"an algorithm that learns from partial credit ({as_given('objective.algorithm', 'grpo')})")
    lines = [f"warning: {head}: {found.words}", *samples, *(f"  try: {each}" for each in tries)]
    alarm = "" if algorithm is None else equal_rewards(answers)
    return [*lines, *filter(None, [alarm]), *(warned if found.kind != "cut off" else [])]


def ended_early(answers: Sequence[Answer]) -> tuple[int, int]:
    """How many answers ended at the maximum tokens, and of how many that did not fail."""
    return len(texts_cut_off(answers)), sum(not answer.failed for answer in answers)


def is_cut_off(cut: int, n: int) -> bool:
    """Whether so many of `n` answers ended at the maximum tokens that it is said."""
    return bool(n) and cut >= LEAST_CUT_OFF * n


def cut_off_words(what: str, cut: int, n: int, *, limit: int | None = None, loops: bool = False) -> str:
    """How many of `n` answers ended at the maximum tokens, and what to try instead of `limit`; empty where few did.

    `loops` says that most of them repeat themselves.
    """
    if not is_cut_off(cut, n):
        return ""
    option = f"raise {as_given('rollouts.max_tokens')}" if limit is None else f"try {more_tokens(limit)}"
    option = "most of these repeat themselves, which more tokens would not end" if loops else option
    return f"{share_words(what, cut, n)} were cut off at the maximum tokens: {option}"


def mostly_loops(texts: Sequence[str]) -> bool:
    """Whether most of these texts, which ended at the maximum tokens, repeat the same few characters at their end."""
    return 2 * sum(_LOOP.search(text[-LOOKED_AT:]) is not None for text in texts) > len(texts)


def texts_cut_off(answers: Sequence[Answer]) -> list[str]:
    """The texts of answers that ended at the maximum tokens."""
    return [each.completion.text for each in answers if not each.failed and each.completion.finish_reason == "length"]


def share_words(what: str, count: int, n: int) -> str:
    """A share and its counts, as "33% of rollouts (42 of 128)"."""
    return f"{percent(count / n)} of {what} ({count:,} of {n:,})"


def more_tokens(limit: int) -> str:
    """The setting that allows twice as many tokens."""
    return as_given("rollouts.max_tokens", 2 * limit)


def unreadable_words(answers: Sequence[Answer], task: Task) -> str:
    """How many answers held none that could be read; empty where all could.

    Of many, also in how many `extract` of an own task found none, and how many of these contain the right answer.
    """
    judged = [answer for answer in answers if not answer.failed]
    unreadable = [answer for answer in judged if answer.outcome == "unreadable"]
    if not unreadable:
        return ""
    cut = ended_early(unreadable)[0]
    said = f"{share_words('answers', len(unreadable), len(judged))} are unreadable"
    said += f", {cut:,} of them cut off" if cut else ""
    read = task.audit.read if is_extracting(task) else None
    missed = [] if read is None else [each for each in unreadable if not read(each.completion.text)]
    if not missed or len(unreadable) < MANY_UNREADABLE * len(judged):
        return said
    holding = f"{len(_holding(missed)):,} contain the right answer"
    return f"{said}; extract= found no answer in {len(missed):,} of them, {holding}"


def equal_rewards(answers: Sequence[Answer]) -> str:
    """The alarm where all rewards are equal though answers differ; empty where rewards differ, or all are right.

    Answers are told apart by their texts; those that failed do not count, and fewer than `LEAST_FOR_ALARM` say nothing.
    Empty, too, where most answers were cut off.
    """
    judged = [answer for answer in answers if answer.reward is not None]
    rewards = {answer.reward for answer in judged}
    different = len({without_thinking(answer.completion.text).strip() for answer in judged} - {""})
    if len(judged) < LEAST_FOR_ALARM or len(rewards) > 1 or different < 2 or all(each.right for each in judged):
        return ""
    cut, n = ended_early(judged)
    if 2 * cut >= n:  # That is why, and said besides.
        return ""
    unreadable = sum(answer.outcome == "unreadable" for answer in judged)
    why = f"; {unreadable} were unreadable" if unreadable else ""
    return (
        f"alarm: all {len(judged):,} rewards are {rewards.pop():g}, and {different:,} of the answers differ{why}: the "
        "scorer may be broken, or not find the answer"
    )


def _sample(answer: Answer) -> str:
    said = next((violation.message for verdict in answer.verdicts for violation in verdict.violations), "")
    text = _clipped(answer.completion.text, MOST_OF_AN_ANSWER)
    wrong = f"  <- {_clipped(said, MOST_OF_AN_ANSWER // 2)}" if said else ""
    return f'  {answer.problem.tier}: "{text}"{wrong}'


def _clipped(text: str, length: int) -> str:
    """The beginning of a text, on one line."""
    return printable(text[:length]) + (f" ... and {len(text) - length:,} more characters" if len(text) > length else "")


def _holding(answers: Sequence[Answer]) -> list[str]:
    """The known answers of those responses to questions that hold them and do not count as right."""
    known = [
        (answer_of(each.problem.instance), each) for each in answers if isinstance(each.problem.instance, Question)
    ]
    return [right for right, each in known if right and not each.right and mentions(each.completion.text, right)]


def _extraction(task: Task, answers: Sequence[Answer]) -> Iterator[str]:
    """A proposal where responses hold the known answer and the score refuses them."""
    holding = _holding(answers)
    if holding and len(holding) >= LEAST_HOLDING * len(answers):
        score = "the score find the answer in a sentence: answer.rstrip('.').split(' is ')[-1]"
        yield (
            f"the known answer stands in {len(holding)} of {len(answers)} responses that count as wrong, as "
            f"{_clipped(holding[0], MOST_OF_AN_ANSWER)!r}: look at what extract= gives the score"
            + ("" if is_extracting(task) else f", or let {score}")
        )


def _harder(asked: Asked, answers: Sequence[Answer]) -> Iterator[str]:
    if _is_one_answer(answers):
        yield f"{check_call(asked.name)}: one fixed answer passes every question, so the score may be gameable"
        return
    others = [name for name in asked.task.presets if name != asked.preset]
    if others:
        yield f"another preset, if it is harder ({as_given('preset')}: {', '.join(others)})"
    yield f"another task ({as_given('task')}), or tiers of your own that are harder"


def check_call(task: str) -> str:
    """How the verifier of the task of this name in settings is attacked."""
    call, command = "gce.check(task)", f"gce check --task {task}"
    return call if is_given(task) else as_called(command, call)


def _is_one_answer(answers: Sequence[Answer]) -> bool:
    """Whether different problems got the same text."""
    texts = {without_thinking(answer.completion.text).strip() for answer in answers}
    return len(texts) == 1 and len({answer.problem.digest for answer in answers}) > 1


def _easier(asked: Asked, answers: Sequence[Answer]) -> Iterator[str]:
    if has_demonstration(asked.task, answers[0].problem):
        yield from asked.demonstrated
    else:
        how = "the questions a column answer" if _is_question(answers) else "the task demonstrations (gce.Teaching)"
        yield f"give {how}, for an SFT warm-up or few-shot examples"
    if asked.easier:
        yield asked.easier
    yield f"a stronger model ({as_given('model.name')})"


def _what_earns(asked: Asked, answers: Sequence[Answer]) -> Iterator[str]:
    yield f"{check_call(asked.name)}: partial credit is learned for whatever earns it, as in the answers above"
    yield from _easier(asked, answers)


def _longer(asked: Asked, answers: Sequence[Answer]) -> Iterator[str]:
    problem = answers[0].problem
    budget = asked.task.token_budget(problem, asked.max_tokens)
    yield f"a larger token budget than {budget:,} for {problem.tier} ({more_tokens(budget)})"


def _look(asked: Asked, answers: Sequence[Answer]) -> Iterator[str]:
    how = "" if is_given(asked.name) else f" (gce show {asked.name})"
    yield f"compare with the answer format that the verifier expects{how}"
    if asked.few_shot and has_demonstration(asked.task, answers[0].problem):
        yield f"few-shot examples, which show the format ({asked.few_shot})"
    yield f"a model that follows the format ({as_given('model.name')})"


def is_extracting(task: Task) -> bool:
    """Whether an own task has `extract=` take a part of the response, neither its last line nor the whole of it."""
    whole = "first line\nlast line"
    return task.audit.read is not None and task.audit.read(whole) not in (whole, "last line")


def _is_question(answers: Sequence[Answer]) -> bool:
    return isinstance(answers[0].problem.instance, Question)


def has_demonstration(task: Task, problem: Problem) -> bool:
    """Whether the task can write a right response to the problem."""
    try:
        return task.teaching.demonstration(problem, None) is not None
    except Exception:  # It is the task's, and nothing ends for a proposal.
        return False
