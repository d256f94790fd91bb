"""The stage `judge` of a performance run: a model reads patches beside the human's.

What was judged is not asked again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache, partial
from hashlib import sha256
from pathlib import Path

from gce.app.loaded_model import LoadedModel, load_model
from gce.app.performance.plans import Item, model_name, open_plan
from gce.app.performance.stages import prepared_subject, rows_of, stored
from gce.app.terminal import note
from gce.app.wiring.agents import RunFolder, without_keys
from gce.domain.completions import Completion
from gce.domain.performance.judging import Judged, judge_prompt, read_judgement
from gce.domain.performance.patches import diff_text, patch_of_record
from gce.domain.performance.prompts import task_prompt
from gce.domain.problems import Message
from gce.domain.serialization import to_plain
from gce.domain.text import counted
from gce.errors import DamagedStore, LowCoverage, one_line

__all__ = ["judge", "judgements"]

_TOGETHER = 8
"""Patches that a model is asked about at a time."""
_Question = tuple[Item, Message, str]
"""An attempt, what is asked about it, and the digest of that."""


def judge(run: Path, model: str, *, max_tokens: int) -> tuple[int, int]:
    """Ask a model about all measured patches that it has not judged yet; empty ones are not judged.

    Returns how many were judged, and how many of the replies cannot be read.

    Args:
        run: folder of the run.
        model: as behind `--model`; replies greedily.
        max_tokens: of one reply, what a model thinks before it included.

    Raises:
        BadInput: no run, or no such model.
        LowCoverage: the model failed to reply to some; the same command asks again.
    """
    name = model_name(model, "judge")
    folder, _ = open_plan(run)
    with folder.locked():
        asked = ((item, prompt, _digest(model, prompt)) for item, prompt in _prompts(folder))
        missing = [each for each in asked if not _is_known(folder, name, each[0], each[2])]
        if not missing:
            return 0, 0
        note(f"{name} reads {counted(len(missing), 'patch', 'es')}")
        loaded, failures, unread = load_model(model), [], 0
        for (item, _, digest), completion in _answered(loaded, missing, max_tokens):
            if completion.finish_reason in ("context", "error"):
                failures.append(f"{item.key}: {completion.error or 'it gave no reply'}")
                continue
            found = read_judgement(completion.text)
            unread += found is None
            record = Judged(digest, without_keys(completion.text), found)
            folder.keep(f"judged/{name}", item.key, to_plain(record))
            folder.note("judged", item=item.key, judge=name, readable=found is not None)
        if failures:
            raise LowCoverage(
                f"{name} did not reply to {len(failures)} of {counted(len(missing), 'patch', 'es')}, the first because "
                f"{one_line(failures[0])}; the same command asks again"
            )
        return len(missing), unread


def judgements(run: Path) -> Mapping[str, Mapping[str, Judged]]:
    """Return what judges have said so far: by name of the judge and key of the attempt."""
    folder, plan = open_plan(run)
    found: dict[str, dict[str, Judged]] = {}
    for name in folder.judges():
        for item in plan.items:
            kept = _stored(folder, name, item)
            if kept is not None:
                found.setdefault(name, {})[item.key] = kept
    return found


def _answered(
    model: LoadedModel, asked: Sequence[_Question], max_tokens: int
) -> Iterator[tuple[_Question, Completion]]:
    """Yield each question with the reply, a few at a time, so that those before an interruption are kept."""
    for place in range(0, len(asked), _TOGETHER):
        some = asked[place : place + _TOGETHER]
        replies = model.answer([[prompt] for _, prompt, _ in some], max_tokens=max_tokens, progress=False)
        yield from zip(some, replies, strict=True)


def _prompts(folder: RunFolder) -> Iterator[tuple[Item, Message]]:
    """Yield each measured attempt whose patch is not empty, with what is asked about it."""
    subject_of = cache(partial(prepared_subject, folder.path))
    for row in rows_of(folder.path)[1]:
        if row.comparison.failed:
            continue
        subject = subject_of(row.item.task)
        try:
            patch = patch_of_record(folder.patch(row.item.key), subject.base)
        except ValueError as error:
            raise DamagedStore(f"{folder.path}: {row.item.key}: {error}") from error
        if patch.changes:
            human = diff_text(subject.human_patch)
            yield row.item, judge_prompt(task_prompt(subject.task), human, without_keys(diff_text(patch)))


def _is_known(folder: RunFolder, name: str, item: Item, digest: str) -> bool:
    """Whether this very question was replied to."""
    kept = _stored(folder, name, item)
    return kept is not None and kept.asked == digest


def _stored(folder: RunFolder, name: str, item: Item) -> Judged | None:
    data = folder.found(f"judged/{name}", item.key)
    return None if data is None else stored(Judged, data, item)


def _digest(model: str, prompt: Message) -> str:
    """Return a digest of who is asked what: the names of two models may give one name of a judge."""
    return sha256(f"{model}\n{prompt.content}".encode("utf-8", "surrogatepass")).hexdigest()
