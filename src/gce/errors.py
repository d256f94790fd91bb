"""Errors of this package.

    GceError                 one clear line for a person; the command line prints it and exits with its status
    ├── MissingExtra         a package that is not installed, with the pip command that installs it
    ├── BadInput             something a user gave: a name, a file, a number
    │   ├── RunInUse         a run that another process works on
    │   └── SettingError     a setting's value that cannot be used, alone or beside another's
    ├── Unfinished           a limit was reached, or answers are to come from elsewhere; the same command goes on later
    ├── LowCoverage          too many answers failed to be given or judged for a rate to be trusted
    ├── DamagedStore         a run directory whose contents do not match their hashes
    └── ModelError           a model that cannot be loaded or used as asked
        └── OtherModel       files that another program reads as another model

Invalid arguments to functions raise ValueError.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

__all__ = [
    "BadInput",
    "DamagedStore",
    "GceError",
    "LowCoverage",
    "MissingExtra",
    "ModelError",
    "OtherModel",
    "RunInUse",
    "SettingError",
    "Unfinished",
    "one_line",
]


def one_line(error: object, limit: int = 300) -> str:
    """What an error of another package says, on one line of at most `limit` printable characters."""
    return " ".join("".join(c if c.isprintable() else " " for c in str(error)).split())[:limit]


class GceError(Exception):
    """The root of what this package raises on purpose.

    `hint` says what to do, and follows the message. A name in braces in it stands for a setting or an argument, so that
    a command line can put its option there.
    """

    status = 2
    """Of the command that it ends."""

    def __init__(self, message: str = "", *, hint: str = "") -> None:
        self._message, self._hint = message, hint
        super().__init__(self.said(str))

    def said(self, name_of: Callable[[str], str]) -> str:
        """The message and the hint, with settings called by what `name_of` makes of their names."""
        return f"{self._message}: {_named(self._hint, name_of)}" if self._hint else self._message

    def _render_traceback_(self) -> list[str]:
        """What IPython and notebooks show instead of tracebacks."""
        said = str(self)
        return [f"{type(self).__name__}: {one_line(said, len(said))}"]


class BadInput(GceError):
    """Something a user gave that cannot be used."""


class RunInUse(BadInput):
    """A run that another process works on."""


class SettingError(BadInput):
    """A setting's value that cannot be used, alone or beside another's.

    Settings have their full names, as "optimizer.learning_rate". In `message` and `expected` a name in braces stands
    for a setting, so that a command line can put its option there.
    """

    def __init__(self, setting: str, expected: str, got: object, message: str) -> None:
        self.setting = setting
        self.expected = _named(expected, str)
        self.got = got
        super().__init__(message)

    def __reduce__(self) -> tuple[Any, ...]:
        """As an executor hands errors from process to process."""
        return type(self), (self.setting, self.expected, self.got, self._message)

    def said(self, name_of: Callable[[str], str]) -> str:
        """See `GceError.said`; here the braces are in the message."""
        return _named(self._message, name_of)


def _named(text: str, name_of: Callable[[str], str]) -> str:
    return re.sub(r"\{([a-z0-9_.]+)\}", lambda found: name_of(found[1]), text)


class Unfinished(GceError):
    """Work that stopped before it was done: at a limit of cost or time, or because answers come from elsewhere.

    In the message a name in braces stands for a setting.
    """

    status = 3

    def said(self, name_of: Callable[[str], str]) -> str:
        """See `GceError.said`; here the braces are in the message."""
        return _named(super().said(name_of), name_of)


class LowCoverage(GceError):
    """Answers that a sandbox, a server or a verifier failed to give or to judge are too many."""

    status = 3


class DamagedStore(GceError):
    """Stored data that do not match their hashes."""


class ModelError(GceError):
    """A model that cannot be loaded, or cannot do what was asked."""


class OtherModel(ModelError):
    """Files that another program reads as another model than the one they were made of."""

    status = 1


class MissingExtra(GceError):
    """A package that is not installed."""

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(f"{package} is not installed: run  pip install 'grounded-eval[{extra}]'")
        self.package = package
        self.extra = extra

    def __reduce__(self) -> tuple[Any, ...]:
        """As an executor hands errors from process to process."""
        return type(self), (self.package, self.extra)
