"""`gce analyze`: stored answers at four scales: trajectories, runs, setups, and across setups."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

from gce.app.analysis.analysis import DEFAULT_METRICS, analyze
from gce.app.analysis.stages import RECOMPUTE, recompute_of
from gce.app.loaded_model import load_model
from gce.app.options import NAME, PATH, RUN, SAMPLES, ChoiceOrOwn, Listed
from gce.app.reports.analysis import analysis_sections
from gce.app.reports.report import MARKS, Report
from gce.app.reports.section import Section
from gce.app.shown import Part, lines_of
from gce.app.terminal import Terminal, literally, put_json, put_result
from gce.app.wiring.figures import can_draw
from gce.app.wiring.files import check_output
from gce.app.wiring.names import LISTED_BY, entry
from gce.app.wiring.runs import UNVERIFIED, add_no_verify, verifies
from gce.domain.metrics import METRICS, Metric
from gce.domain.serialization import to_plain
from gce.errors import BadInput

__all__ = ["add_arguments", "run"]

DESCRIPTION = """\
Analyze stored answers to test problems, without sampling new ones. Prints a catalogue of runs and setups; trajectories:
the spread of rewards, and which features of answers correlate with them (regression with cross-fitting: association,
not causation); runs: measures, and the paired effect of training; setups (task, model, strategy, training): measures
over all their runs; across setups: paired comparisons with the first and with the first trained one, and rank
correlations of measures. With --model, also token-level evidence: the probability of the stored answer line along the
text before it.
"""
EXAMPLES = """\
examples:
  gce analyze runs/1 runs/2                      the effect of training, and runs of one setup together
  gce analyze answers.jsonl --out analysis.html  strategies of an evaluation, and a page
  gce analyze runs/                              every run and every file of gce evaluate --answers in a folder
  gce analyze answers.jsonl --model smollm2      also the log-probability of answers along their text
  gce analyze answers.jsonl --recompute beliefs=all --keep analysis.json
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command line of `gce analyze`."""
    parser.description, parser.epilog = DESCRIPTION, EXAMPLES
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument(
        "runs",
        nargs="+",
        type=RUN,
        metavar="RUN",
        help="a run directory of gce train, a file of gce evaluate --answers, or a folder of these",
    )
    parser.add_argument(
        "--metrics",
        type=Listed(ChoiceOrOwn(tuple(METRICS), listed_by=LISTED_BY["metric"])),
        default=DEFAULT_METRICS,
        metavar="NAME,...",
        help="metrics by name, or your own gce.Metric as module:ATTR (default: all that the answers allow, except "
        "pass@k and 'no room')",
    )
    parser.add_argument("--model", type=NAME, help="model that scores answers along their text (default: none)")
    parser.add_argument("--adapter", type=RUN, help="adapter of --model: RUN/checkpoints/last, or a PEFT directory")
    parser.add_argument(
        "--scored", type=SAMPLES, default=8, help="answers of each setup that --model scores at most (default 8)"
    )
    parser.add_argument(
        "--recompute",
        type=Listed(RECOMPUTE),
        default=(),
        metavar="WHEN,...",
        help="never, missing or all, for all stages or for one as STAGE=WHEN; stages: beliefs (verdicts on stored "
        "answers, judged again; default never), evaluations (metrics) and evidence (log-probabilities along the text; "
        "default missing)",
    )
    parser.add_argument("--keep", type=PATH, help="file that keeps evaluations and evidence for the next analysis")
    parser.add_argument("--out", type=PATH, help="page to write, with figures (extra: report)")
    parser.add_argument("--force", action="store_true", help="replace --out if it is a page of gce report or analyze")
    parser.add_argument("--json", action="store_true", help="print the analysis as JSON")
    add_no_verify(parser)


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    recompute = recompute_of(arguments.recompute)
    if "never" in (recompute.evaluations, recompute.evidence) and arguments.keep is None:
        raise BadInput("what is never computed has to be kept", hint="give {keep}, a file of an earlier analysis")
    if arguments.adapter is not None and arguments.model is None:
        raise BadInput("the adapter is for the model that scores", hint="give {model}, too")
    if arguments.out is not None:
        check_output(arguments.out, mark=MARKS["html"], replace=arguments.force)
    metrics = {name: entry(name, METRICS, Metric, "metric") for name in arguments.metrics}
    verify = verifies(arguments)
    model = None if arguments.model is None else load_model(arguments.model, adapter=arguments.adapter or "")
    found = analyze(
        arguments.runs,
        Terminal(),
        metrics=metrics,
        recompute=recompute,
        keep=arguments.keep,
        model=model,
        scored=arguments.scored,
        verify=verify,
    )
    unverified = [] if verify else [Section("Records", (UNVERIFIED,))]
    title = f"Analysis of {', '.join(Path(each).name or each for each in arguments.runs)}"
    report = Report(title, (*unverified, *analysis_sections(found)))
    if arguments.out is not None:
        report.write(arguments.out, force=arguments.force)
    if arguments.json:
        put_json(to_plain(found), indent=1)
    else:
        put_result(*lines_of(_parts(report)))
    again = shlex.join(["gce", "analyze", *arguments.runs, "--out", "analysis.html"])
    is_useful = arguments.out is None and can_draw()
    arguments.following = literally(again) if is_useful else None
    return 0


def _parts(report: Report) -> list[Part]:
    parts: list[Part] = []
    for section in report.sections:
        parts += [*([""] if parts else []), f"{section.title}", *section.words]
        for each in section.tables:
            parts += ["", each]
    return parts
