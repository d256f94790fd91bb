"""From a judged answer to a trace: what the replay buffer takes. Knows nothing of runs and models."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

from gce.domain.types import Completion, Problem, Trace, Verdict

__all__ = ["trace_digest", "trace_of"]


def trace_of(
    problem: Problem,
    completion: Completion | str,
    verdicts: Sequence[Verdict] | Verdict,
    *,
    iteration: int = 0,
    key: str | None = None,
) -> Trace:
    """The trace of an answer with its verdicts, for `gce.admit`.

    The buffer takes every trace: whether the verdicts let it in is for the caller to say, by `Task.admit` as the loop
    does, or as `verdict.right`. Text alone stands for a completion of no known model. The key, unique among traces, is
    by default the completion's, for text the problem's with the trace's digest.
    """
    if isinstance(completion, str):
        named = key or f"{problem.key}/{trace_digest(problem, completion)}"
        completion = Completion(named, completion, "stop", policy="")
    return Trace(
        key=completion.key if key is None else key,
        problem=problem.key,
        tier=problem.tier,
        iteration=iteration,
        messages=problem.prompt,
        completion=completion,
        verdicts=(verdicts,) if isinstance(verdicts, Verdict) else tuple(verdicts),
        digest=trace_digest(problem, completion.text),
    )


def trace_digest(problem: Problem, text: str) -> str:
    """Same problem, same text up to whitespace: the same lesson. 32 hexadecimal digits."""
    words = " ".join(text.split())
    return blake2b(f"{problem.digest}\n{words}".encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
