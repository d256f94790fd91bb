"""HTTP as httptools reads it, faster than h11, within limits that uvicorn sets for h11 alone."""

from __future__ import annotations

import re

from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

__all__ = ["MOST_OF_A_HEAD", "MOST_PIPELINED", "PIECE", "LimitedProtocol"]

MOST_OF_A_HEAD = 32_768
"""Bytes of a request line with headers, of trailers, or of the size of a chunk with its extensions."""
PIECE = 4096
"""Bytes that are read at once; a head may be up to two of these longer."""
MOST_PIPELINED = 16
"""Requests that wait on one connection: each takes kilobytes, though it may have been 20 bytes."""
_UPGRADE = re.compile(rb"\nupgrade[ \t]*:", re.IGNORECASE)


class LimitedProtocol(HttpToolsProtocol):
    """A connection. What is beyond the limits is answered with status 400 and ends it, as all that is malformed."""

    _unread = 0
    """Bytes since a head or a part of a body was complete."""

    def data_received(self, data: bytes) -> None:
        """Read what has arrived."""
        if self.cycle is None and not self._unread and _UPGRADE.search(data):
            self._hand_over(data)
            return
        for start in range(0, len(data), PIECE):
            self._unread += min(PIECE, len(data) - start)
            super().data_received(data[start : start + PIECE])
            if self._unread > MOST_OF_A_HEAD and not self.transport.is_closing():
                self.send_400_response("Too long.")
            if self.transport.is_closing():
                return

    def _hand_over(self, data: bytes) -> None:
        """Let h11 read this connection: Java's clients offer HTTP/2 with each request, whose body httptools drops."""
        protocol = H11Protocol(self.config, self.server_state, self.app_state)
        self.connections.discard(self)
        protocol.connection_made(self.transport)
        self.transport.set_protocol(protocol)
        protocol.data_received(data)

    def on_headers_complete(self) -> None:
        """Begin to answer. An error here is answered like a malformed request."""
        if self.parser.should_upgrade():
            raise ValueError("its body would be read as the next request")
        if len(self.pipeline) == MOST_PIPELINED:
            raise ValueError("too many requests wait")
        self._unread = 0
        super().on_headers_complete()
        self.headers = []  # What comes now are trailers, which are no headers.

    def on_body(self, body: bytes) -> None:
        """Take a part of a body."""
        self._unread = 0
        super().on_body(body)
