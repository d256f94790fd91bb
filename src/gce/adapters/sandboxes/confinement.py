"""What a program inside a sandbox does to itself before it runs the code of others.

This file must stand alone, as `inside`, and is passed to the sandbox with it, after `system_call_filter`.
"""

from __future__ import annotations

import ctypes
import os
import signal

if __name__ != "__main__":
    from gce.adapters.sandboxes.system_call_filter import install

__all__ = ["confine", "drop_streams", "end_with_parent"]

_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE = 1, 4
_LIBC = ctypes.CDLL(None)


def confine(uid: int, *, isolated: bool) -> None:
    """Become the user `uid` unless it is 0, and install the filter of system calls if `isolated`."""
    if uid:
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
    # Close this process's memory to others of its user, its children among them.
    _prctl(_PR_SET_DUMPABLE, 0)
    end_with_parent()  # A change of user resets it.
    if isolated:
        install()


def end_with_parent() -> None:
    """Have this process killed when its parent ends, where the system does so."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def drop_streams() -> None:
    """Let standard streams lead nowhere."""
    null = os.open("/dev/null", os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    os.close(null)


def _prctl(option: int, value: int) -> None:
    if hasattr(_LIBC, "prctl"):  # Linux.
        _LIBC.prctl(option, value, 0, 0, 0)
