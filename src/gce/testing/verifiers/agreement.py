"""The check that prompt and verifier agree: stated constraints are checked, and checked constraints are stated."""

from __future__ import annotations

import copy
import random
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from attrs import evolve

from gce.domain.completions import Completion
from gce.domain.problems import Problem
from gce.domain.serialization import from_plain, to_plain
from gce.testing.verifiers.bench import Bench, Overdue, called, scores

__all__ = ["agreement", "changed_instances"]

ENOUGH = 20
"""Number of changes to a stated field after which some verdict must have changed."""

CHANGES = 60
"""Number of changes tried per instance."""


def agreement(bench: Bench, advance: Callable[[], None]) -> None:
    """Check that the prompt states everything that is checked, and that all numbers it states are checked."""
    stated: Counter[str] = Counter()
    checked: Counter[str] = Counter()
    task = bench.task
    for problem in bench.problems:
        rng = bench.rng("agreement", problem.key)
        texts = [*bench.right[problem.key][:3], *bench.wrong[problem.key][:12]]
        asked = evolve(problem, prompt=task.prompt(problem.instance, bench.rng("wording", problem.key)))
        before = [bench.verdicts(asked, text) for text in texts]
        plain = to_plain(problem.instance)
        changes = [change for change in _changes(plain, rng) if not (change[2] and change[2][0] in task.audit.hidden)]
        for name, counts, path, value in rng.sample(changes, min(CHANGES, len(changes))):
            try:
                with bench.in_time():
                    instance: Any = from_plain(task.instance_type, _with(plain, path, value))
                    prompt = task.prompt(instance, bench.rng("wording", problem.key))
                    other = evolve(problem, instance=instance, prompt=prompt, digest=task.digest(instance))
                    after = [bench.ask(other, Completion("k", text, "stop", policy="check")) for text in texts]
            except (Exception, Overdue):  # The type, or what is made from it, rejects this change.
                continue
            bench.tried["agreement"] += 1
            moved = [index for index in range(len(texts)) if scores(before[index]) != scores(after[index])]
            if prompt == asked.prompt and moved:
                text, at = texts[moved[0]], moved[0]
                said = f"{called(before[at])}, then {called(after[at])}, and the prompt is the same"
                bench.find("agreement", "hidden", f"{name} changed: {said}", problem, text)
            elif path and path[0] in task.audit.illustrations:
                pass
            elif prompt != asked.prompt and counts and bench.right[problem.key]:
                stated[name] += 1
                checked[name] += bool(moved)
        advance()
    if not any(bench.right.values()):
        bench.not_checked.append(
            "agreement: whether all that the prompt states is checked; it takes known right answers"
        )
    for name in stated:
        if stated[name] >= ENOUGH and not checked[name]:
            bench.find(
                "agreement",
                "not checked",
                f"{name} is stated in the prompt, and in {stated[name]} changes of it no verdict changed",
            )


def changed_instances(bench: Bench, problem: Problem) -> Iterator[Any]:
    """Yield instances that differ from the problem's in one field, where its type allows them."""
    rng, plain = bench.rng("changed instances", problem.key), to_plain(problem.instance)
    changes = list(_changes(plain, rng))
    for _, _, path, value in rng.sample(changes, min(CHANGES, len(changes))):
        try:
            yield from_plain(bench.task.instance_type, _with(plain, path, value))
        except Exception:  # Whatever a user's type raises.
            continue


def _changes(plain: Any, rng: random.Random) -> Iterator[tuple[str, bool, tuple[Any, ...], Any]]:
    """Yield changes of single fields: (field, whether it is a number or a list, path, new value)."""
    leaves = list(_leaves(plain, (), ""))
    words = sorted({value for _, _, value in leaves if isinstance(value, str)})
    for path, name, value in leaves:
        if isinstance(value, bool):
            others: list[Any] = [not value]
        elif isinstance(value, (int, float)):
            others = [value + 1, value - 1, value // 2, 2 * value + 3, 0]
        elif isinstance(value, str):
            others = [*rng.sample(words, min(3, len(words))), value + "q", "Q"]
        else:
            others = [value[:at] + value[at + 1 :] for at in range(len(value))]
        for other in others:
            if other != value:
                yield name, not isinstance(value, str), path, other


def _leaves(plain: Any, path: tuple[Any, ...], name: str) -> Iterator[tuple[tuple[Any, ...], str, Any]]:
    """Yield numbers, texts and lists with their paths; the items of a list share a name."""
    if isinstance(plain, dict):
        for field, value in plain.items():
            yield from _leaves(value, (*path, field), f"{name}.{field}".lstrip("."))
    elif isinstance(plain, list):
        yield path, f"{name or 'the instance'}: items", plain
        for index, value in enumerate(plain):
            yield from _leaves(value, (*path, index), f"{name}[]")
    elif plain is not None:
        yield path, name or "the instance", plain


def _with(plain: Any, path: tuple[Any, ...], value: Any) -> Any:
    if not path:
        return value
    changed = copy.deepcopy(plain)
    owner = changed
    for step in path[:-1]:
        owner = owner[step]
    owner[path[-1]] = value
    return changed
