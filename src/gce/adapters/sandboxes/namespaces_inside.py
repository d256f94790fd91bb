"""Build a sandbox in the namespaces that `unshare` created, for machines without bubblewrap.

This file must stand alone, as `inside`, and runs before it. It makes a new root in memory, binds what the sandbox may
see read-only, removes the old root and drops all capabilities.
"""

from __future__ import annotations

import ctypes
import os
import sys

if __name__ != "__main__":
    from collections.abc import Sequence

__all__ = ["enter"]

# As in linux/mount.h; statvfs reports the same bits, except one.
_RDONLY, _NOSUID, _NODEV, _NOEXEC, _NOATIME, _NODIRATIME = 1, 2, 4, 8, 1 << 10, 1 << 11
_REMOUNT, _BIND, _REC, _PRIVATE, _RELATIME = 1 << 5, 1 << 12, 1 << 14, 1 << 18, 1 << 21
_ALIKE, _ST_RELATIME = _NOSUID | _NODEV | _NOEXEC | _NOATIME | _NODIRATIME, 1 << 12
_MNT_DETACH = 2
_MOST_FILES = 4096
_AF_INET, _SOCK_DGRAM, _SIOCSIFFLAGS, _IFF_UP = 2, 2, 0x8914, 1
_PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS, _CAPABILITY_VERSION = 24, 38, 0x20080522
_LIBC = ctypes.CDLL(None, use_errno=True)


def _checked(result: int, what: str) -> None:
    if result:
        raise OSError(ctypes.get_errno(), f"{what}: {os.strerror(ctypes.get_errno())}")


def _mount(source: str, target: str, kind: str | None, flags: int, options: str | None = None) -> None:
    words = [None if word is None else word.encode() for word in (source, target, kind, options)]
    _checked(_LIBC.mount(words[0], words[1], words[2], ctypes.c_ulong(flags), words[3]), f"mount {target}")


def _bind(path: str, target: str, flags: int) -> None:
    if os.path.isdir(path):
        os.makedirs(target, 0o755, exist_ok=True)
    else:
        os.makedirs(os.path.dirname(target), 0o755, exist_ok=True)
        os.close(os.open(target, os.O_CREAT | os.O_WRONLY, 0o644))
    _mount(path, target, None, _BIND | _REC)
    if flags:
        # Flags that another user namespace set on a mount may not be removed.
        status = os.statvfs(path).f_flag
        kept = (status & _ALIKE) | (_RELATIME if status & _ST_RELATIME else 0)
        _mount("none", target, None, _REMOUNT | _BIND | flags | kept)


def _bring_up_loopback() -> None:
    descriptor = _LIBC.socket(_AF_INET, _SOCK_DGRAM, 0)
    request = ctypes.create_string_buffer(b"lo".ljust(16, b"\0") + _IFF_UP.to_bytes(2, sys.byteorder), 40)
    _checked(_LIBC.ioctl(descriptor, _SIOCSIFFLAGS, request), "loopback")
    os.close(descriptor)


def enter(
    root: str,
    read_only: Sequence[tuple[str, str]],
    links: Sequence[tuple[str, str]],
    hidden: Sequence[str],
    room: int,
    keeps_capabilities: bool,
) -> None:
    """Make the new root at the directory `root` and move into it; `room` is the size of `/tmp` in bytes."""
    os.umask(0o022)
    if not keeps_capabilities:
        # The limit of this namespace alone: no further user namespaces inside.
        with open("/proc/sys/user/max_user_namespaces", "w") as file:
            file.write("0")
    _bring_up_loopback()
    _mount("none", "/", None, _REC | _PRIVATE)
    _mount("sandbox", root, "tmpfs", _NOSUID | _NODEV, "mode=755,size=1m")
    os.makedirs(root + "/tmp", 0o755, exist_ok=True)  # Before what may be shown in it.
    _mount("sandbox", root + "/tmp", "tmpfs", _NOSUID | _NODEV, f"mode=1777,size={room},nr_inodes={_MOST_FILES}")
    for path, inside in read_only:
        _bind(path, root + inside, _RDONLY | _NOSUID | _NODEV)
    for path, target in links:
        os.makedirs(os.path.dirname(root + path), 0o755, exist_ok=True)
        os.symlink(target, root + path)
    for path in hidden:
        _mount("sandbox", root + path, "tmpfs", _RDONLY | _NOSUID | _NODEV, "mode=755,size=4k")
    for name in ("null", "urandom"):
        _bind(f"/dev/{name}", f"{root}/dev/{name}", 0)
    os.chdir(root)
    _checked(_LIBC.pivot_root(b".", b"."), "pivot_root")
    _checked(_LIBC.umount2(b".", _MNT_DETACH), "umount")
    _mount("none", "/", None, _REMOUNT | _BIND | _RDONLY | _NOSUID | _NODEV)
    os.chdir("/tmp")
    _checked(_LIBC.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs")
    if not keeps_capabilities:
        for number in range(64):
            _LIBC.prctl(_PR_CAPBSET_DROP, number, 0, 0, 0)
        header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0)
        _checked(_LIBC.capset(header, (ctypes.c_uint32 * 6)()), "capset")
