"""Reads a task directory of Harbor: `instruction.md`, `task.toml`, `environment/`, `tests/` and `solution/`.

Of the Dockerfile, only what a directory of files can replace is followed: WORKDIR, ENV, and COPY or ADD of files. What
it would have run is listed. Nothing is executed here.

Format: https://www.harborframework.com/docs/tasks, versions 1.0 to 1.3 of `task.toml`.
"""

from __future__ import annotations

import base64
import math
import os
import re
import shlex
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from attrs import frozen

from gce.errors import BadInput, one_line

__all__ = ["Case", "File", "case_of", "directories_of"]

MOST_BYTES = 8 * 2**20
"""Maximum size of the files that a task begins with."""
_NOT_PLACES = frozenset({"bin", "boot", "dev", "etc", "lib", "lib64", "proc", "sbin", "sys", "tests", "usr", "var"})
"""Names in `/` that a task cannot write to in the sandbox."""
_NOT_KEPT = frozenset({"logs", "solution", "tmp"})
"""Names in `/` that are writable, and never kept: the reward is in one of them."""
_FENCE = "```"

File = tuple[str, int, str]
"""Path, mode, and contents in base64."""


@frozen
class Case:
    """One task directory."""

    name: str
    directory: Path
    instruction: str
    workdir: str
    places: tuple[str, ...]
    """Directories in `/` that are writable, and kept from the candidate's part to the tests."""
    files: tuple[File, ...]
    environment: Mapping[str, str]
    tests_environment: Mapping[str, str]
    agent_seconds: int
    tests_seconds: int
    memory: int
    """Bytes."""
    answer_file: str
    """The file that the answer is written to; empty where the answer is a script."""
    oracle: str
    """The answer of `solution/`; empty where there is none."""
    said: Mapping[str, str]
    """What `[metadata]` says of its `split` and `tier`."""
    left_out: tuple[str, ...]
    """Steps of the Dockerfile that are not done."""


def directories_of(place: Path) -> list[Path]:
    """The task directory, or the task directories that a directory holds, by name.

    Raises:
        BadInput: there is none.
    """
    if (place / "task.toml").is_file():
        return [place]
    found = sorted(path.parent for path in place.glob("*/task.toml")) if place.is_dir() else []
    if not found:
        raise BadInput(f"{place}: expected a directory with task.toml, or a directory of such directories")
    return found


def case_of(directory: Path, answer_file: str = "") -> Case:
    """Read one task directory; `answer_file` is the file that answers are written to, if `task.toml` names none.

    Raises:
        BadInput: a file is missing or broken, or the task needs what a sandbox does not give.
    """
    config = _config(directory)
    environment, metadata = _table(config, "environment"), _table(config, "metadata")
    for kind, found in (("several steps", config.get("steps")), ("tool servers", environment.get("mcp_servers"))):
        if found:
            raise BadInput(f"{directory}: a task with {kind} is not supported")
    if (directory / "environment" / "docker-compose.yaml").exists():
        raise BadInput(f"{directory}: a task with docker-compose.yaml, several containers, is not supported")
    image = _Image(directory)
    workdir = str(environment.get("workdir") or image.workdir)
    writes = str(metadata.get("answer_file") or answer_file)
    writes = str(PurePosixPath(workdir, writes)) if writes else ""
    wanted = [workdir, "/app", writes, *(path for path, _, _ in image.files)]
    artifacts = config.get("artifacts")
    wanted += [each for each in artifacts if isinstance(each, str)] if isinstance(artifacts, list) else []
    names = {name for path in wanted for name in PurePosixPath("/", path).parts[1:2]} - _NOT_KEPT
    if bad := sorted(names & _NOT_PLACES):
        raise BadInput(f"{directory}: the task writes to /{bad[0]}, which the sandbox shows read-only")
    verifier = _table(config, "verifier")
    return Case(
        name=directory.name,
        directory=directory,
        instruction=_text(directory / "instruction.md").strip(),
        workdir=workdir,
        places=tuple(sorted(f"/{name}" for name in names)),
        files=tuple(image.files),
        environment={**image.variables, **_variables(environment, directory)},
        tests_environment=_variables(verifier, directory),
        agent_seconds=_number(_table(config, "agent"), "timeout_sec", 600, directory),
        tests_seconds=_number(verifier, "timeout_sec", 600, directory),
        memory=_number(environment, "memory_mb", 2048, directory) * 2**20,
        answer_file=writes,
        oracle=_oracle(directory / "solution", writes),
        said={name: str(metadata[name]) for name in ("split", "tier") if metadata.get(name)},
        left_out=tuple(image.left_out),
    )


def _packed(path: Path, inside: str) -> File:
    """A file as it is sent into a sandbox; ValueError where it cannot be read or is too large for one."""
    try:
        about = path.stat()
        if about.st_size > MOST_BYTES:
            raise ValueError(f"{path.name} has more than {MOST_BYTES >> 20} MiB, which the sandbox does not hold")
        return inside, about.st_mode & 0o777 | 0o600, base64.b64encode(path.read_bytes()).decode("ascii")
    except OSError as error:
        raise ValueError(one_line(error)) from error


def _config(directory: Path) -> Mapping[str, Any]:
    for needed in ("task.toml", "instruction.md", "tests/test.sh"):
        if not (directory / needed).is_file():
            raise BadInput(f"{directory}: no file {needed}: expected a Harbor task")
    try:
        return tomllib.loads(_text(directory / "task.toml"))
    except tomllib.TOMLDecodeError as error:
        raise BadInput(f"{directory / 'task.toml'}: {one_line(error)}") from error


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except (OSError, ValueError) as error:
        raise BadInput(f"{path}: {one_line(error)}") from error


def _table(config: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = config.get(name)
    return found if isinstance(found, dict) else {}


def _variables(table: Mapping[str, Any], directory: Path) -> dict[str, str]:
    found = {str(name): str(value) for name, value in _table(table, "env").items()}
    if secret := next((name for name, value in found.items() if "${" in value), ""):
        raise BadInput(
            f"{directory}: the task needs the host's variable for {secret}, which the sandbox does not pass on"
        )
    return found


def _number(table: Mapping[str, Any], name: str, default: int, directory: Path) -> int:
    """A number of a table, above 0 and rounded up."""
    found = table.get(name, default)
    if isinstance(found, bool) or not isinstance(found, (int, float)) or not 0 < found < 10**6:
        raise BadInput(f"{directory / 'task.toml'}: expected {name} to be a number above 0, got {found!r:.40}")
    return math.ceil(found)


def _oracle(solution: Path, writes: str) -> str:
    """The reference answer: the file itself, or the script with the files beside it, which it finds in `/solution`."""
    if writes:
        own = solution / PurePosixPath(writes).name
        return own.read_text("utf-8", "replace") if own.is_file() else ""
    script = solution / "solve.sh"
    if not script.is_file():
        return ""
    try:
        files = list(_below(solution, "/solution"))
    except ValueError:  # Too large for an answer.
        return ""
    lines = [
        f"base64 -d > {shlex.quote(inside)} <<'END'\n{text}\nEND"
        for inside, _, text in files
        if inside != "/solution/solve.sh"
    ]
    found = "\n".join([*lines, script.read_text("utf-8", "replace").strip()])
    return "" if _FENCE in found else found


def _below(path: Path, inside: str) -> Iterator[File]:
    """A file, or all files of a directory, none of them a link."""
    if path.is_symlink():
        return
    if path.is_file():
        yield _packed(path, inside)
    elif path.is_dir():
        for name in sorted(os.listdir(path)):
            yield from _below(path / name, f"{inside}/{name}")


class _Image:
    """What a Dockerfile says of files and variables."""

    def __init__(self, directory: Path) -> None:
        self.workdir = "/app"
        self.variables: dict[str, str] = {}
        self.files: list[File] = []
        self.left_out: list[str] = []
        self._context = directory / "environment"
        path = self._context / "Dockerfile"
        text = _text(path) if path.is_file() else ""
        text = re.sub(r"(?m)^\s*#.*\n?", "", text)
        for line in re.sub(r"\\[ \t]*\n", " ", text).splitlines():
            word, _, rest = line.strip().partition(" ")
            try:
                self._follow(word.upper(), rest.strip())
            except ValueError as error:
                raise BadInput(f"{path}: {one_line(error)} in {line.strip()!r:.60}") from error
        if sum(len(text) for _, _, text in self.files) > MOST_BYTES * 4 // 3:
            raise BadInput(
                f"{directory}: its files have more than {MOST_BYTES >> 20} MiB, which the sandbox does not hold"
            )

    def _follow(self, word: str, rest: str) -> None:
        if word == "WORKDIR":
            self.workdir = str(PurePosixPath(self.workdir, rest))
        elif word == "ENV":
            words = shlex.split(rest)
            if not words:
                raise ValueError("expected a variable")
            pairs = [each.split("=", 1) for each in words] if "=" in words[0] else [[words[0], " ".join(words[1:])]]
            self.variables.update((name, value) for name, value in pairs if "$" not in value)
        elif word in ("COPY", "ADD"):
            self._copy(rest)
        elif word in ("RUN", "USER"):
            self.left_out.append(" ".join(f"{word} {rest}".split()))

    def _copy(self, rest: str) -> None:
        *sources, target = [each for each in shlex.split(rest.strip("[]").replace('",', '" ')) if each[:2] != "--"]
        several = len(sources) > 1 or target.endswith("/") or target == "."
        inside = str(PurePosixPath(self.workdir, target))
        for source in sources:
            if "--from" in rest or "://" in source:
                self.left_out.append(f"COPY {rest}")
                continue
            # From the context on, also where it begins with a slash.
            paths = sorted(self._context.glob(source.lstrip("/"))) if source.strip("./") else [self._context]
            if not paths or not all(path.resolve().is_relative_to(self._context.resolve()) for path in paths):
                raise ValueError(f"no file {source!r} in environment/")
            for path in paths:
                whole = path.is_dir() or not (several or len(paths) > 1)
                found = _below(path, inside if whole else f"{inside}/{path.name}")
                self.files += [each for each in found if not each[0].endswith("/Dockerfile")]
