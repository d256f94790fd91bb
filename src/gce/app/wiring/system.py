"""The clock and the memory of this process, and the processes that it starts."""

from __future__ import annotations

from gce.adapters.system.bounded_commands import run_bounded
from gce.adapters.system.clocks import SystemClock
from gce.adapters.system.durable_files import remove, write_file
from gce.adapters.system.process import peak_bytes, reset_peak, resident_bytes
from gce.adapters.system.supervised import has_ended, is_alive, limits, start_supervisor

__all__ = [
    "SystemClock",
    "has_ended",
    "is_alive",
    "limits",
    "peak_bytes",
    "remove",
    "reset_peak",
    "resident_bytes",
    "run_bounded",
    "start_supervisor",
    "write_file",
]
