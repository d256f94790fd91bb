"""Where a server listens, who may ask it, and the options that say so. Knows nothing of what it serves."""

from __future__ import annotations

import argparse
import ipaddress
import os

from attrs import field, frozen

from gce.app.options import NAME, Count
from gce.errors import BadInput

__all__ = ["LEAST_OF_A_TOKEN", "MOST_OF_A_TOKEN", "Address", "add_arguments", "address_of", "is_loopback"]

TOKEN = "GCE_TOKEN"
"""Environment variable."""
LEAST_OF_A_TOKEN, MOST_OF_A_TOKEN = 16, 256
"""Characters."""


@frozen
class Address:
    """Where a server listens. BadInput where it would be open to others without a token."""

    host: str = "127.0.0.1"
    port: int = 0
    token: str | None = field(default=None, repr=False)
    names: frozenset[str] = frozenset()
    """Names by which it is reached, besides localhost and addresses."""

    def __attrs_post_init__(self) -> None:
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


def add_arguments(parser: argparse.ArgumentParser, *, port: int) -> None:
    """Add the options of an address, with this port by default."""
    parser.add_argument("--host", type=NAME, default="127.0.0.1", help="address to listen on (default 127.0.0.1)")
    parser.add_argument(
        "--port", type=Count(0, 65_535), default=port, help=f"port to listen on; 0 takes a free one (default {port})"
    )
    parser.add_argument(
        "--token", type=NAME, help=f"token that clients must give; the environment variable {TOKEN} keeps it out of ps"
    )
    parser.add_argument(
        "--allow-host",
        type=NAME,
        action="append",
        default=[],
        metavar="NAME",
        help="further name of this server, as of a proxy",
    )


def address_of(arguments: argparse.Namespace) -> Address:
    """Return the address that the options say."""
    token = arguments.token or os.environ.get(TOKEN) or None
    return Address(arguments.host, arguments.port, token, frozenset(arguments.allow_host))
