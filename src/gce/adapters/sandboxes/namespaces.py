"""Sandboxes made with Linux namespaces alone, by `unshare` and `setpriv` of util-linux."""

from __future__ import annotations

import json
import os
import shutil

from gce.adapters.sandboxes.process import Program, SandboxProcess, Shown, environment_of, python_command, source_of
from gce.adapters.sandboxes.view import ROOM, View, throw_away_uid, view

__all__ = ["start_namespaces"]

_PLACES = ("/mnt", "/media", "/srv", "/opt", "/var/tmp", "/tmp")
"""Directories where a new root may be assembled; nothing changes there outside the sandbox."""


def start_namespaces(shown: Shown = (), program: Program = "inside") -> SandboxProcess:
    """Start a process in its own namespaces; see `Start`."""
    for needed in ("setpriv", "unshare"):
        if shutil.which(needed) is None:
            raise FileNotFoundError(f"{needed} is not installed")
    seen, uid = view(shown), throw_away_uid()
    # `setpriv` ends it with its parent; what `unshare` starts ends with `unshare`.
    command = ["setpriv", "--pdeathsig", "KILL", "unshare", "--mount", "--pid", "--net", "--ipc", "--uts", "--fork"]
    command += ["--kill-child"] + ([] if uid else ["--user", "--map-root-user"])
    enter = json.dumps([_place(seen), seen.read_only, seen.links, seen.hidden, ROOM, bool(uid)])
    *python, inside, user, isolated = python_command(uid, program=program)
    begin = f"enter(*json.loads({enter!r}))"
    source = "\n".join((source_of("namespaces_inside"), "import json", begin, inside.partition("\n")[2]))
    return SandboxProcess([*command, *python, source, user, isolated], environment=environment_of(program))


def _place(seen: View) -> str:
    for place in _PLACES:
        if os.path.isdir(place) and not any(path.startswith(place + "/") for each in seen.read_only for path in each):
            return place
    raise FileNotFoundError(f"there is no directory among {', '.join(_PLACES)} to put a root together at")
