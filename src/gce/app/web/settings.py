"""What the server is started with."""

from __future__ import annotations

import ipaddress
from pathlib import Path

from attrs import field, frozen

from gce.errors import BadInput

__all__ = ["LEAST_OF_A_TOKEN", "MOST_OF_A_TOKEN", "RUNS", "WebSettings"]

RUNS = Path("runs")
"""The default folder, made where it is missing."""
LEAST_OF_A_TOKEN, MOST_OF_A_TOKEN = 16, 256
"""Characters."""


@frozen
class WebSettings:
    """What the server is started with. BadInput where it would be open to others without a token."""

    folder: Path
    """Holds runs and studies. Nothing outside it is served."""
    host: str = "127.0.0.1"
    port: int = 8800
    token: str | None = field(default=None, repr=False)
    names: frozenset[str] = frozenset()
    """Names by which it is reached, besides localhost and addresses."""
    tasks: tuple[str, ...] = ()
    """Tasks that clients may use besides those of gce: a name may be a file or code."""
    models: tuple[str, ...] = ()
    """Models that clients may use besides the shipped ones: a name may be a file, code, or an address that costs."""
    jobs: int = 1
    """Training runs and evaluations at a time."""
    memory: int | None = None
    """Bytes of data of the worker of each job."""

    def __attrs_post_init__(self) -> None:
        if not self.folder.is_dir() and self.folder != RUNS:
            raise BadInput(f"expected a folder of runs, found none at {self.folder}: create it, or give another one")
        if self.token is None and not self.local:
            raise BadInput(
                f"expected a token for the address {self.host}, which other machines reach",
                hint="set the environment variable GCE_TOKEN or give {token}, or leave out {host}",
            )
        if self.token is not None and not (
            LEAST_OF_A_TOKEN <= len(self.token) <= MOST_OF_A_TOKEN and self.token.isascii()
        ):
            raise BadInput(
                f"expected a token of {LEAST_OF_A_TOKEN} to {MOST_OF_A_TOKEN} ASCII characters, got {len(self.token)}"
            )

    @property
    def local(self) -> bool:
        """Whether it is reached from this machine alone."""
        return is_loopback(self.host)


def is_loopback(host: str) -> bool:
    """Whether it is an address or the name of this machine alone."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
