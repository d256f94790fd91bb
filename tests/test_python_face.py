"""The Python face: keywords, results that print, models to talk to, attacks, audits, reports, interruptions."""

from __future__ import annotations

import builtins
import sys
import types
import warnings
from collections.abc import Iterator, Mapping
from inspect import signature
from pathlib import Path
from typing import Any, get_type_hints

import pytest
import toy_task
from attrs import fields

import gce
from gce.adapters.models.scripted import ScriptedModel
from gce.adapters.runs.memory_store import MemoryRuns
from gce.app.evaluation.settings import EvaluateKeywords, EvaluateSettings
from gce.app.notebook import Notebook, in_notebook, watch_of
from gce.app.reports.report import Report
from gce.app.settings.fields import sections_in
from gce.app.settings.keywords import StoppingKeywords, TrainKeywords
from gce.app.settings.records import OptimizerSettings, StoppingSettings, TrainSettings, all_settings
from gce.app.settings.values import flat_values, full_names, settings_from
from gce.app.shown import Part, html_of, lines_of
from gce.app.terminal import Silent, Terminal
from gce.domain.figures import Table
from gce.domain.models import ModelInfo
from gce.errors import BadInput, GceError, MissingExtra, ModelError, SettingError

TOY: dict[str, Any] = {"task": "toy_task:ADDITION", "model": "toy_task:careless"}
SMALL: dict[str, Any] = {"problems": 4, "samples": 2, "updates": 1, "iterations": 1, "dev": 1, "test": 2}
QUIET: dict[str, Any] = {**TOY, **SMALL, "progress": False}


def one_line(error: BaseException) -> str:
    assert "\n" not in str(error)
    return str(error)


def _train_on(task: Any) -> Any:
    return gce.train(task=task)


def _cross_fit_on(task: Any) -> Any:
    return gce.cross_fit(task=task, run="nowhere")


# Keywords


def test_a_setting_s_own_name_is_a_keyword() -> None:
    settings = settings_from({"iterations": 3, "learning_rate": 3e-4, "rollouts": {"samples": 2}, "seed": 5})
    values = flat_values(settings)
    assert (values["stopping.iterations"], values["optimizer.learning_rate"]) == (3, 3e-4)
    assert (values["rollouts.samples"], values["seed"]) == (2, 5)
    assert settings_from({"recipe": "isopro", "problems": 5}).rollouts.problems_by_tier is None


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"learning_rat": 3}, "there is no setting 'learning_rat'; did you mean learning_rate?"),
        ({"optimizer": {"batsh": 3}}, "there is no setting 'optimizer.batsh'; did you mean optimizer.batch?"),
        ({"name": "x"}, "there is no setting 'name'"),
        ({"iterations": -1}, "stopping.iterations must be a whole number from 0 to 1,000,000, got -1"),
        ({"iterations": 1, "stopping": {"iterations": 2}}, "stopping.iterations is given twice: leave out one"),
        (
            {"optimizer": OptimizerSettings(), "batch": 2},
            "optimizer.batch is given twice: by itself and in optimizer",
        ),
        (
            {"rollouts": 8},
            "rollouts must be a RolloutSettings or a mapping of its settings, got 8; one setting in it is "
            "rollouts.samples",
        ),
        ({"recipe": ["x"]}, "recipe must be one of gce, isopro, got ['x']"),
    ],
)
def test_a_keyword_that_cannot_be_used_is_one_line(given: Mapping[str, Any], said: str) -> None:
    with pytest.raises(SettingError) as caught:
        settings_from(given)
    assert one_line(caught.value) == said


def test_a_name_that_two_sections_have_names_both(monkeypatch: pytest.MonkeyPatch) -> None:
    """No two settings of today have one name; a further one must not be taken for the other in silence."""
    both = {**all_settings(), "buffer.batch": all_settings()["optimizer.batch"]}
    monkeypatch.setattr("gce.app.settings.values.all_settings", lambda: both)
    with pytest.raises(SettingError, match=r"several sections: give one of optimizer\.batch, buffer\.batch"):
        full_names({"batch": 3})


def test_the_types_of_the_keywords_of_train_are_those_of_the_settings() -> None:
    """A setting that is new, renamed or of another type: change `gce.app.settings.keywords`."""
    sections = sections_in(TrainSettings)
    own = {"task", "evaluator", "algorithm", "name"}  # The first three are arguments, the last is `model`.
    expected: dict[str, Any] = {name: kind | Mapping[str, Any] for name, kind in sections.items() if name != "model"}
    for record in (TrainSettings, *sections.values()):
        hints = get_type_hints(record)
        names = [each.name for each in fields(record) if each.name not in sections and each.name not in own]
        expected |= {name: hints[name] for name in names}
    assert get_type_hints(TrainKeywords) == expected
    stopping = get_type_hints(StoppingSettings)
    assert get_type_hints(StoppingKeywords) == {each.name: stopping[each.name] for each in fields(StoppingSettings)}


def test_the_keywords_of_evaluate_are_its_settings() -> None:
    assert {"task", "model", *get_type_hints(EvaluateKeywords)} == {each.name for each in fields(EvaluateSettings)}
    assert list(signature(gce.evaluate).parameters)[:2] == ["task", "model"]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"sample": 3}, "there is no setting of gce.evaluate 'sample'; did you mean samples?"),
        ({"n": 0}, "n must be a whole number from 1 to 10,000, got 0"),
        ({"temperature": -1}, "temperature must be 0, or a finite number from 1e-06 to 100, got -1"),
        ({"split": "tset"}, "split must be one of train, dev, test, all, got 'tset'"),
        ({"interval": "wald"}, "interval must be one of "),
        ({"tiers": [3]}, "tiers must be a name"),
        ({"strategies": 3}, "strategies must be a name"),
        ({"answers": 3}, "answers must be a name or path"),
        ({"roles": 3}, "roles must be models by role, got 3"),
        ({"model": ""}, "model must be a name"),
        ({"seed": True}, "seed must be a whole number from 0"),
    ],
)
def test_evaluate_refuses_values_at_once(given: Any, said: str) -> None:
    """As the command's options do: before the task is looked for."""
    with pytest.raises(SettingError) as caught:
        gce.evaluate(**{"task": "nowhere:TASK", **given})
    assert one_line(caught.value).startswith(said)


def test_task_and_model_may_be_given_by_position() -> None:
    found = gce.evaluate(toy_task.TWO_PRESETS, lambda _messages: "0", n=1, progress=False)
    assert found.task is toy_task.TWO_PRESETS


@pytest.mark.parametrize("given", [toy_task.TWO_PRESETS, "scheduling"])
def test_train_says_that_a_task_is_given_by_name(given: Any) -> None:
    with pytest.raises(BadInput, match=r"write gce\.train\(task=\.\.\.\)"):
        gce.train(given)


@pytest.mark.parametrize("given", [(toy_task.ADDITION,), (toy_task.ADDITION, "smollm2"), (None, "smollm2")])
def test_train_says_how_a_task_is_given(given: Any) -> None:
    with pytest.raises(BadInput, match=r"write gce\.train\(task=\.\.\.\)$"):
        gce.train(*given)


def test_a_missing_widget_of_a_vendor_s_progress_bar_is_not_told() -> None:
    def warning(*_: Any) -> Any:
        warnings.warn("IProgress not found. Please update jupyter and ipywidgets.", stacklevel=2)
        warnings.warn("something else", stacklevel=2)
        return toy_task.careless(None, None)

    with pytest.MonkeyPatch.context() as patched, warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        patched.setattr(toy_task, "warning", warning, raising=False)
        gce.load_model("toy_task:warning")
    assert [str(each.message) for each in told] == ["something else"]


def test_a_name_that_no_task_has_proposes_the_task_itself() -> None:
    with pytest.raises(BadInput, match="module:ATTR, or pass the task itself without quotes"):
        gce.check("story")


@pytest.mark.parametrize("given", [{"task": 3}, {"run": 3}])
def test_train_refuses_what_is_no_task_and_no_place(given: Any) -> None:
    with pytest.raises(BadInput, match="must be a str or"):
        gce.train(**given)


@pytest.mark.parametrize("call", [gce.check, gce.audit, gce.evaluate, gce.train, _train_on, _cross_fit_on])
def test_a_plain_function_is_no_task_and_what_makes_it_one_is_said(call: Any) -> None:
    def exact(answer: str, problem: Mapping[str, Any]) -> bool:
        return bool(answer == problem["answer"])

    with pytest.raises(BadInput) as caught:
        call(exact)
    made = "expected a task, got the function exact: @gce.task(questions) above it makes it a task"
    assert one_line(caught.value) == made


def test_a_notebook_shows_an_error_as_one_line_without_its_causes() -> None:
    with pytest.raises(BadInput) as caught:
        gce.task([{"prompt": "1 + 1 =", "answer": 2}], lambda answer, problem: problem["result"], name="sums")
    assert caught.value.__cause__ and caught.value._render_traceback_() == [f"BadInput: {caught.value}"]
    assert GceError("two\nlines\x1b[2J")._render_traceback_() == ["GceError: two lines [2J"]
    assert MissingExtra("pandas", "pandas")._render_traceback_()[0].startswith("MissingExtra: pandas is not installed")


# Results


def test_a_result_prints_its_table_with_intervals_and_where_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    result = gce.train(**QUIET)
    lines = str(result).splitlines()
    assert lines[0] == "Greedy accuracy on test problems, % (95 % Wilson interval), n = 2 a tier"
    assert lines[1].split() == ["T0", "T1", "T2,", "held", "out", "mean", "coverage"]
    assert [line.split("  ")[0] for line in lines[3:7]] == ["before", "after", "best prompt-blind", "adds"]
    assert lines[-1] == "run: memory" and repr(result) == str(result)
    page = result._repr_html_()
    assert "<th>T2, held out</th>" in page and page.count("<tr>") == 5


def test_answers_are_iterated_again_and_become_a_data_frame(monkeypatch: pytest.MonkeyPatch) -> None:
    result = gce.train(**QUIET)
    answers = result.answers()
    assert [each["problem"] for each in answers] == [each["problem"] for each in answers] and len(list(answers)) == 6
    assert answers._repr_html_().count("<tr>") == 1 + 6, "stored answers are shown, too"
    evaluation = gce.evaluate(**TOY, n=2, progress=False)
    assert {each["strategy"] for each in evaluation.answers()} == {"zero-shot"} and len(list(evaluation.answers())) == 6
    with pytest.raises(BadInput, match="expected answers of before or after, got 'later'"):
        result.answers("later")  # type: ignore[arg-type]
    real_import = builtins.__import__

    def without_pandas(name: str, *rest: Any, **more: Any) -> Any:
        if name == "pandas":
            raise ImportError(name)
        return real_import(name, *rest, **more)

    with monkeypatch.context() as patched:
        patched.setattr(builtins, "__import__", without_pandas)
        with pytest.raises(MissingExtra, match="pandas is not installed: run  pip install"):
            answers.to_pandas()
    pytest.importorskip("pandas")
    frame = answers.to_pandas()
    assert len(frame) == 6 and {"problem", "text", "right", "tier"} <= set(frame.columns)


def test_answers_show_the_first_of_them_as_escaped_and_clipped_rows() -> None:
    few = gce.evaluate(toy_task.ADDITION, lambda _said: "<script>" + "x" * 1000, n=2, progress=False)
    page = few.answers()._repr_html_()
    assert page.count("<tr>") == 1 + 6 and "<th>reward</th>" in page and "The first" not in page
    assert "&lt;script&gt;xx" in page and "<script" not in page and "x" * 201 not in page
    assert repr(few.answers()) == "Answers()"
    head, _, *lines = str(few.answers()).splitlines()
    assert head.split() == ["tier", "question", "answer", "outcome", "reward"] and len(lines) == 6
    assert all(len(line) <= 80 and "<script>" + "x" * 16 + " ..." in line for line in lines)
    many = gce.evaluate(**TOY, n=4, progress=False).answers()
    assert str(many).count("\n") == 1 + 10 + 1 and str(many).endswith("\nThe first 10 answers.")
    assert many._repr_html_().count("<tr>") == 1 + 10 and "<p>The first 10 answers.</p>" in many._repr_html_()


def test_an_evaluation_prints_its_table_and_shows_hostile_text_as_text() -> None:
    hostile = "<script>alert(1)</script>\x1b[2J"
    own = gce.Metric(
        name=hostile,
        help="one",
        over="run",
        contribution=len,
        estimate=lambda found, _settings: gce.wilson(sum(found), sum(found)),
        unit="share",
        higher_is_better=None,
    )
    found = gce.evaluate(**TOY, n=2, metrics=own, progress=False)
    assert "zero-shot" in str(found) and "\x1b" not in str(found)
    page = found._repr_html_()
    assert "<script" not in page and "&lt;script&gt;alert(1)" in page and "\x1b" not in page
    assert repr(found) == "<Evaluation of toy_task:careless on addition/small: zero-shot>"


def test_parts_are_lines_and_escaped_html() -> None:
    parts: list[Part] = ["a < b\n", Table(("", "x"), (("<i>", "1"),))]
    assert lines_of(parts) == ["a < b\\n", "     x", "---  -", "<i>  1"]
    assert html_of(parts) == (
        "<p>a &lt; b\\n</p><table><thead><tr><th></th><th>x</th></tr></thead><tbody><tr><td>&lt;i&gt;</td><td>1</td>"
        "</tr></tbody></table>"
    )


# Check, audit, report


@pytest.mark.slow
def test_check_and_audit_take_tasks_and_names_and_print_what_the_commands_print(
    capsys: pytest.CaptureFixture[str],
) -> None:
    from gce.app import cli

    report = gce.check(toy_task.FORGIVING, accepts=toy_task.accepts, problems=1, responses=50, progress=False)
    assert not report.ok and "exploits" in str(report)
    assert report._repr_html_().startswith("<pre style=") and "<script" not in report._repr_html_()
    found = gce.audit("toy_task:ADDITION", n=20, fit=5, progress=False)
    assert capsys.readouterr() == ("", "")
    status = cli.main(["audit", "--task", "toy_task:ADDITION", "--n", "20", "--fit", "5"])
    assert capsys.readouterr().out == f"{found}\n"
    assert status == (0 if found.ok else 1)
    assert "<td>always 0</td>" in found._repr_html_() and found.plain["task"] == "addition"
    for wrong in (lambda: gce.check(3), lambda: gce.check(problems=0), lambda: gce.audit(n=0)):  # type: ignore[arg-type]
        with pytest.raises(BadInput, match="must be"):
            wrong()


@pytest.mark.slow
def test_a_run_in_memory_or_in_a_directory_is_reported(tmp_path: Path) -> None:
    result = gce.train(**QUIET)
    shown = gce.report(result)
    assert (
        isinstance(shown, Report)
        and str(shown).startswith("# toy_task:careless on addition\n")
        and "## Result" in str(shown)
    )
    assert "result.answers() has every test answer" in str(shown) and "gce transcript" not in str(shown)
    out = tmp_path / "report.md"
    gce.report(result, out=out, format="md")
    assert out.read_text().startswith("<!-- gce report -->")
    with pytest.raises(BadInput, match="exists already"):
        gce.report(result, out=out, format="md")
    gce.report(result, out=out, format="md", force=True)
    page = shown._repr_html_()
    assert page.startswith('<iframe sandbox="allow-scripts" srcdoc="&lt;!doctype html&gt;')
    for given, said in (((), "expected a run to report"), ((3,), "expected what gce.train returned"), (("no",), "no")):
        with pytest.raises(BadInput, match=said):
            gce.report(*given)
    with pytest.raises(BadInput, match="format must be one of html, md, png, got 'pdf'"):
        gce.report(result, format="pdf")  # type: ignore[arg-type]
    with pytest.raises(BadInput, match="several with different names, got memory, memory"):
        gce.report(result, result)


# Models


def echo(messages: list[dict[str, Any]]) -> str:
    """As a command or a person would be asked."""
    return f"{len(messages)}: {messages[-1]['content']}"


def test_a_function_is_a_model_to_talk_to_and_to_measure() -> None:
    model = gce.load_model(echo)
    assert str(model) == "echo: can sample" and model.info().capabilities == {"sample"}
    assert model.chat("hello") == "1: hello"
    assert model.chat([{"role": "system", "content": "be brief"}, gce.Message("user", "hi")]) == "2: hi"
    assert model.chat("stop here, please", stop=[","]) == "1: stop here"
    problem = gce.draw_problem(toy_task.ADDITION, "small", "T0", "test", 0)
    assert [each.text for each in model.answer([problem, "b", "a"], progress=False)] == [
        f"1: {problem.prompt[0].content}",
        "1: b",
        "1: a",
    ]
    found = gce.evaluate(task=toy_task.ADDITION, model=model, n=1, progress=False)
    assert found.settings.model_name == "echo" and len(list(found.answers())) == 3
    assert gce.evaluate(task=toy_task.ADDITION, model=echo, n=1, progress=False).conversations
    with pytest.raises(BadInput, match=r"^model echo cannot be trained, only evaluated: it does not learn"):
        gce.train(task=toy_task.ADDITION, model=model, progress=False)
    with pytest.raises(ModelError, match=r"^model echo cannot score texts"):
        model.log_probabilities("a", "b")


@pytest.mark.parametrize(
    ("function", "said"),
    [(lambda _: 3, "expected the function to return text, got 3"), (lambda _: 1 / 0, "raised ZeroDivisionError")],
)
def test_a_function_that_fails_gives_no_reply(function: Any, said: str) -> None:
    with pytest.raises(ModelError, match=said) as caught:
        gce.load_model(function).chat("x")
    one_line(caught.value)
    (completion,) = gce.load_model(function).answer(["x"], progress=False)
    assert completion.finish_reason == "error" and said in completion.error


@pytest.mark.parametrize(
    ("said", "refused"),
    [
        ([], "expected a text or messages"),
        (3, "expected a text or messages"),
        ([3], "expected a message as a dict with role and content, got 3"),
        ([{"role": "user"}], "expected a message as a dict"),
        ([{"role": "boss", "content": "x"}], "expected a message of role system, user, assistant or tool"),
        ([{"role": "user", "content": 3}], "expected role and content of a message as text"),
    ],
)
def test_what_is_no_conversation_is_refused(said: Any, refused: str) -> None:
    with pytest.raises(BadInput, match=refused):
        gce.load_model(echo).chat(said)
    with pytest.raises(BadInput, match="cannot ask model echo: 'max_tokens' must be >= 1"):
        gce.load_model(echo).chat("x", max_tokens=0)


def test_what_is_no_model_is_refused() -> None:
    for wrong in (3, int, None):
        with pytest.raises(BadInput, match="expected a model's name, a model that samples, or a function"):
            gce.load_model(wrong)


def test_a_model_loaded_by_name_is_loaded_again_for_a_run_and_stays_as_it_was() -> None:
    model = gce.load_model("toy_task:careless", task=toy_task.ADDITION)
    before = model.info().identity
    result = gce.train(**{**QUIET, "model": model})
    assert result.settings.model.name == "toy_task:careless" and result.model.model is not model.model
    assert model.info().identity == before and result.summary["policy"] != before
    talking = gce.load_model(result.model)
    assert talking is result.model and talking.origin is None, "one interface for all models"
    assert sum(talking.log_probabilities("a", "b")) < 0
    found = gce.evaluate(task=toy_task.ADDITION, model=result.model, n=1, progress=False)
    assert found.settings.model_name == "toy_task:careless (trained)"
    again = gce.train(**{**QUIET, "model": result.model})
    assert again.settings.model.name == "given:toy_task:careless (trained)" and again.model.name == result.model.name
    assert again.model.model is result.model.model, "what was given is trained further"


def test_a_model_is_loaded_with_what_a_run_learned(tmp_path: Path) -> None:
    pytest.importorskip("safetensors", reason="checkpoints are safetensors")
    result = gce.train(**QUIET, run=tmp_path / "run")
    assert str(result).endswith(f"run: {tmp_path / 'run'}")
    given: dict[str, Any] = {"model": "toy_task:careless", "task": toy_task.ADDITION}
    base, learned = gce.load_model(**given), gce.load_model(**given, adapter=tmp_path / "run")
    assert learned.info().identity == result.summary["policy"] != base.info().identity
    further = gce.train(**{**QUIET, "model": learned})
    assert further.settings.model.adapter == str(tmp_path / "run")
    with pytest.raises(BadInput, match="give a run's checkpoints/last"):
        gce.load_model(**given, adapter=tmp_path / "none")


def test_a_run_with_a_model_of_one_s_own_is_resumed_with_it_alone() -> None:
    runs = MemoryRuns()
    own: dict[str, Any] = {"model": toy_task.careless(None, None), "task": toy_task.ADDITION}
    result = gce.train(**{**QUIET, **own}, runs=runs, run="one")
    assert result.settings.model.name == "given:ScriptedModel"
    with pytest.raises(BadInput, match=r"^the model 'ScriptedModel' was given from Python, not by a name: give it"):
        gce.resume("one", iterations=2, task=toy_task.ADDITION, runs=runs, progress=False)
    own["model"] = toy_task.careless(None, None)
    assert gce.resume("one", iterations=2, runs=runs, **own, progress=False).summary["iterations"] == 2
    with pytest.raises(SettingError, match=r"keeps its settings: leave out optimizer\.batch"):
        gce.resume("one", {"batch": 2}, runs=runs, **own, progress=False)


# Recorded conversations


def test_a_recorded_conversation_is_judged_admitted_and_learned_from() -> None:
    """The user's own code asks twice, with a turn of its own between."""
    problem = gce.draw_problem(toy_task.ADDITION, "small", "T0", "train", 0)
    right = f"w{problem.instance.a + problem.instance.b}"
    model = ScriptedModel(lambda request: right if len(request.messages) > 1 else "what?")
    with gce.trace(problem, model=model, task=toy_task.ADDITION, seed=3) as recorder:
        assert recorder.ask() == "what?"
        recorder.user("Try again.")
        with pytest.raises(BadInput, match="has not ended"):
            _ = recorder.trace
        assert recorder.ask(temperature=0.0) == right
    trace = recorder.trace
    assert recorder.answer.right and trace.reward == 1.0 and trace.key == f"{problem.key}/trace/3"
    assert [(turn.author, turn.trained) for turn in trace.turns] == [
        ("task", False),
        ("policy", True),
        ("user", False),
        ("policy", True),
    ]
    assert all(turn.completion.token_ids and turn.completion.log_probabilities for turn in trace.turns[1::2])  # type: ignore[union-attr]
    buffer = gce.admit(gce.empty(), [trace])
    assert gce.composition(buffer) == {"T0": 1}
    report = model.update(gce.TrainingBatch((trace,), (1.0,)))
    assert report.tokens == len("what?") + 1 + len(right) + 1


def test_replies_of_one_s_own_model_and_tools_are_recorded() -> None:
    problem = gce.draw_problem(toy_task.ADDITION, "small", "T0", "train", 0)
    call = gce.ToolCall("1", "add", '{"a": 1}')
    with gce.trace(problem, task=toy_task.ADDITION) as recorder:
        recorder.system("Be brief.")
        recorder.assistant("", calls=[call])
        recorder.tool("3", call="1")
        assert recorder.messages[-1] == gce.Message("tool", "3", tool_call_id="1")
        recorder.assistant("w1 or so")
        with pytest.raises(BadInput, match="no model to ask"):
            recorder.ask()
    assert recorder.answer.outcome == "wrong" and recorder.trace.reward == 0.0
    assert recorder.trace.turns[2].message.tool_calls == (call,)
    with pytest.raises(BadInput, match="no reply of the model"), gce.trace(problem, task=toy_task.ADDITION):
        pass
    with pytest.raises(BadInput, match="no task 'addition'"):
        gce.trace(problem)


def test_the_shipped_model_learns_from_a_recorded_conversation() -> None:
    pytest.importorskip("mlx_lm")
    model: Any = gce.load_model("gce-tiny", threads=1)
    problem = gce.draw_problem(gce.TASKS["scheduling"], "grounded", "T0", "train", 0)
    with gce.trace(problem, model=model) as recorder:
        recorder.ask(temperature=0.0)
        recorder.user("Check it, and answer again.")
        recorder.ask(temperature=0.0, max_tokens=30)
    buffer = gce.admit(gce.empty(), [recorder.trace])
    before = model.info().identity
    model.model.attach([0])
    assert gce.composition(buffer) == {"T0": 1}
    assert model.model.update(gce.TrainingBatch((recorder.trace,), (1.0,))).tokens > 30
    assert model.info().identity != before and model.origin is None


# Progress and interruptions


def test_progress_goes_where_a_person_watches(monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(watch_of(False)(1), Silent) and watch_of(True) is Terminal and not in_notebook()


class Handle:
    """What IPython's display returns."""

    def __init__(self, shown: list[str]) -> None:
        self.shown = shown

    def update(self, found: str) -> None:
        self.shown.append(found)


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """What a notebook's cell shows as its bar, in a process that looks like a kernel."""
    shown: list[str] = []

    class ZMQInteractiveShell:
        pass

    class OfColab(ZMQInteractiveShell):
        pass

    ipython, display = types.ModuleType("IPython"), types.ModuleType("IPython.display")
    ipython.get_ipython = OfColab  # type: ignore[attr-defined]
    display.HTML = str  # type: ignore[attr-defined]
    display.display = lambda _found, display_id: Handle(shown)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    yield shown


def test_a_notebook_gets_one_bar_and_lines(shown: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert watch_of(True) is Notebook
    gce.train(**TOY, **SMALL)
    out, err = capsys.readouterr()
    assert err == "" and "Solve rate of training rollouts" in out and "  1/1 " in out
    assert shown and all(each.count("<progress") == 1 for each in shown) and "6/6, 0 s left" in shown[-1]
    Notebook().stage("<b>", 1)()
    assert shown[-1].startswith("&lt;b&gt; <progress")
    gce.audit("scheduling", tiers="T0", n=1, fit=1)
    assert capsys.readouterr().out == "" and shown[-1] == "auditing T0 ..."


def test_folds_show_in_a_notebook_what_a_run_shows(
    shown: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    pytest.importorskip("safetensors")  # Checkpoints of runs in directories.
    rows = [{"prompt": f"w{a} w1 w40", "answer": f"w{a + 1}"} for a in range(10)]
    task = gce.task(rows, lambda answer, problem: answer == problem["answer"], name="sums")
    gce.cross_fit(task=task, model="toy_task:careless", folds=2, run=tmp_path / "folds", **SMALL)
    out, err = capsys.readouterr()
    assert err == "" and out.startswith("10 questions in 2 folds") and "[2/2] fold-2" in out
    assert "gce.cross_fit" not in out, "a fold proposes no folds"
    assert shown and all(each.count("<progress") <= 1 for each in shown)


class Interrupted(ScriptedModel):
    """Ctrl-C in the second iteration."""

    def sample(self, requests: Any) -> Any:
        if self.steps and any(request.temperature for request in requests):
            raise KeyboardInterrupt
        return super().sample(requests)


def test_an_interrupted_run_is_resumable_and_says_how() -> None:
    def model(kind: type[ScriptedModel]) -> ScriptedModel:
        return kind(toy_task.careless(None, None)._answer)

    runs = MemoryRuns()
    given: dict[str, Any] = {**QUIET, "task": toy_task.ADDITION, "iterations": 2}
    with pytest.raises(
        KeyboardInterrupt,
        match=r"^the run was interrupted; gce\.resume\('one', task=addition, model=\.\.\., runs=\.\.\.\) goes on$",
    ):
        gce.train(**{**given, "model": model(Interrupted)}, runs=runs, run="one")
    result = gce.resume("one", task=toy_task.ADDITION, model=model(ScriptedModel), runs=runs, progress=False)
    whole = gce.train(**{**given, "model": model(ScriptedModel)})
    assert result.summary["iterations"] == 2 and result.after == whole.after
    with pytest.raises(KeyboardInterrupt, match="it was in memory alone: give run='runs/1' to keep it"):
        gce.train(**{**given, "model": model(Interrupted)})


def test_info_is_that_of_the_model_inside() -> None:
    assert isinstance(gce.load_model(echo).info(), ModelInfo)
