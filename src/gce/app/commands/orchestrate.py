"""`gce orchestrate`: graphs of roles, beside a single model with as many tokens."""

from __future__ import annotations

import argparse

from gce.app.evaluation.orchestrating import orchestrate
from gce.app.options import NAME, NAMES, PATH, PROBLEMS, SEED, TEMPERATURE, THREADS, TOKENS
from gce.app.parser import Parser
from gce.app.reports.report import MARKS
from gce.app.terminal import Terminal, note, put_json, put_result
from gce.app.wiring.access import add_limits
from gce.app.wiring.files import check_output
from gce.app.wiring.models import MODEL_HELP
from gce.app.wiring.tasks import TASK_HELP
from gce.domain.serialization import to_plain
from gce.domain.strategies.graph import SHIPPED

__all__ = ["add_arguments", "run"]

_GRAPHS = "\n".join(f"  {name:<22} {', '.join(node.name for node in graph.node)}" for name, graph in SHIPPED.items())
DESCRIPTION = f"""\
Measure graphs of roles (planner, worker, critic, voters, debaters) on the same problems as a single model: accuracy,
tokens, seconds and peak memory, paired by problem. The model alone is always measured with as many tokens as each graph
used, by a majority vote over samples and by longer thought: a graph is worth its tokens only where it beats these.

shipped graphs, with their nodes:
{_GRAPHS}
"""
EXAMPLES = """\
examples:
  gce orchestrate --n 20                                          every shipped graph
  gce orchestrate vote debate --tiers T0,T1 --out modes.html      two of them, and a page with a figure
  gce orchestrate my-graph.toml --adapter runs/1/checkpoints/last
  gce evaluate --strategies zero-shot,orchestrate@my-graph.toml   as any other strategy
"""


def add_arguments(parser: Parser) -> None:
    """The command line of `gce orchestrate`."""
    parser.description, parser.epilog = DESCRIPTION, EXAMPLES
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument(
        "graphs",
        nargs="*",
        type=NAME,
        metavar="GRAPH",
        help="shipped graphs listed above, and TOML files (default: every shipped graph)",
    )
    parser.add_argument("--task", type=NAME, default="scheduling", help=TASK_HELP)
    parser.add_argument("--preset", type=NAME, help="set of tiers (default: the task's first)")
    parser.add_argument("--tiers", type=NAMES, default=(), metavar="TIER,...", help="tiers (default: all)")
    parser.add_argument("--model", type=NAME, help=MODEL_HELP)
    parser.add_argument("--adapter", type=PATH, help="adapter: RUN/checkpoints/last, or a PEFT directory")
    parser.add_argument("--n", type=PROBLEMS, default=50, help="problems per tier (default 50)")
    parser.add_argument("--problem-seed", type=SEED, default=0, help="seed of the problems (default 0)")
    parser.add_argument("--seed", type=SEED, default=0, help="sampling seed (default 0)")
    parser.add_argument(
        "--temperature", type=TEMPERATURE, default=0.0, help="of nodes without their own; 0 is greedy (default 0)"
    )
    parser.add_argument("--max-tokens", type=TOKENS, help="maximum tokens of a reply (default: the task's)")
    parser.add_argument("--threads", type=THREADS, help="CPU threads (default: one per core)")
    add_limits(parser)
    parser.add_argument(
        "--answers", type=PATH, help="keep answers in this JSON Lines file; the same command goes on from it"
    )
    parser.add_argument("--out", type=PATH, help="also write a page with a figure of accuracy against tokens")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    if arguments.out is not None:
        check_output(arguments.out, mark=MARKS["html"], replace=True)
    other = ("command", "graphs", "task", "model", "out", "json", "quiet", "verbose", "no_color")
    given = {name: value for name, value in vars(arguments).items() if name not in other and value not in (None, ())}
    found = orchestrate(
        arguments.graphs or tuple(SHIPPED), arguments.task, arguments.model, watcher=Terminal(), **given
    )
    if arguments.json:
        put_json({"rows": to_plain(found.rows), "gains": to_plain(found.gains)}, indent=1)
    else:
        put_result(*str(found).split("\n"))
    if arguments.out is not None:
        found.report.write_page(arguments.out)
        note(f"wrote {arguments.out}")
    return 0
