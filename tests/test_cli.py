"""The command line but for training: what it prints, how it exits, and what it says of bad input."""

from __future__ import annotations

import fcntl
import importlib.machinery
import io
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import unicodedata
from collections.abc import Callable
from importlib import resources
from math import comb
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import toy_task
from present import present

from gce import __version__ as version
from gce.adapters.models.scripted import ScriptedModel
from gce.app import cli
from gce.app.wiring.models import default_model
from gce.domain.baselines import resolution
from gce.domain.statistics import wilson
from gce.domain.tasks import TASKS, ProblemSource, draw_problem
from gce.domain.tasks.scheduling.answer import render
from gce.domain.tasks.scheduling.branch_and_bound import solve
from gce.errors import ModelError

TOY = ("--task", "toy_task:ADDITION")


class Ran(NamedTuple):
    """How a command ended."""

    status: int
    out: str
    err: str


Gce = Callable[..., Ran]


@pytest.fixture
def gce(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Gce:
    """Run a command in this process, with bytes on its standard input, for a wide screen."""
    monkeypatch.setenv("COLUMNS", "200")

    def run(*arguments: str | Path, stdin: bytes = b"") -> Ran:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        try:
            status = cli.main([str(argument) for argument in arguments])
        except SystemExit as stopped:
            status = int(stopped.code or 0)
        return Ran(status, *capsys.readouterr())

    return run


def one_line(ran: Ran, command: str) -> str:
    """The error of a command that refused: one line on standard error, perhaps behind a line of usage."""
    assert (ran.status, ran.out) == (2, "")
    *usage, error = ran.err.splitlines()
    assert error.startswith(f"gce {command}: "), ran.err
    assert len(usage) <= 1 and all(each.startswith(f"usage: gce {command} [options]") for each in usage), ran.err
    return error


# Help


def test_help_lists_every_command(gce: Gce) -> None:
    ran = gce("--help")
    assert ran.status == 0
    assert all(re.search(rf"\n    {name}\s", ran.out) for name in cli.COMMANDS)
    about_runs = {"ablate", "analyze", "report", "transcript", "validity", "rescore", "export", "answers", "traces"}
    about_runs |= {"geometry", "probe", "replay", "serve", "verify-run"}
    about_tasks = {"export-task", "performance", "tasks", "show", "new", "generate", "verify", "audit", "check"}
    about_tasks |= {"certify", "audit-environments"}
    others = {"train", "evaluate", "attack", "orchestrate", "critic", "plan", "power", "models", "path", "doctor"}
    others |= {"completion", "import", "serve-policy", "workflow"}
    assert set(cli.COMMANDS) == others | about_tasks | about_runs


@pytest.mark.parametrize("command", cli.COMMANDS)
def test_every_command_explains_itself_and_prints_json_for_programs(gce: Gce, command: str) -> None:
    ran = gce(command, "--help")
    assert ran.status == 0
    assert f"usage: gce {command} [options]" in ran.out
    assert "--json" in ran.out or command in ("completion", "new", "serve", "serve-policy", "show", "transcript")


@pytest.mark.parametrize("command", ["train", "evaluate", "generate", "verify", "audit", "check"])
def test_what_works_on_a_task_takes_any_task(gce: Gce, command: str) -> None:
    assert "--task" in gce(command, "--help").out
    assert "no task 'knitting'" in one_line(
        gce(command, "--task", "knitting", stdin=b'{"problem":{},"answer":""}'), command
    )


def test_an_unknown_command_or_option_exits_with_2(gce: Gce) -> None:
    assert gce("knit").status == 2
    assert gce("generate", "--colour", "red").status == 2
    assert gce().status == 2


def test_every_option_is_in_the_long_help_and_the_short_one_says_how_many_more_there_are(gce: Gce) -> None:
    for command in ("train", "evaluate", "ablate"):
        short, long = gce(command, "--help"), gce(command, "--help-all")
        options = {name for each in cli.command_parser(command)._actions for name in each.option_strings}
        shown = {name for name in options if re.search(rf"^ .*{name}\b", short.out, re.M)}
        assert short.status == long.status == 0 and len(shown) < len(options) and "--seed" in long.out
        assert all(name in long.out for name in options)
        assert re.findall(r"\{\w+\.\w+\}", long.out) == []  # settings are named by their options
        more = re.search(rf"^(\d+) more options: gce {command} --help-all$", short.out, re.M)
        assert more is not None and int(more[1]) > 5


@pytest.mark.parametrize("command", cli.COMMANDS)
def test_help_fits_a_narrow_screen(
    command: str, gce: Gce, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """But for commands in examples, which stay whole."""
    wide = gce(command, "--help").out
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit):
        cli.main([command, "--help"])
    narrow = capsys.readouterr().out
    long = [line for line in narrow.splitlines() if len(line) > 80 and not line.startswith("  ")]
    assert long == [] and "".join(narrow.split()) == "".join(wide.split())


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("trian",), "gce: there is no command 'trian'; did you mean train?"),
        (("train", "--iteratons", "3"), "gce train: unrecognized arguments: --iteratons 3; did you mean --iterations?"),
        (("train", "--lr", "3"), "gce train: unrecognized arguments: --lr 3"),
        (("train", "--bootstrap", "few"), "got 'few'; did you mean few-shot?"),
        (("train", "--algorithm", "raff"), "got 'raff'; did you mean raft?"),
        (("train", "--task", "schedulin"), "own as module:ATTR; did you mean scheduling?"),
        (("train", "--preset", "papr"), "paper-larger, sixteen, psplib-like; did you mean paper?"),
        (("train", "--recipe", "isoppo"), "choose one of gce, isopro; did you mean isopro?"),
        (("train", "--set", "lora.rnk=3"), "expected a setting, got 'lora.rnk'; did you mean lora.rank?"),
        (("train", "--set", "rank=3"), "expected a setting, got 'rank'; did you mean lora.rank?"),
    ],
)
def test_what_may_have_been_meant_is_named(gce: Gce, arguments: tuple[str, ...], said: str) -> None:
    ran = gce(*arguments)
    assert ran.status == 2 and ran.err.endswith(f"{said}\n") and ran.out == ""


@pytest.mark.slow
def test_the_version_is_printed_also_as_a_module(gce: Gce) -> None:
    assert gce("--version") == gce("-V") == Ran(0, f"gce {version}\n", "")
    ran = subprocess.run([sys.executable, "-m", "gce", "-V"], capture_output=True, text=True, timeout=60)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, f"gce {version}\n", "")


def test_bash_completes_commands_options_and_their_values(gce: Gce, tmp_path: Path) -> None:
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("there is no bash")
    script = tmp_path / "gce.bash"
    script.write_text(gce("completion", "bash").out)
    assert subprocess.run([bash, "-n", script], timeout=60).returncode == 0

    def completed(*words: str) -> list[str]:
        line = " ".join(f"'{word}'" for word in words)
        code = f"source {script}; COMP_WORDS=({line}); COMP_CWORD={len(words) - 1}; _gce; echo ${{COMPREPLY[@]}}"
        return subprocess.run([bash, "-c", code], capture_output=True, text=True, timeout=60).stdout.split()

    assert completed("gce", "tra") == ["train", "transcript", "traces"]
    assert completed("gce", "train", "--boot") == ["--bootstrap"]
    assert completed("gce", "train", "--bootstrap", "") == ["none", "few-shot"]
    assert completed("gce", "completion", "f") == ["fish"]


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_get_a_script_with_all_commands(gce: Gce, shell: str) -> None:
    out = gce("completion", shell).out
    assert all(f"{name}" in out for name in cli.COMMANDS) and "bootstrap" in out


@pytest.mark.slow
def test_people_are_told_what_to_do_next_and_programs_are_not(gce: Gce) -> None:
    audit = ("audit", *TOY, "--n", "100", "--fit", "1")
    assert gce(*audit).err.endswith(f"\nnext: gce {after_audit(' --task toy_task:ADDITION')}\n")
    assert "next:" not in gce(*audit, "--json").err
    assert gce(*audit, "--quiet").err == "", "nor that it is auditing"
    assert set(cli.NEXT) <= set(cli.COMMANDS)


def after_audit(task: str = "") -> str:
    """What is next after an audit: an evaluation where the default model is installed."""
    try:
        default_model(toy_task.ADDITION)
    except ModelError:
        return "models"
    return f"evaluate{task}"


@pytest.mark.parametrize("installed", [False, True])
def test_an_evaluation_is_next_only_where_the_default_model_is_installed(
    gce: Gce, monkeypatch: pytest.MonkeyPatch, installed: bool
) -> None:
    spec = importlib.machinery.ModuleSpec("any", None)
    monkeypatch.setattr("gce.app.wiring.models.importlib.util.find_spec", lambda _name: spec if installed else None)
    following = gce("audit", *TOY, "--n", "10", "--fit", "1").err.splitlines()[-1]
    assert following == "next: gce " + ("evaluate --task toy_task:ADDITION" if installed else "models")


@pytest.mark.parametrize("installed", [False, True])
def test_a_report_is_next_in_a_form_that_can_be_written(
    gce: Gce, files: dict[str, Path], monkeypatch: pytest.MonkeyPatch, installed: bool
) -> None:
    pytest.importorskip("safetensors")
    monkeypatch.setattr("gce.app.wiring.figures.can_draw", lambda: installed)
    sizes = ("--iterations", "1", "--problems", "3", "--rollouts", "2", "--updates", "1", "--dev", "0", "--test", "2")
    ran = gce("train", *TOY, "--model", "toy_task:careless", *sizes, "--run-dir", files["run"])
    following = hint(ran)
    assert following == ["report", str(files["run"]), *([] if installed else ["--format", "md"])]
    assert ("pip install 'grounded-eval[report]'" in ran.err) is not installed
    if not installed:
        assert gce(*following).out.startswith("# ")


def hint(ran: Ran) -> list[str]:
    """The command that it says is next, as a shell reads it; it is one that the parser takes."""
    assert ran.status in (0, 1), ran.err
    line = ran.err.splitlines()[-1]
    name, *arguments = shlex.split(line.removeprefix("next: "))
    assert line.startswith("next: ") and name == "gce"
    assert cli._parsed(arguments).command == arguments[0]
    return arguments


@pytest.fixture
def files(gce: Gce, tmp_path: Path) -> dict[str, Path]:
    """A problem and an answer to it, in files whose names a shell would split."""
    made = {name: tmp_path / f"my {name}" for name in ("problem", "answer", "answers", "run")}
    made["problem"].write_text(gce("generate", *TOY, "--tiers", "T0", "--json").out)
    made["answer"].write_text('{"text": "w1"}\n')
    return made


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "following"),
    [
        (("evaluate", *TOY, "--model", "toy_task:careless", "--n", "2"), "check"),
        (("evaluate", *TOY, "--model", "toy_task:careless", "--n", "2", "--answers", "{answers}"), "transcript"),
        (("evaluate", *TOY, "--model", "scripted:{answer}", "--n", "2"), "train"),
        (("generate", "--preset", "paper", "--tiers", "T0"), "show"),
        (("verify", *TOY, "{problem}", "{answer}"), "check"),
        (("check", *TOY, "--preset", "small", "--responses", "30", "--problems", "1"), "check"),
        (("audit", *TOY, "--preset", "small", "--n", "10", "--fit", "1"), after_audit()),
        (("models",), "doctor"),
    ],
)
def test_what_is_said_to_be_next_is_a_command_that_works(
    gce: Gce, files: dict[str, Path], command: tuple[str, ...], following: str
) -> None:
    found = hint(gce(*(word.format_map(files) for word in command)))
    assert found[0] == following and ("--preset" in found) == ("--preset" in command and found != ["models"])
    if following in ("transcript", "show", "audit", "doctor"):  # The others take long, or need a model.
        assert gce(*found).status in (0, 1)


@pytest.mark.slow
def test_a_run_is_reported_measured_and_reported_again(gce: Gce, files: dict[str, Path]) -> None:
    """As the hints say, of a task and a model of one's own; the last report has the card and says no more."""
    pytest.importorskip("safetensors")
    pytest.importorskip("matplotlib")
    sizes = ("--iterations", "1", "--problems", "3", "--rollouts", "2", "--updates", "1", "--dev", "1", "--test", "2")
    following = hint(gce("train", *TOY, "--model", "toy_task:careless", *sizes, "--run-dir", files["run"]))
    for command in ("report", "validity"):
        assert following == [command, str(files["run"])]
        following = hint(gce(*following))
    last = gce(*following)
    assert (following[0], last.status) == ("report", 0) and "next:" not in last.err
    assert hint(gce("rescore", files["run"])) == ["report", str(files["run"])]
    shown = gce("transcript", files["run"]).out.splitlines()[-1].partition(": ")[2]
    assert gce(*shlex.split(shown)[1:]).out.count("[answer]") >= 2


def test_what_show_prints_to_judge_an_answer_is_about_the_problem_that_it_showed(
    gce: Gce, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    said = gce("show", TOY[1], "--tier", "T1", "--index", "3", "--seed", "2").out
    again, judged = (line for line in said.splitlines() if "gce " in line)
    command, _, name = again.partition(": ")[2].rpartition(" > ")
    Path(name).write_text(gce(*shlex.split(command)[1:]).out)
    shown = json.loads(Path(name).read_text())["key"]
    assert said.startswith(f"--- {shown},")
    Path("answer.txt").write_text(toy_task.by_hand(ProblemSource(toy_task.ADDITION).redraw(shown), None))
    assert gce(*shlex.split(judged)[1:]).status == 0


def test_verbose_shows_where_an_error_arose(gce: Gce) -> None:
    quiet, verbose = gce("audit", "--task", "knitting"), gce("audit", "--task", "knitting", "--verbose")
    assert quiet.err.count("\n") == 1 and verbose.err.startswith("Traceback") and verbose.err.endswith(quiet.err)


# generate


def test_generate_prints_prompts_for_people(gce: Gce) -> None:
    ran = gce("generate", "--tiers", "T1", "--n", "2")
    assert ran.status == 0
    assert ran.out.count("--- scheduling/grounded/train/T1/0/") == 2
    problem = draw_problem(TASKS["scheduling"], "grounded", "T1", "train", 0)
    assert problem.prompt[0].content in ran.out


def test_generate_prints_an_object_a_line_for_programs(gce: Gce) -> None:
    ran = gce("generate", *TOY, "--n", "2", "--split", "dev", "--json")
    records = [json.loads(line) for line in ran.out.splitlines()]
    assert [record["tier"] for record in records] == ["T0", "T0", "T1", "T1", "T2", "T2"]
    assert all({"key", "prompt", "instance", "digest"} <= set(record) for record in records)
    assert {record["split"] for record in records} == {"dev"}


def test_another_seed_gives_other_problems_and_the_same_seed_the_same(gce: Gce) -> None:
    one, again, other = (gce("generate", "--tiers", "T2", "--seed", seed, "--json").out for seed in ("0", "0", "1"))
    assert one == again != other


def test_both_solvers_give_the_same_problems(gce: Gce) -> None:
    pytest.importorskip("ortools")
    exact, cpsat = (gce("generate", "--tiers", "T3", "--solver", name, "--json").out for name in ("exact", "cpsat"))
    assert exact == cpsat != ""


@pytest.mark.slow
def test_generate_does_not_load_a_model_s_backend() -> None:
    code = (
        "import sys; from gce.app.cli import main; main(['generate', '--tiers', 'T1', '--json']);"
        "print(*sorted({name.partition('.')[0] for name in sys.modules}))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    loaded = set(ran.stdout.splitlines()[-1].split())
    assert "gce" in loaded, ran.stderr
    assert not loaded & {"mlx", "mlx_lm", "ortools", "safetensors", "torch", "transformers"}


@pytest.mark.slow
def test_who_closes_the_pipe_early_sees_no_traceback() -> None:
    """As `head` does."""
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "gce.app.cli", "generate", "--tiers", "T1", "--json"]
    try:
        buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
        ran = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, timeout=120, env=buffered)
    finally:
        os.close(writing)
    assert (ran.returncode, ran.stderr) == (0, b"")


@pytest.mark.parametrize("command", ["generate", "audit", "evaluate"])
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--n", "0"), "argument --n: expected a whole number from 1 to 1"),
        (("--preset", "hard"), "has no preset 'hard': choose one of grounded, paper"),
        (("--tiers", "T1,T9"), "has no tier 'T9': choose from T0, T1"),
    ],
)
def test_unknown_names_and_numbers_are_one_line(gce: Gce, command: str, arguments: tuple[str, ...], said: str) -> None:
    assert said in one_line(gce(command, *arguments), command)


def test_without_ortools_its_extra_is_named(gce: Gce, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("ortools")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "ortools", None)
    error = one_line(gce("generate", "--solver", "cpsat"), "generate")
    assert "ortools is not installed: run  pip install 'grounded-eval[solver]'" in error


# verify


@pytest.fixture(scope="module")
def problem() -> Any:
    return draw_problem(TASKS["scheduling"], "grounded", "T1", "train", 0)


@pytest.fixture
def right(problem: Any) -> str:
    """The answer line of an optimal schedule."""
    starts = present(solve(problem.instance).starts)
    return render({label: starts[label] for label in problem.instance.labels})


@pytest.fixture
def problem_file(gce: Gce, tmp_path: Path) -> Path:
    file = tmp_path / "problem.json"
    file.write_text(gce("generate", "--tiers", "T1", "--json").out)
    return file


def test_a_generated_problem_is_verified_right_and_wrong(gce: Gce, problem_file: Path, right: str) -> None:
    answer = problem_file.with_name("answer.txt")
    answer.write_text(right + "\n")
    found = gce("verify", problem_file, answer)
    assert (found.status, found.err) == (0, "next: gce check --task scheduling\n")
    assert re.fullmatch(r"\S+ \S+: right\n", found.out)
    answer.write_text("Answer: A 0\n")
    wrong = gce("verify", problem_file, answer)
    assert wrong.status == 1
    assert ": wrong\n  " in wrong.out


def test_the_answer_or_the_problem_or_both_come_from_standard_input(gce: Gce, problem_file: Path, right: str) -> None:
    answer = problem_file.with_name("answer.txt")
    answer.write_text(right)
    data = problem_file.read_bytes()
    both = json.dumps({"problem": json.loads(data), "answer": right}).encode()
    assert gce("verify", problem_file, "-", stdin=right.encode()).status == 0
    assert gce("verify", problem_file, stdin=right.encode()).status == 0
    assert gce("verify", "-", answer, stdin=data).status == 0
    assert gce("verify", stdin=both).status == 0
    assert gce("verify", problem_file, stdin=b"Answer: none").status == 1
    assert gce("verify", stdin=both.replace(b"Answer: ", b"Reply: ")).status == 1


def test_verdicts_are_json_for_programs(gce: Gce, problem_file: Path, right: str) -> None:
    found = json.loads(gce("verify", problem_file, "--json", stdin=right.encode()).out)
    assert found["right"] is True and found["steps"] == []
    assert [verdict["status"] for verdict in found["verdicts"]] == ["right"]
    found = json.loads(gce("verify", problem_file, "--json", stdin=b"so what").out)
    assert found["right"] is False
    assert [violation["kind"] for violation in found["verdicts"][0]["violations"]] == ["missing-answer"]


def test_written_reasoning_is_judged_step_by_step(gce: Gce, problem_file: Path, right: str) -> None:
    ran = gce("verify", problem_file, "--steps", "--json", stdin=b"I guess.\n" + right.encode())
    assert ran.status == 0
    assert [step["status"] for step in json.loads(ran.out)["steps"]] == ["unreadable"]
    assert "unreadable  I guess." in gce("verify", problem_file, "--steps", stdin=b"I guess.\n" + right.encode()).out


HOSTILE = "\x1b[2J\r  rcpsp 2: right\x9b1A\u202e\u2028\u200b\x85"


def assert_nothing_unseen(ran: Ran) -> None:
    """But the ends of lines."""
    shown = (ran.out + ran.err).replace("\n", "")
    assert not {unicodedata.category(each) for each in shown} & {"Cc", "Cf", "Cs", "Co", "Zl", "Zp"}, shown


def test_what_an_answer_says_is_printed_without_what_is_not_seen(gce: Gce, problem_file: Path) -> None:
    for answer in (f"{HOSTILE}\nAnswer: {HOSTILE}", HOSTILE, f"Answer: A 0, {HOSTILE}"):
        ran = gce("verify", problem_file, "--steps", stdin=answer.encode())
        assert ran.status == 1
        assert_nothing_unseen(ran)
        assert [line for line in ran.out.split("\n") if line.lstrip().startswith("rcpsp")] == ["rcpsp 2: wrong"]


@pytest.mark.parametrize(
    "arguments",
    [
        (HOSTILE,),
        ("verify", "a\nb", "--unknown", HOSTILE),
        ("verify", "a", "b", "c\nforged: line"),
        ("generate", "--n", HOSTILE),
        ("generate", "--n", "1\nright"),
        ("generate", "--task", HOSTILE + "\nforged"),
        ("generate", "--tiers", HOSTILE + "\nforged"),
        ("verify", f"no such\nfile {HOSTILE}"),
        ("report", f"no such\nrun {HOSTILE}"),
        ("models", HOSTILE + "\nforged"),
    ],
    ids=ascii,
)
def test_what_a_user_gave_is_repeated_without_what_is_not_seen(gce: Gce, arguments: tuple[str, ...]) -> None:
    ran = gce(*arguments)
    assert ran.status == 2
    assert_nothing_unseen(ran)
    said = [line for line in ran.err.splitlines() if line.startswith("gce")]
    assert len(said) == 1 and ran.err.endswith(said[0] + "\n"), "one line behind the usage"


def test_a_task_that_cannot_say_exits_with_3(gce: Gce, tmp_path: Path) -> None:
    file = tmp_path / "problem.json"
    file.write_text(gce("generate", *TOY, "--tiers", "T0", "--json").out)
    ran = gce("verify", "--task", "toy_task:UNSURE", file, stdin=b"w1")
    assert ran == Ran(3, "sum 1: failed\n", "")
    ran = gce("verify", "--task", "toy_task:UNSURE", file, "--json", stdin=b"w1")
    assert (ran.status, json.loads(ran.out)["right"]) == (3, False)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is not JSON"),
        (b"{", "is not JSON"),
        (b"[" * 100_000, "is not JSON"),
        (b"\xff\xfe", "is not JSON"),
        (b"[]", "expected a problem as `gce generate --json` prints it"),
        (b"{}", "expected a problem as `gce generate --json` prints it"),
        (b'{"instance": 3}', "the problem's instance is not valid"),
        (b'{"instance": {"jobs": []}}', "the problem's instance is not valid"),
    ],
)
def test_what_is_no_problem_exits_with_2(gce: Gce, tmp_path: Path, content: bytes, said: str) -> None:
    file = tmp_path / "problem.json"
    file.write_bytes(content)
    assert said in one_line(gce("verify", file, stdin=b"Answer: A 0"), "verify")


def test_a_problem_that_breaks_its_own_rules_exits_with_2(gce: Gce, problem_file: Path) -> None:
    data = json.loads(problem_file.read_text())
    data["instance"]["jobs"][0]["duration"] = -1
    problem_file.write_text(json.dumps(data))
    assert "the problem's instance is not valid" in one_line(gce("verify", problem_file), "verify")


@pytest.mark.parametrize(
    "stdin", [b"", b"3", b"{}", b'{"problem": {}}', b'{"answer": "x"}', b'{"problem":{},"answer":1}']
)
def test_what_is_no_pair_on_standard_input_exits_with_2(gce: Gce, stdin: bytes) -> None:
    one_line(gce("verify", stdin=stdin), "verify")


def test_two_things_cannot_both_be_standard_input(gce: Gce) -> None:
    assert "cannot both be standard input" in one_line(gce("verify", "-", "-"), "verify")


def test_a_stream_of_answers_gets_a_verdict_for_each_line(gce: Gce, problem: Any, right: str) -> None:
    """By key, or as the problem itself; the status is that of the worst answer."""
    whole = json.loads(gce("generate", "--tiers", "T1", "--json").out)
    lines: list[Any] = [
        {"problem": problem.key, "answer": right, "id": 7},
        {"problem": whole, "answer": right},
        {"problem": whole, "answer": HOSTILE},
    ]
    ran = gce("verify", "-", stdin="\n".join(map(json.dumps, lines)).encode())
    found = [json.loads(line) for line in ran.out.splitlines()]
    assert (ran.status, ran.err) == (1, "")
    assert [(each["line"], each.get("id"), each["outcome"], each["reward"]) for each in found] == [
        (1, 7, "right", 1.0),
        (2, None, "right", 1.0),
        (3, None, "wrong", 0.0),
    ]
    assert gce("verify", "-", stdin=json.dumps(lines[0]).encode()).status == 0
    assert gce("verify", "-", stdin=b"").status == 0


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b"{", "the line is not JSON"),
        (b"\xff", "the line is not JSON"),
        (b"[" * 100_000, "nested too deeply"),
        (b"", "the line is not JSON"),
        (b"3", 'expected {"problem": ..., "answer": "..."}'),
        (b'{"problem": {}, "answer": 3}', 'expected {"problem": ..., "answer": "..."}'),
        (b'{"problem": {}, "answer": "x"}', "expected a problem as `gce generate --json` prints it"),
        (b'{"problem": "x", "answer": "x"}', "expected"),
        (b'{"problem": "scheduling/grounded/test/T9/0/0", "answer": "x"}', "expected a key of task scheduling"),
        (b'{"problem": "scheduling/grounded/test/T1/0/10000000", "answer": "x"}', "one of the first 10,000 problems"),
        (b'{"answer": "' + b"x" * 1000 + b'"}', "expected a line of at most 999 bytes"),
    ],
    ids=lambda each: str(each)[:40],
)
def test_a_malformed_line_of_a_stream_is_a_record(
    gce: Gce, problem: Any, right: str, line: bytes, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from gce.app.commands import verify

    if b"x" * 1000 in line:
        monkeypatch.setattr(verify, "MOST_OF_A_LINE", 999)
    good = json.dumps({"problem": problem.key, "answer": right}).encode()
    ran = gce("verify", "-", stdin=line + b"\n" + good + b"\n")
    first, second = map(json.loads, ran.out.splitlines())
    assert ran.status == 2 and first["line"] == 1 and said in first["error"] and "\n" not in first["error"]
    assert second["line"] == 2 and second["right"] is True


@pytest.mark.slow
def test_verdicts_stream_as_answers_come(problem: Any, right: str) -> None:
    """Each before the next answer is there, as a program at the other end of the pipe needs it."""
    line = json.dumps({"problem": problem.key, "answer": right}) + "\n"
    with subprocess.Popen(
        [sys.executable, "-m", "gce", "verify", "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdin is not None and child.stdout is not None
        for number in (1, 2):
            child.stdin.write(line)
            child.stdin.flush()
            assert json.loads(child.stdout.readline())["line"] == number
        child.stdin.close()
    assert child.returncode == 0


def test_a_file_that_is_absent_or_a_directory_exits_with_2(gce: Gce, tmp_path: Path, problem_file: Path) -> None:
    assert "cannot read" in one_line(gce("verify", tmp_path / "nothing.json"), "verify")
    assert "cannot read" in one_line(gce("verify", tmp_path), "verify")
    assert "cannot read" in one_line(gce("verify", problem_file, tmp_path / "nothing.txt"), "verify")


@pytest.mark.parametrize("answer", [b"\xff\xfe\x00", b"Answer: \xed\xa0\x80 1", b"\x00", "Answer: Ⅷ 1".encode()])
def test_any_bytes_are_an_answer_and_a_wrong_one(
    gce: Gce, problem_file: Path, answer: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Printed to a strict UTF-8 stream, as a pipe is."""
    printed = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(printed, encoding="utf-8"))
    assert gce("verify", problem_file, "--steps", stdin=b"Look:\n" + answer).status == 1
    assert "wrong" in printed.getvalue().decode("utf-8")


# audit


def test_the_audit_of_an_own_task_prints_rows_and_passes_within_its_limits(gce: Gce) -> None:
    """Always 0 is right in 1/2, 1/3 and 1/5 of the tiers, whose limits are 0.9, 0.7 and 0.5."""
    ran = gce("audit", *TOY, "--n", "100", "--fit", "1")
    assert ran.status == 0
    assert "always 0" in ran.out and "adds" in ran.out and "n = 100 a tier" in ran.out
    assert "above the limit" not in ran.out
    concluded = "Only accuracy above the best one is more than guessing. Next: measure a model (gce evaluate).\n"
    assert concluded in ran.out


def test_a_blind_answer_above_its_limit_is_named_and_exits_with_1(gce: Gce) -> None:
    """With n = 1 the upper bound is at least 79 %, even of none right."""
    ran = gce("audit", *TOY, "--n", "1", "--fit", "1", "--tiers", "T2")
    assert ran.status == 1
    assert "above the limit of 50 %: always 0 on T2, upper bound" in ran.out
    assert "Next: give the answers named below less credit, or ask questions that they do not fit" in ran.out
    assert "points, and no baseline can be shown to be below the limit of 50 %: n must be at least 4" in ran.out


def test_the_audit_says_what_so_many_problems_can_tell(gce: Gce) -> None:
    """The limit of T2 is 50 %: of 20 problems, 5 right have an upper bound of 46.9 %, and 6 of 51.9 %."""
    assert (round(wilson(5, 20).high, 3), round(wilson(6, 20).high, 3)) == (0.469, 0.519)
    assert resolution(20, 0.5).most_right == 5
    out = gce("audit", *TOY, "--n", "20", "--fit", "1", "--tiers", "T2").out
    assert (
        "T2: with n = 20 the 95 % interval of an accuracy is at most +-20.1 points, and a baseline with an accuracy of "
        "20.1 % or less passes the limit of 50 % with 80 % power" in out
    )
    out = gce("audit", "--n", "12", "--fit", "1", "--tiers", "T0", "--preset", "paper").out
    assert (
        "T0: with n = 12 the 95 % interval of an accuracy is at most +-24.6 points, and two accuracies 57 points apart "
        "differ significantly with 80 % power" in out
    ), "2.8 (0.5 / 12)^0.5 = 0.572"


@pytest.mark.parametrize(("n", "limit"), [(1, 0.1), (20, 0.5), (100, 0.25), (500, 0.1), (10, 1.0)])
def test_what_an_audit_can_tell_is_what_binomial_chances_say(n: int, limit: float) -> None:
    found = resolution(n, limit)
    assert found.most_right == max((k for k in range(n + 1) if wilson(k, n).high <= limit), default=-1)
    assert wilson(0, found.needed).high <= limit and (found.needed == 1 or wilson(0, found.needed - 1).high > limit)

    def passing(rate: float) -> float:
        return sum(comb(n, k) * rate**k * (1 - rate) ** (n - k) for k in range(found.most_right + 1))

    if 0 <= found.most_right < n:
        assert passing(found.passes) >= 0.8 > passing(found.passes + 0.001)
    else:
        assert found.passes == float(found.most_right == n)
    least = next((k for k in range(n + 1) if wilson(k, n).low > limit), n + 1)

    def failing(rate: float) -> float:
        return sum(comb(n, k) * rate**k * (1 - rate) ** (n - k) for k in range(least, n + 1))

    if found.fails is None:
        assert least == n + 1
    else:
        assert failing(found.fails) >= 0.8 - 1e-9 and failing(found.fails - 0.001) < 0.8 + 1e-9


def test_the_audit_is_json_for_programs(gce: Gce) -> None:
    found = json.loads(gce("audit", *TOY, "--n", "5", "--fit", "1", "--json").out)
    assert set(found) == {"task", "preset", "blind", "heuristics", "above_limit"}
    assert [(row["policy"], row["tier"], row["share"]["correct"]) for row in found["heuristics"]] == [
        ("adds", "T0", 5),
        ("adds", "T1", 5),
        ("adds", "T2", 5),
    ]


def test_a_task_without_blind_answers_can_be_audited(gce: Gce) -> None:
    assert gce("audit", "--task", "toy_task:PLAIN", "--n", "1", "--fit", "1").status == 0


def test_scheduling_is_audited_by_tier_and_subtype(gce: Gce) -> None:
    found = json.loads(gce("audit", "--n", "8", "--fit", "4", "--tiers", "T0,T4", "--json").out)
    groups = {row["group"] for row in found["blind"]}
    assert {"T0", "T4"} <= groups
    assert any(group.startswith("T4 ") and "+" in group for group in groups)
    assert found["task"] == "scheduling" and found["heuristics"]


# check


@pytest.mark.slow
def test_check_attacks_a_task_and_finds_nothing_in_a_sound_one(gce: Gce) -> None:
    ran = gce("check", *TOY, "--accepts", "toy_task:accepts", "--responses", "300", "--problems", "2")
    assert (ran.status, ran.err) == (0, "next: gce evaluate --task toy_task:ADDITION\n")
    assert ran.out.startswith("addition/small: 1")
    assert "wrong generated responses judged right: 0 of 300, at most 1.2643 % (95 %)" in ran.out


@pytest.mark.slow
def test_check_exits_with_1_where_it_found_something(gce: Gce) -> None:
    """Any word of the response may be the answer."""
    faulty = ("--task", "toy_task:FORGIVING", "--accepts", "toy_task:accepts")
    ran = gce("check", *faulty, "--responses", "300", "--problems", "2", "--json")
    report = json.loads(ran.out)
    assert (ran.status, report["ok"], report["exploits"]["n"]) == (1, False, 300)
    assert {"hedging", "exploits"} <= set(report["found"])
    assert report["exploits"]["correct"] > 0


@pytest.mark.slow
def test_check_judges_shipped_tasks_twice_and_others_when_told_how(gce: Gce) -> None:
    shipped = json.loads(gce("check", "--problems", "1", "--responses", "60", "--preset", "paper", "--json").out)
    assert (shipped["exploits"]["n"], shipped["not_checked"]) == (60, shipped["not_checked"][:1])
    own = json.loads(gce("check", *TOY, "--problems", "1", "--json").out)
    assert any(reason.startswith("exploits: responses that may be right") for reason in own["not_checked"])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--problems", "0"), "argument --problems: expected a whole number from 1 to 10,000, got '0'"),
        (("--responses", "-1"), "argument --responses: expected a whole number from 0 to 10,000,000, got '-1'"),
        (("--seconds", "0"), "argument --seconds: expected a finite number above 0 and at most 86,400, got '0'"),
        (("--preset", "hard"), "has no preset 'hard'"),
        (("--accepts", "toy_task:nothing"), "has no 'nothing' (given as the judge"),
        (("--accepts", "toy_task:MODULI"), "toy_task:MODULI is dict, expected a function (problem, text) -> bool"),
    ],
)
def test_check_says_in_one_line_what_it_cannot_take(gce: Gce, arguments: tuple[str, ...], said: str) -> None:
    assert said in one_line(gce("check", *arguments), "check")


# path


def test_path_prints_where_the_shipped_model_lies(gce: Gce, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resources, "files", lambda package: tmp_path)
    assert "the shipped model is missing" in one_line(gce("path"), "path")
    folder = tmp_path / "data" / "gce-tiny"
    folder.mkdir(parents=True)
    (folder / "model.safetensors").touch()
    assert gce("path") == Ran(0, f"{folder}\n", "")
    assert json.loads(gce("path", "--json").out) == {"path": str(folder)}


# evaluate


COUNTED: list[str] = []


def tight(_config: Any, _task: Any) -> ScriptedModel:
    """A model that has no room for the longer prompts."""
    return ScriptedModel(lambda _request: "w1", context=17)


def counting(config: Any, task: Any) -> Any:
    """A careless model that notes what it was asked."""
    model = toy_task.careless(config, task)
    answer = model._answer

    def noted(request: Any) -> str:
        COUNTED.append(request.key)
        return answer(request)

    model._answer = noted
    return model


SCRIPTED = ("--model", "toy_task:careless")


def test_evaluate_prints_a_table_beside_blind_answers_and_heuristics(gce: Gce) -> None:
    ran = gce("evaluate", *TOY, *SCRIPTED, "--n", "30")
    assert ran.status == 0
    head, columns, _, model, blind, adds, conclusion = ran.out.splitlines()
    assert conclusion.startswith("A prompt-blind baseline ignores the problem, or copies from it. Only accuracy above")
    assert "toy_task:careless on addition/small, test problems" in head and "n = 30 a tier" in head
    assert columns.split()[:2] == ["T0", "T1"] and "T2, held out" in columns
    assert model.startswith("zero-shot  ")
    assert blind.startswith("best prompt-blind")
    assert adds.split()[:2] == ["adds", "100"]


def test_evaluate_is_json_for_programs_and_writes_every_answer(gce: Gce, tmp_path: Path) -> None:
    file = tmp_path / "answers.jsonl"
    ran = gce("evaluate", *TOY, *SCRIPTED, "--n", "4", "--tiers", "T2", "--answers", file, "--json")
    found = json.loads(ran.out)
    assert set(found) == {"modes", "floors", "heuristics", "n", "split"}
    tiers = found["modes"]["zero-shot"]["tiers"]
    assert set(tiers) == {"T2"} and tiers["T2"]["n"] == 4
    head, *answers = [json.loads(line) for line in file.read_text().splitlines()]
    assert head["evaluation"]["n"] == 4 and head["evaluation"]["tiers"] == ["T2"]
    assert sum(answer["right"] for answer in answers) == tiers["T2"]["correct"]
    assert {(answer["mode"], answer["tier"], answer["replies"]) for answer in answers} == {("zero-shot", "T2", 1)}
    for answer in answers:
        (attempt,) = answer["attempts"]
        assert attempt["prompt"] and attempt["verdicts"] and attempt["right"] == answer["right"]


def test_modes_is_another_name_of_strategies_which_may_be_one_s_own(gce: Gce) -> None:
    names = "multi-turn,own_strategies:BRIEF"
    shown = []
    for option in ("--strategies", "--modes"):
        ran = gce("evaluate", *TOY, *SCRIPTED, "--n", "4", option, names, "--json")
        found = json.loads(ran.out)["modes"]
        shown.append({name: {**each, "seconds": 0.0} for name, each in found.items()})
    assert shown[0] == shown[1] and list(shown[0]) == names.split(",")
    assert shown[0]["own_strategies:BRIEF"]["attempts"] is None and shown[0]["multi-turn"]["attempts"]["used"] > 1
    told = gce("evaluate", "--help-all").out
    assert "--strategies NAME,..." in told and "alias of --strategies" in told


def test_intervals_are_made_by_the_method_asked_for(gce: Gce) -> None:
    """Those of rates, attempts, reference rows and pass@k; counts and means stay."""
    arguments = ("evaluate", *TOY, *SCRIPTED, "--n", "6", "--modes", "multi-turn", "--json")
    plain, exact = (json.loads(gce(*arguments, "--interval", each).out) for each in ("wilson", "clopper-pearson"))
    assert plain == {**json.loads(gce(*arguments).out), "modes": plain["modes"]}
    for one, other in (
        (plain["modes"]["multi-turn"]["tiers"]["T0"], exact["modes"]["multi-turn"]["tiers"]["T0"]),
        (plain["modes"]["multi-turn"]["attempts"]["first"], exact["modes"]["multi-turn"]["attempts"]["first"]),
        (plain["floors"]["always 0"]["T1"], exact["floors"]["always 0"]["T1"]),
    ):
        assert (one["correct"], one["n"]) == (other["correct"], other["n"])
        assert (one["low"], one["high"]) != (other["low"], other["high"])
    assert plain["modes"]["multi-turn"]["mean"] == exact["modes"]["multi-turn"]["mean"]
    samples = ("evaluate", *TOY, *SCRIPTED, "--n", "3", "--samples", "2", "--temperature", "1", "--json")
    one, other = (
        json.loads(gce(*samples, "--interval", each).out)["pass_at"]["pass@1"]["T2"]
        for each in ("wilson", "clopper-pearson")
    )
    assert one["value"] == other["value"] and one["high"] != other["high"]


def test_an_evaluation_goes_on_where_it_was_cut_off(gce: Gce, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut in the middle of a line, in the second of three modes: what is there is not asked again, the rest is."""
    modes = ("--modes", "zero-shot,few-shot,multi-turn", "--n", "3", "--tiers", "T0")
    task = ("--task", "toy_task:WORKED", "--preset", "small", "--model", "test_cli:counting")
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    COUNTED.clear()
    expected = json.loads(gce("evaluate", *task, *modes, "--answers", whole, "--json").out)
    all_asked = len(COUNTED)
    lines = whole.read_bytes().splitlines(keepends=True)
    cut.write_bytes(b"".join(lines[:5]) + lines[5][:20])
    COUNTED.clear()
    found = json.loads(gce("evaluate", *task, *modes, "--answers", cut, "--json").out)
    assert len(COUNTED) == all_asked - 4
    for mode in found["modes"].values():
        mode.pop("seconds")
    for mode in expected["modes"].values():
        mode.pop("seconds")
    assert found == expected
    COUNTED.clear()
    gce("evaluate", *task, *modes, "--answers", cut)
    assert not COUNTED, "all is there"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("no answers\n", "line 1 of .* is no answer of an evaluation"),
        ('{"evaluation": {}}\n', "has answers of another evaluation: its adapter is None, not ''"),
        ("[]\n", "line 1 of .* is no answer"),
        ("one line without an end", "line 1 of .* is no answer"),
        ("[" * 100_000 + "\n", "line 1 of .* is no answer"),
    ],
)
def test_a_file_of_something_else_is_left_as_it_is(gce: Gce, tmp_path: Path, content: str, said: str) -> None:
    file = tmp_path / "answers"
    file.write_text(content)
    assert re.search(said, one_line(gce("evaluate", *TOY, *SCRIPTED, "--n", "2", "--answers", file), "evaluate"))
    assert file.read_text() == content


def test_answers_of_another_evaluation_are_not_mixed_in(gce: Gce, tmp_path: Path) -> None:
    file = tmp_path / "answers"
    arguments = ("evaluate", *TOY, *SCRIPTED, "--answers", file)
    gce(*arguments, "--n", "2")
    before = file.read_text()
    assert "its n is 2, not 3" in one_line(gce(*arguments, "--n", "3"), "evaluate")
    assert file.read_text() == before
    script = tmp_path / "script.jsonl"
    scripted = ("evaluate", *TOY, "--model", f"scripted:{script}", "--n", "2", "--answers", tmp_path / "others")
    script.write_text('{"text": "w1"}')
    gce(*scripted)
    script.write_text('{"text": "w2"}')
    assert "its policy is" in one_line(gce(*scripted), "evaluate"), "another model under the same name"


def test_several_samples_of_a_problem_give_pass_at_k(gce: Gce) -> None:
    """About two of three samples are right: pass@8 is near 1, and its interval is that of 30 problems."""
    arguments = ("evaluate", *TOY, *SCRIPTED, "--n", "30", "--samples", "9", "--temperature", "1")
    found = json.loads(gce(*arguments, "--json").out)
    assert set(found) == {"pass_at", "samples", "temperature", "n", "tiers", "coverage", "split"} and set(
        found["pass_at"]
    ) == {
        "pass@1",
        "pass@8",
    }
    one, eight = found["pass_at"]["pass@1"]["T0"], found["pass_at"]["pass@8"]["T0"]
    assert one["low"] < 2 / 3 < one["high"] and one["high"] - one["low"] > 0.2
    assert eight["value"] > 0.99
    assert [line.split()[0] for line in gce(*arguments).out.splitlines()[3:]] == ["pass@1", "pass@8"]


def test_samples_whose_prompt_does_not_fit_are_said(gce: Gce) -> None:
    arguments = ("evaluate", *TOY, "--model", "test_cli:tight", "--n", "5", "--samples", "2", "--temperature", "1")
    ran = gce(*arguments)
    (said,) = [line for line in ran.out.splitlines() if "context" in line]
    assert (
        said.startswith("zero-shot: ") and " of 30 did not fit into the model's context and count as wrong; T" in said
    )
    found = json.loads(gce(*arguments, "--json").out)
    assert sum(share["n"] for share in found["tiers"].values()) == 30 and found["coverage"] == 1.0


def test_two_evaluations_do_not_write_one_file(gce: Gce, tmp_path: Path) -> None:
    file = tmp_path / "answers"
    arguments = ("evaluate", *TOY, *SCRIPTED, "--n", "2", "--answers", file)
    gce(*arguments)
    before = file.read_bytes()
    with file.open("a") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        assert "another evaluation writes" in one_line(gce(*arguments), "evaluate")
    assert file.read_bytes() == before
    assert gce(*arguments).status == 0


@pytest.mark.slow
def test_a_disk_that_is_full_ends_an_evaluation_in_one_line_and_keeps_what_it_has(tmp_path: Path) -> None:
    code = (
        "import resource, sys; from gce.app.cli import main; "
        "resource.setrlimit(resource.RLIMIT_FSIZE, (3000, 3000)); sys.exit(main(sys.argv[1:]))"
    )
    arguments = ["evaluate", *TOY, *SCRIPTED, "--n", "5", "--answers", "answers"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])}
    ran = subprocess.run(
        [sys.executable, "-c", code, *arguments], env=environment, cwd=tmp_path, capture_output=True, text=True
    )
    assert (ran.returncode, ran.stderr.count("\n")) == (2, 1), ran.stderr
    assert "cannot write answers: File too large; what it has so far is kept" in ran.stderr
    whole = (tmp_path / "answers").read_bytes().rpartition(b"\n")[0].splitlines()
    assert len([json.loads(line) for line in whole]) > 1


def test_evaluate_repeats_and_another_split_has_other_problems(gce: Gce, tmp_path: Path) -> None:
    def prompts(split: str, name: str) -> list[Any]:
        gce("evaluate", *TOY, *SCRIPTED, "--n", "3", "--split", split, "--answers", tmp_path / name, "--json")
        lines = (tmp_path / name).read_text().splitlines()[1:]
        return [json.loads(line)["attempts"][0]["prompt"] for line in lines]

    assert prompts("test", "one") == prompts("test", "other") != prompts("dev", "third")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--model", "toy_task:MODULI"), "expected a function"),
        ((*SCRIPTED, "--samples", "0"), "argument --samples: expected a whole number from 1 to 10,000, got '0'"),
        ((*SCRIPTED, "--modes", "zero-shot,twice"), "argument --modes: expected one of 52 names, such as"),
        ((*SCRIPTED, "--strategies", "zero-shot,twice"), "argument --strategies: expected one of 52 names, such as"),
        ((*SCRIPTED, "--strategies", "own_strategies:OWN"), "own_strategies:OWN is tuple, expected a gce.Strategy"),
        ((*SCRIPTED, "--strategies", "own_strategies:DEBATE"), "needs a model for the role 'opponent', got none"),
        ((*SCRIPTED, "--strategies", "trained-own_strategies:BRIEF"), "strategy trained-own_strategies:BRIEF needs"),
        ((*SCRIPTED, "--interval", "wald"), "argument --interval: expected one of wilson, clopper-pearson, got 'wald'"),
        ((*SCRIPTED, "--modes", "trained"), "strategy trained needs --adapter"),
        ((*SCRIPTED, "--modes", "simulate", "--adapter", "x"), "--adapter is used only by the strategies trained"),
        ((*SCRIPTED, "--modes", "few-shot"), "task addition has 0 demonstrations of T0, expected 3"),
        (
            (*SCRIPTED, "--modes", "zero-shot,simulate", "--samples", "2", "--temperature", "1"),
            "--samples above 1 needs a single strategy",
        ),
        ((*SCRIPTED, "--samples", "2"), "--samples above 1 needs --temperature above 0"),
        (
            (*SCRIPTED, "--max-tokens", "0"),
            "argument --max-tokens: expected a whole number from 1 to 1,000,000, got '0'",
        ),
        (
            (*SCRIPTED, "--temperature", "-1"),
            "argument --temperature: expected 0, or a finite number from 1e-06 to 100, got '-1'",
        ),
        ((*SCRIPTED, "--threads", "0"), "argument --threads: expected a whole number from 1 to 1,024, got '0'"),
        ((*SCRIPTED, "--adapter", "no/such/folder"), "cannot read no/such/folder/adapters.safetensors"),
        ((*SCRIPTED, "--answers", "no/such/folder/answers"), "no/such/folder is no directory"),
    ],
)
def test_evaluate_refuses_in_one_line(gce: Gce, arguments: tuple[str, ...], said: str) -> None:
    assert said in one_line(gce("evaluate", *TOY, *arguments), "evaluate")


# errors


def test_an_interrupt_is_one_line_and_exits_with_130(gce: Gce, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("gce.app.commands.path.shipped_model_path", interrupted)
    assert gce("path") == Ran(130, "", "\ngce path: interrupted\n")
