"""Records of other benchmarks: what a form of records has to have so that a task can be drafted from it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Protocol, TypeVar

from attrs import AttrsInstance, fields

from gce.domain.performance.task import Record

__all__ = ["ForeignRecord", "read_fields", "texts_in"]

_Form = TypeVar("_Form", bound=AttrsInstance)


class ForeignRecord(AttrsInstance, Protocol):
    """One task of another benchmark, as a frozen attrs record with that benchmark's fields."""

    BENCHMARK: ClassVar[str]
    """Its name."""
    FILE: ClassVar[str]
    """Name of the file of a draft that keeps the record."""
    MARK: ClassVar[str]
    """A field that every record of this form has, and no record of another form."""

    @property
    def instance_id(self) -> str:
        """Its name among the tasks of the benchmark."""
        ...

    def task_record(self) -> Record:
        """Return what a performance task keeps of the record."""
        ...

    def scripts(self) -> tuple[str, ...]:
        """Return Python sources that time the code; the first may be a workload."""
        ...

    def remarks(self) -> str:
        """Return notes on the task."""
        ...


def read_fields(form: type[_Form], data: Any, *, benchmark: str) -> _Form:
    """Return the record in plain data. Missing fields have their default; a text that is null is empty.

    Raises:
        ValueError: no object, an unknown field, no `repo` or `instance_id`, or a text that is none.
    """
    if not isinstance(data, Mapping):
        raise ValueError(f"expected an object, got {data!r:.60}")
    known = {each.name: each for each in fields(form)}
    unknown = sorted(set(map(str, data)) - set(known))
    if unknown:
        raise ValueError(f"expected the fields of {benchmark}, got {unknown[0]!r:.60}")
    for name in ("repo", "instance_id"):
        if not isinstance(data.get(name), str) or not data[name]:
            raise ValueError(f"expected a text in {name}, got {data.get(name)!r:.60}")
    given = {}
    for name, value in data.items():
        texts = known[name].type in ("str", str)
        if texts and value is not None and not isinstance(value, str):
            raise ValueError(f"expected a text in {name}, got {value!r:.60}")
        given[name] = "" if texts and value is None else value
    return form(**given)


def texts_in(value: Any) -> tuple[str, ...]:
    """Return the texts that a value of unknown type has: itself, or those of a list; empty ones are left out."""
    several = [value] if isinstance(value, str) else value if isinstance(value, list) else []
    return tuple(each for each in several if isinstance(each, str) and each)
