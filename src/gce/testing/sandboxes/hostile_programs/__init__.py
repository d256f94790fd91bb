"""Hostile programs: what a candidate may try instead of an answer, for `gce.testing.contracts.runner`.

Each program should define `f(x)` as x * x + 1 and does something else instead. It claims to be right, takes more
resources than it may, or reaches beyond its sandbox and then returns "ESCAPED".
"""

from __future__ import annotations

from gce.testing.sandboxes.hostile_programs.escapes import ESCAPES
from gce.testing.sandboxes.hostile_programs.false_claims import EQUAL_TO_ALL, FALSE_CLAIMS, LEFT_BEHIND
from gce.testing.sandboxes.hostile_programs.resource_hogs import RESOURCE_HOGS

__all__ = ["ATTACKS", "EQUAL_TO_ALL"]

ATTACKS = (*FALSE_CLAIMS, *RESOURCE_HOGS, *ESCAPES, *LEFT_BEHIND)
