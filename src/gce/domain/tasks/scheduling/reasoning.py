"""Written reasoning: one line a job, every look-up and every sum spelled out, and a checker that judges each step.

    reasoning = [order newline] [free newline] { line newline }
    order     = "Order: " item { ", " item }        ; item = [ DUE " " ] LABEL, jobs in the order of planning
    free      = "Free" units                        ; units = { " " NUMBER }, one for each resource
    line      = "Job " LABEL " takes " NUMBER [ " needs" units ] [ " after" { " " LABEL " " END } ]
                { " out " END " " LABEL " free" units } " start " NUMBER " end " NUMBER [ " free" units ]

DUE, END and NUMBER are ASCII digits, six at most. DUE is the job's own deadline or the earliest among the jobs that
come after it. `after` names the predecessors and the hours at which they end; each `out` names the running job that
ends next and what is free once it is out; `free` at the end of a line is what is left while the job runs, counting
ended jobs as running until they are out. That `free` stands where `needs` does, and `out` nowhere else. A predecessor
called `out` or `start` cannot be told from the grammar's own words. A verdict never depends on any of this.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import add, sub

from gce.domain.tasks.scheduling.answer import render
from gce.domain.tasks.scheduling.dispatch import Line, dispatch_lines, due_hours
from gce.domain.tasks.scheduling.instance import Instance
from gce.domain.types import Step

__all__ = ["check_steps", "order_text", "worked_response"]

LONGEST_CHECKED = 100_000
"""Characters of a response that are checked; the rest is one unreadable step."""


def order_text(order: Sequence[str], due: Mapping[str, int | None] | None = None) -> str:
    """The order line; with `due`, each job's hour beside it where it has one."""
    hours = due or {}
    return "Order: " + ", ".join(label if (hour := hours.get(label)) is None else f"{hour} {label}" for label in order)


def _units(values: Sequence[int]) -> str:
    return "".join(f" {value}" for value in values)


def _line_text(line: Line) -> str:
    parts = [f"Job {line.label} takes {line.duration}"]
    if line.demands is not None:
        parts.append(f" needs{_units(line.demands)}")
    if line.after:
        parts.append(" after" + "".join(f" {label} {end}" for label, end in line.after))
    parts.extend(f" out {end} {label} free{_units(free)}" for label, end, free in line.outs)
    parts.append(f" start {line.start} end {line.end}")
    if line.free is not None:
        parts.append(f" free{_units(line.free)}")
    return "".join(parts)


def worked_response(
    instance: Instance,
    order: Sequence[str],
    *,
    due: Mapping[str, int | None] | None = None,
    minds_sequence: Callable[[str], bool] = lambda _: True,
    minds_resources: Callable[[str], bool] = lambda _: True,
    free_line: bool = True,
) -> str:
    """Reasoning and answer of list scheduling in `order`, with every constraint minded unless said otherwise."""
    lines = dispatch_lines(instance, order, minds_sequence=minds_sequence, minds_resources=minds_resources)
    text = [order_text(order, due)]
    if instance.resources and free_line:
        text.append(f"Free{_units([resource.capacity for resource in instance.resources])}")
    text.extend(map(_line_text, lines))
    starts = {line.label: line.start for line in lines}
    text.append(render({label: starts[label] for label in instance.labels}))
    return "\n".join(text)


class _Unreadable(Exception):
    """The line does not follow the grammar."""


class _State:
    """What the lines checked so far have established."""

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self.due = due_hours(instance)
        self.free = tuple(resource.capacity for resource in instance.resources)
        self.starts: dict[str, int] = {}
        self.ends: dict[str, int] = {}
        self.running: set[str] = set()


def check_steps(instance: Instance, text: str) -> tuple[Step, ...]:
    """Judge each step of the reasoning before the answer: true, false with a reason, or unreadable.

    A line is one step. It is true if everything it says holds of the instance and of the lines before it, and it
    leaves out nothing that binds its job; a start later than need be is no falsehood. The hours that earlier lines
    wrote are taken as written, so that one slip counts once. Lines that follow no form of the grammar are unreadable
    and establish nothing. Never raises; linear in the text.
    """
    state = _State(instance)
    steps = []
    for line in text[:LONGEST_CHECKED].split("\n"):
        words = line.split()
        if words and words[0] != "Answer:":
            try:
                reason = _check(state, words)
            except _Unreadable as unreadable:
                steps.append(Step(line, "unreadable", str(unreadable)))
            else:
                steps.append(Step(line, "false" if reason else "true", reason))
    if len(text) > LONGEST_CHECKED:
        steps.append(Step("", "unreadable", f"text after {LONGEST_CHECKED} characters is not checked"))
    return tuple(steps)


def _check(state: _State, words: list[str]) -> str:
    """The first thing wrong with a line, or nothing."""
    match words[0]:
        case "Order:":
            return _check_order(state, words[1:])
        case "Free":
            return _check_free(state, words)
        case "Job":
            return _check_line(state, _read_line(words, len(state.free)))
    raise _Unreadable("no form of the step grammar begins like this")


class _Words:
    """A line's words, read from left to right."""

    def __init__(self, words: list[str]) -> None:
        self.words = words
        self.at = 1

    def accept(self, word: str) -> bool:
        found = self.at < len(self.words) and self.words[self.at] == word
        self.at += found
        return found

    def expect(self, word: str) -> None:
        if not self.accept(word):
            found = repr(self.words[self.at][:20]) if self.at < len(self.words) else "the end of the line"
            raise _Unreadable(f"expected {word!r}, got {found}")

    def take(self) -> str:
        if self.at >= len(self.words):
            raise _Unreadable("the line ends too early")
        self.at += 1
        return self.words[self.at - 1]

    def number(self) -> int:
        return _number(self.take())

    def numbers(self, count: int) -> tuple[int, ...]:
        return tuple(self.number() for _ in range(count))

    def before(self, *words: str) -> bool:
        return self.at < len(self.words) and self.words[self.at] in words

    def end(self) -> None:
        if self.at < len(self.words):
            raise _Unreadable(f"expected the end of the line, got {self.words[self.at][:20]!r}")


def _number(word: str) -> int:
    if not (word.isascii() and word.isdigit() and len(word) <= 6):
        raise _Unreadable(f"expected a number, got {word[:20]!r}")
    return int(word)


def _read_line(words: list[str], resources: int) -> Line:
    """What a job's line says, whether or not it is so."""
    reader = _Words(words)
    label = reader.take()
    reader.expect("takes")
    duration = reader.number()
    demands = reader.numbers(resources) if resources and reader.accept("needs") else None
    after: list[tuple[str, int]] = []
    if reader.accept("after"):
        while not reader.before("out", "start"):
            after.append((reader.take(), reader.number()))
    outs: list[tuple[str, int, tuple[int, ...]]] = []
    while demands is not None and reader.accept("out"):
        hour, other = reader.number(), reader.take()
        reader.expect("free")
        outs.append((other, hour, reader.numbers(resources)))
    reader.expect("start")
    start = reader.number()
    reader.expect("end")
    end = reader.number()
    free = None
    if demands is not None:
        reader.expect("free")
        free = reader.numbers(resources)
    reader.end()
    return Line(label, duration, demands, tuple(after), tuple(outs), start, end, free)


def _check_order(state: _State, words: list[str]) -> str:
    listed: set[str] = set()
    latest = 0
    for item in " ".join(words).split(", "):
        hour, _, label = item.rpartition(" ")
        if label not in state.due:
            return f"there is no job {label[:20]!r}"
        if label in listed:
            return f"job {label} is listed twice"
        waiting = next((before for before in state.instance.predecessors(label) if before not in listed), None)
        if waiting is not None:
            return f"job {label} is listed before {waiting}, which must have ended"
        if hour:
            due = _number(hour)
            if due != state.due[label]:
                return f"job {label} is not due by {due}"
            if due < latest:
                return f"job {label}, due by {due}, is listed after one due by {latest}"
            latest = due
        listed.add(label)
    missing = next((label for label in state.instance.labels if label not in listed), None)
    return "" if missing is None else f"job {missing} is not listed"


def _check_free(state: _State, words: list[str]) -> str:
    reader = _Words(words)
    free = reader.numbers(len(state.free))
    reader.end()
    return "" if free == state.free else f"{_listed(free)} is not what is free"


def _check_line(state: _State, line: Line) -> str:
    """The first thing wrong in a job's line, or nothing; what the line wrote is carried on either way."""
    label = line.label
    if label not in state.due:
        return f"there is no job {label[:20]!r}"
    wrong = _wrong_facts(state, line)
    ready = max((end for _, end in line.after), default=0)
    if line.demands is not None:
        ready = max([ready, *(state.starts[other] for other in state.running), *(end for _, end, _ in line.outs)])
        for out in line.outs:
            wrong += _take_out(state, *out)
    if line.start < ready:
        wrong.append(f"{label} cannot start at {line.start}")
    if line.end != line.start + line.duration:
        wrong.append(f"{line.start} and {line.duration} do not make {line.end}")
    if line.free is not None:
        left = tuple(map(sub, state.free, state.instance.job(label).demands))
        if any(units < 0 for units in left):
            wrong.append(f"{label} does not fit into what is free")
        if line.free != left:
            wrong.append(f"{_listed(line.free)} is not what is left free")
        state.free = line.free
        state.running.add(label)
    state.starts[label], state.ends[label] = line.start, line.end
    return wrong[0] if wrong else ""


def _wrong_facts(state: _State, line: Line) -> list[str]:
    """What the line says of its job, and of earlier lines, that is not so."""
    label, job = line.label, state.instance.job(line.label)
    wrong = []
    if label in state.ends:
        wrong.append(f"job {label} was planned before")
    if line.duration != job.duration:
        wrong.append(f"job {label} does not take {line.duration}")
    if line.demands is None and any(job.demands):
        wrong.append(f"what {label} needs is overlooked")
    if line.demands is not None and line.demands != job.demands:
        wrong.append(f"{_listed(line.demands)} is not what {label} needs")
    before = set(state.instance.predecessors(label))
    for other, end in line.after:
        if other not in before:
            wrong.append(f"job {label} does not come after {other[:20]!r}")
        elif state.ends.get(other) != end:
            wrong.append(f"no line says that {other} ends at {end}")
    overlooked = before - {other for other, _ in line.after}
    if overlooked:
        wrong.append(f"job {label} comes after {min(overlooked)}, which is overlooked")
    return wrong


def _take_out(state: _State, label: str, end: int, free: tuple[int, ...]) -> list[str]:
    """What is wrong with one `out`; from then on the job is out and as much is free as was written."""
    wrong = []
    if label not in state.running:
        wrong.append(f"job {label[:20]!r} is not running")
    else:
        if end != state.ends[label]:
            wrong.append(f"job {label} does not end at {end}")
        if any(state.ends[other] < state.ends[label] for other in state.running):
            wrong.append(f"another job ends before {label}")
        if free != tuple(map(add, state.free, state.instance.job(label).demands)):
            wrong.append(f"{_listed(free)} is not what is free when {label} is out")
        state.running.remove(label)
    state.free = free
    return wrong


def _listed(units: Sequence[int]) -> str:
    return " ".join(map(str, units))
