"""Wheels of the package index: downloaded once by pip, kept by their hashes, and unpacked without running anything.

A wheel is a zip file. Only regular files inside the target are written; anything else in the file is refused.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
import subprocess
import sys
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory

from gce.adapters.performance.trees import MOST_BYTES, MOST_FILES
from gce.adapters.system.input_files import read_input
from gce.domain.performance.task import Pin
from gce.errors import BadInput, one_line

__all__ = ["fetch_wheel", "find_wheel", "has_wheel", "unpack_wheels"]

_SECONDS = 300
_PURE_ALONE = ("--implementation", "py", "--abi", "none", "--platform", "any")


def has_wheel(pin: Pin, cache: Path) -> bool:
    """Whether the wheel is in the cache folder; its hash is checked when it is unpacked."""
    return _kept(pin, cache).is_file()


def fetch_wheel(pin: Pin, cache: Path) -> bool:
    """Download a wheel into the cache folder with pip, from the index that pip is set up for; False if it is there.

    Raises:
        BadInput: pip failed, or what it found has another hash.
    """
    if has_wheel(pin, cache):
        return False
    with _downloaded(pin.name, pin.version, _of_tags(pin.tags), cache, sha256=pin.sha256) as file:
        _check(pin, read_input(file, MOST_BYTES))
        os.replace(file, _kept(pin, cache))
    return True


def find_wheel(name: str, version: str, cache: Path) -> Pin:
    """Download the pure Python wheel of a release into the cache folder, and return its pin.

    Raises:
        BadInput: pip failed, or there is no such wheel.
    """
    with _downloaded(name, version, _PURE_ALONE, cache) as file:
        pin = Pin(name, version, hashlib.sha256(read_input(file, MOST_BYTES)).hexdigest())
        os.replace(file, _kept(pin, cache))
    return pin


@contextmanager
def _downloaded(name: str, version: str, options: Sequence[str], cache: Path, *, sha256: str = "") -> Iterator[Path]:
    """The wheel of a release, in a temporary folder of the cache folder, downloaded by pip; its hash is not checked."""
    cache.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix=".gce-", dir=cache) as folder:
        wanted = Path(folder, "requirements.txt")
        wanted.write_text(f"{name}=={version}{sha256 and f' --hash=sha256:{sha256}'}\n", encoding="utf-8")
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-input"]
        command += ["--no-deps", "--only-binary=:all:", "--dest", folder, *options]
        command += ["--require-hashes"] if sha256 else []
        try:
            done = subprocess.run(
                [*command, "--requirement", str(wanted)],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=_SECONDS,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise BadInput(f"cannot download {name} {version}: {one_line(error)}") from error
        found = list(Path(folder).glob("*.whl"))
        if done.returncode or len(found) != 1:
            raise BadInput(f"cannot download {name} {version}: {_complaint(done.stderr)}")
        yield found[0]


def unpack_wheels(pins: Sequence[Pin], cache: Path, target: Path) -> None:
    """Unpack wheels of the cache folder into one new directory.

    Raises:
        BadInput: a wheel was not fetched, was changed, or holds what may not be unpacked.
    """
    target.mkdir(parents=True)
    for pin in pins:
        path = _kept(pin, cache)
        if not has_wheel(pin, cache):
            raise BadInput(
                f"the wheel of {pin.name} {pin.version} is not in {cache}", hint="gce performance fetch downloads it"
            )
        _check(pin, read_input(path, MOST_BYTES))
        _unpack(pin, path, target)


def _kept(pin: Pin, cache: Path) -> Path:
    return cache / f"{pin.sha256}.whl"


def _check(pin: Pin, data: bytes) -> None:
    found = hashlib.sha256(data).hexdigest()
    if found != pin.sha256:
        raise BadInput(f"the wheel of {pin.name} {pin.version} has the hash {found}, expected {pin.sha256}")


def _of_tags(tags: str) -> list[str]:
    """Return pip's options for a wheel of another interpreter or platform than this one."""
    if tags.endswith("-none-any"):
        return []
    python, abi, platforms = tags.split("-")
    version = re.sub(r"\D", "", python)
    options = ["--implementation", python[:2], "--python-version", f"{version[0]}.{version[1:]}", "--abi", abi]
    return options + [word for platform in platforms.split(".") for word in ("--platform", platform)]


def _complaint(said: str) -> str:
    """Return pip's last error on one line."""
    lines = [line for line in said.splitlines() if line.startswith("ERROR:")] or said.splitlines()[-1:]
    return one_line(lines[0].removeprefix("ERROR:") if lines else "pip found no such wheel")


def _unpack(pin: Pin, path: Path, target: Path) -> None:
    called = f"the wheel of {pin.name} {pin.version}"
    try:
        with zipfile.ZipFile(path) as archive:
            members = [each for each in archive.infolist() if not each.is_dir()]
            if len(members) > MOST_FILES or sum(each.file_size for each in members) > MOST_BYTES:
                raise BadInput(f"{called} is too large: at most {MOST_FILES:,} files, {MOST_BYTES:,} bytes")
            for member in members:
                place = PurePosixPath(member.filename)
                kind = stat.S_IFMT(member.external_attr >> 16)
                escapes = place.is_absolute() or ".." in place.parts or "\\" in member.filename
                if escapes or ":" in member.filename or kind not in (0, stat.S_IFREG):
                    raise BadInput(f"{called} holds {member.filename!r}, which may not be unpacked")
                if (target / place).exists():
                    raise BadInput(f"{called} holds {member.filename!r}, which is there already")
                (target / place).parent.mkdir(parents=True, exist_ok=True)
                (target / place).write_bytes(archive.read(member))
    except (zipfile.BadZipFile, OSError, RuntimeError, NotImplementedError, EOFError, ValueError, zlib.error) as error:
        raise BadInput(f"{called} cannot be unpacked: {one_line(error)}") from error
