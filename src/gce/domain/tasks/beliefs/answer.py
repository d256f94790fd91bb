r"""The written form of a belief: a strict grammar for one probability.

    response    = [ reasoning newline ] answer-line { whitespace } ;
    reasoning   = any text ;
    newline     = LF ;                                  (* a CR before it belongs to the reasoning *)
    answer-line = "Answer: " probability ;
    probability = decimal | percent ;
    decimal     = "0" | "1" | "0." digits | "1." "0" { "0" } ;
    percent     = number [ " " ] "%" ;                  (* from 0 to 100 *)
    number      = whole [ "." digits ] ;
    whole       = "0" | nonzero-digit { digit } ;       (* ASCII digits, at most 3 of them *)
    digits      = digit { digit } ;                     (* ASCII digits, at most 20 of them *)
    whitespace  = " " | TAB | CR | LF ;

Only the last line counts: numbers in the reasoning are never read, and neither are earlier answer lines, so the last
one wins. "Answer: 1" is certainty, "Answer: 1 %" one percent, and "Answer: 35" without a percent sign no probability.
Signs, exponents, NaN, other scripts' digits, ranges, two numbers, and a word or full stop behind the number are no
probability either. An answer that breaks the grammar is unreadable, which is not the same as a wrong one.

On request `parse` also reads `\finalBeliefProb{X}` anywhere in the response, X being a decimal or percent as above. The
last of these counts, but an answer line at the end of the response comes after them all.

All functions accept any `str`, lone surrogates and NULs included, in time linear in its length.
"""

from __future__ import annotations

import re

from gce.domain.verdicts import Violation

__all__ = ["FINAL_BELIEF", "parse", "render", "render_percent"]

FINAL_BELIEF = r"\finalBeliefProb{"
_MARKER = "Answer: "
_DECIMAL = re.compile(r"0(?:\.[0-9]{1,20})?|1(?:\.0{1,20})?")
_PERCENT = re.compile(r"((?:0|[1-9][0-9]{0,2})(?:\.[0-9]{1,20})?) ?%")


def parse(text: str, *, final_belief: bool = False) -> float | Violation:
    r"""Return the probability in [0, 1] that a response states, or the violation of the grammar.

    The violation's kind is `missing-answer` (the last line does not start with "Answer: ") or `grammar` (what follows
    is no probability). With `final_belief`, `\finalBeliefProb{X}` is read too.
    """
    body = text.rstrip(" \t\r\n")
    start = body.rfind("\n") + 1
    marked = body.startswith(_MARKER, start)
    at = body.rfind(FINAL_BELIEF) if final_belief else -1
    if at >= (start if marked else 0):
        said, closed, _ = body[at + len(FINAL_BELIEF) :].partition("}")
        return _probability(said if closed else "")
    if not marked:
        return Violation("missing-answer", 'The last line does not start with "Answer: ".')
    return _probability(body[start + len(_MARKER) :])


def _probability(said: str) -> float | Violation:
    if len(said) <= 30:
        if _DECIMAL.fullmatch(said):
            return float(said)
        percent = _PERCENT.fullmatch(said)
        if percent and float(percent[1]) <= 100.0:
            return float(percent[1]) / 100.0
    got = said if len(said) <= 40 else said[:37] + "..."
    return Violation("grammar", f"Expected a probability such as 0.35 or 35 % after the mark, got {got!r}.")


def render(probability: float) -> str:
    """Write a probability as the answer line, to 15 decimal places; `parse` reads it back to within 1e-15.

    Raises:
        ValueError: it is not in [0, 1].
    """
    if not 0.0 <= probability <= 1.0:
        raise ValueError(f"expected a probability in [0, 1], got {probability!r}")
    return _MARKER + _trimmed(f"{probability:.15f}")


def render_percent(probability: float, *, places: int = 0) -> str:
    """Write a probability as the answer line, in percent, rounded to so many decimal places, 0 to 12.

    Raises:
        ValueError: it is not in [0, 1].
    """
    if not 0.0 <= probability <= 1.0:
        raise ValueError(f"expected a probability in [0, 1], got {probability!r}")
    return f"{_MARKER}{_trimmed(f'{100.0 * probability:.{places}f}')} %"


def _trimmed(number: str) -> str:
    return number.rstrip("0").rstrip(".") if "." in number else number
