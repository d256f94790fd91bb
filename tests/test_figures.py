"""Figures: drawn from nothing, from little and from much; their data are their rows."""

from __future__ import annotations

import re

import pytest

from gce.adapters import figures
from gce.adapters.figures import Figure
from gce.domain.statistics import wilson
from gce.domain.tasks import TASKS, draw_problem
from gce.domain.types import Bar, Chart

pytest.importorskip("matplotlib")

SHARE = wilson(3, 10)
DRAWN = {
    "lines": figures.lines("l", "a", {"x": {"T0": [(1, 0.5), (2, 1.0)], "T1": [(1, 0.0)]}}, shares=("x",)),
    "no lines": figures.lines("l", "a", {"x": {}}),
    "intervals": figures.lines("l", "a", {}, shares=("T0",), intervals={"T0": {"T0": [(1, SHARE)]}}),
    "stacks": figures.stacks("s", "a", {"1": {"T0": 3}, "2": {"T1": 4.5}}, unit="traces", across="iteration"),
    "no stacks": figures.stacks("s", "a", {}, unit="traces", across="iteration"),
    "grid": figures.grid("g", "a", {"T0": [0.5, None], "T1": [None, None]}, {"T0": 1, "T1": None}, across="iteration"),
    "no grid": figures.grid("g", "a", {}, {}, across="iteration"),
    "bars": figures.bars("b", "a", {"before": {"T0": SHARE}, "after": {"T0": SHARE, "T1": SHARE}}),
    "effects": figures.effects("e", "a", {"x vs y": (-0.1, -0.2, 0.05)}),
    "chart": figures.chart("c", "a", Chart((Bar("A", 0, 3, 2, True), Bar("B", 3, 4)), 5, ("late",))),
}


@pytest.mark.parametrize("name", DRAWN)
def test_every_figure_is_drawn_as_one_picture_of_the_pages_colour(name: str) -> None:
    svg = DRAWN[name].svg()
    assert svg.startswith("<svg ") and svg.rstrip().endswith("</svg>") and svg.count("<svg") == 1
    assert "currentColor" in svg or name in ("no grid",)
    assert figures.INK not in svg and 'role="img" aria-label="a"' in svg
    assert not re.search(r"\d{4}-\d{2}-\d{2}T", svg), "no time of drawing: the same data, the same picture"
    assert svg == DRAWN[name].svg()
    assert DRAWN[name].png().startswith(b"\x89PNG")


def test_rows_are_what_is_drawn() -> None:
    assert DRAWN["lines"].rows == (("x", "T0", "1", "50"), ("x", "T0", "2", "100"), ("x", "T1", "1", "0"))
    assert DRAWN["grid"].rows[0] == ("T0", "1", "50 %", "first") and DRAWN["grid"].rows[1][2] == "-"
    assert DRAWN["bars"].rows[0] == ("before", "T0", "30.0 (10.8-60.3)", "10")
    assert DRAWN["effects"].rows == (("x vs y", "-10.0", "-20.0 to +5.0"),)
    assert DRAWN["chart"].rows == (("A", "0", "3", "2", "x"), ("B", "3", "4", "-", ""))


def test_titles_and_labels_are_text_whatever_is_in_them() -> None:
    hostile = '<script>$x^2$ & "quotes" \\d'
    svg = figures.bars("b", hostile, {hostile: {hostile: SHARE}}).svg()
    assert "<script" not in svg and "&lt;script&gt;$x^2$ &amp;" in svg


def test_settings_of_matplotlib_are_left_as_they_were() -> None:
    import matplotlib

    before = dict(matplotlib.rcParams)
    Figure("n", "t", (), (), lambda canvas: canvas.subplots()).svg()
    assert dict(matplotlib.rcParams) == before


class TestScheduleChart:
    PROBLEM = draw_problem(TASKS["scheduling"], "grounded", "T4", "test", 0)

    def chart(self, text: str) -> Chart | None:
        return TASKS["scheduling"].chart(self.PROBLEM, text)

    def test_a_right_answer_has_no_fault(self) -> None:
        text = TASKS["scheduling"].worked(self.PROBLEM, None)
        found = self.chart(text or "")
        assert found is not None and found.faults == ()
        assert {bar.label for bar in found.bars} == set(self.PROBLEM.instance.labels)
        assert not any(bar.faulty for bar in found.bars)
        assert [bar.start for bar in found.bars] == sorted(bar.start for bar in found.bars)

    def test_what_a_violation_names_is_faulty(self) -> None:
        zeros = ", ".join(f"{label} 0" for label in self.PROBLEM.instance.labels)
        found = self.chart(f"Answer: {zeros}")
        assert found is not None and found.faults
        assert all(bar.faulty for bar in found.bars if f"job {bar.label} " in " ".join(found.faults).lower())
        assert any(bar.faulty for bar in found.bars)

    def test_what_cannot_be_read_is_drawn_as_it_seems_to_be_meant_or_not_at_all(self) -> None:
        first = self.PROBLEM.instance.labels[0]
        found = self.chart(f"**Answer:** {first} = 3")
        assert found is not None and [bar.label for bar in found.bars] == [first] and found.faults
        for text in ("", "no idea", "Answer: ", "Answer: Q9 4"):
            assert self.chart(text) is None

    def test_a_start_far_away_is_in_the_data(self) -> None:
        found = self.chart(f"Answer: {self.PROBLEM.instance.labels[0]} 999999")
        assert found is not None and found.bars[0].start == 999999
        figure = figures.chart("c", "far", found)
        assert figure.rows[0][1] == "999999" and "<svg" in figure.svg()
