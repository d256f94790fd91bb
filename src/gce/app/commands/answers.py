"""`gce answers`: the answers of a run or an evaluation as a table for spreadsheets, data frames and SQL."""

from __future__ import annotations

import argparse
from pathlib import Path
from textwrap import fill

from gce.app.evaluation.answer_file import MOMENT_HELP, SOURCE_HELP, open_answers
from gce.app.exports.answer_rows import COLUMNS, answer_rows
from gce.app.options import NAME, PATH, RUN, Choice
from gce.app.terminal import put, put_json
from gce.app.transcripts import moments_of
from gce.app.wiring.files import new_output
from gce.app.wiring.formats import ROW_FORMATS, check_format, write_rows
from gce.app.wiring.runs import UNVERIFIED, add_no_verify, folder_of, verifies
from gce.domain.text import counted

__all__ = ["add_arguments", "run"]

DESCRIPTION = f"""\
Export answers as a table with one row per answer. For a run, these are answers to test problems before and after
training, and all training rollouts; for a file of gce evaluate --answers, the answers of each strategy, which is then
the `moment`. `correct` and `reward` are empty if an answer failed, so their means are over judged answers. Works while
the run is in progress. Parquet needs the extra `parquet`.

columns:
{fill(", ".join(COLUMNS), 76, initial_indent="  ", subsequent_indent="  ")}
"""
EXAMPLES = """\
examples:
  gce answers runs/1                                    runs/1/export/answers.csv
  gce answers runs/1 --to parquet --out answers.parquet
  gce answers runs/1 --to jsonl --moment after
  gce answers answers.jsonl                             a file of gce evaluate --answers: export/answers.csv
"""
FORMATS = Choice(tuple(ROW_FORMATS))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command line of `gce answers`."""
    parser.description, parser.epilog = DESCRIPTION, EXAMPLES
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("run", type=RUN, metavar="RUN", help=SOURCE_HELP)
    parser.add_argument("--to", type=FORMATS, choices=FORMATS.names, default="csv", help="file format (default csv)")
    parser.add_argument("--out", type=PATH, help="file to create (default: export/answers.FORMAT in the run)")
    parser.add_argument("--moment", type=NAME, help=MOMENT_HELP)
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    add_no_verify(parser)


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    check_format(arguments.to)
    verified, given = verifies(arguments), Path(arguments.run)
    folder, name = (given.parent, given.stem) if given.is_file() else (folder_of(arguments.run), "answers")
    out = arguments.out or folder / "export" / f"{name}.{arguments.to}"
    with open_answers(arguments.run, verify=verified) as reader:
        rows = answer_rows(reader, moments_of(reader, arguments.moment))
        with new_output(out) as file:
            count = write_rows(arguments.to, COLUMNS, rows, file)
    if arguments.json:
        said = {"path": str(out), "format": arguments.to, "answers": count}
        put_json(said | {"verified": verified and not given.is_file()})
        return 0
    put(f"{out}: {counted(count, 'answer')}", *(() if verified else (UNVERIFIED,)))
    put(f"read them with {_how_to_read(arguments.to, str(out))}")
    return 0


def _how_to_read(form: str, path: str) -> str:
    more = ", lines=True" if form == "jsonl" else ""
    name = {"csv": "csv", "jsonl": "json", "parquet": "parquet"}[form]
    return f"pandas.read_{name}({path!r}{more})"
