"""Hosts that are network namespaces of this machine: a TCP proxy carries all between them, and breaks it on request.

Each host is joined to a hub, which forwards no packets: nftables redirects every connection to a proxy there, which
delays what it copies and may reset connections. A partition drops all packets between the hub and a host. Knows nothing
of what runs on the hosts; needs root, iproute2 and nftables.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import random
import shutil
import signal
import socket
import struct
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from threading import Event, Thread
from typing import Any

__all__ = ["Host", "Hub", "hosts", "lacking"]

PORT = 9999
"""Of the proxy."""
CHUNK = 1 << 16
RULES = f"""
table ip hub {{
    set cut {{ type ipv4_addr; }}
    set refusing {{ type ipv4_addr; }}
    chain redirected {{ type nat hook prerouting priority dstnat; ip protocol tcp redirect to :{PORT}; }}
    chain incoming {{
        type filter hook prerouting priority raw;
        ip saddr @refusing tcp flags & (syn | ack) == syn reject with tcp reset
        ip saddr @cut drop
    }}
    chain outgoing {{
        type filter hook output priority raw;
        ip daddr @refusing tcp flags & (syn | ack) == syn reject with tcp reset
        ip daddr @cut drop
    }}
}}
"""
_ORIGINAL_DESTINATION = 80
"""SO_ORIGINAL_DST of <linux/netfilter_ipv4.h>."""
_NETWORK = 0x40000000
"""CLONE_NEWNET of <sched.h>."""


def lacking() -> str:
    """What this machine lacks, in one line, or nothing."""
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        return "network namespaces need root"
    missing = [f"{name} (package {package})" for name, package in PACKAGES.items() if shutil.which(name) is None]
    if missing:
        return f"hosts are made with {' and '.join(missing)}, not found"
    name = f"gce-{os.getpid()}-probe"
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True, text=True)
    subprocess.run(["ip", "netns", "delete", name], capture_output=True)
    return f"no network namespace can be made: {made.stderr.strip()}" if made.returncode else ""


PACKAGES = {"ip": "iproute2", "nft": "nftables"}


@dataclass
class Host:
    """A network namespace with one interface and a loopback."""

    name: str
    address: str

    def begin(self, command: Sequence[str], **named: Any) -> subprocess.Popen[Any]:
        """Start a command there, out of reach of Ctrl-C."""
        return subprocess.Popen(["ip", "netns", "exec", self.name, *command], start_new_session=True, **named)

    def kill_all(self) -> None:
        """End every process there."""
        while processes := _run("ip", "netns", "pids", self.name).split():
            for process in processes:
                with suppress(ProcessLookupError):
                    os.kill(int(process), signal.SIGKILL)
            time.sleep(0.05)


class Hub:
    """What stands between the hosts."""

    def __init__(self, namespace: str, delay: float) -> None:
        """Every chunk arrives `delay` seconds later."""
        self._namespace, self._delay = namespace, delay
        self._open: dict[tuple[asyncio.StreamWriter, asyncio.StreamWriter], str] = {}
        self._loop = asyncio.new_event_loop()
        self._listening = Event()
        self.carried = 0
        """Bytes."""
        Thread(target=self._serve, daemon=True).start()
        if not self._listening.wait(10.0):
            raise RuntimeError("the proxy did not start")

    def reset_one(self, rng: random.Random) -> str:
        """Reset a random connection to a random port at both ends; return from where to where it was, or nothing."""

        async def reset() -> str:
            if not self._open:
                return ""
            port = rng.choice(sorted({where.rpartition(" ")[2] for where in self._open.values()}))
            ends = rng.choice([ends for ends, where in self._open.items() if where.endswith(port)])
            for end in ends:
                _reset(end)
            return f"{self._open[ends]} reset"

        return asyncio.run_coroutine_threadsafe(reset(), self._loop).result()

    @contextmanager
    def partition(self, host: Host, *, refusing: bool) -> Iterator[None]:
        """Drop all packets from and to a host; new connections are refused, or wait as well."""
        sets = ["cut", *(["refusing"] if refusing else [])]
        try:
            for name in sets:
                self._nft(f"add element ip hub {name} {{ {host.address} }}")
            yield
        finally:
            for name in sets:
                self._nft(f"delete element ip hub {name} {{ {host.address} }}")

    def _nft(self, command: str) -> None:
        _run("ip", "netns", "exec", self._namespace, "nft", command)

    def _serve(self) -> None:
        with open(f"/run/netns/{self._namespace}") as namespace:
            if ctypes.CDLL(None).setns(namespace.fileno(), _NETWORK):  # Of this thread alone.
                raise OSError("setns failed")
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(asyncio.start_server(self._accept, "0.0.0.0", PORT))
        self._listening.set()
        self._loop.run_forever()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        kept = writer.get_extra_info("socket").getsockopt(socket.SOL_IP, _ORIGINAL_DESTINATION, 16)
        port, packed = struct.unpack("!2xH4s8x", kept)
        destination = socket.inet_ntoa(packed)
        try:
            far_reader, far_writer = await asyncio.open_connection(destination, port)
        except OSError:
            return _reset(writer)
        self._open[writer, far_writer] = f"{writer.get_extra_info('peername')[0]} to {destination}:{port}"
        try:
            async with asyncio.TaskGroup() as tasks:
                for source, sink in ((reader, far_writer), (far_reader, writer)):
                    late: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(64)
                    tasks.create_task(self._take(source, late))
                    tasks.create_task(self._deliver(late, sink))
        except* OSError:
            _reset(writer)
            _reset(far_writer)
        finally:
            del self._open[writer, far_writer]
            writer.close()
            far_writer.close()

    async def _take(self, source: asyncio.StreamReader, late: asyncio.Queue[tuple[float, bytes]]) -> None:
        chunk = b"-"
        while chunk:
            chunk = await source.read(CHUNK)
            await late.put((self._loop.time() + self._delay, chunk))

    async def _deliver(self, late: asyncio.Queue[tuple[float, bytes]], sink: asyncio.StreamWriter) -> None:
        while True:
            due, chunk = await late.get()
            await asyncio.sleep(due - self._loop.time())
            if not chunk:
                return sink.write_eof()
            sink.write(chunk)
            await sink.drain()
            self.carried += len(chunk)


@contextmanager
def hosts(count: int, *, delay: float) -> Iterator[tuple[Hub, list[Host]]]:
    """So many hosts with the addresses 10.77.1.2, 10.77.2.2 and so on; they and their processes are gone afterwards."""
    prefix = f"gce-{os.getpid()}"
    hub = f"{prefix}-hub"
    with ExitStack() as stack:
        _namespace(hub, stack)
        _run("ip", "netns", "exec", hub, "sysctl", "-qw", "net.ipv4.ip_forward=0")
        _run("ip", "netns", "exec", hub, "nft", RULES)
        made = []
        for number in range(1, count + 1):
            host = Host(f"{prefix}-{number}", f"10.77.{number}.2")
            _namespace(host.name, stack)
            stack.callback(host.kill_all)
            gateway = f"10.77.{number}.1"
            _run(*f"ip -n {hub} link add host{number} type veth peer name eth0 netns {host.name}".split())
            for namespace, device, address in ((hub, f"host{number}", gateway), (host.name, "eth0", host.address)):
                _run(*f"ip -n {namespace} address add {address}/24 dev {device}".split())
                _run(*f"ip -n {namespace} link set {device} up".split())
            _run(*f"ip -n {host.name} route add default via {gateway}".split())
            made.append(host)
        yield Hub(hub, delay), made


def _namespace(name: str, stack: ExitStack) -> None:
    stack.callback(subprocess.run, ["ip", "netns", "delete", name], capture_output=True)
    _run("ip", "netns", "add", name)
    _run("ip", "-n", name, "link", "set", "lo", "up")


def _reset(writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


def _run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout
