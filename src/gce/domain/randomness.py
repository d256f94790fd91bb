"""Random numbers keyed by name, such as (run seed, purpose, iteration, problem, sample).

No generator is passed around or shared. The same name gives the same draw in any order, in any process and under any
PYTHONHASHSEED. This module does not know what the draws are used for.
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
    """Return the integer in [0, 2**63) that belongs to a name; different parts give different integers.

    Each part is encoded with its type and length, so no two lists of parts share an encoding: ("ab", "c") is not ("a",
    "bc"), and "1" is not 1. Two names collide only if the first 63 bits of their BLAKE2b hashes are equal: the
    probability among a million names is about 1 in 18 million.

    Raises:
        TypeError: a part that is neither text nor an integer.
    """
    return int.from_bytes(_digest(parts, 8), "big") >> 1


def generator(*parts: str | int) -> np.random.Generator:
    """Return the numpy generator (Philox, which is counter-based) that belongs to a name.

    Philox's bit stream is fixed. What `Generator`'s methods make of it may change between numpy's feature releases (NEP
    19), so a reproducible run records numpy's version.
    """
    import numpy as np

    return np.random.Generator(np.random.Philox(key=int.from_bytes(_digest(parts, 16), "big")))


def python_generator(*parts: str | int) -> random.Random:
    """Return the standard library's generator that belongs to a name: cheap to make, for a few draws."""
    return random.Random(key(*parts))


def _digest(parts: tuple[str | int, ...], size: int) -> bytes:
    # BLAKE2b mixes the digest size into the hash, so a key reveals nothing about the generator of the same name.
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
