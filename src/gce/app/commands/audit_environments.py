"""`gce audit-environments`: audit all environments of a framework. Exit status 1 where a finding is confirmed."""

from __future__ import annotations

import argparse

from gce.app.evaluation.environment_audits import AUDIT_FILE, audit_environments
from gce.app.options import LENGTH_OF_RUN, NAME, NAMES, PATH, SEED, THREADS, Choice
from gce.app.reports.environment_audits import PAGE_FILE, PAGE_MARK, audits_page, audits_summary
from gce.app.terminal import note, put, put_json
from gce.app.wiring.environments import AUDITED
from gce.app.wiring.files import write_output

__all__ = ["add_arguments", "run"]

DESCRIPTION = f"""\
Audit the environments of a framework: what gce check and gce certify find of each, with a script of five lines that
shows a finding on the framework alone. Writes {AUDIT_FILE}, a record an environment as soon as it is done, and
{PAGE_FILE}, a page sorted by severity. A second call goes on where the first one ended.

A finding has a second judge (--judges, the environment's own answer, or the scorer that contradicts itself) and a
script that was run and shows the same. All others are listed as doubtful.

exit status: 0 nothing found, 1 something found, 2 bad input, 3 an environment could not be audited
"""
EXAMPLES = """\
examples:
  gce audit-environments reasoning-gym --out audit-rg
  gce audit-environments reasoning-gym --only leg_counting,gcd --out audit-rg --minutes 5
  gce audit-environments reasoning-gym --judges my_judges:JUDGES --out audit-rg
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command line of `gce audit-environments`."""
    parser.description, parser.epilog = DESCRIPTION, EXAMPLES
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    kind = Choice(tuple(AUDITED))
    parser.add_argument("framework", type=kind, choices=kind.names, metavar="FRAMEWORK", help=", ".join(AUDITED))
    parser.add_argument("--only", type=NAMES, metavar="NAME,...", help="these environments (default all)")
    parser.add_argument(
        "--out", type=PATH, default="audit", metavar="DIR", help="folder of the results (default audit)"
    )
    parser.add_argument(
        "--minutes", type=LENGTH_OF_RUN, default=30.0, help="wall-clock limit of this call in minutes (default 30)"
    )
    parser.add_argument(
        "--minutes-each", type=LENGTH_OF_RUN, default=3.0, help="wall-clock limit of one environment (default 3)"
    )
    parser.add_argument("--jobs", type=THREADS, default=2, help="environments audited at a time (default 2)")
    parser.add_argument(
        "--judges",
        type=NAME,
        metavar="MODULE:ATTR",
        help="mapping from an environment to its second judge, a function (row, response) -> bool; environments that "
        "were audited without theirs are audited again",
    )
    parser.add_argument("--seed", type=SEED, default=0, help="seed of the problems and responses (default 0)")
    parser.add_argument("--json", action="store_true", help="print the records as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    found = audit_environments(
        arguments.framework,
        arguments.out,
        only=arguments.only or (),
        minutes=arguments.minutes,
        minutes_each=arguments.minutes_each,
        judges=arguments.judges or "",
        seed=arguments.seed,
        jobs=arguments.jobs,
        say=note,
    )
    write_output(arguments.out / PAGE_FILE, audits_page(found).encode(), mark=PAGE_MARK, replace=True)
    if arguments.json:
        put_json(found.plain, indent=1)
    else:
        put(*audits_summary(found))
    if any(each.severity != "doubtful" for audit in found.audits for each in audit.findings):
        return 1
    return 3 if found.left() or any(audit.status != "audited" for audit in found.audits) else 0
