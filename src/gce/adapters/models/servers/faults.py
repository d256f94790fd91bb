"""What servers say when they do not answer, and what is to be made of it, whatever their format.

Independent of connections and requests.
"""

from __future__ import annotations

import re
from typing import Any, Literal

from gce.adapters.models.servers.json_bodies import Unreadable
from gce.errors import one_line

__all__ = ["fault_of", "status_of", "what_is_told"]

_TOLD = 1 << 12
"""Maximum characters of a message that are searched to classify a fault."""
_LIMITED = re.compile(
    r"quota|rate[ _-]?limit|too[ _]many[ _]requests|\b(tokens|requests)[ _]per[ _](second|min|hour|day|month)"
    r"|\b[tr]p[smd]\b|billing|insufficient[ _](funds|balance|credit)|credit (balance|limit)|out of credits|\bpayment"
    r"|\byour (current )?(plan|tier|organi[sz]ation|subscription)\b|queue|overload|throttl|concurren(t|cy)",
    re.IGNORECASE,
)
"""Matches a limit of the account or of the server, whatever quantity it limits."""
_NO_ROOM = re.compile(
    r"context[ _-](length|size|window|limit)[ _](has been |is |was )?exceed|exceed[ _]context"
    r"|(exceed|overflow|longer than|larger than|greater than|more than|too (long|large|big|many|short|small)|not enough"
    r"|(not|n't) fit)[^.]{0,120}\bcontext\b"
    r"|\bcontext\b[^.]{0,120}(exceed|overflow|too (small|short)|not enough|is full)"
    r"|\bmax(imum)? (context|model|prompt|input|sequence)[ _](length|size)\b|\bmax_(model|seq|input)_len"
    r"|\b(prompt|inputs?|messages?|conversation|sequence)( (text|tokens?|length|sequence))?( \([^)]{0,40}\))?"
    r"( is| are| was| has| have)?( far| much| way)? too (long|large|many)"
    r"|\b(prompt|inputs?|messages?|conversation|sequence|token count|requested tokens)\b[^.]{0,80}"
    r"\b(exceeds?|longer than|larger than|more than)\b[^.]{0,80}\b(tokens?|(allowed )?length|limit of [0-9])"
    r"|`?inputs`?( tokens)? (\+ `?max_new_tokens`? )?must (be <=|have less than) [0-9]+"
    r"|reduce the length of (the|your) (messages?|prompt|input)",
    re.IGNORECASE,
)
"""Matches a statement that the prompt, alone or with the requested tokens, exceeds the model's context."""
_FOR_NOW = re.compile(
    r"(at|over|full|no|insufficient|out of|exceed\w*|reached)( \w+){0,2} capacity"
    r"|capacity( \w+){0,2} (exceeded|reached|full)|(try|retry)( \w+){0,3} (again|later)|retry after|temporar"
    r"|unavailable|\bbusy\b|(still|is|being) load(ing|ed)|time[d -]?out|out of memory"
    r"|slots?\b[^.]{0,20}\b(available|free)",
    re.IGNORECASE,
)
"""Matches a temporary condition."""

_BLOCKED = re.compile(
    r"content[ _-](filter|management policy|policy|moderation)|responsibleaipolicy|\binvalid_prompt\b"
    r"|requires moderation"
    r"|\b(input|prompt|output|content|message|request|response|text)s? (was|were|is|are|has been|have been) "
    r"(flagged|blocked)|\b(blocked|flagged|rejected)( \w+){0,5} safety|\bprohibited[ _]content"
    r"|\b(input|prompt|output|content|message|request|response|text)s? violates?( \w+){0,3} "
    r"(usage )?(policy|policies|guidelines)",
    re.IGNORECASE,
)
"""Matches a statement that the provider does not let this prompt, or its answer, pass."""


def what_is_told(body: Any) -> str:
    """Return an error response's message in one line, or all of the response."""
    told = body.text if isinstance(body, Unreadable) else body
    while isinstance(told, dict):
        told = next((told[name] for name in ("error", "message", "detail", "msg") if told.get(name)), str(told))
    if isinstance(told, list) and told and all(isinstance(each, dict) and "msg" in each for each in told):
        # Pydantic's list of errors repeats the request; only its messages are the server's own.
        told = "; ".join(f"{each.get('loc', '')} {each['msg']}" for each in told)
    return one_line(told, 1 << 20)


def status_of(status: int, body: Any) -> int:
    """Return a response's status, or that of the error which it holds alone although its status is 200; else 500."""
    match body:
        case {"error": error} if error and status == 200 and not body.keys() & {"choices", "content"}:
            code = error.get("code") if isinstance(error, dict) else None
            return code if type(code) is int and 400 <= code < 600 else 500
    return status


def fault_of(status: int, body: Any) -> Literal["no room", "blocked", "failed", "refused"]:
    """Classify a response whose status is not 200.

    `no room`: the prompt does not fit the model's context, according to the message or the error code. `blocked`: a
    filter of the provider does not let this prompt, or its answer, pass; others may. `failed`: a retry may succeed.
    `refused`: a retry is useless. Words about quotas, rates and queues are checked first, because "too large" may refer
    to them; then words about the context and about filters, then words for temporary conditions, then the status.
    """
    told = f"{what_is_told(body)[:_TOLD]} {' '.join(_codes(body))}"
    if status in (401, 404):
        return "refused"
    if status >= 400 and _LIMITED.search(told):
        return "failed"
    if status in (400, 413, 422, 500) and _NO_ROOM.search(told):
        return "no room"
    if status in (400, 403, 422, 451) and _BLOCKED.search(told):
        return "blocked"
    if status in (408, 425, 429) or status >= 500 or (status >= 400 and _FOR_NOW.search(told)):
        return "failed"
    return "refused"


def _codes(body: Any) -> list[str]:
    """Return the machine-readable error codes."""
    found: list[str] = []
    while isinstance(body, dict):
        found += [body[name][:100] for name in ("code", "type", "status") if isinstance(body.get(name), str)]
        body = body.get("error")
    return found
