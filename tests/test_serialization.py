"""Records survive the way to JSON and back, and nothing else passes for one."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from types import MappingProxyType
from typing import Any, Literal

import pytest
from attrs import field, frozen, validators
from hypothesis import given
from hypothesis import strategies as st

from gce.domain.completions import Completion, SampleRequest
from gce.domain.curriculum import TierHistory
from gce.domain.learning import LayerActivation, ModelState, Trace, Turn, UpdateReport, single_turn
from gce.domain.measurements import Interval, IterationRecord, TierCount
from gce.domain.problems import Message, Problem, ProblemId, ToolCall
from gce.domain.serialization import from_plain, to_plain
from gce.domain.statistics import Estimate, wilson
from gce.domain.tasks.scheduling.instance import Instance, Job, Resource
from gce.domain.tasks.scheduling.solution import Solution
from gce.domain.verdicts import Step, Verdict, Violation

TEXTS = st.text(max_size=12)
NAMES = st.text(max_size=5)
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
SHARES = st.floats(0, 1)
WHOLE = st.integers(-(2**70), 2**70)
COUNTS = st.integers(0, 10**6)


def mappings(values: Any) -> Any:
    return st.dictionaries(NAMES, values, max_size=3)


def tuples(values: Any, **options: Any) -> Any:
    return st.lists(values, max_size=4, **options).map(tuple)


CALLS = st.builds(ToolCall, id=TEXTS, name=TEXTS, arguments=TEXTS)
MESSAGES = st.one_of(
    st.builds(Message, role=st.sampled_from(["system", "user"]), content=TEXTS),
    st.builds(Message, role=st.just("assistant"), content=TEXTS, tool_calls=tuples(CALLS)),
    st.builds(Message, role=st.just("tool"), content=TEXTS, tool_call_id=TEXTS),
)
IDS = st.one_of(st.none(), tuples(COUNTS))
LOGS = st.one_of(st.none(), tuples(FLOATS))
COMPLETIONS = st.builds(
    Completion,
    key=TEXTS,
    text=TEXTS,
    finish_reason=st.sampled_from(["stop", "length", "error"]),
    policy=TEXTS,
    prompt_token_ids=IDS,
    token_ids=IDS,
    log_probabilities=LOGS,
    sampling_log_probabilities=LOGS,
)
VIOLATIONS = st.builds(
    Violation,
    kind=TEXTS,
    message=TEXTS,
    about=tuples(TEXTS),
    found=st.one_of(st.none(), FLOATS),
    bound=st.one_of(st.none(), FLOATS),
)
VERDICTS = st.builds(
    Verdict,
    status=st.sampled_from(["right", "wrong", "unreadable", "failed"]),
    score=st.one_of(st.none(), SHARES),
    evaluator=TEXTS,
    version=TEXTS,
    measures=mappings(FLOATS),
    violations=tuples(VIOLATIONS),
)
TURNS = st.one_of(
    st.builds(Turn, st.sampled_from(["user", "task", "tool", "model"]), MESSAGES, weights=st.just(())),
    st.builds(lambda message, completion: Turn("policy", message, completion), MESSAGES, COMPLETIONS),
)
TRACES = st.builds(
    Trace,
    key=TEXTS,
    problem=TEXTS,
    tier=NAMES,
    iteration=COUNTS,
    turns=st.builds(lambda turns, last: (*turns, *single_turn((), last)), tuples(TURNS), COMPLETIONS),
    verdicts=tuples(VERDICTS),
    content_digest=TEXTS,
    reward=st.one_of(st.none(), SHARES),
    tools=tuples(mappings(TEXTS)),
)
INTERVALS = st.builds(Interval, n=COUNTS, correct=COUNTS, low=SHARES, high=SHARES)
TIER_COUNTS = st.builds(TierCount, *[COUNTS] * 8, FLOATS)
ITERATIONS = st.builds(
    IterationRecord,
    iteration=COUNTS,
    tiers=mappings(TIER_COUNTS),
    buffer=mappings(COUNTS),
    admitted=COUNTS,
    updates=COUNTS,
    loss=st.one_of(st.none(), FLOATS),
    gradient_norm=st.one_of(st.none(), FLOATS),
    entropy=st.one_of(st.none(), FLOATS),
    dropped=COUNTS,
    dev=mappings(INTERVALS),
    seconds=mappings(FLOATS),
)
INSTANCES = st.lists(st.sampled_from("ABCDEF"), min_size=1, unique=True).flatmap(
    lambda labels: st.builds(
        Instance,
        jobs=st.tuples(
            *(
                st.builds(
                    Job,
                    label=st.just(label),
                    duration=st.integers(0, 9),
                    demands=st.tuples(st.integers(0, 3)),
                    deadline=st.one_of(st.none(), st.integers(0, 99)),
                )
                for label in labels
            )
        ),
        precedence=st.just(tuple(itertools.pairwise(labels))),
        resources=st.just((Resource("crew", 3),)),
        horizon=st.one_of(st.none(), st.integers(0, 99)),
    )
)
RECORDS = st.one_of(
    COMPLETIONS,
    VERDICTS,
    TRACES,
    INTERVALS,
    TIER_COUNTS,
    ITERATIONS,
    INSTANCES,
    st.builds(SampleRequest, key=TEXTS, messages=tuples(MESSAGES), seed=st.integers(0, 2**63 - 1)),
    st.builds(Step, text=TEXTS, status=st.sampled_from(["true", "false", "unreadable"]), reason=TEXTS),
    st.builds(LayerActivation, layer=COUNTS, mean_square=FLOATS, update_mean_square=FLOATS),
    st.builds(UpdateReport, loss=FLOATS, tokens=COUNTS, gradient_norm=FLOATS, dropped=COUNTS),
    st.builds(
        Solution,
        status=st.sampled_from(["optimal", "feasible", "infeasible", "unknown"]),
        starts=st.one_of(st.none(), mappings(WHOLE)),
        makespan=st.one_of(st.none(), WHOLE),
        lower_bound=WHOLE,
        seconds=FLOATS,
    ),
    st.builds(TierHistory, problems=mappings(FLOATS), undecided=mappings(FLOATS)),
    st.builds(Estimate, FLOATS, FLOATS, FLOATS),
)


@pytest.mark.slow
@given(RECORDS)
def test_a_record_survives_json(record: Any) -> None:
    plain = to_plain(record)
    written = json.loads(json.dumps(plain))
    assert written == plain
    read = from_plain(type(record), written)
    assert read == record
    assert repr(read) == repr(record)  # equality alone would take 1 for 1.0 and True


def test_a_completion_by_hand() -> None:
    completion = Completion(key="k", text="A at 0.", finish_reason="stop", policy="base", token_ids=(3, 1))
    assert to_plain(completion) == {
        "key": "k",
        "text": "A at 0.",
        "finish_reason": "stop",
        "policy": "base",
        "prompt_token_ids": None,
        "token_ids": [3, 1],
        "log_probabilities": None,
        "sampling_log_probabilities": None,
        "prompt_tokens": None,
        "tokens": 2,
        "error": "",
    }


INSTANCE = Instance(
    jobs=(Job("A", 3, (1,)), Job("B", 2, (2,), deadline=9)),
    precedence=(("A", "B"),),
    resources=(Resource("crew", 2),),
    horizon=9,
)
PLAIN_INSTANCE = {
    "jobs": [
        {"label": "A", "duration": 3, "demands": [1], "deadline": None},
        {"label": "B", "duration": 2, "demands": [2], "deadline": 9},
    ],
    "precedence": [["A", "B"]],
    "resources": [{"name": "crew", "capacity": 2}],
    "horizon": 9,
}


def test_what_a_record_works_out_itself_is_not_written() -> None:
    assert to_plain(INSTANCE) == PLAIN_INSTANCE
    assert from_plain(Instance, PLAIN_INSTANCE).predecessors("B") == ("A",)


def test_a_problems_instance_is_written_whole_and_read_by_its_task() -> None:
    problem = Problem(
        id=ProblemId("scheduling", "grounded", "train", "T2", 0, 0),
        instance=INSTANCE,
        prompt=(Message("user", "Plan it."),),
        digest="d",
    )
    plain = json.loads(json.dumps(to_plain(problem)))
    assert plain["instance"] == PLAIN_INSTANCE
    read = from_plain(Problem, plain)
    assert read.instance == PLAIN_INSTANCE
    assert from_plain(Instance, read.instance) == INSTANCE
    assert read.key == "scheduling/grounded/train/T2/0/0"


def test_facts_of_any_kind_become_plain() -> None:
    facts = {"names": ("a", ("b",)), "share": MappingProxyType({"T0": wilson(0, 0)}), "none": None}
    assert to_plain(ModelState({}, facts))["settings"] == {
        "names": ["a", ["b"]],
        "share": {"T0": {"n": 0, "correct": 0, "low": 0.0, "high": 1.0, "unreadable": 0, "failed": 0}},
        "none": None,
    }


def test_a_whole_number_is_taken_where_a_float_is_due() -> None:
    interval = from_plain(Interval, {"n": 2, "correct": 1, "low": 0, "high": 1})
    assert isinstance(interval.low, float)
    assert from_plain(Completion, {**to_plain(COMPLETION), "log_probabilities": [-1, -0.5]}).log_probabilities == (
        -1.0,
        -0.5,
    )


@frozen
class OneOrText:
    """A user's own record."""

    value: Literal[1, "one"]


def test_a_boolean_is_not_one_of_the_numbers_allowed() -> None:
    assert from_plain(OneOrText, {"value": 1}) == OneOrText(1)
    with pytest.raises(ValueError, match=r"OneOrText.value: expected one of 1, 'one', got True"):
        from_plain(OneOrText, {"value": True})


@frozen
class Family:
    """A user's own record."""

    name: str = field(validator=validators.in_(("sequencing", "deadlines")))


def test_a_validators_own_message_is_told_and_not_its_other_arguments() -> None:
    with pytest.raises(ValueError) as refusal:
        from_plain(Family, {"name": "resources"})
    assert str(refusal.value) == "Family: 'name' must be in ('sequencing', 'deadlines') (got 'resources')"


COMPLETION = Completion(key="k", text="", finish_reason="stop", policy="base")
INTERVAL = {"n": 2, "correct": 1, "low": 0.0, "high": 1.0}
VERDICT = to_plain(Verdict("right", 1.0, "exact", "1"))


@pytest.mark.parametrize(
    ("cls", "data", "message"),
    [
        (Interval, {**INTERVAL, "n": "2"}, "Interval.n: expected a whole number, got '2'"),
        (Interval, {**INTERVAL, "n": 2.0}, "Interval.n: expected a whole number, got 2.0"),
        (Interval, {**INTERVAL, "n": True}, "Interval.n: expected a whole number, got True"),
        (Interval, {**INTERVAL, "low": "0"}, "Interval.low: expected a number, got '0'"),
        (Interval, {**INTERVAL, "low": False}, "Interval.low: expected a number, got False"),
        (Interval, {**INTERVAL, "low": 10**400}, "Interval.low: int too large to convert to float"),
        (Interval, {**INTERVAL, "low": None, "n": None}, "Interval.n: expected a whole number, got None (and 1 more)"),
        (Interval, {**INTERVAL, "mid": 1}, "Interval: expected no other fields, got 'mid'"),
        (Interval, {"n": 2}, "Interval.correct: expected this field, got none (and 2 more)"),
        (Interval, None, "Interval: expected an object with the fields of Interval, got None"),
        (Message, ["user", ""], "Message: expected an object with the fields of Message, got ['user', '']"),
        (Message, {"role": "user", "content": 3}, "Message.content: expected text, got 3"),
        (
            Message,
            {"role": "teacher", "content": ""},
            "Message.role: expected one of 'system', 'user', 'assistant', 'tool', got 'teacher'",
        ),
        (
            Verdict,
            {**VERDICT, "status": True},
            "Verdict.status: expected one of 'right', 'wrong', 'unreadable', 'failed', got True",
        ),
        (Verdict, {**VERDICT, "score": 2.0}, "Verdict: 'score' must be <= 1.0: 2.0"),
        (Verdict, {**VERDICT, "measures": []}, "Verdict.measures: expected an object with text keys, got []"),
        (Verdict, {**VERDICT, "measures": {"a": "b"}}, "Verdict.measures['a']: expected a number, got 'b'"),
        (Verdict, {**VERDICT, "measures": {3: 1.0}}, "Verdict.measures[3]: expected text, got 3"),
        (Verdict, {**VERDICT, "violations": {}}, "Verdict.violations: expected a list, got {}"),
        (
            Verdict,
            {**VERDICT, "violations": [{"kind": "a", "message": "b", "about": "AB"}]},
            "Verdict.violations[0].about: expected a list, got 'AB'",
        ),
        (
            Verdict,
            {**VERDICT, "violations": [{"kind": "a", "message": "b", "about": ["A", 1]}]},
            "Verdict.violations[0].about[1]: expected text, got 1",
        ),
        (Instance, {**PLAIN_INSTANCE, "precedence": ["AB"]}, "Instance.precedence[0]: expected a list, got 'AB'"),
        (
            Instance,
            {**PLAIN_INSTANCE, "precedence": [["A"]]},
            "Instance.precedence[0]: expected a list of 2, got ['A']",
        ),
        (Instance, {**PLAIN_INSTANCE, "precedence": [["A", "C"]]}, "Instance: precedence A before C: no job 'C'"),
    ],
)
def test_what_is_no_record_is_refused_in_one_line(cls: Any, data: Any, message: str) -> None:
    with pytest.raises(ValueError) as refusal:
        from_plain(cls, data)
    assert str(refusal.value) == message


def test_a_refusal_stays_short_whatever_was_found() -> None:
    with pytest.raises(ValueError) as refusal:
        from_plain(Message, {"role": "user", "content": list(range(10**5))})
    assert len(str(refusal.value)) < 120


JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), WHOLE, st.floats(), TEXTS),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(NAMES, inner, max_size=3)),
    max_leaves=8,
)


@pytest.mark.slow
@given(TRACES, JSON, st.data())
def test_one_wrong_value_anywhere_is_a_valueerror_or_a_record_that_says_the_same(
    trace: Any, value: Any, data: st.DataObject
) -> None:
    plain = json.loads(json.dumps(to_plain(trace)))
    place = plain
    while True:
        name = data.draw(st.sampled_from(list(place) if isinstance(place, dict) else range(len(place))))
        if not (isinstance(place[name], (dict, list)) and place[name] and data.draw(st.booleans())):
            break
        place = place[name]
    place[name] = value
    try:
        read = from_plain(Trace, plain)
    except ValueError:
        return
    same = json.dumps(json.loads(json.dumps(to_plain(read)))) == json.dumps(plain)
    assert same or is_number(value) or value in (None, False, "", []), "a default may be left out"


def is_number(value: Any) -> Any:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def test_the_module_is_light_until_it_is_used() -> None:
    program = "import sys, gce.domain.serialization; assert 'cattrs' not in sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True, env={"PYTHONPATH": ":".join(sys.path)})
