"""The actions of `gce performance` that are stages of a run: their options, and what each does."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from gce.app.options import DOLLARS, NAMES, PATH, SAMPLES, TEMPERATURE, TOKENS, Count
from gce.app.performance.plans import plan
from gce.app.performance.records import export_records, import_records
from gce.app.performance.report import performance_report
from gce.app.performance.stages import prepare, rows_of, run
from gce.app.reports.report import MARKS
from gce.app.shown import Part, lines_of
from gce.app.terminal import put, put_json, put_result
from gce.app.wiring.files import check_output
from gce.domain.performance.agents import CONTROLS, PRESETS
from gce.domain.serialization import to_plain
from gce.domain.text import counted
from gce.errors import BadInput

__all__ = ["STAGES", "STAGE_EXAMPLES", "STAGE_HELP", "add_stage_options"]

_TURNS = Count(1, 1_000)
STAGE_HELP = """\
  plan       write down which agents try which tasks; controls (nothing, human, revert) always do
  prepare    put aside tasks and their trees, so that later changes do not count
  run        make the attempts and measure them; goes on where it was stopped
  report     tables, and a page with figures
  import     records of ISO-Bench as drafts of tasks
  export     tasks and measurements of a run as records of ISO-Bench
"""
STAGE_EXAMPLES = """\
  gce performance plan tasks/ --out runs/p           the controls alone: nothing, human, revert
  gce performance plan tasks/ --out runs/p --agents claude,codex --model openai:gpt-5 --repeats 3
  gce performance plan tasks/ --out runs/p --agents-file agents.toml --all-stages
  gce performance prepare runs/p                     put aside tasks, trees and prompts
  gce performance run runs/p                         attempts and measurements; goes on where it was stopped
  gce performance report runs/p                      a table, and the page runs/p/report.html
  gce performance import records.jsonl --out drafts/ records of ISO-Bench as drafts of tasks
  gce performance export runs/p --out records.jsonl  records of ISO-Bench with what was measured
"""


def add_stage_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of plan, prepare, run, report, import and export."""
    group = parser.add_argument_group("agents and runs (plan, run, report, import, export)")
    group.add_argument("--out", type=PATH, help="folder or file to write")
    group.add_argument(
        "--agents",
        type=NAMES,
        default=(),
        metavar="NAME,...",
        help=f"agents by name, from --agents-file or of {', '.join(PRESETS)} (default: all of --agents-file); the "
        f"controls {', '.join(CONTROLS)} always run",
    )
    group.add_argument("--agents-file", type=PATH, metavar="FILE", help="TOML file with a table [agents.NAME] for each")
    group.add_argument(
        "--model", type=NAMES, default=(), metavar="NAME,...", help="models that edit in a plain loop (default: none)"
    )
    group.add_argument("--turns", type=_TURNS, default=8, help="replies of a model in its loop (default 8)")
    group.add_argument("--max-tokens", type=TOKENS, default=4096, help="tokens of one reply (default 4096)")
    group.add_argument("--temperature", type=TEMPERATURE, default=0.7, help="sampling temperature (default 0.7)")
    group.add_argument("--repeats", type=SAMPLES, default=1, help="attempts of each agent at each task (default 1)")
    group.add_argument("--max-cost", type=DOLLARS, help="US dollars for all attempts together (default: no limit)")
    group.add_argument("--all-stages", action="store_true", help="plan: go on with prepare, run and report")
    group.add_argument("--repository", type=PATH, help="import: local clone that base and human trees are taken from")
    group.add_argument("--force", action="store_true", help="replace a page or file of an earlier call")


def _plan(arguments: argparse.Namespace) -> int:
    if arguments.out is None:
        raise BadInput("a plan needs a folder for the run", hint="give {out}")
    made = plan(
        arguments.out,
        arguments.paths,
        agents=arguments.agents,
        agents_file=arguments.agents_file,
        models=arguments.model,
        runner=arguments.runner,
        repeats=arguments.repeats,
        seed=arguments.seed,
        turns=arguments.turns,
        max_tokens=arguments.max_tokens,
        temperature=arguments.temperature,
        max_cost=arguments.max_cost,
    )
    if arguments.all_stages:
        run(arguments.out)
        return _show(arguments.out, arguments)
    if arguments.json:
        put_json(to_plain(made), indent=1)
    else:
        attempts = counted(made.repeats, "attempt")
        put(f"{counted(len(made.tasks), 'task')}, {attempts} by each of {', '.join(made.agents)}")
        arguments.following = "gce performance run {out}"
    return 0


def _prepare(arguments: argparse.Namespace) -> int:
    count = prepare(_only(arguments))
    if arguments.json:
        put_json({"prepared": count})
    else:
        put(f"{counted(count, 'task')} prepared now")
    return 0


def _run(arguments: argparse.Namespace) -> int:
    count = run(_only(arguments))
    if arguments.json:
        put_json({"measured": count})
    else:
        put(f"{counted(count, 'attempt')} measured now")
        arguments.following = "gce performance report {paths[0]}"
    return 0


def _report(arguments: argparse.Namespace) -> int:
    return _show(_only(arguments), arguments)


def _show(folder: Path, arguments: argparse.Namespace) -> int:
    found = performance_report(folder)
    if arguments.json:
        _, rows = rows_of(folder)
        put_json({"report": found.plain, "attempts": to_plain(rows)}, indent=1)
        return 0
    page = folder / "report.html" if arguments.step == "plan" or arguments.out is None else arguments.out
    check_output(page, mark=MARKS["html"], replace=arguments.force or page == folder / "report.html")
    parts: list[Part] = []
    for section in found.sections:
        if section.tables or not section.figures:
            parts += [*([""] if parts else []), section.title, *section.words]
            parts += [each for table in section.tables for each in ("", table)]
    put_result(*lines_of(parts))
    found.write_page(page)
    put(f"page: {page}")
    return 0


def _import(arguments: argparse.Namespace) -> int:
    if arguments.out is None:
        raise BadInput("drafts of tasks need a folder", hint="give {out}")
    names = import_records(_only(arguments), arguments.out, repository=arguments.repository)
    if arguments.json:
        put_json({"tasks": names}, indent=1)
    else:
        put(f"{counted(len(names), 'draft')} in {arguments.out}: {', '.join(names)}")
    return 0


def _export(arguments: argparse.Namespace) -> int:
    if arguments.out is None:
        raise BadInput("records need a file", hint="give {out}")
    count = export_records(_only(arguments), arguments.out, force=arguments.force)
    if arguments.json:
        put_json({"records": count})
    else:
        put(f"{counted(count, 'record')} in {arguments.out}")
    return 0


def _only(arguments: argparse.Namespace) -> Path:
    paths: Sequence[Path] = arguments.paths
    if len(paths) != 1:
        raise BadInput(f"gce performance {arguments.step} takes one path, got {len(paths)}")
    return paths[0]


STAGES: Mapping[str, Callable[[argparse.Namespace], int]] = {
    "plan": _plan,
    "prepare": _prepare,
    "run": _run,
    "report": _report,
    "import": _import,
    "export": _export,
}
"""What each action does with the parsed command line."""
