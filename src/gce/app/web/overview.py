"""What is said of a run in one line, and how far it has come."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from attrs import evolve, field, frozen
from markupsafe import Markup

from gce.app.evaluation.scoring import stored_shares
from gce.app.evaluation.stored_runs import iteration_records, stored_settings
from gce.app.settings.records import TrainSettings
from gce.app.tables.cells import difference_cell
from gce.app.terminal import put
from gce.app.web.served import SECONDS_LISTED, Served, stamp_of
from gce.app.wiring.names import plain_name
from gce.app.wiring.runs import open_run, writer_of
from gce.domain.measurements import Interval, IterationRecord
from gce.domain.paired import Gain
from gce.domain.serialization import from_plain
from gce.domain.statistics import Estimate, mean_over_tiers
from gce.domain.text import printable
from gce.errors import GceError

__all__ = ["RunOverview", "lately", "other_runs", "overview_of", "spark"]

SPARK_WIDTH, SPARK_HEIGHT = 96, 20
MOST_POINTS = 48


@frozen(eq=False)
class RunOverview:
    """A run as far as it has come."""

    id: str
    name: str
    state: str
    """running, finished, interrupted, or unreadable."""
    settings: TrainSettings | None = None
    records: Sequence[IterationRecord] = field(default=(), repr=False)
    summary: dict[str, Any] | None = field(default=None, repr=False)
    last: int = 0
    """The iteration that the run is to reach."""

    @cached_property
    def task(self) -> str:
        """The task, with its preset."""
        found = self.settings
        return "" if found is None else plain_name(found.task) + (f"/{found.preset}" if found.preset else "")

    @property
    def model(self) -> str:
        """The base model."""
        return "" if self.settings is None else plain_name(self.settings.model.name)

    @property
    def iteration(self) -> int:
        """The last one that is finished."""
        return self.records[-1].iteration if self.records else 0

    @cached_property
    def gain(self) -> Estimate | None:
        """Test accuracy after less before, paired by problem."""
        plain = (self.summary or {}).get("gain")
        return None if plain is None else from_plain(Gain, plain).mean

    @property
    def gain_words(self) -> str:
        """The same in points, with its interval."""
        return "" if self.gain is None else difference_cell(self.gain)

    @property
    def seconds(self) -> float:
        """Wall-clock seconds of all iterations, or of the whole run."""
        found = (self.summary or {}).get("seconds")
        return float(found) if found is not None else sum(sum(each.seconds.values()) for each in self.records)

    @property
    def tokens(self) -> int | None:
        """Of prompts and completions."""
        found = [each.metrics.tokens for each in self.records if each.metrics is not None]
        return found[-1] if found else None

    @property
    def shares(self) -> list[float]:
        """Share of training rollouts that were right, by iteration."""
        found = []
        for record in self.records:
            rollouts = sum(each.rollouts for each in record.tiers.values())
            if rollouts:
                found.append(sum(each.correct for each in record.tiers.values()) / rollouts)
        return found

    @cached_property
    def dev(self) -> tuple[int, Estimate] | None:
        """The last iteration that was evaluated on dev, and the mean accuracy over tiers."""
        for record in reversed(self.records):
            found: list[Interval] = [each for each in record.dev.values() if each.n]
            if (mean := mean_over_tiers(found)) is not None:
                return record.iteration, mean
        return None

    @property
    def before(self) -> dict[str, Interval]:
        """Test accuracy before training."""
        return stored_shares((self.summary or {}).get("before") or {})


def overview_of(served: Served, path: Path) -> RunOverview:
    """The overview of a run, read again only where something was written."""
    found = served.kept(("overview", path), stamp_of(path), lambda: _read(served, path))
    if found.state == "interrupted" and writer_of(path) is not None:
        return served.kept(("running", path), found, lambda: evolve(found, state="running"))
    return found


def lately(served: Served) -> tuple[RunOverview, ...]:
    """All runs as they were a few seconds ago, without those that were deleted on a page since."""
    listed = served.runs()
    stamp = tuple(listed), time.monotonic() // SECONDS_LISTED
    return served.kept("lately", stamp, lambda: tuple(overview_of(served, path) for path in listed.values()))


def other_runs(served: Served, run: RunOverview, chosen: str = "") -> Markup:
    """The other runs of its task as options of a form; empty where there are none."""
    runs = lately(served)
    options = served.kept(
        ("options", run.task), runs, lambda: Markup("").join(_option(x) for x in runs if x.task == run.task != "")
    )
    begin = Markup('<option value="{}"').format(chosen)
    return options.replace(_option(run), "").replace(begin, begin + Markup(" selected"))


def _option(run: RunOverview) -> Markup:
    return Markup('<option value="{}">{}</option>').format(run.id, printable(run.name))


def _read(served: Served, path: Path) -> RunOverview:
    id_, name = served.id_of(path), served.name_of(path)
    try:
        with open_run(path, verify=False) as run:
            settings, records, summary = stored_settings(run), iteration_records(run), run.summary()
    except (GceError, ValueError, KeyError, TypeError) as error:
        put(f"{path}: {error}", error=True)
        return RunOverview(id_, name, "unreadable")
    state = "interrupted" if summary is None else "finished"
    return RunOverview(id_, name, state, settings, records, summary, settings.last_iteration)


def spark(values: Sequence[float]) -> str:
    """The points of a line through shares, for an SVG of `SPARK_WIDTH` by `SPARK_HEIGHT`."""
    step = max(1, len(values) // MOST_POINTS)
    found = [sum(part) / len(part) for part in (values[n : n + step] for n in range(0, len(values), step))]
    found *= 2 if len(found) == 1 else 1  # One point is no line.
    across = (SPARK_WIDTH - 4) / max(1, len(found) - 1)
    return " ".join(f"{2 + n * across:.1f},{2 + (SPARK_HEIGHT - 4) * (1 - y):.1f}" for n, y in enumerate(found))
