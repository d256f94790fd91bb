"""Other ways to write a known answer, and small changes of it that mean something else. Pure text; no task is asked.

A form means the same to a person. Whether a verifier takes it is its own business, unless the prompt says so: `allowed`
and `excluded` are what the prompt says then.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal, InvalidOperation

from attrs import frozen

from gce.testing.verifiers.responses import glue_of, items_of, unit_of

__all__ = ["FORMS", "Form", "as_code", "other_meanings"]

Make = Callable[[str], str | None]


@frozen
class Form:
    """A way to write an answer."""

    make: Make
    """From an answer to the same one written so; None where it cannot be."""
    allowed: str = ""
    """What a prompt says that asks for this form, or lets it pass: a regular expression; empty where none does."""
    excluded: str = ""
    """What a prompt says that rules this form out."""


_NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?")
_WHOLE = re.compile(r"[0-9]+")
_ANY_CASE = (
    r"case[- ]insensitive|\b(any|either|no matter which) case|case does(n.t| not) matter|ignor\w+ case|upper or lower"
)
_CASE = (
    r"case[- ]sensitive|\bcase matters|\bexact(ly)? (the )?case|\bsame case\b|upper ?case|lower ?case|"
    r"(capital|small|block) letters|capitali[sz]|exactly as|preserv\w+ (the )?case|case (is important|must|counts)"
)
_ANY_ORDER = r"\b(any|whatever|no particular) order|order does(n.t| not) matter|regardless of order"
_ORDER = (
    r"\bin ([\w-]+ ){0,3}order\b(?! to\b)|\bsort(ed)?\b|order matters|ascending|descending|increasing|decreasing|"
    r"alphabetical|\bfrom (the )?(smallest|lowest|largest|highest|earliest|oldest|first|shortest|longest)|"
    r"(smallest|lowest|largest|highest|earliest|oldest|shortest|longest) first|\bin sequence"
)
_UNIT = r"\bunits?\b"
_NO_UNIT = r"optional|with or without|no units?|without (the |its |any )?units?"


def _of_number(write: Make) -> Make:
    return lambda answer: write(answer) if _NUMBER.fullmatch(answer) else None


def _of_whole(write: Make) -> Make:
    return lambda answer: write(answer) if _WHOLE.fullmatch(answer) else None


def _reordered(answer: str) -> str | None:
    items = items_of(answer) or (answer.split() if answer.count(" ") > 1 and "," not in answer else [])
    return glue_of(answer).join(items[::-1]) if items else None


def _without_unit(answer: str) -> str | None:
    found = unit_of(answer)
    return found[0] if found else None


def _wide(answer: str) -> str:
    return "".join(chr(ord(each) + 0xFEE0) if "!" <= each <= "~" else each for each in answer)


_LOOK_ALIKE = str.maketrans("aceopxyACEHKMOPTX", "асеорхуАСЕНКМОРТХ")  # noqa: RUF001 - that is the point.

FORMS = {
    "in upper case": Form(str.upper, _ANY_CASE, _CASE),
    "in lower case": Form(str.lower, _ANY_CASE, _CASE),
    "a list in the opposite order": Form(_reordered, _ANY_ORDER, _ORDER),
    "without its unit": Form(_without_unit, _NO_UNIT, _UNIT),
    "with a final period": Form(lambda answer: f"{answer}."),
    "in quotation marks": Form(lambda answer: f'"{answer}"'),
    "in bold type": Form(lambda answer: f"**{answer}**"),
    "as LaTeX": Form(lambda answer: f"${answer}$"),
    "in a sentence": Form(lambda answer: f"The answer is {answer}"),
    "in a sentence that goes on": Form(lambda answer: f"I think that {answer} is the answer to this question"),
    "in a list of JSON": Form(_of_number(lambda answer: f"[{answer}]")),
    "with decimals": Form(_of_whole(lambda answer: f"{answer}.0"), r"\bdecimals?\b"),
    "with a plus sign": Form(_of_whole(lambda answer: f"+{answer}")),
    "with a leading zero": Form(_of_whole(lambda answer: f"0{answer}")),
    "with thousands separators": Form(_of_whole(lambda answer: f"{int(answer):,}" if len(answer) < 18 else None)),
    "in scientific notation": Form(_of_whole(lambda answer: f"{answer}e0"), r"scientific notation"),
    "without spaces": Form(lambda answer: answer.replace(" ", "") if items_of(answer) else None),
    "in full width": Form(_wide),
    "with letters of another script": Form(lambda answer: answer.translate(_LOOK_ALIKE)),
    "with a zero-width space": Form(lambda answer: f"{answer[:1]}\u200b{answer[1:]}"),
}
"""By name."""


def other_meanings(answer: str) -> dict[str, str]:
    """Answers that differ from this one by one unit, or a few signs, and mean something else, by what was changed."""
    found: dict[str, str] = {}
    if _NUMBER.fullmatch(answer) and len(answer) < 40:
        number = Decimal(answer)
        step = Decimal(1) if "." not in answer else Decimal(3).scaleb(int(number.as_tuple().exponent))
        found = {"one unit more": str(number + step), "one unit less": str(number - step)}
        if _WHOLE.fullmatch(answer):
            found["decimals in front"] = f"7.{answer}"
            found |= {"decimals behind": f"{answer}.4", "more decimals behind": f"{answer}.9"}
            if int(answer):
                found["a zero behind"] = f"{answer}0"
            found["as a power"] = answer[0] + answer[1:].translate(str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹"))
    elif re.fullmatch(r"(?=.*[0-9])(?=.*[A-Za-z])[A-Za-z0-9_-]{3,}", answer) and unit_of(answer) is None:
        found["one letter of a code changed"] = re.sub("[A-Za-z]", lambda one: _next(one[0]), answer, count=1)
    elif answer.isascii() and answer.isalpha() and len(answer) > 4:
        found["first and last letter changed"] = _next(answer[0]) + answer[1:-1] + _next(answer[-1])
    if re.fullmatch(r"\w*[a-z]\w*[A-Z]\w*", answer):
        found["case swapped"] = answer.swapcase()
    if answer.startswith("{") and answer.endswith("}") and len(answer) > 4:
        found["an entry more"] = f'{answer[:-1]}, "another": 7}}'
    return {name: other for name, other in found.items() if other != answer and not _equal(other, answer)}


def _next(letter: str) -> str:
    return {"z": "a", "Z": "A"}.get(letter, chr(ord(letter) + 1))


def _equal(one: str, other: str) -> bool:
    """Whether two texts are the same number."""
    try:
        return Decimal(one) == Decimal(other)
    except InvalidOperation:
        return False


def as_code(answer: str) -> str | None:
    """Python that has this answer as its value and does not contain it; None where there is none as short."""
    if re.fullmatch(r"-?[0-9]{1,15}", answer):
        number = int(answer)
        code = f"{'-' * (number < 0)}int('{abs(number):x}', 16)"
    else:
        code = f"{answer[::-1]!r}[::-1]"
    return None if answer in code or len(answer) > 80 else code
