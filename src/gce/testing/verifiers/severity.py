"""What a finding of `check_task` means: the class of the defect, and how severe it is.

The table `DEFECTS` holds a line for each check, and for each of its kinds that differs. Levels, the gravest first:

- critical: one answer, or one rule that needs no knowledge of the right answer, is paid: training finds it first.
- high: wrong answers that resemble right ones are paid, or copying the prompt solves the task, right answers are
  refused, or a verdict is not repeatable.
- medium: some responses break or delay the verifier, or it applies a rule that the prompt does not state.
- doubtful: an answer that probably is wrong is right, and nothing tells that it is. No finding.
- note: a format that the prompt does not ask for is refused. No finding.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, get_args

from attrs import frozen

__all__ = ["CURES", "DEFECTS", "SEVERITIES", "Defect", "Severity", "cure_of", "defect_of"]

Severity = Literal["critical", "high", "medium", "doubtful", "note"]
SEVERITIES: tuple[Severity, ...] = get_args(Severity)


@frozen
class Defect:
    """A class of defects."""

    name: str
    severity: Severity


_FALSE_ACCEPT = Defect("false accept", "high")
_FALSE_REJECT = Defect("false reject", "high")
_BREAKS = Defect("breaks", "medium")

DEFECTS: Mapping[tuple[str, str], Defect] = {
    ("own answers", ""): _FALSE_REJECT,
    ("totality", ""): _BREAKS,
    ("time", ""): Defect("slow", "medium"),
    ("determinism", ""): Defect("not repeatable", "high"),
    ("round trip", ""): _BREAKS,
    ("relations", ""): Defect("broken relation", "high"),
    ("blind", ""): Defect("false accept", "critical"),
    ("blind", "copied"): Defect("trivial answer", "high"),
    ("feedback", ""): Defect("gives the answer away", "high"),
    ("agreement", ""): Defect("unstated rule", "medium"),
    ("hedging", ""): _FALSE_ACCEPT,
    ("exploits", ""): _FALSE_ACCEPT,
    ("exploits", "false reject"): _FALSE_REJECT,
    ("meaning", ""): Defect("prompt misread", "medium"),
    ("near misses", ""): _FALSE_ACCEPT,
    ("formats", ""): Defect("false accept", "medium"),
    ("formats", "refused"): Defect("false reject", "medium"),
    ("changes", ""): _FALSE_ACCEPT,
    ("types", ""): _FALSE_ACCEPT,
    ("types", "evaluated"): Defect("runs the answer", "critical"),
}
"""By check and kind; an empty kind stands for all others."""


WHOLE_LIST = (
    "compare all items with how often each occurs, as Counter(answer) == Counter(right); for partial credit, divide "
    "the items in common by the length of the longer list"
)
ONE_ANSWER = "take one answer with extract=, or return 0 where there are several"
CURES: Mapping[tuple[str, str], str] = {
    ("own answers", ""): "accept the column `answer` as text: answer == str(problem['answer'])",
    ("totality", ""): "return 0 for what cannot be read or is very long: put float() and the like in try",
    ("time", ""): "cut long answers first, and simplify the slow expression or loop",
    ("determinism", ""): "use no clock, no random numbers and nothing that an earlier answer left",
    ("round trip", ""): "make the instance of plain data",
    ("relations", ""): "judge what the relation keeps alike",
    ("blind", ""): (
        "compare with the right answer alone: repeats and more items earn nothing, and partial credit falls fast with "
        "the distance"
    ),
    ("blind", "all answers at once"): ONE_ANSWER,
    ("blind", "repeats the prompt"): ONE_ANSWER,
    ("blind", "copied"): f"{ONE_ANSWER}; if one word is copied, choose questions whose answers are not in the prompt",
    ("feedback", ""): "leave the right answer out of the feedback",
    ("agreement", ""): "state the rule in the prompt, or do not judge it",
    ("hedging", ""): ONE_ANSWER,
    ("hedging", "padding"): "compare the whole answer, not a part of it",
    ("exploits", ""): "look for what the score and the second judge take differently",
    ("meaning", ""): "make the reader of prompts stricter",
    ("near misses", ""): "compare the whole answer for equality, or as numbers",
    ("near misses", "the first item dropped"): WHOLE_LIST,
    ("near misses", "the last item dropped"): WHOLE_LIST,
    ("near misses", "an item in place of another"): WHOLE_LIST,
    ("near misses", "an item more"): WHOLE_LIST,
    ("near misses", "repeated items dropped"): WHOLE_LIST,
    ("near misses", "the opposite sign"): "compare with the sign: a pattern needs -? before the digits",
    ("formats", ""): "judge case, order and units as the prompt says",
    ("changes", ""): "compare exactly, or with a smaller tolerance",
    ("types", ""): "take the answer alone with extract=, compare it as text or numbers, and evaluate nothing",
}
"""What usually mends a finding, by check and kind; an empty kind stands for all others."""


def cure_of(check: str, kind: str, message: str = "") -> str:
    """What usually mends it; of baselines by the one that the message begins with."""
    named = kind if (check, kind) in CURES else message.partition(":")[0]
    return CURES.get((check, named)) or CURES[check, ""]


def defect_of(check: str, kind: str) -> Defect:
    """The class of a finding; KeyError for a check that is not in the table."""
    return DEFECTS.get((check, kind)) or DEFECTS[check, ""]
