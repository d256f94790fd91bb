"""Sandboxes made with Linux namespaces alone, by `unshare` and `setpriv` of util-linux."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

from gce.adapters.sandboxes.process import CODE, SandboxProcess, python_command, source_of
from gce.adapters.sandboxes.view import ROOM, throw_away_uid, view

__all__ = ["start_namespaces"]

_PLACES = ("/mnt", "/media", "/srv", "/opt", "/var/tmp", "/tmp")
"""Directories where a new root may be assembled; nothing changes there outside the sandbox."""


def start_namespaces(code: Path | None = None) -> SandboxProcess:
    """Start a process in its own namespaces, which sees the directory `code` as `CODE`."""
    for program in ("setpriv", "unshare"):
        if shutil.which(program) is None:
            raise FileNotFoundError(f"{program} is not installed")
    shown, uid = view(), throw_away_uid()
    # `setpriv` ends it with its parent; what `unshare` starts ends with `unshare`.
    command = ["setpriv", "--pdeathsig", "KILL", "unshare", "--mount", "--pid", "--net", "--ipc", "--uts", "--fork"]
    command += ["--kill-child"] + ([] if uid else ["--user", "--map-root-user"])
    own = (str(code), CODE) if code else ()
    enter = json.dumps(
        [_place((*shown.read_only, *own)), own, shown.read_only, shown.links, shown.hidden, ROOM, bool(uid)]
    )
    *python, inside, user, isolated = python_command(uid)
    begin = f"enter(*json.loads({enter!r}))"
    program = "\n".join((source_of("namespaces_inside"), "import json", begin, inside.partition("\n")[2]))
    return SandboxProcess([*command, *python, program, user, isolated], code=CODE if code else "")


def _place(shown: tuple[str, ...]) -> str:
    for place in _PLACES:
        if os.path.isdir(place) and not any(path.startswith(place + "/") for path in shown):
            return place
    raise FileNotFoundError(f"there is no directory among {', '.join(_PLACES)} to put a root together at")
