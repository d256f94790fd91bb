"""Layouts, themes and pointers of recordings that the detector of `gce workflow` was never shown while it was written."""

from __future__ import annotations

import random


from benchmarks.recordings import NOISES, WORDS, Look, Scene, view

__all__ = ["scenes"]


def _some(rng: random.Random, least: int, most: int) -> str:
    words = [rng.choice(WORDS) for _ in range(rng.randint(least, most))]
    return " ".join(words).capitalize()


def _shop(rng: random.Random) -> str:
    def shelf(target: str) -> str:
        tiles = "".join(
            f'<div class="tile" data-toggle><b>{_some(rng, 1, 2)}</b><p>{_some(rng, 4, 9)}</p>{rng.randint(3, 99)} EUR</div>'
            for _ in range(6)
        )
        grid = f'<div style="display:grid;grid-template-columns:repeat(3,1fr);gap:16px">{tiles}</div>'
        return f'<h1 data-dead>{_some(rng, 2, 3)}</h1>{grid}<br><button data-nav="{target}">{_some(rng, 1, 1)}</button>'

    top = '<div class="bar"><b>Market</b><input type="text" style="margin:0;width:240px"><button data-count="basket">Buy</button><span id="basket">0</span></div>'
    return top + view("a", shelf("b"), True) + view("b", shelf("a"))


def _mail(rng: random.Random) -> str:
    names = "".join(f'<div class="row" data-nav="{to}">{name}</div>' for to, name in (("a", "Write"), ("b", "Sent"), ("c", "Help")))
    write = (
        f'<label>To<input type="text" style="width:420px"></label><label>Subject<input type="text" style="width:420px"></label>'
        f'<textarea style="width:420px;height:150px"></textarea><span class="box" data-toggle></span>{_some(rng, 3, 4)}'
    )
    sent = "".join(f'<div class="row" data-toggle><b>{_some(rng, 1, 1)}</b> {_some(rng, 5, 9)}</div>' for _ in range(18))
    help_ = "".join(f"<h3>{_some(rng, 2, 4)}</h3><p>{_some(rng, 30, 50)}</p>" for _ in range(4))
    return f'<div class="cols"><div class="side" style="width:150px">{names}</div>{view("a", write, True)}{view("b", sent)}{view("c", help_)}</div>'


def _wizard(rng: random.Random) -> str:
    def step(own: str, after: str, shown: bool = False) -> str:
        fields = "".join(f'<label>{_some(rng, 2, 3)}<input type="text"></label>' for _ in range(2))
        options = "".join(f'<span class="chip" data-toggle style="margin-right:12px">{_some(rng, 1, 2)}</span>' for _ in range(3))
        side = f'<div style="float:right;width:380px" class="card"><h2>{_some(rng, 2, 4)}</h2><p>{_some(rng, 40, 60)}</p></div>'
        style = ".chip.on{background:var(--accent)}"
        return view(own, f'<style>{style}</style>{side}<h2 data-dead>{_some(rng, 2, 3)}</h2>{fields}{options}<p></p><button data-nav="{after}">Next</button>', shown)

    return step("a", "b", True) + step("b", "c") + step("c", "a")


def _table(rng: random.Random) -> str:
    def page() -> str:
        rows = "".join(
            f'<tr><td><span class="box" data-toggle></span></td>{"".join(f"<td>{_some(rng, 1, 2)}</td>" for _ in range(4))}<td>{rng.randint(10, 9999)}</td></tr>'
            for _ in range(16)
        )
        return f'<table cellpadding="7" style="border-collapse:collapse;width:100%">{rows}</table>'

    pages = '<div class="bar"><b data-dead>Records</b><input type="text" style="margin:0;width:200px"><span class="link" data-nav="a">1</span><span class="link" data-nav="b">2</span><span class="link" data-nav="c">3</span></div>'
    return pages + view("a", page(), True) + view("b", page()) + view("c", page())


def _faq(rng: random.Random) -> str:
    questions = "".join(
        f'<div class="card"><div class="link" data-show="q{n}">{_some(rng, 4, 6)}</div><p class="hidden" id="q{n}">{_some(rng, 12, 24)}</p></div>'
        for n in range(12)
    )
    ask = f'<h2 data-dead>{_some(rng, 2, 3)}</h2><input type="text" style="width:520px"><p>{_some(rng, 30, 60)}</p><p>{_some(rng, 30, 60)}</p><button data-nav="a">Back</button>'
    return view("a", f'<button data-nav="b">Ask</button><p></p>{questions}', True) + view("b", ask)


LAYOUTS = {"shop": _shop, "mail": _mail, "wizard": _wizard, "table": _table, "faq": _faq}
_POINTED = '<path d="M3 2 L3 20 L8 16 L16 16 Z" fill="{}" stroke="{}" stroke-width="1.8" stroke-linejoin="round"/>'
_GLOVE = (
    '<path d="M9 1.5 h3 v8 l7 1.5 v6 l-2 5.5 h-8 l-5.5 -7 l2 -2 l3.5 2.5 Z" fill="{}" stroke="{}" stroke-width="1.5" '
    'stroke-linejoin="round"/>'
)
_I = '<path d="M8 3 h8 M12 3 v18 M8 21 h8" stroke="{}" stroke-width="2" fill="none"/>'
_CROSS = '<path d="M12 2 v20 M2 12 h20" stroke="{}" stroke-width="2.4"/>'
POINTERS = {
    "white": {"default": (_POINTED.format("white", "#222"), 3, 2), "pointer": (_GLOVE.format("white", "#222"), 10.5, 1.5), "text": (_I.format("#777"), 12, 12)},
    "black": {"default": (_POINTED.format("#111", "white"), 3, 2), "pointer": (_GLOVE.format("#111", "white"), 10.5, 1.5), "text": (_I.format("#888"), 12, 12)},
    "yellow": {"default": (_POINTED.format("#ffd400", "#333"), 3, 2)},
    "cross": {"default": (_CROSS.format("#d3302f"), 12, 12), "text": (_I.format("#888"), 12, 12)},
}
LOOKS = (
    Look(page="#fafafa", card="#e9eef2", ink="#102a43", accent="#d64545", line="#9fb3c8", font="Liberation Serif", size=16, radius=3, pointer="white", quality=25),
    Look(page="#0b1f2a", card="#13313f", ink="#d9f0f7", accent="#32c5d2", line="#2d6a80", font="DejaVu Sans", size=14, radius=10, pointer="black", fps=15, quality=30, speed=1.3),
    Look(page="#fff8f8", card="#ffecec", ink="#4a1c1c", accent="#c2185b", line="#e0a5a5", font="Liberation Sans", size=18, radius=20, pointer="yellow", scale=1.5, fps=10, shapes=False, presses=False),
    Look(page="#f2f5ef", card="#dfe8d6", ink="#1f3310", accent="#33691e", line="#8aa675", font="Liberation Sans Narrow", size=17, radius=0, pointer="white", scale=1.25, hovers=False, fade=3, hides=True),
    Look(page="#ffffff", card="#ffffff", ink="#000000", accent="#000000", line="#000000", font="DejaVu Sans Mono", size=13, radius=0, pointer="black", quality=20, codec="libvpx-vp9", ring=False),
    Look(page="#1d1b2e", card="#2b2840", ink="#f1eefc", accent="#b388ff", line="#56507a", font="DejaVu Serif", size=15, radius=8, pointer="cross", fps=12, quality=27, speed=0.8),
    Look(page="#e8eaed", card="#fdfdfd", ink="#202124", accent="#1a73e8", line="#bdc1c6", font="DejaVu Sans", size=15, radius=4, pointer="white", codec="mpeg4", quality=5, hides=True),
)  # fmt: skip


def scenes() -> list[Scene]:
    """35 recordings and 6 of noise."""
    found = []
    for n in range(35):
        layout, look, rng = list(LAYOUTS)[n % 5], LOOKS[n % 7], random.Random(1000 + n)
        found.append(Scene(f"{n:02d}-{layout}", layout, look, 1000 + n, LAYOUTS[layout](rng), pointers=POINTERS[look.pointer]))
    for n, noise in enumerate(NOISES):
        layout, look, rng = list(LAYOUTS)[n % 5], LOOKS[(2 * n) % 7], random.Random(2000 + n)
        found.append(Scene(f"noise-{noise}", layout, look, 2000 + n, LAYOUTS[layout](rng), noise=noise, pointers=POINTERS[look.pointer]))
    return found
