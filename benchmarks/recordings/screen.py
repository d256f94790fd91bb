"""A page in headless Chromium whose time moves by command alone, and the video of it."""

from __future__ import annotations

import base64
import json
import mimetypes
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
from numpy.typing import NDArray

from benchmarks.recordings.layout import Take

__all__ = ["FPS", "SIZE", "Image", "Screen", "opened", "written"]

Image = NDArray[np.uint8]
SIZE = (1280, 720)
FPS = 15
PLACE = "http://recording.invalid/"
HELPER = Path(__file__).with_name("page.js")
JAGGED = {"FONTCONFIG_FILE": str(HELPER.with_name("jagged.conf"))}


class Screen:
    """One page. Seconds are given to `frame`; nothing moves between two calls of it."""

    def __init__(self, page: Any) -> None:
        self._page = page
        self._tools = page.context.new_cdp_session(page)
        self._tools.send("Animation.enable")
        self._tools.send("Animation.setPlaybackRate", {"playbackRate": 0})
        self.mouse, self.keyboard, self.open = page.mouse, page.keyboard, page.goto

    def call(self, name: str, *arguments: Any) -> Any:
        """Return what a function of `window.recorder` returns: see page.js."""
        return self._page.evaluate(f"recorder.{name}({', '.join(map(json.dumps, arguments))})")

    @property
    def url(self) -> str:
        """The address of the page."""
        return str(self._page.url)

    def shot(self) -> Image:
        """Return the page as it is, without a pointer."""
        data = self._tools.send("Page.captureScreenshot", {"format": "png", "optimizeForSpeed": True})["data"]
        frames = av.CodecContext.create("png", "r").decode(av.Packet(base64.b64decode(data)))
        picture: Image = frames[0].to_ndarray(format="rgb24").astype(np.uint8, copy=False)
        return picture


@contextmanager
def opened(take: Take) -> Iterator[Screen]:
    """Start Chromium and open the first page of the take; nothing comes from a network.

    Raises:
        RuntimeError: there is no Chromium, or a page has an error.
    """
    from playwright.sync_api import sync_playwright

    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        raise RuntimeError("Chromium is not installed: apt-get install chromium")
    args = ["--no-sandbox", "--force-color-profile=srgb"]
    env: dict[str, str | float | bool] = {**os.environ, **({} if take.theme.antialiasing else JAGGED)}
    errors: list[str] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=args, env=env)
        context = browser.new_context(viewport={"width": SIZE[0], "height": SIZE[1]}, locale="en-GB", timezone_id="UTC")
        context.add_init_script(path=HELPER)
        context.route("**/*", lambda route: _serve(route, take))
        page = context.new_page()
        page.on("pageerror", lambda error: errors.append(str(error)))
        screen = Screen(page)
        screen.open(PLACE + take.script.page)
        yield screen
        browser.close()
    if errors:
        raise RuntimeError(f"{take.name}: {errors[0]}")


def _serve(route: Any, take: Take) -> None:
    name = route.request.url.removeprefix(PLACE).partition("?")[0]
    if name == "theme.css":
        route.fulfill(body=take.theme.css, content_type="text/css")
    elif (path := take.layout.folder / name).is_file():
        route.fulfill(body=path.read_bytes(), content_type=mimetypes.guess_type(name)[0] or "application/octet-stream")
    else:
        route.fulfill(status=404, body="")


class Video:
    """Frames on their way into an H.264 file."""

    def __init__(self, container: Any, crf: int) -> None:
        self._container = container
        self._stream = container.add_stream("libx264", rate=Fraction(FPS))
        self._stream.width, self._stream.height = SIZE
        self._stream.pix_fmt = "yuv420p"
        self._stream.options = {"crf": str(crf), "preset": "veryfast"}
        self._stream.thread_count = 1

    def add(self, frame: Image | None) -> None:
        """Append a frame; None ends the video."""
        picture = None if frame is None else av.VideoFrame.from_ndarray(frame, format="rgb24")
        self._container.mux(self._stream.encode(picture))


@contextmanager
def written(path: Path, crf: int) -> Iterator[Video]:
    """Write a video; it is whole when the block ends."""
    with av.open(str(path), "w") as container:
        video = Video(container, crf)
        yield video
        video.add(None)
