"""Checks that start from known answers: written in another format, changed by one unit, and as values of another type.

What is no finding is a note: a format that the prompt does not ask for may be refused, and a changed answer that is
right is doubtful where problems may have several right answers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import partial

from gce.domain.problems import Problem
from gce.domain.tasks.extraction import final_part
from gce.domain.tasks.own import answer_of
from gce.testing.verifiers.bench import Bench, clipped, prompt_of
from gce.testing.verifiers.forms import FORMS, as_code, other_meanings, ruled_out
from gce.testing.verifiers.responses import in_final_part

__all__ = ["changes", "formats", "types"]

_TRUTHS = {"1": "True", "0": "False"}


def _known(bench: Bench) -> Iterator[tuple[Problem, str]]:
    """Problems of each tier with an own answer that the verifier calls right."""
    for tier in bench.task.tiers(bench.preset):
        for problem in bench.sample(tier.name):
            own = answer_of(problem.instance)
            if own and bench.is_right(problem, bench.task.audit.write(own)):
                yield problem, own


def formats(bench: Bench, advance: Callable[[], None]) -> None:
    """Check own answers in other formats: those that the prompt allows are right, those that it rules out are not."""
    known = list(_known(bench))
    same_but_case = _differ_in_case(bench)
    for name, form in FORMS.items():
        refused = []
        for problem, own in known:
            text = form.make(own)
            if text is None or text == own:
                continue
            bench.tried["formats"] += 1
            response = bench.task.audit.write(text)
            excluded = form.is_ruled_out(own, prompt_of(problem))
            if bench.is_right(problem, response):
                if excluded and bench.says(problem, response) is not True:
                    said = f"{name}: the prompt rules it out, and {clipped(text)} is right for {clipped(own)}"
                    bench.find("formats", "ruled out", said, problem, response)
            elif form.is_allowed(prompt_of(problem)) and bench.says(problem, response) is not False:
                said = f"{name}: the prompt allows it, and {clipped(text)} is wrong for {clipped(own)}"
                bench.find("formats", "refused", said, problem, response)
            elif not excluded and bench.says(problem, response) is not False and not bench.is_right(problem, text):
                refused.append((problem, own, text, response))
        if refused:
            problem, own, text, response = refused[0]
            said = f"{name}: refused in {len(refused)} answers, as {clipped(text)} for {clipped(own)}"
            bench.note("formats", name, said, problem, response, "note")
    for problem, own in known:
        for other in same_but_case.get(own, ()):
            bench.tried["formats"] += 1
            response = bench.task.audit.write(other)
            if bench.passes_wrongly(problem, response):
                said = f"case is ignored: {clipped(other)}, the answer of another row, is right for {clipped(own)}"
                bench.find("formats", "case", said, problem, response)
    for _ in bench.problems:
        advance()


def _differ_in_case(bench: Bench) -> dict[str, list[str]]:
    """Own answers with those that differ from them in case alone: case means something then."""
    own = dict.fromkeys(answer_of(problem.instance) for problem in bench.every())
    folded: dict[str, list[str]] = {}
    for answer in own:
        folded.setdefault(answer.casefold(), []).append(answer)
    return {answer: [other for other in folded[answer.casefold()] if other != answer] for answer in own}


def changes(bench: Bench, advance: Callable[[], None]) -> None:
    """Check that an own answer changed by one unit, and the own answers of other problems, are wrong.

    A finding where each problem has one right answer, or where the prompt rules the change out, unless the independent
    judge calls it right; and where that judge calls it wrong. Otherwise the first change of a kind that is right is
    listed as doubtful.
    """
    doubtful = set()
    for problem, own in _known(bench):
        prompt = prompt_of(problem)
        broken = in_final_part(own, partial(ruled_out, prompt=prompt))
        meanings = in_final_part(own, partial(other_meanings, prompt=prompt))
        for name, other in [*meanings.items(), *_of_others(bench, problem, own), *broken.items()]:
            bench.tried["changes"] += 1
            response = bench.task.audit.write(other)
            if not bench.is_right(problem, response):
                continue
            opinion = bench.says(problem, response)
            said = f"{name}: {clipped(other)} is right for {clipped(own)}"
            if opinion is False or ((bench.unique or name in broken) and opinion is None):
                bench.find("changes", name, said, problem, response)
            elif opinion is None and name not in doubtful:
                doubtful.add(name)
                bench.note("changes", name, said, problem, response, "doubtful")
    for _ in bench.problems:
        advance()


OTHERS = 5
"""Own answers of other problems that each problem is answered with."""


def _of_others(bench: Bench, problem: Problem, own: str) -> list[tuple[str, str]]:
    """Own answers of other problems of the tier that are not this one in another form."""
    known = dict.fromkeys(answer_of(other.instance) for other in bench.sample(problem.tier))
    others = [other for other in known if other and _core(other) != _core(own)]
    chosen = bench.rng("others", problem.key).sample(others, min(OTHERS, len(others)))
    return [("the answer to another problem", other) for other in chosen]


def _core(answer: str) -> object:
    """What two ways to write one answer have in common: the number, or its words in any order.

    Two worked solutions have in common what their final answers do.
    """
    answer = final_part(answer)[1]
    try:
        return Fraction(answer.strip()) if len(answer) < 40 else answer
    except (ValueError, ZeroDivisionError):
        return sorted(re.findall(r"\w+", answer.casefold()))


def types(bench: Bench, advance: Callable[[], None]) -> None:
    """Check that code which evaluates to an own answer is wrong, and that truth values are no numbers.

    Where the same characters in another order are right, too, nothing was evaluated: order or signs are ignored.
    """
    known = list(_known(bench))
    numeric = any(own.lstrip("-").isdigit() and own not in _TRUTHS for _, own in known)
    for problem, own in known:
        for kind, text in (("evaluated", as_code(own)), ("truth value", _TRUTHS.get(own) if numeric else None)):
            if text is None:
                continue
            bench.tried["types"] += 1
            response = bench.task.audit.write(text)
            if bench.passes_wrongly(problem, response):
                no_code = bench.task.audit.write(text[::-1])
                if kind == "evaluated" and bench.passes_wrongly(problem, no_code):
                    kind, response = "characters", no_code
                said = f"{clipped(response)} is right for {clipped(own)}"
                bench.find("types", kind, said, problem, response)
    for _ in bench.problems:
        advance()
