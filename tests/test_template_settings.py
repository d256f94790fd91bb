"""Chat templates as users set them: for evaluations, runs and loaded models, from the command line and from Python."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path
from typing import Any, Self

import pytest

pytest.importorskip("mlx_lm")
pytest.importorskip("safetensors")

from tiny_llama import TEMPLATE, write_tiny_llama

import gce
from gce.app import cli
from gce.app.settings.records import ModelSettings
from gce.app.wiring.runs import open_run
from gce.domain.problems import Message
from gce.errors import BadInput, ModelError, SettingError

CLOCK = "{{ strftime_now('w%d') }} " + TEMPLATE
THINKS = TEMPLATE.replace("<assistant>", "<assistant>{% if enable_thinking %} w9{% endif %}")
ASKED = (Message("user", "w1"),)
TOY = ("--task", "toy_task:ADDITION", "--n", 2, "--max-tokens", 4, "--device", "cpu", "--threads", 1)
SMALL = ("--iterations", 1, "--problems", 2, "--rollouts", 2, "--test", 2, "--dev", 0, "--max-tokens", 4, "--layers", 1)


@pytest.fixture(scope="module")
def clock(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_llama(tmp_path_factory.mktemp("clock"), layers=2, template=CLOCK)


@pytest.fixture(scope="module")
def thinks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_llama(tmp_path_factory.mktemp("thinks"), layers=2, template=THINKS)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_llama(tmp_path_factory.mktemp("base"), layers=2, template=None)


def run(*arguments: Any) -> int:
    return cli.main([str(each) for each in arguments])


def on_day(monkeypatch: pytest.MonkeyPatch, day: int) -> None:
    class Fixed(date):
        @classmethod
        def today(cls) -> Self:
            return cls(2025, 1, day)

    monkeypatch.setattr("gce.app.wiring.models.date", Fixed)


def prompt(name: Any, **more: Any) -> str:
    model: Any = gce.load_model(str(name), device="cpu", threads=1, **more).model
    return str(model.text_of(model.prompt_tokens(ASKED)))


def header(file: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(file.read_text().splitlines()[0])["evaluation"]
    return found


def test_arguments_of_the_template_are_a_mapping_or_json(thinks: Path) -> None:
    assert prompt(thinks) == "<user> w1 <end> <assistant>"
    for given in ({"enable_thinking": True}, '{"enable_thinking": true}'):
        assert prompt(thinks, chat_template_kwargs=given) == "<user> w1 <end> <assistant> w9"
    unsorted: Any = {"b": 1, "a": 2}
    assert ModelSettings(chat_template_kwargs=unsorted).chat_template_kwargs == '{"a": 2, "b": 1}'


@pytest.mark.parametrize("given", ["no", "[1]", "{", "1", '{"messages": []}', {1, 2}, {"a": object()}, "[" * 9999])
def test_arguments_that_are_no_json_object_are_refused(thinks: Path, given: Any) -> None:
    with pytest.raises(SettingError, match="must be a JSON object such as"):
        gce.load_model(str(thinks), chat_template_kwargs=given)
    with pytest.raises(SettingError, match="must be a JSON object such as"):
        gce.evaluate("toy_task:ADDITION", str(thinks), chat_template_kwargs=given)


def test_arguments_that_are_no_json_object_are_one_line_on_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("evaluate", "train"):
        assert run(command, "--chat-template-kwargs", "enable_thinking=false") == 2
        assert "a JSON object such as '{\"enable_thinking\": false}'" in capsys.readouterr().err


def test_a_base_model_converses_by_plain_or_by_a_file(base: Path, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="has none: give a file with chat_template, or plain for a base model"):
        gce.load_model(str(base))
    assert prompt(base, chat_template="plain") == "w1"
    file = tmp_path / "own.jinja"
    file.write_text(TEMPLATE)
    assert prompt(base, chat_template=file) == "<user> w1 <end> <assistant>"
    own, other = (gce.load_model(str(base), chat_template=each).info().identity for each in ("plain", file))
    assert own != other


def test_the_next_command_has_the_template_too(thinks: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = ("--chat-template", "plain", "--chat-template-kwargs", '{"a": 1}')
    assert run("evaluate", *TOY, "--model", thinks, *given) == 0
    shown = capsys.readouterr()
    assert """--chat-template plain --chat-template-kwargs '{"a": 1}'""" in shown.out + shown.err


def test_a_template_that_is_no_file_is_refused_before_the_model_is_loaded(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("evaluate", *TOY, "--model", "gce-tiny", "--chat-template", "no.jinja") == 2
    expected = "--chat-template must be plain or the path of a Jinja file, found no file 'no.jinja'"
    assert expected in capsys.readouterr().err


@pytest.mark.parametrize(
    "flag", [("--chat-template", "plain"), ("--chat-template-kwargs", "{}"), ("--template-date", "2024-07-26")]
)
def test_models_with_prompts_of_their_own_take_no_template(
    flag: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("evaluate", *TOY, "--model", "http://127.0.0.1:9/v1#m", *flag) == 2
    assert f"takes no {flag[0]}: it is for local models" in capsys.readouterr().err


def test_a_model_that_is_given_itself_takes_no_template(thinks: Path) -> None:
    model = gce.load_model(str(thinks), device="cpu")
    with pytest.raises(SettingError, match="takes no"):
        gce.evaluate("toy_task:ADDITION", model.model, chat_template="plain")


@pytest.mark.parametrize("given", ["2024-7-26", "26 Jul 2024", "2024-02-30", "20240726"])
def test_a_date_that_is_none_is_refused(clock: Path, given: str) -> None:
    with pytest.raises(SettingError, match="must be a date as YYYY-MM-DD"):
        gce.load_model(str(clock), template_date=given)


def test_a_template_that_reads_the_clock_gets_one_day(clock: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    on_day(monkeypatch, 3)
    assert prompt(clock, template_date="2024-07-26").startswith("w26 <user>")
    assert gce.load_model(str(clock)).info().template_date == "2025-01-03"
    assert gce.load_model("gce-tiny").info().template_date == ""


def test_an_evaluation_goes_on_and_is_replayed_with_the_day_of_its_beginning(
    clock: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "answers.jsonl"
    asked = ("evaluate", *TOY, "--model", clock, "--answers", file)
    on_day(monkeypatch, 3)
    assert run(*asked) == 0
    lines = file.read_text().splitlines(keepends=True)
    assert header(file)["template_date"] == "2025-01-03"
    on_day(monkeypatch, 4)
    file.write_text("".join(lines[:-1]))
    assert run(*asked) == 0
    again = [json.loads(line) for line in (lines[-1], file.read_text().splitlines()[-1])]
    assert again[0]["attempts"] == again[1]["attempts"]
    assert run(*asked, "--template-date", "2025-01-04") == 2
    assert "its template_date is '2025-01-03', not '2025-01-04'" in capsys.readouterr().err
    assert run("replay", file, json.loads(lines[1])["name"]) == 0


def test_only_what_was_set_is_kept(thinks: Path, tmp_path: Path) -> None:
    one, other = tmp_path / "one.jsonl", tmp_path / "other.jsonl"
    assert run("evaluate", *TOY, "--model", thinks, "--answers", one) == 0
    assert not {"chat_template", "chat_template_kwargs", "template_date"} & header(one).keys()
    given = ("--chat-template-kwargs", '{"enable_thinking": true}')
    assert run("evaluate", *TOY, "--model", thinks, "--answers", other, *given) == 0
    assert header(other)["chat_template_kwargs"] == '{"enable_thinking": true}'
    assert header(other)["policy"] != header(one)["policy"]
    assert run("replay", other, json.loads(other.read_text().splitlines()[1])["name"]) == 0


@pytest.mark.slow
def test_a_run_goes_on_with_the_day_of_its_beginning(
    clock: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / "run"
    asked = ("train", "--task", "toy_task:ADDITION", "--model", clock, *SMALL, "--device", "cpu", "--run-dir", place)
    on_day(monkeypatch, 3)
    assert run(*asked) == 0
    with open_run(str(place)) as reader:
        assert reader.config["settings"]["model"]["template_date"] == "2025-01-03"
    on_day(monkeypatch, 4)
    assert run("train", "--resume", "--run-dir", place, "--iterations", 2) == 0
    for flag in (("--template-date", "2025-01-04"), ("--chat-template", "plain"), ("--chat-template-kwargs", "{}")):
        capsys.readouterr()
        assert run("train", "--resume", "--run-dir", place, *flag) == 2
        assert f"a resumed run keeps its settings: leave out {flag[0]}" in capsys.readouterr().err
    with pytest.raises(BadInput, match="reads the date 2025-01-04, and read 2025-01-03"):
        learned = gce.load_model(str(clock), device="cpu")
        gce.resume(place, model=learned.model, iterations=3, progress=False)


def test_a_system_message_that_is_refused_is_one_line_of_warning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = "{% if messages[0]['role'] == 'system' %}{{ raise_exception('no') }}{% endif %}" + TEMPLATE
    model = write_tiny_llama(tmp_path / "model", layers=1, template=source)
    rows = tmp_path / "rows.jsonl"
    system = {"role": "system", "content": "w3"}
    rows.write_text(
        "".join(json.dumps({"prompt": [system, {"role": "user", "content": f"w{i}"}]}) + "\n" for i in range(9))
    )
    task = gce.task(rows, lambda answer, problem: False, name="briefed")
    with pytest.warns(RuntimeWarning, match="takes no system message"):
        gce.evaluate(task, str(model), n=2, max_tokens=4, device="cpu", progress=False)


def test_a_row_that_utf_8_cannot_encode_is_named_before_anything_is_asked(tmp_path: Path) -> None:
    rows = tmp_path / "rows.jsonl"
    words = [f"w{i}" for i in range(8)] + ["w\\ud83d"]
    rows.write_text("".join(f'{{"prompt": "{word}"}}\n' for word in words))
    task = gce.task(rows, lambda answer, problem: False, name="halves")
    for ask in (lambda: gce.evaluate(task, "gce-tiny", n=2), lambda: gce.train(task=task, model="gce-tiny")):
        with pytest.raises(BadInput, match=r"task halves, row 9: expected text that UTF-8 can encode.*'\\ud83d'"):
            ask()
