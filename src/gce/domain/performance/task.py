"""Performance tasks: real code before and after a person made it faster, and how both are run.

A task names code, it does not hold it: wheels of the package index, pinned by their hashes, or directories of sources
inside the task. Knows no files and no index.
"""

from __future__ import annotations

import re
import shlex
from fnmatch import fnmatchcase
from typing import Any

from attrs import field, frozen, validators

__all__ = ["PerformanceTask", "Pin", "Record", "Source", "is_allowed"]

_name = validators.matches_re(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")


def _shell_words(_record: Any, _attribute: Any, command: str) -> None:
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise ValueError(f"cannot read the command {command!r:.200}: {error}") from error
    if command and not words:
        raise ValueError(f"expected a command, got {command!r:.200}")


@frozen
class Pin:
    """One wheel of the package index."""

    name: str = field(validator=_name)
    version: str = field(validator=validators.matches_re(r"[A-Za-z0-9][A-Za-z0-9.+!_-]*"))
    sha256: str = field(validator=validators.matches_re(r"[0-9a-f]{64}"))
    """Of the wheel's file."""
    tags: str = field(default="py3-none-any", validator=validators.matches_re(r"[\w.]+-[\w.]+-[\w.]+"))
    """Python, ABI and platform of the wheel, as at the end of its file name. The default is any pure Python wheel."""


@frozen
class Source:
    """A tree of Python sources: wheels unpacked into one directory, or a directory of the task."""

    pins: tuple[Pin, ...] = ()
    directory: str = ""
    """Relative to the task's directory. Either this or `pins` is given."""

    def __attrs_post_init__(self) -> None:
        if bool(self.pins) == bool(self.directory):
            raise ValueError("expected either pins or a directory")
        parts = self.directory.split("/")
        if self.directory and (not all(map(re.compile(r"[\w.-]+").fullmatch, parts)) or {".", ".."} & set(parts)):
            raise ValueError(f"expected a directory inside the task, got {self.directory!r}")
        if len({pin.name.lower() for pin in self.pins}) < len(self.pins):
            raise ValueError("expected one pin for each name")


@frozen(kw_only=True)
class Record:
    """Where a task comes from: fields of the records of ISO-Bench and GSO that measuring does not need."""

    repository: str = ""
    created_at: str = ""
    base_commit: str = ""
    head_commit: str = ""
    api: str = ""
    """Name of the function that the human patch makes faster."""
    efficiency_test: str = ""
    patch: str = ""
    """The human patch as a unified diff; the agent never sees it."""
    test_patch: str = ""
    commit_message: str = ""
    setup_commands: tuple[str, ...] = ()
    install_commands: tuple[str, ...] = ()


@frozen(kw_only=True)
class PerformanceTask:
    """Code to make faster, the human's result, and the workload and tests by which both are judged."""

    name: str = field(validator=_name)
    base: Source
    human: Source
    workload: str
    """Python source with `setup(seed)`, `run(input)` and `equal(a, b)`. At module level it imports the standard library
    alone; `run` imports what it measures, so that importing counts, and returns plain data."""
    tests: str
    """Python source with functions `test_*` without parameters. None may raise, and each must return the same plain
    data on the base and on a candidate."""
    allowed: tuple[str, ...] = ("*.py",)
    """Patterns of the paths that a candidate may change, as of `fnmatch`: `*` also matches `/`."""
    instruction: str = ""
    """What an agent is told; empty for a text made from the workload."""
    notes: str = ""
    seconds: int = field(default=20, validator=validators.ge(1))
    """Limit on the processor time of one call of `run`."""
    memory_mb: int = field(default=2048, validator=validators.ge(64))
    """Limit on the address space of one process, in MiB."""
    image: str = field(default="", validator=validators.matches_re(r"([A-Za-z0-9][\w.:/@-]*)?"))
    """Image of a container engine that the code runs in; empty for none."""
    accuracy_command: str = field(default="", validator=_shell_words)
    """For serving code: words as a shell would split them, though none runs; the last line of what it prints is a
    number. Run for base and candidate with the code on PYTHONPATH, in the sandbox that measures; empty for none."""
    accuracy_tolerance: float = field(default=0.01, validator=validators.ge(0.0))
    """By how much the candidate's number may be below the base's."""
    accuracy_seconds: int = field(default=600, validator=validators.ge(1))
    """Limit on the processor time of each process of that command."""
    record: Record = Record()

    def __attrs_post_init__(self) -> None:
        if not self.workload.strip() or not self.tests.strip():
            raise ValueError("expected a workload and tests")
        if not self.allowed:
            raise ValueError("expected at least one pattern of paths that may change")


def is_allowed(path: str, patterns: tuple[str, ...]) -> bool:
    """Whether a candidate may change the file at this path, relative to the root of the tree, with `/`."""
    return any(fnmatchcase(path, pattern) for pattern in patterns)
