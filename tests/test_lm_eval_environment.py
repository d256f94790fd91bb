"""Tasks of the LM Evaluation Harness: templates, few-shot examples, filters and metrics are its own."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from gce.adapters.environments.lm_eval import load
from gce.app.wiring.environments import find_environment
from gce.app.wiring.sandboxes import SANDBOXES, why_not
from gce.app.wiring.tasks import find_task
from gce.errors import BadInput
from gce.testing.contracts.foreign_task import check_foreign_task

pytest.importorskip("lm_eval")
SANDBOXED = pytest.mark.skipif(all(map(why_not, SANDBOXES)), reason="no sandbox works here")

SUMS = """
task: sums
dataset_path: json
dataset_kwargs: {data_files: {train: train.jsonl, test: test.jsonl}}
training_split: train
test_split: test
fewshot_split: train
num_fewshot: 2
doc_to_text: "Question: {{q}}\\nAnswer:"
doc_to_target: !function helpers.target
generation_kwargs: {until: ["Question:"], max_gen_toks: 32}
filter_list:
  - name: strict
    filter: [{function: regex, regex_pattern: "#### (-?[0-9]+)"}, {function: take_first}]
  - name: loose
    filter: [{function: regex, regex_pattern: "(-?[0-9]+)", group_select: -1}, {function: take_first}]
metric_list:
  - {metric: exact_match, aggregation: mean, higher_is_better: true}
"""
PICKS = """
task: picks
dataset_path: json
dataset_kwargs: {data_files: {test: test.jsonl}}
test_split: test
output_type: multiple_choice
doc_to_text: "{{q}}"
doc_to_choice: "{{[a, 'many', 'few']}}"
doc_to_target: 0
metric_list:
  - {metric: acc, aggregation: mean, higher_is_better: true}
"""
FILES = {
    "sums.yaml": SUMS,
    "picks.yaml": PICKS,
    "likely.yaml": "task: likely\noutput_type: loglikelihood\n",
    "group.yaml": "group: all\ntask: [sums, picks]\n",
    "maj.yaml": SUMS + "repeats: 8\n",
    "helpers.py": "def target(doc):\n    return doc['a']\n",
    "train.jsonl": "".join(json.dumps({"q": f"What is {n} + 1?", "a": str(n + 1)}) + "\n" for n in range(20)),
    "test.jsonl": "".join(json.dumps({"q": f"What is {n} + {n}?", "a": str(2 * n)}) + "\n" for n in range(2, 40)),
}


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A directory with the files."""
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "cache"))
    before = Path.cwd()
    os.chdir(tmp_path)
    yield tmp_path
    os.chdir(before)
    find_environment.cache_clear()


def functions(place: Path, name: str, **options: Any) -> Mapping[str, Callable[..., Any]]:
    """What the worker calls, in this process."""
    given = {"file": str(place / name), "filter": None, "metric": None, "num_fewshot": None}
    return load({**given, **options})


def scores(found: Mapping[str, Callable[..., Any]], *answers: str) -> list[Any]:
    row = found["row"](1, "{}")  # 3 + 3.
    return [found["score"](answer, row) for answer in answers]


def test_filters_and_metrics_make_the_reward(place: Path) -> None:
    found = functions(place, "sums.yaml")
    said = found["describe"]()
    assert said == {
        "documents": 58,
        "metric": "exact_match",
        "higher_is_better": True,
        "max_tokens": 32,
        "way": "#### {}",
    }
    right, cut, wrong, unread = scores(found, "so #### 6", "#### 6 Question: #### 7", "#### 7", "6")
    assert (right, cut, wrong) == (1.0, 1.0, 0.0)
    assert set(unread) == {"unreadable"}
    assert scores(functions(place, "sums.yaml", filter="loose"), "6", "6 or 7") == [1.0, 0.0]


def test_where_generation_ends_may_be_one_text_without_a_list(place: Path) -> None:
    (place / "sums.yaml").write_text(SUMS.replace('["Question:"]', '"Question:"'))
    assert scores(functions(place, "sums.yaml"), "on top: #### 6", "#### 6 Question: #### 7") == [1.0, 1.0]


def test_few_shot_examples_are_the_same_each_time_and_never_the_question(place: Path) -> None:
    found = functions(place, "sums.yaml")
    rows = [found["row"](number, "{}") for number in range(58)]
    assert rows == [found["row"](number, "{}") for number in range(58)]
    for row in rows:
        *shots, asked = row["prompt"].split("\n\n")
        assert len(shots) == 2 and not any(shot.startswith(asked) for shot in shots)
    assert [row["split"] for row in rows] == ["test"] * 38 + ["train", "train", "train", "train", "dev"] * 4
    assert "\n\n" not in functions(place, "sums.yaml", num_fewshot=0)["row"](0, "{}")["prompt"]


def test_a_choice_is_a_reply_with_its_text(place: Path) -> None:
    found = functions(place, "picks.yaml")
    assert found["row"](1, "{}")["prompt"].endswith("and nothing else:\n6\nmany\nfew")
    right, wrong, unread = scores(found, " 6\n", "few", "It is 6")
    assert (right, wrong) == (1.0, 0.0)
    assert set(unread) == {"unreadable"}


@pytest.mark.parametrize(
    ("name", "options", "says"),
    [
        ("likely.yaml", {}, "loglikelihood needs log-likelihoods"),
        ("group.yaml", {}, "not of a group"),
        ("maj.yaml", {}, "several responses together"),
        ("sums.yaml", {"filter": "none"}, "no filter 'none': choose one of strict, loose"),
        ("sums.yaml", {"metric": "bleu"}, "no metric 'bleu': choose one of exact_match"),
    ],
)
def test_what_cannot_be_served_says_so(place: Path, name: str, options: Mapping[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        functions(place, name, **options)["describe"]()


@SANDBOXED
def test_a_task_keeps_the_contract_in_the_worker() -> None:
    check_foreign_task(find_task("lm-eval:sums.yaml"), problems=2)


@pytest.mark.parametrize(
    ("name", "says"),
    [("lm-eval:nowhere.yaml", "no file 'nowhere.yaml'"), ("lm-eval:sums.yaml?colour=red", "no option 'colour'")],
)
def test_bad_names_say_what_is_wrong(name: str, says: str) -> None:
    with pytest.raises(BadInput, match=says):
        find_task(name)
