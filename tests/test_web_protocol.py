"""What `gce serve` does with bytes that no browser sends."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("httptools")
pytest.importorskip("jinja2")
pytest.importorskip("uvicorn")

from gce.app.web.protocol import MOST_OF_A_HEAD, MOST_PIPELINED, PIECE

HOST = b"Host: localhost\r\n"
GET = b"GET /healthcheck HTTP/1.1\r\n" + HOST
POST = b"POST /api/v1/judge HTTP/1.1\r\n" + HOST + b"Content-Type: application/json\r\n"
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"
CLOSE = b"Connection: close\r\n"


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    folder: Path = tmp_path_factory.mktemp("runs")
    command = [sys.executable, "-u", "-m", "gce", "serve", str(folder), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
        assert server.stdout is not None
        found = re.search(r"127.0.0.1:(\d+)", server.stdout.readline())
        assert found is not None
        yield int(found[1])
        server.terminate()


def statuses(port: int, *parts: bytes) -> list[int]:
    """The statuses of all that the server says until it closes the connection, to parts that arrive one by one."""
    said = b""
    with socket.create_connection(("127.0.0.1", port), timeout=30) as client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            for part in parts:
                client.sendall(part)
                time.sleep(0.1)
            while more := client.recv(65_536):
                said += more
        except (BrokenPipeError, ConnectionResetError):
            pass
    return [int(each) for each in re.findall(rb"HTTP/1\.1 (\d{3}) ", said)]


def padded(size: int) -> bytes:
    """A request whose head has this size."""
    return GET + CLOSE + b"a: " + b"x" * (size - len(GET + CLOSE) - 7) + b"\r\n\r\n"


LONG = b"x" * (MOST_OF_A_HEAD + PIECE)


@pytest.mark.slow
@pytest.mark.parametrize(
    "request_",
    [
        padded(MOST_OF_A_HEAD + 2 * PIECE),
        padded(200_000),
        GET + b"a: " + LONG,
        GET + LONG,
        GET + b"a: b\r\n" * (len(LONG) // 6),
        b"GET /" + LONG,
        b"\r\n" * (len(LONG) // 2),
        CHUNKED + b"0\r\na: " + LONG,
        CHUNKED + b"0\r\n" + b"a: b\r\n" * (len(LONG) // 6),
        CHUNKED + b"1;" + LONG,
    ],
    ids=["head", "whole", "value", "name", "many", "address", "empty lines", "trailer", "trailers", "chunk"],
)
def test_a_head_has_a_limit_as_have_trailers_and_the_sizes_of_chunks(port: int, request_: bytes) -> None:
    """Where bytes are left that the server did not read, what it said last may be lost with the connection."""
    assert statuses(port, request_) in ([400], [])
    assert statuses(port, GET + b"\r\n" + request_).count(200) <= 1


def test_a_head_within_the_limit_is_read_even_in_pieces(port: int) -> None:
    head = padded(MOST_OF_A_HEAD - 1)
    assert statuses(port, head) == [200]
    assert statuses(port, *(head[n : n + 10_000] for n in range(0, len(head), 10_000))) == [200]


def test_few_requests_may_wait_on_a_connection(port: int) -> None:
    few = (GET + b"\r\n") * MOST_PIPELINED + GET + CLOSE + b"\r\n"
    assert statuses(port, few) == [200] * (MOST_PIPELINED + 1)
    assert len(statuses(port, (GET + b"\r\n") * 1000)) < 100


@pytest.mark.parametrize(
    "request_",
    [
        POST + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        POST + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n{}",
        POST + b"Content-Length: +2\r\n\r\n{}",
        POST + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
        POST + b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
        POST + b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
        CHUNKED + b"0x2\r\n{}\r\n0\r\n\r\n",
        CHUNKED + b"-2\r\n{}\r\n0\r\n\r\n",
        CHUNKED + b"10000000000000002\r\n{}\r\n0\r\n\r\n",
        CHUNKED + b"2\n{}\n0\n\n",
        CHUNKED + b"2\r\n{}XX0\r\n\r\n",
        GET + b"a: b\0c\r\n\r\n",
        GET + b"a\0b: c\r\n\r\n",
        GET + b"a b: c\r\n\r\n",
        GET + b": c\r\n\r\n",
        GET + b"a: b\rc: d\r\n\r\n",
        GET + b"a: b\nc: d\r\n\r\n",
        GET + b"a: b\r\n c\r\n\r\n",
        b"GET /\0 HTTP/1.1\r\n" + HOST + b"\r\n",
        b"CONNECT localhost:80 HTTP/1.1\r\n" + HOST + b"\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    ],
)
def test_what_is_malformed_or_could_be_read_in_two_ways_is_refused(port: int, request_: bytes) -> None:
    assert statuses(port, request_ + GET + CLOSE + b"\r\n") == [400]


@pytest.mark.parametrize("head", [b"GET / HTTP/1.1\r\n", b"GET / HTTP/1.1\r\n" + HOST + HOST])
def test_a_request_names_one_host(port: int, head: bytes) -> None:
    assert statuses(port, head + CLOSE + b"\r\n") in ([421], [400])


def test_trailers_are_no_headers(port: int) -> None:
    body = POST + CLOSE + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n"
    plain = statuses(port, body + b"\r\n")
    assert plain == statuses(port, body + b"Host: elsewhere\r\nOrigin: http://elsewhere\r\n\r\n") == [422]


def test_an_offer_of_another_protocol_is_passed_over_and_the_body_read(port: int) -> None:
    """Java's clients offer HTTP/2 with each request; httptools would read its body as the next one."""
    head = POST + b"Connection: Upgrade\r\nUpgrade: h2c\r\nContent-Length: %d\r\n\r\n"
    end = GET + CLOSE + b"\r\n"
    assert statuses(port, head % 2, b"{}" + end) == [422, 200]
    assert statuses(port, head % len(end), end + end) == [400, 200]
    # Only a connection's first request can offer it: a later one is refused, and nothing behind it is read.
    assert statuses(port, GET + b"\r\n", head % len(end), end + end) == [200, 400]
