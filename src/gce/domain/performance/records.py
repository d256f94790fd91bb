"""Records of ISO-Bench: how its tasks are described, read and written without loss.

Source: the fields of the data set of ISO-Bench, which follow those of SWE-bench and SWE-Perf.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from attrs import evolve, fields, frozen

from gce.domain.performance.decision import Comparison
from gce.domain.performance.overlap import changed_functions
from gce.domain.performance.patches import Patch, diff_text
from gce.domain.performance.task import PerformanceTask, Record

__all__ = ["IsoRecord", "measured_record", "read_record", "record_of_task", "task_record"]


@frozen(kw_only=True)
class IsoRecord:
    """One task of ISO-Bench. Fields that are missing have the default; values of any JSON type are kept."""

    repo: str
    """As OWNER/NAME."""
    instance_id: str
    created_at: str = ""
    base_commit: str = ""
    head_commit: str = ""
    patch: str = ""
    """The human's changes as a unified diff."""
    test_patch: str = ""
    efficiency_test: Any = ""
    """Source of the workload, or a list of such."""
    duration_changes: Any = None
    """Durations before and after."""
    human_performance: Any = None
    """Gain of the human's changes."""
    version: str = ""
    patch_functions: Any = None
    """Names of functions that the human changed."""
    test_functions: Any = None
    api: str = ""
    gt_commit_message: str = ""
    setup_commands: Any = None
    install_commands: Any = None
    notes: str = ""


def read_record(data: Any) -> IsoRecord:
    """Return the record in plain data.

    Raises:
        ValueError: no object, an unknown field, no `repo` or `instance_id`, or a text that is none.
    """
    if not isinstance(data, Mapping):
        raise ValueError(f"expected an object, got {data!r:.60}")
    known = {each.name: each for each in fields(IsoRecord)}
    unknown = sorted(set(map(str, data)) - set(known))
    if unknown:
        raise ValueError(f"expected the fields of ISO-Bench, got {unknown[0]!r:.60}")
    for name in ("repo", "instance_id"):
        if not isinstance(data.get(name), str) or not data[name]:
            raise ValueError(f"expected a text in {name}, got {data.get(name)!r:.60}")
    given = {}
    for name, value in data.items():
        texts = known[name].type in ("str", str)
        if texts and value is not None and not isinstance(value, str):
            raise ValueError(f"expected a text in {name}, got {value!r:.60}")
        given[name] = "" if texts and value is None else value
    return IsoRecord(**given)


def task_record(record: IsoRecord) -> Record:
    """Return what a performance task keeps of a record."""
    return Record(
        repository=record.repo,
        created_at=record.created_at,
        base_commit=record.base_commit,
        head_commit=record.head_commit,
        api=record.api,
        efficiency_test="\n".join(_texts(record.efficiency_test)),
        patch=record.patch,
        test_patch=record.test_patch,
        commit_message=record.gt_commit_message,
        setup_commands=_texts(record.setup_commands),
        install_commands=_texts(record.install_commands),
    )


def record_of_task(task: PerformanceTask, human: Patch) -> IsoRecord:
    """Return a task as a record; what it does not say of the human's changes is taken from them."""
    kept = task.record
    return IsoRecord(
        repo=kept.repository or task.name,
        instance_id=task.name,
        created_at=kept.created_at,
        base_commit=kept.base_commit,
        head_commit=kept.head_commit,
        patch=kept.patch or diff_text(human),
        test_patch=kept.test_patch,
        efficiency_test=kept.efficiency_test or task.workload,
        patch_functions=sorted(changed_functions(human)),
        api=kept.api,
        gt_commit_message=kept.commit_message,
        setup_commands=list(kept.setup_commands),
        install_commands=list(kept.install_commands),
        notes=task.notes,
    )


def measured_record(record: IsoRecord, human: Sequence[Comparison]) -> IsoRecord:
    """Return the record with what was measured of the human's form: processor seconds and the median gain."""
    durations = [
        {
            "base": [each.base.seconds for each in found.rounds],
            "head": [each.candidate.seconds for each in found.rounds],
        }
        for found in human
    ]
    gains = [found.gain.value for found in human if found.gain is not None]
    return evolve(
        record,
        duration_changes=durations or record.duration_changes,
        human_performance=median(gains) if gains else record.human_performance,
    )


def _texts(value: Any) -> tuple[str, ...]:
    several = [value] if isinstance(value, str) else value if isinstance(value, list) else []
    return tuple(each for each in several if isinstance(each, str) and each)
