"""From a judged answer to the buffer, through the public functions alone."""

from __future__ import annotations

from hashlib import blake2b

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

import gce
from gce.app.evaluation import Judged
from gce.app.loop import _trace
from gce.domain.traces import trace_digest

TASK = gce.TASKS["scheduling"]
PROBLEM = gce.draw_problem(TASK, "grounded", "T0", "train", 0)
RIGHT = TASK.worked(PROBLEM, None)


def test_a_right_answer_goes_from_its_verdict_into_the_buffer():
    verdict = gce.judge(PROBLEM, RIGHT)
    assert verdict.right
    trace = gce.trace_of(PROBLEM, RIGHT, verdict)
    assert (trace.problem, trace.tier, trace.iteration) == (PROBLEM.key, "T0", 0)
    assert trace.messages == PROBLEM.prompt
    assert (trace.completion.text, trace.completion.key, trace.verdicts) == (RIGHT, trace.key, (verdict,))
    buffer = gce.admit(gce.empty(), [trace, gce.trace_of(PROBLEM, f" {RIGHT}\n\n", verdict)])
    assert list(buffer) == [trace], "the same up to whitespace teaches the same"


def test_it_is_what_the_loop_makes_of_an_answer():
    completion = gce.Completion("3/key/1", RIGHT, "stop", policy="p", token_ids=(1, 2))
    verdicts = TASK.judge(PROBLEM, completion)
    trace = gce.trace_of(PROBLEM, completion, verdicts, iteration=3)
    assert trace == _trace(Judged(PROBLEM, completion, verdicts, True), 3)
    assert (trace.key, trace.iteration, trace.completion) == ("3/key/1", 3, completion)
    assert gce.trace_of(PROBLEM, completion, verdicts, key="mine").key == "mine"
    assert gce.trace_of(PROBLEM, completion, verdicts, key="mine").completion.key == "3/key/1"


@pytest.mark.parametrize(
    ("digest", "text", "found"),
    [
        ("00ff", "Answer: A 0", "f4002ca964aa496d57a5e3e3f44fb3a7"),
        ("00ff", "\tAnswer:\nA  0 ", "f4002ca964aa496d57a5e3e3f44fb3a7"),
        ("00fe", "Answer: A 0", "a59d00744eca07b7b1b7867eb860e344"),
        ("00ff", "", "ac3add06771f7ac0c070ec31a8ebc9ea"),
        ("00ff", "\ud800", "9fc80a51739816e520e2dd198015a2e3"),
    ],
)
def test_digests_are_those_of_stored_runs(digest, text, found):
    assert trace_digest(evolve(PROBLEM, digest=digest), text) == found


@given(st.text(st.characters(codec=None)))
def test_any_text_has_a_trace_and_only_its_words_count(text):
    words = " ".join(text.split())
    expected = blake2b(f"{PROBLEM.digest}\n{words}".encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
    trace = gce.trace_of(PROBLEM, text, gce.judge(PROBLEM, text))
    assert trace.digest == expected
    assert trace.key == f"{PROBLEM.key}/{expected}"
