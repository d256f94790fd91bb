"""Sandboxes made by a container engine, docker or podman, through its command line: a container of an image each.

The image needs Python 3.11 or newer as `python3`. Packages that are installed in it can be imported. It is never
downloaded here. The process inside refuses to start where anything but `/tmp` can be written, as a volume of the image:
what is left there would be known to the next call.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import subprocess
import sys
from collections.abc import Sequence

from attrs import evolve, frozen

from gce.adapters.sandboxes.inside import PROCESSES
from gce.adapters.sandboxes.process import Program, SandboxProcess, Shown, environment_of, python_command
from gce.adapters.sandboxes.view import ROOM

__all__ = ["IMAGE", "Container"]

IMAGE = f"python:{sys.version_info[0]}.{sys.version_info[1]}-slim"
"""The image where none is named: this version of Python and nothing else."""
_UIDS = range(61184, 65520)
"""User ids that belong to no one for long, and that a user namespace of 65,536 ids has, too."""
_SPARE_MB = 256
"""Memory of a container beyond that of its program: for the keeper and `/tmp`."""
_SECONDS = 60
_PROXIES = [
    name for each in ("all", "ftp", "http", "https", "no") for name in (f"{each}_proxy", f"{each}_proxy".upper())
]
"""Variables that engines pass on unless they are set; the addresses of proxies may hold passwords."""
_FIRST = """\
from __future__ import annotations
import os, signal
signal.signal(signal.SIGTERM, lambda *_: os._exit(0))  # Process 1 ignores it otherwise.
for _line in open("/proc/self/mounts"):
    _, _place, _kind, _options, *_ = _line.encode().decode("unicode_escape").split(" ")
    if _kind in ("proc", "devpts") or _place == "/tmp" or "ro" in _options.split(","):
        continue
    for _folder, _, _files in [(_place, (), ()), *os.walk(_place)]:
        for _path in [_folder, *(os.path.join(_folder, name) for name in _files)]:
            if (os.path.isdir(_path) or os.path.isfile(_path)) and os.access(_path, os.W_OK):
                raise SystemExit(f"{_path} can be written")
"""


@frozen
class Container:
    """A `Start`: each call starts a container of the engine."""

    engine: str
    """Name of its program."""
    image: str = IMAGE
    memory_mb: int = 4096
    """Limit for all processes of a container together, in MiB."""

    def of(self, image: str = "", memory_mb: int | None = None) -> Container:
        """Return what starts containers of an image whose programs may use so much memory."""
        memory = self.memory_mb if memory_mb is None else memory_mb + _SPARE_MB
        return evolve(self, image=image or self.image, memory_mb=memory)

    def __call__(self, shown: Shown = (), program: Program = "inside") -> SandboxProcess:
        """Start a container; see `Start`."""
        if shutil.which(self.engine) is None:
            raise FileNotFoundError(f"{self.engine} is not installed")
        drawn = secrets.randbelow(2**96)
        name, uid = f"gce-{drawn:024x}", _UIDS[drawn % len(_UIDS)]
        options = ["--rm", "--interactive", "--pull", "never", "--name", name, "--label", "gce", "--log-driver", "none"]
        options += ["--network", "none", "--ipc", "private", "--hostname", "sandbox", "--no-healthcheck"]
        options += ["--user", f"{uid}:{uid}", "--cap-drop", "ALL", "--security-opt", "no-new-privileges"]
        options += ["--memory", f"{self.memory_mb}m", "--memory-swap", f"{self.memory_mb}m"]
        options += ["--pids-limit", str(2 * PROCESSES), "--read-only", "--workdir", "/tmp"]
        options += ["--tmpfs", f"/tmp:rw,nosuid,nodev,size={ROOM},mode=1777"]
        for path in ("/dev/shm", "/dev/mqueue"):
            options += ["--tmpfs", f"{path}:ro,size=4k,mode=755"]
        for path, inside in shown:
            options += ["--mount", f"type=bind,source={path},target={inside},readonly"]
        for variable, value in {**dict.fromkeys(_PROXIES, ""), **environment_of(program)}.items():
            options += ["--env", f"{variable}={value}"]
        *_, source, user, isolated = python_command(program=program)
        words = ["-s", "-P", "-c", _FIRST + source.partition("\n")[2], user, isolated]
        command = [self.engine, "run", *options, "--entrypoint", "python3", self.image, *words]
        # The engine's client hands the signal on to the container.
        ends = ["setpriv", "--pdeathsig", "TERM"] if shutil.which("setpriv") else []
        return _ContainerProcess([*ends, *command], [self.engine, "rm", "--force", name])


class _ContainerProcess(SandboxProcess):
    """A container and the engine's client that talks to it."""

    def __init__(self, command: Sequence[str], remove: Sequence[str]) -> None:
        super().__init__(command, environment=os.environ)
        self._remove = remove

    def kill(self) -> None:
        """End the client and remove the container, which outlives it."""
        super().kill()
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            subprocess.run(self._remove, stdin=subprocess.DEVNULL, capture_output=True, timeout=_SECONDS, check=False)
