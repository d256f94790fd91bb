"""Records of GSO: how its tasks are described, read without loss.

Source: the fields of the data set gso-bench/gso (Shetty et al., 2025, GSO: Challenging Software Optimization Tasks for
Evaluating SWE-Agents).
"""

from __future__ import annotations

from typing import Any, ClassVar

from attrs import field, frozen, validators

from gce.domain.performance.iso_bench import texts_in
from gce.domain.performance.task import Record

__all__ = ["GsoRecord"]


@frozen(kw_only=True)
class GsoRecord:
    """One task of GSO. Fields that are missing have the default; values of any JSON type are kept."""

    FILE: ClassVar[str] = "gso.json"
    """Name of the file of a draft that keeps the record."""
    MARK: ClassVar[str] = "opt_commit"
    """A field that every record of this form has, and no record of another form."""

    instance_id: str = field(validator=validators.min_len(1))
    repo: str = field(validator=validators.min_len(1))
    """As OWNER/NAME."""
    base_commit: str = ""
    """A hash, or that of the human's commit with ^ behind it."""
    opt_commit: str = ""
    """The human's commit."""
    api: str = ""
    prob_script: str = ""
    """Source of the performance test that an agent is shown."""
    tests: Any = None
    """Sources of the performance tests that judge."""
    hints_text: str = ""
    """The message of the human's commit."""
    setup_commands: Any = None
    install_commands: Any = None
    created_at: str = ""
    gt_commit_message: str = ""
    gt_diff: str = ""
    """The human's changes as a unified diff."""
    arch: str = ""
    instance_image_tag: str = ""

    def task_record(self) -> Record:
        """Return what a performance task keeps of the record."""
        return Record(
            repository=self.repo,
            created_at=self.created_at,
            base_commit=self.base_commit,
            head_commit=self.opt_commit,
            api=self.api,
            efficiency_test=self.prob_script,
            patch=self.gt_diff,
            commit_message=self.gt_commit_message or self.hints_text,
            setup_commands=texts_in(self.setup_commands),
            install_commands=texts_in(self.install_commands),
        )

    def scripts(self) -> tuple[str, ...]:
        """Return Python sources that time the code; the first may be a workload, or empty."""
        return (self.prob_script, *texts_in(self.tests))
