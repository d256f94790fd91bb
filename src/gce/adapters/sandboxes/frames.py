"""Frames on a pipe: a four-byte length and a body. Used on both sides of a sandbox.

This file must stand alone, as `inside`, and is passed to the sandbox with it.
"""

from __future__ import annotations

import os
import select
import time

__all__ = ["NONCE", "read_frame", "write_frame"]

NONCE = 16
"""Length of a nonce or token, in bytes."""


def read_frame(fd: int, limit: int = 2**30, until: float | None = None) -> bytes:
    """Return the next frame's body.

    Raises EOFError if there is none, ValueError if it is too long, and TimeoutError if it is not there `until` a time,
    in seconds of `time.monotonic`.
    """
    size = int.from_bytes(_read(fd, 4, until), "big")
    if size > limit:
        raise ValueError(f"a frame of {size} bytes, expected at most {limit}")
    return _read(fd, size, until)


def write_frame(fd: int, body: bytes) -> None:
    """Write a frame."""
    left = memoryview(len(body).to_bytes(4, "big") + body)
    while left:
        left = left[os.write(fd, left) :]


def _read(fd: int, size: int, until: float | None) -> bytes:
    found = bytearray()
    while len(found) < size:
        if until is not None and not select.select([fd], [], [], max(0.0, until - time.monotonic()))[0]:
            raise TimeoutError
        more = os.read(fd, min(size - len(found), 2**16))
        if not more:
            raise EOFError
        found += more
    return bytes(found)
