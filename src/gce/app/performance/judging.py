"""The stage `judge` of a performance run: a model reads patches beside the human's.

What was judged is not asked again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache, partial
from hashlib import sha256
from pathlib import Path

from gce.app.evaluation.scoring import sampled
from gce.app.performance.plans import Item, model_name, open_plan
from gce.app.performance.stages import kept_patch_of, prepared_subject, rows_of
from gce.app.settings.records import ModelSettings, RolloutSettings, TrainSettings
from gce.app.terminal import note
from gce.app.wiring.access import Access
from gce.app.wiring.models import backend_of, find_model
from gce.app.wiring.performance import RunFolder, without_keys
from gce.app.wiring.tasks import find_task
from gce.domain.completions import Completion, SampleRequest
from gce.domain.performance.judging import Judged, judge_prompt, read_judgement
from gce.domain.performance.patches import diff_text
from gce.domain.performance.prompts import task_prompt
from gce.domain.problems import Message
from gce.domain.text import counted
from gce.errors import BadInput, LowCoverage, one_line
from gce.ports.model import Sampler

__all__ = ["judge", "judgements"]


def judge(run: Path, model: str, *, max_tokens: int, access: Access) -> tuple[int, int]:
    """Ask a model about all measured patches that it has not judged yet; empty ones are not judged.

    Returns how many were judged, and how many of the replies cannot be read.

    Args:
        run: folder of the run.
        model: as behind `--model`; replies greedily.
        max_tokens: of one reply, what a model thinks before it included.
        access: how models are reached, and the ledger that holds them to their limits.

    Raises:
        BadInput: no run, or no such model.
        LowCoverage: the model failed to reply to some; the same command asks again.
        Unfinished: a limit is reached; replies that came before are kept, and the same command asks for the rest.
    """
    name = model_name(model, "judge")
    folder, _ = open_plan(run)
    with folder.locked():
        missing = {
            item.key: prompt
            for item, prompt in _prompts(folder)
            if not _is_known(folder, name, item, _digest(model, prompt))
        }
        if not missing:
            return 0, 0
        note(f"{name} reads {counted(len(missing), 'patch', 'es')}")
        failures, unread = [], 0
        requests = [SampleRequest(each, (prompt,), 0, 0.0, max_tokens) for each, prompt in missing.items()]
        for completion in _replies(model, requests, access):
            if completion.finish_reason in ("context", "error"):
                failures.append(f"{completion.key}: {completion.error or 'it gave no reply'}")
                continue
            found = read_judgement(completion.text)
            unread += found is None
            record = Judged(_digest(model, missing[completion.key]), without_keys(completion.text), found)
            folder.write(f"judged/{name}/{completion.key}", record)
            folder.note("judged", item=completion.key, judge=name, readable=found is not None)
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
            kept = folder.read(Judged, f"judged/{name}/{item.key}")
            if kept is not None:
                found.setdefault(name, {})[item.key] = kept
    return found


def _replies(model: str, requests: Sequence[SampleRequest], access: Access) -> Iterator[Completion]:
    """Yield replies as they come. A model that does not account for itself is held to the limits after each reply."""
    settings = TrainSettings(
        model=ModelSettings(name=model), rollouts=RolloutSettings(max_tokens=requests[0].max_tokens)
    )
    loaded = find_model(settings, find_task(settings.task), access)
    if not isinstance(loaded, Sampler):
        raise BadInput(f"model {model} cannot be asked: it does not sample")
    metered = backend_of(model).metered
    if not metered:
        access.ledger.check()
    for number, completion in enumerate(sampled(loaded, requests), 1):
        yield completion
        if not metered:
            access.count(completion.prompt_tokens, completion.tokens)
            if number < len(requests):
                access.ledger.check()


def _prompts(folder: RunFolder) -> Iterator[tuple[Item, Message]]:
    """Yield each measured attempt whose patch is not empty, with what is asked about it."""
    subject_of = cache(partial(prepared_subject, folder.path))
    for row in rows_of(folder.path)[1]:
        if row.comparison.failed:
            continue
        subject = subject_of(row.item.task)
        patch = kept_patch_of(folder, row.item, subject.base)
        if patch.changes:
            human = diff_text(subject.human_patch)
            yield row.item, judge_prompt(task_prompt(subject.task), human, without_keys(diff_text(patch)))


def _is_known(folder: RunFolder, name: str, item: Item, digest: str) -> bool:
    """Whether this very question was replied to."""
    kept = folder.read(Judged, f"judged/{name}/{item.key}")
    return kept is not None and kept.asked == digest


def _digest(model: str, prompt: Message) -> str:
    """Return a digest of who is asked what: the names of two models may give one name of a judge."""
    return sha256(f"{model}\n{prompt.content}".encode("utf-8", "surrogatepass")).hexdigest()
