"""Object stores of a Ray cluster that are full for a while, as is the disk that they spill to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np
import ray
from ray.exceptions import OutOfDiskError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

__all__ = ["NOTHING_SPILLED", "full_store"]

NOTHING_SPILLED: dict[str, Any] = {
    "_system_config": {"automatic_object_spilling_enabled": False, "local_fs_capacity_threshold": 1e-6}
}
"""Of a head node: Ray takes every disk for full, so that an object store that is full refuses objects."""


class _Filler:
    def fill(self) -> None:
        """Hold objects, down to small ones, until no more fit."""
        self._held = []
        for size in (1 << 20, 1 << 16, 1 << 12):
            with suppress(OutOfDiskError):
                while True:
                    self._held.append(ray.put(np.zeros(size, np.uint8)))

    def empty(self) -> None:
        self._held.clear()


@contextmanager
def full_store(node: Any) -> Iterator[None]:
    """Between `with` and its end, nothing more fits into the object store of a node of a `Cluster`."""
    there = NodeAffinitySchedulingStrategy(node.node_id, soft=False)
    filler: Any = ray.remote(_Filler).options(num_cpus=0, scheduling_strategy=there).remote()
    ray.get(filler.fill.remote())
    yield
    ray.get(filler.empty.remote())
    ray.kill(filler)
