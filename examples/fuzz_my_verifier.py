"""Attack a verifier: a sound one, and the same one with a bug planted, a dozen and more times.

    python examples/fuzz_my_verifier.py

prints for each bug which of the checks found it, and exits with status 1 if one was missed or the sound one accused.
The task: share out a total among three people, none of whom gets more than so much. What makes the check worth most is
given below beside the verifier: `heuristics` (right answers), `relations`, and `accepts`, a second judge.
"""

from __future__ import annotations

import random
import re
import string
import sys
from collections.abc import Callable, Mapping
from hashlib import blake2b
from typing import Any

from attrs import evolve, frozen

from gce.domain.completions import Completion
from gce.domain.executions import Evidence
from gce.domain.problems import Message, Problem
from gce.domain.tasks import Audit, References, Relation, Task, TaskTier
from gce.domain.verdicts import Verdict, Violation
from gce.testing.verifiers.check import TaskReport, check_task

ENTRY = re.compile("([A-Z]) (0|[1-9][0-9]{0,3})")
Shared = dict[str, int] | None
LOTS = random.Random(0)


@frozen
class Sharing:
    """Three people, what there is to share out, and what one gets at most."""

    names: tuple[str, ...]
    total: int
    most: int


# The sound verifier, and the task around it


def read(text: str) -> Shared:
    """Who gets what, on the last line and nowhere else; None where it is not written as asked."""
    last = text.rstrip(" \n").rpartition("\n")[2]
    if text.count("Answer:") != 1 or not last.startswith("Answer: "):
        return None
    found = [ENTRY.fullmatch(entry) for entry in last.removeprefix("Answer: ").split(", ")]
    shares = {entry[1]: int(entry[2]) for entry in found if entry}
    return shares if len(shares) == len(found) else None


def judge(instance: Sharing, shares: Shared) -> tuple[Verdict, ...]:
    """One verdict, with what is wrong."""
    wrong = []
    if shares is None or sorted(shares) != sorted(instance.names):
        wrong.append(Violation("grammar", "The last line does not give each person one whole number."))
    else:
        if sum(shares.values()) != instance.total:
            wrong.append(Violation("total", f"The shares add up to {sum(shares.values())}."))
        if max(shares.values()) > instance.most:
            wrong.append(Violation("most", "Somebody gets more than is allowed."))
    return (Verdict("wrong" if wrong else "right", float(not wrong), "sharing", "1", violations=tuple(wrong)),)


def verify(problem: Problem, completion: Completion, _evidence: Evidence | None) -> tuple[Verdict, ...]:
    """Read, then judge."""
    return judge(problem.instance, read(completion.text))


def accepts(problem: Problem, text: str) -> bool:
    """The second judge, written another way: it takes the line apart and compares it with all numbers allowed."""
    head, _, tail = text.rpartition("Answer: ")
    if "Answer:" in head or "Answer:" in tail or head[-1:] not in ("", "\n") or "Answer: " not in text:
        return False
    written = {str(number): number for number in range(problem.instance.most + 1)}
    entries = [tuple(entry.split(" ")) for entry in tail.rstrip(" \n").split(", ")]
    shares = {name: written.get(rest[0]) for name, *rest in entries if len(rest) == 1}
    if len(entries) != 3 or set(shares) != set(problem.instance.names) or None in shares.values():
        return False
    return bool(sum(number for number in shares.values() if number is not None) == problem.instance.total)


def draw(_preset: str, _tier: str, rng: random.Random, _solve: object) -> Sharing:
    """Three letters; neither nothing nor the most for each adds up."""
    most = rng.randint(6, 30)
    return Sharing(tuple(rng.sample(string.ascii_uppercase, 3)), rng.randint(most + 1, 3 * most - 1), most)


def ask(instance: Sharing, _rng: random.Random) -> tuple[Message, ...]:
    """The problem in words."""
    people = ", ".join(instance.names)
    return (
        Message(
            "user",
            f"Share out {instance.total} among {people} in whole numbers, at most {instance.most} each. "
            f'The last line has all of them, as in "Answer: A 1, B 2, C 3".',
        ),
    )


def write(shares: Mapping[str, int]) -> str:
    """As in "Answer: A 1, B 2, C 3"."""
    return "Answer: " + ", ".join(f"{name} {number}" for name, number in shares.items())


def evenly(instance: Sharing) -> str:
    """As even as it gets."""
    each, rest = divmod(instance.total, 3)
    return write({name: each + (place < rest) for place, name in enumerate(instance.names)})


def first_come(instance: Sharing) -> str:
    """The most for the first, what is left for the others, in words before the line."""
    shares, left = {}, instance.total
    for name in instance.names:
        shares[name] = min(left, instance.most)
        left -= shares[name]
    return f"{instance.names[0]} gets {instance.most}.\n{write(shares)}"


def relabel(problem: Problem, text: str, rng: random.Random) -> tuple[Problem, str] | None:
    """Other names, in the problem and in the answer."""
    shares = read(text)
    if shares is None:
        return None
    free = sorted(set(string.ascii_uppercase) - set(shares) - set(problem.instance.names))
    names = dict(zip(problem.instance.names, rng.sample(free, 3), strict=True))
    renamed = {names.get(name, name): number for name, number in shares.items()}
    return evolve(problem, instance=evolve(problem.instance, names=tuple(names.values()))), write(renamed)


def one_more(problem: Problem, text: str, _rng: random.Random) -> tuple[Problem, str] | None:
    """One more for somebody."""
    shares = read(text)
    return None if shares is None else (problem, write({**shares, min(shares): shares[min(shares)] + 1}))


SOUND = Task(
    name="sharing",
    presets={"three": (TaskTier("small"),)},
    draw=draw,
    prompt=ask,
    digest=lambda instance: blake2b(repr((instance.total, instance.most)).encode(), digest_size=8).hexdigest(),
    verify=verify,
    instance_type=Sharing,
    references=References(
        heuristics=lambda _training: {
            "evenly": lambda problem, _rng: evenly(problem.instance),
            "first come": lambda problem, _rng: first_come(problem.instance),
        },
        prompt_blind=lambda _training: {
            "nothing": lambda problem, _rng: write(dict.fromkeys(problem.instance.names, 0)),
            "the most": lambda problem, _rng: write(dict.fromkeys(problem.instance.names, problem.instance.most)),
        },
        limits={"*": 0.2},
    ),
    audit=Audit(
        relations={
            "other names": Relation(relabel, "the verdict stays"),
            "one more for somebody": Relation(one_more, "right becomes wrong"),
        }
    ),
)


# The bugs


def reading(reader: Callable[[str], Shared]) -> Task:
    """The task with another reader."""
    return evolve(SOUND, verify=lambda problem, completion, _: judge(problem.instance, reader(completion.text)))


def raises_on_odd_digits(text: str) -> Shared:
    """`isdigit` is true of a superscript two, and `int` does not take it."""
    last = text.rstrip(" \n").rpartition("\n")[2]
    entries = [entry.split(" ") for entry in last.removeprefix("Answer: ").split(", ")]
    numbers = {entry[0]: int(entry[1]) for entry in entries if len(entry) == 2 and entry[1].isdigit()}
    return read(text) and numbers


def slow_on_spaces(text: str) -> Shared:
    """Tries every space as the first one."""
    return read(text) if re.search(r"\s*Answer: ", text) else None


def hangs_on_words(text: str) -> Shared:
    """Words can be split among the two repetitions in more ways than there is time."""
    return read(text) if re.fullmatch(r"(?:[^\n]*\n)*Answer: (?:[\w ]+,?)+\s*", text) else None


def whole_part(text: str) -> Shared:
    """Reads 3.9 as 3: what stands behind the digits is let go."""
    last = text.rstrip(" \n").rpartition("\n")[2]
    cut = re.sub(r"([A-Z] \d+)[^,]*", r"\1", last)
    return read(text.rstrip(" \n").removesuffix(last) + cut)


def first_of_several(text: str) -> Shared:
    """Lets everything go that comes after the first answer."""
    return read(re.sub(r"(?s)(Answer: [^\n]*).*", r"\1", text))


def strict_about_the_end(text: str) -> Shared:
    """A line end behind the answer, and it is refused."""
    return None if text.endswith("\n") else read(text)


def right_if_any(problem: Problem, completion: Completion, _evidence: Evidence | None) -> tuple[Verdict, ...]:
    """Every line that looks like an answer gets its chance."""
    found = [judge(problem.instance, read(line)) for line in completion.text.split("\n")]
    return next((verdicts for verdicts in found if verdicts[0].right), found[-1])


def by_lot(problem: Problem, completion: Completion, _evidence: Evidence | None) -> tuple[Verdict, ...]:
    """Now and then a wrong answer passes."""
    (verdict,) = verify(problem, completion, None)
    return (evolve(verdict, status="right") if LOTS.random() < 0.1 else verdict,)


def silent_on_silence(problem: Problem, completion: Completion, _evidence: Evidence | None) -> tuple[Verdict, ...]:
    """Nothing said, nothing judged."""
    return verify(problem, completion, None) if completion.text else ()


def minds_the_alphabet(text: str) -> Shared:
    """Refuses names in any other order than that of the alphabet, of which the prompt says nothing."""
    shares = read(text)
    return shares if shares and list(shares) == sorted(shares) else None


def credulous(problem: Problem, completion: Completion, _evidence: Evidence | None) -> tuple[Verdict, ...]:
    """Believes the verdict in the response."""
    told = "verdict: right" in completion.text
    return (Verdict("right", 1.0, "sharing", "1"),) if told else verify(problem, completion, None)


def lets_nothing_pass(problem: Problem, completion: Completion, _evidence: Evidence | None) -> tuple[Verdict, ...]:
    """Nothing for anybody is called right."""
    shares = read(completion.text)
    nothing = shares is not None and not any(shares.values())
    return (Verdict("right", 1.0, "sharing", "1"),) if nothing else verify(problem, completion, None)


def telling(problem: Problem, completion: Completion, _evidence: Evidence | None) -> tuple[Verdict, ...]:
    """Says what would have been right."""
    (verdict,) = verify(problem, completion, None)
    if verdict.right:
        return (verdict,)
    message = f"Not right; right would be {evenly(problem.instance).removeprefix('Answer: ')}."
    return (evolve(verdict, violations=(Violation("wrong", message),)),)


def without_the_most(problem: Problem, completion: Completion, _evidence: Evidence | None) -> tuple[Verdict, ...]:
    """The rule that nobody gets more than the most is not checked."""
    return judge(evolve(problem.instance, most=10**4), read(completion.text))


def ask_without_the_most(instance: Sharing, rng: random.Random) -> tuple[Message, ...]:
    """Does not say that there is a most."""
    (message,) = ask(instance, rng)
    return (evolve(message, content=message.content.replace(f", at most {instance.most} each", "")),)


@frozen
class LooseSharing(Sharing):
    """What JSON makes of the names is not turned back into a tuple."""

    names: Any
    total: int
    most: int


def draw_loose(preset: str, tier: str, rng: random.Random, solve: object) -> LooseSharing:
    """The same, typed loosely."""
    found = draw(preset, tier, rng, solve)
    return LooseSharing(found.names, found.total, found.most)


PLANTED: dict[str, tuple[Task, str]] = {
    "raises on odd digits": (reading(raises_on_odd_digits), "totality"),
    "no verdict on silence": (evolve(SOUND, verify=silent_on_silence), "totality"),
    "time grows with the square": (reading(slow_on_spaces), "time"),
    "hangs on some texts": (reading(hangs_on_words), "time"),
    "verdict by lot": (evolve(SOUND, verify=by_lot), "determinism"),
    "instance does not come back": (evolve(SOUND, draw=draw_loose, instance_type=LooseSharing), "round trip"),
    "depends on names": (reading(minds_the_alphabet), "relations"),
    "a constant passes": (evolve(SOUND, verify=lets_nothing_pass), "blind"),
    "feedback tells the answer": (evolve(SOUND, verify=telling), "feedback"),
    "checks what the prompt hides": (evolve(SOUND, prompt=ask_without_the_most), "agreement"),
    "states what it never checks": (evolve(SOUND, verify=without_the_most), "agreement"),
    "any of several answers": (evolve(SOUND, verify=right_if_any), "hedging"),
    "the first of several answers": (reading(first_of_several), "hedging"),
    "reads 3.9 as 3": (reading(whole_part), "exploits"),
    "believes what it is told": (evolve(SOUND, verify=credulous), "exploits"),
    "refuses a line end": (reading(strict_about_the_end), "exploits"),
}
"""A task for each bug, and the check that is there to find it."""


def attack(task: Task) -> TaskReport:
    """Small enough for a try."""
    return check_task(task, responses=1_500, seconds=1.0, accepts=accepts)


def main() -> int:
    """Print the table; 0 where every bug was found by its check and the sound verifier is clean."""
    report = attack(SOUND)
    missed = [] if report.ok else ["sound"]
    print(f"sound: {'clean' if report.ok else report}")
    print(f"\n{'planted bug':<30}{'expected':<13}{'found by (times)'}")
    for name, (task, expected) in PLANTED.items():
        found = attack(task).found
        said = ", ".join(f"{check} ({count})" for check, count in found.items())
        if expected not in found:
            missed.append(name)
        print(f"{name:<30}{expected:<13}{said or '-'}", flush=True)
    print(f"\n{len(PLANTED)} planted, {len(PLANTED) - len([name for name in missed if name != 'sound'])} found")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
