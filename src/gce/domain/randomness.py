"""Random numbers by name: a draw is keyed by what it is for, such as (run seed, purpose, iteration, problem, sample).

There is no generator to carry along and none to share: whoever knows the name of a draw can make it again, in any
order, in any process, under any PYTHONHASHSEED. Knows nothing of what the draws are used for.
"""

from __future__ import annotations

import operator
import random
from hashlib import blake2b
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

__all__ = ["generator", "key", "python_generator"]


def key(*parts: str | int) -> int:
    """A whole number in [0, 2**63) that names a draw; other parts, another number.

    The parts are written one after another, each with its kind and its length, so that no two lists of parts share
    an encoding: ("ab", "c") is not ("a", "bc"), and "1" is not 1. Two names fall together only where BLAKE2b's first
    63 bits do: the chance among a million draws is about 1 in 18 million.

    Raises:
        TypeError: a part that is neither text nor a whole number.
    """
    return int.from_bytes(_digest(parts, 8), "big") >> 1


def generator(*parts: str | int) -> np.random.Generator:
    """A numpy generator (Philox, a counter-based one) of its own for this name.

    Philox's bits are fixed for ever; what `Generator`'s methods make of them may change between numpy's feature
    releases (NEP 19), so a run that must repeat records numpy's version.
    """
    import numpy as np

    return np.random.Generator(np.random.Philox(key=int.from_bytes(_digest(parts, 16), "big")))


def python_generator(*parts: str | int) -> random.Random:
    """A generator of the standard library's kind for this name: cheap to make, for a handful of draws."""
    return random.Random(key(*parts))


def _digest(parts: tuple[str | int, ...], size: int) -> bytes:
    # Each size is a hash of its own (BLAKE2b mixes it in), so no key tells anything of the generator of that name.
    digest = blake2b(digest_size=size)
    for part in parts:
        if isinstance(part, str):
            kind, written = b"s", part.encode("utf-8", "surrogatepass")
        else:
            kind, written = b"i", _hexadecimal(part)
        digest.update(b"%s%d:%s" % (kind, len(written), written))
    return digest.digest()


def _hexadecimal(part: int) -> bytes:
    try:
        return b"%x" % operator.index(part)
    except TypeError:
        raise TypeError(f"expected text or a whole number as part of a random key, got {part!r}") from None
