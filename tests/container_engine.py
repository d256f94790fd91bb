"""A container engine for tests: notes what it is asked, and plays a container with bubblewrap where it is there."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from gce.adapters.sandboxes.bubblewrap import bubblewrap_path

__all__ = ["asked", "install_engine"]

_PROGRAM = """\
#!{python}
import json, os, sys
words, mode = sys.argv[1:], {mode!r}
with open({notes!r}, "a") as notes:
    notes.write(json.dumps(words) + "\\n")
if words[0] == "rm":
    sys.exit(0)
if mode == "no image":
    sys.exit("docker: Error response from daemon: No such image: " + words[words.index("--entrypoint") + 2])
place = words.index("--entrypoint")
options, inside = words[1:place], words[place + 3:]
if mode == "loses time":
    inside = [word.replace("used.ru_utime + used.ru_stime - earlier", "0.004") for word in inside]
bwrap = [{bwrap!r}, "--unshare-all", "--unshare-user", "--uid", "65000", "--gid", "65000", "--cap-drop", "ALL"]
bwrap += ["--die-with-parent", "--as-pid-1", "--clearenv"]
for name in sorted(set(os.listdir("/")) - {{"proc", "dev", "tmp"}}):
    bwrap += ["--ro-bind", "/" + name, "/" + name]
bwrap += ["--dev", "/dev", "--proc", "/proc", "--perms", "1777", "--tmpfs", "/tmp", "--chdir", "/tmp"]
if mode == "volume":
    bwrap += ["--perms", "0777", "--tmpfs", "/data"]
pairs = list(zip(options, options[1:]))
for option, value in pairs:
    if option == "--mount":
        fields = dict(part.split("=", 1) for part in value.split(",") if "=" in part)
        bwrap += ["--ro-bind", fields["source"], fields["target"]]
    if option == "--env":
        bwrap += ["--setenv", *value.split("=", 1)]
    if option == "--tmpfs" and ":ro" in value:
        bwrap += ["--perms", "0755", "--tmpfs", value.split(":")[0], "--remount-ro", value.split(":")[0]]
bwrap += ["--remount-ro", "/dev", "--remount-ro", "/"]
os.execv(bwrap[0], [*bwrap, "--", {python!r}, *inside])
"""


def install_engine(folder: Path, mode: str = "") -> Path:
    """Write the program `docker` into a folder of its own, and return that; `mode` names a fault of it."""
    folder.mkdir()
    notes = folder / "asked.jsonl"
    notes.touch()
    program = folder / "docker"
    python = os.path.realpath(sys.executable)
    program.write_text(_PROGRAM.format(python=python, mode=mode, notes=str(notes), bwrap=bubblewrap_path()))
    program.chmod(0o755)
    return folder


def asked(folder: Path) -> list[list[str]]:
    """Return the words of each call so far."""
    return [json.loads(line) for line in (folder / "asked.jsonl").read_text().splitlines()]
