"""The clock and the memory of this process."""

from __future__ import annotations

from gce.adapters.system.clocks import SystemClock
from gce.adapters.system.process import peak_bytes, resident_bytes

__all__ = [
    "SystemClock",
    "peak_bytes",
    "resident_bytes",
]
