"""Frames on a pipe: a four-byte length and a body. Used on both sides of a sandbox.

This file must stand alone, as `inside`, and is passed to the sandbox with it.
"""

from __future__ import annotations

import os

__all__ = ["NONCE", "read_frame", "write_frame"]

NONCE = 16
"""Length of a nonce or token, in bytes."""


def read_frame(fd: int, limit: int = 2**30) -> bytes:
    """Return the next frame's body; EOFError if there is none, ValueError if it is too long."""
    size = int.from_bytes(_read(fd, 4), "big")
    if size > limit:
        raise ValueError(f"a frame of {size} bytes, expected at most {limit}")
    return _read(fd, size)


def write_frame(fd: int, body: bytes) -> None:
    """Write a frame."""
    left = memoryview(len(body).to_bytes(4, "big") + body)
    while left:
        left = left[os.write(fd, left) :]


def _read(fd: int, size: int) -> bytes:
    found = bytearray()
    while len(found) < size:
        more = os.read(fd, min(size - len(found), 2**16))
        if not more:
            raise EOFError
        found += more
    return bytes(found)
