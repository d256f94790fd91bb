"""Figures: drawn from nothing, from little and from much; their data are their rows."""

from __future__ import annotations

import re
from typing import Any

import pytest

from gce.adapters import matplotlib_figures
from gce.adapters.matplotlib_figures import INK, png, svg
from gce.app.reports.page import html_page
from gce.app.reports.section import Section
from gce.domain.figures import Bars, Effects, Grid, Lines, Stacks, Table, Timeline
from gce.domain.measurements import MeanReward
from gce.domain.statistics import wilson
from gce.domain.tasks import TASKS, draw_problem
from gce.domain.timelines import Bar, Chart

pytest.importorskip("matplotlib")

SHARE = wilson(3, 10)
DRAWN: dict[str, Any] = {
    "lines": Lines("l", "a", {"x": {"T0": [(1, 0.5), (2, 1.0)], "T1": [(1, 0.0)]}}, shares=("x",)),
    "no lines": Lines("l", "a", {"x": {}}),
    "intervals": Lines("l", "a", {}, shares=("T0",), intervals={"T0": {"T0": [(1, SHARE)]}}),
    "stacks": Stacks("s", "a", {"1": {"T0": 3}, "2": {"T1": 4.5}}, unit="traces", across="iteration"),
    "no stacks": Stacks("s", "a", {}, unit="traces", across="iteration"),
    "grid": Grid("g", "a", {"T0": [0.5, None], "T1": [None, None]}, {"T0": 1, "T1": None}, across="iteration"),
    "no grid": Grid("g", "a", {}, {}, across="iteration"),
    "bars": Bars("b", "a", {"before": {"T0": SHARE}, "after": {"T0": SHARE, "T1": SHARE}}),
    "effects": Effects("e", "a", {"x vs y": (-0.1, -0.2, 0.05)}),
    "chart": Timeline("c", "a", Chart((Bar("A", 0, 3, 2, True), Bar("B", 3, 4)), 5, ("late",))),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", DRAWN)
def test_every_figure_is_drawn_as_one_picture_of_the_pages_colour(name: str) -> None:
    drawn = svg(DRAWN[name])
    assert drawn.startswith("<svg ") and drawn.rstrip().endswith("</svg>") and drawn.count("<svg") == 1
    assert "currentColor" in drawn or name in ("no grid",)
    assert INK not in drawn and 'role="img" aria-label="a"' in drawn
    assert not re.search(r"\d{4}-\d{2}-\d{2}T", drawn), "no time of drawing: the same data, the same picture"
    assert drawn == svg(DRAWN[name])
    assert png(DRAWN[name]).startswith(b"\x89PNG")


def test_rows_are_what_is_drawn() -> None:
    assert DRAWN["lines"].table.rows == (("x", "T0", "1", "50"), ("x", "T0", "2", "100"), ("x", "T1", "1", "0"))
    assert DRAWN["grid"].table.rows[0] == ("T0", "1", "50 %", "first") and DRAWN["grid"].table.rows[1][2] == "-"
    assert DRAWN["bars"].table.rows[0] == ("before", "T0", "30.0 (10.8-60.3)", "10")
    assert DRAWN["effects"].table.rows == (("x vs y", "-10.0", "-20.0 to +5.0"),)
    assert DRAWN["chart"].table.rows == (("A", "0", "3", "2", "x"), ("B", "3", "4", "-", ""))


def overlaps(boxes: list[Any]) -> bool:
    return any(one.overlaps(other) for place, one in enumerate(boxes) for other in boxes[place + 1 :])


SIX = [f"T{number}" for number in range(6)]
LONG = [
    "arithmetic-two-digit",
    "arithmetic-three-digit",
    "word-problems-easy",
    "word-problems-hard",
    "olympiad",
    "rest",
]


@pytest.mark.slow
@pytest.mark.parametrize("tiers", [SIX, LONG], ids=["short", "long"])
@pytest.mark.parametrize("kind", ["bars", "grid", "stacks", "lines"])
def test_labels_of_six_tiers_and_forty_iterations_neither_overlap_nor_leave_the_picture(
    kind: str, tiers: list[str]
) -> None:
    """By the boxes in which the labels of an axis and the rows of a legend are drawn; slanted ones lie side by side."""
    points = [(n + 1, n / 40) for n in range(40)]
    figure: Any = {
        "bars": Bars("b", "a", {row: dict.fromkeys(tiers, SHARE) for row in ("before", "after", "baseline")}),
        "grid": Grid("g", "a", {t: [0.5] * 40 for t in tiers}, dict.fromkeys(tiers, 1), across="iteration"),
        "stacks": Stacks("s", "a", {str(n): dict.fromkeys(tiers, n) for n in range(40)}, unit="n", across="iteration"),
        "lines": Lines("l", "a", {each: {t: points for t in tiers} for each in ("x", "y", "z")}, shares=("x",)),
    }[kind]
    with matplotlib_figures._drawn(figure) as canvas:
        canvas.draw_without_rendering()
        whole = canvas.bbox
        for axis in filter(lambda each: each.axison, canvas.axes):
            for side, place in ((axis.xaxis, 0), (axis.yaxis, 1)):
                low, high = sorted(side.get_view_interval())
                labels = [each for each in side.get_ticklabels() if low <= each.get_position()[place] <= high]
                boxes = [label.get_window_extent() for label in labels]
                assert any(label.get_rotation() for label in labels) or not overlaps(boxes)
                assert all(box.x0 >= -1 and box.y0 >= -1 and box.x1 <= whole.x1 + 1 for box in boxes)
        for legend in canvas.legends:
            boxes = [text.get_window_extent() for text in legend.get_texts()]
            assert not overlaps(boxes) and all(box.x0 >= 0 and box.x1 <= whole.x1 and box.y0 >= 0 for box in boxes)


def test_titles_and_labels_are_text_whatever_is_in_them() -> None:
    hostile = '<script>$x^2$ & "quotes" \\d'
    drawn = svg(Bars("b", hostile, {hostile: {hostile: SHARE}}))
    assert "<script" not in drawn and "&lt;script&gt;$x^2$ &amp;" in drawn


def test_settings_of_matplotlib_are_left_as_they_were() -> None:
    import matplotlib

    before = dict(matplotlib.rcParams)
    svg(DRAWN["bars"])
    assert dict(matplotlib.rcParams) == before


class TestScheduleChart:
    PROBLEM = draw_problem(TASKS["scheduling"], "grounded", "T4", "test", 0)

    def chart(self, text: str) -> Chart | None:
        return TASKS["scheduling"].teaching.chart(self.PROBLEM, text)

    def test_a_right_answer_has_no_fault(self) -> None:
        text = TASKS["scheduling"].teaching.demonstration(self.PROBLEM, None)
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
        figure = Timeline("c", "far", found)
        assert figure.table.rows[0][1] == "999999" and "<svg" in svg(figure)


def test_lines_that_share_a_piece_are_all_seen() -> None:
    """Dashes of lines that lie on each other fill each other's gaps, and marks are nested; other lines stay solid."""
    same = [(1.0, 0.5), (2.0, 0.25), (4.0, 0.0)]
    found = {"a": same, "b": same, "c": [(1.0, 1.0), *same[1:]], "alone": [(1.0, 0.9), (2.0, 0.8), (4.0, 0.7)]}
    styles = matplotlib_figures._apart(found)
    assert styles["alone"] == {}
    dashes = [styles[line]["linestyle"] for line in "abc"]
    covered = [{(start + step) % 12 for step in range(4)} for start, (_, _) in [(-o % 12, d) for o, d in dashes]]
    assert set.union(*covered) == set(range(12)) and sum(map(len, covered)) == 12
    assert all(on + off == 12 for _, (on, off) in dashes)
    sizes = [styles[line]["markersize"] for line in "abc"]
    assert sizes == sorted(sizes, reverse=True) and len(set(sizes)) == 3 and sizes[-1] == 4
    assert matplotlib_figures._apart({"a": [(1.0, 1.0)], "b": [(1.0, 1.0)]})["b"] != {}
    assert "<svg" in svg(Lines("l", "a", {"x": found}, shares=("x",), doubles=True))


def test_long_names_of_panels_do_not_overlap() -> None:
    tiers = [f"a tier whose name is as long as a sentence, {number}" for number in range(6)]
    looks = {tier: {tier: [(1.0, SHARE), (2.0, SHARE)]} for tier in tiers}
    with matplotlib_figures._drawn(Lines("l", "a", {}, shares=tiers, intervals=looks)) as canvas:
        canvas.draw_without_rendering()
        assert not overlaps([axis.title.get_window_extent() for axis in canvas.axes])


def test_a_mean_reward_is_drawn_and_listed_as_a_number_up_to_1() -> None:
    reward = MeanReward(4, 2.0, 0.25, 0.75, graded=True)
    bars = Bars("b", "x", {"after": {"T0": reward}}, unit="mean reward")
    assert bars.table.head[2] == "mean reward (95 %)" and bars.table.rows[0][2:] == ("0.500 (0.250-0.750)", "4")
    with matplotlib_figures._drawn(bars) as canvas:
        (axis,) = canvas.axes
        assert axis.get_ylim() == (0, 1.05) and axis.patches[0].get_height() == 0.5
        assert axis.get_ylabel() == "mean reward"


def test_a_wide_table_has_the_width_of_the_page() -> None:
    chart = Bars("b", "x", {"after": {"T0": wilson(1, 2)}})
    pages = [
        html_page("x", [Section("x", (), (Table(tuple("abcdefghijk"[:columns]), ()),), (chart,))], lambda _figure: "")
        for columns in (10, 11)
    ]
    assert [page.count('<div class="content both">') for page in pages] == [1, 0]


def test_a_chart_stands_beside_its_table_and_an_interval_may_stand_below_its_value() -> None:
    table = Table(("", "T0"), (("after", "7 (1-<b>)"),))
    both = Section("x", (), (table,), (Bars("b", "x", {"after": {"T0": wilson(1, 2)}}),))
    page = html_page("x", [both, Section("y", (), (table,))], lambda _figure: "")
    assert page.count('<div class="content both">') == 1 == page.count('<div class="content">')
    assert page.count('<td class="measured">7 <span>(1-&lt;b&gt;)</span></td>') == 2


def test_each_panel_may_have_axes_of_its_own() -> None:
    pytest.importorskip("matplotlib")
    panels = {"path": {"all": [(0.1, 0.2), (0.3, 0.1)]}, "first": {"first": [(1.0, 0.1), (2.0, 0.3)]}}
    axes = {"path": ("one", "other"), "first": ("iteration", "one")}
    with matplotlib_figures._drawn(Lines("l", "a", panels, axes=axes)) as canvas:
        assert [(each.get_xlabel(), each.get_ylabel()) for each in canvas.axes] == [*axes.values()]
