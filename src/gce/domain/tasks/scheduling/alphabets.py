"""Alphabets of job labels, of 26 labels each, and instances with their jobs renamed.

Problems are drawn with the labels of `UPPER`, or with one of them and a number; a task with another alphabet renames
them, so that only labels differ.
"""

from __future__ import annotations

import string
from collections.abc import Mapping

from attrs import evolve

from gce.domain.tasks.scheduling.instance import Instance

__all__ = ["CODE_WORDS", "LOWER", "UPPER", "relabelled"]

UPPER = tuple(string.ascii_uppercase)
LOWER = tuple(string.ascii_lowercase)
CODE_WORDS = (
    *("alpha", "bravo", "charlie", "delta", "echo", "foxtrot", "golf", "hotel", "india", "juliet", "kilo", "lima"),
    *("mike", "november", "oscar", "papa", "quebec", "romeo", "sierra", "tango", "uniform", "victor", "whiskey"),
    *("xray", "yankee", "zulu"),
)
"""The words of the radiotelephony spelling alphabet, in lower case: several letters each, in the order of `UPPER`."""


def relabelled(instance: Instance, mapping: Mapping[str, str]) -> Instance:
    """Return the instance with every job renamed, in the same order.

    Raises:
        ValueError: a job has no new label, two jobs get the same one, or a new label is not ASCII letters and digits.
    """
    missing = [label for label in instance.labels if label not in mapping]
    if missing:
        raise ValueError(f"expected a new label for every job, got none for {', '.join(missing)}")
    jobs = (evolve(job, label=mapping[job.label]) for job in instance.jobs)
    edges = ((mapping[before], mapping[after]) for before, after in instance.precedence)
    return Instance(jobs, edges, instance.resources, instance.horizon)
