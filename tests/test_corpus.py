"""What two models really wrote, labelled by reading the prompt: the verifier accepts and refuses as a reader does.

How the labels were made: for each output a reader took the answer that the text gives, held it against each sentence
of the prompt, and wrote the label down before any verdict was looked at. `right` means a right answer in the form
that the prompt asks for; `right-schedule-wrong-format` a schedule that keeps every constraint in a response that does
not keep the form (strictness, not an error); `wrong` all else, two different answers included, with one reason among
those that a reader finds, in the words of the verifier's kinds.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from gce.domain.problems import Message, Problem, ProblemId
from gce.domain.serialization import from_plain
from gce.domain.tasks import judge
from gce.domain.tasks.scheduling.instance import Instance
from gce.domain.tasks.scheduling.verify import KINDS
from gce.domain.verdicts import Verdict

PATH = Path(__file__).parent / "corpus" / "scheduling_outputs.jsonl"
PROBLEMS = PATH.with_name("scheduling_problems.jsonl")
"""As they were when the models answered: a key names another problem once drawing changes."""
MODELS = {"gce-tiny", "SmolLM2-135M-Instruct"}
LABELS = {"right", "right-schedule-wrong-format", "wrong"}
ODDITIES = {"by-one", "cut", "echo", "loop", "markup", "several", "text-after"}


@cache
def corpus() -> list[dict[str, Any]]:
    return [json.loads(line) for line in PATH.read_text(encoding="utf-8").splitlines()]


def tier(output: dict[str, Any]) -> str:
    return ProblemId.parse(output["problem"]).tier


def problem_of(shown: dict[str, Any]) -> Problem:
    prompt = from_plain(tuple[Message, ...], shown["prompt"])
    return Problem(ProblemId.parse(shown["key"]), from_plain(Instance, shown["instance"]), prompt, shown["digest"])


@cache
def verdicts() -> list[Verdict]:
    shown = [json.loads(line) for line in PROBLEMS.read_text(encoding="utf-8").splitlines()]
    problems = {each["key"]: problem_of(each) for each in shown}
    return [judge(problems[output["problem"]], output["text"]) for output in corpus()]


def errors_under(labels: Sequence[str]) -> tuple[list[Any], list[Any]]:
    """False accepts and false rejects of the verifier, as (problem, text), were these the labels."""
    errors = [
        (verdict.right, output["problem"], output["text"])
        for output, label, verdict in zip(corpus(), labels, verdicts(), strict=True)
        if verdict.right != (label == "right")
    ]
    return [error[1:] for error in errors if error[0]], [error[1:] for error in errors if not error[0]]


def test_no_wrong_output_is_accepted_and_no_right_one_refused() -> None:
    accepts, rejects = errors_under([output["label"] for output in corpus()])
    assert accepts == []
    assert rejects == []


def test_a_label_turned_round_is_found() -> None:
    """The count of errors can be other than none: each label turned round is one error, on its own side."""
    labels = [output["label"] for output in corpus()]
    accepts, rejects = errors_under(["wrong" if label == "right" else "right" for label in labels])
    assert len(accepts) == labels.count("right")
    assert len(rejects) == len(labels) - labels.count("right")


def test_what_a_reader_finds_wrong_is_among_what_the_verdict_lists() -> None:
    for output, verdict in zip(corpus(), verdicts(), strict=True):
        assert (output["label"] == "right") == ("why" not in output)
        if "why" in output:
            assert output["why"] in {violation.kind for violation in verdict.violations}, output["text"]


def test_strictness_is_counted_apart() -> None:
    """A right schedule in another form has score 0 and is measured as meant; there are few among real outputs."""
    strict = [
        verdict
        for output, verdict in zip(corpus(), verdicts(), strict=True)
        if output["label"] == "right-schedule-wrong-format"
    ]
    assert len(strict) == 5
    assert all(verdict.measures["meant"] == 1.0 for verdict in strict)


def test_the_corpus_holds_both_models_every_tier_kind_and_oddity() -> None:
    outputs = corpus()
    assert len(outputs) >= 350
    assert len({(output["problem"], output["text"]) for output in outputs}) == len(outputs)
    assert PATH.stat().st_size < 400_000
    assert {output["label"] for output in outputs} == LABELS
    count = Counter(output["model"] for output in outputs)
    assert set(count) == MODELS
    assert min(count.values()) >= 150
    for model, tiers in (("gce-tiny", "T0 T1 T2 T3 T4 T5"), ("SmolLM2-135M-Instruct", "L2 L3 T0")):
        for label in ("right", "wrong"):
            found = {tier(output) for output in outputs if (output["model"], output["label"]) == (model, label)}
            assert found == set(tiers.split())
    reasons = Counter(output["why"] for output in outputs if "why" in output)
    assert set(reasons) == set(KINDS)
    assert min(reasons.values()) >= 5
    oddities = Counter(oddity for output in outputs for oddity in output.get("oddities", ()))
    assert set(oddities) == ODDITIES
    assert oddities["by-one"] >= 40


@pytest.mark.parametrize("model", sorted(MODELS))
def test_of_each_model_at_least_a_quarter_is_right_and_half_wrong(model: str) -> None:
    labels = Counter(output["label"] for output in corpus() if output["model"] == model)
    assert labels["right"] >= sum(labels.values()) / 4
    assert labels["wrong"] >= sum(labels.values()) / 2
