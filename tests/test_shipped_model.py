"""The shipped model is what its card says, and speaks the language that the code speaks."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest

from gce.app.wiring.models import shipped_model_path
from gce.domain.tasks.scheduling.language_fingerprint import language_fingerprint
from pretraining.tokenizer import CHAT_TEMPLATE

PATH = shipped_model_path()
CARD = json.loads((PATH / "card.json").read_text())


def test_the_code_speaks_the_language_that_the_model_was_taught() -> None:
    """Who changes a wording, a grammar or a call pretrains again: python -m pretraining."""
    assert language_fingerprint() == CARD["language"]


def test_the_tokenizer_is_the_one_on_the_card() -> None:
    """A model reads ids: another tokenizer is another language."""
    assert hashlib.sha256((PATH / "tokenizer.json").read_bytes()).hexdigest() == CARD["tokenizer"]


PLAIN_TEMPLATE = (
    "{% for message in messages %}<|{{ message['role'] }}|>{{ message['content'] }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
"""Without the marks around what an assistant writes."""
CONVERSATIONS = (
    (("user", "Plan 3 jobs."),),
    (("user", "Plan 3 jobs."), ("assistant", "Answer: A 0, B 2")),
    (("system", "Be brief."), ("user", "List."), ("assistant", "A\nB"), ("user", " Now? "), ("assistant", " A 0\n")),
    (("user", "x"), ("assistant", ""), ("user", "<|end|> {% x %} {{ y }} \u00fc"), ("assistant", "\u4e16 <|user|>")),
)


def test_the_template_is_the_one_that_pretraining_writes() -> None:
    config = json.loads((PATH / "tokenizer_config.json").read_text())
    assert config["chat_template"] == CHAT_TEMPLATE


@pytest.mark.parametrize("turns", CONVERSATIONS)
@pytest.mark.parametrize("prompt", [False, True])
def test_marks_around_what_an_assistant_writes_change_no_byte_and_no_token(turns: Any, prompt: bool) -> None:
    tokenizer = pytest.importorskip("transformers").AutoTokenizer.from_pretrained(str(PATH))
    messages = [{"role": role, "content": content} for role, content in turns]
    options = {"add_generation_prompt": prompt}
    for tokenize in (False, True):
        marked = tokenizer.apply_chat_template(messages, tokenize=tokenize, **options)
        plain = tokenizer.apply_chat_template(messages, chat_template=PLAIN_TEMPLATE, tokenize=tokenize, **options)
        assert marked == plain


@pytest.mark.parametrize("turns", CONVERSATIONS)
def test_what_is_learned_with_assistant_only_loss_is_each_answer_with_its_end(turns: Any) -> None:
    """As TRL asks for the mask; worked out here turn by turn, as pretraining encodes them."""
    tokenizer = pytest.importorskip("transformers").AutoTokenizer.from_pretrained(str(PATH))
    messages = [{"role": role, "content": content} for role, content in turns]
    found = tokenizer.apply_chat_template(
        messages, return_dict=True, return_assistant_tokens_mask=True, add_generation_prompt=False
    )
    ids, mask = [], []
    for role, content in turns:
        body = tokenizer.encode(f"{content}<|end|>", add_special_tokens=False)
        ids += [*tokenizer.encode(f"<|{role}|>", add_special_tokens=False), *body]
        mask += [0, *[int(role == "assistant")] * len(body)]
    assert (found["input_ids"], found["assistant_masks"]) == (ids, mask)
    assert sum(mask) == 0 or ids[max(place for place, one in enumerate(mask) if one)] == tokenizer.eos_token_id


def test_the_files_are_small_and_the_context_is_long() -> None:
    """At most 12 MB; at least 4,096 tokens."""
    assert sum(file.stat().st_size for file in PATH.iterdir()) <= 12_000_000
    assert json.loads((PATH / "config.json").read_text())["max_position_embeddings"] >= 4096


def test_no_tier_that_the_card_counts_combines_all_three_families() -> None:
    """The card counts correct traces in the teachers' text for the training tiers alone."""
    for shares in CARD["share_of_correct_traces"].values():
        assert set(shares) == {"T0", "T1", "T2", "T3", "T4"}


def test_mlx_lm_loads_it_and_every_small_number_and_label_is_one_token() -> None:
    """Plain `mlx_lm.load`, 1 to 6 million parameters."""
    pytest.importorskip("mlx")
    pytest.importorskip("mlx_lm")
    from mlx.utils import tree_flatten
    from mlx_lm import load

    model, tokenizer, *_ = load(str(PATH))
    assert 1_000_000 <= sum(array.size for _, array in dict(tree_flatten(model.parameters())).items()) <= 6_000_000
    pieces = [f" {number}" for number in range(100)] + [f" {chr(code)}" for code in range(65, 91)]
    assert all(len(tokenizer.encode(piece, add_special_tokens=False)) == 1 for piece in pieces)
    rendered = tokenizer.apply_chat_template([{"role": "user", "content": "Plan"}], add_generation_prompt=True)
    assert tokenizer.decode(rendered) == "<|user|>Plan<|end|><|assistant|>"


@pytest.mark.slow
def test_the_number_of_cores_changes_no_bit_of_what_is_learned_and_sampled() -> None:
    """With numpy's BLAS at one thread and at three, as on machines with as many cores."""
    pytest.importorskip("mlx")
    pytest.importorskip("mlx_lm")
    import numpy as np

    from gce.adapters.models.backends.mlx import blas
    from gce.adapters.models.backends.mlx.model import LoraSettings, load_mlx_model
    from gce.domain.completions import Completion, SampleRequest
    from gce.domain.learning import Trace, TrainingBatch, single_turn
    from gce.domain.problems import Message

    libraries = blas._numpy_openblas()
    if not libraries:
        pytest.skip("numpy has another BLAS")
    before = [getter() for _, getter in libraries]
    found = []
    try:
        for count in (1, 3):
            for setter, _ in libraries:
                setter(count)
            model = load_mlx_model(PATH, device="cpu", lora=LoraSettings(layers=(0, 2, 4)), threads=2)
            prompt = (Message("user", "Durations in hours: K 3, B 5."),)
            traces = tuple(
                Trace(
                    str(n),
                    "p",
                    "T0",
                    1,
                    single_turn(prompt, Completion(str(n), "Job K takes K 3 " * 9, "stop", "")),
                    (),
                    str(n),
                )
                for n in range(3)
            )
            for _ in range(3):
                model.update(TrainingBatch(traces, (1.0, 0.5, -0.2)))
            (said,) = model.sample([SampleRequest("k", prompt, 0, 0.8, 20)])
            found.append((model.state().arrays, said.log_probabilities))
    finally:
        for (setter, _), threads in zip(libraries, before, strict=True):
            setter(threads)
    (one, said_once), (three, said_again) = found
    assert all(np.array_equal(array, three[name]) for name, array in one.items())
    assert said_once == said_again
