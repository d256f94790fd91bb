"""A TCP proxy on the loopback that breaks connections: at once, or in the middle of an HTTP message that it passes."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable
from contextlib import suppress

from attrs import define, field

__all__ = ["Proxy"]

BYTES = 1 << 16


@define(eq=False)
class _Moment:
    """What happens at the `left`-th POST request from now, or in the middle of the `left`-th reply."""

    left: int
    in_reply: bool
    part: float
    act: Callable[[], None]
    over: threading.Event = field(factory=threading.Event)


class Proxy:
    """Passes TCP connections on to a port of the loopback."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._sockets: set[socket.socket] = set()
        self._passing = threading.Event()
        self._passing.set()
        self._moment: _Moment | None = None
        self._lock = threading.Lock()
        self._accept()

    def cut(self, *, reset: bool = False) -> None:
        """Drop the connections, by FIN or by RST; new ones are taken."""
        with self._lock:
            dropped, self._sockets = self._sockets, set()
        for each in dropped:
            with suppress(OSError):
                if reset:
                    each.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                # Whoever waits for it has to wake up before it is closed; SHUT_RD sends nothing.
                each.shutdown(socket.SHUT_RD if reset else socket.SHUT_RDWR)
            each.close()

    def refuse(self) -> None:
        """Drop the connections, and refuse new ones until `listen`."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()

    def listen(self) -> None:
        """Take connections again."""
        self._listener = socket.create_server(("127.0.0.1", self.port))
        self._accept()

    def hold(self) -> None:
        """Pass nothing on until `release`; connections stay open, and new ones are taken."""
        self._passing.clear()

    def release(self) -> None:
        """Pass on what was held, and what comes."""
        self._passing.set()

    def meanwhile(self, number: int, act: Callable[[], None], *, in_reply: bool, part: float = 0.5) -> threading.Event:
        """Call `act` once the so-manieth POST request from now has been passed on; return what is set after that.

        With `in_reply`, call it in the middle of the so-manieth reply, when a part of its first bytes has been.
        """
        with self._lock:
            self._moment = moment = _Moment(number, in_reply, part, act)
        return moment.over

    def close(self) -> None:
        """Drop all, and take no more."""
        self.refuse()
        self.release()

    def _accept(self) -> None:
        threading.Thread(target=self._take, args=(self._listener,), daemon=True).start()

    def _take(self, listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                client, _ = listener.accept()
                try:
                    server = socket.create_connection(("127.0.0.1", self._target), timeout=30)
                except OSError:
                    client.close()
                    continue
                server.settimeout(None)
                with self._lock:
                    self._sockets |= {client, server}
                for source, target in ((client, server), (server, client)):
                    threading.Thread(target=self._pass, args=(source, target, source is server), daemon=True).start()

    def _pass(self, source: socket.socket, target: socket.socket, reply: bool) -> None:
        with suppress(OSError):
            while content := source.recv(BYTES):
                self._passing.wait()
                moment = self._due(content, reply)
                sent = int(moment.part * len(content)) if moment and reply else len(content)
                target.sendall(content[:sent])
                if moment:
                    moment.act()
                    moment.over.set()
                    self._passing.wait()
                    target.sendall(content[sent:])
        for each in (source, target):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
        with self._lock:
            self._sockets -= {source, target}

    def _due(self, content: bytes, reply: bool) -> _Moment | None:
        """Return the moment, once it has come."""
        with self._lock:
            moment = self._moment
            if moment is None or moment.in_reply is not reply or not content.startswith((b"POST ", b"HTTP/1.1 ")):
                return None
            moment.left -= 1
            if moment.left > 0:
                return None
            self._moment = None
            return moment
