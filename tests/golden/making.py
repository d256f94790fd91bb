"""Makes the outputs of one item in a process of its own, of whichever tree's `gce` comes first on the path.

python -m tests.golden.making ITEM ENTRY FILE
"""

from __future__ import annotations

import importlib.util
import io
import json
import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from .items import ITEMS, Outputs, sandbox_holds
from .program import ROOT, Program, entry_point


class Skipped(Exception):
    """An item that cannot be made here, and why."""


def unpack(revision: str, folder: Path) -> Path:
    """The tree of a commit, in `folder`."""
    packed = subprocess.run(["git", "-C", str(ROOT), "archive", revision], check=True, stdout=subprocess.PIPE).stdout
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        archive.extractall(folder, filter="data")
    return folder


def outputs_of(name: str, tree: Path, folder: Path) -> Outputs:
    """The outputs of an item with the sources of `tree`, made in `folder`; Skipped where something is missing here."""
    missing = [module for module in ITEMS[name].needs if importlib.util.find_spec(module) is None]
    if missing:
        raise Skipped(f"not installed: {', '.join(missing)}")
    folder.mkdir(parents=True)
    result = folder.with_suffix(".json")
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(tree / "src"), str(ROOT)]),
        "HF_HUB_OFFLINE": "1",
        "TOKENIZERS_PARALLELISM": "false",
    }
    command = [sys.executable, "-m", "tests.golden.making", name, str(tree), entry_point(tree), str(result)]
    ran = subprocess.run(command, cwd=folder, env=environment, stderr=subprocess.PIPE, text=True)
    if ran.returncode:
        raise RuntimeError(f"{name} of {tree}: exit status {ran.returncode}:\n{ran.stderr[-3000:]}")
    found: Outputs | str = json.loads(result.read_text(encoding="utf-8"))
    if isinstance(found, str):
        raise Skipped(found)
    return found


def make(name: str, program: Program) -> Outputs:
    """The outputs of an item, made in the present folder; Skipped where no sandbox holds."""
    item = ITEMS[name]
    if item.sandbox and not sandbox_holds(program):
        raise Skipped("no sandbox holds here")
    return item.make(program)


def main(name: str, tree: str, entry: str, result: str) -> None:
    """Write the outputs of an item to a file, or why there are none."""
    import gce

    if not Path(gce.__file__).is_relative_to(tree):
        raise RuntimeError(f"expected gce of {tree}, got {gce.__file__}")
    try:
        found: Outputs | str = make(name, Program(entry))
    except Skipped as error:
        found = str(error)
    Path(result).write_text(json.dumps(found), encoding="utf-8")


def temporary() -> tempfile.TemporaryDirectory[str]:
    """A folder for trees and runs."""
    return tempfile.TemporaryDirectory(prefix="golden-")


if __name__ == "__main__":
    main(*sys.argv[1:])
