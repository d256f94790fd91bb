"""Mouse pointers as polygons, drawn into frames."""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

__all__ = ["draw"]

Points = tuple[tuple[float, float], ...]
FINE = 8  # samples a pixel, in each direction
EDGE = 3  # pixels around a polygon for its outline

# Corners in pixels from the tip.
SHAPES: dict[str, Points] = {
    "arrow": ((0, 0), (0, 17), (4, 13.2), (6.8, 19.8), (9.6, 18.6), (6.8, 12.2), (12.2, 12.2)),
    "hand": (
        *(
            (-1.2, 0),
            (0, -0.8),
            (1.2, 0),
            (1.4, 7),
            (3.4, 6.2),
            (4.6, 7.4),
            (6.6, 6.8),
            (8, 8.2),
            (10, 7.8),
            (11.2, 9.4),
        ),
        *((11.2, 14), (9.4, 17.5), (9.4, 20.5), (1.2, 20.5), (0.4, 17.8), (-3.6, 13), (-5.2, 10.2), (-3.8, 9.2)),
        *((-1.6, 11),),
    ),
    "beam": (
        *((-3.5, -8.5), (-0.8, -8.5), (0, -7.9), (0.8, -8.5), (3.5, -8.5), (3.5, -7.3), (0.6, -6.8), (0.6, 6.8)),
        *((3.5, 7.3), (3.5, 8.5), (0.8, 8.5), (0, 7.9), (-0.8, 8.5), (-3.5, 8.5), (-3.5, 7.3), (-0.6, 6.8)),
        *((-0.6, -6.8), (-3.5, -7.3)),
    ),
}
# Size, fill, outline, whether its edges are smooth.
STYLES: dict[str, tuple[float, tuple[int, int, int], tuple[int, int, int], bool]] = {
    "black": (1.0, (0, 0, 0), (255, 255, 255), True),
    "white": (1.0, (255, 255, 255), (0, 0, 0), True),
    "large": (1.7, (255, 255, 255), (20, 20, 20), True),
    "yellow": (1.25, (250, 210, 40), (60, 40, 0), True),
    "jagged": (0.95, (255, 255, 255), (0, 0, 0), False),
}


def draw(frame: NDArray[np.uint8], style: str, shape: str, x: int, y: int) -> None:
    """Draw the pointer into `frame`, (height, width, 3), with its tip at pixel (x, y)."""
    colour, alpha, left, top = _sprite(style, shape)
    height, width = alpha.shape[:2]
    x0, y0 = x + left, y + top
    inside = (slice(max(y0, 0), max(y0 + height, 0)), slice(max(x0, 0), max(x0 + width, 0)))
    part = frame[inside]
    cut = (slice(max(-y0, 0), max(-y0, 0) + part.shape[0]), slice(max(-x0, 0), max(-x0, 0) + part.shape[1]))
    part[:] = np.rint(part * (1 - alpha[cut]) + colour[cut] * alpha[cut]).astype(np.uint8)


@cache
def _sprite(style: str, shape: str) -> tuple[NDArray[np.float64], NDArray[np.float64], int, int]:
    """Return colour (h, w, 3), alpha (h, w, 1) from 0 to 1, and where the first pixel is from the tip."""
    size, fill, outline, smooth = STYLES[style]
    corners = np.array(SHAPES[shape]) * size
    left, top = np.floor(corners.min(axis=0)).astype(int) - EDGE
    right, bottom = np.ceil(corners.max(axis=0)).astype(int) + EDGE
    inner = _inside(corners, (left, top, right, bottom))
    radius = round(FINE * size)
    turns = np.linspace(0, 2 * np.pi, 16, endpoint=False)
    moved = [np.roll(inner, (round(radius * np.sin(t)), round(radius * np.cos(t))), (0, 1)) for t in turns]
    outer = np.any([inner, *moved], axis=0)
    inner_alpha, alpha = _shrunk(inner), _shrunk(outer)
    if not smooth:
        inner_alpha, alpha = np.rint(inner_alpha), np.rint(alpha)
    share = (inner_alpha / np.maximum(alpha, 1e-9))[..., None]
    return np.array(fill) * share + np.array(outline) * (1 - share), alpha[..., None], int(left), int(top)


def _inside(corners: NDArray[np.float64], area: tuple[int, int, int, int]) -> NDArray[np.bool_]:
    """Return which samples are inside the polygon, by the even-odd rule."""
    left, top, right, bottom = area
    xs = left + (np.arange((right - left) * FINE) + 0.5) / FINE
    ys = (top + (np.arange((bottom - top) * FINE) + 0.5) / FINE)[:, None]
    inside = np.zeros((len(ys), len(xs)), dtype=bool)
    for (x0, y0), (x1, y1) in zip(corners, np.roll(corners, -1, axis=0), strict=True):
        if y0 != y1:
            inside ^= ((y0 > ys) != (y1 > ys)) & (xs < x0 + (ys - y0) * (x1 - x0) / (y1 - y0))
    return inside


def _shrunk(samples: NDArray[np.bool_]) -> NDArray[np.float64]:
    height, width = samples.shape
    shares: NDArray[np.float64] = samples.reshape(height // FINE, FINE, width // FINE, FINE).mean(axis=(1, 3))
    return shares
