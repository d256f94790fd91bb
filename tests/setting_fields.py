"""Settings by the last part of their names, which is enough to tell them apart."""

from __future__ import annotations

from typing import Any

from gce.app.settings.records import TrainSettings, all_settings
from gce.app.settings.values import changed

NAMES = {name.rpartition(".")[2]: name for name in all_settings()}
assert len(NAMES) == len(all_settings())


def with_fields(settings: TrainSettings, **values: Any) -> TrainSettings:
    """`settings` with these values: `with_fields(settings, learning_rate=0.1)`."""
    return changed(settings, {NAMES[name]: value for name, value in values.items()})
