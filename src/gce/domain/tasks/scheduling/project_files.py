"""Projects in the file formats of the RCPSP libraries: PSPLIB's `.sm` and Patterson's `.rcp`, read and written.

Single mode and renewable resources only; everything else is refused. In both formats the first job is a supersource and
the last a supersink, which take no time and no resources: they are left out of the instance, with their arcs. The other
jobs are named J2, J3 ... by their numbers in the file, the resources R1, R2 ...

- `.sm` (PSPLIB, Kolisch and Sprecher, 1996): sections with headings. The header's `horizon` is the project deadline;
  one of at least the sum of durations, as in PSPLIB's own files, is a bound on time and is read as no deadline.
- `.rcp` (Patterson, 1984; RCPLIB): whole numbers, however broken into lines: jobs and resources; capacities; for each
  job duration, demands, number of successors, and successors. It has no project deadline.

Neither has labels, names of resources or deadlines of jobs. Pure: text in, text out. Errors name the line.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NoReturn

from attrs import evolve, frozen

from gce.domain.tasks.scheduling.heuristics import critical_path_length
from gce.domain.tasks.scheduling.instance import Instance, Job, Resource

__all__ = ["MOST_JOBS", "PROJECT_FORMATS", "as_read", "parse_rcp", "parse_sm", "project_of", "write_rcp", "write_sm"]

MOST_JOBS = 502
"""Maximum number of jobs of a file, supersource and supersink included; the libraries' largest have 302."""
MOST_RESOURCES = 64
_DIGITS = 9
"""Maximum digits of a number: sums over all jobs stay far below the instance's bounds."""
_RULE = "*" * 72
_HEADINGS = ("PROJECT INFORMATION", "PRECEDENCE RELATIONS", "REQUESTS/DURATIONS", "RESOURCEAVAILABILITIES")


@frozen
class _ProjectLine:
    """The whole numbers of a line, or of a job."""

    line: int
    numbers: tuple[int, ...]


def project_of(record: Any) -> Instance:
    """Return the project of a record with `name`, a file's, and `text`, its contents.

    Raises:
        ValueError: what is wrong, after the file's name and the line.
    """
    if not isinstance(record, Mapping) or not {"name", "text"} <= set(record):
        raise ValueError(f"expected {' or '.join(PROJECT_FORMATS)} files, got a record {record!r:.60}")
    name = str(record["name"])
    for end, (parse, _) in PROJECT_FORMATS.items():
        if name.lower().endswith(end):
            try:
                found = parse(record["text"])
            except ValueError as error:
                raise ValueError(f"{name}, {error}") from error
            if found.horizon is not None and found.horizon < (least := critical_path_length(found)):
                raise ValueError(
                    f"{name}: expected a horizon of at least {least}, the critical path, got {found.horizon}"
                )
            return found
    raise ValueError(f"expected a file that ends in {' or '.join(PROJECT_FORMATS)}, got {name!r:.60}")


def as_read(instance: Instance, *, horizon: bool = True) -> Instance:
    """Return the instance as its file is read: named by numbers, and without a deadline that is not read as one."""
    names = {label: f"J{number}" for number, label in enumerate(instance.labels, 2)}
    jobs = [evolve(job, label=names[job.label]) for job in instance.jobs]
    edges = _in_order((names[before], names[after]) for before, after in instance.precedence)
    resources = [Resource(f"R{number}", each.capacity) for number, each in enumerate(instance.resources, 1)]
    binds = horizon and instance.horizon is not None and instance.horizon < _total(instance)
    return Instance(jobs, edges, resources, instance.horizon if binds else None)


def parse_sm(text: str) -> Instance:
    """Return the project of a PSPLIB single-mode file.

    Raises:
        ValueError: a section is missing, a count does not hold, or the file has modes or resources of another kind; one
            line with the number of the file's line.
    """
    sections = _sections(text)
    header = _header(sections[""])
    count, kinds = header["jobs"].numbers[0], header["renewable"].numbers[0]
    _check_size(header["jobs"].line, count, kinds)
    for name, expected in (("nonrenewable", 0), ("doubly constrained", 0), ("projects", 1)):
        if header[name].numbers[0] != expected:
            _refuse(header[name].line, f"expected {expected} {name}, got {header[name].numbers[0]}")
    information = _section(sections, _HEADINGS[0], 1)[0]
    if len(information.numbers) != 6:
        _refuse(information.line, f"expected 6 numbers of the project, got {len(information.numbers)}")
    if information.numbers[1] != count - 2:
        _refuse(information.line, f"expected {count - 2} jobs, as the header says, got {information.numbers[1]}")
    if information.numbers[2]:
        _refuse(information.line, f"expected a release date of 0, got {information.numbers[2]}")
    successors, jobs = [], []
    for number, row in enumerate(_section(sections, _HEADINGS[1], count), 1):
        given = row.numbers
        _check_job(row, number, 3)
        if given[1] != 1:
            _refuse(row.line, f"expected 1 mode of job {number}, got {given[1]}: multi-mode projects are not read")
        if len(given) != 3 + given[2]:
            _refuse(row.line, f"expected {given[2]} successors of job {number}, got {len(given) - 3}")
        successors.append(_ProjectLine(row.line, given[3:]))
    for number, row in enumerate(_section(sections, _HEADINGS[2], count), 1):
        _check_job(row, number, 3)
        if row.numbers[1] != 1:
            _refuse(row.line, f"expected mode 1 of job {number}, got {row.numbers[1]}")
        if len(row.numbers) != 3 + kinds:
            _refuse(row.line, f"expected {kinds} demands of job {number}, got {len(row.numbers) - 3}")
        jobs.append(_ProjectLine(row.line, row.numbers[2:]))
    capacities = _section(sections, _HEADINGS[3], 1)[0].numbers if kinds else ()
    if not kinds:
        _section(sections, _HEADINGS[3], 0)
    elif len(capacities) != kinds:
        _refuse(sections[_HEADINGS[3]][-1][0], f"expected {kinds} capacities, got {len(capacities)}")
    found = _instance(jobs, successors, capacities)
    horizon = header["horizon"].numbers[0]
    return evolve(found, horizon=horizon) if horizon < _total(found) else found


def parse_rcp(text: str) -> Instance:
    """Return the project of a file in Patterson's format.

    Raises:
        ValueError: a count does not hold, or something stands after the last job; one line with the number of the
            file's line.
    """
    tokens = ((line, token) for line, words in enumerate(_lines(text), 1) for token in words.split())
    last = 1

    def take(what: str) -> int:
        nonlocal last
        last, token = next(tokens, (last, ""))
        if not token:
            _refuse(last, f"expected {what}, got the end of the file")
        return _number(last, token, what)

    count, kinds = take("the number of jobs"), take("the number of resources")
    _check_size(last, count, kinds)
    capacities = [take(f"the capacity of R{kind}") for kind in range(1, kinds + 1)]
    jobs, successors = [], []
    for number in range(1, count + 1):
        row = [take(f"the duration of job {number}")]
        line = last
        row += [take(f"the demand of job {number} for R{kind}") for kind in range(1, kinds + 1)]
        after = take(f"the number of successors of job {number}")
        if after >= count:
            _refuse(last, f"expected fewer than {count} successors of job {number}, got {after}")
        jobs.append(_ProjectLine(line, tuple(row)))
        successors.append(_ProjectLine(last, tuple(take(f"{after} successors of job {number}") for _ in range(after))))
    line, token = next(tokens, (0, ""))
    if token:
        _refuse(line, f"expected the end of the file after {count} jobs, got {token!r:.40}")
    return _instance(jobs, successors, capacities)


def write_sm(instance: Instance) -> str:
    """Return the project as a PSPLIB single-mode file, which `parse_sm` reads as `as_read(instance)`.

    Raises:
        ValueError: the format cannot hold the instance.
    """
    _check_writable(instance)
    jobs, successors = _rows(instance)
    count, kinds = len(jobs), len(instance.resources)
    total, path = _total(instance), critical_path_length(instance)
    names = " ".join(f"{f'R {kind}':>5}" for kind in range(1, kinds + 1))
    lines = [
        _RULE,
        "file with basedata            : none",
        "initial value random generator: 0",
        _RULE,
        "projects                      :  1",
        f"jobs (incl. supersource/sink ):  {count}",
        f"horizon                       :  {total if instance.horizon is None else instance.horizon}",
        "RESOURCES",
        f"  - renewable                 :  {kinds}   R",
        "  - nonrenewable              :  0   N",
        "  - doubly constrained        :  0   D",
        _RULE,
        f"{_HEADINGS[0]}:",
        "pronr.  #jobs rel.date duedate tardcost  MPM-Time",
        f"{1:5} {count - 2:6} {0:6} {path:8} {0:8} {path:8}",
        _RULE,
        f"{_HEADINGS[1]}:",
        "jobnr.    #modes  #successors   successors",
        *(f"{j:4} {1:8} {len(after):10}        {' '.join(f'{k:3}' for k in after)}" for j, after in successors.items()),
        _RULE,
        f"{_HEADINGS[2]}:",
        f"jobnr. mode duration {names}",
        "-" * 72,
        *(f"{j:3} {1:6} {row[0]:5}    {' '.join(f'{units:5}' for units in row[1:])}" for j, row in jobs.items()),
        _RULE,
        f"{_HEADINGS[3]}:",
        f"  {names}",
        f"  {' '.join(f'{resource.capacity:5}' for resource in instance.resources)}",
        _RULE,
    ]
    return "".join(line.rstrip() + "\n" for line in lines)


def write_rcp(instance: Instance) -> str:
    """Return the project in Patterson's format, which `parse_rcp` reads as `as_read(instance, horizon=False)`.

    Raises:
        ValueError: the format cannot hold the instance.
    """
    _check_writable(instance)
    jobs, successors = _rows(instance)
    lines = [f"{len(jobs)} {len(instance.resources)}", " ".join(str(each.capacity) for each in instance.resources), ""]
    lines += [" ".join(map(str, (*row, len(successors[j]), *successors[j]))) for j, row in jobs.items()]
    return "\n".join(lines) + "\n"


PROJECT_FORMATS = {".sm": (parse_sm, write_sm), ".rcp": (parse_rcp, write_rcp)}
"""How a file is read and written, by the end of its name."""


def _refuse(line: int, what: str) -> NoReturn:
    raise ValueError(f"line {line}: {what}")


def _total(instance: Instance) -> int:
    return sum(job.duration for job in instance.jobs)


def _in_order(edges: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return the edges between J2, J3 ... by these numbers."""
    return sorted(edges, key=lambda edge: (int(edge[0][1:]), int(edge[1][1:])))


def _lines(text: str) -> Sequence[str]:
    return text.replace("\r\n", "\n").split("\n")


def _number(line: int, token: str, what: str) -> int:
    if not (token.isascii() and token.isdigit() and len(token) <= _DIGITS):
        _refuse(line, f"expected {what} as a whole number of at most {_DIGITS} digits, got {token!r:.40}")
    return int(token)


def _check_size(line: int, count: int, kinds: int) -> None:
    if not 3 <= count <= MOST_JOBS:
        _refuse(line, f"expected 3 to {MOST_JOBS} jobs, supersource and supersink included, got {count}")
    if kinds > MOST_RESOURCES:
        _refuse(line, f"expected at most {MOST_RESOURCES} resources, got {kinds}")


def _check_job(row: _ProjectLine, number: int, least: int) -> None:
    if len(row.numbers) < least:
        _refuse(row.line, f"expected at least {least} numbers of job {number}, got {len(row.numbers)}")
    if row.numbers[0] != number:
        _refuse(row.line, f"expected job {number}, got {row.numbers[0]}")


def _sections(text: str) -> dict[str, list[tuple[int, str]]]:
    """Lines that say something, with their numbers, by the heading that they follow; the heading itself is the first.

    The first line below a heading names columns and is left out, save for the header, whose lines are named one by one.
    """
    found: dict[str, list[tuple[int, str]]] = {"": []}
    now = ""
    for number, line in enumerate(_lines(text), 1):
        words = line.strip()
        heading = words.rstrip(":").rstrip()
        if heading in _HEADINGS:
            if heading in found:
                _refuse(number, f"a second section {heading}")
            now, found[heading] = heading, [(number, heading)]
        elif words.strip("*") and words.strip("-"):
            found[now].append((number, words))
    for heading in _HEADINGS:
        if heading not in found:
            _refuse(text.count("\n") + 1, f"expected a section {heading}, got the end of the file")
    return found


def _header(lines: Sequence[tuple[int, str]]) -> dict[str, _ProjectLine]:
    wanted = ("projects", "jobs", "horizon", "renewable", "nonrenewable", "doubly constrained")
    found: dict[str, _ProjectLine] = {}
    for number, line in lines:
        before, _, after = line.partition(":")
        name = before.lstrip(" \t-").partition(" (")[0].strip()
        if name in found:
            _refuse(number, f"a second line of {name}")
        if name in wanted:
            found[name] = _ProjectLine(number, (_number(number, after.split()[0] if after.strip() else "", name),))
    for name in wanted:
        if name not in found:
            _refuse(lines[-1][0] if lines else 1, f"expected a line of {name} above {_HEADINGS[0]}")
    return found


def _section(sections: Mapping[str, Sequence[tuple[int, str]]], heading: str, count: int) -> list[_ProjectLine]:
    """Return the rows of a section below the names of its columns, which must be so many."""
    (line, _), *rest = sections[heading]
    if count and not rest:
        _refuse(line, f"expected {count} lines and the names of their columns below {heading}, got none")
    rows = rest[1:]
    if len(rows) > count:
        _refuse(rows[count][0], f"expected {count} lines below {heading}, got {len(rows)}")
    if len(rows) < count:
        _refuse(rest[-1][0], f"expected {count} lines below {heading}, got {len(rows)}")
    return [
        _ProjectLine(number, tuple(_number(number, token, "numbers") for token in words.split()))
        for number, words in rows
    ]


def _instance(jobs: Sequence[_ProjectLine], successors: Sequence[_ProjectLine], capacities: Sequence[int]) -> Instance:
    """Return the instance of these jobs, each a duration and demands, without supersource and supersink."""
    count = len(jobs)
    for at, what in ((0, "supersource"), (count - 1, "supersink")):
        if any(jobs[at].numbers):
            _refuse(jobs[at].line, f"expected job {at + 1} to be the {what}, without duration and demands")
    edges: list[tuple[str, str]] = []
    for number, row in enumerate(successors, 1):
        if len(set(row.numbers)) < len(row.numbers):
            _refuse(row.line, f"a successor of job {number} is named twice")
        for after in row.numbers:
            if not 1 < after <= count:
                _refuse(row.line, f"expected successors from 2 to {count} of job {number}, got {after}")
            if number > 1 and after < count:
                edges.append((f"J{number}", f"J{after}"))
        if number == count and row.numbers:
            _refuse(row.line, f"expected no successors of the supersink, got {row.numbers[0]}")
    for number, row in enumerate(jobs, 1):
        for kind, (demand, capacity) in enumerate(zip(row.numbers[1:], capacities, strict=True), 1):
            if demand > capacity:
                _refuse(row.line, f"job {number} demands {demand} of R{kind}, which has a capacity of {capacity}")
    try:
        return Instance(
            (Job(f"J{number}", row.numbers[0], row.numbers[1:]) for number, row in enumerate(jobs[1:-1], 2)),
            _in_order(edges),
            (Resource(f"R{kind}", capacity) for kind, capacity in enumerate(capacities, 1)),
        )
    except ValueError as error:
        _refuse(successors[0].line, f"in the successors from here on, {error!s:.200}")


def _check_writable(instance: Instance) -> None:
    if any(job.deadline is not None for job in instance.jobs):
        raise ValueError("its jobs have deadlines, which the formats of projects do not hold")
    if any(job.holds != ((job.duration, job.demands),) for job in instance.jobs):
        raise ValueError("its jobs release units before they end, which the formats of projects do not hold")
    if len(instance.jobs) + 2 > MOST_JOBS or len(instance.resources) > MOST_RESOURCES:
        raise ValueError(f"expected at most {MOST_JOBS - 2} jobs and {MOST_RESOURCES} resources")
    if max(critical_path_length(instance), instance.horizon or 0, *_sizes(instance)) >= 10**_DIGITS:
        raise ValueError(f"expected numbers of at most {_DIGITS} digits")


def _sizes(instance: Instance) -> Iterator[int]:
    yield _total(instance)
    yield from (resource.capacity for resource in instance.resources)


def _rows(instance: Instance) -> tuple[dict[int, tuple[int, ...]], dict[int, list[int]]]:
    """Return duration and demands, and the successors, by number, with supersource and supersink."""
    numbers = {label: number for number, label in enumerate(instance.labels, 2)}
    sink = len(numbers) + 2
    nothing = (0,) * (1 + len(instance.resources))
    jobs = {1: nothing, **{numbers[job.label]: (job.duration, *job.demands) for job in instance.jobs}, sink: nothing}
    successors = {1: [numbers[label] for label in instance.labels if not instance.predecessors(label)]}
    for label, number in numbers.items():
        successors[number] = sorted(numbers[after] for after in instance.successors(label)) or [sink]
    return jobs, successors | {sink: []}
