"""A list of questions: rows checked one by one, and cut into splits or folds by their digests.

Which split a question is in follows from the digests of its tier alone, never from the order of rows. Knows nothing of
files, rewards and models.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from itertools import chain
from typing import Any, TypeVar, get_args

import numpy as np
from attrs import evolve, frozen

from gce.domain.problems import Message, Split
from gce.domain.tasks.task import Listed, Task, TaskTier
from gce.domain.text import counted

__all__ = ["ONE_TIER", "Question", "Questions", "cut", "fold_of", "list_of", "question_of", "shown", "tier_of"]

ONE_TIER = "all"
COLUMNS = "name the question's column 'prompt', and that of a known answer 'answer'"
"""The tier of rows that name none."""
_ROLES = ("system", "user", "assistant")
_SPLITS: tuple[Split, ...] = get_args(Split)
Item = TypeVar("Item")


@frozen
class Question:
    """One problem of a list."""

    prompt: tuple[Message, ...]
    row: Mapping[str, Any]
    """As it was given: plain data by column."""
    digest: str


@frozen
class Questions:
    """A list, cut into splits."""

    rows: tuple[Question, ...]
    """In the order given."""
    tiers: tuple[TaskTier, ...]
    listed: Listed


def tier_of(question: Question) -> str:
    """The tier that a row names, or the one of rows that name none."""
    return str(question.row.get("tier", ONE_TIER))


def shown(value: object) -> str:
    """A value and its type, short enough for one line."""
    try:
        text = f"{value!a:.60}"
    except Exception:  # It may be anybody's, or a number of more digits than Python writes.
        text = "a value"
    return f"{text} ({type(value).__name__})"


def list_of(
    rows: Iterable[Any], *, shares: Sequence[float], tiers: Sequence[str], held_out: Sequence[str]
) -> Questions:
    """The questions of these rows.

    Raises:
        ValueError: in one line, which row is wrong and how, or which split has no questions.
    """
    questions = [question_of(row, f"row {number}") for number, row in enumerate(rows, 1)]
    if not questions:
        raise ValueError("expected at least one question, got an empty list")
    numbers: dict[str, int] = {}
    for number, question in enumerate(questions, 1):
        if (first := numbers.setdefault(question.digest, number)) != number:
            raise ValueError(
                f"row {number}: the same question as row {first} (digest {question.digest:.40}): remove one"
            )
    by_tier: dict[str, list[Question]] = defaultdict(list)
    for question in questions:
        by_tier[tier_of(question)].append(question)
    names = sorted(by_tier)
    if tiers and sorted(tiers) != names:
        raise ValueError(f"expected the tiers {', '.join(map(str, tiers))}, got rows of {', '.join(names)}")
    if unknown := sorted(set(held_out) - set(names)):
        raise ValueError(f"no tier {unknown[0]!r} to be held out: the rows have {', '.join(names)}")
    says = ["split" in question.row for question in questions]
    if any(says) and not all(says):
        raise ValueError(f"row {says.index(False) + 1}: no column 'split', which row {says.index(True) + 1} has")
    table = _as_said(by_tier) if any(says) else _as_cut(by_tier, shares, held_out)
    levels = tuple(TaskTier(tier, held_out=not table[tier, "train"]) for tier in tiers or names)
    return Questions(tuple(questions), levels, Listed(lambda _preset, tier, split: table.get((tier, split), ())))


Table = dict[tuple[str, Split], tuple[Question, ...]]
"""Questions by tier and split."""


def _as_said(by_tier: Mapping[str, Sequence[Question]]) -> Table:
    """As the column `split` says."""
    table = {
        (tier, split): tuple(each for each in those if each.row["split"] == split)
        for tier, those in by_tier.items()
        for split in _SPLITS
    }
    if not any(table[tier, "test"] for tier in by_tier):
        raise ValueError("no test questions: expected some rows with 'split' test")
    return table


def _as_cut(by_tier: Mapping[str, Sequence[Question]], shares: Sequence[float], held_out: Sequence[str]) -> Table:
    table: Table = {}
    for tier, those in by_tier.items():
        of_tier = (0.0, 0.0, 1.0) if tier in held_out else shares
        found = cut(those, [each.digest for each in those], of_tier)
        for split, share in zip(_SPLITS, of_tier, strict=True):
            if share and not found[split]:
                few = counted(len(those), "question") + (f" in tier {tier}" if len(by_tier) > 1 else "")
                raise ValueError(
                    f"no {split} questions: {few}, too few for shares {', '.join(f'{s:g}' for s in shares)}"
                )
        table |= {(tier, split): each for split, each in found.items()}
    return table


def question_of(row: Any, where: str) -> Question:
    """The question of a row; `where` names it in errors.

    Raises:
        ValueError: what is missing or wrong.
    """
    if not isinstance(row, Mapping):
        raise ValueError(f"{where}: expected a mapping with 'prompt' and further columns, got {shown(row)}")
    if "prompt" not in row:
        names = ", ".join(map(str, row))[:200] or "no columns"
        raise ValueError(f"{where}: no column 'prompt', got {names}; {COLUMNS}")
    try:
        plain = {_text_key(name, where): _plain(value, f"{where}, column {name!r}") for name, value in row.items()}
    except RecursionError:
        raise ValueError(f"{where}: expected plain data, got some that is nested too deeply") from None
    tier = plain.get("tier", ONE_TIER)
    if isinstance(tier, bool) or not isinstance(tier, (str, int)) or not str(tier).strip() or "/" in str(tier):
        raise ValueError(f"{where}: expected 'tier' to be a name without /, got {shown(tier)}")
    if plain.get("split", "test") not in _SPLITS:
        raise ValueError(f"{where}: expected 'split' to be train, dev or test, got {shown(plain['split'])}")
    prompt = _prompt(row["prompt"], where)
    digest = plain.get("digest", _digest(prompt))
    if not isinstance(digest, str) or not digest:
        raise ValueError(f"{where}: expected 'digest' to be text that is not empty, got {shown(digest)}")
    return Question(prompt, plain, digest)


def _text_key(name: Any, where: str) -> str:
    if not isinstance(name, str):
        raise ValueError(f"{where}: expected names of columns to be text, got {shown(name)}")
    return name


def _plain(value: Any, where: str) -> Any:
    """Plain data, as JSON has it: arrays and tuples become lists."""
    if isinstance(value, (np.generic, np.ndarray)):
        value = value.tolist()
    if value is None or isinstance(value, (bool, int, str)) or (isinstance(value, float) and math.isfinite(value)):
        return value
    if isinstance(value, Message):
        return {"role": value.role, "content": value.content}
    if isinstance(value, (list, tuple)):
        return [_plain(each, where) for each in value]
    if isinstance(value, Mapping):
        return {_text_key(name, where): _plain(each, where) for name, each in value.items()}
    raise ValueError(
        f"{where}: expected text, a finite number, true or false, null, a list or an object, got {shown(value)}"
    )


def _prompt(given: Any, where: str) -> tuple[Message, ...]:
    if isinstance(given, str) and given.strip():
        return (Message("user", given),)
    if isinstance(given, str) or not isinstance(given, (list, tuple, np.ndarray)) or not len(given):
        raise ValueError(f"{where}: expected 'prompt' to be text or a list of messages, not empty, got {shown(given)}")
    messages = tuple(_message(each, f"{where}, message {number}") for number, each in enumerate(given, 1))
    if messages[-1].role != "user":
        raise ValueError(f"{where}: expected the prompt's last message to be the user's, got the {messages[-1].role}'s")
    return messages


def _message(given: Any, where: str) -> Message:
    if isinstance(given, Message):
        return given
    role, content = (given.get("role"), given.get("content")) if isinstance(given, Mapping) else (None, None)
    if role not in _ROLES or not isinstance(content, str):
        raise ValueError(
            f"{where}: expected {{'role': one of {', '.join(_ROLES)}, 'content': text}}, got {shown(given)}"
        )
    return Message(role, content)


def _digest(prompt: Sequence[Message]) -> str:
    """Of what is asked, whatever white space stands between the words."""
    words = "\0".join(f"{each.role} {' '.join(each.content.split())}" for each in prompt)
    return blake2b(words.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def _hash_order(items: Sequence[Item], digests: Sequence[str]) -> list[Item]:
    keys = [blake2b(digest.encode("utf-8", "surrogatepass")).digest() for digest in digests]
    return [items[place] for place in sorted(range(len(items)), key=keys.__getitem__)]


def cut(items: Sequence[Item], digests: Sequence[str], shares: Sequence[float]) -> dict[Split, tuple[Item, ...]]:
    """Items by split, in the order of their digests' hashes; `shares` are those of train, dev and test, in any unit.

    Each split with a share gets at least one item while there are any: test first, then train, then dev.
    """
    share = dict(zip(_SPLITS, (each / math.fsum(shares) for each in shares), strict=True))
    order: list[Split] = [split for split in ("test", "train", "dev") if share[split]]
    sizes = {split: int(order.index(split) < len(items)) if split in order else 0 for split in _SPLITS}
    while sum(sizes.values()) < len(items):
        sizes[max(order, key=lambda split: share[split] * len(items) - sizes[split])] += 1
    left = iter(_hash_order(items, digests))
    return {split: tuple(next(left) for _ in range(sizes[split])) for split in _SPLITS}


def fold_of(task: Task, fold: int, folds: int) -> Task:
    """The same questions, of which each `folds`-th, by the order of hashes, is tested and the others are for training.

    A fifth of these others are its dev questions. `fold` counts from 1. Tiers that are held out stay so.

    Raises:
        ValueError: the task has no list of questions, or a tier has fewer than there are folds.
    """
    how = task.draw
    if not isinstance(how, Listed):
        raise ValueError(f"task {task.name} draws new problems: folds need a list of questions")
    table: dict[tuple[str, str, Split], tuple[Any, ...]] = {}
    for preset, tiers in task.presets.items():
        for tier in tiers:
            every = list(chain.from_iterable(how.instances(preset, tier.name, split) for split in _SPLITS))
            if len(every) < folds:
                few = counted(len(every), "question")
                raise ValueError(f"task {task.name} has {few} in tier {tier.name}: too few for {folds} folds")
            every = _hash_order(every, [task.digest(each) for each in every])
            rest = [each for place, each in enumerate(every) if place % folds != fold - 1]
            others = cut(rest, [task.digest(each) for each in rest], (0 if tier.held_out else 80, 20, 0))
            table |= {(preset, tier.name, split): found for split, found in others.items()}
            table[preset, tier.name, "test"] = tuple(every[fold - 1 :: folds])
    return evolve(task, draw=Listed(lambda preset, tier, split: table.get((preset, tier, split), ()), is_fold=True))
