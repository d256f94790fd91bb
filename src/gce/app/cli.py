"""The command line `gce`: one subcommand a file, imported only when it is asked for."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import os
import shlex
import sys
import traceback
import warnings
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from gce import __version__
from gce.app.options import nearest
from gce.app.parser import HelpAll, Parser, UsageError
from gce.app.terminal import is_verbose, note, put, shown_as
from gce.app.termination import terminable
from gce.domain.tasks import NoProblem
from gce.errors import GceError, one_line

__all__ = ["main"]

COMMANDS = {
    "train": "train a model on its own verified answers",
    "evaluate": "evaluate a model on test problems, with confidence intervals",
    "attack": "disturb prompts in ways that keep their meaning, and measure what that does to answers",
    "orchestrate": "graphs of roles on the same problems as a single model with as many tokens",
    "ablate": "ablation study: conditions or algorithms compared over several seeds",
    "report": "report runs and studies as an HTML page with figures, as Markdown, or as PNG files",
    "serve": "serve runs as web pages: lists, live progress, answers, comparisons, studies",
    "serve-policy": "serve a model over OpenAI's chat format, with adapters that clients exchange while it runs",
    "analyze": "analyze stored answers of runs and evaluations: features, effects of training, setups compared",
    "transcript": "print prompts, answers and verdicts of a run",
    "critic": "how well scores follow from how answers were written, and what that is good for",
    "probe": "whether training moved what evaluators judge into hidden states of identical fixed texts",
    "geometry": "the path of a run through the space of scores, with its nulls, and as a file for a viewer",
    "power": "how many problems a comparison needs, and what the answers of a run could have decided",
    "plan": "what training would take on more workers: seconds by stage, bytes, money, and what bounds it",
    "validity": "measure how far a run's result can be trusted: generalization, regressions, shortcuts",
    "verify-run": "check a run, or a copy of one, against its digests: exit status 1 if anything differs",
    "rescore": "judge a run's stored answers again and list changed verdicts",
    "replay": "make a stored answer again from its key: exit status 1 if its verdict differs",
    "export": "export a trained adapter for mlx-lm or PEFT, or merge it into its base model",
    "export-task": "export a task as a directory that runs in another framework",
    "import": "runs of another program as configurations, with what their results can tell",
    "answers": "export a run's answers as CSV, Parquet or JSON lines",
    "traces": "export a run's verified traces as a chat data set",
    "tasks": "list the tasks: presets, tiers, sizes, prompt-blind baselines, verifier batteries",
    "show": "print a problem as the model sees it, and the verdict on its demonstration",
    "new": "create a package for your own task: task, verifier, tests, README",
    "workflow": "from a screen recording to timed steps, a storyboard, and an environment that replays them",
    "performance": "agents that make real code faster: fetch, admit, plan, run, report",
    "generate": "generate problems",
    "verify": "judge one answer: exit status 0 right, 1 wrong, 2 bad input, 3 failed",
    "audit": "score prompt-blind baselines: answers that ignore the problem",
    "check": "attack a task's verifier: exit status 1 if anything is found",
    "audit-environments": "audit all environments of a framework: an HTML page of findings, each with a script",
    "certify": "certificate of a task: splits, verifier, baselines, replay: exit status 1 if a check fails",
    "models": "list the model backends: what --model takes, and what each one can do",
    "path": "print the directory of the shipped model",
    "doctor": "check the installation: extras, BLAS, device, and what to install",
    "completion": "print a completion script for bash, zsh or fish",
}
NEXT = {
    "train": "gce report {run_dir}",
    "evaluate": "gce train --task {task}{preset} --model {model}",
    "report": "gce validity {runs[0]}",
    "validity": "gce report {run}",
    "rescore": "gce report {run}",
    "generate": "gce show {task}{preset}",
    "verify": "gce check --task {task}",
    "check": "gce evaluate --task {task}{preset}",
    "audit": "gce evaluate --task {task}{preset}",
    "models": "gce doctor",
    "doctor": "gce train --dry-run",
}
"""What is useful next after a command that did its work, with the arguments that it had: a command that works as it is.

A command that knows better sets `following` among its arguments, to None for nothing.
"""

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
    except UsageError as error:
        put(error.usage, f"{name}: {error}", error=True)
        return error.status
    except BrokenPipeError:
        return _read_enough()
    option = partial(_option, parsed.command)
    shown = shown_as(quiet=parsed.quiet, verbose=parsed.verbose, color=not parsed.no_color, option=option)
    with terminable(), shown, _warnings_on_a_line():
        return _run(name, parsed, arguments)


@contextlib.contextmanager
def _warnings_on_a_line() -> Iterator[None]:
    """Inside, a warning is one line on standard error, without the place in the code that it comes from."""
    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *_: put(f"warning: {one_line(message, 1000)}", error=True)
        yield


def _run(name: str, parsed: argparse.Namespace, arguments: Sequence[str]) -> int:
    """Run the command that these arguments were parsed to; see `main`."""
    try:
        status = int(_module(parsed.command).run(parsed))
        sys.stdout.flush()
        following = vars(parsed).get("following", NEXT.get(parsed.command))
        if status in (0, 1) and following and not vars(parsed).get("json"):
            note(*_next(_filled(following, vars(parsed))))
        return status
    except (GceError, NoProblem) as error:
        if is_verbose():
            traceback.print_exc()
        said = error.said(partial(_option, parsed.command)) if isinstance(error, GceError) else str(error)
        put(f"{name}: {said}", error=True)
        return error.status if isinstance(error, GceError) else 2
    except KeyboardInterrupt:
        put("", f"{name}: interrupted", error=True)
        put(*_resuming(parsed, arguments), error=True)
        return 130
    except BrokenPipeError:
        return _read_enough()
    except OSError as error:
        # What a command knows more about is an error of its own: here, a folder that cannot be read, or a full disk.
        where = "" if error.filename is None else f": {error.filename}"
        put(f"{name}: {one_line(error.strerror or error)}{where}", error=True)
        _drop_output()
        return 2
    except Exception:
        traceback.print_exc()
        return DEFECT


def _next(command: str) -> Iterator[str]:
    """The lines that say what is useful next: as Markdown, where a page cannot be drawn."""
    if command.startswith("gce report ") and not _can_draw():
        yield "a page with figures needs the extra report: pip install 'grounded-eval[report]'"
        command += " --format md"
    yield f"next: {command}"


def _can_draw() -> bool:
    from gce.app.wiring.figures import can_draw

    return can_draw()


def _resuming(parsed: argparse.Namespace, arguments: Sequence[str]) -> list[str]:
    """The command that goes on where this one was interrupted; some go on by themselves."""
    if parsed.command == "train" and parsed.run_dir is not None and _begun(parsed.run_dir):
        return [_filled("gce train --run-dir {run_dir} --resume", vars(parsed))]
    repeats = parsed.command == "ablate" or vars(parsed).get("answers") or vars(parsed).get("deep")
    return [shlex.join(["gce", *arguments])] if repeats else []


def _begun(run: str) -> bool:
    from gce.app.wiring.runs import runs_of

    return Path(run).exists() or run in runs_of(run).find(run)


def _option(command: str, name: str) -> str:
    """The command's option for a setting or an argument, else that of `gce train`; the name where there is none."""
    return next(filter(None, (command_parser(each).option(name) for each in (command, "train"))), name)


def _filled(command: str, given: Mapping[str, Any]) -> str:
    """A command line with these arguments in it, quoted for a shell."""
    quoted = {
        name: [shlex.quote(str(each)) for each in value] if isinstance(value, list) else shlex.quote(str(value))
        for name, value in given.items()
    }
    preset = f" --preset {quoted['preset']}" if given.get("preset") else ""
    return command.format_map({**quoted, "preset": preset})


def _module(command: str) -> Any:
    return importlib.import_module(f"gce.app.commands.{command.replace('-', '_')}")


def command_parser(name: str) -> Parser:
    """The parser of one command."""
    parser = Parser(prog=f"gce {name}")
    _module(name).add_arguments(parser)
    output = parser.add_argument_group("output")
    output.add_argument("-q", "--quiet", action="store_true", help="print only results, warnings and errors")
    output.add_argument(
        "-v", "--verbose", action="store_true", help="also print the duration of each stage, and tracebacks of errors"
    )
    output.add_argument(
        "--no-color", action="store_true", help="print without colours, like the environment variable NO_COLOR"
    )
    if parser.common:
        parser.add_argument("--help-all", action=HelpAll, help="show all options")
    return parser


def _parsed(arguments: Sequence[str]) -> argparse.Namespace:
    """The command and its options; UsageError where they are not as `add_arguments` of the command says."""
    parser = Parser(
        prog="gce",
        description="Train and evaluate language models on tasks whose answers a program can verify.",
        epilog="`gce COMMAND --help` explains a command. A first run: gce train",
    )
    parser.add_argument("-V", "--version", action="version", version=f"gce {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, text in COMMANDS.items():
        commands.add_parser(name, help=text, add_help=False)
    name = arguments[0] if arguments else ""
    if name in COMMANDS:
        own = command_parser(name)
        parsed: argparse.Namespace
        parsed, others = own.parse_known_args(arguments[1:])
        if others:
            own.unknown(others)
        parsed.command = name
        return parsed
    if name and not name.startswith("-"):
        parser.error(f"there is no command {name[:60]!r}{nearest(name, COMMANDS)}")
    return parser.parse_args(arguments)


def _read_enough() -> int:
    """Whoever read what was printed has closed the pipe, as `head` does."""
    _drop_output()
    return 0


def _drop_output() -> None:
    """Python flushes standard output once more as it ends: to nowhere, where what is left cannot be written."""
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()
        return
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    sys.exit(main())
