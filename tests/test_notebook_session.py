"""A notebook's session: what help and messages say in Python's words, what an interruption leaves, what is freed."""

from __future__ import annotations

import ast
import gc
import importlib
import re
import time
import weakref
from pathlib import Path
from typing import Any

import pytest
import toy_task
from attrs import evolve, fields_dict
from listening import Listening

import gce
from gce.adapters.models.scripted import ScriptedModel
from gce.app import cli
from gce.app.evaluation.settings import EvaluateSettings
from gce.app.settings.records import TrainSettings
from gce.app.settings.values import full_names
from gce.app.terminal import as_given, shown_as
from gce.errors import BadInput, GceError, SettingError

TOY: dict[str, Any] = {"task": "toy_task:ADDITION", "model": "toy_task:careless"}
SMALL: dict[str, Any] = {"problems": 4, "samples": 2, "updates": 1, "iterations": 1, "dev": 1, "test": 2}
QUIET: dict[str, Any] = {**TOY, **SMALL, "progress": False}


# Help


def common(function: Any) -> dict[str, str]:
    """The settings that a docstring lists, with the default that it names."""
    _, _, after = str(function.__doc__).partition("Common ones:")
    listed = after.partition("\n\n")[2].partition("\n\n")[0]
    listed = re.sub(r"\n {12,}", " ", listed)
    return {line.split()[0]: line[line.rindex("default") + 7 :].rstrip(")") for line in listed.strip().splitlines()}


def test_the_common_settings_that_help_lists_have_the_defaults_that_it_names() -> None:
    plain = TrainSettings()
    found = common(gce.train)
    assert len(found) == 11
    for name, said in found.items():
        ((full, _),) = full_names({name: None}).items()
        section, _, field = full.rpartition(".")
        value = getattr(getattr(plain, section) if section else plain, field)
        assert said.strip().partition(":")[0] == str(value), (name, said, value)
    found = common(gce.evaluate)
    assert len(found) >= 10
    for name, said in found.items():
        default = fields_dict(EvaluateSettings)[name].default
        assert (said.strip().partition(":")[0] == repr(default).replace("'", '"')) or default == (), (name, said)


def test_settings_are_records_of_gce_whose_sections_may_be_mappings() -> None:
    assert gce.EvaluateSettings is EvaluateSettings
    made: Any = gce.TrainSettings
    settings = made(optimizer={"learning_rate": 1e-2})
    assert settings.optimizer.learning_rate == 1e-2 and settings.optimizer.batch == TrainSettings().optimizer.batch
    with pytest.raises(SettingError, match=r"no setting 'optimizer\.batsh'; did you mean optimizer\.batch\?"):
        made(optimizer={"batsh": 1})
    with pytest.raises(SettingError, match=r"optimizer\.batch must be"):
        made(optimizer={"batch": 0})


# Words


def test_a_hint_names_arguments_in_python_and_options_on_a_command_line() -> None:
    error = BadInput("{kept} exists", hint="give another {out}, or {force}")
    assert str(error) == "{kept} exists: give another out, or force", "braces in a message are the user's own"
    parser = cli.command_parser("report")
    assert error.said(parser.option) == "{kept} exists: give another --out, or --force"
    assert parser.option("nothing") == "" and cli._option("report", "nothing") == "nothing"
    assert cli._option("report", "discard_after") == "--discard-after", "of gce train"
    assert [cli._option("evaluate", each) for each in ("samples", "rollouts.samples")] == ["--samples", "--rollouts"]
    again = GceError(*error.args)
    assert str(again) == str(error)


def test_a_setting_is_given_as_a_keyword_or_as_an_option() -> None:
    assert (as_given("model.name"), as_given("curriculum.ladder", True)) == ("model", "ladder=True")
    assert as_given("demonstrations.bootstrap", "few-shot") == "bootstrap='few-shot'"
    with shown_as(option=cli.command_parser("train").option):
        assert (as_given("model.name"), as_given("curriculum.ladder", True)) == ("--model", "--ladder")
        assert as_given("demonstrations.warm_up", 100) == "--warm-up 100"


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ({"samples": 2}, "samples above 1 needs temperature above 0"),
        ({"strategies": "trained"}, "strategy trained needs adapter"),
        ({"adapter": "runs/1", "strategies": "zero-shot"}, "adapter is used only by the strategies trained"),
    ],
)
def test_refusals_name_keywords_in_python_and_options_in_a_shell(
    call: dict[str, Any], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(BadInput, match=f"^{said}"):
        gce.evaluate(**TOY, **call, progress=False)
    words = [word for name, value in {**TOY, **call}.items() for word in (f"--{name}", str(value))]
    assert cli.main(["evaluate", *words]) == 2
    in_shell = re.sub(r"\b(samples|temperature|adapter)\b", r"--\1", said)
    assert f"gce evaluate: {in_shell}" in capsys.readouterr().err


OPTION = re.compile(r"(?<![\w-])--(?!no-deps|force-reinstall|git )[a-z]")
OF_THE_COMMAND_LINE = ("app/commands/", "app/settings/", "app/cli.py", "app/parser.py", "app/web/launching.py")


def raised_or_said(tree: ast.Module) -> list[str]:
    """The text in what a module raises, and in what it hands to functions that print."""
    nodes: list[ast.AST] = [node for node in ast.walk(tree) if isinstance(node, ast.Raise)]
    printing = ("say", "put", "note", "put_result", "BadInput", "SettingError", "GceError")
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            nodes += [node] if name in printing else []
        if isinstance(node, (ast.Yield, ast.Return)):
            nodes.append(node)
    texts = (text for node in nodes for text in ast.walk(node))
    return sorted({text.value for text in texts if isinstance(text, ast.Constant) and isinstance(text.value, str)})


@pytest.mark.slow
def test_only_the_command_line_names_options() -> None:
    assert raised_or_said(ast.parse("def f():\n    raise BadInput(f'leave out --all {x}')")) == ["leave out --all "]
    package = Path(gce.__file__).parent
    found = {}
    for path in package.rglob("*.py"):
        place = path.relative_to(package).as_posix()
        if place.startswith(("app/", "domain/", "ports/", "adapters/runs/", "adapters/system/")):
            said = [text for text in raised_or_said(ast.parse(path.read_text(encoding="utf-8"))) if OPTION.search(text)]
            if said and not place.startswith(OF_THE_COMMAND_LINE):
                found[place] = said
    assert found == {}


# Answers that have all one outcome


def test_an_evaluation_with_one_outcome_says_so_with_samples_and_proposals() -> None:
    listening = Listening()
    gce.evaluate(task=toy_task.TWO_PRESETS, model=lambda said: _sum(said, 1), n=7, watcher=listening)
    begin = next(place for place, line in enumerate(listening.said) if line.startswith("warning: "))
    head, *after = listening.said[begin:]
    assert head.startswith("warning: zero-shot: 0 of 21 answers were right (95 % interval 0.0-15.5 %)")
    assert head.endswith("these problems tell no models apart")
    assert [line.split(":")[0] for line in after[:3]] == ["  T0", "  T1", "  T2"] and '"w' in after[0]
    assert "  try: few-shot examples (strategies='few-shot')" in after
    assert after[-1] == "  try: a stronger model (model)"


def test_an_evaluation_of_right_answers_alone_asks_for_harder_problems_and_of_both_says_nothing() -> None:
    listening = Listening()
    gce.evaluate(task=toy_task.TWO_PRESETS, model=lambda said: _sum(said, 0), n=2, watcher=listening)
    said = "\n".join(listening.said)
    assert "6 of 6 answers were right" in said and "another preset, if it is harder (preset: other)" in said
    listening = Listening()
    gce.evaluate(**TOY, n=20, watcher=listening)
    assert not [line for line in listening.said if line.startswith("warning")]


def test_one_answer_that_passes_every_question_is_no_reason_for_harder_ones() -> None:
    """A score that any answer passes says nothing of the model, and another task would not mend it."""
    rows = [{"prompt": f"What is {n} + 1?", "answer": n + 1} for n in range(30)]
    leaky = gce.task(rows, reward=lambda answer, problem: True)
    listening = Listening()
    gce.evaluate(leaky, lambda _said: "0-3000", split="all", watcher=listening)
    tries = [line for line in listening.said if line.startswith("  try: ")]
    assert tries == ["  try: gce.check(task): one fixed answer passes every question, so the score may be gameable"]
    listening = Listening()
    gce.evaluate(leaky, lambda said: said[-1]["content"], split="all", watcher=listening)
    assert any("harder" in line for line in listening.said), "different texts"


def _sum(said: Any, off: int) -> str:
    a, b, _ = (int(word[1:]) for word in said[-1]["content"].split())
    return f"w{a + b + off}"


def test_the_command_names_options_in_its_proposals(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["evaluate", "--task", "toy_task:WORKED", "--model", "toy_task:hopeless", "--n", "1"]) == 0
    err = capsys.readouterr().err
    assert "loading" not in err and "no answer is readable" in err
    assert "(--strategies few-shot)" in err and "(--model)" in err


# The end of a run


def test_the_table_at_the_end_has_the_paired_comparison() -> None:
    result = gce.train(**QUIET)
    both = (result.answers("before"), result.answers("after"))
    before, after = ({each["digest"]: each["right"] for each in answers} for answers in both)
    gained = sum(after[each] and not right for each, right in before.items())
    lost = sum(right and not after[each] for each, right in before.items())
    assert (result.summary["gain"]["gained"], result.summary["gain"]["lost"]) == (gained, lost)
    assert f"points, paired by problem; {gained} gained, {lost} lost, p = " in str(result)
    assert "paired by problem" in result._repr_html_()
    alone = gce.train(**QUIET, measure_before=False)
    assert "gain" not in alone.summary and "paired" not in str(alone)


@pytest.mark.slow
def test_loading_is_said_where_it_takes_long(monkeypatch: pytest.MonkeyPatch) -> None:
    def made(*_: Any) -> ScriptedModel:
        time.sleep(0.3)
        return toy_task.careless(None, None)

    quick, slow, evaluated = Listening(), Listening(), Listening()
    gce.train(**TOY, **SMALL, watch=lambda _last: quick)
    assert not [line for line in quick.said if line.startswith("loading")]
    monkeypatch.setattr("gce.app.interruption.SLOW", 0.0)
    monkeypatch.setattr(toy_task, "slow", made, raising=False)
    given: dict[str, Any] = {**TOY, "model": "toy_task:slow"}
    gce.train(**given, **SMALL, watch=lambda _last: slow)
    gce.evaluate(**given, n=1, watcher=evaluated)
    said = [next(line for line in each.said if line.startswith("loading")) for each in (slow, evaluated)]
    assert said == ["loading toy_task:slow"] * 2


# Interruptions


def interrupted(*_: Any) -> Any:
    raise KeyboardInterrupt


def test_an_interrupted_evaluation_says_in_one_line_what_is_kept(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    run = importlib.import_module("gce.app.evaluation.run")
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt) as caught:
        patched.setattr(run, "find_model", interrupted)
        gce.evaluate(**TOY, n=1, progress=False)
    said: Any = caught.value
    assert str(said) == "interrupted while the model toy_task:careless was being loaded: nothing was asked"
    assert said._render_traceback_() == [f"KeyboardInterrupt: {said}"], "all that IPython shows"
    asked: dict[str, Any] = {"task": toy_task.ADDITION, "n": 1, "progress": False}
    with pytest.raises(KeyboardInterrupt, match=r"was interrupted; answers='answers\.jsonl' keeps answers for that$"):
        gce.evaluate(**asked, model=interrupted)
    calls: list[Any] = []

    def once(said: Any) -> str:
        calls.append(said)
        return interrupted() if len(calls) == 2 else "w1"

    asked |= {"model": once, "answers": tmp_path / "answers.jsonl"}
    with pytest.raises(KeyboardInterrupt, match=r"the same call goes on: .*answers\.jsonl has the answers$"):
        gce.evaluate(**asked)
    assert len(list(gce.evaluate(**asked).answers())) == 3 and len(calls) == 4, "one of three was kept"


# Memory


class Cached(ScriptedModel):
    """Counts how often its caches are cleared."""

    cleared = 0

    def clear_caches(self) -> None:
        self.cleared += 1


@pytest.mark.slow
def test_a_finished_run_keeps_its_model_without_caches_as_long_as_its_result_lives() -> None:
    made: list[Any] = []

    def run() -> Any:
        model = Cached(toy_task.careless(None, None)._answer)
        made.append(weakref.ref(model))
        return gce.train(**{**QUIET, "task": evolve(toy_task.ADDITION), "model": model})

    result = run()
    gc.collect()
    assert made[0]() is result.model.model and result.model.model.cleared == 1
    del result
    gc.collect()
    assert made[0]() is None, "nothing else holds it"


@pytest.mark.slow
def test_adapters_on_one_base_share_its_weights_and_free_them_with_the_last(tmp_path: Path) -> None:
    pytest.importorskip("mlx")
    pytest.importorskip("mlx_lm")
    from test_mlx_model import PROMPTS, batch_of, load
    from tiny_llama import write_tiny_llama

    directory = write_tiny_llama(tmp_path, layers=3, words=20, context=64)
    one, other = load(directory, 1), load(directory, 1)
    weights = weakref.ref(one.engine._base)
    assert other.engine._base is weights()
    first, second = (each.engine.model.model.layers[0].mlp.down_proj.weight for each in (one, other))
    assert first is second, "the arrays are the same, the modules are not"
    before = other.log_probabilities(PROMPTS[0], "w1")
    one.update(batch_of(one))
    assert other.log_probabilities(PROMPTS[0], "w1") == before != one.log_probabilities(PROMPTS[0], "w1")
    kept = one.engine.learner
    one.clear_caches()
    assert one._roll_out is None and one.engine.learner is not kept
    del one, first, second, kept
    gc.collect()
    assert weights() is other.engine._base, "the other one still needs them"
    del other
    gc.collect()
    assert weights() is None
    (directory / "config.json").write_text((directory / "config.json").read_text() + " ")
    again = load(directory, 1)
    assert again.engine._base.digest, "another file, other weights"
