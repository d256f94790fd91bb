"""Second judges of generators of reasoning-gym, written from their prompts, without reading a score.

`gce audit-environments reasoning-gym --judges attacks.judges.reasoning_gym:JUDGES`. A judge takes the row (prompt,
known answer) and the response. Where a prompt has one right answer, it compares with the known one, up to case,
brackets and commas; where it has several, it works the answer out from the prompt. Judges are lenient in matters of
form, so that what they call wrong is wrong. A generator that is not here has no second judge.
"""

from __future__ import annotations

import ast
import json
import math
import operator
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

from gce.domain.tasks.extraction import NoAnswer, extraction_of
from gce.testing.verifiers.bench import Accepts

__all__ = ["JUDGES"]

Row = Mapping[str, Any]
LONGEST = 20_000
"""Characters of an answer that a judge reads."""


def said(response: str) -> str:
    """The one answer of a response; a sign that is no answer where there is none, or several."""
    try:
        answer = extraction_of(("tag", "answer")).answer(response)[:LONGEST]
    except NoAnswer:
        return "\0"
    # In plain digits, whatever their script: that is a matter of form.
    digits = {ord(each): str(unicodedata.decimal(each)) for each in set(answer) if each.isdecimal()}
    return unicodedata.normalize("NFKC", answer.translate(digits)).strip()


def only_known(row: Row, response: str) -> bool:
    """One right answer: the known one."""
    return same(said(response), str(row["answer"]).strip())


def same(one: str, other: str) -> bool:
    """Whether two answers are one number, or the same words and numbers in the same order."""
    numbers = (number(one), number(other))
    if None not in numbers:
        return numbers[0] == numbers[1]
    return parts(one) == parts(other)


def number(text: str) -> Fraction | None:
    """A number, with thousands separators, or in the hexadecimal system after 0x."""
    text = text.strip().removesuffix(".").replace(" ", "")
    if re.fullmatch(r"-?0[xX][0-9a-fA-F]{1,60}", text):
        return Fraction(int(text, 16))
    if re.fullmatch(r"[+-]?[0-9]{1,3}(,[0-9]{3})+(\.[0-9]+)?", text):
        text = text.replace(",", "")
    return (
        Fraction(text)
        if re.fullmatch(r"[+-]?([0-9]{1,60}\.?[0-9]{0,60}|\.[0-9]{1,60})(e[+-]?[0-9]{1,2})?", text.lower())
        else None
    )


def parts(text: str) -> list[str]:
    """Numbers, words and signs in their order; brackets, commas, quotation marks and space do not count."""
    pattern = r"-?[0-9]+(?:\.[0-9]+)?(?:e[-+]?[0-9]+)?|[^\W\d_]+|[^\w\s,;:()\[\]{}\"'.]"
    return [number_or(part) for part in re.findall(pattern, text.casefold())]


def number_or(part: str) -> str:
    found = number(part)
    return part if found is None else str(found)


# Expressions.

_OPERATORS: Mapping[type, Callable[..., Any]] = {
    **{ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv},
    **{ast.USub: operator.neg, ast.UAdd: operator.pos},
}
_FUNCTIONS = {name: getattr(math, name) for name in ("sin", "cos", "tan", "asin", "acos", "atan", "exp", "sqrt", "log")}


def value(node: ast.AST, names: Mapping[str, float]) -> Any:
    """Of an expression of numbers, names, four operators, powers and a few functions; ValueError of anything else."""
    if isinstance(node, ast.Expression):
        return value(node.body, names)
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        return node.value if names else Fraction(str(node.value))
    if isinstance(node, ast.Name) and node.id in names:
        return names[node.id]
    if isinstance(node, ast.UnaryOp) and type(node.op) in _OPERATORS:
        return _OPERATORS[type(node.op)](value(node.operand, names))
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        return _OPERATORS[type(node.op)](value(node.left, names), value(node.right, names))
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow) and names:
        return math.pow(value(node.left, names), value(node.right, names))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _FUNCTIONS and names:
        (argument,) = node.args
        return _FUNCTIONS[node.func.id](value(argument, names))
    raise ValueError("not an expression")


def evaluated(text: str, names: Mapping[str, float] | None = None) -> Any:
    """The value of an expression; None where it is none."""
    try:
        return value(ast.parse(text.strip(), mode="eval"), names or {})
    except (ValueError, SyntaxError, ZeroDivisionError, OverflowError, RecursionError, TypeError, MemoryError):
        return None


def makes(row: Row, response: str, given: str, target: str) -> bool:
    """Whether an expression uses just the numbers of the prompt and has the value that it asks for."""
    answer, prompt = said(response), str(row["prompt"])
    found = re.search(given, prompt)
    wanted = re.search(target, prompt)
    if found is None or wanted is None:
        raise ValueError(f"the prompt has another form: {prompt[:80]!r}")
    numbers = Counter(re.findall("[0-9]+", found[1]))
    return Counter(re.findall("[0-9]+", answer)) == numbers and evaluated(answer) == int(wanted[1])


def countdown(row: Row, response: str) -> bool:
    """All numbers, each once."""
    return makes(row, response, r"((?:[0-9]+, )+[0-9]+)", r"(?:Calculate|make|equals) ([0-9]+)")


def puzzle24(row: Row, response: str) -> bool:
    """Four numbers, each once."""
    return makes(row, response, r"using ([0-9, ]+)", r"Make ([0-9]+)")


def coin_flip(row: Row, response: str) -> bool:
    """The probability of a number of heads or tails, to a relative error of a thousandth."""
    prompt = str(row["prompt"])
    found = re.search(
        r"(at least|at most|exactly|fewer than|more than)?\s*([0-9]+) (?:heads|tails) in ([0-9]+)", prompt
    )
    exact = number(str(row["answer"]))
    if found is not None and found[1] in ("at least", "exactly"):
        wanted, flips = int(found[2]), int(found[3])
        ways = range(wanted, flips + 1) if found[1] == "at least" else [wanted]
        exact = Fraction(sum(math.comb(flips, heads) for heads in ways), 2**flips)
    text = said(response).replace(" ", "")
    if match := re.fullmatch("([0-9]{1,30})/([0-9]{1,30})", text):
        given: Fraction | None = Fraction(int(match[1]), int(match[2])) if int(match[2]) else None
    elif text.endswith("%"):
        percent = number(text[:-1])
        given = None if percent is None else percent / 100
    else:
        given = number(text)
    return given is not None and exact is not None and abs(given - exact) <= exact / 1000


def number_sorting(row: Row, response: str) -> bool:
    """The numbers of the prompt in order, to the rounding of the known answer."""
    known, given = (re.findall(_DECIMAL, text) for text in (str(row["answer"]), said(response)))
    asked = re.search(r"order: (.*)", str(row["prompt"]))
    exact = asked[1].split(", ") if asked else known
    order = sorted(map(float, exact), reverse="descending" in str(row["prompt"]).split(":")[0])
    wanted = len(given) == len(order) and all(
        abs(float(one) - other) <= 0.06 for one, other in zip(given, order, strict=True)
    )
    return wanted and re.search("[a-zA-Z]", said(response)) is None


def antiderivative(row: Row, response: str) -> bool:
    """An expression without an integral sign whose slope is the integrand, at several points."""
    found = re.search(r"∫ (.*) d(\w)", str(row["prompt"]))
    if found is None:
        raise ValueError(f"the prompt has another form: {row['prompt'][:80]!r}")
    integrand = found[1]
    name = next(iter(re.findall(r"(?<![A-Za-z])[A-Za-z](?![A-Za-z])", integrand)), found[2])
    answer = said(response)
    hits = 0
    for point in (0.11, -0.07, 0.37, 0.81, 1.23, 1.71, -0.44, -0.93, -5.3, -12.7, 9.6):
        step = 1e-5
        around = [evaluated(answer, {name: point + each, "C": 0.0}) for each in (-step, step)]
        wanted = evaluated(integrand, {name: point})
        if wanted is None or None in around:
            continue
        slope = (around[1] - around[0]) / (2 * step)
        if abs(slope - wanted) > 1e-3 * max(1.0, abs(wanted)):
            return False
        hits += 1
    return hits >= 2


def expanded(row: Row, response: str) -> bool:
    """The product as a sum: the same value at several points, and no brackets or functions."""
    answer, known = said(response), str(row["answer"])
    letters = sorted({*re.findall("[A-Za-z]", known)})
    if re.search(r"[(]|[A-Za-z]{2}", re.sub(r"\((-?[0-9]+)\)", r"\1", answer)):
        return False
    for base in (1.3, 0.7, 2.1):
        names = {letter: base + 0.37 * place for place, letter in enumerate(letters)} or {"x": base}
        one, other = evaluated(answer, names), evaluated(known, names)
        if one is None or other is None or abs(one - other) > 1e-6 * max(1.0, abs(other)):
            return False
    return True


_DECIMAL = r"-?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?"


def roots(row: Row, response: str) -> bool:
    """As many numbers as there are real roots, each to a hundredth; none of anything else where there is none."""
    answer, known = said(response), str(row["answer"])
    wanted = [float(each) for each in re.findall(_DECIMAL, known)]
    if not wanted:
        return (
            re.fullmatch(r"(?i)|[\"']{2}|\[\]|none|no real (solutions?|roots?)\.?|empty( string)?", answer) is not None
        )
    if re.fullmatch(r"[-+0-9.,eE\s\[\]]+", answer) is None:
        return False
    given = sorted(float(each) for each in re.findall(_DECIMAL, answer))
    pairs = zip(given, sorted(wanted), strict=False)
    return len(given) == len(wanted) and all(abs(one - other) <= 0.011 for one, other in pairs)


def complex_number(row: Row, response: str) -> bool:
    """Equal in both parts, to a hundredth."""
    one, other = (_complex(text) for text in (said(response), str(row["answer"])))
    return one is not None and other is not None and abs(one - other) <= 0.011


def _complex(text: str) -> complex | None:
    text = text.replace(" ", "").replace("i", "j").replace("*", "").strip("()")
    if re.fullmatch(r"[-+0-9.j]{1,60}", text) is None:
        return None
    try:
        return complex(text)
    except ValueError:
        return None


def close(relative: float, absolute: float = 0.0) -> Accepts:
    """The known numbers, in their order, each to a rounding that the prompt asks for."""

    def judge(row: Row, response: str) -> bool:
        pattern = r"-?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?"
        one, other = (
            [float(each) for each in re.findall(pattern, text)] for text in (said(response), str(row["answer"]))
        )
        words = re.sub(pattern, "", said(response))
        return (
            len(one) == len(other)
            and re.search("[A-Za-z]", words) is None
            and all(abs(a - b) <= max(absolute, relative * abs(b)) for a, b in zip(one, other, strict=True))
        )

    return judge


def knights_knaves(row: Row, response: str) -> bool:
    """Who is what, in the order of the known answer, and no word besides."""
    fillers = {"is", "a", "an", "and"}
    one, other = (
        [part for part in parts(text) if part not in fillers] for text in (said(response), str(row["answer"]))
    )
    return one == other


def kakurasu(row: Row, response: str) -> bool:
    """Zeros and ones whose weighted sums are those of the prompt."""
    sums = [json.loads(found) for found in re.findall(r"\[[0-9, ]+\]", str(row["prompt"]))[:2]]
    if len(sums) != 2:
        raise ValueError(f"the prompt has another form: {row['prompt'][:80]!r}")
    rows = [re.findall("[0-9]+", line) for line in said(response).splitlines()]
    if {len(each) for each in rows} != {len(sums[1])} or not {cell for each in rows for cell in each} <= {"0", "1"}:
        return False
    grid = [[int(cell) for cell in each] for each in rows]
    across = [sum(place * cell for place, cell in enumerate(each, 1)) for each in grid]
    down = [sum(place * cell for place, cell in enumerate(each, 1)) for each in zip(*grid, strict=True)]
    return [across, down] == sums


def any_order(row: Row, response: str) -> bool:
    """Groups in any order, of members in any order."""
    try:
        one, other = (json.loads(text) for text in (said(response), str(row["answer"])))
        return _sorted(one) == _sorted(other)
    except (ValueError, TypeError, RecursionError):
        return False


def _sorted(groups: Sequence[Sequence[str]]) -> list[list[str]]:
    return sorted(sorted(group) for group in groups)


_NAMES = (
    "ab acre aiw arc_1d arc_agi base_conversion basic_arithmetic bf binary_alternation binary_matrix "
    "bitwise_arithmetic caesar_cipher calendar_arithmetic chain_sum circuit_logic color_cube_rotation count_bits "
    "count_primes course_schedule decimal_chain_sum dice emoji_mystery family_relationships figlet_font "
    "fraction_simplification futoshiki game_of_life game_of_life_halting gcd gsm_symbolic isomorphic_strings "
    "largest_island lcm leg_counting letter_counting letter_jumble mahjong_puzzle "
    "manipulate_matrix maze mini_sudoku needle_haystack number_filtering number_format path_star "
    "prime_factorization products ransom_note rearc rectangle_count rotate_matrix rotten_oranges self_reference "
    "simple_equations simple_geometry spell_backward spiral_matrix string_insertion string_manipulation sudoku "
    "syllogism time_intervals word_sequence_reversal word_sorting zebra_puzzles"
)
ONE_ANSWER = _NAMES.split()
"""Generators whose prompts have one right answer: another number, word or order is wrong."""

JUDGES: Mapping[str, Accepts] = {
    **dict.fromkeys(ONE_ANSWER, only_known),
    "coin_flip": coin_flip,
    "complex_arithmetic": complex_number,
    "countdown": countdown,
    "decimal_arithmetic": close(1e-9, 1e-9),
    "group_anagrams": any_order,
    "intermediate_integration": antiderivative,
    "kakurasu": kakurasu,
    "knights_knaves": knights_knaves,
    "number_sorting": number_sorting,
    "polynomial_equations": roots,
    "polynomial_multiplication": expanded,
    "pool_matrix": close(0.0, 0.011),
    "power_function": close(0.006),
    "puzzle24": puzzle24,
    "simple_integration": antiderivative,
}
"""By the name of the generator."""
