"""What all tests share: how Hypothesis draws, and no way out to other machines."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import settings

# A red test says that the code has changed, not the luck: the default profile draws the same examples each time.
# `pytest --hypothesis-profile=explore` looks for new ones. Examples have no deadline: CI machines are slow and busy.
settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.register_profile("explore", max_examples=1000, deadline=None, print_blob=True)
settings.load_profile("repeatable")

# Read by huggingface_hub when it is first imported, in this process and in those that tests start.
os.environ["HF_HUB_OFFLINE"] = "1"

# Beside `pytest -n auto`, which starts one process a core, threads of BLAS only wait for each other.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

LOOPBACK = {"127.0.0.1", "::1", "localhost"}


def guarded(connect: Callable[[socket.socket, Any], None]) -> Callable[[socket.socket, Any], None]:
    """`connect`, but only to this machine."""

    def connect_here(self: socket.socket, address: Any) -> None:
        if self.family in (socket.AF_INET, socket.AF_INET6) and address[0] not in LOOPBACK:
            raise RuntimeError(f"a test without the marker `network` connects to {address!r}: mark it, or use a fake")
        connect(self, address)

    return connect_here


@pytest.fixture(autouse=True)
def _stay_on_this_machine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.node.get_closest_marker("network") is None:
        monkeypatch.setattr(socket.socket, "connect", guarded(socket.socket.connect))
