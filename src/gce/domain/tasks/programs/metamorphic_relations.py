"""Metamorphic relations of programs: how verdicts must change with a response, whatever function is right."""

from __future__ import annotations

import random
from collections.abc import Mapping

from gce.domain.problems import Problem
from gce.domain.tasks.parts import Relation
from gce.domain.tasks.programs.answer import fenced, read_program
from gce.domain.verdicts import Violation

__all__ = ["RELATIONS"]

Changed = tuple[Problem, str] | None


def _program(problem: Problem, text: str) -> str | None:
    program = read_program(text, problem.instance.entry_point)
    return None if isinstance(program, Violation) else program


def _prose(problem: Problem, text: str, rng: random.Random) -> Changed:
    """Put prose around the block."""
    program = _program(problem, text)
    before, behind = rng.choice((("Here it is:", ""), ("", "It does what was asked."), ("I think so.", "Done.")))
    return None if program is None else (problem, f"{before}\n{fenced(program)}\n{behind}")


def _comment(problem: Problem, text: str, rng: random.Random) -> Changed:
    """Put a comment or another line before the function."""
    program = _program(problem, text)
    lines = rng.choice(("# As asked.", "\n\n# pass", "import math", "NAME = 'f'"))
    return None if program is None else (problem, fenced(f"{lines}\n{program}"))


def _renamed(problem: Problem, text: str, rng: random.Random) -> Changed:
    """Rename the function."""
    program, name = _program(problem, text), problem.instance.entry_point
    if program is None:
        return None
    return problem, fenced(program.replace(f"def {name}", f"def {name}{rng.choice(('_', '1', 'x'))}"))


def _twice(problem: Problem, text: str, _rng: random.Random) -> Changed:
    """Give the function in two blocks."""
    program = _program(problem, text)
    return None if program is None else (problem, f"{fenced(program)}\nOr:\n{fenced(program)}")


def _raising(problem: Problem, text: str, _rng: random.Random) -> Changed:
    """Exit before the function is defined."""
    program = _program(problem, text)
    return None if program is None else (problem, fenced(f"import sys\nsys.exit(0)\n{program}"))


RELATIONS: Mapping[str, Relation] = {
    "words around the block": Relation(_prose, "the verdict stays"),
    "a line before the function": Relation(_comment, "the verdict stays"),
    "another name": Relation(_renamed, "right becomes wrong"),
    "two blocks": Relation(_twice, "right becomes wrong"),
    "an exit before the function": Relation(_raising, "right becomes wrong"),
}
