"""The checks of `check_task`: each attacks a verifier in one way and records its findings on the bench.

A check takes the bench and a function to call after each problem.
"""

from __future__ import annotations

import itertools
import json
import random
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Set
from fractions import Fraction
from functools import partial
from typing import Any

from attrs import evolve

from gce.domain.answers import Answer
from gce.domain.problems import Problem
from gce.domain.serialization import from_plain, to_plain
from gce.domain.statistics import interval
from gce.domain.tasks.answer_words import is_sentence
from gce.domain.tasks.own import GENERIC
from gce.domain.tasks.task import Task
from gce.domain.text import mentions
from gce.domain.verdicts import Verdict
from gce.testing.verifiers.agreement import agreement
from gce.testing.verifiers.bench import Bench, called, clipped, last_line, scores, statuses
from gce.testing.verifiers.blind import prompt_blind
from gce.testing.verifiers.floor import floor
from gce.testing.verifiers.known_answers import changes, formats, types
from gce.testing.verifiers.meaning import meaning
from gce.testing.verifiers.own_answers import near_misses, own_answers
from gce.testing.verifiers.responses import (
    CONSTANTS,
    GLUES,
    HOSTILE,
    NOTHING_SAID,
    PADDING,
    long_texts,
    mutated,
    noise,
)

__all__ = ["checks_of"]

SIZES = (1_600, 6_400, 25_600, 102_400)
STEEP = 8.0
"""Limit on the time ratio for four times the text: n log n takes 5 times as long, n squared 16 times."""
MEASURABLE = 0.002
"""Seconds below which time differences are noise."""
LONG_ENOUGH = 0.05
"""Minimum seconds of a measurement that supports a finding."""
LONG_ANSWER = 8
"""Minimum characters for which an answer found in feedback is not a coincidence."""

Check = Callable[[Bench, Callable[[], None]], None]


def totality(bench: Bench, advance: Callable[[], None]) -> None:
    """Check that any text gets verdicts, and that everything done with a text or its verdicts works."""
    task, fixed = bench.task, {*HOSTILE, *PADDING}
    for problem in bench.problems:
        rng = bench.rng("totality", problem.key)
        echo = "\n".join(message.content for message in problem.prompt)
        texts = [*HOSTILE, *PADDING, *map(task.audit.write, CONSTANTS), echo, echo + "\n"]
        texts += bench.answers(problem, rng, changed=30)
        for text in texts + [noise(rng) for _ in range(30)]:
            bench.tried["totality"] += 1
            verdicts = bench.verdicts(problem, text)
            if text in fixed and bench.answer(problem, text, verdicts).reward:
                bench.rewarded.setdefault(problem.tier, {})[text] = None
            for verdict in verdicts:
                bench.call("feedback", partial(task.teaching.feedback, verdict), problem, text)
            bench.call("check_steps", partial(task.teaching.check_steps, problem, text), problem, text)
            bench.call("chart", partial(task.teaching.chart, problem, text), problem, text)
        advance()


def time(bench: Bench, advance: Callable[[], None]) -> None:
    """Check that four times the text takes about four times as long."""
    problem = bench.problems[-1]  # From the last tier, usually the hardest.
    known = bench.right[problem.key] or bench.wrong[problem.key] or ["1"]
    for name in long_texts(known[0], 10):
        bench.tried["time"] += 1
        bench.verdicts(problem, long_texts(known[0], SIZES[0])[name])
        _growth(bench, problem, known[0], name)
    for _ in bench.problems:
        advance()


def _growth(bench: Bench, problem: Problem, answer: str, shape: str) -> None:
    def seconds(size: int, at_least: float = 0.0) -> float:
        """Return seconds per verdict: the mean over as many uncounted verdicts as take `at_least` seconds together."""
        text, calls, began = long_texts(answer, size)[shape], 0, bench.now()
        while calls == 0 or (bench.now() - began < at_least and calls < 1_000):
            bench.uncounted(problem, text)
            calls += 1
        return (bench.now() - began) / calls

    def ratio(smaller: int, size: int) -> float:
        return seconds(size, LONG_ENOUGH) / max(seconds(smaller, LONG_ENOUGH), 1e-9)

    before = seconds(SIZES[0])
    for smaller, size in itertools.pairwise(SIZES):
        after = seconds(size)
        # Clocks are coarse and machines busy: measure steep growth again, and require every ratio to be steep.
        ratios = [after / max(before, MEASURABLE)]
        while ratios[-1] > STEEP and len(ratios) < 4:
            ratios.append(ratio(smaller, size))
        # A single step is also steep where a text no longer fits the processor's cache: two in a row must be, where the
        # next one might still finish in time.
        if ratios[-1] > STEEP and (
            after * 16 > bench.seconds or ratio(size // 16, size) > STEEP**2 or ratio(size, 4 * size) > STEEP
        ):
            whose = " (the pattern of extract= and the score together)" if bench.own else ""
            times = f"{min(ratios[1:]):.0f} times as long as a quarter"
            said = f"{shape}: {after:.3f} s for {size:,} characters, {times}{whose}"
            bench.find("time", "growth", said, problem, long_texts(answer, size)[shape][:200])
            return
        if after * STEEP > bench.seconds:  # The next size might not finish in time.
            return
        before = after


def determinism(bench: Bench, advance: Callable[[], None]) -> None:
    """Check that verdicts repeat when asked again, in another order, and on the problem redrawn from its key."""
    first: list[tuple[Problem, str, tuple[Verdict, ...]]] = []
    if bench.task.audit.varies:
        bench.not_checked.append("determinism: the task says that its verdicts vary")
        return
    for problem in bench.problems:
        rng = bench.rng("determinism", problem.key)
        texts = [*bench.answers(problem, rng, changed=10), *rng.sample(HOSTILE, 10)]
        first += [(problem, text, bench.verdicts(problem, text)) for text in texts]
    order = bench.rng("determinism").sample(range(len(first)), len(first))
    again = {index: bench.verdicts(*first[index][:2]) for index in order}
    for index, (problem, text, verdicts) in enumerate(first):
        bench.tried["determinism"] += 1
        _same(bench, "determinism", "asked again", problem, text, verdicts, again[index])
    _in_new_processes(bench, first)
    for problem in bench.problems:
        try:
            redrawn = bench.source.redraw(problem.key)
        except ValueError as error:
            bench.find("determinism", "drawn again", f"the problem cannot be drawn again: {error}", problem)
            continue
        if (redrawn.digest, redrawn.prompt) != (problem.digest, problem.prompt):
            bench.find("determinism", "drawn again", "the problem drawn again from its key is another one", problem)
        for other, text, verdicts in first:
            if other is problem:
                bench.tried["determinism"] += 1
                _same(bench, "determinism", "drawn again", problem, text, verdicts, bench.verdicts(redrawn, text))
        advance()


HASH_SEEDS = (1, 2)
"""Of the new processes that are asked."""


def _in_new_processes(bench: Bench, asked: Sequence[tuple[Problem, str, tuple[Verdict, ...]]]) -> None:
    """Check that new processes, with other hash seeds and the texts in the reverse order, give the same scores."""
    if bench.elsewhere is None:
        if bench.own:
            bench.not_checked.append("determinism: in a new process: give the task by its name")
        return
    backwards = asked[::-1]
    for hash_seed in HASH_SEEDS:
        found = bench.elsewhere([(problem.key, text) for problem, text, _ in backwards], hash_seed)
        if isinstance(found, str):
            bench.not_checked.append(f"determinism: in a new process: {found}")
            return
        for (problem, text, verdicts), again in zip(backwards, found, strict=True):
            bench.tried["determinism"] += 1
            here = scores(verdicts)
            if here and here != [*again]:
                other = ", ".join(status for status, _ in again) or "no verdict"
                said = f"{called(verdicts)}, and in a new process with hash seed {hash_seed} {other}"
                bench.find("determinism", "new process", said, problem, text)


def _same(
    bench: Bench,
    check: str,
    kind: str,
    problem: Problem,
    text: str,
    before: tuple[Verdict, ...],
    after: tuple[Verdict, ...],
) -> None:
    # Measures are left out because they may hold times.
    one, other = ([evolve(verdict, measures={}) for verdict in verdicts] for verdicts in (before, after))
    if one != other:
        said = f"{called(before)}, then {called(after)}"
        if called(before) == called(after):
            said = f"{called(before)} both times, with other scores or violations"
        bench.find(check, kind, said, problem, text)


def round_trip(bench: Bench, advance: Callable[[], None]) -> None:
    """Check that an instance survives a round trip through JSON."""
    for problem in bench.problems:
        bench.tried["round trip"] += 1
        advance()
        try:
            back: Any = from_plain(bench.task.instance_type, json.loads(json.dumps(to_plain(problem.instance))))
            equal = bool(back == problem.instance)
        except Exception as error:
            bench.find("round trip", "unreadable", f"{type(error).__name__}: {error}", problem)
            continue
        if not equal:
            bench.find("round trip", "not equal", f"{problem.instance!r:.100} came back as {back!r:.100}", problem)
            continue
        if bench.task.digest(back) != problem.digest:
            bench.find("round trip", "digest", "the instance that came back has another digest", problem)
        for text in bench.answers(problem, bench.rng("round trip", problem.key), changed=4):
            again = bench.verdicts(evolve(problem, instance=back), text)
            _same(bench, "round trip", "verdict", problem, text, bench.verdicts(problem, text), again)


def relations(bench: Bench, advance: Callable[[], None]) -> None:
    """Check the metamorphic relations that the task declares."""
    applied: Counter[str] = Counter()
    if not bench.task.audit.relations:
        bench.not_checked.append("relations: the task declares none")
    for problem in bench.problems:
        for name, relation in bench.task.audit.relations.items():
            rng = bench.rng("relation", name, problem.key)
            texts = bench.right[problem.key] if relation.holds == "right becomes wrong" else bench.answers(problem, rng)
            for text in texts * 2:
                changed = relation.change(problem, text, rng)
                if changed is None:
                    continue
                applied[name] += 1
                bench.tried["relations"] += 1
                other, response = _complete(bench.task, problem, changed[0], rng), changed[1]
                before, after = bench.verdicts(problem, text), bench.verdicts(other, response)
                if (
                    before
                    and after
                    and not _holds(
                        relation.holds,
                        bench.answer(problem, text, before),
                        bench.answer(other, response, after),
                    )
                ):
                    said = f"{name}: {relation.holds}, but {called(before)}, then {called(after)}"
                    bench.find("relations", name, f"{said}; on {other.instance!r:.200}", problem, response)
        advance()
    for name in bench.task.audit.relations:
        if bench.problems and not applied[name]:
            bench.not_checked.append(f"relations: {name!r} never applied")


def _complete(task: Task, problem: Problem, changed: Problem, rng: random.Random) -> Problem:
    if changed.instance is problem.instance:
        return changed
    return evolve(changed, prompt=task.prompt(changed.instance, rng), digest=task.digest(changed.instance))


def _holds(holds: str, before: Answer, after: Answer) -> bool:
    if holds == "the verdict stays":
        return statuses(before.verdicts) == statuses(after.verdicts)
    if holds == "wrong stays wrong":
        return before.right or not after.right
    return not before.right or not after.right


def feedback(bench: Bench, advance: Callable[[], None]) -> None:
    """Check that feedback on a wrong answer does not reveal a right one, in whole or in part."""
    task = bench.task
    prefix = _shared_beginning({last_line(text) for texts in bench.right.values() for text in texts})
    cores = {name: [last_line(text)[len(prefix) :] for text in texts] for name, texts in bench.right.items()}
    asked: Counter[str] = Counter()
    told: Counter[str] = Counter()
    for place, problem in enumerate(bench.problems):
        for text in bench.wrong[problem.key]:
            bench.tried["feedback"] += 1
            said = []
            for verdict in bench.verdicts(problem, text):
                said.append(bench.call("feedback", partial(task.teaching.feedback, verdict), problem, text, failed=""))
                said += [violation.message for violation in verdict.violations]
            for line in _said_lines(said, prefix):
                if line.strip() and line not in text and bench.is_right(problem, line):
                    found = f"it holds {clipped(line)}, which is right"
                    bench.find("feedback", "right answer", found, problem, text)
            shown = text + "".join(message.content for message in problem.prompt)
            for whose, key in (("own", problem.key), ("another", bench.problems[place - 1].key)):
                new = [core for core in cores[key] if core and not mentions(shown, core)]
                hits = [core for core in new if any(mentions(line, core) for line in said)]
                asked[whose] += bool(new)
                told[whose] += bool(hits)
                if whose == "own" and (longest := max(hits, key=len, default="")) and len(longest) >= LONG_ANSWER:
                    found = f"it holds {clipped(longest)}, of a right answer"
                    bench.find("feedback", "right answer", found, problem, text)
        advance()
    own, chance = (interval(told[whose], asked[whose]) for whose in ("own", "another"))
    if own.n and own.low > max(chance.high, 0.25):
        found = f"it holds a right answer to the problem {own.correct} of {own.n} times, and one to another problem"
        bench.find("feedback", "right answer", f"{found} {chance.correct} of {chance.n} times")


def _shared_beginning(texts: Collection[str]) -> str:
    """Return the common prefix of all texts, up to the last whole word; empty for a single text."""
    if len(texts) < 2:
        return ""
    first, last = min(texts), max(texts)
    same = (place for place, (one, other) in enumerate(zip(first, last, strict=False)) if one != other)
    return re.sub(r"\w+$", "", first[: next(same, len(first))])


def _said_lines(said: Sequence[str], prefix: str) -> list[str]:
    """Return the parts of feedback that could be answers: whole, by line, and after a line's last colon."""
    parts = {part for text in said for part in (text, *text.split("\n"))}
    parts |= {part.rpartition(": ")[2] for part in parts}
    parts |= {part.removesuffix(".") for part in parts}
    return sorted(parts | {prefix + part for part in parts})


def hedging(bench: Bench, advance: Callable[[], None]) -> None:
    """Check that hedging between several answers does not pay, and that padding makes no wrong answer right."""
    items = {word for item in bench.items for word in _words_in(item)}
    for problem in bench.problems:
        rng = bench.rng("hedging", problem.key)
        right = bench.right[problem.key]
        wrong = bench.wrong[problem.key]
        for text in rng.sample(wrong, min(3, len(wrong))):
            for pad in PADDING:
                for padded in (_joined(pad, text), _joined(text, pad)):
                    bench.tried["hedging"] += 1
                    if bench.passes_wrongly(problem, padded):
                        still = partial(bench.passes_wrongly, problem) if bench.accepts else None
                        said = "a wrong answer with padding is right"
                        bench.find("hedging", "padding", said, problem, padded, still=still)
        wrong = [text for text in wrong if _names_an_answer(bench, problem, text)]
        for answer in right[:2]:
            others = [text for text in wrong if _says_more(text, answer, items)]
            for glue in GLUES:
                for one in rng.sample(others, min(4, len(others))):
                    _hedge(bench, problem, answer, [one], glue)
                _hedge(bench, problem, answer, rng.sample(others, min(3, len(others))), glue)
        if bench.own:
            _withdrawn(bench, problem, items)
        advance()
    if not any(bench.right.values()):
        bench.not_checked.append("hedging: no right answer to hide among wrong ones")
    if bench.accepts is None:
        bench.not_checked.append("hedging: which of several answers counts (without `accepts`, a second judge)")


def _joined(first: str, second: str) -> str:
    """The two texts, with a space between them if they would make one word."""
    return f"{first} {second}" if first[-1:].isalnum() and second[:1].isalnum() else first + second


def _says_more(text: str, answer: str, items: Set[str]) -> bool:
    """Whether a wrong answer beside a right list has an item that the list has not: else both may mean the same list.

    `items` are the words of all known items; where they are none, answers are no lists.
    """
    return not items or bool((items & _words_in(text)) - _words_in(answer))


def _words_in(text: str) -> set[str]:
    return {*re.findall(r"\w+", text.casefold())}


def _names_an_answer(bench: Bench, problem: Problem, text: str) -> bool:
    """Whether a wrong response names an answer at all: the prompt, and what nobody can read, name none."""
    said = " ".join(text.split())
    if text in (GENERIC, bench.task.audit.write("")) or " ".join(problem.prompt[-1].content.split()) in said:
        return False
    return any(verdict.status != "unreadable" for verdict in bench.verdicts(problem, text))


WITHDRAWALS = ("{right}. No, wait: the answer is {wrong}.", "{right}. Correction: it is {wrong}")
"""Answers that name the right one, take it back and end with a wrong one."""


def _withdrawn(bench: Bench, problem: Problem, items: Set[str]) -> None:
    """Check that a right answer which is taken back for the answer to another problem is not right."""
    right = bench.known_answer(problem)
    known = dict.fromkeys(bench.known_answer(other) for other in bench.sample(problem.tier) if right)
    others = [other for other in known if other and not mentions(right, other) and not mentions(other, right)]
    others = [other for other in others if _says_more(other, right, items)]
    others = [other for other in others if not bench.is_right(problem, bench.task.audit.write(other))]
    for wrong in bench.rng("withdrawn", problem.key).sample(others, min(3, len(others))):
        for withdrawal in WITHDRAWALS:
            bench.tried["hedging"] += 1
            text = bench.task.audit.write(withdrawal.format(right=right, wrong=wrong))
            if bench.passes_wrongly(problem, text):
                said = "a right answer that is taken back for a wrong one is right"
                _find_hedge(bench, "withdrawn", said, problem, text)


def _hedge(bench: Bench, problem: Problem, answer: str, others: Sequence[str], glue: str) -> None:
    if not others:
        return
    texts = [glue.join([*others[:at], answer, *others[at:]]) for at in range(len(others) + 1)]
    bench.tried["hedging"] += len(texts)
    passed = [text for text in texts if bench.is_right(problem, text)]
    refused = [text for text in passed if bench.says(problem, text) is False]
    if len(passed) == len(texts) and not all(bench.says(problem, text) for text in texts):
        said = f"a right answer beside {len(others)} wrong is right wherever it stands"
        _find_hedge(bench, "any place", said, problem, texts[-1])
    elif refused:
        said = f"a right answer beside {len(others)} wrong is right, and the independent judge refuses it"
        bench.find("hedging", "one place", said, problem, refused[0])


def _find_hedge(bench: Bench, kind: str, said: str, problem: Problem, text: str) -> None:
    """Record a hedge. Where answers are sentences, two of them may be one right answer: then it is doubtful."""
    is_prose = bench.own and is_sentence(bench.known_answer(problem))
    if not is_prose or bench.unique or bench.accepts is not None:
        bench.find("hedging", kind, said, problem, text)
    elif all((note.check, note.kind) != ("hedging", kind) for note in bench.notes):
        bench.note("hedging", kind, said, problem, text, "doubtful")


def exploits(bench: Bench, advance: Callable[[], None]) -> None:
    """Compare the verifier with the independent judge on generated responses."""
    if bench.accepts is None:
        bench.not_checked.append("exploits: responses that may be right (without `accepts`, `responses` has no effect)")
    share, rest = divmod(bench.responses, max(1, len(bench.problems)))
    for place, problem in enumerate(bench.problems):
        for text in _generated(bench, problem, share + (place < rest)):
            bench.tried["exploits"] += 1
            said = False if bench.accepts is None else bench.says(problem, text)
            if said is None:
                continue
            right = bench.judges(problem, text)
            if right is None:
                continue
            bench.second.judged += 1
            bench.second.accepted += said
            if right and not said:
                bench.second.exploits += 1
                judge = bench.accepts and "the score takes a response that the second judge refuses"
                said_so = judge or "a response that says nothing is judged right"
                still = partial(bench.passes_wrongly, problem) if bench.accepts else None
                bench.find("exploits", "false accept", said_so, problem, text, still=still)
            elif said and not right:
                bench.second.rejects += 1
                _find_reject(bench, problem, text)
        advance()


def _find_reject(bench: Bench, problem: Problem, text: str) -> None:
    """Record a false reject: a note where it, or its last line, is a right answer written with other signs.

    Space around it is no other sign.
    """
    said, known = "the score refuses a response that the second judge takes", bench.right[problem.key]
    written, meant = {answer.strip() for answer in known}, [*map(_words, known)]
    is_format = any(_words(each) in meant and each.strip() not in written for each in (text, last_line(text)))
    if not is_format:
        bench.find("exploits", "false reject", said, problem, text)
    elif all((note.check, note.kind) != ("exploits", "other signs") for note in bench.notes):
        bench.note("exploits", "other signs", said, problem, text, "note")


def _words(text: str) -> object:
    """What two ways to write one answer have in common: the number, or the words and numbers in their order."""
    text = text.strip()
    try:
        return Fraction(text) if len(text) < 40 else text
    except (ValueError, ZeroDivisionError):
        return re.findall(r"\w+", unicodedata.normalize("NFKC", text).casefold())


def _generated(bench: Bench, problem: Problem, count: int) -> Iterator[str]:
    """Yield distinct responses to a problem; without an independent judge, only those that answer no problem."""
    if bench.accepts is None:
        yield from NOTHING_SAID
        return
    rng = bench.rng("exploits", problem.key)
    right, wrong = bench.right[problem.key], bench.wrong[problem.key]
    texts = [policy(problem, rng) for policy in (*bench.policies.values(), *bench.prompt_blind.values())]
    candidates = list(dict.fromkeys(text for text in texts if text is not None)) or ["1"]
    others = [text for other in bench.problems if other.tier == problem.tier for text in bench.right[other.key][:1]]
    seen: set[str] = set()
    for index in range(4 * count):
        chosen = rng.random()
        if index < len(candidates):
            text = candidates[index]
        elif chosen < 0.60:
            text = mutated(rng.choice(right or candidates), wrong, rng)
        elif chosen < 0.75:
            text = mutated(rng.choice(wrong or candidates), right, rng)
        elif chosen < 0.82:
            text = mutated(rng.choice(others or candidates), right, rng)
        elif chosen < 0.88:
            text = rng.choice(candidates) + rng.choice(("\n", " ", "\n\n", "\r\n", " \n ", "\t"))
        elif chosen < 0.91:
            text = rng.choice(NOTHING_SAID)
        elif chosen < 0.95:
            text = rng.choice(HOSTILE) + rng.choice(("", "\n")) + rng.choice(("", rng.choice(candidates)))
        else:
            text = rng.choice(("", rng.choice(candidates) + "\n")) + noise(rng)
        if text not in seen:
            seen.add(text)
            yield text
            if len(seen) >= count:
                return


_CHECKS: Mapping[str, Check] = {
    "totality": totality,
    "time": time,
    "determinism": determinism,
    "round trip": round_trip,
    "relations": relations,
    "blind": prompt_blind,
    "feedback": feedback,
    "agreement": agreement,
    "hedging": hedging,
    "exploits": exploits,
    "floor": floor,
}

_OF_KNOWN_ANSWERS: Mapping[str, Check] = {
    "near misses": near_misses,
    "changes": changes,
    "formats": formats,
    "types": types,
}


def checks_of(bench: Bench) -> Mapping[str, Check]:
    """Return the checks of a task by name, in the order in which they run; those of `gce.task` have more."""
    found = {"own answers": own_answers, **_CHECKS, **_OF_KNOWN_ANSWERS} if bench.own else _CHECKS
    return found if bench.task.audit.restates is None else {**found, "meaning": meaning}
