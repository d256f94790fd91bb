"""The controls of a run, by name: one file for one or a few of them, and one line each here."""

from __future__ import annotations

from collections.abc import Mapping

from gce.app.studies.controls.asking import pass_control, search_control, tuned_control
from gce.app.studies.controls.decontamination import contamination_control
from gce.app.studies.controls.records import Control
from gce.app.studies.controls.training import admission_control, longer_control, sft_control

__all__ = ["CONTROLS"]

CONTROLS: Mapping[str, Control] = {
    "decontamination": contamination_control(),
    "tuned-base": tuned_control(),
    "best-of-k": search_control(),
    "shuffled": admission_control("shuffled", "permuted verdicts teach as much"),
    "accept-all": admission_control("accept-all", "training on every rollout, right or wrong, teaches as much"),
    "format-only": admission_control("format-only", "rewarding any readable answer teaches as much"),
    "random-reward": admission_control("random-reward", "random rewards, as frequent as the right ones, teach as much"),
    "sft": sft_control(),
    "longer": longer_control(),
    "pass-at-k": pass_control(),
}
"""In the order in which they are measured: cheap ones first."""
