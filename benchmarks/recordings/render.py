"""Renders takes: a page, somebody's hand on mouse and keys, a video, and a log of what was done."""

from __future__ import annotations

import math
import random
import string
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.recordings import cursors
from benchmarks.recordings.layout import Action, Take
from benchmarks.recordings.recording import Recording, write_log
from benchmarks.recordings.screen import FPS, SIZE, Image, Screen, Video, opened, written
from gce.domain.workflow.steps import Step

__all__ = ["changed_share", "keystrokes", "render", "visible_change"]

AFTER_CLICK = FPS // 2  # frames within 500 ms after the one of the click
SHORTEST = 15 * FPS
MOST = 0.6  # of what is shown; a change of more is another page
NOTCH = 100  # pixels a notch of the wheel
Box = tuple[int, int, int, int]


def render(take: Take, folder: Path) -> Recording:
    """Write `video.mp4` and `log.json` of the take into `folder`.

    Raises:
        ValueError: the script does not do what README.md asks of it; the message names the take and the action.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with opened(take) as screen, written(folder / "video.mp4", take.crf) as video:
        hand = Hand(take, screen, video)
        for action in take.script.actions:
            try:
                hand.do(action)
            except ValueError as exc:
                raise ValueError(f"{take.name}: {action}: {exc}") from exc
        hand.wait(max(SHORTEST - hand.frames, FPS))
    if take.script.noise and (hand.steps or hand.silent):
        raise ValueError(f"{take.name}: a script of noise has steps: {hand.steps + hand.silent}")
    recording = Recording(
        SIZE, FPS, round(hand.frames / FPS, 3), take.cursor, take.layout.folder.name, take.theme.name, take.speed,
        take.crf, tuple(sorted(hand.steps, key=lambda step: step.start)), tuple(hand.silent),
    )  # fmt: skip
    write_log(recording, folder)
    return recording


class Hand:
    """Somebody's hand. `frames` counts what is in the video; the next frame is at `now`."""

    def __init__(self, take: Take, screen: Screen, video: Video) -> None:
        self.take, self.screen, self.video = take, screen, video
        self.rng = random.Random(f"{take.seed} hand")
        self.grains = _grains(take.script.grain, self.rng.randrange(2**32))
        self.frames = 0
        self.steps: list[Step] = []
        self.silent: list[Step] = []
        self.x, self.y = self.rng.randrange(100, SIZE[0] - 100), self.rng.randrange(100, SIZE[1] - 100)
        self.typed = 0.0  # when a key went down or a field was clicked: then the caret is shown again
        self.opening: tuple[int, str] | None = None  # frame and address of the next page
        self.turning: tuple[float, Image] | None = None  # when the last page appeared, and what was there before
        self.state, self.busy, self.moving = "", False, False
        self.image = screen.shot()
        self.wait(FPS)

    @property
    def now(self) -> float:
        """Seconds."""
        return self.frames / FPS

    def do(self, action: Action) -> None:
        """Do one action, and wait a moment."""
        match action.verb, action.what:
            case "click", str(target):
                self.click(target)
            case "type", str(text):
                self.type(text, action.typos)
            case "press", str(key):
                self.press(key)
            case "move", str(target):
                self.move(target)
            case "scroll", pixels:
                self.scroll(float(pixels), action.at)
            case "wait", seconds:
                self.wait(round(float(seconds) * FPS))
        self.wait(self.moment(0.5, 1.3))
        if self.opening or self.turning:
            self.settle()

    def moment(self, low: float, high: float) -> int:
        """Return a number of frames for that many seconds at speed 1."""
        return max(1, round(self.rng.uniform(low, high) * FPS / self.take.speed))

    def wait(self, frames: int) -> None:
        """Let time pass."""
        for _ in range(frames):
            self.tick()

    def settle(self) -> None:
        """Wait until no transition and no timer runs."""
        for _ in range(4 * FPS):
            if not self.busy and not self.opening:
                return
            self.tick()
        raise ValueError("the page does not come to rest within 4 seconds")

    def tick(self, *, event: bool = False) -> None:
        """Make one frame of the video; `event` says that something was done to the page since the last one."""
        turned = self.opening is not None and self.frames >= self.opening[0]
        if turned:
            assert self.opening is not None
            self.turning = (round(self.now, 3), self.image)
            self.screen.open(self.opening[1])
            self.opening = None
        self.screen.mouse.move(self.x, self.y)
        caret = (self.now - self.typed) % 1.0 < 0.5
        found = self.screen.call("frame", round(self.now * 1000), caret, self.x, self.y)
        if turned or event or self.moving or found["moving"] or found["state"] != self.state:
            self.image = self.screen.shot()
        self.state, self.busy, self.moving = found["state"], found["busy"], found["moving"]
        if found["wanted"] and self.opening is None:
            self.opening = (self.frames + self.rng.randint(1, 4), found["wanted"])
        frame = self.image.copy()
        cursors.draw(frame, self.take.cursor, found["shape"], self.x, self.y)
        if self.grains:
            frame = np.clip(frame + self.rng.choice(self.grains), 0, 255).astype(np.uint8)
        self.video.add(frame)
        if self.turning and not self.busy:
            self.log_turn(*self.turning)
            self.turning = None
        self.frames += 1

    def log_turn(self, start: float, before: Image) -> None:
        """Log that another page appeared."""
        if (share := changed_share(before, self.image)) < MOST:
            raise ValueError(f"another page is to change {MOST:.0%} of what is shown, not {share:.0%}")
        self.steps.append(Step("page", start, round(self.now, 3), box=(0, 0, *SIZE)))

    def move(self, target: str) -> Box:
        """Move the pointer over an element, near its middle, and return the element's box."""
        box = self.box(target)
        x, y = (
            round(self.rng.triangular(low + 0.25 * (high - low), high - 0.25 * (high - low)))
            for low, high in ((box[0], box[2]), (box[1], box[3]))
        )
        x0, y0 = self.x, self.y
        away = math.hypot(x - x0, y - y0)
        frames = self.moment(0.25, 0.45) + self.moment(0.1, 0.5) * round(away / 300)
        bend = self.rng.uniform(-0.12, 0.12)
        for n in range(1, frames + 1):
            t = n / frames
            done = t * t * t * (10 - 15 * t + 6 * t * t)  # the minimum-jerk path of a hand
            side = bend * math.sin(math.pi * done)
            self.x = round(min(max(x0 + done * (x - x0) + side * (y0 - y), 0), SIZE[0] - 1))
            self.y = round(min(max(y0 + done * (y - y0) + side * (x - x0), 0), SIZE[1] - 1))
            self.tick()
        return box

    def box(self, target: str) -> Box:
        """Return the box of an element that can be clicked."""
        found = self.screen.call("find", target)
        if found is None or not found["reached"]:
            raise ValueError(f"the middle of {target!r} is not on the screen: it is {found}")
        return _whole(found["box"])

    def click(self, target: str) -> None:
        """Click an element, and log whether that changes anything."""
        self.move(target)
        self.wait(self.moment(0.1, 0.4))
        self.settle()
        box, before, at_rest = self.box(target), self.image, [_whole(box) for box in self.screen.call("moving")]
        step = Step("click", round(self.now, 3), round(self.now, 3), (float(self.x), float(self.y)), box)
        held, rest = self.rng.randint(1, 2), self.moment(0.15, 0.7)
        visible, url = False, self.screen.url
        self.screen.mouse.down()
        self.typed = self.now
        for n in range(AFTER_CLICK + 1):
            if n == held:
                self.screen.mouse.up()
            self.tick(event=n in (0, held))
            visible = visible or visible_change(before, self.image, at_rest)
            if visible and n >= max(held, rest):
                break
        (self.steps if visible else self.silent).append(step)
        share = changed_share(before, self.image)
        if share >= MOST and url == self.screen.url and not self.opening:
            raise ValueError(f"{share:.0%} of what is shown changes: make it another page")

    def scroll(self, pixels: float, at: str) -> None:
        """Turn the wheel until `pixels` are passed or the end is reached."""
        if at:
            self.move(at)
        start, total, owed, left = 0.0, 0.0, 0.0, abs(pixels)
        box: Box = (0, 0, *SIZE)
        next_notch, end = self.now, 0.0
        while left > 0 or abs(owed) >= 1:
            if left > 0 and self.now >= next_notch:
                owed += math.copysign(min(NOTCH, left), pixels)
                left -= NOTCH
                next_notch += self.rng.uniform(0.08, 0.25) / self.take.speed
            part = round(owed * 0.55) if self.take.smooth and abs(owed) > 4 else round(owed)
            owed -= part
            found = self.screen.call("scrolled", self.x, self.y, part)
            if found["moved"]:
                start, end, box = start or self.now, self.now, _whole(found["box"])
                total += found["moved"]
            elif part:
                left = owed = 0
            self.tick(event=True)
        if not total:
            raise ValueError("nothing scrolls there")
        self.steps.append(Step("scroll", round(start, 3), round(end, 3), box=box, distance=float(total)))

    def type(self, text: str, typos: int) -> None:
        """Type into the field that has the focus."""
        if self.screen.call("field") is None:
            raise ValueError("no text field has the focus")
        due = self.now
        start = end = 0.0
        for key in keystrokes(text, typos, self.rng):
            while self.now < due:
                self.tick()
            self.screen.keyboard.press(key) if len(key) > 1 else self.screen.keyboard.type(key)
            self.typed = self.now
            start, end = start or self.now, self.now
            due += self.rng.uniform(0.05, 0.22) / self.take.speed
            if due > self.now:
                self.tick(event=True)
        self.tick(event=True)
        field = self.screen.call("field")
        if not field["shown"]:
            raise ValueError("the field does not show all of its text")
        self.steps.append(Step("type", round(start, 3), round(end, 3), box=_whole(field["box"]), text=field["text"]))

    def press(self, key: str) -> None:
        """Press a key that is not text, for example Enter."""
        self.screen.keyboard.press(key)
        self.typed = self.now
        self.tick(event=True)


def _whole(box: Sequence[float]) -> Box:
    """Return the smallest box of whole pixels around `box`."""
    return math.floor(box[0]), math.floor(box[1]), math.ceil(box[2]), math.ceil(box[3])


def keystrokes(text: str, typos: int, rng: random.Random) -> list[str]:
    """Return the keys for `text`, with `typos` wrong letters that are noticed and deleted."""
    keys = list(text.replace("\n", "\r"))
    wrong = sorted(rng.sample(range(len(keys)), min(typos, len(keys))), reverse=True)
    for place in wrong:
        late = [key for key in keys[place + 1 : place + 1 + rng.randint(0, 2)] if len(key) == 1]
        slip = [rng.choice(string.ascii_lowercase), *late]
        keys[place:place] = [*slip, *["Backspace"] * len(slip)]
    return ["Enter" if key == "\r" else key for key in keys]


def visible_change(before: Image, after: Image, moving: Sequence[Box]) -> bool:
    """Return whether at least 40 pixels outside the boxes `moving` differ by more than 16 in a channel."""
    differs = (np.abs(after.astype(np.int16) - before) > 16).any(axis=2)
    for left, top, right, bottom in moving:
        differs[max(top, 0) : max(bottom, 0), max(left, 0) : max(right, 0)] = False
    return bool(differs.sum() >= 40)


def changed_share(before: Image, after: Image) -> float:
    """Return the share of 16 x 16 pixel blocks with edges before or after in which most edges are others.

    A dialogue box that darkens the page leaves the edges behind it where they are.
    """
    first, second = _edges(before), _edges(after)
    both, either = _per_block(first & second), _per_block(first | second)
    shown = either > 4
    return float((both[shown] < 0.5 * either[shown]).mean()) if shown.any() else 0.0


def _edges(image: Image) -> NDArray[np.bool_]:
    grey = image.mean(axis=2)
    steps = np.abs(np.diff(grey, axis=0, append=grey[-1:])) + np.abs(np.diff(grey, axis=1, append=grey[:, -1:]))
    marks: NDArray[np.bool_] = steps > 12
    return marks


def _grains(deviation: float, seed: int) -> list[NDArray[np.int16]]:
    """Return pictures of noise, (height, width, 1), to add to frames."""
    rng = np.random.default_rng(seed)
    shape = (SIZE[1], SIZE[0], 1)
    return [np.rint(rng.normal(0, deviation, shape)).astype(np.int16) for _ in range(8 if deviation else 0)]


def _per_block(marks: NDArray[np.bool_]) -> NDArray[np.int64]:
    height, width = marks.shape[0] // 16, marks.shape[1] // 16
    counts: NDArray[np.int64] = marks[: height * 16, : width * 16].reshape(height, 16, width, 16).sum(axis=(1, 3))
    return counts
