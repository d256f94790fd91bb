"""A matrix in bfloat16, multiplied by torch's oneDNN. Independent of models."""

from __future__ import annotations

import numpy as np

from gce.adapters.models.local.token_sampling import Array
from gce.errors import MissingExtra

try:
    import torch
except ImportError as error:
    raise MissingExtra("torch", "hf") from error

__all__ = ["Bfloat16Matrix", "one_torch_thread"]


class Bfloat16Matrix:
    """Stands to the right of a float32 array, `x @ matrix`, which is rounded to bfloat16; the product is float32."""

    __array_ufunc__ = None  # numpy leaves the product to this class.

    def __init__(self, matrix: Array) -> None:
        """Round `matrix`, (inputs, outputs)."""
        self._rows = torch.from_numpy(np.ascontiguousarray(matrix.T)).bfloat16()

    def __rmatmul__(self, x: Array) -> Array:
        with torch.inference_mode():
            product: Array = torch.nn.functional.linear(torch.from_numpy(x).bfloat16(), self._rows).float().numpy()
        return product


def one_torch_thread() -> None:
    """Let torch use one thread when this thread calls it: whole sequences are spread over threads, reproducibly."""
    torch.set_num_threads(1)
