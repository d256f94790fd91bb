"""Fuzzes the judging of scheduling: `python -m attacks.fuzz --minutes 20 --corpus DIR`. Needs the extra `attack`.

libFuzzer, through atheris, mutates responses, first of all those of attacks/corpus, and keeps in DIR what reaches new
code of the package; a later run goes on from there. Each response is judged on fixed problems and held to
`attacks.properties`. One that breaks a property ends the run with exit status 77, and is written beside DIR, to a file
whose name begins with DIR-crash.

`--replay [DIR]` holds the texts of a folder, by default the kept ones, to the properties, without atheris. What follows
`--` goes to libFuzzer: `python -m attacks.fuzz --corpus attacks/corpus -- -merge=1 DIR` keeps the shortest texts of DIR
that reach what none of the kept ones does.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from pathlib import Path

__all__ = ["KEPT", "main", "replay", "text_of"]

HERE = Path(__file__).parent
KEPT = HERE / "corpus"
LONGEST = 1024
"""Bytes of a response: longer ones reach no other code, and tests try them by the megabyte."""


def text_of(data: bytes) -> str:
    """Any bytes as a response: UTF-8, and what is none as lone surrogates."""
    return data.decode("utf-8", "surrogateescape")


def replay(folder: Path) -> tuple[int, list[str]]:
    """How many texts of a folder were judged, and what is wrong with those that break a property."""
    from attacks.properties import check

    files = sorted(path for path in folder.iterdir() if path.is_file())
    broken = []
    for path in files:
        try:
            check(text_of(path.read_bytes()))
        except Exception as error:
            broken.append(f"{path}: {type(error).__name__}: {error}")
    return len(files), broken


def _fuzz(options: list[str]) -> None:
    """Hand over to libFuzzer, which ends the process."""
    try:
        import atheris
    except ImportError:
        sys.exit("fuzzing needs atheris: pip install '.[attack]'; --replay does without")
    atheris.enabled_hooks.add("str")
    with atheris.instrument_imports(include=["gce"]):  # so nothing above may import it
        from attacks.properties import check

    def judge(data: bytes) -> None:
        check(text_of(data))

    again = f"{shlex.quote(sys.executable)} -m attacks.fuzz --"  # how libFuzzer starts processes of its own
    atheris.Setup([again, f"-dict={HERE / 'tokens.dict'}", f"-max_len={LONGEST}", *options], judge)
    atheris.Fuzz()


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(
        prog="python -m attacks.fuzz", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=20.0, help="how long to fuzz (default: 20)")
    parser.add_argument("--corpus", type=Path, metavar="DIR", help="where texts that reach new code are kept")
    parser.add_argument("--replay", type=Path, nargs="?", const=KEPT, metavar="DIR", help="judge kept texts, no more")
    parser.add_argument("libfuzzer", nargs="*", metavar="OPTION", help="for libFuzzer, behind --")
    options = parser.parse_args()
    if options.replay is not None:
        count, broken = replay(options.replay)
        print("\n".join([*broken, f"{count} texts of {options.replay} judged, {len(broken)} broke a property"]))
        return 1 if broken or not count else 0
    if options.corpus is None and not options.libfuzzer:
        parser.error("expected --corpus DIR, or --replay")
    ours: list[str] = []
    if options.corpus is not None:
        options.corpus.mkdir(parents=True, exist_ok=True)
        ours = [f"-max_total_time={60 * options.minutes:.0f}", f"-artifact_prefix={options.corpus}-"]
        ours += ["-print_final_stats=1", str(options.corpus), str(KEPT)]
    _fuzz([*ours, *options.libfuzzer])
    return 0


if __name__ == "__main__":
    sys.exit(main())
