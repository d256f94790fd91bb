"""From a name to an entry of a table, or to one's own as module:ATTR: the same way for every table."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from inspect import signature
from typing import Any, TypeVar

from gce.errors import BadInput, one_line

__all__ = ["GIVEN", "attribute", "called", "entry", "name_of"]

Entry = TypeVar("Entry")

GIVEN = "given:"
"""Begins the name, in a run's settings, of what was given from Python itself and not by a name."""


def entry(name: str, table: Mapping[str, Entry], kind: type[Entry], what: str) -> Entry:
    """The `what` of this name: an entry of `table`, or what module:ATTR names.

    Raises:
        BadInput: nothing of that name, or it is not of this kind.
    """
    if name in table:
        return table[name]
    if name.startswith(GIVEN):
        raise BadInput(f"the {what} {name.removeprefix(GIVEN)!r} was given from Python, not by a name: give it again")
    if ":" not in name:
        raise BadInput(f"no {what} {name!r}: choose one of {', '.join(table)}, or give your own as module:ATTR")
    found = attribute(name, what)
    if not isinstance(found, kind):
        raise BadInput(f"{name} is {type(found).__name__}, expected a gce.{kind.__name__}")
    return found


def name_of(given: Any, own: str) -> str:
    """What settings call the thing that was given: its name, or where it is one's own, `own` behind `GIVEN`."""
    return given if isinstance(given, str) else GIVEN + own


def called(name: str, function: Any, **arguments: Any) -> Any:
    """What the function that module:ATTR names makes of these arguments, which it takes by position.

    Raises:
        BadInput: it is no function, or not one of so many arguments.
    """
    words = " and ".join(arguments)
    if not callable(function):
        raise BadInput(f"{name} is {type(function).__name__}, expected a function of {words}")
    try:
        signature(function).bind(*arguments.values())
    except ValueError:  # Some that are written in C tell nothing.
        pass
    except TypeError as error:
        raise BadInput(f"cannot call {name} with {words}: {error}") from error
    return function(*arguments.values())


def attribute(name: str, what: str) -> Any:
    """What `module:ATTR` names, given as the `what`; BadInput where there is no such thing."""
    module_name, _, member = name.partition(":")
    sys.path.insert(0, "")
    try:
        module = importlib.import_module(module_name)
    except Exception as error:  # Importing runs code that is not ours.
        said = one_line(f"{type(error).__name__}: {error}")
        raise BadInput(f"cannot import {module_name!r} for the {what} {name!r}: {said}") from error
    finally:
        sys.path.remove("")
    try:
        return getattr(module, member)
    except AttributeError:
        raise BadInput(f"module {module_name} has no {member!r} (given as the {what} {name!r})") from None
