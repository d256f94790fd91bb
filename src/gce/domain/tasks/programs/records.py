"""Functions from a file: records of HumanEval, of MBPP, and plain ones.

- HumanEval (Chen et al., 2021): task_id, prompt, entry_point, test, canonical_solution.
- MBPP, sanitized (Austin et al., 2021): task_id, prompt, code, test_imports, test_list; task_id determines its
  published split.
- Plain: prompt, entry_point, tests, and optionally solution, preamble, tier, split and seconds.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, get_args

from attrs import frozen

from gce.domain.problems import Split
from gce.domain.tasks.programs.exercise import Exercise

__all__ = ["Listed", "exercise_of"]

ALL = "all"
"""The tier of records that do not name one."""


@frozen
class Listed:
    """One function from a file, with its tier and split."""

    exercise: Exercise
    tier: str
    split: Split


def exercise_of(record: Mapping[str, Any]) -> Listed:
    """Return the function that a record describes.

    Raises:
        ValueError: a field is missing or wrong; the message says which.
    """
    if not isinstance(record, Mapping):
        raise ValueError(f"expected an object, got {type(record).__name__}")
    if "canonical_solution" in record:
        return _human_eval(record)
    if "test_list" in record:
        return _mbpp(record)
    return _plain(record)


def _text(record: Mapping[str, Any], name: str, default: str | None = None) -> str:
    value = record.get(name, default)
    if not isinstance(value, str):
        got = "nothing" if value is None else type(value).__name__
        raise ValueError(f"expected a text for {name!r}, got {got}")
    return value


def _human_eval(record: Mapping[str, Any]) -> Listed:
    prompt, name = _text(record, "prompt"), _text(record, "entry_point")
    before, found, _ = prompt.rpartition(f"def {name}(")
    if not found:
        raise ValueError(f"expected a prompt that begins the function {name}")
    exercise = Exercise(
        statement=f"Complete this Python function.\n```python\n{prompt.rstrip()}\n```",
        entry_point=name,
        solution=found + prompt.rpartition(found)[2] + _text(record, "canonical_solution"),
        tests=_text(record, "test"),
        preamble=before,
        seconds=5,
    )
    return Listed(exercise, ALL, "test")


def _mbpp(record: Mapping[str, Any]) -> Listed:
    code, tests = _text(record, "code"), record["test_list"]
    imports = record.get("test_imports") or record.get("test_setup_code") or []
    imports = [imports] if isinstance(imports, str) else imports
    if not (isinstance(tests, list) and tests and all(isinstance(line, str) for line in [*tests, *imports])):
        raise ValueError("expected test_list and test_imports to be lists of texts")
    heads = re.findall(r"^def (\w+)(\([^\n]*)", code.replace("\r", ""), re.MULTILINE)
    called = [head for head in heads if re.search(rf"\b{head[0]}\(", tests[0])]
    if not called:
        raise ValueError("expected tests that call a function of the code")
    name, parameters = called[-1]
    exercise = Exercise(
        statement=f"{_text(record, 'prompt', record.get('text')).strip()}\n"
        f"The function begins with: def {name}{parameters.strip()}",
        entry_point=name,
        solution=code.replace("\r", ""),
        tests="\n".join([*imports, *tests]),
        seconds=5,
    )
    number = record.get("task_id")
    split: Split = "test"
    if isinstance(number, int) and not 11 <= number <= 510:
        split = "dev" if 511 <= number <= 600 else "train"
    return Listed(exercise, ALL, split)


def _plain(record: Mapping[str, Any]) -> Listed:
    tests, split = record.get("tests"), record.get("split", "test")
    if isinstance(tests, list) and all(isinstance(line, str) for line in tests):
        tests = "\n".join(tests)
    if not isinstance(tests, str) or not tests.strip():
        raise ValueError("expected 'tests': Python that calls the function and raises where it is wrong")
    if split not in get_args(Split):
        raise ValueError(f"expected 'split' to be one of {', '.join(get_args(Split))}, got {split!r}")
    seconds = record.get("seconds", 5)
    if not isinstance(seconds, int) or isinstance(seconds, bool):
        raise ValueError(f"expected 'seconds' to be a whole number, got {seconds!r}")
    exercise = Exercise(
        statement=_text(record, "prompt"),
        entry_point=_text(record, "entry_point"),
        solution=_text(record, "solution", ""),
        tests=tests,
        preamble=_text(record, "preamble", ""),
        seconds=seconds,
    )
    tier = _text(record, "tier", ALL)
    if not tier or "/" in tier:
        raise ValueError(f"expected 'tier' to be a name without /, got {tier!r}")
    return Listed(exercise, tier, split)
