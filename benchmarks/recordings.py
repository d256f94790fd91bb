"""Screen recordings with a known log: pages in headless Chromium, used by a scripted hand and filmed with a clock of its own.

Each frame is a screenshot with a pointer drawn on it, without click markers; frames are encoded by FFmpeg. The log says
what was done when and where, and whether it visibly changed the page. Layouts, themes and pointers of the recordings that
a detector was tuned on are here; those that it was never shown are in `recordings_held_out`. Needs the extras `browser`
and `video`.
"""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any

import av
import numpy as np
from attrs import field, frozen

__all__ = ["LAYOUTS", "LOOKS", "NOISES", "WIDTH", "Look", "Scene", "chromium", "record", "scenes", "view"]

WIDTH, HEIGHT = 1024, 640
DELAYS = (0, 0, 0, 0.04, 0.04, 0.08, 0.08, 0.12, 0.16, 0.2, 0.24, 0.3)
"""Seconds from a click until the page answers, beside what a pressed element shows at once."""
VISIBLE = 0.5
"""Seconds within which a click has to change the page to count as visible."""
WORDS = "amber basin cedar delta ember fjord grove harbor island jungle kettle lemon meadow north olive pepper quartz river".split()
NOISES = ("idle", "wandering", "spinner", "clock", "film", "grain")
"""Recordings in which nobody does anything."""


@frozen
class Look:
    """A theme, a pointer and a codec."""

    page: str = "#ffffff"
    card: str = "#f4f5f7"
    ink: str = "#1c1e21"
    accent: str = "#2563eb"
    line: str = "#c4c9d1"
    font: str = "DejaVu Sans"
    size: int = 15
    radius: int = 6
    hovers: bool = True
    """Whether elements change under the pointer."""
    presses: bool = True
    """Whether elements change while they are pressed."""
    ring: bool = True
    """Whether a focused field gets a coloured border; the blinking caret is there in any case."""
    fade: int = 0
    """Frames that a new view takes to appear."""
    pointer: str = "arrow"
    scale: float = 1.0
    shapes: bool = True
    """Whether the pointer becomes a hand or a bar over links and fields."""
    hides: bool = False
    """Whether the pointer is hidden while somebody types."""
    fps: int = 12
    speed: float = 1.0
    codec: str = "libx264"
    quality: int = 23


@frozen
class Scene:
    """A recording to make."""

    name: str
    layout: str
    look: Look
    seed: int
    html: str
    actions: int = 5
    noise: str = ""
    pointers: Mapping[str, tuple[str, float, float]] = field(factory=dict)
    """By shape: SVG in a box of 24 by 24, and the hot spot there."""


_EDGE = 'stroke-width="1.4" stroke-linejoin="round"'
_ARROW = f'<path d="M2 1 L2 18 L6.2 14.2 L9 20.5 L12 19.2 L9.2 13 L15 13 Z" {_EDGE} fill="{{}}" stroke="{{}}"/>'
_HAND = (
    '<path d="M8 2.2 q1.6 -1.4 2.6 .6 L11 9 q1 -1.6 2.6 -.2 q1.5 -1 2.6 .6 q2 -.6 2.4 1.4 L18.6 16 L16.4 22 L8.6 22 '
    'L3.4 14.6 q.4 -2 2.6 -1 L8 15 Z" stroke-width="1.2" fill="white" stroke="black"/>'
)
_BAR = '<path d="M9 3 q3 0 3 2 q0 -2 3 -2 M12 5 L12 19 M9 21 q3 0 3 -2 q0 2 3 2" fill="none" stroke="{}" stroke-width="1.6"/>'
POINTERS: Mapping[str, Mapping[str, tuple[str, float, float]]] = {
    "arrow": {
        "default": (_ARROW.format("white", "black"), 2, 1),
        "pointer": (_HAND, 9.3, 2),
        "text": (_BAR.format("black"), 12, 12),
    },
    "dark arrow": {
        "default": (_ARROW.format("black", "white"), 2, 1),
        "pointer": (_HAND, 9.3, 2),
        "text": (_BAR.format("gray"), 12, 12),
    },
}

CSS = """
* { box-sizing: border-box; caret-animation: manual } html { scroll-behavior: auto }
body { margin: 0; height: 100vh; overflow: hidden; background: var(--page); color: var(--ink);
  font: var(--size)/1.5 var(--font); display: flex; flex-direction: column }
::-webkit-scrollbar { width: 0 } input, textarea, button { font: inherit; color: inherit }
.view { display: none; flex: 1; min-height: 0; overflow-y: auto; padding: 20px 28px } .view.shown { display: block }
button, .link, .row, .tile, .chip { cursor: pointer; user-select: none }
button, .chip { background: var(--card); border: 1px solid var(--line); border-radius: var(--radius); padding: 6px 16px }
.link { color: var(--accent); text-decoration: underline }
input[type=text], textarea { display: block; width: 300px; padding: 7px 10px; border: 1px solid var(--line);
  border-radius: var(--radius); background: var(--page); outline: none; margin: 4px 0 14px }
.box { display: inline-block; width: 18px; height: 18px; border: 2px solid var(--line); border-radius: 3px;
  vertical-align: -4px; margin-right: 8px; cursor: pointer } .box.on { background: var(--accent) }
.switch { display: inline-block; width: 40px; height: 22px; border-radius: 11px; background: var(--line); position: relative;
  cursor: pointer; vertical-align: middle } .switch::after { content: ''; position: absolute; left: 3px; top: 3px;
  width: 16px; height: 16px; border-radius: 8px; background: var(--page) } .switch.on { background: var(--accent) }
.switch.on::after { left: 21px } .hidden { display: none } .bar { display: flex; gap: 14px; padding: 10px 24px;
  background: var(--card); border-bottom: 1px solid var(--line); align-items: center } .bar b { margin-right: auto }
.card { background: var(--card); border: 1px solid var(--line); border-radius: var(--radius); padding: 12px 16px;
  margin: 0 0 14px } .row { padding: 9px 14px; border-bottom: 1px solid var(--line) } .row.on { background: var(--line) }
.tile { background: var(--card); border: 1px solid var(--line); border-radius: var(--radius); padding: 14px }
.tile.on { border-color: var(--accent); border-width: 3px } .cols { display: flex; flex: 1; min-height: 0 }
.side { width: 190px; background: var(--card); border-right: 1px solid var(--line); padding: 14px 0 } p { max-width: 46em }
"""
HOVERS = "button:hover, .chip:hover, .row:hover, .tile:hover { filter: brightness(.9) } .link:hover { color: var(--ink) }"
PRESSES = "button:active, .chip:active, .row:active, .tile:active { filter: brightness(.75) }"
RING = "input:focus, textarea:focus { border-color: var(--accent); box-shadow: 0 0 0 2px var(--accent) }"
SCRIPT = """
const waiting = [];
const flush = () => { while (waiting.length) waiting.shift()(); };
document.addEventListener('click', event => {
  const hit = event.target.closest('[data-nav],[data-toggle],[data-show],[data-count]'); if (!hit) return;
  waiting.push(() => {
    const data = hit.dataset;
    if (data.nav) { document.activeElement.blur(); for (const view of document.querySelectorAll('.view'))
      view.classList.toggle('shown', view.id === data.nav); }
    if ('toggle' in data) hit.classList.toggle('on');
    if (data.show) document.getElementById(data.show).classList.toggle('hidden');
    if (data.count) { const place = document.getElementById(data.count); place.textContent = +place.textContent + 1; }
  });
});
const places = () => [...document.querySelectorAll('[data-nav],[data-toggle],[data-show],[data-count],input,textarea,[data-dead]')]
  .map(each => { const box = each.getBoundingClientRect(); const x = box.x + box.width / 2, y = box.y + box.height / 2;
    const top = document.elementFromPoint(x, y);
    return {kind: each.matches('input,textarea') ? 'field' : 'nav' in each.dataset ? 'nav' : 'dead' in each.dataset ? 'dead' : 'act',
      box: [box.x, box.y, box.right, box.bottom], filled: !!each.value, seen: !!top && (each.contains(top) || top.contains(each))}; })
  .filter(each => each.seen && each.box[2] > each.box[0]);
const under = (x, y) => { const hit = document.elementFromPoint(x, y); if (!hit) return ['', 'default'];
  const own = hit.closest('button,.chip,.row,.tile,.link'); const shape = getComputedStyle(hit).cursor;
  return [own ? [...document.querySelectorAll('*')].indexOf(own) : '', hit.matches('input,textarea') ? 'text' : shape]; };
const scrollable = () => [...document.querySelectorAll('.view.shown, .view.shown .scrolls')].some(each => each.scrollHeight > each.clientHeight + 60);
const caret = on => document.documentElement.style.setProperty('caret-color', on ? 'var(--ink)' : 'transparent');
"""


def view(name: str, body: str, shown: bool = False) -> str:
    """One view of a page."""
    return f'<section class="view{" shown" * shown}" id="{name}">{body}</section>'


def _text(rng: random.Random, words: int) -> str:
    return (" ".join(rng.choice(WORDS) for _ in range(words)) + ".").capitalize()


def _form(rng: random.Random) -> str:
    fields = "".join(f'<label>{rng.choice(WORDS).title()} name<input type="text"></label>' for _ in range(3))
    boxes = "".join(f'<p><span class="box" data-toggle></span>{_text(rng, 4)}</p>' for _ in range(2))
    done = f'<h2>{_text(rng, 3)}</h2>{"".join(f"<p>{_text(rng, 30)}</p>" for _ in range(4))}<button data-nav="one">Back</button>'
    return view(
        "one", f'<h2 data-dead>{_text(rng, 3)}</h2>{fields}{boxes}<button data-nav="two">Continue</button>', True
    ) + view("two", done)


def _list(rng: random.Random) -> str:
    rows = "".join(f'<div class="row" data-toggle>{_text(rng, 6)}</div>' for _ in range(25))
    bar = (
        '<div class="bar"><b data-dead>Inbox</b><span class="chip" data-nav="one">All</span>'
        '<span class="chip" data-nav="two">Starred</span><span id="n">3</span><button data-count="n">Add</button></div>'
    )
    other = "".join(f'<div class="card"><b>{_text(rng, 3)}</b><p>{_text(rng, 25)}</p></div>' for _ in range(6))
    return bar + view("one", rows, True) + view("two", other)


def _settings(rng: random.Random) -> str:
    def panel(count: int) -> str:
        return "".join(
            f'<div class="card"><span class="switch" data-toggle></span> <b>{_text(rng, 2)}</b> {_text(rng, 9)}</div>'
            for _ in range(count)
        )

    side = '<div class="side"><div class="row" data-nav="one">General</div><div class="row" data-nav="two">Privacy</div></div>'
    field = '<label>Display name<input type="text"></label>'
    return f'<div class="cols">{side}{view("one", field + panel(5), True)}{view("two", panel(4) + f"<p>{_text(rng, 50)}</p>")}</div>'


def _article(rng: random.Random) -> str:
    body = "".join(
        f'<h2 data-dead>{_text(rng, 4)}</h2><p>{_text(rng, 60)} <span class="link" data-nav="two">{_text(rng, 2)}</span></p>'
        for _ in range(9)
    )
    other = "".join(f"<p>{_text(rng, 45)}</p>" for _ in range(5))
    search = '<div class="bar"><b data-dead>Reader</b><input type="text" placeholder="Search" style="margin:0"></div>'
    more = f'<button data-show="more">More</button><div class="card hidden" id="more">{_text(rng, 20)}</div>'
    return search + view("one", body, True) + view("two", f'<span class="link" data-nav="one">Home</span>{more}{other}')


LAYOUTS = {"form": _form, "list": _list, "settings": _settings, "article": _article}
LOOKS = (
    Look(),
    Look(page="#16181d", card="#22252c", ink="#e6e6e6", accent="#f59e0b", line="#4a4f5a", pointer="arrow", fps=15, hides=True),
    Look(page="#fbf7ee", card="#f0e6d2", ink="#3b2f1e", accent="#a0522d", line="#c9b78f", font="DejaVu Serif", size=17, pointer="dark arrow", scale=1.4, quality=28, presses=False),
    Look(accent="#0f766e", font="Liberation Sans", size=14, radius=0, hovers=False, shapes=False, fps=10, quality=33, fade=2),
    Look(page="#eef2ff", card="#ffffff", accent="#7c3aed", line="#a5b4fc", size=16, radius=14, ring=False, scale=1.2, speed=1.5, quality=18),
)


def scenes() -> list[Scene]:
    """The recordings that the detector was tuned on."""
    found = []
    for n in range(20):
        layout = list(LAYOUTS)[n % 4]
        look = LOOKS[(n + n // 5) % len(LOOKS)]
        html = LAYOUTS[layout](random.Random(n))
        found.append(Scene(f"{n:02d}-{layout}", layout, look, n, html, pointers=POINTERS[look.pointer]))
    for n, noise in enumerate(NOISES):
        layout, look = list(LAYOUTS)[n % 4], LOOKS[n % len(LOOKS)]
        html = LAYOUTS[layout](random.Random(100 + n))
        found.append(Scene(f"noise-{noise}", layout, look, 100 + n, html, noise=noise, pointers=POINTERS[look.pointer]))
    return found


@contextmanager
def chromium() -> Iterator[Any]:
    """The system's browser."""
    from playwright.sync_api import sync_playwright

    path = shutil.which("chromium") or shutil.which("chromium-browser")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


def _pixels(png: bytes, layout: str = "rgb24") -> np.ndarray:
    with av.open(BytesIO(png), format="png_pipe") as file:
        return next(file.decode(video=0)).to_ndarray(format=layout)


def _apart(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """By how much each pixel differs, in the channel where it does most."""
    return (np.maximum(one, other) - np.minimum(one, other)).max(2)


class _Film:
    """Films a page frame by frame."""

    def __init__(self, browser: Any, scene: Scene, path: Path) -> None:
        look = scene.look
        self.scene, self.look, self.rng = scene, look, random.Random(scene.seed)
        self.noisy = np.random.Generator(np.random.PCG64(scene.seed))
        self.page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT})
        self.sprites = {name: self._sprite(*each) for name, each in scene.pointers.items()}
        colours = "".join(f"--{name}: {getattr(look, name)};" for name in ("page", "card", "ink", "accent", "line"))
        own = f":root {{ {colours} --font: '{look.font}'; --size: {look.size}px; --radius: {look.radius}px }}"
        rules = "".join(rule for is_on, rule in ((look.hovers, HOVERS), (look.presses, PRESSES), (look.ring, RING)) if is_on)
        self.page.set_content(f"<style>{own}{CSS}{rules}</style>{scene.html}<script>{SCRIPT}</script>")
        self.t, self.frame = 0.0, 0
        self.x, self.y = self.rng.uniform(200, 800), self.rng.uniform(150, 500)
        self.shape, self.over = "default", ""
        self.hidden, self.caret_since = False, None
        self.todo: list[tuple[float, Any]] = []
        self.log: list[dict[str, Any]] = []
        self.shots: dict[bool, np.ndarray] = {}
        self.fading: list[np.ndarray] = []
        self.video = av.open(str(path), "w")
        self.stream = self.video.add_stream(look.codec, rate=look.fps)
        self.stream.width, self.stream.height, self.stream.pix_fmt = WIDTH, HEIGHT, "yuv420p"
        self.stream.options = (
            {"crf": str(look.quality), "preset": "ultrafast"}
            if look.codec == "libx264"
            else {"crf": str(look.quality), "b": "0", "deadline": "realtime", "cpu-used": "8"}
            if look.codec.startswith("libvpx")
            else {"qmin": str(look.quality), "qmax": str(look.quality)}
        )
        self._moved()

    def _sprite(self, svg: str, x: float, y: float) -> tuple[np.ndarray, float, float]:
        size = round(24 * self.look.scale)
        self.page.set_content(
            f'<body style="margin:0"><svg width="{size}" height="{size}" viewBox="0 0 24 24">{svg}</svg>'
        )
        clip = {"x": 0, "y": 0, "width": size, "height": size}
        png = self.page.screenshot(omit_background=True, clip=clip)
        return _pixels(png, "rgba").astype(np.float32), x * self.look.scale, y * self.look.scale

    def _moved(self) -> None:
        over, shape = self.page.evaluate("([x, y]) => under(x, y)", [self.x, self.y])
        self.shape = shape if self.look.shapes and shape in self.sprites else "default"
        self.page.mouse.move(self.x, self.y)
        if over != self.over:
            self.over = over
            self.shots.clear()

    def shot(self) -> np.ndarray:
        """The page as it is, without a pointer."""
        lit = self.caret_since is not None and int((self.t - self.caret_since) / 0.5) % 2 == 0
        if lit not in self.shots:
            self.page.evaluate("on => caret(on)", lit)
            self.shots[lit] = _pixels(self.page.screenshot(caret="initial"))
        return self.shots[lit]

    def _filmed(self) -> np.ndarray:
        page = self.fading.pop(0) if self.fading else self.shot()
        found = page.copy()
        noise = self.scene.noise
        if noise == "spinner":
            y, x = np.mgrid[0:40, 0:40] - 20
            angle = (np.arctan2(y, x) / (2 * np.pi) + self.t) % 1
            inside = (np.hypot(x, y) < 18) & (np.hypot(x, y) > 11)
            found[300:340, 600:640][inside] = (255 * angle[inside])[:, None]
        if noise == "clock":
            found[14:30, 900:990] = 255
            for place, digit in enumerate(f"{int(self.t):04d}"):
                found[16 : 18 + int(digit), 910 + 18 * place : 922 + 18 * place] = 0
        if noise == "film":
            coarse = self.noisy.integers(0, 256, (9, 16, 3), dtype=np.uint8)
            found[200:380, 360:680] = coarse.repeat(20, 0).repeat(20, 1)
        if noise == "grain":
            found = np.clip(found + self.noisy.normal(0, 5, found.shape), 0, 255).astype(np.uint8)
        if not self.hidden:
            sprite, dx, dy = self.sprites[self.shape]
            top, left = round(self.y - dy), round(self.x - dx)
            y0, x0 = max(top, 0), max(left, 0)
            y1, x1 = min(top + len(sprite), HEIGHT), min(left + len(sprite), WIDTH)
            if y1 > y0 and x1 > x0:
                part = sprite[y0 - top : y1 - top, x0 - left : x1 - left]
                share = part[:, :, 3:] / 255
                found[y0:y1, x0:x1] = found[y0:y1, x0:x1] * (1 - share) + part[:, :, :3] * share
        return found

    def roll(self, seconds: float, path: Any = None) -> None:
        """Film so long; `path` maps the share of it to where the pointer is."""
        begun = self.t
        while self.t < begun + seconds:
            for due, action in sorted([each for each in self.todo if each[0] <= self.t], key=lambda each: each[0]):
                action()
                self.shots.clear()
            self.todo = [each for each in self.todo if each[0] > self.t]
            if path is not None:
                self.x, self.y = path(min((self.t - begun) / seconds, 1.0))
                self.hidden = False
                self._moved()
            image = av.VideoFrame.from_ndarray(self._filmed(), format="rgb24")
            for packet in self.stream.encode(image):
                self.video.mux(packet)
            self.frame += 1
            self.t = self.frame / self.look.fps

    def move(self, x: float, y: float) -> None:
        """Move the pointer as a hand does: fast at first, slow at the end, not quite straight."""
        x0, y0, bend = self.x, self.y, self.rng.uniform(-0.15, 0.15)
        distance = float(np.hypot(x - x0, y - y0))

        def path(share: float) -> tuple[float, float]:
            done = 1 - (1 - share) ** 3 if share < 1 else 1.0
            off = bend * np.sin(np.pi * done)
            return x0 + (x - x0) * done - (y - y0) * off, y0 + (y - y0) * done + (x - x0) * off

        self.roll((0.3 + distance / 1200 + self.rng.uniform(0, 0.3)) / self.look.speed, path)
        self.x, self.y = x, y
        self._moved()

    def _noted(self, **entry: Any) -> dict[str, Any]:
        self.log.append({"t": self.t, "x": self.x, "y": self.y, **entry})
        return self.log[-1]

    def click(self, kind: str, box: Sequence[float]) -> None:
        """Press and release; the page answers after a delay. Logged with whether the page changed in time."""
        entry = self._noted(kind="click", box=list(box), on=kind)
        before, delay = self.shot(), self.rng.choice(DELAYS)
        now = self.t

        def navigated() -> None:
            old = self.shot()
            self.page.evaluate("flush()")
            self.shots.clear()
            new = self.shot()
            if kind == "nav" and np.mean(_apart(old, new) > 24) > 0.01:
                self._noted(kind="page")
                steps = self.look.fade
                self.fading = [(old * (1 - (n + 1) / (steps + 1)) + new * ((n + 1) / (steps + 1))).astype(np.uint8) for n in range(steps)]

        def pressed() -> None:
            self.page.mouse.down()
            if kind == "field":
                self.caret_since = self.t

        self.todo += [(now, pressed), (now + 0.09, self.page.mouse.up), (now + max(0.09, delay), navigated)]
        changed, seen = False, before
        while self.t < now + VISIBLE:
            self.roll(1 / self.look.fps)
            if not changed and self.shot() is not seen:
                seen = self.shot()
                changed = bool((_apart(seen, before) > 30).sum() >= 12)
        entry |= {"visible": changed, "delay": delay}
        if kind != "field":
            self.caret_since = None

    def type(self, text: str) -> None:
        """Type into the focused field."""
        self.hidden = self.look.hides
        entry = self._noted(kind="type", text=text)
        for letter in text:
            self.todo.append((self.t, lambda letter=letter: self.page.keyboard.insert_text(letter)))
            self.caret_since = self.t
            self.roll(self.rng.uniform(0.06, 0.2) / self.look.speed)
        entry["end"] = self.t

    def scroll(self, amount: int) -> None:
        """Turn the wheel: several notches, each a frame or two."""
        entry = self._noted(kind="scroll", amount=amount)
        before = self.shot()
        for _ in range(4):
            self.page.mouse.wheel(0, amount / 4)
            self.page.wait_for_timeout(60)
            self.shots.clear()
            self.roll(1.2 / self.look.fps)
        self._moved()
        entry |= {"end": self.t, "visible": bool(np.any(before != self.shot()))}

    def act(self) -> None:
        """One thing that somebody may do here."""
        places = self.page.evaluate("places()")
        rng = self.rng
        kinds = {"nav": 2.5, "act": 3.0, "field": 4.0, "dead": 0.8}
        places = [each for each in places if not (each["kind"] == "field" and each["filled"])]
        present = sorted({each["kind"] for each in places})
        if self.page.evaluate("scrollable()") and rng.random() < 0.3:
            self.move(rng.uniform(420, 800), rng.uniform(250, 500))
            self.roll(0.3)
            self.scroll(rng.choice((160, 240, 320)))
            self.roll(rng.uniform(0.5, 0.9))
            return
        if not present:
            return
        kind = rng.choices(present, [kinds[each] for each in present])[0]
        place = rng.choice([each for each in places if each["kind"] == kind])
        x0, y0, x1, y1 = place["box"]
        x0, y0, x1, y1 = max(x0, 0), max(y0, 0), min(x1, WIDTH), min(y1, HEIGHT)
        width = min(x1 - x0, 420)
        self.move(x0 + width * rng.uniform(0.2, 0.8), y0 + (y1 - y0) * rng.uniform(0.25, 0.75))
        self.roll(rng.uniform(0.25, 0.6) / self.look.speed)
        self.click(kind, (x0, y0, x1, y1))
        if kind == "field":
            self.roll(rng.uniform(0.2, 0.5))
            words = [rng.choice(WORDS) for _ in range(rng.choice((1, 2, 2)))]
            text = " ".join(words) if rng.random() < 0.6 else f"{words[0]}{rng.randrange(10, 999)}"
            self.type(text.title() if rng.random() < 0.4 else text)
        self.roll(rng.uniform(0.5, 1.0) / self.look.speed)

    def wander(self) -> None:
        """Move without doing anything."""
        self.move(self.rng.uniform(60, 960), self.rng.uniform(60, 600))
        self.roll(self.rng.uniform(0.3, 1.2))

    def close(self) -> None:
        """End the file."""
        for packet in self.stream.encode():
            self.video.mux(packet)
        self.video.close()
        self.page.close()


def record(browser: Any, scene: Scene, folder: Path) -> tuple[Path, list[dict[str, Any]]]:
    """Film a scene; the video and its log, both of which are kept beside each other."""
    path = folder / f"{scene.name}.{'mp4' if scene.look.codec != 'libvpx-vp9' else 'webm'}"
    log = path.with_suffix(".json")
    if path.exists() and log.exists():
        return path, json.loads(log.read_text())
    film = _Film(browser, scene, path)
    film.roll(0.7)
    if scene.noise:
        while film.t < 15:
            film.wander() if scene.noise == "wandering" or film.rng.random() < 0.2 else film.roll(1.0)
    else:
        for _ in range(scene.actions):
            film.act()
        film.wander()
    film.close()
    log.write_text(json.dumps(film.log))
    return path, film.log
