"""The examples run as they stand."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).parents[1] / "examples"


def test_the_quickstart_prints_a_problem_three_answers_and_three_verdicts(tmp_path: Path) -> None:
    """One right, one that violates a constraint, one that is plausible and too long."""
    ran = subprocess.run(
        [sys.executable, str(EXAMPLES / "quickstart_gce.py")],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        timeout=120,
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.count("\nAnswer: ") == 3
    assert re.findall(r"^-> (\w+), score", ran.stdout, re.M) == ["right", "wrong", "wrong"]
    names = ("right:", "violating:", "plausible but wrong:")
    assert [line for line in ran.stdout.splitlines() if line in names] == list(names)
    violations = ran.stdout.partition("violating:")[2]
    assert re.search(r"^   (precedence|capacity|deadline): ", violations, re.M)
