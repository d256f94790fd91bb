"""`--runner`: where programs written by a model run. Only a working sandbox is chosen by default."""

from __future__ import annotations

import atexit
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from typing import Any

from gce.adapters.sandboxes.bubblewrap import start_bubblewrap
from gce.adapters.sandboxes.container import Container
from gce.adapters.sandboxes.namespaces import start_namespaces
from gce.adapters.sandboxes.pool import RunnerPool
from gce.adapters.sandboxes.process import Start
from gce.adapters.sandboxes.unsafe_local import start_unsafe_local
from gce.app.options import Choice
from gce.app.terminal import put
from gce.domain.executions import Evidence, Execution
from gce.domain.plain_values import to_text
from gce.errors import BadInput

__all__ = [
    "AUTO",
    "RUNNERS",
    "RUNNER_HELP",
    "SANDBOXES",
    "UNSAFE",
    "LazyRunner",
    "add_runner",
    "find_runner",
    "first_sandbox",
    "why_not",
]

AUTO = "auto"
UNSAFE = "unsafe-local"
SANDBOXES: Mapping[str, Start] = {
    "bubblewrap": start_bubblewrap,
    "namespaces": start_namespaces,
    **{engine: Container(engine) for engine in ("docker", "podman")},
}
"""Sandboxes by name, the best first."""
RUNNERS = (AUTO, *SANDBOXES, UNSAFE)

_PROBE = """\
import os, socket
def works(what):
    try:
        what()
    except OSError:
        return False
    return True
def listed(path):
    return os.listdir(path) if os.path.isdir(path) else []
def probe():
    return [
        any(name.isdigit() and int(name) not in (os.getpid(), os.getppid()) for name in listed("/proc")),
        works(lambda: os.mkdir("/usr/lib/gce-probe")),
        works(lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).connect(("192.0.2.1", 53))),
        works(lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)),
        os.listdir("/tmp"),
    ]
"""
"""Probes what a program must not see or do: other processes, system files, networks, filtered calls, others' files."""
_HOLDS = to_text([False, False, False, False, []])


RUNNER_HELP = (
    "sandbox for answers that are programs (auto: the first one that works on this machine); unsafe-local runs them "
    "without a sandbox and with your rights, for programs that you trust"
)


def add_runner(parser: Any) -> None:
    """Add the option `--runner`."""
    kind = Choice(RUNNERS)
    parser.add_argument("--runner", type=kind, choices=RUNNERS, default=AUTO, help=f"{RUNNER_HELP} (default {AUTO})")


def why_not(name: str, image: str = "") -> str:
    """Return why a sandbox does not work on this machine, with this image if it is one that runs images; else empty."""
    start = SANDBOXES[name]
    if image:
        if not isinstance(start, Container):
            return f"runs no images, and a task needs {image}"
        start = start.of(image)
    with RunnerPool(start, workers=1) as pool:
        (evidence,) = pool.run([Execution(_PROBE, "probe", (to_text([]),))])
    (outcome,) = evidence.outcomes
    if outcome.status == "returned":
        return "" if outcome.text == _HOLDS else f"does not hold: a program in it saw {outcome.text}"
    return outcome.text if outcome.status == "no-sandbox" else f"{outcome.status} {outcome.text}".strip()


def first_sandbox(name: str, why: Callable[[str], str]) -> tuple[str, dict[str, str]]:
    """Return the first sandbox that works, of all for `AUTO`, empty for none; and why those before it do not."""
    reasons = {}
    for each in SANDBOXES if name == AUTO else (name,):
        reasons[each] = why(each)
        if not reasons[each]:
            return each, reasons
    return "", reasons


def find_runner(name: str) -> RunnerPool:
    """Return the runner of this name; for `AUTO` the first sandbox that works.

    Raises:
        BadInput: no sandbox works.
    """
    if name == UNSAFE:
        put(
            "warning: runner unsafe-local: programs written by the model run WITHOUT A SANDBOX, with your rights: "
            "they can read and delete your files and use the network",
            error=True,
        )
        return RunnerPool(start_unsafe_local)
    found, reasons = first_sandbox(name, why_not)
    if found:
        return RunnerPool(SANDBOXES[found])
    raise BadInput(
        "answers to this task are programs, which run in a sandbox only, and none works here: "
        + "; ".join(f"{each} {reason}" for each, reason in reasons.items()),
        hint="install bubblewrap (apt install bubblewrap, or pip install 'grounded-eval[programs]') on a "
        "Linux system that allows user namespaces; or, for programs that you trust, use {runner} unsafe-local",
    )


class LazyRunner:
    """A runner that is found on first use, and lives as long as this process."""

    def __init__(self, name: str = AUTO) -> None:
        self._name = name
        self._pool: RunnerPool | None = None

    def run(self, executions: Iterable[Execution]) -> Iterator[Evidence]:
        """See the port `Runner`."""
        rest = iter(executions)
        for first in rest:
            if self._pool is None:
                self._pool = find_runner(self._name)
                atexit.register(self._pool.close)
            yield from self._pool.run(chain([first], rest))
