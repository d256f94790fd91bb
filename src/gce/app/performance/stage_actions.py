"""The actions of `gce performance` that are stages of a run: their options, and what each does."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from gce.app.evaluation.several_models import used_lines
from gce.app.options import NAME, NAMES, PATH, SAMPLES, SEED, TEMPERATURE, TOKENS, Count
from gce.app.performance.drafts import MOST_COMMITS, MOST_DRAFTED, MOST_SECONDS, collect_commits, collect_releases
from gce.app.performance.judging import judge
from gce.app.performance.plans import plan
from gce.app.performance.records import export_records, import_records
from gce.app.performance.report import performance_report
from gce.app.performance.stages import prepare, rows_of, run
from gce.app.reports.report import MARKS
from gce.app.shown import Part, lines_of
from gce.app.terminal import note, put, put_json, put_result
from gce.app.wiring.access import access_of, add_limits
from gce.app.wiring.files import check_output
from gce.app.wiring.sandboxes import add_runner
from gce.domain.performance.agents import CONTROLS, PRESETS
from gce.domain.serialization import to_plain
from gce.domain.text import counted
from gce.errors import BadInput, SettingError

__all__ = ["STAGES", "STAGE_EXAMPLES", "STAGE_HELP", "STEPS_OF", "add_stage_options", "check_options"]

_TURNS = _DRAFTS = Count(1, 1_000)
STAGE_HELP = f"""\
  plan       write down which agents try which tasks; controls (nothing, human, revert) always do
  prepare    copy tasks and their trees, so that later changes do not count
  run        make the attempts and measure them; continues where it stopped
  judge      a model (--model) compares the patches with the human's: soft metrics, which decide nothing
  report     tables, and a page with figures
  collect    candidates from a repository's history, or from releases of a package, as drafts of tasks; it looks at
             {MOST_COMMITS:,} commits at most, for {MOST_SECONDS // 60} minutes, and writes up to
             {MOST_DRAFTED // 2**20:,} MiB of sources
  import     records of ISO-Bench or GSO as drafts of tasks
  export     tasks and measurements of a run as records of ISO-Bench
"""
STAGE_EXAMPLES = """\
  gce performance plan tasks/ --out runs/p           only the controls: nothing, human, revert
  gce performance plan tasks/ --out runs/p --agents claude,codex --model openai:gpt-5 --repeats 3
  gce performance plan tasks/ --out runs/p --agents-file agents.toml --all-stages
  gce performance prepare runs/p                     copy tasks, trees and prompts
  gce performance run runs/p                         attempts and measurements; continues where it stopped
  gce performance judge runs/p --model openai:gpt-5  soft metrics; optional
  gce performance report runs/p                      a table, and the page runs/p/report.html
  gce performance collect ~/src/sympy --out drafts/  commits about speed; complete the drafts, then validate them
  gce performance collect --releases more-itertools==10.4.0,10.5.0 --out drafts/
  gce performance import records.jsonl --out drafts/ records of ISO-Bench or GSO as drafts of tasks
  gce performance export runs/p --out records.jsonl  records of ISO-Bench with the measurements
"""


STEPS_OF: Mapping[str, tuple[str, ...]] = {
    "seed": ("admit", "plan"),
    "runner": ("doctor", "admit", "plan"),
    "instructions": ("admit", "plan"),
    **dict.fromkeys(("agents", "agents_file", "turns", "temperature", "repeats", "all_stages"), ("plan",)),
    **dict.fromkeys(("model", "max_tokens", "max_cost"), ("plan", "judge")),
    **dict.fromkeys(("max_tokens_total", "max_minutes", "prices", "allow_unknown_cost", "cache"), ("judge",)),
    **dict.fromkeys(("requests_per_minute", "tokens_per_minute"), ("judge",)),
    **dict.fromkeys(("releases", "match", "most"), ("collect",)),
    "repository": ("import",),
    "out": ("plan", "report", "collect", "import", "export"),
    "force": ("report", "export"),
}
"""Steps that each option belongs to; the others refuse it."""


def add_stage_options(parser: argparse.ArgumentParser) -> None:
    """Add the options, in groups by step."""
    group = parser.add_argument_group("measuring (doctor, admit, plan)")
    add_runner(group)
    group.add_argument("--seed", type=SEED, default=0, help="admit, plan: seed of inputs and orders (default 0)")
    group.add_argument(
        "--instructions", action="store_true", help="admit, plan: count instructions, too, where valgrind is installed"
    )
    group = parser.add_argument_group("agents (plan)")
    group.add_argument(
        "--agents",
        type=NAMES,
        default=(),
        metavar="NAME,...",
        help=f"agents by name, from --agents-file or of {', '.join(PRESETS)} (default: all of --agents-file); the "
        f"controls {', '.join(CONTROLS)} always run",
    )
    group.add_argument("--agents-file", type=PATH, metavar="FILE", help="TOML file with a table [agents.NAME] for each")
    group.add_argument("--repeats", type=SAMPLES, default=1, help="attempts of each agent at each task (default 1)")
    group.add_argument("--turns", type=_TURNS, default=8, help="replies of a model in its loop (default 8)")
    group.add_argument("--temperature", type=TEMPERATURE, default=0.7, help="sampling temperature (default 0.7)")
    group.add_argument("--all-stages", action="store_true", help="go on with prepare, run and report")
    group = parser.add_argument_group("models (plan, judge)")
    group.add_argument(
        "--model",
        type=NAMES,
        default=(),
        metavar="NAME,...",
        help="models that edit in a plain loop, or that judge (default: none)",
    )
    group.add_argument("--max-tokens", type=TOKENS, default=4096, help="tokens of one reply (default 4096)")
    group = parser.add_argument_group("drafts of tasks (collect, import)")
    group.add_argument(
        "--releases", type=NAME, metavar="NAME==OLD,NEW,...", help="collect: compare each release with the one before"
    )
    group.add_argument(
        "--match",
        type=NAME,
        metavar="REGEX",
        help="collect: what a commit's message must contain (default: words of speed)",
    )
    group.add_argument("--most", type=_DRAFTS, default=20, help="collect: drafts from a repository (default 20)")
    group.add_argument("--repository", type=PATH, help="import: local clone that base and human trees are taken from")
    group = parser.add_argument_group("files (plan, report, collect, import, export)")
    group.add_argument("--out", type=PATH, help="folder or file to write")
    group.add_argument("--force", action="store_true", help="report, export: replace a file of an earlier call")
    add_limits(
        parser.add_argument_group(
            "limits (judge)",
            "plan takes --max-cost alone, for all attempts together: no attempt is begun once it is reached",
        )
    )
    parser.set_defaults(unset={name: parser.get_default(name) for name in STEPS_OF})


def check_options(arguments: argparse.Namespace) -> None:
    """SettingError if an option of another step was given."""
    step = arguments.step
    others = [
        name
        for name, steps in STEPS_OF.items()
        if step not in steps and getattr(arguments, name) != arguments.unset[name]
    ]
    if others:
        named = ", ".join(f"{{{name}}} ({', '.join(STEPS_OF[name])})" for name in others)
        expected = f"{{{others[0]}}} only for {', '.join(STEPS_OF[others[0]])}"
        message = f"{step} does not take options of other steps: {named}"
        raise SettingError(others[0], expected, getattr(arguments, others[0]), message)


def _plan(arguments: argparse.Namespace) -> int:
    made = plan(
        _out(arguments, "a plan needs a folder for the run"),
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
        instructions=arguments.instructions,
    )
    if arguments.all_stages:
        run(arguments.out)
        return _show(arguments.out, arguments)
    line = f"{counted(len(made.tasks), 'task')}, {counted(made.repeats, 'attempt')} by each of {', '.join(made.agents)}"
    return _said(arguments, to_plain(made), line, following="gce performance run {out}")


def _prepare(arguments: argparse.Namespace) -> int:
    count = prepare(_only(arguments))
    return _said(arguments, {"prepared": count}, f"{counted(count, 'task')} prepared now")


def _run(arguments: argparse.Namespace) -> int:
    count = run(_only(arguments))
    following = "gce performance report {paths[0]}"
    return _said(arguments, {"measured": count}, f"{counted(count, 'attempt')} measured now", following=following)


def _judge(arguments: argparse.Namespace) -> int:
    if not arguments.model:
        raise BadInput("a judge is a model, and none is given", hint="name it with {model}")
    folder, access = _only(arguments), access_of(arguments)
    try:
        found = {
            model: judge(folder, model, max_tokens=arguments.max_tokens, access=access) for model in arguments.model
        }
    finally:
        for line in used_lines(access):
            note(line)
    said = {model: {"judged": count, "unreadable": unread} for model, (count, unread) in found.items()}
    lines = [
        f"{model}: {counted(count, 'attempt')} judged now, {unread} unreadable"
        for model, (count, unread) in found.items()
    ]
    return _said(arguments, said, *lines, following="gce performance report {paths[0]}")


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


def _collect(arguments: argparse.Namespace) -> int:
    if arguments.releases is not None and (arguments.paths or arguments.match is not None):
        raise SettingError(
            "releases",
            "releases alone",
            arguments.releases,
            "gce performance collect takes {releases}, or a repository and {match}: got both",
        )
    out = _out(arguments, "drafts of tasks need a folder")
    if arguments.releases is not None:
        names = collect_releases(arguments.releases, out)
    else:
        names = collect_commits(_only(arguments), out, match=arguments.match, most=arguments.most)
    return _drafted(names, arguments)


def _import(arguments: argparse.Namespace) -> int:
    out = _out(arguments, "drafts of tasks need a folder")
    return _drafted(import_records(_only(arguments), out, repository=arguments.repository), arguments)


def _drafted(names: Sequence[str], arguments: argparse.Namespace) -> int:
    line = f"{counted(len(names), 'draft')} in {arguments.out}: {', '.join(names)}"
    return _said(arguments, {"tasks": names}, line, following="gce performance validate {out}")


def _export(arguments: argparse.Namespace) -> int:
    count = export_records(_only(arguments), _out(arguments, "records need a file"), force=arguments.force)
    return _said(arguments, {"records": count}, f"{counted(count, 'record')} in {arguments.out}")


def _said(arguments: argparse.Namespace, plain: Any, *lines: str, following: str | None = None) -> int:
    """Print what was done, as JSON or as lines with the next command behind it."""
    if arguments.json:
        put_json(plain, indent=1)
    else:
        put(*lines)
        arguments.following = following
    return 0


def _out(arguments: argparse.Namespace, wanted: str) -> Path:
    if arguments.out is None:
        raise BadInput(wanted, hint="give {out}")
    out: Path = arguments.out
    return out


def _only(arguments: argparse.Namespace) -> Path:
    paths: Sequence[Path] = arguments.paths
    if len(paths) != 1:
        raise BadInput(f"gce performance {arguments.step} takes one path, got {len(paths)}")
    return paths[0]


STAGES: Mapping[str, Callable[[argparse.Namespace], int]] = {
    "plan": _plan,
    "prepare": _prepare,
    "run": _run,
    "judge": _judge,
    "report": _report,
    "collect": _collect,
    "import": _import,
    "export": _export,
}
"""What each action does with the parsed command line."""
