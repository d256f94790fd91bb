"""`gce traces`: a run's verified answers as a data set."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from attrs import evolve

from gce import __version__
from gce.app.exports.chat_data import Conversation, DataSet, data_set
from gce.app.options import NAMES, PATH, RUN, SHARE_BELOW_1, Choice
from gce.app.terminal import put, put_json
from gce.app.wiring.files import check_output, whole_folder, write_output
from gce.app.wiring.formats import atif_of_trace, inspect_log_of_traces
from gce.app.wiring.runs import UNVERIFIED, add_no_verify, folder_of, open_run, verifies
from gce.domain.problems import ProblemId
from gce.errors import BadInput

__all__ = ["add_arguments", "run"]

DESCRIPTION = """\
Export the verified traces that a run was trained on, as conversations that end with the model's own right answer: one
JSON object per line with messages, problem, tier, iteration and policy. Traces of control runs that were judged wrong
are left out. Works while the run is in progress.

formats:
  jsonl    a file for mlx_lm.lora --data FOLDER and datasets.load_dataset("json", data_files=...)
  hf       a folder with a dataset card for datasets.load_dataset(DIR), and for the hub
  atif     a file of trajectories in ATIF v1.7, tokens and log-probabilities included, which gce.read_atif reads
  inspect  a log of inspect_ai for `inspect view`, as JSON, which gce.read_inspect_log reads
"""
EXAMPLES = """\
examples:
  gce traces runs/1                                 runs/1/export/jsonl/train.jsonl
  gce traces runs/1 --valid 0.1 --out data/train.jsonl; mlx_lm.lora --data data ...
  gce traces runs/1 --to hf --tiers T3,T4 --out my-traces
"""


def _trajectory(conversation: Conversation) -> dict[str, Any]:
    return atif_of_trace(conversation.trace, version=__version__)


LINES: Mapping[str, Callable[[Conversation], Any]] = {
    "jsonl": lambda conversation: conversation.chat,
    "hf": lambda conversation: conversation.chat,
    "atif": _trajectory,
}
"""By format, what a line holds of a conversation."""
INSPECT = "inspect"
FORMATS = Choice((*LINES, INSPECT))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command line of `gce traces`."""
    parser.description, parser.epilog = DESCRIPTION, EXAMPLES
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("run", type=RUN, metavar="RUN", help="a run directory of gce train")
    parser.add_argument(
        "--to", type=FORMATS, choices=FORMATS.names, default="jsonl", help="format, as listed above (default jsonl)"
    )
    parser.add_argument("--out", type=PATH, help="file to create, or folder for hf (default: in RUN/export)")
    parser.add_argument("--tiers", type=NAMES, default=(), metavar="TIER,...", help="tiers to export (default: all)")
    parser.add_argument(
        "--all", action="store_true", help="export every right rollout, also those not admitted to the buffer"
    )
    parser.add_argument(
        "--valid",
        type=SHARE_BELOW_1,
        default=0.0,
        metavar="SHARE",
        help="share of problems whose traces go to valid.jsonl (default 0)",
    )
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    add_no_verify(parser)


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    verified = verifies(arguments)
    with open_run(arguments.run, verify=verified) as reader:
        found = data_set(reader, tiers=arguments.tiers, every=arguments.all, valid=arguments.valid)
    if not verified:
        found = evolve(found, card=f"{found.card}\n{UNVERIFIED}\n")
    if arguments.to == "hf":
        out = arguments.out or folder_of(arguments.run) / "export" / "hf"
        paths = _write_folder(out, found)
    else:
        name = "train.json" if arguments.to == INSPECT else "train.jsonl"
        out = arguments.out or folder_of(arguments.run) / "export" / arguments.to / name
        paths = _write_files(out, found, arguments.to)
    if arguments.json:
        counts = {split: len(each) for split, each in found.splits.items()}
        said = {"path": str(out), "format": arguments.to, "traces": counts, "tiers": found.tiers}
        put_json(said | {"verified": verified})
        return 0
    for split, path in paths.items():
        put(f"{path}: {found.words(split)}")
    put(f"load them with {_how_to_load(arguments.to, out)}")
    return 0


def _write_files(out: Path, found: DataSet, form: str) -> dict[str, Path]:
    end = ".json" if form == INSPECT else ".jsonl"
    paths = {"train": out, "valid": out.with_name(f"valid{end}")}
    paths = {split: paths[split] for split in found.splits}
    if len(set(paths.values())) < len(paths):
        raise BadInput(f"{out} is where --valid writes: give another --out, such as {out.with_name(f'train{end}')}")
    for path in paths.values():
        check_output(path)
    for split in reversed(list(found.splits)):
        write_output(paths[split], _log(found, split) if form == INSPECT else found.content(split, LINES[form]))
    return paths


def _log(found: DataSet, split: str) -> bytes:
    traces = [conversation.trace for conversation in found.splits[split]]
    task = ProblemId.parse(traces[0].problem).task
    created = datetime.now(UTC).isoformat(timespec="seconds")
    return json.dumps(inspect_log_of_traces(traces, task=task, created=created)).encode()


def _write_folder(out: Path, found: DataSet) -> dict[str, Path]:
    paths = {split: Path("data") / f"{split}.jsonl" for split in found.splits}
    with whole_folder(out) as folder:
        (folder / "data").mkdir()
        for split, path in paths.items():
            (folder / path).write_bytes(found.content(split, LINES["hf"]))
        (folder / "README.md").write_text(found.card, encoding="utf-8")
    return {split: out / path for split, path in paths.items()}


def _how_to_load(form: str, out: Path) -> str:
    if form == "hf":
        return f"datasets.load_dataset({str(out)!r})"
    if form == "atif":
        return f"gce.read_atif({str(out)!r})"
    if form == INSPECT:
        return f"gce.read_inspect_log({str(out)!r})"
    lora = f", or mlx_lm.lora --data {out.parent}" if out.name == "train.jsonl" else ""
    return f"datasets.load_dataset('json', data_files={str(out)!r}){lora}"
