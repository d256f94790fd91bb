"""A seccomp filter for the system calls that sandboxed programs may not make, installed from inside.

This file must stand alone, as `inside`, and is passed to the sandbox with it. Refused with EPERM are: memory and queues
that belong to no process and count towards no limit, key rings, sockets of families that network namespaces do not
isolate (vsock), namespaces, mounts, access to other processes' memory and descriptors, and parts of the kernel that
ordinary programs do not need. All other calls are allowed.

Source of the numbers: arch/x86/entry/syscalls/syscall_64.tbl and include/uapi/asm-generic/unistd.h of Linux.
"""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Iterable, Sequence

__all__ = ["install", "refuse_scheduling"]

# fmt: off
_X86_64 = {
    "shmget": 29, "shmat": 30, "shmctl": 31, "semget": 64, "semop": 65, "semctl": 66, "msgget": 68, "msgsnd": 69,
    "msgrcv": 70, "msgctl": 71, "ptrace": 101, "pivot_root": 155, "chroot": 161, "mount": 165, "umount2": 166,
    "init_module": 175, "delete_module": 176, "mq_open": 240, "kexec_load": 246, "add_key": 248, "request_key": 249,
    "keyctl": 250, "unshare": 272, "perf_event_open": 298, "name_to_handle_at": 303, "open_by_handle_at": 304,
    "setns": 308, "process_vm_readv": 310, "process_vm_writev": 311, "finit_module": 313, "bpf": 321,
    "userfaultfd": 323,
}
_ARM_64 = {
    "umount2": 39, "mount": 40, "pivot_root": 41, "chroot": 51, "unshare": 97, "kexec_load": 104, "init_module": 105,
    "delete_module": 106, "ptrace": 117, "mq_open": 180, "msgget": 186, "msgctl": 187, "msgrcv": 188, "msgsnd": 189,
    "semget": 190, "semctl": 191, "semtimedop": 192, "semop": 193, "shmget": 194, "shmctl": 195, "shmat": 196,
    "add_key": 217, "request_key": 218, "keyctl": 219, "perf_event_open": 241, "name_to_handle_at": 264,
    "open_by_handle_at": 265, "setns": 268, "process_vm_readv": 270, "process_vm_writev": 271, "finit_module": 273,
    "bpf": 280, "userfaultfd": 282,
}
_EVERYWHERE = {
    "io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427, "open_tree": 428, "move_mount": 429,
    "fsopen": 430, "fsconfig": 431, "fsmount": 432, "fspick": 433, "pidfd_open": 434, "pidfd_getfd": 438,
    "mount_setattr": 442,
}
_SCHEDULING = {
    "x86_64": {
        "sched_yield": 24, "setpriority": 141, "sched_setparam": 142, "sched_setscheduler": 144,
        "sched_setaffinity": 203, "sched_setattr": 314,
    },
    "aarch64": {
        "sched_setparam": 118, "sched_setscheduler": 119, "sched_setaffinity": 122, "sched_yield": 124,
        "setpriority": 140, "sched_setattr": 274,
    },
}
# fmt: on
_MACHINES = {"x86_64": (0xC000003E, _X86_64, 41, 56), "aarch64": (0xC00000B7, _ARM_64, 198, 220)}
"""For each machine: its audit number, its system call numbers, and those of `socket` and `clone`."""
_CLONE3 = 435
_FAMILIES = (1, 2, 10)
"""AF_UNIX, AF_INET and AF_INET6: the families that network namespaces isolate."""
_NAMESPACES = 0x7E020080
"""Bits of clone's flags that create namespaces."""
_X32 = 0x40000000

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER, _MACHINE, _FIRST_ARGUMENT = 0, 4, 16
_ALLOW, _KILL, _REFUSE, _UNKNOWN = 0x7FFF0000, 0x80000000, 0x00050000 | 1, 0x00050000 | 38
"""Filter results. EPERM is 1; ENOSYS is 38, after which the C library falls back to an older call."""
_PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _SECCOMP_MODE_FILTER = 38, 22, 2

_Step = tuple[int, int, int, int]
"""A BPF instruction: code, jump if true, jump if false, value."""


def _refusing(machine: int, refused: Iterable[int]) -> list[_Step]:
    """Return the instructions that refuse system calls by number."""
    steps = [
        (_LOAD, 0, 0, _MACHINE),
        (_EQUAL, 1, 0, machine),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NUMBER),
        (_AT_LEAST, 0, 1, _X32),
        (_RETURN, 0, 0, _REFUSE),
    ]
    for number in sorted(refused):
        steps += [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, _REFUSE)]
    return steps


def _program(machine: int, refused: Iterable[int], socket: int, clone: int) -> list[_Step]:
    """Return the instructions of the whole filter."""
    steps = _refusing(machine, refused)
    steps += [(_EQUAL, 0, 1, _CLONE3), (_RETURN, 0, 0, _UNKNOWN)]
    steps += [(_EQUAL, 0, 4, clone), (_LOAD, 0, 0, _FIRST_ARGUMENT), (_ANY_BIT, 0, 1, _NAMESPACES)]
    steps += [(_RETURN, 0, 0, _REFUSE), (_RETURN, 0, 0, _ALLOW)]
    steps += [(_EQUAL, 0, 2 + len(_FAMILIES), socket), (_LOAD, 0, 0, _FIRST_ARGUMENT)]
    steps += [(_EQUAL, len(_FAMILIES) - place, 0, family) for place, family in enumerate(_FAMILIES)]
    return [*steps, (_RETURN, 0, 0, _REFUSE), (_RETURN, 0, 0, _ALLOW)]


def install() -> None:
    """Install the filter for this process and its children; OSError if this machine does not support it."""
    name = os.uname().machine
    if name not in _MACHINES:
        raise OSError(f"no filter of system calls for {name}, expected {' or '.join(_MACHINES)}")
    machine, numbers, socket, clone = _MACHINES[name]
    _begin_filter(_program(machine, {**numbers, **_EVERYWHERE}.values(), socket, clone))


def refuse_scheduling() -> None:
    """Refuse this process and its children another processor or priority; after `install`, and as it does."""
    name = os.uname().machine
    _begin_filter([*_refusing(_MACHINES[name][0], _SCHEDULING[name].values()), (_RETURN, 0, 0, _ALLOW)])


def _begin_filter(steps: Sequence[_Step]) -> None:
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
    program = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(steps), ctypes.addressof(code)))
    libc = ctypes.CDLL(None, use_errno=True)
    for option, value, more in (
        (_PR_SET_NO_NEW_PRIVS, 1, 0),
        (_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.addressof(program)),
    ):
        if libc.prctl(option, value, ctypes.c_ulong(more), 0, 0):
            raise OSError(ctypes.get_errno(), "the filter of system calls cannot be installed")
