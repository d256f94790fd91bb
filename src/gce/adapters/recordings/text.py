"""Text in a small picture, by RapidOCR with the models that its package brings: nothing is fetched."""

from __future__ import annotations

import logging
from collections.abc import Callable
from importlib.util import find_spec

import numpy as np

__all__ = ["text_reader"]

MOST = 200
"""Characters of one line."""


def text_reader() -> Callable[[np.ndarray], tuple[str, float]] | None:
    """What reads one line of text and says how sure it is, from 0 to 1; None where the extra is not installed."""
    if find_spec("rapidocr") is None or find_spec("onnxruntime") is None:
        return None
    from rapidocr import RapidOCR

    logging.getLogger("RapidOCR").setLevel(logging.ERROR)
    options = {"Global.log_level": "error", "EngineConfig.onnxruntime.intra_op_num_threads": 2}
    engine = RapidOCR(params=options)

    def read(picture: np.ndarray) -> tuple[str, float]:
        found = engine(picture[:, :, ::-1], use_det=False, use_cls=False, use_rec=True)
        if not found or not found.txts:
            return "", 0.0
        return " ".join("".join(c if c.isprintable() else " " for c in found.txts[0]).split())[:MOST], float(found.scores[0])

    return read
