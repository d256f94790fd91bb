"""What options take: a walk over every option of every command with values that none of them means."""

from __future__ import annotations

import argparse
import importlib
import math
import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gce.app import cli
from gce.app.cli import main
from gce.app.options import (
    MOST_LISTED,
    NAME,
    NAMES,
    PATH,
    SECONDS,
    SEED,
    SEEDS,
    SHARE,
    SHARE_BELOW_1,
    TEMPERATURE,
    ByName,
    Choice,
    ChoiceOrOwn,
    ChoiceOrShare,
    Count,
    Kind,
    Listed,
    ModelSize,
    Name,
    Number,
    PathName,
    Readable,
    Weighted,
    refusal,
)
from gce.app.parser import Parser
from gce.app.settings.config_file import Assignment
from gce.app.settings.records import all_settings
from gce.app.settings.values import with_recipe
from gce.app.wiring.names import find_strategy
from gce.errors import BadInput

NO_NUMBERS = [
    *("nan", "NaN", "-nan", "inf", "-inf", "Infinity", "1e400", "-1e400", "1e99999"),
    *("-1", "-0.5", "99999999999999999999", "1" + "0" * 400, "1" + "0" * 4999, "0x10", "1_0", "True", "1;5", "1e"),
    *("٣", "１", "५.०", "½", " 1", "1 ", "1\n", "+-1", "--1"),
]
"""What no option that is a number takes."""
NO_TEXT = ["", " ", "\t\n", "\0", "a\0b", "a\nb", "\x1b[31m", "\x7f", "x" * 5000, "é" * 2048, "a/" * 2500, "\ud800"]
"""What no option at all takes."""


@cache
def parser_of(command: str) -> Parser:
    return cli.command_parser(command)


def options() -> Iterator[tuple[str, argparse.Action]]:
    """Every option and argument of every command that takes a value."""
    for command in cli.COMMANDS:
        for action in parser_of(command)._actions:
            if action.nargs != 0:
                yield command, action


ALL = [pytest.param(*each, id=f"{each[0]} {(each[1].option_strings or [each[1].dest])[0]}") for each in options()]


def line(command: str, action: argparse.Action, value: str) -> list[str]:
    """A command line with this value, and something for what else has to be there."""
    others = [each for each in parser_of(command)._actions if each.required and each.dest != action.dest]
    given = [part for each in others for part in ((*each.option_strings, *(each.choices or ["there"]))[:2])]
    return [command, *given, f"{action.option_strings[0]}={value}" if action.option_strings else value]


def refuses(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> bool:
    """Whether the command refuses, which it does in one short line."""
    status = cli.main(arguments)
    out, err = capsys.readouterr()
    if status == 2:
        *usage, error = err.splitlines()
        assert out == "" and error.startswith(f"gce {arguments[0]}: "), err
        assert len(usage) <= 1 and all(each.startswith(f"usage: gce {arguments[0]} [options]") for each in usage), err
        assert len(err) < 1200 and "Traceback" not in err
    return status == 2


def test_the_walk_sees_the_options() -> None:
    names = {each.id for each in ALL}
    assert {"train --temperature", "ablate --dir", "evaluate --modes", "verify problem", "report runs"} <= names
    assert len(names) == len(ALL) > 110


@pytest.mark.parametrize(("command", "action"), ALL)
def test_every_option_with_a_value_has_a_kind_that_takes_its_default(command: str, action: argparse.Action) -> None:
    kind = action.type
    kinds = (Assignment, ByName, Choice, ChoiceOrOwn, ChoiceOrShare, Count, Listed, Name, Number, Readable)
    assert isinstance(kind, kinds), "an option without bounds"
    assert action.nargs in (None, "?", "+", "*"), "several values are one argument, with commas"
    if action.default not in (None, (), argparse.SUPPRESS) and action.default != []:
        assert kind.takes(action.default)
    if isinstance(kind, Choice):
        assert action.choices == kind.names, "which --help lists"


@pytest.mark.parametrize(("command", "action"), ALL)
def test_no_option_takes_what_it_cannot_mean(
    command: str,
    action: argparse.Action,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """Refused before the command begins, which would fail the test; and nothing is written."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        importlib.import_module(f"gce.app.commands.{command.replace('-', '_')}"), "run", lambda _arguments: 0
    )
    values = [*NO_TEXT]
    if not isinstance(action.type, (Name, Weighted)) and action.type != NAMES:
        values += NO_NUMBERS
    if isinstance(action.type, Listed):
        values += [",", "T0,", ",T0", "T0,,T1", "T0,T0", "1,1", ",".join(map(str, range(1001)))]
    if not action.option_strings:
        values = [value for value in values if not value.startswith("-")]  # Which reads as an option.
    for value in values:
        with pytest.raises(BadInput) as caught:
            print(f"{value!r:.50}", parser_of(command).parse_args(line(command, action, value)[1:]))
        said = str(caught.value)
        assert len(said.splitlines()) == 1 and len(said) < 1100 and ": expected " in said and ", got " in said, said
    assert refuses(capsys, line(command, action, values[-1]))
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("value", ["٣", "nan", "--", "x" * 300, "a/" * 200, "/dev/null"])
@pytest.mark.parametrize(
    ("command", "action"),
    [
        each
        for each in ALL
        if isinstance(each.values[1].type, Name)  # type: ignore[union-attr]
        and each.values[0] not in ("ablate", "new")
        and each.id
        not in ("serve --allow-host", "serve-policy --allow-host")  # Names of other machines, which only clients say.
    ],
)
def test_a_name_that_names_nothing_is_one_line_and_nothing_is_written(
    command: str,
    action: argparse.Action,
    value: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """Each command is run, without a model that could answer; a name too long for the disk is refused by the system."""
    monkeypatch.chdir(tmp_path)
    if value == "--" and action.nargs == "?":
        pytest.skip("ends the options and leaves out the argument")
    arguments = line(command, action, value)
    if command == "audit-environments" and action.dest != "only":
        arguments += ["--only", "nothing"]
    if command in ("train", "evaluate", "attack", "orchestrate") and action.dest != "model":
        arguments += ["--model", "scripted:nothing"]
    if command == "check" and action.dest != "task":
        arguments += ["--task", "nothing"]
    if command in ("generate", "audit") and action.dest != "preset":
        arguments += ["--preset", "nothing"]
    if command == "power":
        arguments += ["--base", "1", "--gain", "1"]
    assert refuses(capsys, arguments)
    assert os.listdir(tmp_path) == []


def test_several_values_have_one_syntax(capsys: pytest.CaptureFixture[str]) -> None:
    """Commas, as in --seeds; who writes blanks is told."""
    for arguments in (["generate", "--tiers", "T0", "T1"], ["traces", "there", "--tiers", "T0", "T1"]):
        assert cli.main(arguments) == 2
        assert "unrecognized arguments: T1; several values are one argument, as T0,T1\n" in capsys.readouterr().err
    assert cli.main(["generate", "--tiers", "T0,T1", "--json"]) == 0
    assert capsys.readouterr().out.count("\n") == 2


# Kinds


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (SEED, "0", 0),
        (ModelSize(), "7b", 7e9),
        (ModelSize(), "135M", 135e6),
        (SEED, "+7", 7),
        (SEED, "007", 7),
        (SEED, str(2**63 - 1), 2**63 - 1),
        (SHARE, "1", 1.0),
        (SHARE, ".5", 0.5),
        (SHARE, "5e-1", 0.5),
        (SHARE_BELOW_1, "0.999", 0.999),
        (TEMPERATURE, "0", 0.0),
        (TEMPERATURE, "1e-6", 1e-6),
        (NAME, "./my model", "./my model"),
        (PATH, "a/b", Path("a/b")),
        (NAMES, "T0,T1", ("T0", "T1")),
        (SEEDS, "42", (42,)),
    ],
)
def test_what_a_kind_takes(kind: Kind, text: str, value: object) -> None:
    found = kind(text)
    assert found == value and type(found) is type(value)


def test_a_list_says_which_member_is_wrong() -> None:
    for kind, text, said in (
        (NAMES, "T0,,T1", "expected a value before and after each comma, got 'T0,,T1'"),
        (NAMES, "T0,T1,T0", "expected different values, got 'T0' twice"),
        (SEEDS, "1,01", "expected different values, got '01' twice"),
        (SEEDS, "1,x", "got 'x'"),
    ):
        with pytest.raises(argparse.ArgumentTypeError, match=said):
            kind(text)


def test_minus_zero_is_zero() -> None:
    assert math.copysign(1.0, TEMPERATURE("-0")) == 1.0


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (SEED, str(2**63)),
        (SHARE, "1.0000001"),
        (SHARE_BELOW_1, "1"),
        (SECONDS, "0"),
        (SECONDS, "86401"),
        (TEMPERATURE, "1e-300"),
        (TEMPERATURE, "101"),
    ],
)
def test_what_lies_beyond_a_bound_is_refused_and_the_bound_is_said(kind: Kind, text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match=r"expected .* (from|above) .*, got"):
        kind(text)


@pytest.mark.parametrize(
    "value",
    [10**5000, -(10**400), "x" * 10**6, [[0] * 1000] * 1000, float("nan"), None],
    ids=lambda value: type(value).__name__,
)
def test_a_refusal_is_short_whatever_came(value: object) -> None:
    said = refusal(SEED, value)
    assert len(said) < 200 and "\n" not in said


def test_a_refusal_lists_a_few_names_and_of_many_the_nearest_and_the_command_that_lists_all() -> None:
    few, many = tuple("abc"), (*(f"name-{number}" for number in range(MOST_LISTED)), "scripted")
    assert refusal(Choice(few), "d") == "one of a, b, c, got 'd'"
    kind = ChoiceOrOwn(many, listed_by="gce tasks")
    assert (
        refusal(kind, "scriptd")
        == "one of 13 names, such as scripted (gce tasks lists all), or your own as module:ATTR, got 'scriptd'"
    )
    first = "one of 13 names, such as name-0, name-1, name-2, got "
    assert refusal(Choice(many), 17) == f"{first}17" and refusal(Choice(many), "?") == f"{first}'?'"
    with pytest.raises(argparse.ArgumentTypeError, match=r"^expected one of 13 names, .*; did you mean scripted\?$"):
        kind("scriptd")
    with pytest.raises(BadInput, match=r"^no strategy 'jugde': choose one of 26 names, such as judge.* lists all"):
        find_strategy("jugde")
    assert find_strategy("judge").name == "judge"


def test_every_long_choice_says_which_command_lists_all(capsys: pytest.CaptureFixture[str]) -> None:
    kinds: list[Any] = [*(each.kind for each in all_settings().values()), *(each.type for _, each in options())]
    kinds = [getattr(each, "item", each) for each in kinds]
    long = {each for each in kinds if len(getattr(each, "names", ())) > MOST_LISTED}
    assert len(long) >= 3
    for command, names in {(each.listed_by, each.names) for each in long}:
        with pytest.raises(SystemExit):
            main(command.split()[1:])
        shown = "".join(capsys.readouterr().out.split())
        assert not [name for name in names if name.removeprefix("trained-").replace(" ", "") not in shown]


@pytest.mark.slow
@given(st.text() | st.floats().map(repr) | st.integers().map(str))
def test_a_kind_reads_text_or_refuses_it_and_takes_what_it_read(text: str) -> None:
    for kind in (SEED, SHARE, TEMPERATURE, NAME, NAMES, SEEDS, Choice(("a", "b"))):
        try:
            value = kind(text)
        except argparse.ArgumentTypeError as error:
            assert "\n" not in str(error)
        else:
            assert kind.takes(value)
            assert not isinstance(value, float) or math.isfinite(value)


# Settings have the bounds of their options


SETTINGS = {name: each for name, each in all_settings().items() if not each.is_switch}


@pytest.mark.parametrize("name", [name for name in SETTINGS if name != "rollouts.problems_by_tier"])
@pytest.mark.parametrize(
    "value", [float("nan"), float("inf"), -1, True, 10**20, 10**400, b"1", "\0", "x" * 5000, [], {}, ("a", "a"), ("",)]
)
def test_a_setting_of_a_python_caller_has_the_bounds_of_its_option(name: str, value: object) -> None:
    default = SETTINGS[name].default
    if (type(value) is type(default) and value == default) or (default == () and value == []):
        return
    if name == "model.chat_template_kwargs" and value == {}:  # No arguments.
        return
    with pytest.raises(BadInput, match=f"^{name} must be") as caught:
        with_recipe("gce", {name: value})
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 400


@pytest.mark.parametrize("value", [{}, {"T0": 0}, {"T0": 1.5}, {"": 1}, {1: 1}, [1], {"T0": 10**20}, {"T0": True}])
def test_numbers_of_problems_by_tier_are_checked_too(value: object) -> None:
    with pytest.raises(BadInput, match=r"^rollouts\.problems_by_tier must"):
        with_recipe("isopro", {"rollouts.problems_by_tier": value})


@pytest.mark.parametrize("name", [name for name, each in all_settings().items() if each.is_switch])
def test_a_switch_is_true_or_false(name: str) -> None:
    with pytest.raises(BadInput, match=f"^{name} must be true or false, got 'no'"):
        with_recipe("gce", {name: "no"})


def test_answers_in_memory_together_are_bounded_though_each_count_is_allowed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(BadInput, match=r"must be at most 1,000,000 answers per iteration, got 100,000,000"):
        with_recipe("gce", {"rollouts.problems": 10_000, "rollouts.samples": 10_000})
    assert refuses(capsys, ["evaluate", "--n", "10000", "--samples", "10000", "--temperature", "1"])


@pytest.mark.parametrize(("command", "action"), [each for each in ALL if each.values[0] in ("train", "evaluate")])
def test_an_option_that_is_a_setting_has_its_kind(command: str, action: argparse.Action) -> None:
    own = {"evaluate": {"--preset", "--adapter", "--n", "--precision"}, "train": set()}
    flags = {each.flag: each for each in SETTINGS.values() if each.flag}
    for flag in set(flags) & set(action.option_strings) - own[command]:
        assert action.type == flags[flag].kind
    assert isinstance(PATH, PathName)
