"""Records of ISO-Bench: how its tasks are described, read and written without loss.

Source: the fields of the data set of ISO-Bench, which follow those of SWE-bench and SWE-Perf.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Any, ClassVar

from attrs import evolve, field, frozen, validators

from gce.domain.performance.decision import Comparison
from gce.domain.performance.overlap import changed_functions
from gce.domain.performance.patches import Patch, diff_text
from gce.domain.performance.task import PerformanceTask, Record

__all__ = ["IsoRecord", "measured_record", "record_of_task", "texts_in"]


@frozen(kw_only=True)
class IsoRecord:
    """One task of ISO-Bench. Fields that are missing have the default; values of any JSON type are kept."""

    FILE: ClassVar[str] = "iso-bench.json"
    repo: str = field(validator=validators.min_len(1))
    """As OWNER/NAME."""
    instance_id: str = field(validator=validators.min_len(1))
    created_at: str = ""
    base_commit: str = ""
    head_commit: str = ""
    patch: str = ""
    """The human's changes as a unified diff."""
    test_patch: str = ""
    efficiency_test: Any = None
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

    def task_record(self) -> Record:
        """Return what a performance task keeps of the record."""
        return Record(
            repository=self.repo,
            created_at=self.created_at,
            base_commit=self.base_commit,
            head_commit=self.head_commit,
            api=self.api,
            efficiency_test="\n".join(texts_in(self.efficiency_test)),
            patch=self.patch,
            test_patch=self.test_patch,
            commit_message=self.gt_commit_message,
            setup_commands=texts_in(self.setup_commands),
            install_commands=texts_in(self.install_commands),
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


def texts_in(value: Any) -> tuple[str, ...]:
    """Return the texts that a value of unknown type has: itself, or those of a list; empty ones are left out."""
    several = [value] if isinstance(value, str) else value if isinstance(value, list) else []
    return tuple(each for each in several if isinstance(each, str) and each)
