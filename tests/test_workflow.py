"""Steps from screen recordings, with frames that numpy draws and a truth worked by hand."""

from __future__ import annotations

import importlib.util
import json
import random
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gce.adapters.environments.workflow import Replay, is_right
from gce.app.cli import main
from gce.domain.workflow.changes import changes, new_share, observed, shift_between
from gce.domain.workflow.detection import detect
from gce.domain.workflow.regions import Frame, Shot
from gce.domain.workflow.steps import Step
from gce.domain.workflow.storyboard import lines_in, marked
from gce.domain.workflow.templates import tip_of

FPS = 15
HAS_AV = importlib.util.find_spec("av") is not None


def page(seed: int = 0, height: int = 360, width: int = 640) -> Frame:
    """Bars of different lengths on white, as lines of text look from afar."""
    rng = np.random.default_rng(seed)
    frame = np.full((height, width), 245, np.uint8)
    for top in range(40, height - 20, 24):
        for left in range(60, 500, 40):
            if rng.random() < 0.8:
                frame[top : top + 8, left : left + int(rng.integers(8, 36))] = int(rng.integers(20, 120))
    return frame


def with_arrow(frame: Frame, x: int, y: int) -> Frame:
    """The frame with a black arrow whose tip is at (x, y), 12 pixels wide and 20 high."""
    frame = frame.copy()
    for row in range(20):
        width = min(row * 12 // 16 + 1, 12) if row < 16 else 5
        frame[y + row, x : x + width] = 255
        frame[y + row, [x, x + width - 1]] = 0
    frame[y + 19, x : x + 5] = 0
    return frame


def path(first: tuple[int, int], last: tuple[int, int], frames: int) -> list[tuple[int, ...]]:
    """Places of a hand from one point to another, slow at both ends."""
    times = np.linspace(0, 1, frames) ** 3 * (10 - 15 * np.linspace(0, 1, frames) + 6 * np.linspace(0, 1, frames) ** 2)
    return [tuple(round(a + (b - a) * t) for a, b in zip(first, last, strict=True)) for t in times]


def steps_of(frames: list[Frame]) -> list[Step]:
    shots = [Shot(n / FPS, frame) for n, frame in enumerate(frames)]
    height, width = frames[0].shape
    return detect(observed(lambda: shots), width, height)


def clicked(
    button: tuple[int, int, int, int] = (300, 200, 380, 230), at: tuple[int, int] = (330, 212)
) -> tuple[list[Frame], float]:
    """The pointer comes, rests, and 10 frames later the button under it changes; then the pointer goes."""
    before = page()
    before[button[1] : button[3], button[0] : button[2]] = 200
    after = before.copy()
    after[button[1] : button[3], button[0] : button[2]] = 120
    frames = [with_arrow(before, 100, 80)] * 8
    frames += [with_arrow(before, x, y) for x, y in path((100, 80), at, 12)]
    frames += [with_arrow(before, *at)] * 10
    press = len(frames)
    frames += [with_arrow(after, *at)] * 12
    frames += [with_arrow(after, x, y) for x, y in path(at, (500, 300), 12)]
    return frames, press / FPS


def test_a_click_has_the_time_and_the_place_of_the_change_under_a_resting_pointer() -> None:
    frames, seconds = clicked()
    (step,) = steps_of(frames)
    assert step.kind == "click"
    assert abs(step.start - seconds) <= 0.1
    assert step.point is not None
    assert np.hypot(step.point[0] - 330, step.point[1] - 212) <= 4


def test_a_pointer_that_moves_over_a_page_is_no_step() -> None:
    still = page()
    frames = [with_arrow(still, 60, 60)] * 5
    frames += [with_arrow(still, x, y) for x, y in path((60, 60), (420, 250), 14)]
    frames += [with_arrow(still, 420, 250)] * 15
    assert steps_of(frames) == []


def test_another_page_is_a_page_change_and_its_frames_are_no_clicks_without_a_pointer() -> None:
    frames = [page(1)] * 20 + [np.roll(page(2), 12, axis=0)] * 20  # its lines are where the other page has none
    (step,) = steps_of(frames)
    assert (step.kind, step.box) == ("page", (0, 0, 640, 360))
    assert step.start == pytest.approx(20 / FPS)


def test_letters_that_appear_one_after_another_are_typing() -> None:
    frame = np.full((360, 640), 245, np.uint8)
    frames = [frame] * 10
    for n in range(8):
        frame = frame.copy()
        frame[100:114, 200 + 10 * n : 208 + 10 * n] = 30
        frames += [frame] * 3
    frames += [frame] * 15
    (step,) = steps_of(frames)
    assert step.kind == "type"
    assert [step.start, step.end] == pytest.approx([10 / FPS, 31 / FPS])
    assert step.box == (200, 100, 278, 114)


def test_a_message_that_vanishes_is_no_click() -> None:
    """It appears with a click on the button, and goes when the pointer has come to another place."""
    frames, seconds = clicked()
    frames += [frames[-1]] * 20
    press = round(seconds * FPS)
    for frame in frames[press : press + 30]:
        frame[4:30, 20:300] = 60
    (step,) = steps_of(frames)
    assert step.kind == "click" and abs(step.start - seconds) <= 0.1


def test_the_mark_of_a_label_that_is_clicked_changes_on_its_line() -> None:
    still = page()
    marked = still.copy()
    marked[212:224, 226:238] = 0
    frames = [with_arrow(still, 100, 80)] * 8 + [with_arrow(still, x, y) for x, y in path((100, 80), (330, 212), 12)]
    press = len(frames) + 6
    frames += [with_arrow(still, 330, 212)] * 6 + [with_arrow(marked, 330, 212)] * 12
    frames += [with_arrow(marked, x, y) for x, y in path((330, 212), (500, 300), 12)]
    (step,) = steps_of(frames)
    assert step.kind == "click" and abs(step.start - press / FPS) <= 0.1


def test_a_caret_a_clock_and_a_spinner_are_no_steps() -> None:
    frames = []
    for n in range(6 * FPS):
        frame = page()
        if n // 7 % 2:
            frame[300:316, 100:102] = 0
        frame[20:32, 560 : 570 + n // FPS % 4 * 8] = 60
        angle = 2 * np.pi * n / FPS
        x, y = int(580 + 10 * np.cos(angle)), int(330 + 10 * np.sin(angle))
        frame[y - 3 : y + 3, x - 3 : x + 3] = 40
        frames.append(frame)
    assert steps_of(frames) == []


def test_a_thing_that_travels_and_bars_that_grow_are_not_typed() -> None:
    """A bus goes on by 4 pixels every other frame; one bar grows with each frame, and one every 0.8 s."""
    bus = np.random.default_rng(0).choice(np.array([20, 230], np.uint8), (18, 28))
    for every, draw in ((2, "bus"), (1, "bar"), (12, "bar")):
        frames = []
        for n in range(8 * FPS):
            frame, at = page(), 60 + 8 * (n // every)
            if draw == "bus":
                at = 60 + 4 * (n // every)
                frame[12 + at // 8 : 30 + at // 8, at : at + 28] = bus
            else:
                frame[16:26, 60 : min(at, 600)] = 30
            frames.append(frame)
        assert steps_of(frames) == [], (every, draw)


def test_a_number_that_is_aligned_to_the_right_is_typed() -> None:
    frame = np.full((360, 640), 245, np.uint8)
    frames = [frame] * 10
    for n in range(1, 7):
        digits = np.full((14, 10 * n), 245, np.uint8)
        for left in range(n):
            digits[: 6 + left, 10 * left : 10 * left + 7] = 30
        frame = frame.copy()
        frame[100:114, 400 - 10 * n : 400] = digits
        frames += [frame] * 3
    (step,) = steps_of([*frames, *[frame] * 15])
    assert step.kind == "type"
    assert [step.start, step.end] == pytest.approx([10 / FPS, 25 / FPS])


def test_what_changes_under_the_pointer_is_clicked_also_where_the_pointer_covers_it() -> None:
    before = page()
    before[214:230, 330:350] = 245
    after = before.copy()
    after[212:220, 337:342] = 0
    frames = [with_arrow(before, x, y) for x, y in moving(before)[1]]
    frames += [with_arrow(before, x, y) for x, y in path((520, 120), (330, 212), 12)] + [
        with_arrow(before, 330, 212)
    ] * 8
    press = len(frames)
    frames += [with_arrow(after, 330, 212)] * 12 + [
        with_arrow(after, x, y) for x, y in path((330, 212), (500, 300), 12)
    ]
    steps = steps_of(frames)
    assert [step.kind for step in steps] == ["click"] and abs(steps[0].start - press / FPS) <= 0.1


def moving(before: Frame) -> tuple[list[Frame], list[tuple[int, ...]]]:
    """Frames in which the pointer goes to three places and rests at each, and where its tip is in each."""
    places: list[tuple[int, ...]] = [(100, 80)] * 6
    for first, last in (((100, 80), (400, 250)), ((400, 250), (180, 300)), ((180, 300), (520, 120))):
        places += [*path(first, last, 10), *[last] * 6]
    return [with_arrow(before, x, y) for x, y in places], places


def test_the_pointer_is_found_in_each_frame_after_it_moved_by_what_it_looked_like() -> None:
    frames, places = moving(page())
    found = observed(lambda: [Shot(n / FPS, frame) for n, frame in enumerate(frames)])
    seen = [(each.pointer.tip, place) for each, place in zip(found[12:], places[13:], strict=True) if each.pointer]
    assert len(seen) > 0.9 * len(found[12:])
    assert all(abs(tip[0] - x) <= 4 and abs(tip[1] - y) <= 4 for tip, (x, y) in seen)


def test_a_picture_of_a_pointer_on_the_page_does_not_hold_the_pointer() -> None:
    frames, places = moving(with_arrow(page(), 300, 40))
    found = observed(lambda: [Shot(n / FPS, frame) for n, frame in enumerate(frames)])
    for t in (20, 36, 52):  # at rest at each place
        pointer, (x, y) = found[t - 1].pointer, places[t]
        assert pointer is not None
        assert abs(pointer.tip[0] - x) <= 4 and abs(pointer.tip[1] - y) <= 4


def test_a_key_frame_that_differs_a_little_everywhere_changes_nothing() -> None:
    before = page()
    noise = np.random.default_rng(0).integers(-30, 31, before.shape)
    after = np.clip(before + noise, 0, 255).astype(np.uint8)
    first, key, other = Shot(0.0, before), Shot(0.1, after, key=True), Shot(0.1, after)
    ((as_key,), (as_other,)) = (list(changes([first, each])) for each in (key, other))
    assert as_key.regions == ()
    assert as_other.share > 0


def test_a_screen_that_is_shaded_as_a_whole_changes() -> None:
    before = page()
    (found,) = changes([Shot(0.0, before), Shot(0.1, (before * 0.6).astype(np.uint8))])
    assert found.share > 0.9


def long_page() -> Frame:
    return np.concatenate([page(seed) for seed in range(3)])


@given(st.integers(-120, 120))
@settings(max_examples=25, deadline=None)
def test_scrolling_by_k_rows_has_the_distance_k(k: int) -> None:
    paper = long_page()
    first, second = paper[300:660], paper[300 + k : 660 + k]
    assert shift_between(first, second, (0, 0, 640, 360)) == k


def test_scrolling_adds_up_and_down_is_positive() -> None:
    paper = long_page()
    frames = [paper[:360]] * 10 + [paper[40 * n : 360 + 40 * n] for n in range(1, 6)] + [paper[200:560]] * 10
    (step,) = steps_of(frames)
    assert (step.kind, step.distance) == ("scroll", 200)


def test_a_page_that_moves_once_without_the_pointer_is_not_scrolled() -> None:
    paper = long_page()
    assert steps_of([paper[:360]] * 10 + [paper[40:400]] * 20 + [paper[80:440]] * 20) == []


@given(st.integers(0, 2**32 - 1), st.integers(2, 20))
@settings(max_examples=15, deadline=None)
def test_a_recording_in_which_nothing_changes_has_no_steps(seed: int, count: int) -> None:
    assert steps_of([page(seed)] * count) == []


def test_a_shade_over_the_page_is_not_another_page() -> None:
    before = page()
    assert new_share(before, (before * 0.6).astype(np.uint8)) < 0.1
    assert new_share(before, page(5)) > 0.5


def test_a_beam_points_with_its_middle_and_an_arrow_with_its_corner() -> None:
    beam = np.zeros((18, 7), bool)
    beam[[0, -1]] = True
    beam[:, 3] = True
    assert tip_of(beam) == (3.5, 9.0)
    arrow = np.tril(np.ones((20, 12), bool))
    x, y = tip_of(arrow)
    assert x <= 1 and y <= 1


def test_a_beam_with_an_outline_is_wide_and_the_same_both_ways() -> None:
    beam = np.zeros((32, 20), bool)
    beam[:6], beam[-6:], beam[:, 7:13] = True, True, True
    assert tip_of(beam) == (10, 16)


def test_lines_of_text_lose_a_caret_that_one_picture_does_not_show() -> None:
    blank = np.full((60, 200, 3), 250, np.uint8)
    blank[10:20, 10:50] = 20
    blank[34:44, 10:90] = 20
    caret = blank.copy()
    caret[30:48, 95:97] = 0
    lines = lines_in([caret, blank], (5, 5, 120, 55))
    assert len(lines) == 2
    assert (lines[1][:, 90:] > 200).all()


def test_a_storyboard_shows_box_and_pointer_at_the_picture_scale() -> None:
    picture = np.zeros((720, 1440, 3), np.uint8)
    shown = marked(picture, Step("click", 1.0, 1.0, (400.0, 300.0), (300, 200, 500, 400)))
    assert shown.shape == (360, 720, 3)
    assert shown[150, 200 - 8].tolist() == [214, 40, 40]
    assert shown[100, 200].tolist() == [214, 40, 40]


STEPS = (
    Step("click", 1.0, 1.0, (30.0, 40.0), (20, 30, 60, 50)),
    Step("type", 2.0, 3.0, box=(20, 30, 60, 50), text="Ada"),
    Step("scroll", 4.0, 4.5, box=(0, 0, 640, 360), distance=120.0),
    Step("page", 5.0, 5.2, box=(0, 0, 640, 360)),
    Step("click", 6.0, 6.0, (300.0, 200.0), (280, 190, 320, 210)),
)


def test_an_action_is_right_if_it_hits_the_box_is_the_text_or_goes_the_same_way() -> None:
    assert is_right("click 20,49", STEPS[0]) and not is_right("click 60,40", STEPS[0])
    assert is_right("type  Ada ", STEPS[1]) and not is_right("type ada", STEPS[1])
    assert is_right("scroll 5", STEPS[2]) and not is_right("scroll -120", STEPS[2])
    assert not is_right("type Ada", STEPS[0]) and not is_right("click 1,1", STEPS[3])


def test_the_recorded_actions_have_return_1_and_random_clicks_about_0() -> None:
    replay = Replay(((640, 360), STEPS))
    row = replay.call("draw", "default", 0)
    assert replay.call("score", replay.right_answer(random.Random(0)), row) == 1.0
    returns = [replay.call("score", replay.random_answer(random.Random(seed)), row) for seed in range(200)]
    assert np.mean(returns) < 0.02


def test_the_replay_goes_on_with_the_recorded_step_after_a_wrong_action() -> None:
    replay = Replay(((640, 360), STEPS))
    found = replay.call("play", {}, ["click 600,300"])
    assert found["reward"] == 0.0 and "Recorded was: click 40,40." in found["text"] and not found["done"]
    last = replay.call("play", {}, ["click 600,300", "type Ada", "scroll 10", "click 300,200"])
    assert last["reward"] == 0.25 and last["done"]
    assert "illegal" in replay.call("play", {}, ["press Enter"])


@given(st.text(max_size=40))
def test_an_action_of_any_text_is_judged_without_an_error(action: str) -> None:
    replay = Replay(((640, 360), STEPS))
    assert {"illegal", "text"} & set(replay.call("play", {}, [action]))


def test_evaluating_the_scripted_player_through_the_task(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    from gce.domain.serialization import to_plain

    data = {"video": "v.mp4", "size": [640, 360], "seconds": 7.0, "steps": to_plain(STEPS)}
    (tmp_path / "steps.json").write_text(json.dumps(data))
    assert main(["show", "workflow:steps.json"]) == 0
    assert "Places that are clicked" in capsys.readouterr().out
    (tmp_path / "bad.json").write_text('{"size": 3}')
    assert main(["show", "workflow:bad.json"]) == 2
    assert "no steps of gce workflow" in capsys.readouterr().err


@pytest.mark.skipif(HAS_AV, reason="PyAV is installed")
def test_without_the_extra_the_command_names_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "v.mp4").write_bytes(b"x")
    assert main(["workflow", str(tmp_path / "v.mp4")]) == 2
    assert "grounded-eval[workflow]" in capsys.readouterr().err


def test_the_command_finds_the_click_of_an_encoded_video_and_writes_page_and_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    av = pytest.importorskip("av")
    monkeypatch.chdir(tmp_path)
    frames, seconds = clicked()
    with av.open("v.mp4", "w") as container:
        stream = container.add_stream("libx264", rate=FPS, options={"crf": "23"})
        stream.width, stream.height, stream.pix_fmt = 640, 360, "yuv420p"
        for frame in frames:
            for packet in stream.encode(av.VideoFrame.from_ndarray(np.stack([frame] * 3, axis=2), format="rgb24")):
                container.mux(packet)
        for packet in stream.encode(None):
            container.mux(packet)
    assert main(["workflow", "v.mp4", "--out", "page.html", "--steps", "steps.json", "--json"]) == 0
    (step,) = json.loads(capsys.readouterr().out)["steps"]
    assert step["kind"] == "click" and abs(step["start"] - seconds) <= 0.2
    assert np.hypot(step["point"][0] - 330, step["point"][1] - 212) <= 12
    assert "data:image/jpeg;base64," in (tmp_path / "page.html").read_text()
    assert main(["show", "workflow:steps.json"]) == 0


@pytest.mark.skipif(not HAS_AV, reason="needs PyAV")
@pytest.mark.parametrize(
    "content", [b"", b"not a video", b"#EXTM3U\nfile:///etc/passwd\n", b"\0\0\0\x18ftypmp42" + b"\0" * 200]
)
def test_what_is_no_video_is_one_clear_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes
) -> None:
    video = tmp_path / "v.mp4"
    video.write_bytes(content)
    assert main(["workflow", str(video)]) == 2
    error = capsys.readouterr().err
    assert error.startswith("gce workflow: ") and "as a video" in error and error.count("\n") == 1
