"""Attack the verifier of any task: `report = check_task(TASK); assert report.ok, report`.

Runs the checks of `gce.testing.verifiers.attacks` on problems drawn from the task. Right answers are those of the
task's heuristics and demonstrations that the verifier and, if given, the independent judge call right. The report lists
what could not be checked; a clean report says that these attacks failed, not that none can succeed. Does not need
Hypothesis; Hypothesis strategies for scheduling are in `gce.testing.scheduling.generators`.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from html import escape

from attrs import evolve, field, frozen

from gce.domain.measurements import Interval
from gce.domain.statistics import interval
from gce.domain.tasks.extraction import expression_for
from gce.domain.tasks.own import LEAST_LIMIT
from gce.domain.tasks.task import Task
from gce.domain.text import counted, printable
from gce.ports.runner import Runner
from gce.testing.verifiers.attacks import checks_of
from gce.testing.verifiers.bench import SHOWN, Accepts, Bench, Elsewhere, Finding, Hopeless, alarm_clock, clipped
from gce.testing.verifiers.floor import Floor, floor_of
from gce.testing.verifiers.forms import SENTENCE
from gce.testing.verifiers.severity import SEVERITIES, cure_of, defect_of

__all__ = ["Accepts", "Elsewhere", "Finding", "Stage", "TaskReport", "check_task"]

Stage = Callable[[str, int], Callable[[], None]]
LUCK = 0.05
"""How far above the adversarial floor a baseline has to be for a printed report to name it."""
ANSWERS = "right answers: "
"""How the reason begins without which few attacks are tried."""
PARTIAL_CREDIT = "pay partial credit only above what the best prompt-blind baseline earns"
"""What mends a high gap or floor where rewards are partial."""
BRIEF = 48
"""Characters of an attack's name behind the adversarial floor."""
REFUSED = 4
"""Refused formats that a printed report names."""
EXAMPLES = 2
"""Findings of each kind that a printed report shows."""
MOST_HOLES = 6
"""From more of them on a short report does not show each."""


@frozen(repr=False)
class TaskReport:
    """The results of attacking a task's verifier."""

    task: str
    preset: str
    problems: int
    findings: tuple[Finding, ...]
    """The first few findings of each kind, kind by kind; `found` counts all."""
    tried: Mapping[str, int]
    """Number of questions that each check asked."""
    found: Mapping[str, int]
    not_checked: tuple[str, ...]
    """Checks that could not run, with the reasons."""
    exploits: Interval
    """False accepts: the rate of wrong responses judged right, among all distinct generated responses judged by
    `accepts`; without `accepts`, among those that are wrong for every problem. `high` bounds the rate (95 %)."""
    false_rejects: Interval
    """False rejects: the rate of responses judged wrong, among those that `accepts` calls right."""
    seconds: float
    verdicts: int = 0
    """Number of verdicts over all checks."""
    failed: Mapping[str, int] = field(factory=dict)
    """Number of these with status `failed`, by reason; they are excluded from every rate."""
    failed_on: Mapping[str, tuple[str, str]] = field(factory=dict)
    """By reason, the key of the problem and the response that failed first."""
    severities: Mapping[str, int] = field(factory=dict)
    """Number of findings by severity, the gravest first."""
    notes: tuple[Finding, ...] = ()
    """What is no finding: formats that are refused, and answers that are right and probably should not be."""
    floor: Floor | None = None
    """What is earned without solving anything; None where no tier has both training and test problems."""
    last_line: bool = False
    """Whether the score was given the last line of each response alone."""
    admit_at: float | None = None
    """The reward from which on an answer counts as right, where some reward was partial; else None."""
    expression: str = ""
    """A regular expression that finds answers like the known ones in a sentence; empty where none is known."""

    @property
    def ok(self) -> bool:
        """True if nothing was found."""
        return not self.found

    @property
    def is_clear(self) -> bool:
        """True if nothing was found, little is earned without an answer, and the right answers were known."""
        return self.ok and not self.pays_guesses and not any(each.startswith(ANSWERS) for each in self.not_checked)

    @property
    def pays_guesses(self) -> bool:
        """True if much is earned without an answer."""
        return self.floor is not None and self.floor.unearned > LEAST_LIMIT

    def __repr__(self) -> str:
        count = sum(self.found.values())
        return f"<check of {self.task}/{self.preset}: {'ok' if self.ok else counted(count, 'finding')}>"

    def __str__(self) -> str:
        return self.text()

    def text(self, table: str = "table()") -> str:
        """What was found, the gravest first, what is earned without solving anything, and what was not checked.

        `table` is how a person gets the table; empty where it is shown besides.
        """
        tried = f"{len(self.tried)} checks tried {sum(self.tried.values()):,} answers"
        saw = "; your function saw only the last line of each" if self.last_line else ""
        lines = [
            f"{self.task}/{self.preset}: {tried}, {self.seconds:.1f} s of computing{saw}",
            *self._first().split("\n"),
        ]
        lines += [f"not checked: {each}" for each in self.not_checked if each.startswith(ANSWERS)]
        lines += [*self._findings(short=bool(table)), *self._floor(), *self._rates()]
        lines += [] if self.found else self._noted()
        lines += [
            f"could not be judged, {count:,} times: {clipped(reason)}"
            for reason, count in [*self.failed.items()][:SHOWN]
        ]
        lines += self._not_checked(table)
        return "\n".join(map(printable, lines))

    def table(self) -> str:
        """How many answers each check tried, and how many got what they should not; why some was not checked.

        Beside findings also what is no finding, which `text` says otherwise.
        """
        names = dict.fromkeys((*self.tried, *self.found))
        rows = [f"  {name:<12}{self.tried.get(name, 0):>9,}{self.found.get(name, 0):>7,}" for name in names]
        why = [f"not checked: {each}" for each in self.not_checked]
        noted = self._noted() if self.found else ()
        return "\n".join([f"  {'check':<12}{'tried':>9}{'found':>7}", *rows, *map(printable, (*noted, *why))])

    def _not_checked(self, table: str) -> Iterator[str]:
        """How many, but what keeps most attacks from being tried."""
        names = dict.fromkeys(each.partition(":")[0] for each in self.not_checked if not each.startswith(ANSWERS))
        if not table:
            return
        if noted := sum(not each.startswith(" ") for each in self._noted()) if self.found else 0:
            why = f", and says why {counted(len(names), 'check')} could not try everything" if names else ""
            yield f"{table} has {counted(noted, 'remark')} on doubtful answers{why}"
        elif names:
            yield f"{counted(len(names), 'check')} could not try everything: {table} says why"

    def _first(self) -> str:
        """How much was found, and what to do about it; not all is well where an attack earns much."""
        if self.found:
            judge = "the score, or the second judge," if self.false_rejects.n else "the score"
            holes = len({(finding.check, finding.kind) for finding in self.findings})
            findings = counted(sum(self.found.values()), "finding")
            return (
                f"{counted(holes, 'hole')} ({findings}). Decide for each response below whether you "
                f"would pay for it; if not, mend {judge} and check again."
            )
        if self.floor is None or not self.pays_guesses:
            if not self.is_clear:
                return "nothing was found, but most attacks start from a right answer, and some are not known (below)"
            return "nothing was found"
        name = "adversarial floor" if self.floor.gameability_gap is None else "gameability gap"
        said = (
            f"no check found anything, but the {name} is {self.floor.unearned:.2f} (below), and the limit is "
            f"{LEAST_LIMIT:g}"
        )
        if self.admit_at is None:
            return f"{said}: look at what earns it, or check on more problems"
        earned = min(self.floor.unearned, 0.99)
        return f"{said}\n    to mend it: {PARTIAL_CREDIT}, as max(0, (score - {earned:.2f}) / {1 - earned:.2f})"

    def _findings(self, *, short: bool) -> Iterator[str]:
        """Hole by hole, the gravest first; those that the same change mends stand together above it.

        `short` shows one example of each, and of many holes the first that each change mends; it names the others.
        """
        kinds: dict[tuple[str, str], list[Finding]] = {}
        for finding in self.findings:
            kinds.setdefault((finding.check, finding.kind), []).append(finding)
        # Several answers side by side are harder to read than one: they come last of their severity.
        cures: dict[str, list[tuple[tuple[str, str], list[Finding]]]] = {}
        for hole, each in sorted(
            kinds.items(), key=lambda item: (SEVERITIES.index(item[1][0].severity), item[0][0] == "hedging")
        ):
            cures.setdefault(cure_of(*hole, each[0].message), []).append((hole, each))
        for cure, holes in cures.items():
            most = 1 if short and len(kinds) > MOST_HOLES else len(holes)
            for (check, kind), each in holes[:most]:
                first, *others = each[: 1 if short else EXAMPLES]
                yield f"{first.severity}: {check}, {kind}: {first.message}{_times(each)}"
                yield from _shown(first)
                for finding in others:
                    if finding.message != first.message:
                        yield f"    {finding.message}"
                    yield from _shown(finding)
            if more := holes[most:]:
                yield f"    also {'; '.join(f'{check}, {kind}{_times(each)}' for (check, kind), each in more)}"
            yield f"    to mend {'it' if len(holes) == 1 else f'these {len(holes)}'}: {cure}"

    def _floor(self) -> Iterator[str]:
        if self.floor is None:
            return
        low, high, highest = self.floor.low, self.floor.high, self.floor.highest
        is_far = highest > self.floor.adversarial_floor + LUCK
        best = "; ".join(
            f"{_brief(tier.attack)}{f' on {tier.tier}' if len(self.floor.tiers) > 1 else ''}"
            + (f", as {clipped(tier.example)}" if tier.example and not self.found else "")
            for tier in self.floor.tiers
            if tier.reward.total
        )
        yield (
            f"adversarial floor: {self.floor.adversarial_floor:.2f} ({low:.2f}-{high:.2f}), what an attack earns that "
            f"solves nothing; an empty response earns {self.floor.empty_floor:.2f}"
            + (f"; best on training problems: {best}" if best else "")
            + (f"; on the test problems, the luckiest prompt-blind baseline earns {highest:.2f}" if is_far else "")
        )
        gap = self.floor.gameability_gap
        said = "unknown without right answers" if gap is None else f"{gap:.2f}, what an attack earns with wrong answers"
        yield f"gameability gap: {said}"

    def _rates(self) -> Iterator[str]:
        """The rates over generated responses that a second judge can tell, said so that they are not taken for all."""
        if not self.false_rejects.n and not self.exploits.correct:
            return
        besides = f"; the {self.exploits.n:,} are only a part of what was tried" if self.found else ""
        yield (
            f"wrong generated responses judged right: {self.exploits.correct:,} of {self.exploits.n:,}, "
            f"at most {100 * self.exploits.high:.4f} % (95 %){besides}"
        )
        yield (f"right generated responses judged wrong: {self.false_rejects.correct:,} of {self.false_rejects.n:,}")

    def _noted(self) -> Iterator[str]:
        doubtful: dict[tuple[str, str], list[Finding]] = {}
        for note in self.notes:
            if note.severity == "doubtful":  # Near misses are many kinds of one thing, and so are constants.
                alike = note.check in ("blind", "near misses")
                doubtful.setdefault((note.check, "" if alike else note.message), []).append(note)
        for first, *others in doubtful.values():
            yield f"doubtful: {first.check}, {first.message}"
            yield from _shown(first)
            if others:
                kinds = [*dict.fromkeys(note.kind for note in others)]
                alike = kinds == [first.kind]
                yield f"    and {len(others):,} more like it" if alike else f"    the same with: {'; '.join(kinds)}"
        refused = [note.kind for note in self.notes if note.severity == "note"]
        if refused:
            said = "note: right answers in other formats are refused, which is fine if the prompt names one"
            shown = [*refused[:REFUSED], f"{len(refused) - REFUSED} more"] if len(refused) > REFUSED + 1 else refused
            yield f"{said}: {', '.join(shown)}"
            if SENTENCE in refused:
                how = f": extract=r'{self.expression}' finds the answer in it" if self.expression else ""
                yield f"    models often answer in a sentence{how}"
        if self.admit_at is not None:
            yield f"note: an answer counts as right from a reward of {self.admit_at:g} on"

    def _repr_html_(self) -> str:
        return f'<pre style="font-family: monospace">{escape(str(self))}</pre>'


def _brief(name: str) -> str:
    """The name of an attack, without the middle of a long constant in it."""
    return name if len(name) <= BRIEF else f"{name[: BRIEF // 2]}...{name[-BRIEF // 4 :]}"


def _times(findings: Sequence[Finding]) -> str:
    """How many findings of one kind there are, in brackets, where there are several."""
    count = len(findings) + sum(finding.more for finding in findings)
    return f" ({count:,} findings)" if count > 1 else ""


def _shown(finding: Finding) -> Iterator[str]:
    """The response of a finding that concerns one problem, and the known answer, unless its message has them."""
    response = clipped(finding.response)
    if finding.problem and finding.response and response not in finding.message:
        known = f" where the answer is {clipped(finding.known)}" if finding.known else ""
        yield f"    {response}{known}"


def _by_kind(bench: Bench) -> Iterator[Finding]:
    """Yield the listed findings kind by kind, in the order in which kinds were found first."""
    for (check, kind), count in bench.kinds.items():
        *others, last = [each for each in bench.findings if (each.check, each.kind) == (check, kind)]
        yield from others
        yield evolve(last, more=count - len(others) - 1)


def check_task(
    task: Task,
    *,
    preset: str | None = None,
    problems: int = 5,
    responses: int = 20_000,
    seed: int = 0,
    runner: Runner | None = None,
    accepts: Accepts | None = None,
    unique: bool = False,
    elsewhere: Elsewhere | None = None,
    seconds: float = 5.0,
    now: Callable[[], float] = time.process_time,
    stage: Stage = lambda _name, _total: lambda: None,
) -> TaskReport:
    """Run every check on `problems` problems per tier of a preset, by default the task's first.

    Args:
        task: the task whose verifier is attacked.
        preset: name of the preset.
        problems: number of problems per tier.
        responses: number of distinct responses generated for `exploits`, over all problems; without `accepts` none.
        seed: seed of all draws.
        runner: runs programs for the task; without it, the verifier gets no evidence.
        accepts: independent judge of responses, if there is one.
        unique: whether each problem has one right answer, however it is written. A changed right answer that passes is
            a finding then, and not doubtful.
        elsewhere: judges responses in a new process.
        seconds: maximum computing time of one verdict. Without an alarm, as outside the main thread, a verifier that
            hangs also hangs the check.
        now: clock for measuring how time grows.
        stage: called with the name and the number of steps of each check; returns a function to call after each step.

    Raises:
        ValueError: no problem, or a negative number of responses.
        KeyError: an unknown preset.
        BadInput: `accepts` raises.
    """
    if problems < 1 or responses < 0:
        raise ValueError(f"expected problems from 1 and responses from 0, got {problems!r} and {responses!r}")
    began = now()
    left: list[str] = []
    with alarm_clock() as set_alarm:
        bench = Bench(
            task, preset or next(iter(task.presets)), seed, runner, accepts, responses, seconds, now, set_alarm
        )
        bench.unique, bench.elsewhere = unique, elsewhere
        try:
            checks = checks_of(bench)
            left += checks
            bench.draw(problems, stage("drawing", len(task.tiers(bench.preset))))
            for name, check in checks.items():
                bench.tried[name] = 0
                check(bench, stage(name, len(bench.problems)))
                left.remove(name)
        except Hopeless:
            bench.not_checked.append(f"since the verifier hangs, the rest of {', '.join(left)}")
    found: Counter[str] = Counter()
    levels: Counter[str] = Counter()
    for (name, kind), count in bench.kinds.items():
        found[name] += count
        levels[defect_of(name, kind).severity] += count
    return TaskReport(
        task.name,
        bench.preset,
        len(bench.problems),
        tuple(_by_kind(bench)),
        dict(bench.tried),
        dict(found),
        tuple(bench.not_checked),
        interval(bench.second.exploits, bench.second.judged),
        interval(bench.second.rejects, bench.second.accepted),
        now() - began,
        bench.verdicts_given,
        dict(bench.failed.most_common()),
        dict(bench.failed_on),
        {level: levels[level] for level in SEVERITIES if levels[level]},
        tuple(bench.notes),
        floor_of(bench.floors),
        last_line=task.audit.read is not None and task.audit.read("first line\nlast line") == "last line",
        admit_at=task.admit_at if bench.partial else None,
        expression=expression_for([*filter(None, map(bench.known_answer, bench.problems))]) if bench.own else "",
    )
