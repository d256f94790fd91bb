"""Generated responses by the thousand: the verifier against two independent checkers behind an independent reader."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import islice
from typing import Any

import pytest
from attrs import evolve

from gce.domain.tasks.scheduling.verify import verify
from gce.domain.verdicts import Verdict
from gce.testing.scheduling.checkers import faults, read, sweep_accepts
from gce.testing.scheduling.responses import ALWAYS_RIGHT, ALWAYS_WRONG, KINDS, draw_responses


def tried(verifier: Any, seed: int, count: Any) -> Any:
    """How many responses of each kind were right and wrong, and how many errors of each sort the verifier made."""
    found: Counter[Any] = Counter()
    for response in draw_responses(seed, count):
        entries = read(response.text)
        walked = swept = False
        if entries is not None and sorted(label for label, _ in entries) == sorted(response.instance.labels):
            walked = not faults(response.instance, dict(entries))
            swept = sweep_accepts(response.instance, dict(entries))
        said = verifier(response.instance, response.text).right
        found[response.kind, walked] += 1
        found["false accepts"] += said and not (walked and swept)
        found["false rejects"] += not said and (walked or swept)
        found["checkers disagree"] += walked != swept
    return +found


def errors(found: Any) -> dict[Any, Any]:
    return {sort: found[sort] for sort in ("false accepts", "false rejects", "checkers disagree") if found[sort]}


def assert_both_sides_of_the_border_were_tried(found: Any, least: Any) -> None:
    for kind in KINDS:
        assert (found[kind, True] >= least) == (kind not in ALWAYS_WRONG), (kind, found)
        assert (found[kind, False] >= least) == (kind not in ALWAYS_RIGHT), (kind, found)


@pytest.mark.slow
def test_on_20_000_responses_the_verifier_and_two_independent_checkers_agree() -> None:
    found = tried(verify, 0, 20_000)
    assert errors(found) == {}
    assert_both_sides_of_the_border_were_tried(found, 1)


@pytest.mark.slow
def test_on_a_million_responses_the_verifier_and_two_independent_checkers_agree() -> None:
    found = tried(verify, 1, 1_000_000)
    assert errors(found) == {}
    assert_both_sides_of_the_border_were_tried(found, 20)


def test_the_same_seed_draws_the_same_responses() -> None:
    assert list(draw_responses(5, 200)) == list(draw_responses(5, 200)) == list(islice(draw_responses(5, 400), 200))
    assert list(draw_responses(5, 200)) != list(draw_responses(6, 200))


def without(family: str) -> Any:
    return lambda instance, text: verify(instance.without(family), text)


def later(instance: Any, text: Any) -> Any:
    """Every bound is an hour too late."""
    horizon = None if instance.horizon is None else instance.horizon + 1
    jobs = [evolve(job, deadline=None if job.deadline is None else job.deadline + 1) for job in instance.jobs]
    return verify(evolve(instance, jobs=jobs, horizon=horizon), text)


def crowded(instance: Any, text: Any) -> Any:
    """A job holds its resources in its last hour no more."""
    jobs = [evolve(job, duration=max(0, job.duration - 1)) for job in instance.jobs]
    verdict = verify(evolve(instance, jobs=jobs), text)
    return verdict if verify(instance.without("resources"), text).right else Verdict("wrong", 0.0, "rcpsp", "1")


FAULTY = {
    "no sequence": (without("sequencing"), "false accepts"),
    "no resources": (without("resources"), "false accepts"),
    "no deadlines": (without("deadlines"), "false accepts"),
    "an hour too late": (later, "false accepts"),
    "resources free too soon": (crowded, "false accepts"),
    "a full stop forgiven": (lambda i, text: verify(i, text.rstrip(".")), "false accepts"),
    "the last line alone": (lambda i, text: verify(i, text.rstrip().rpartition("\n")[2]), "false accepts"),
    "reasoning refused": (lambda i, text: verify(i, "Answer: " if "\n" in text.strip() else text), "false rejects"),
    "late starts refused": (
        lambda i, text: verify(i, "") if "10" in text else verify(i, text),
        "false rejects",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize(("verifier", "sort"), FAULTY.values(), ids=FAULTY)
def test_a_fault_in_the_verifier_is_found(verifier: Callable[..., Any], sort: str) -> None:
    assert set(errors(tried(verifier, 2, 1_500))) == {sort}
