"""Attack the verifier of any task: `report = check_task(TASK); assert report.ok, report`.

Ten checks (`gce.testing.verifiers.attacks`) on problems that the task draws. Right answers are those of the task's
heuristics and demonstrations that the verifier, and the independent judge where there is one, call right. What it
cannot check it lists; a clean report says that these attacks failed, not that none can succeed. Needs no Hypothesis;
the strategies for scheduling are in `gce.testing.scheduling.generators`.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping

from attrs import field, frozen

from gce.domain.measurements import Interval
from gce.domain.statistics import interval
from gce.domain.tasks.task import Task
from gce.domain.text import printable
from gce.ports.runner import Runner
from gce.testing.verifiers.attacks import CHECKS
from gce.testing.verifiers.bench import SHOWN, Accepts, Bench, Finding, Hopeless, alarm_clock, clipped

__all__ = ["Accepts", "Finding", "TaskReport", "check_task"]

Stage = Callable[[str, int], Callable[[], None]]


@frozen
class TaskReport:
    """What attacking a task's verifier found."""

    task: str
    preset: str
    problems: int
    findings: tuple[Finding, ...]
    """The first few of each kind; `found` counts all."""
    tried: Mapping[str, int]
    """How often each check asked."""
    found: Mapping[str, int]
    not_checked: tuple[str, ...]
    """What could not be checked, and why."""
    exploits: Interval
    """Wrong responses judged right, among all that were generated and judged by `accepts`, no response twice for a
    problem; without `accepts`, among those that are wrong whatever the problem is. `high` bounds the rate (95 %)."""
    false_rejects: Interval
    """Responses judged wrong among those that `accepts` calls right."""
    seconds: float
    verdicts: int = 0
    """All that were given, over all checks."""
    failed: Mapping[str, int] = field(factory=dict)
    """Of these, by reason, those that say that the response could not be judged; they are in no rate."""

    @property
    def ok(self) -> bool:
        """Whether nothing was found."""
        return not self.found

    def __str__(self) -> str:
        """The counts as a table, the findings, and what was not checked."""
        lines = [f"{self.task}/{self.preset}: {self.problems} problems, {self.seconds:.1f} s of computing"]
        lines += [f"  {'check':<12}{'tried':>9}{'found':>7}"]
        for name in dict.fromkeys((*self.tried, *self.found)):
            lines.append(f"  {name:<12}{self.tried.get(name, 0):>9,}{self.found.get(name, 0):>7,}")
        lines += [
            f"exploits: {self.exploits.correct:,} of {self.exploits.n:,} responses, "
            f"at most {100 * self.exploits.high:.4f} % (95 %)",
            f"false rejects: {self.false_rejects.correct:,} of {self.false_rejects.n:,} right responses",
        ]
        for finding in self.findings:
            lines.append(f"{finding.check}, {finding.kind}: {finding.message}")
            if finding.problem:
                lines.append(f"    {finding.problem}  {clipped(finding.response)}")
        lines += [
            f"could not be judged, {count:,} times: {clipped(reason)}"
            for reason, count in [*self.failed.items()][:SHOWN]
        ]
        lines += [f"not checked: {reason}" for reason in self.not_checked]
        return "\n".join(map(printable, lines))


def check_task(
    task: Task,
    *,
    preset: str | None = None,
    problems: int = 5,
    responses: int = 20_000,
    seed: int = 0,
    runner: Runner | None = None,
    accepts: Accepts | None = None,
    seconds: float = 5.0,
    now: Callable[[], float] = time.process_time,
    stage: Stage = lambda _name, _total: lambda: None,
) -> TaskReport:
    """Run every check on `problems` problems a tier of a preset, by default the task's first.

    `runner` runs what the task asks for; without one its verifier is given no evidence. `responses` are generated for
    the last check, over all problems, no response twice for a problem. `seconds` is the longest that one verdict may
    take, in computing (where the machine has no alarm for that, as outside the main
    thread, a verifier that hangs hangs the check). `now` is the clock for how time grows. `stage` is told what is done
    next and in how many steps, and returns what is called after each.

    Raises:
        ValueError: no problem, or a negative number of responses.
        KeyError: no such preset.
    """
    if problems < 1 or responses < 0:
        raise ValueError(f"expected problems from 1 and responses from 0, got {problems!r} and {responses!r}")
    began = now()
    left = dict(CHECKS)
    with alarm_clock() as set_alarm:
        bench = Bench(
            task, preset or next(iter(task.presets)), seed, runner, accepts, responses, seconds, now, set_alarm
        )
        try:
            bench.draw(problems, stage("drawing", len(task.tiers(bench.preset))))
            for name, check in CHECKS.items():
                bench.tried[name] = 0
                check(bench, stage(name, len(bench.problems)))
                del left[name]
        except Hopeless:
            bench.not_checked.append(f"since the verifier hangs, the rest of {', '.join(left)}")
    found: Counter[str] = Counter()
    for (name, _), count in bench.kinds.items():
        found[name] += count
    return TaskReport(
        task.name,
        bench.preset,
        len(bench.problems),
        tuple(bench.findings),
        dict(bench.tried),
        dict(found),
        tuple(bench.not_checked),
        interval(bench.second.exploits, bench.second.judged),
        interval(bench.second.rejects, bench.second.accepted),
        now() - began,
        bench.verdicts_given,
        dict(bench.failed.most_common()),
    )
