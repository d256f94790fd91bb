"""Written reasoning: one line a job, every look-up and every sum spelled out, and a checker that judges each step.

    reasoning = [order newline] [free newline] { line newline }
    order     = "Order: " item { ", " item }        ; item = LABEL [ " " DUE ], jobs in the order of planning
    free      = "Free" units                        ; units = { " " NUMBER }, one for each resource
    line      = "Job " LABEL " takes " NUMBER [ " needs" units ] [ " after" { " " LABEL " " END } ]
                { " out " LABEL " " END " free" units } " start " NUMBER " end " NUMBER [ " free" units ]

DUE is the job's own deadline or the earliest among the jobs that come after it. `after` names the predecessors and
the hours at which they end; each `out` names the running job that ends next and what is free once it is out; `free`
at the end of a line is what is left while the job runs. A verdict never depends on any of this.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

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
    return "Order: " + ", ".join(
        label if (hour := hours.get(label)) is None else f"{label} {hour}" for label in order
    )


def _units(values: Sequence[int]) -> str:
    return "".join(f" {value}" for value in values)


def _line_text(line: Line) -> str:
    parts = [f"Job {line.label} takes {line.duration}"]
    if line.demands is not None:
        parts.append(f" needs{_units(line.demands)}")
    if line.after:
        parts.append(" after" + "".join(f" {label} {end}" for label, end in line.after))
    parts.extend(f" out {label} {end} free{_units(free)}" for label, end, free in line.outs)
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


class _State:
    """What the lines checked so far have established."""

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self.due = due_hours(instance)
        self.free = tuple(resource.capacity for resource in instance.resources)
        self.starts: dict[str, int] = {}
        self.ends: dict[str, int] = {}
        self.running: list[str] = []


def check_steps(instance: Instance, text: str) -> tuple[Step, ...]:
    """Judge each step of the reasoning before the answer: true, false with a reason, or unreadable.

    A line is one step. It is true if everything it says holds of the instance and of the lines before it, and it
    leaves out nothing that binds its job. The hours that earlier lines wrote are taken as written, so that one slip
    counts once. Lines that follow no form of the grammar are unreadable. Never raises; linear in the text.
    """
    state = _State(instance)
    steps = []
    for line in text[:LONGEST_CHECKED].split("\n"):
        words = line.split()
        if not words or words[0] == "Answer:":
            continue
        if words[0] == "Order:":
            check = _check_order
        elif words[0] == "Free":
            check = _check_free
        elif words[0] == "Job":
            check = _check_line
        else:
            steps.append(Step(line, "unreadable", "no form of the step grammar begins like this"))
            continue
        try:
            reason = check(state, words)
        except _Unreadable as unreadable:
            steps.append(Step(line, "unreadable", str(unreadable)))
        else:
            steps.append(Step(line, "false" if reason else "true", reason))
    if len(text) > LONGEST_CHECKED:
        steps.append(Step("", "unreadable", f"text after {LONGEST_CHECKED} characters is not checked"))
    return tuple(steps)


class _Unreadable(Exception):
    """The line does not follow the grammar."""


def _number(word: str) -> int:
    if not (word.isascii() and word.isdigit() and len(word) <= 6):
        raise _Unreadable(f"expected a number, got {word[:20]!r}")
    return int(word)


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
            found = self.words[self.at][:20] if self.at < len(self.words) else "the end of the line"
            raise _Unreadable(f"expected {word!r}, got {found!r}")

    def take(self) -> str:
        if self.at >= len(self.words):
            raise _Unreadable("the line ends too early")
        self.at += 1
        return self.words[self.at - 1]

    def numbers(self, count: int) -> tuple[int, ...]:
        return tuple(_number(self.take()) for _ in range(count))

    def at_label(self, state: _State) -> bool:
        return self.at < len(self.words) and self.words[self.at] in state.due

    def end(self) -> None:
        if self.at < len(self.words):
            raise _Unreadable(f"expected the end of the line, got {self.words[self.at][:20]!r}")


def _check_order(state: _State, words: list[str]) -> str:
    listed: set[str] = set()
    latest = 0
    for item in " ".join(words[1:]).split(", "):
        label, _, hour = item.partition(" ")
        if label not in state.due:
            return f"there is no job {label[:20]!r}"
        if label in listed:
            return f"job {label} is listed twice"
        waiting = [before for before in state.instance.predecessors(label) if before not in listed]
        if waiting:
            return f"job {label} is listed before {waiting[0]}, which must have ended"
        if hour:
            due = _number(hour)
            if due != state.due[label]:
                return f"job {label} is not due by {due}"
            if due < latest:
                return f"job {label}, due by {due}, is listed after one due by {latest}"
            latest = due
        listed.add(label)
    missing = [label for label in state.due if label not in listed]
    return f"job {missing[0]} is not listed" if missing else ""


def _check_free(state: _State, words: list[str]) -> str:
    reader = _Words(words)
    free = reader.numbers(len(state.free))
    reader.end()
    return "" if free == state.free else f"{free} is not the capacity {state.free}"


def _check_line(state: _State, words: list[str]) -> str:
    """The first thing wrong in a job's line, or nothing; what the line wrote is carried on either way."""
    reader = _Words(words)
    label = reader.take()
    if label not in state.due:
        return f"there is no job {label[:20]!r}"
    job = state.instance.job(label)
    resources = len(state.instance.resources)
    wrong: list[str] = []
    if label in state.ends:
        wrong.append(f"job {label} was planned before")

    reader.expect("takes")
    (duration,) = reader.numbers(1)
    if duration != job.duration:
        wrong.append(f"job {label} does not take {duration}")

    minds_resources = bool(resources) and reader.accept("needs")
    if minds_resources:
        if reader.numbers(resources) != job.demands:
            wrong.append(f"these are not the units that {label} needs")
    elif any(job.demands):
        wrong.append(f"what {label} needs is overlooked")

    ready, named = 0, set()
    if reader.accept("after"):
        while reader.at_label(state):
            before = reader.take()
            (end,) = reader.numbers(1)
            named.add(before)
            ready = max(ready, end)
            if state.ends.get(before) != end:
                wrong.append(f"no line says that {before} ends at {end}")
    if named != set(state.instance.predecessors(label)):
        wrong.append(f"these are not the jobs that {label} comes after")

    now = max((state.starts[other] for other in state.running), default=0)
    while minds_resources and reader.accept("out"):
        wrong += _check_out(state, reader)
        now = max(now, *(end for end in [_number(reader.words[reader.at - resources - 2])]))

    reader.expect("start")
    (start,) = reader.numbers(1)
    reader.expect("end")
    (end,) = reader.numbers(1)
    if start < ready or (minds_resources and start < now):
        wrong.append(f"{label} cannot start at {start}")
    if end != start + duration:
        wrong.append(f"{start} and {duration} do not make {end}")
    if minds_resources:
        reader.expect("free")
        free = reader.numbers(resources)
        if any(left < need for left, need in zip(state.free, job.demands, strict=True)):
            wrong.append(f"{label} does not fit into what is free")
        if free != tuple(left - need for left, need in zip(state.free, job.demands, strict=True)):
            wrong.append(f"{free} is not what is left free")
        state.free = free
        state.running.append(label)
    reader.end()
    state.starts[label], state.ends[label] = start, end
    return wrong[0] if wrong else ""


def _check_out(state: _State, reader: _Words) -> list[str]:
    label = reader.take()
    (end,) = reader.numbers(1)
    reader.expect("free")
    free = reader.numbers(len(state.free))
    if label not in state.running:
        return [f"job {label[:20]!r} is not running"]
    wrong = []
    if end != state.ends[label]:
        wrong.append(f"job {label} does not end at {end}")
    if any(state.ends[other] < state.ends[label] for other in state.running):
        wrong.append(f"another job ends before {label}")
    state.running.remove(label)
    if free != tuple(left + held for left, held in zip(state.free, state.instance.job(label).demands, strict=True)):
        wrong.append(f"{free} is not what is free when {label} is out")
    state.free = free
    return wrong
