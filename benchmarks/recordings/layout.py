"""Layouts, themes and takes: what a recording is made of. README.md describes the files."""

from __future__ import annotations

import random
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, get_args

from attrs import frozen

__all__ = ["Action", "Layout", "Script", "Take", "Theme", "read_layouts", "read_themes", "takes"]

Verb = Literal["click", "type", "press", "scroll", "move", "wait"]
CURSORS = ("black", "white", "large", "yellow", "jagged")
MORE: Mapping[str, set[str]] = {"type": {"typos"}, "scroll": {"at"}}
"""The keys that may stand beside the verb."""


@frozen
class Action:
    """One thing that is done: `what` is a selector, a text, a key, or a number of pixels or seconds."""

    verb: Verb
    what: str | float
    typos: int = 0
    at: str = ""

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> Action:
        """Return the action of one inline table, for example `{type = "Ada", typos = 1}`.

        Raises:
            ValueError: no verb or more than one, another key, or a value of another type.
        """
        verbs = [verb for verb in get_args(Verb) if verb in data]
        if len(verbs) != 1:
            raise ValueError(f"an action has one of {', '.join(get_args(Verb))}, not {dict(data)!r}")
        (verb,) = verbs
        if unknown := set(data) - {verb} - MORE.get(verb, set()):
            raise ValueError(f"{verb!r} does not take {sorted(unknown)}: {dict(data)!r}")
        expected = (int, float) if verb in ("scroll", "wait") else str
        if not isinstance(data[verb], expected) or not isinstance(data.get("typos", 0), int):
            raise ValueError(f"{verb!r} takes {'a number' if expected is not str else 'text'}: {dict(data)!r}")
        return cls(verb, data[verb], data.get("typos", 0), data.get("at", ""))


@frozen
class Script:
    """What is done in one recording, from the page where it begins."""

    name: str
    actions: tuple[Action, ...]
    page: str = "index.html"
    noise: bool = False
    """Whether the recording must come out without a step."""
    grain: float = 0.0
    """Standard deviation of the noise on each pixel, of 255."""


@frozen
class Layout:
    """Pages in one folder and the scripts that run on them."""

    folder: Path
    scripts: tuple[Script, ...]


@frozen
class Theme:
    """A style sheet that every page includes."""

    name: str
    css: str
    antialiasing: bool = True


@frozen
class Take:
    """One recording to be made."""

    name: str
    layout: Layout
    script: Script
    theme: Theme
    cursor: str
    speed: float
    crf: int
    smooth: bool
    """Whether the page glides from one notch of the wheel to the next."""
    seed: str
    """Draws the path of the pointer, pauses and slips."""


def read_layouts(folder: Path) -> list[Layout]:
    """Return the layouts in `folder`, one a sub-folder with `script.toml`, by name.

    Raises:
        ValueError: a script is not of the format; the message names the file.
    """
    return [_layout(path) for path in sorted(folder.glob("*/script.toml"))]


def _layout(path: Path) -> Layout:
    try:
        scripts = [_script(data) for data in tomllib.loads(path.read_text("utf-8"))["script"]]
    except (KeyError, TypeError, ValueError) as exc:
        raise ValueError(f"{path}: {exc!r}") from exc
    for script in scripts:
        if not (path.parent / script.page).is_file():
            raise ValueError(f"{path}: the page {script.page!r} of script {script.name!r} is not there")
    return Layout(path.parent, tuple(scripts))


def _script(data: Mapping[str, Any]) -> Script:
    return Script(**{**data, "actions": tuple(Action.of(action) for action in data["actions"])})


def read_themes(folder: Path) -> list[Theme]:
    """Return the themes in `folder`, one a TOML file, by name."""
    return [_theme(path) for path in sorted(folder.glob("*.toml"))]


def _theme(path: Path) -> Theme:
    data = tomllib.loads(path.read_text("utf-8"))
    variables = " ".join(f"--{name}: {value};" for name, value in data["variables"].items())
    return Theme(path.stem, f":root {{ {variables} }}\n{data.get('css', '')}", data.get("antialiasing", True))


def takes(layouts: Iterable[Layout], themes: list[Theme], *, each: int = 1, seed: int = 0) -> list[Take]:
    """Return `each` takes of every script. A take depends on its name and `seed` alone, not on the others."""
    return [
        _take(f"{layout.folder.name}-{script.name}-{n}", layout, script, themes, seed)
        for layout in layouts
        for script in layout.scripts
        for n in range(each)
    ]


def _take(name: str, layout: Layout, script: Script, themes: list[Theme], seed: int) -> Take:
    own_seed = f"{seed} {name}"
    rng = random.Random(own_seed)
    theme, cursor = rng.choice(themes), rng.choice(CURSORS)
    speed = round(rng.uniform(0.7, 1.8), 2)
    return Take(name, layout, script, theme, cursor, speed, rng.randint(18, 35), rng.random() < 0.7, own_seed)
