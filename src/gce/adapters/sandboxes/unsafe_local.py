"""No sandbox: the same process and limits, but with this user's rights. For trusted code only."""

from __future__ import annotations

from gce.adapters.sandboxes.process import Program, SandboxProcess, Shown, environment_of, python_command

__all__ = ["start_unsafe_local"]


def start_unsafe_local(shown: Shown = (), program: Program = "inside") -> SandboxProcess:
    """Start a process that runs as this user and sees everything that this user sees; see `Start`."""
    command = python_command(isolated=False, program=program)
    return SandboxProcess(command, environment=environment_of(program), unmoved=shown)
