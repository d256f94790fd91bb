"""Recordings with a known log: their layouts are read, found steps are scored, and Chromium renders one of them."""

from __future__ import annotations

import math
import random
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.recordings import cursors
from benchmarks.recordings.layout import Action, read_layouts, read_themes, takes
from benchmarks.recordings.recording import Recording, read_recordings, write_log
from benchmarks.recordings.score import Count, edit_distance, interval, table, tally, total
from gce.domain.workflow.steps import Step

HERE = Path(__file__).parent.parent / "benchmarks" / "recordings"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


def recording(*steps: Step, silent: tuple[Step, ...] = (), seconds: float = 30.0) -> Recording:
    return Recording((1280, 720), 15, seconds, "white", "form", "plain", 1.0, 23, steps, silent)


def click(start: float, x: float = 100, y: float = 100) -> Step:
    return Step("click", start, start, (x, y))


def typing(start: float, end: float, text: str) -> Step:
    return Step("type", start, end, text=text)


def written(folder: Path) -> Path:
    """The example of the README as files."""
    for name, text in re.findall(
        r"<!-- file: (\S+) -->\n```\w+\n(.*?)```", (HERE / "README.md").read_text(), re.DOTALL
    ):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def test_clicks_are_right_within_12_pixels_and_200_milliseconds() -> None:
    """Of four true clicks the first and the second are met; the third is 13 pixels off, the fourth 0.3 s."""
    true = recording(click(1), click(2), click(3), click(4))
    found = [click(1.2), click(2, 112, 100), click(3, 105, 112), click(4.3)]
    count = tally(true, found).counts["click"]
    assert count == Count(right=2, found=4, true=4)
    assert (count.precision, count.recall, count.f1) == (0.5, 0.5, 0.5)


def test_one_true_step_makes_one_found_step_right() -> None:
    assert tally(recording(click(1)), [click(0.9), click(1.1)]).counts["click"] == Count(1, 2, 1)


def test_clicks_on_silent_ones_are_neither_right_nor_wrong() -> None:
    """Of two found clicks beside the true one, one is silent and one is false."""
    scored = tally(recording(click(1), silent=(click(5), click(9))), [click(1), click(5.1), click(7)])
    assert scored.counts["click"] == Count(right=1, found=2, true=1)
    assert (scored.silent, scored.silent_found) == (2, 1)


def test_page_changes_have_half_a_second() -> None:
    true = recording(Step("page", 4, 4.4), Step("page", 9, 9))
    assert tally(true, [Step("page", 4.5, 4.5), Step("page", 9.6, 9.6)]).counts["page"] == Count(1, 2, 2)


def test_scrolling_is_right_if_it_overlaps_and_goes_the_same_way() -> None:
    true = recording(Step("scroll", 2, 4, distance=600), Step("scroll", 6, 7, distance=-300))
    found = [Step("scroll", 3.5, 4.5, distance=90), Step("scroll", 6, 7, distance=300)]
    assert tally(true, found).counts["scroll"] == Count(1, 2, 2)


def test_a_text_that_was_not_found_counts_whole() -> None:
    """One letter of `Hopper` is wrong and `Ada` is missing: 4 of 9 characters."""
    true = recording(typing(1, 2, "Hopper"), typing(5, 6, "Ada"))
    scored = tally(true, [typing(1.2, 2.1, "Hopqer"), typing(8, 9, "noise")])
    assert (scored.distance, scored.characters) == (4, 9)
    assert scored.accuracy == pytest.approx(5 / 9)
    assert scored.counts["type"] == Count(1, 2, 2)


def test_false_steps_a_minute_are_those_of_recordings_without_steps() -> None:
    """Two in a minute and a half; the false click of the other recording is not among them."""
    tallies = [
        tally(recording(click(1)), [click(1), click(8)]),
        tally(recording(seconds=60), [click(4), Step("page", 9, 9)]),
        tally(recording(seconds=30), []),
    ]
    assert total(tallies).false_a_minute == pytest.approx(2 / 1.5)
    assert math.isnan(total(tallies[:1]).false_a_minute)


def test_f1_of_the_total_is_not_the_mean_of_f1() -> None:
    """3 of 3 and 0 of 1: F1 is 2 * 3 / (3 + 4), and resampling gives nothing outside 0 and 1."""
    tallies = [
        tally(recording(click(1), click(2), click(3)), [click(1), click(2), click(3)]),
        tally(recording(click(1)), []),
    ]
    assert total(tallies).counts["click"].f1 == pytest.approx(6 / 7)
    assert interval(tallies, lambda one: one.counts["click"].f1) == (0.0, 1.0)


def test_the_interval_of_equal_recordings_is_a_point() -> None:
    tallies = [tally(recording(click(1), click(3)), [click(1)])] * 5
    assert interval(tallies, lambda one: one.counts["click"].recall, draws=50) == (0.5, 0.5)
    assert all(math.isnan(end) for end in interval(tallies, lambda one: one.accuracy, draws=50))


def test_the_table_has_a_row_for_each_kind() -> None:
    lines = table([tally(recording(click(1), click(3)), [click(1)])] * 2, draws=20).splitlines()
    assert lines[2] == "| click | 4 | 2 | 2 | 1.000 | 0.500 | 0.667 [0.667, 0.667] |"
    assert [line.split(" | ")[0] for line in lines[2:6]] == ["| click", "| type", "| scroll", "| page"]


@pytest.mark.parametrize(
    ("first", "second", "distance"),
    [("", "abc", 3), ("kitten", "sitting", 3), ("salt", "last", 2), ("tide", "tide", 0)],
)
def test_edit_distance(first: str, second: str, distance: int) -> None:
    assert edit_distance(first, second) == edit_distance(second, first) == distance


@given(st.lists(st.tuples(st.integers(0, 200), st.integers(0, 60)), unique_by=lambda place: place[0]))
def test_the_truth_scores_one(places: list[tuple[int, int]]) -> None:
    steps = [click(time / 4, x * 20.0) for time, x in places]
    count = tally(recording(*steps), steps).counts["click"]
    assert count.right == count.found == count.true == len(steps)


def test_a_log_is_read_as_it_was_written(tmp_path: Path) -> None:
    made = recording(typing(1, 2, "Añil"), Step("click", 1.2, 1.2, (3.0, 4.5), (0, 1, 9, 8)), silent=(click(7),))
    (tmp_path / "one").mkdir()
    write_log(made, tmp_path / "one")
    assert list(read_recordings(tmp_path)) == [(tmp_path / "one" / "video.mp4", made)]


def test_every_layout_uses_the_variables_that_every_theme_has() -> None:
    """The README's theme names them all."""
    named = set(
        re.findall(r"^([a-z-]+) +?= ", (HERE / "README.md").read_text().split("[variables]")[1].split("```")[0], re.M)
    )
    used = {name for path in HERE.glob("layouts/*/*.*ml") for name in re.findall(r"var\(--([a-z-]+)", path.read_text())}
    used |= {
        name for path in HERE.glob("layouts/*/*.css") for name in re.findall(r"var\(--([a-z-]+)", path.read_text())
    }
    assert used <= named and len(named) == 14
    for theme in read_themes(HERE / "themes"):
        assert set(re.findall(r"--([a-z-]+):", theme.css.splitlines()[0])) == named


def test_shipped_takes_are_many_and_varied() -> None:
    made = takes(read_layouts(HERE / "layouts"), read_themes(HERE / "themes"), each=2)
    assert len(made) >= 30 and len({take.name for take in made}) == len(made)
    assert len({take.layout.folder.name for take in made}) >= 4
    assert len({take.theme.name for take in made}) >= 4
    assert len({take.cursor for take in made}) >= 3
    assert min(take.crf for take in made) <= 20 and max(take.crf for take in made) >= 33
    assert any(take.script.noise for take in made)


def test_a_take_depends_on_its_name_and_the_seed_alone() -> None:
    layouts, themes = read_layouts(HERE / "layouts"), read_themes(HERE / "themes")
    assert takes(layouts, themes, each=2)[-2] == takes(layouts[-1:], themes)[-1]
    assert takes(layouts, themes, seed=1) != takes(layouts, themes)


def test_the_example_of_the_readme_is_read(tmp_path: Path) -> None:
    (layout,) = read_layouts(written(tmp_path) / "layouts")
    (theme,) = read_themes(tmp_path / "themes")
    assert [script.name for script in layout.scripts] == ["keep", "look"]
    assert layout.scripts[0].actions[2] == Action("type", "buy salt", typos=1)
    assert layout.scripts[1].noise and layout.scripts[1].grain == 1.5
    assert theme.name == "day" and "--accent: #1f6feb;" in theme.css and "linear-gradient" in theme.css
    assert len((HERE / "README.md").read_text().splitlines()) <= 100


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"click": "#a", "move": "#b"}, "one of click, type"),
        ({"hop": "#a"}, "one of click, type"),
        ({"click": "#a", "typos": 1}, "does not take ['typos']"),
        ({"scroll": "far"}, "takes a number"),
        ({"type": 3}, "takes text"),
    ],
)
def test_wrong_actions_are_refused(data: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        Action.of(data)


def test_a_wrong_script_names_its_file(tmp_path: Path) -> None:
    script = written(tmp_path) / "layouts" / "note" / "script.toml"
    script.write_text(script.read_text().replace("index.html", "missing.html"))
    with pytest.raises(ValueError, match=r"note/script.toml: the page 'missing.html' of script 'keep' is not there"):
        read_layouts(tmp_path / "layouts")


@pytest.mark.parametrize("style", sorted(cursors.STYLES))
@pytest.mark.parametrize("shape", sorted(cursors.SHAPES))
def test_a_pointer_is_drawn_at_its_tip_and_nowhere_else(style: str, shape: str) -> None:
    frame = np.full((90, 90, 3), 128, np.uint8)
    cursors.draw(frame, style, shape, 40, 40)
    rows, columns = np.nonzero((frame != 128).any(axis=2))
    assert rows.min() >= 20 and rows.max() < 80 and columns.min() >= 25 and columns.max() < 70
    assert (frame[38:43, 38:43] != 128).any()
    cursors.draw(frame, style, shape, 0, 89)  # half outside


def test_jagged_pointers_have_two_colours() -> None:
    frame = np.full((60, 60, 3), 128, np.uint8)
    cursors.draw(frame, "jagged", "arrow", 20, 20)
    assert set(np.unique(frame)) == {0, 128, 255}


def test_slips_are_deleted_again() -> None:
    pytest.importorskip("av")
    from benchmarks.recordings.render import keystrokes

    for seed in range(50):
        keys = keystrokes("two words\nhere", 3, random.Random(seed))
        text: list[str] = []
        for key in keys:
            if key == "Backspace":
                text.pop()
            else:
                text.append("\n" if key == "Enter" else key)
        assert "".join(text) == "two words\nhere" and keys.count("Backspace") >= 3


def test_a_change_counts_from_40_pixels_outside_of_what_moves() -> None:
    pytest.importorskip("av")
    from benchmarks.recordings.render import visible_change

    before = np.zeros((100, 100, 3), np.uint8)
    after = before.copy()
    after[:13, :3, 1] = 17  # 39 pixels
    assert not visible_change(before, after, [])
    after[50, 50] = 255
    assert visible_change(before, after, [])
    assert not visible_change(before, after, [(50, 50, 51, 51)])
    assert not visible_change(before, np.full_like(before, 16), [])


def test_a_darkened_page_is_no_other_page() -> None:
    pytest.importorskip("av")
    from benchmarks.recordings.render import changed_share

    rng = np.random.default_rng(0)
    page = np.repeat(rng.choice(np.array([40, 220], np.uint8), (160, 160, 1)), 3, axis=2)
    other = np.roll(rng.permutation(page.reshape(-1, 3)).reshape(page.shape), 5, axis=0)
    assert changed_share(page, page // 2) == 0.0
    half = page.copy()
    half[:80] = 40
    assert changed_share(page, half) == pytest.approx(0.5, abs=0.05)
    blank = np.full_like(page, 255)
    assert changed_share(blank, other) == 1.0 and changed_share(blank, blank) == 0.0


@pytest.mark.browser
@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")
def test_the_example_of_the_readme_is_rendered(tmp_path: Path) -> None:
    """Steps, texts and times are those of the script; the same seed gives the same bytes; noise has no steps."""
    pytest.importorskip("playwright")
    av = pytest.importorskip("av")
    from benchmarks.recordings.render import render

    keep, look = takes(read_layouts(written(tmp_path) / "layouts"), read_themes(tmp_path / "themes"))
    made = render(keep, tmp_path / "keep")
    assert [step.kind for step in made.steps] == ["click", "type", "click", "page"]
    assert made.steps[1].text == "buy salt"
    assert [len(made.silent), 0 < made.steps[3].start - made.steps[2].start < 0.5] == [1, True]
    box, (x, y) = made.steps[0].box, made.steps[0].point or (0, 0)
    assert box is not None and box[0] < x < box[2] and box[1] < y < box[3]
    with av.open(str(tmp_path / "keep" / "video.mp4")) as video:
        frames = [frame.to_ndarray(format="rgb24").astype(int) for frame in video.decode(video=0)]
    assert len(frames) == round(made.seconds * 15)
    turn = round(made.steps[3].start * 15)
    assert abs(frames[turn] - frames[turn - 1]).mean() > 3 * abs(frames[turn + 2] - frames[turn + 1]).mean()
    again = render(keep, tmp_path / "again")
    assert again == made
    assert (tmp_path / "again" / "video.mp4").read_bytes() == (tmp_path / "keep" / "video.mp4").read_bytes()
    assert render(look, tmp_path / "look").steps == ()
