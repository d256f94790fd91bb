"""A server of OpenAI's chat format that answers each request after 50 ms, however many there are.

`python -m benchmarks.slow_server` prints its port. An answer is a schedule in the right format, and sometimes right.
GET returns when each request came, and how late each answer was, since the last GET.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from typing import Any

SECONDS = 0.05
JOBS = re.compile(r"\b([A-Z]) (\d+)\b")
"""With their durations, in the prompt."""
HEAD = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n"


def answer_to(prompt: str) -> str:
    """One job after the other, in their order."""
    starts, hour = [], 0
    for name, duration in dict(JOBS.findall(prompt)).items():
        starts.append(f"{name} {hour}")
        hour += int(duration)
    return f"{'Each job starts when the job before it has ended. ' * 4}\nAnswer: {', '.join(starts)}"


class Slow(asyncio.Protocol):
    """One connection, with a request at a time."""

    def __init__(self, begun: list[float], late: list[float]) -> None:
        self.begun, self.late = begun, late
        self._read = b""

    def connection_made(self, transport: Any) -> None:  # noqa: D102
        self._transport = transport

    def data_received(self, data: bytes) -> None:  # noqa: D102
        self._read += data
        head, found, body = self._read.partition(b"\r\n\r\n")
        length = re.search(rb"(?i)content-length: *(\d+)", head)
        if not found or len(body) < (int(length[1]) if length else 0):
            return
        self._read = b""
        if head.startswith(b"GET "):
            self._send({"begun": self.begun, "late": self.late})
            self.begun.clear()
            self.late.clear()
            return
        self.begun.append(time.time())
        loop = asyncio.get_running_loop()
        loop.call_at(due := loop.time() + SECONDS, self._answer, due, body)

    def _answer(self, due: float, body: bytes) -> None:
        self.late.append(asyncio.get_running_loop().time() - due)
        message = {"role": "assistant", "content": answer_to(json.loads(body)["messages"][-1]["content"])}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        self._send({"choices": [choice], "usage": {"prompt_tokens": 200, "completion_tokens": 60}})

    def _send(self, found: Any) -> None:
        body = json.dumps(found).encode()
        if not self._transport.is_closing():
            self._transport.write(HEAD.format(len(body)).encode() + body)


async def serve() -> None:
    """Print the port, and serve until the process is ended."""
    begun: list[float] = []
    late: list[float] = []
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Slow(begun, late), "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve())
