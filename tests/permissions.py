"""A folder in which nobody may write, not even root."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

NOBODY = 65534


@contextlib.contextmanager
def unwritable(fill: Callable[[Path], object] = lambda _: None) -> Iterator[Path]:
    """A folder without permission to write, for whoever runs the tests: inside, root goes on as nobody.

    `fill` puts something in first, which nobody may change either. What is to be imported must have been: nobody may
    not read everything.
    """
    with tempfile.TemporaryDirectory() as root:
        os.chmod(root, 0o755)
        closed = Path(root, "closed")
        closed.mkdir()
        fill(closed)
        for path in (*closed.rglob("*"), closed):
            path.chmod(0o555)
        is_root = os.geteuid() == 0
        if is_root:
            os.seteuid(NOBODY)
        try:
            yield closed
        finally:
            if is_root:
                os.seteuid(0)
            for path in (closed, *closed.rglob("*")):
                path.chmod(0o755)
