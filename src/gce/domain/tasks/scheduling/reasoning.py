"""Written reasoning: one line per visit, with every look-up and sum spelled out, and a checker for each step.

    reasoning = [order newline] [free newline] { visit newline } ["Rest" newline { visit newline }]
    order     = "Order: " item { ", " item }        ; item = [ DEADLINE " " ] LABEL { " " LABEL }, in order of visiting
    free      = "Free" units                        ; units = { " " NUMBER }, one for each resource
    visit     = "Job " LABEL ( " planned" | " later" | [ " for " LABEL ] [ after ] ( before | plan ) )
    after     = " after " ( "-" | LABEL { ", " LABEL } ) ";"    ; all that LABEL comes after, "-" if it is nothing
    before    = { hour "," } " " LABEL " before " LABEL
    plan      = [ hour { "," hour } ";" ] " takes " LABEL " " NUMBER [ needs ] " start " LABEL " " NUMBER
                " end " LABEL " " NUMBER [ running ]
    hour      = " " LABEL " " NUMBER                ; when a job named in `after` ends
    needs     = " needs " LABEL units " from " NUMBER { " out " release } { " wait " release } " left" units
    release   = NUMBER " " LABEL units
    running   = " running" group { "," group }     ; group = " " NUMBER " " LABEL { " " LABEL }

DEADLINE and NUMBER are at most six ASCII digits.

- `order` with deadlines lists exactly the jobs that have one; jobs due at the same hour share an item.
- `after` may be left out of a job that comes after nothing, as it is in problems without precedence.
- `before` ends a visit if a predecessor is not planned yet: that predecessor is visited next, "for" this job, and then
  this job again.
- `planned` says that an earlier line planned the job; `later` postpones it.
- After `Rest`, all jobs are visited in the order of the prompt, and those left out or postponed are planned.
- `from` is the first hour considered: all predecessors have ended, and the previous job with `needs` has started.
- Each `out` gives the next end of a running job that is not after `from`, that job, and the units free afterwards.
- Each `wait` gives, likewise, the next end after `from`, which the job waits for because it does not fit before. So the
  job starts at the last hour behind `wait`, or behind `from` where it waits for none.
- `left` gives the units free while the job runs beside the jobs that are not out.
- `running` lists the jobs that hold units then, by the hour of their release; those of one hour share a group.

A verdict never depends on the reasoning.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from operator import add, itemgetter, sub

from attrs import frozen

from gce.domain.tasks.scheduling.answer import render
from gce.domain.tasks.scheduling.dispatch import Line, Visit, dispatch_lines, visits
from gce.domain.tasks.scheduling.instance import Instance
from gce.domain.tasks.scheduling.resource_profile import Release
from gce.domain.verdicts import Step

__all__ = ["check_steps", "order_text", "worked_response"]

LONGEST_CHECKED = 100_000
"""Maximum number of characters checked; the rest of a response is one unreadable step."""


def order_text(instance: Instance, order: Sequence[str], *, deadlines: bool = False) -> str:
    """Return the order line; with `deadlines`, of the jobs that have a deadline, each with its deadline, if any has."""
    due = _due(instance, order) if deadlines else []
    items = _by_hour([(label, instance.job(label).deadline) for label in due])
    return f"Order: {', '.join(items or order)}"


def _by_hour(pairs: Sequence[tuple[str, int | None]]) -> list[str]:
    """Return "HOUR LABEL LABEL ..." for each hour of pairs (label, hour) that are sorted by it."""
    return [f"{hour} {' '.join(label for label, _ in some)}" for hour, some in groupby(pairs, key=itemgetter(1))]


def _due(instance: Instance, order: Sequence[str]) -> list[str]:
    return [label for label in order if instance.job(label).deadline is not None]


def _units(values: Sequence[int]) -> str:
    return "".join(f" {value}" for value in values)


def _plan_text(line: Line) -> str:
    parts = [",".join(f" {label} {end}" for label, end in line.after) + ";"] if line.after else []
    parts.append(f" takes {line.label} {line.duration}")
    if line.demands is not None and line.free is not None:
        parts.append(f" needs {line.label}{_units(line.demands)} from {line.earliest}")
        parts.extend(f" out {end} {label}{_units(free)}" for label, end, free in line.outs)
        parts.extend(f" wait {end} {label}{_units(free)}" for label, end, free in line.waits)
        parts.append(f" left{_units(line.free)}")
    parts.append(f" start {line.label} {line.start} end {line.label} {line.end}")
    if line.running:
        parts.append(f" running {', '.join(_by_hour(line.running))}")
    return "".join(parts)


def worked_response(
    instance: Instance,
    order: Sequence[str],
    *,
    deadlines: bool = False,
    later: Callable[[str], bool] = lambda _: False,
    minds_sequence: Callable[[str], bool] = lambda _: True,
    minds_resources: Callable[[str], bool] = lambda _: True,
    free_line: bool = True,
) -> str:
    """Return reasoning and answer of list scheduling in `order`, with every constraint respected by default.

    Predecessors need not come first in `order`: they are pulled forward. Jobs that are `later`, or missing from
    `order`, follow in the instance's own order; with `deadlines`, so do all jobs without a deadline.
    """
    due = _due(instance, order) if deadlines else []
    first = visits(instance, due or order, minds_sequence=minds_sequence, later=later)
    planned = [visit.label for visit in first if visit.plans]
    rest: list[Visit] = []
    if due or len(planned) < len(instance.labels):
        rest = visits(instance, instance.labels, planned=planned, minds_sequence=minds_sequence)
        planned += [visit.label for visit in rest if visit.plans]
    lines = dispatch_lines(instance, planned, minds_sequence=minds_sequence, minds_resources=minds_resources)
    plans = {line.label: line for line in lines}
    text = [order_text(instance, order, deadlines=deadlines)]
    if instance.resources and free_line:
        text.append(f"Free{_units([resource.capacity for resource in instance.resources])}")
    minded = {
        label: instance.predecessors(label) if instance.precedence and minds_sequence(label) else None
        for label in instance.labels
    }

    def written(way: Sequence[Visit]) -> list[str]:
        return [_visit_text(visit, minded[visit.label], plans) for visit in way]

    text += written(first)
    if rest:
        text += ["Rest", *written(rest)]
    text.append(render({label: plans[label].start for label in instance.labels}))
    return "\n".join(text)


def _visit_text(visit: Visit, predecessors: Sequence[str] | None, plans: Mapping[str, Line]) -> str:
    """Return one line; `predecessors` is None where nothing is said of them."""
    line = f"Job {visit.label}"
    if visit.again or visit.later:
        return f"{line} planned" if visit.again else f"{line} later"
    if visit.asked_by is not None:
        line += f" for {visit.asked_by}"
    if predecessors is not None:
        line += f" after {', '.join(predecessors) or '-'};"
    if visit.before is None or predecessors is None:
        return line + _plan_text(plans[visit.label])
    known = predecessors[: predecessors.index(visit.before)]
    return line + "".join(f" {other} {plans[other].end}," for other in known) + f" {visit.before} before {visit.label}"


class _Unreadable(Exception):
    """The line does not follow the grammar."""


class _State:
    """The state that the checked lines have established."""

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self.free = tuple(resource.capacity for resource in instance.resources)
        self.ordered = False
        self.rest = False
        self.now = 0
        """Start of the last job planned with its resources."""
        self.asked: dict[str, set[str]] = {}
        """For each job, the predecessors that lines visited before it."""
        self.ends: dict[str, int] = {}
        self.held: dict[str, list[tuple[int, tuple[int, ...]]]] = {}
        """For each running job, its releases, with the time from its end to the release, which is at most 0."""

    @property
    def running(self) -> list[tuple[str, int]]:
        """The jobs that hold units, with the hours at which they release them."""
        return [(label, self.ends[label] + before) for label, held in self.held.items() for before, _ in held]


def check_steps(instance: Instance, text: str) -> tuple[Step, ...]:
    """Judge each step of the reasoning before the answer: true, false with a reason, or unreadable.

    Each line is a step. It is true if everything it states holds for the instance and the lines before it, and it omits
    nothing that constrains its job; a start later than necessary is allowed. Ends on earlier lines are taken as
    written, so one mistake counts once. Lines that do not match the grammar are unreadable and establish nothing. Never
    raises; takes time linear in the text.
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
    """Return the first error in a line; empty if there is none."""
    match words[0]:
        case "Order:":
            return _check_order(state, words[1:])
        case "Free":
            return _check_free(state, words)
        case "Job":
            return _check_visit(state, _Words(words))
        case "Rest":
            _Words(words).end()
            begun, state.rest = state.rest, True
            return "the rest has begun already" if begun else ""
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

    def item(self) -> tuple[str, bool]:
        """Return a list item without its separator, and whether it is the last: "," continues the list, ";" ends it."""
        word = self.take()
        if word[-1] not in ",;":
            raise _Unreadable(f"expected ',' or ';' after {word[:20]!r}")
        return word[:-1], word[-1] == ";"

    def running(self) -> tuple[tuple[str, int], ...]:
        """Return the rest of the line: hours and labels, as in "9 D, 10 C E"."""
        found = []
        last = False
        while not last:
            hour, more = self.number(), True
            while more:
                label = self.take()
                last = self.at == len(self.words)
                more = not last and label[-1] != ","
                found.append((label if last or more else label[:-1], hour))
        return tuple(found)

    def peek(self, ahead: int) -> str | None:
        return self.words[self.at + ahead] if self.at + ahead < len(self.words) else None

    def end(self) -> None:
        if self.at < len(self.words):
            raise _Unreadable(f"expected the end of the line, got {self.words[self.at][:20]!r}")


def _number(word: str) -> int:
    if not (word.isascii() and word.isdigit() and len(word) <= 6):
        raise _Unreadable(f"expected a number, got {word[:20]!r}")
    return int(word)


@frozen
class _Predecessors:
    """What a visit states about the predecessors of its job."""

    after: tuple[str, ...]
    ends: tuple[tuple[str, int], ...]
    before: str | None


def _read_predecessors(reader: _Words, label: str) -> _Predecessors:
    """Read the predecessors, their ends, and the predecessor to plan first, if any."""
    if not reader.accept("after"):
        return _Predecessors((), (), None)
    if reader.accept("-;"):
        return _Predecessors((), (), None)
    after: list[str] = []
    last = False
    while not last:
        other, last = reader.item()
        after.append(other)
    ends: list[tuple[str, int]] = []
    last = False
    while not last:
        if reader.peek(1) == "before":
            before = reader.take()
            reader.expect("before")
            reader.expect(label)
            reader.end()
            return _Predecessors(tuple(after), tuple(ends), before)
        other = reader.take()
        hour, last = reader.item()
        ends.append((other, _number(hour)))
    return _Predecessors(tuple(after), tuple(ends), None)


def _read_plan(reader: _Words, label: str, after: tuple[tuple[str, int], ...], resources: int) -> Line:
    """Read a plan, whether or not it is true."""
    reader.expect("takes")
    reader.expect(label)
    duration = reader.number()
    demands = free = None
    earliest = max((hour for _, hour in after), default=0)
    releases: dict[str, list[Release]] = {"out": [], "wait": []}
    if resources and reader.accept("needs"):
        reader.expect(label)
        demands = reader.numbers(resources)
        reader.expect("from")
        earliest = reader.number()
        for word, found in releases.items():
            while reader.accept(word):
                hour, other = reader.number(), reader.take()
                found.append((other, hour, reader.numbers(resources)))
        reader.expect("left")
        free = reader.numbers(resources)
    reader.expect("start")
    reader.expect(label)
    start = reader.number()
    reader.expect("end")
    reader.expect(label)
    end = reader.number()
    running = reader.running() if resources and reader.accept("running") else ()
    reader.end()
    outs, waits = map(tuple, releases.values())
    return Line(label, duration, demands, after, earliest, outs, waits, start, end, free, running)


def _check_order(state: _State, words: list[str]) -> str:
    instance = state.instance
    listed: dict[str, bool] = {}
    latest = 0
    for item in " ".join(words).split(", "):
        hour, *labels = item.split(" ")
        if not labels:
            hour, labels = "", [hour]
        for label in labels:
            if label not in instance.labels:
                return f"there is no job {label[:20]!r}"
            if label in listed:
                return f"job {label} is listed twice"
            if hour:
                deadline = _number(hour)
                if deadline != instance.job(label).deadline:
                    return f"{deadline} is not the deadline of {label}"
                if deadline < latest:
                    return f"job {label}, due by {deadline}, is listed after one due by {latest}"
                latest = deadline
            listed[label] = bool(hour)
    if any(listed.values()):
        for label in instance.labels:
            due = instance.job(label).deadline is not None
            if due and not listed.get(label):
                return f"job {label} has a deadline, which is not listed"
            if not due and label in listed:
                return f"job {label} has no deadline and is listed beside those that have"
    if state.ordered:
        return "the order is written already"
    state.ordered = True
    return ""


def _check_free(state: _State, words: list[str]) -> str:
    reader = _Words(words)
    free = reader.numbers(len(state.free))
    reader.end()
    return "" if free == state.free else f"{_listed(free)} is not what is free"


def _check_visit(state: _State, reader: _Words) -> str:
    """Return the first error in a visit; empty if there is none. The state follows the plan as written either way."""
    label = reader.take()
    if reader.accept("planned"):
        reader.end()
        return "" if label in state.ends else f"no line has planned {label[:20]!r}"
    if reader.accept("later"):
        reader.end()
        if label not in state.instance.labels:
            return f"there is no job {label[:20]!r}"
        if label in state.ends:
            return f"job {label} is planned already"
        return "nothing comes after the rest" if state.rest else ""
    asked_by = reader.take() if reader.accept("for") else None
    listed = _read_predecessors(reader, label)
    line = None if listed.before is not None else _read_plan(reader, label, listed.ends, len(state.free))
    if label not in state.instance.labels:
        return f"there is no job {label[:20]!r}"
    wrong = _wrong_predecessors(state, label, listed)
    if asked_by is not None and label not in state.asked.get(asked_by, ()):
        wrong.append(f"no line says that {asked_by[:20]!r} waits for {label}")
    if listed.before is not None:
        state.asked.setdefault(label, set()).add(listed.before)
    if line is not None:
        wrong += _check_plan(state, line)
    return wrong[0] if wrong else ""


def _wrong_predecessors(state: _State, label: str, listed: _Predecessors) -> list[str]:
    """Return the false or missing statements about predecessors."""
    wrong = []
    before = state.instance.predecessors(label)
    wrong += [f"job {label} does not come after {other[:20]!r}" for other in listed.after if other not in before]
    wrong += [f"job {label} comes after {other}, which is overlooked" for other in before if other not in listed.after]
    wrong += [
        f"no line says that {other[:20]} ends at {end}" for other, end in listed.ends if state.ends.get(other) != end
    ]
    named = {other for other, _ in listed.ends}
    wrong += [f"{other[:20]!r} is not among what {label} comes after" for other in named.difference(listed.after)]
    if listed.before is None:
        wrong += [f"when {other[:20]} ends is left out" for other in listed.after if other not in named]
    elif listed.before not in listed.after:
        wrong.append(f"{listed.before[:20]!r} is not among what {label} comes after")
    elif listed.before in state.ends:
        wrong.append(f"job {listed.before} is planned already")
    if listed.before is not None and label in state.ends:
        wrong.append(f"job {label} was planned before")
    return wrong


def _check_plan(state: _State, line: Line) -> list[str]:
    """Return the errors in a plan; the state continues from the plan as written."""
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
    ready = max((end for _, end in line.after), default=0)
    if line.demands is not None:
        if line.earliest != max(ready, state.now):
            wrong.append(f"{line.earliest} is not the first hour to look at")
        for out in (*line.outs, *line.waits):
            wrong += _take_out(state, *out)
        wrong += [f"{end} is after {line.earliest}" for _, end, _ in line.outs if end > line.earliest]
        wrong += [f"{end} is not after {line.earliest}" for _, end, _ in line.waits if end <= line.earliest]
    if line.start < max([line.earliest, *(end for _, end, _ in (*line.outs, *line.waits))]):
        wrong.append(f"{label} cannot start at {line.start}")
    if line.end != line.start + line.duration:
        wrong.append(f"{line.start} and {line.duration} do not make {line.end}")
    if line.free is not None:
        left = tuple(map(sub, state.free, job.demands))
        if any(units < 0 for units in left):
            wrong.append(f"{label} does not fit into what is free")
        if line.free != left:
            wrong.append(f"{_listed(line.free)} is not what is left free")
        state.free = line.free
        state.held[label] = [(length - job.duration, units) for length, units in job.holds]
        state.now = line.start
    state.ends[label] = line.end
    if line.running:
        hours = [hour for _, hour in line.running]
        if hours != sorted(hours) or sorted(line.running) != sorted(state.running):
            wrong.append("that is not what is running")
    return wrong


def _take_out(state: _State, label: str, end: int, free: tuple[int, ...]) -> list[str]:
    """Return the errors in one `out`; the state then releases the job and takes the free units as written."""
    wrong = []
    if label not in state.held:
        wrong.append(f"job {label[:20]!r} is not running")
    else:
        releases = {other: state.ends[other] + held[0][0] for other, held in state.held.items()}
        if end != releases[label]:
            wrong.append(f"job {label} does not end at {end}")
        if min(releases.values()) < releases[label]:
            wrong.append(f"another job ends before {label}")
        _, units = state.held[label].pop(0)
        if free != tuple(map(add, state.free, units)):
            wrong.append(f"{_listed(free)} is not what is free when {label} is out")
        if not state.held[label]:
            del state.held[label]
    state.free = free
    return wrong


def _listed(units: Sequence[int]) -> str:
    return " ".join(map(str, units))
