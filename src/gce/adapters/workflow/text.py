"""Text in pictures, by RapidOCR (Apache-2.0), whose package brings its models: nothing is loaded from elsewhere."""

from __future__ import annotations

import logging
from functools import cache
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gce.domain.text import printable
from gce.errors import MissingExtra

__all__ = ["line_text"]

MOST_TEXT = 500
"""Characters of a line."""


@cache
def _reader() -> Any:
    if find_spec("rapidocr") is None or find_spec("onnxruntime") is None:
        raise MissingExtra("rapidocr", "workflow")
    from rapidocr import RapidOCR

    logging.getLogger("RapidOCR").setLevel(logging.ERROR)
    settings = {"Global.log_level": "error", "EngineConfig.onnxruntime.intra_op_num_threads": 2}
    return RapidOCR(params=settings)


def line_text(picture: NDArray[np.uint8]) -> str:
    """The text of one line, (height, width, 3); empty where nothing is read.

    Raises:
        MissingExtra: RapidOCR is not installed.
    """
    found = _reader()(picture, use_det=False, use_cls=False, use_rec=True)
    return printable("".join(found.txts or ()).strip())[:MOST_TEXT]
