"""No sandbox at all: the same process and the same limits, with this user's rights. For code that is trusted."""

from __future__ import annotations

from gce.adapters.sandboxes.process import SandboxProcess, python_command

__all__ = ["start_unsafe_local"]


def start_unsafe_local() -> SandboxProcess:
    """A process of this user, that sees all that this user sees."""
    return SandboxProcess(python_command(isolated=False))
