"""`gce doctor`: what is installed, what mlx computes with and how fast, and what to install."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from attrs import asdict

from gce.app.terminal import put, put_json
from gce.app.wiring.installation import Finding, examine, ready

__all__ = ["add_arguments", "print_report", "run"]


def print_report(findings: Sequence[Finding]) -> None:
    """Print the findings for people, remedies below what they mend, and a last line that sums up."""
    width = max(len(finding.name) for finding in findings)
    for finding in findings:
        put(f"{finding.status:<8}{finding.name:<{width}}  {finding.detail}")
        if finding.remedy:
            put(f"{'':{8 + width}}  -> {finding.remedy}")
    missing = ", ".join(finding.name for finding in findings if finding.status == "missing")
    slow = ", ".join(finding.name for finding in findings if finding.status == "slow")
    if missing:
        put("", f"Not ready to train. Missing: {missing}.")
    elif slow:
        put("", f"Ready to train, but slow: {slow}.")
    else:
        put("", "Ready to train.")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `gce doctor`."""
    parser.description = (
        "Check the installation: extras, sandboxes, BLAS and device, with the command that installs what is missing. "
        "Exits with status 1 if gce train cannot run."
    )
    parser.add_argument("--json", action="store_true", help="print the findings as JSON")


def run(args: argparse.Namespace) -> int:
    """Examine and print; 0 where the main job can run, 1 where something that it needs is missing."""
    findings = examine()
    if args.json:
        put_json({"ready": ready(findings), "findings": [asdict(finding) for finding in findings]}, indent=2)
    else:
        print_report(findings)
    if not ready(findings):
        args.following = None
        return 1
    return 0
