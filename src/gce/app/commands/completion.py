"""`gce completion`: a script that completes commands and options in a shell."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterable, Mapping

from gce.app.options import Choice
from gce.app.parser import Parser
from gce.app.terminal import put

__all__ = ["add_arguments", "run"]

SHELLS = Choice(("bash", "zsh", "fish"))
EXAMPLES = """\
examples:
  gce completion bash > ~/.local/share/bash-completion/completions/gce
  gce completion zsh >> ~/.zshrc
  gce completion fish > ~/.config/fish/completions/gce.fish
"""
BASH = """\
_gce() {{
    local current="${{COMP_WORDS[COMP_CWORD]}}" before="${{COMP_WORDS[COMP_CWORD-1]}}" words=""
    if [ "$COMP_CWORD" -eq 1 ]; then
        words={commands}
    else
        case "${{COMP_WORDS[1]}} $before" in
{choices}
            *) case "${{COMP_WORDS[1]}}" in
{options}
            esac ;;
        esac
    fi
    COMPREPLY=($(compgen -W "$words" -- "$current"))
}}
complete -o default -F _gce gce
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command line of `gce completion`."""
    parser.description = "Print a script that completes commands, options and their values in a shell."
    parser.epilog = EXAMPLES
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("shell", type=SHELLS, choices=SHELLS.names, help="bash, zsh or fish")


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    from gce.app.cli import COMMANDS, command_parser

    parsers = {name: command_parser(name) for name in COMMANDS}
    script = _fish(COMMANDS, parsers) if arguments.shell == "fish" else _bash(parsers)
    if arguments.shell == "zsh":
        put("autoload -U +X compinit && compinit", "autoload -U +X bashcompinit && bashcompinit")
    put(*script.removesuffix("\n").split("\n"))
    return 0


def _bash(parsers: Mapping[str, Parser]) -> str:
    choices, options = [], []
    for name, parser in parsers.items():
        offered: list[str] = []
        for action in parser._actions:
            offered += [each for each in action.option_strings if each.startswith("--")]
            if action.choices and not action.option_strings:
                offered += action.choices
            elif action.choices:
                pattern = "|".join(shlex.quote(f"{name} {each}") for each in action.option_strings)
                choices.append(f"            {pattern}) words={_words(action.choices)} ;;")
        options.append(f"                {name}) words={_words(offered)} ;;")
    return BASH.format(commands=_words(parsers), choices="\n".join(choices), options="\n".join(options))


def _fish(commands: Mapping[str, str], parsers: Mapping[str, Parser]) -> str:
    lines = [
        f"complete -c gce -f -n __fish_use_subcommand -a {name} -d {_words([text])}" for name, text in commands.items()
    ]
    for name, parser in parsers.items():
        condition = f"complete -c gce -n '__fish_seen_subcommand_from {name}'"
        for action in parser._actions:
            for each in action.option_strings:
                long = f"-l {each[2:]}" if each.startswith("--") else f"-s {each[1:]}"
                lines.append(f"{condition} {long}{_values(action)}")
            if action.choices and not action.option_strings:
                lines.append(f"{condition} -f -a {_words(action.choices)}")
    return "\n".join(lines)


def _values(action: argparse.Action) -> str:
    if action.choices:
        return f" -x -a {_words(action.choices)}"
    return "" if action.nargs == 0 else " -r"


def _words(words: Iterable[object]) -> str:
    return shlex.quote(" ".join(map(str, words)))
