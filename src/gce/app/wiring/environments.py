"""Tasks of other frameworks, by FRAMEWORK:NAME[?option=value]."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from attrs import frozen

from gce.adapters.environments import (
    gymnasium,
    harbor,
    inspect_ai,
    lm_eval,
    openenv,
    reasoning_gym,
    trl,
    verifiers,
    workflow,
)
from gce.adapters.environments.foreign import Given, Open, Opened, option
from gce.adapters.environments.reproductions import Script
from gce.adapters.environments.scorers import Limits, ScorerFailed, Scorers
from gce.adapters.sandboxes.container import Container
from gce.adapters.sandboxes.process import Program, SandboxProcess, Shown
from gce.adapters.sandboxes.unsafe_local import start_unsafe_local
from gce.app.terminal import put
from gce.app.wiring.sandboxes import AUTO, SANDBOXES, first_sandbox, why_not
from gce.domain.tasks.task import Task
from gce.errors import BadInput, MissingExtra

__all__ = [
    "AUDITED",
    "FRAMEWORKS",
    "FRAMEWORK_HELP",
    "Reproduced",
    "find_environment",
    "is_environment",
    "names_in",
    "reproducer",
]

FRAMEWORKS: Mapping[str, Opened] = {
    "gymnasium": gymnasium.open_task,
    "harbor": lambda given, _open: harbor.open_task(given, _start_isolated, partial(put, error=True)),
    "inspect": inspect_ai.open_task,
    "lm-eval": lm_eval.open_task,
    "openenv": openenv.open_task,
    "reasoning-gym": reasoning_gym.open_task,
    "trl": trl.open_task,
    "verifiers": verifiers.open_task,
    "workflow": workflow.open_task,
}
"""By the name before the colon, what opens a task."""

FRAMEWORK_HELP = f"tasks of other frameworks: {', '.join(f'{name}:NAME' for name in FRAMEWORKS)}"


def is_environment(name: str) -> bool:
    """Whether a task of this name is one of another framework."""
    framework, colon, _ = name.partition(":")
    return bool(colon) and framework in FRAMEWORKS


@cache
def find_environment(name: str) -> Task:
    """The task of this name; its worker lives as long as this process.

    Raises:
        BadInput: there is no such task, or it does not take these options.
        MissingExtra: the framework is not installed.
    """
    framework, _, rest = name.partition(":")
    named, _, options = rest.partition("?")
    if not named:
        raise BadInput(f"expected {framework}:NAME, got {name!r}")
    pairs = [each.partition("=") for each in options.split("&") if each]
    if wrong := [each for each, equals, _ in pairs if not equals]:
        raise BadInput(f"{name}: expected options as ?option=value&option=value, got {wrong[0]!r}")
    given = Given(framework, named, {key: option(value) for key, _, value in pairs}, name)
    return FRAMEWORKS[framework](given, _opened)


@frozen
class Audited:
    """What `gce audit-environments` needs of a framework besides its tasks."""

    package: str
    """The distribution whose version is stated."""
    module: str
    """What its scripts import."""
    task: Callable[[str], str]
    """From a name to the task's."""
    names: Callable[[Open], Sequence[str]]
    """The tasks that the package brings."""
    reproductions: Callable[[str, Open], tuple[Script, Scorers]]
    """By a task's name, what writes a row and an answer as a script, and a worker that runs it."""


AUDITED: Mapping[str, Audited] = {
    "gymnasium": Audited("gymnasium", "gymnasium", gymnasium.audited, gymnasium.names, gymnasium.reproductions),
    "reasoning-gym": Audited(
        "reasoning-gym",
        "reasoning_gym",
        "reasoning-gym:{}?curriculum=false&wait=15".format,
        reasoning_gym.names,
        reasoning_gym.reproductions,
    ),
}
"""Frameworks whose tasks can be listed and whose verdicts a short script can show."""


@frozen
class Reproduced:
    """A script, and what came of it."""

    script: str
    printed: str
    """What it printed, a number as a rule."""
    raised: str
    """The exception that ended it; else empty."""
    is_same: bool
    """Whether its problem is the one that was meant."""


def names_in(framework: str) -> list[str]:
    """All tasks of a framework of `AUDITED`.

    Raises:
        MissingExtra: it is not installed.
        BadInput: it cannot be loaded.
    """
    audited = AUDITED[framework]
    if find_spec(audited.module) is None:
        raise MissingExtra(audited.package, framework)
    return list(audited.names(_opened))


def reproducer(framework: str, name: str) -> Callable[[Mapping[str, Any], str], Reproduced | None]:
    """What writes a row and an answer as a script, and runs it in a worker; None where it does not end."""
    audited = AUDITED[framework]

    @cache
    def opened() -> tuple[Script, Scorers]:
        return audited.reproductions(name, _opened)

    def reproduced(row: Mapping[str, Any], answer: str) -> Reproduced | None:
        script_of, scripts = opened()
        script = script_of(row, answer)
        try:
            found = scripts.call("run", script)
        except ScorerFailed:
            return None
        return Reproduced(script, found["printed"], found["raised"], found["digest"] == row.get("first", row["digest"]))

    return reproduced


def _opened(
    module: str,
    arguments: Mapping[str, Any],
    *,
    files: Sequence[Path] = (),
    path: Sequence[Path] = (),
    limits: Limits | None = None,
) -> Scorers:
    return Scorers(_start, module, arguments, files=files, path=path, limits=limits)


_why_not = cache(why_not)


def _why_not_own(name: str) -> str:
    """As `why_not`, for what runs with the programs of this machine."""
    return "runs the programs of an image" if isinstance(SANDBOXES[name], Container) else _why_not(name)


@cache
def _sandbox() -> str:
    """The first sandbox that works here; empty where none does, with a warning."""
    found, _ = first_sandbox(AUTO, _why_not)
    if not found:
        put(
            "warning: no sandbox works here: scorers of other frameworks run in a process of their own, with limits, "
            "but with your rights: they can read your files and use the network",
            error=True,
        )
    return found


def _start(shown: Shown = (), program: Program = "inside") -> SandboxProcess:
    return SANDBOXES.get(_sandbox(), start_unsafe_local)(shown, program)


def _start_isolated(shown: Shown = (), program: Program = "inside") -> SandboxProcess:
    """As `_start`, but for scripts that a model wrote: never without a sandbox."""
    found, reasons = first_sandbox(AUTO, _why_not_own)
    if not found:
        raise BadInput(
            "answers to this task run in a sandbox only, and none works here: "
            + "; ".join(f"{each} {reason}" for each, reason in reasons.items())
        )
    return SANDBOXES[found](shown, program)
