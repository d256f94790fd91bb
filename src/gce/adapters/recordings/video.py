"""Pictures of a video file, by PyAV. The file is decoded by FFmpeg in this process: bounded, but not in a sandbox.

Formats are listed, so that no playlist opens other files or addresses.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from attrs import frozen

from gce.adapters.system.input_files import open_input
from gce.errors import BadInput, MissingExtra, one_line

__all__ = ["MOST_SECONDS", "Video", "jpeg"]

MOST_BYTES = 2**31
MOST_PIXELS = 4096 * 2304
"""Of one picture."""
MOST_SECONDS = 1800.0
MOST_RATE = 120
"""Pictures a second that are decoded; above it the file is refused."""
TAKEN = 15.0
"""Pictures a second that are looked at."""
WIDEST = 1280
"""Pixels that a picture is scaled down to."""
FORMATS = "mov,matroska,avi,mpegts,gif,ogg"


@frozen
class Video:
    """A file."""

    path: Path

    def greys(self) -> Iterator[tuple[float, np.ndarray]]:
        """Grey pictures with their times in seconds, all of one size.

        Raises:
            BadInput: it is no video that can be read, or exceeds a bound.
        """
        last = -1.0
        for time, frame in self._frames():
            if time - last >= 0.9 / TAKEN:
                last = time
                width, height = _scaled(frame.width, frame.height)
                yield time, frame.reformat(width, height, "gray").to_ndarray()

    def pictures(self, times: Iterable[float]) -> Iterator[np.ndarray]:
        """For each time, in order, the last coloured picture until then, of the same size as the grey ones."""
        wanted = iter(sorted(times))
        due = next(wanted, None)
        last: Any = None
        for time, frame in self._frames():
            while due is not None and last is not None and time > due:
                yield _coloured(last)
                due = next(wanted, None)
            if due is None:
                return
            last = frame
        while due is not None and last is not None:
            yield _coloured(last)
            due = next(wanted, None)

    def _frames(self) -> Iterator[tuple[float, Any]]:
        try:
            import av
        except ImportError as error:
            raise MissingExtra("av", "video") from error
        with open_input(self.path, MOST_BYTES) as file:
            count, size = 0, (0, 0)
            try:
                with av.open(file, options={"format_whitelist": FORMATS}) as container:
                    if not container.streams.video:
                        raise BadInput(f"{self.path}: expected a video, found a file without pictures")
                    stream = container.streams.video[0]
                    self._held(stream.width * stream.height, float((container.duration or 0) / 1e6))
                    stream.codec_context.options = {"max_pixels": str(MOST_PIXELS)}
                    stream.thread_type = "AUTO"
                    first: float | None = None
                    for frame in container.decode(stream):
                        own = float(frame.time or 0.0)
                        first = own if first is None else first
                        time = own - first
                        count += 1
                        size = size if count > 1 else (frame.width, frame.height)
                        if (frame.width, frame.height) != size:
                            raise BadInput(f"{self.path}: expected pictures of one size, got {frame.width}x{frame.height}")
                        self._held(frame.width * frame.height, max(time, count / MOST_RATE))
                        yield time, frame
            except av.error.FFmpegError as error:
                said = one_line(error.strerror or error)
                raise BadInput(f"cannot read {self.path} as a video: {said}: expected MP4, WebM, MKV, AVI, GIF") from error
            if not count:
                raise BadInput(f"{self.path}: expected a video, found no picture in it")

    def _held(self, pixels: int, seconds: float) -> None:
        if pixels > MOST_PIXELS:
            raise BadInput(f"{self.path} has pictures of {pixels:,} pixels: expected at most {MOST_PIXELS:,}")
        if seconds > MOST_SECONDS:
            raise BadInput(f"{self.path} has more than {MOST_SECONDS:g} seconds, or {MOST_RATE} pictures a second")


def _scaled(width: int, height: int) -> tuple[int, int]:
    share = min(1.0, WIDEST / width)
    return max(round(width * share), 8), max(round(height * share), 8)


def _coloured(frame: Any) -> np.ndarray:
    width, height = _scaled(frame.width, frame.height)
    found: np.ndarray = frame.reformat(width, height, "rgb24").to_ndarray()
    return found


def jpeg(picture: np.ndarray, *, width: int = 480) -> bytes:
    """A coloured picture as a JPEG file of at most this width."""
    import av

    target = BytesIO()
    with av.open(target, "w", format="mjpeg") as container:
        stream: Any = container.add_stream("mjpeg", rate=1)
        share = min(1.0, width / picture.shape[1])
        stream.width, stream.height = (2 * max(round(side * share / 2), 1) for side in picture.shape[1::-1])
        stream.pix_fmt = "yuvj420p"
        frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(picture), format="rgb24")
        container.mux(stream.encode(frame.reformat(stream.width, stream.height, "yuvj420p")))
        container.mux(stream.encode())
    return target.getvalue()
