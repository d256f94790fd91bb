"""`python -m tests.golden compare BASE [HEAD]` and `python -m tests.golden write`."""

from __future__ import annotations

import argparse
import contextlib
import itertools
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from .canonical import ABSENT, canonical, first_difference
from .committed import changed, digests_of, not_made, other_versions, read_digests, write_constraints, write_digests
from .items import ITEMS, Outputs
from .making import Skipped, outputs_of, temporary, unpack
from .program import ROOT

WORKING_TREE = "the working tree"


def main(argv: Sequence[str] | None = None) -> int:
    """0 where all is equal, 1 where something differs, 2 where something could not be made."""
    parser = argparse.ArgumentParser(prog="python -m tests.golden", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    compare = commands.add_parser("compare", help="compare the outputs of two commits, made here one after the other")
    compare.add_argument("base", metavar="BASE", help="a commit")
    compare.add_argument("head", metavar="HEAD", nargs="?", help=f"another one (default: {WORKING_TREE})")
    compare.add_argument("--keep", metavar="DIR", type=Path, help="keep trees, runs and outputs in this new folder")
    write = commands.add_parser("write", help="write the committed digests and constraints anew")
    listed = ", ".join(ITEMS)
    for each in (compare, write):
        each.add_argument("--only", metavar="NAME,...", help=f"of {listed} (default: all)")
    given = parser.parse_args(argv)
    names = given.only.split(",") if given.only else list(ITEMS)
    unknown = sorted(set(names) - set(ITEMS))
    if unknown:
        parser.error(f"no item {', '.join(unknown)}: choose of {listed}")
    for other in other_versions():
        print(f"another version than the committed digests were made with: {other}")
    try:
        return _write(names) if given.command == "write" else _compare(given.base, given.head, names, given.keep)
    except (subprocess.CalledProcessError, RuntimeError, OSError) as error:
        print(error, file=sys.stderr)
        return 2


def _compare(base: str, head: str | None, names: Sequence[str], keep: Path | None) -> int:
    differences: list[str] = []
    print(
        f"{base} against {head or WORKING_TREE}\n\n{'item':18}{'part':26}{'compared':>8}{'different':>11}{'seconds':>9}"
    )
    with _folder(keep) as folder:
        one = unpack(base, folder / "base-tree")
        other = ROOT if head is None else unpack(head, folder / "head-tree")
        for name in names:
            began = time.monotonic()
            try:
                pair = [outputs_of(name, tree, folder / side / name) for side, tree in (("base", one), ("head", other))]
            except Skipped as reason:
                print(f"{name:18}skipped: {reason}")
                continue
            differences += _table(name, *pair, seconds=time.monotonic() - began)
    print("", *(differences or ["equal"]), sep="\n")
    return 1 if differences else 0


def _table(name: str, one: Outputs, other: Outputs, *, seconds: float) -> list[str]:
    """Print a row for each part of an item; the first difference of each."""

    def row(part: str, compared: int, unequal: int, end: str = "") -> None:
        print(f"{name:18}{part[:25]:26}{compared:8}{unequal:11}{end:>9}")

    differences = []
    for part, group in itertools.groupby(sorted({*one, *other}, key=_place), key=lambda label: label.split("/")[0]):
        labels = list(group)
        pairs = {label: (one.get(label, ABSENT), other.get(label, ABSENT)) for label in labels}
        unequal = [label for label, (a, b) in pairs.items() if canonical(a) != canonical(b)]
        if unequal:
            row(part, len(labels), len(unequal))
            differences.append(f"{name}, {unequal[0]}: {first_difference(*pairs[unequal[0]])}")
        elif "/" in labels[0] or part == "adapter":
            row(part, len(labels), 0)
    row(
        "all",
        len({*one, *other}),
        sum(one.get(label) != other.get(label) for label in {*one, *other}),
        f"{seconds:.1f}",
    )
    return differences


def _place(label: str) -> tuple[str, int, str]:
    """Order by part, then by number."""
    part, _, rest = label.partition("/")
    return part, int(rest) if rest.isdecimal() else -1, rest


@contextlib.contextmanager
def _folder(keep: Path | None) -> Iterator[Path]:
    if keep is not None:
        keep.mkdir(parents=True)
        yield keep.absolute()
        return
    with temporary() as folder:
        yield Path(folder)


def _write(names: Sequence[str]) -> int:
    committed = read_digests()
    with temporary() as folder:
        for name in [name for name in names if ITEMS[name].portable]:
            began = time.monotonic()
            try:
                outputs = outputs_of(name, ROOT, Path(folder) / name)
            except Skipped as reason:
                print(f"{name:18}kept as it was: {reason}")
                continue
            known = committed.get(name, {})
            differs = changed(outputs, known)
            committed[name] = {each: known[each] for each in not_made(outputs, known)} | digests_of(outputs)
            print(f"{name:18}{len(outputs):6} outputs, {len(differs)} changed, {time.monotonic() - began:.1f} s")
            shutil.rmtree(Path(folder) / name)
    write_digests({name: committed[name] for name in ITEMS if name in committed})
    write_constraints()
    return 0


if __name__ == "__main__":
    sys.exit(main())
