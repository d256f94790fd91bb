"""The command line `gce`: one subcommand a file, imported only when it is asked for."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import os
import sys
import traceback
from collections.abc import Sequence

from gce.app.options import Parser
from gce.app.terminal import put
from gce.domain.tasks import NoProblem
from gce.errors import GceError, SettingError, one_line

__all__ = ["main"]

COMMANDS = {
    "train": "a model learns from its own verified answers",
    "evaluate": "measure a model on test problems",
    "ablate": "what each part of the loop, or another algorithm, is worth: runs over several seeds",
    "report": "runs and studies as one page with figures, as Markdown, or as pictures",
    "transcript": "print what a model was asked, what it answered and what the verifier found",
    "validity": "how far a run's result can be trusted: four numbers, and the shortcut margin",
    "rescore": "judge a run's stored answers again",
    "export": "what a run learned, for mlx-lm or PEFT, or merged into a model of its own",
    "answers": "a run's answers as CSV, Parquet or JSON lines",
    "traces": "a run's verified answers as a chat data set",
    "generate": "draw problems",
    "verify": "judge one answer: exit status 0 right, 1 wrong, 2 bad input, 3 failed",
    "audit": "score answers that ignore the problem",
    "check": "attack a task's verifier: exit status 1 where something was found",
    "models": "what can stand behind --model, and what each kind can do",
    "path": "print where the shipped model lies",
    "doctor": "show what is installed, which BLAS and device are used, what to install",
}

DEFECT = 70
"""EX_SOFTWARE of sysexits.h."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; errors a person can mend are one line on standard error and exit status 2 or 3.

    A defect of gce, or of a task or a model that is not its own, is a traceback and exit status 70: never 1, which is
    an answer.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    name = " ".join(["gce", *(each for each in arguments[:1] if each in COMMANDS)])
    try:
        parsed = _parsed(arguments)
        status = importlib.import_module(f"gce.app.commands.{parsed.command}").run(parsed)
        sys.stdout.flush()
    except SettingError as error:
        from gce.app.settings.command_line import flag_of

        put(f"{name}: {error.said(flag_of)}", error=True)
        return error.status
    except (GceError, NoProblem) as error:
        put(f"{name}: {error}", error=True)
        return error.status if isinstance(error, GceError) else 2
    except KeyboardInterrupt:
        put("", f"{name}: interrupted", error=True)
        return 130
    except BrokenPipeError:
        # Whoever read has read enough.
        _drop_output()
        return 0
    except OSError as error:
        # What a command knows more about is an error of its own: here, a folder that cannot be read, or a full disk.
        where = "" if error.filename is None else f": {error.filename}"
        put(f"{name}: {one_line(error.strerror or error)}{where}", error=True)
        _drop_output()
        return 2
    except Exception:
        traceback.print_exc()
        return DEFECT
    return int(status)


def _parsed(arguments: Sequence[str]) -> argparse.Namespace:
    """The command and its options; BadInput where they are not as `add_arguments` of the command says."""
    parser = Parser(
        prog="gce",
        description="Improve and measure language models where a program can tell right from wrong.",
        epilog="`gce COMMAND --help` explains a command. A first run: gce train",
    )
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, text in COMMANDS.items():
        subparser = commands.add_parser(name, help=text)
        if arguments[:1] == [name]:
            importlib.import_module(f"gce.app.commands.{name}").add_arguments(subparser)
    parsed: argparse.Namespace
    parsed, others = parser.parse_known_args(arguments)
    if others:
        hint = "" if any(each.startswith("-") for each in others) else "; several values are one argument, as T0,T1"
        parser.error(f"unrecognized arguments: {' '.join(others)}{hint}")
    return parsed


def _drop_output() -> None:
    """Python flushes standard output once more as it ends: to nowhere, where what is left cannot be written."""
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()
        return
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    sys.exit(main())
