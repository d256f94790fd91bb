"""`gce attack`: what disturbed prompts do to a model's answers."""

from __future__ import annotations

import argparse

from gce.app.evaluation.attacking import EDITS, TRANSCRIPTS, attack
from gce.app.options import NAME, NAMES, PATH, PROBLEMS, RUN, SEED, THREADS, TOKENS, Choice, Count, Listed
from gce.app.parser import Parser
from gce.app.reports.report import MARKS
from gce.app.terminal import Terminal, note, put_json, put_result
from gce.app.wiring.files import check_output
from gce.app.wiring.models import MODEL_HELP
from gce.app.wiring.tasks import TASK_HELP
from gce.domain.attacks import ATTACKS
from gce.domain.serialization import to_plain
from gce.domain.strategies.attack import MOST_EDITS, PARAPHRASE

__all__ = ["add_arguments", "run"]

_HELPS = {name: each.help for name, each in ATTACKS.items()} | {
    PARAPHRASE: "a line in the words of another model (--paraphraser)"
}
_ATTACKS = "\n".join(f"  {name:<12} {help}" for name, help in _HELPS.items())
DESCRIPTION = f"""\
Disturb the prompts of a task in ways that keep their meaning, and measure how accuracy falls with the number of edits,
paired by problem. Numbers, labels and code are protected. Where the task can read prompts, as scheduling can, a
disturbed prompt counts only if it is read back into the same problem; otherwise its protected words must be unchanged,
line by line. What does not keep the meaning is dropped and counted.

attacks:
{_ATTACKS}
"""
EXAMPLES = """\
examples:
  gce attack --n 10                                            every attack on the shipped model
  gce attack --n 100 --adapter runs/1/checkpoints/last         on the trained adapter of a run
  gce attack --attacks typos,injections --edits 1,2,4,8 --out attacks.html
                                                               accuracy against the number of edits, as a page
  gce attack --attacks deepwordbug --important --tiers T0      the words first that matter most to the model
  gce attack --attacks paraphrase --edits 1,2 --paraphraser smollm2    lines in another model's words
  gce train --strategy attack@typos+4                          train on attacked prompts
"""


def add_arguments(parser: Parser) -> None:
    """The command line of `gce attack`."""
    parser.description, parser.epilog = DESCRIPTION, EXAMPLES
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--task", type=NAME, default="scheduling", help=TASK_HELP)
    parser.add_argument("--preset", type=NAME, help="set of tiers (default: the task's first)")
    parser.add_argument("--tiers", type=NAMES, default=(), metavar="TIER,...", help="tiers (default: all)")
    parser.add_argument("--model", type=NAME, help=MODEL_HELP)
    parser.add_argument("--adapter", type=RUN, help="adapter: RUN/checkpoints/last, or a PEFT directory")
    parser.add_argument(
        "--attacks",
        type=Listed(Choice((*ATTACKS, PARAPHRASE))),
        default=tuple(ATTACKS),
        metavar="NAME,...",
        help=f"attacks listed above (default: all but {PARAPHRASE})",
    )
    parser.add_argument(
        "--edits",
        type=Listed(Count(0, MOST_EDITS)),
        default=EDITS,
        metavar="N,...",
        help=f"numbers of edits: words, or lines; 0 changes nothing (default {','.join(map(str, EDITS))})",
    )
    parser.add_argument(
        "--attack-everything",
        dest="everything",
        action="store_true",
        help="change numbers, labels and code, too; what no longer states the same problem is dropped",
    )
    parser.add_argument(
        "--important",
        action="store_true",
        help="change those words first without which the model's own answer loses most log-probability",
    )
    parser.add_argument("--paraphraser", type=NAME, metavar="MODEL", help=f"model for the attack {PARAPHRASE}")
    parser.add_argument("--attack-seed", type=SEED, default=0, help="seed of the attacks (default 0)")
    parser.add_argument("--n", type=PROBLEMS, default=50, help="problems per tier (default 50)")
    parser.add_argument("--problem-seed", type=SEED, default=0, help="seed of the problems (default 0)")
    parser.add_argument("--max-tokens", type=TOKENS, help="maximum tokens of a reply (default: the task's)")
    parser.add_argument("--threads", type=THREADS, help="CPU threads (default: one per core)")
    parser.add_argument(
        "--transcripts",
        type=Count(0, 100),
        default=TRANSCRIPTS,
        help=f"transcripts of answers that an attack made wrong (default {TRANSCRIPTS})",
    )
    parser.add_argument(
        "--answers", type=PATH, help="keep answers in this JSON Lines file; the same command goes on from it"
    )
    parser.add_argument("--out", type=PATH, help="also write a page with a figure of accuracy against edits")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    if arguments.out is not None:
        check_output(arguments.out, mark=MARKS["html"], replace=True)
    names = ("preset", "tiers", "adapter", "n", "problem_seed", "max_tokens", "threads", "answers")
    given = {name: vars(arguments)[name] for name in names if vars(arguments)[name] not in (None, ())}
    found = attack(
        arguments.task,
        arguments.model,
        attacks=arguments.attacks,
        edits=arguments.edits,
        everything=arguments.everything,
        important=arguments.important,
        attack_seed=arguments.attack_seed,
        transcripts=arguments.transcripts,
        paraphraser=arguments.paraphraser,
        watcher=Terminal(),
        **given,
    )
    if arguments.json:
        put_json({"unattacked": to_plain(found.unattacked), "rows": to_plain(found.rows)}, indent=1)
    else:
        put_result(*str(found).split("\n"))
    if arguments.out is not None:
        found.report.write_page(arguments.out)
        note(f"wrote {arguments.out}")
    return 0
