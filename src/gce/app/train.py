"""`python -m gce.app.train`: the same as `gce train`."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from gce.app.cli import main as cli

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run `gce train` with these arguments, by default the process's own."""
    return cli(["train", *(sys.argv[1:] if argv is None else argv)])


if __name__ == "__main__":
    sys.exit(main())
