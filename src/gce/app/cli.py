"""The command line `gce`: one subcommand a file, imported only when it is asked for."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from gce.app.terminal import put
from gce.domain.tasks import NoProblem
from gce.domain.text import printable
from gce.errors import GceError

__all__ = ["main"]

COMMANDS = {
    "train": "a model learns from its own verified answers",
    "evaluate": "measure a model on test problems",
    "ablate": "what each part of the loop, or another algorithm, is worth: runs over several seeds",
    "report": "runs and studies as one page with figures, as Markdown, or as pictures",
    "validity": "how far a run's result can be trusted: four numbers, and the shortcut margin",
    "rescore": "judge a run's stored answers again",
    "export": "what a run learned, for mlx-lm or PEFT, or merged into a model of its own",
    "traces": "a run's verified answers as a chat data set",
    "generate": "draw problems",
    "verify": "judge one answer: exit status 0 right, 1 wrong, 2 bad input, 3 no verdict",
    "audit": "score answers that ignore the problem",
    "check": "attack a task's verifier: exit status 1 where something was found",
    "models": "what can stand behind --model, and what each kind can do",
    "path": "print where the shipped model lies",
    "doctor": "show what is installed, which BLAS and device are used, what to install",
}


class _Parser(argparse.ArgumentParser):
    """Repeats what it was given as `put` would show it."""

    def error(self, message: str) -> NoReturn:
        super().error(printable(message))


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; errors a person can mend are one line on standard error and exit status 2."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    parser = _Parser(
        prog="gce",
        description="Improve and measure language models where a program can tell right from wrong.",
        epilog="`gce COMMAND --help` explains a command. A first run: gce train",
    )
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, text in COMMANDS.items():
        subparser = commands.add_parser(name, help=text)
        if arguments[:1] == [name]:
            importlib.import_module(f"gce.app.{name}").add_arguments(subparser)
    parsed = parser.parse_args(arguments)
    try:
        status = importlib.import_module(f"gce.app.{parsed.command}").run(parsed)
        sys.stdout.flush()
    except (GceError, NoProblem) as error:
        put(f"gce {parsed.command}: {error}", error=True)
        return 2
    except KeyboardInterrupt:
        put("", f"gce {parsed.command}: interrupted", error=True)
        return 130
    except BrokenPipeError:
        # Whoever read has read enough; Python flushes standard output once more as it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return int(status)


if __name__ == "__main__":
    sys.exit(main())
