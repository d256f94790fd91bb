"""Records as a pandas DataFrame."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from gce.errors import MissingExtra

__all__ = ["data_frame"]


def data_frame(records: Iterable[Mapping[str, Any]]) -> Any:
    """A row for each record, a column for each of its names; nested data stay objects.

    Raises:
        MissingExtra: pandas is not installed.
    """
    try:
        import pandas
    except ImportError as error:
        raise MissingExtra("pandas", "data") from error
    return pandas.DataFrame(list(records))
