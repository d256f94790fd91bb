"""The state that the checks of `check_task` share: problems, answers known to be right or wrong, and findings.

All draws come from generators keyed by the seed and a purpose. The bench calls a verifier that may raise, hang or
return nonsense; it does not know what the checks look for.
"""

from __future__ import annotations

import gc
import random
import re
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from types import FrameType, MappingProxyType
from typing import Any, get_args

from attrs import Factory, define, field, frozen

from gce.domain.answers import Answer, answered_by
from gce.domain.baselines import limit_of
from gce.domain.completions import Completion
from gce.domain.problems import Problem, Split
from gce.domain.randomness import key, python_generator
from gce.domain.statistics import interval
from gce.domain.tasks.answer_lists import vocabulary
from gce.domain.tasks.own import COMMON_WORDS, answer_of, is_joined
from gce.domain.tasks.parts import Policy
from gce.domain.tasks.questions import Question
from gce.domain.tasks.source import ProblemSource
from gce.domain.tasks.task import Batched, Listed, Task, nothing_to_run
from gce.domain.verdicts import Verdict
from gce.errors import BadInput, one_line
from gce.ports.runner import Runner
from gce.testing.verifiers.responses import mutated, renumbered
from gce.testing.verifiers.severity import Severity, defect_of
from gce.testing.verifiers.shrinking import shrunk

__all__ = [
    "SHOWN",
    "Accepts",
    "Bench",
    "Elsewhere",
    "Finding",
    "Hopeless",
    "Overdue",
    "alarm_clock",
    "beyond_chance",
    "called",
    "clipped",
    "last_line",
    "prompt_of",
    "scores",
    "statuses",
]

Accepts = Callable[[Any, str], bool]
"""An independent judge of responses: it shares no code with the verifier, and returns True or False for any text.

Its arguments are the problem and the response; for a task of `gce.task`, the row, as the reward gets it, and the
response.
"""

Elsewhere = Callable[[Sequence[tuple[str, str]], int], Sequence[Sequence[tuple[str, float | None]]] | str]
"""([(problem's key, response)], hash seed) -> what a new process with this hash seed says of each, as `scores` returns
it; or why it says nothing."""

SHOWN = 5
"""Maximum findings of one kind in a report; all are counted."""
HANGS = 3
"""Number of timed-out verdicts after which the battery ends."""
SAMPLE = 8
"""Problems for solve rates, and training problems, per attacked problem, if prompt-blind baselines have a limit."""
ROWS = 500
"""Questions of each tier and split whose own answers are judged."""
TRIED_ON = 40
"""Problems of each tier on which constants and near misses are tried."""
FALSE_ALARM = 0.05
"""Probability that any of a family of responses is found although chance explains all of them."""
SEVERAL = 0.4
"""Share of answers to other problems above which problems seem to have several right answers."""
_FAILED = object()


@frozen
class Finding:
    """One defect of a task."""

    check: str
    kind: str
    message: str
    problem: str = ""
    """The problem's key, if the finding concerns one problem."""
    response: str = ""
    """The smallest response found that shows it."""
    more: int = 0
    """On the last listed finding of a kind: how many more of that kind are counted and not listed."""
    defect: str = ""
    """The class, as "false accept": see `gce.testing.verifiers.severity`."""
    severity: Severity = "high"
    known: str = ""
    """The known answer to the problem, where there is one."""


class Overdue(BaseException):
    """A verdict timed out; not an Exception, so that verifiers do not catch it."""


class Hopeless(Exception):
    """Too many verdicts timed out."""


@contextmanager
def alarm_clock() -> Iterator[Callable[[float], None]]:
    """Yield a function that raises `Overdue` after the given seconds of computing, or never for 0.

    Waiting does not count, so a busy machine causes no false findings. Does nothing outside the main thread, or if the
    system has no such alarm.
    """
    if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        yield lambda _seconds: None
        return

    def ring(_signal: int, frame: FrameType | None) -> None:
        if frame is not None and frame.f_code in {getattr(each, "__code__", None) for each in gc.callbacks}:
            set_alarm(0.01)  # An exception raised there would be lost, and the alarm with it.
            return
        raise Overdue

    def set_alarm(seconds: float) -> None:
        signal.setitimer(signal.ITIMER_PROF, seconds)

    others = signal.getitimer(signal.ITIMER_PROF)
    handler = signal.signal(signal.SIGPROF, ring)
    frozen_here = gc.get_freeze_count() == 0
    if frozen_here:
        gc.freeze()  # Garbage collection of a large program's objects is not part of a verdict's computing time.
    try:
        yield set_alarm
    finally:
        if frozen_here:
            gc.unfreeze()
        set_alarm(0.0)
        signal.signal(signal.SIGPROF, handler)
        signal.setitimer(signal.ITIMER_PROF, *others)


@define
class SecondOpinion:
    """Counts of responses judged by both the verifier and an independent judge."""

    judged: int = 0
    accepted: int = 0
    """Judged right by the independent judge."""
    exploits: int = 0
    """False accepts: judged right by the verifier alone."""
    rejects: int = 0
    """False rejects: judged wrong by the verifier alone."""


@define(slots=False)  # For `cached_property`.
class Bench:
    """One task under attack."""

    task: Task
    preset: str
    seed: int
    runner: Runner | None
    """Runs programs for the task; None: the verifier gets no evidence."""
    accepts: Accepts | None
    responses: int
    """Number of responses to generate for the last check."""
    seconds: float
    """Maximum computing time of one verdict, in seconds."""
    now: Callable[[], float]
    set_alarm: Callable[[float], None]

    source: ProblemSource = field(default=Factory(lambda bench: ProblemSource(bench.task), takes_self=True))
    problems: list[Problem] = field(factory=list)
    more: list[Problem] = field(factory=list)
    """The problems, and more of the tiers that have a limit for prompt-blind baselines."""
    training: list[Problem] = field(factory=list)
    policies: Mapping[str, Policy] = field(factory=dict)
    """Heuristics and the demonstration."""
    prompt_blind: Mapping[str, Policy] = field(factory=dict)
    right: dict[str, list[str]] = field(factory=dict)
    """Answers by problem key that the verifier judged right and the independent judge did not reject."""
    wrong: dict[str, list[str]] = field(factory=dict)
    """Well-formed answers by problem key that the verifier judged wrong."""

    unique: bool = False
    """Whether each problem has one right answer, however it is written: what means something else is wrong."""
    elsewhere: Elsewhere | None = None

    findings: list[Finding] = field(factory=list)
    notes: list[Finding] = field(factory=list)
    """Formats that are refused, and answers that pass and are probably wrong; no findings."""
    kinds: Counter[tuple[str, str]] = field(factory=Counter)
    """Number of findings by check and kind."""
    tried: Counter[str] = field(factory=Counter)
    rewarded: dict[str, dict[str, None]] = field(factory=dict)
    """By tier, hostile texts that earned something on some problem."""
    partial: bool = False
    """Whether some reward was neither 0 nor 1."""
    floors: list[Any] = field(factory=list)
    """`TierFloor` of each tier that was measured."""
    not_checked: list[str] = field(factory=list)
    verdicts_given: int = 0
    failed: Counter[str] = field(factory=Counter)
    """Reasons of `failed` verdicts, such as sandbox failures; these are excluded from all rates."""
    failed_on: dict[str, tuple[str, str]] = field(factory=dict)
    """By reason, the key of the problem and the response of the first one."""
    ahead: dict[tuple[str, str], tuple[Verdict, ...]] = field(factory=dict)
    """Verdicts that were asked for together and not used yet, by the problem's key and the response."""
    remembered: dict[tuple[str, str], tuple[Verdict, ...]] = field(factory=dict)
    """Verdicts that were asked for together, but failed ones; kept where the task says that verdicts do not vary."""
    hangs: int = 0
    second: SecondOpinion = field(factory=SecondOpinion)

    def draw(self, count: int, advance: Callable[[], None]) -> None:
        """Draw `count` problems of every tier, and answers to them; call `advance` after each tier."""
        seed = key("task check", self.seed)
        for tier in self.task.tiers(self.preset):
            size = SAMPLE * count if limit_of(self.task, self.preset, tier.name) < 1.0 else count
            drawn = self.source.first(self.preset, tier.name, "test", size, seed=seed)
            self.more += drawn
            self.problems += drawn[:count]
            self.training += self.source.first(self.preset, tier.name, "train", size, seed=seed)
            advance()
        self.prompt_blind = self.task.references.prompt_blind(self.training)
        self.policies = {
            **self.task.references.heuristics(self.training),
            "worked": lambda problem, _rng: self.task.teaching.demonstration(problem, None),
        }
        for problem in self.problems:
            self.right[problem.key] = self._right_answers(problem)
        for problem in self.problems:
            self.wrong[problem.key] = self._wrong_answers(problem)
        unknown = [problem for problem in self.problems if not self.right[problem.key]]
        if unknown:
            tiers = ", ".join(sorted({problem.tier for problem in unknown}))
            of = self.named("of", tiers)
            part = f"{len(unknown)} of {len(self.problems)} problems{of} have no"
            said = part if len(unknown) < len(self.problems) else f"no problem{of} has a"
            text = " as text" if self.own else ""
            self.not_checked.append(f"right answers: {said} known right answer{text}; {self._how_to_know()}")
        if self.runner is None and self.task.request is not nothing_to_run:
            self.not_checked.append("evidence: the task asks to run programs, and there is no runner here")

    def named(self, word: str, tier: str) -> str:
        """Return the tier after a word, such as "on T0"; nothing where the preset has one alone."""
        return f" {word} {tier}" if len(self.task.tiers(self.preset)) > 1 else ""

    def _how_to_know(self) -> str:
        """What gives the task right answers."""
        if not self.own:
            return "give the task `References.heuristics` or `Teaching.demonstration`"
        if any(is_joined(problem.instance) for problem in self.problems):
            return "the score does not take the lists in the column `answer` as 'a, b': give them as text that it takes"
        if all(answer_of(problem.instance) for problem in self.problems):
            return "the score refuses some answers in the column `answer`"
        given = next((row["answer"] for row in (each.instance.row for each in self.problems) if "answer" in row), None)
        if given is not None and not isinstance(given, (str, int, float)):
            return (
                f"the column `answer` is a {type(given).__name__}: give it as text, so that answers like it are tried"
            )
        return "add a column `answer` to the questions"

    @property
    def own(self) -> bool:
        """Whether the task was made with `gce.task`."""
        return self.task.instance_type is Question

    def every(self) -> Iterator[Problem]:
        """Yield the questions of a list, of each tier and split at most `ROWS`; of others, all that were drawn."""
        if not isinstance(self.task.draw, Listed):
            yield from (*self.more, *self.training)
            return
        for tier in self.task.tiers(self.preset):
            for split in get_args(Split):
                yield from self.source.first(self.preset, tier.name, split, ROWS)

    def sample(self, tier: str) -> list[Problem]:
        """Return the first problems of a tier, for testing before those for training, no digest twice."""
        of_tier = [problem for problem in (*self.more, *self.training) if problem.tier == tier]
        return list({problem.digest: problem for problem in of_tier}.values())[:TRIED_ON]

    def known_answer(self, problem: Problem) -> str:
        """Return the last line of a right answer; of a question, its own answer; empty where none is known."""
        if self.own:
            return answer_of(problem.instance)
        right = (text for text in self._plain_answers(problem) if self.is_right(problem, text))
        return last_line(next(right, ""))

    @cached_property
    def items(self) -> list[str]:
        """Items of own answers that are lists, the most frequent first; none where the answers are no lists."""
        if not self.own:
            return []
        return [item for item, _ in vocabulary(answer_of(each.instance) for each in self.every()).most_common()]

    @cached_property
    def several_right(self) -> bool:
        """Whether problems seem to have several right answers: those to other problems are often right, too.

        False where each problem is declared to have one, or where an independent judge tells.
        """
        if self.unique or self.accepts is not None:
            return False
        passed = asked = 0
        for problem in self.problems:
            own = self.known_answer(problem)
            known = dict.fromkeys(self.known_answer(other) for other in self.sample(problem.tier)[:8] if own)
            for other in known:
                if other and other != own:
                    asked += 1
                    passed += self.is_right(problem, self.task.audit.write(other))
        return passed > SEVERAL * asked

    def rng(self, *purpose: str | int) -> random.Random:
        """Return the generator of a purpose."""
        return python_generator("task check", self.seed, *purpose)

    def find(
        self,
        check: str,
        kind: str,
        message: str,
        problem: Problem | None = None,
        response: str = "",
        *,
        still: Callable[[str], bool] | None = None,
    ) -> None:
        """Record a finding; `still` says whether a shorter response shows it, too."""
        self.kinds[check, kind] += 1
        if self.kinds[check, kind] <= SHOWN:
            where, defect = problem.key if problem else "", defect_of(check, kind)
            if still is not None:
                response = shrunk(response, still)
            if any(
                (each.check, each.kind, each.problem, each.response) == (check, kind, where, response)
                for each in self.findings
            ):
                return
            self.findings.append(
                Finding(
                    check,
                    kind,
                    " ".join(message.split()),
                    where,
                    response,
                    defect=defect.name,
                    severity=defect.severity,
                    known=self.known_answer(problem) if problem else "",
                )
            )

    def note(self, check: str, kind: str, message: str, problem: Problem, response: str, severity: Severity) -> None:
        """Record what is no finding."""
        said = " ".join(message.split())
        defect = "false reject" if severity == "note" else "false accept"
        known = self.known_answer(problem)
        self.notes.append(
            Finding(check, kind, said, problem.key, response, defect=defect, severity=severity, known=known)
        )

    @contextmanager
    def in_time(self) -> Iterator[None]:
        """Raise `Overdue` if the context takes longer than a verdict may."""
        try:
            self.set_alarm(self.seconds)
            yield
        finally:
            self.set_alarm(0.0)

    def call(
        self,
        name: str,
        ask: Callable[[], Any],
        problem: Problem,
        text: str,
        *,
        failed: Any = None,
        again: Callable[[str], Any] | None = None,
    ) -> Any:
        """Return the result of `ask`; record a finding and return `failed` if it raises or hangs.

        `again` asks the same of another text, so that the text of a finding can be made smaller.
        """
        try:
            with self.in_time():
                return ask()
        except Overdue:
            self.find("time", "overdue", f"{name} did not end within {self.seconds:g} s", problem, text)
            self.hangs += 1
            if self.hangs >= HANGS:
                raise Hopeless from None
        except (Exception, SystemExit) as error:
            said, kind = f"{name} raised {type(error).__name__}: {error}", type(error)
            still = None if again is None else lambda shorter: self._raises(kind, lambda: again(shorter))
            self.find("totality", "exception", said, problem, text, still=still)
        return failed

    def _raises(self, kind: type[BaseException], ask: Callable[[], Any]) -> bool:
        """Whether a call raises an exception of this kind, in time."""
        try:
            with self.in_time():
                ask()
        except (Exception, SystemExit, Overdue) as error:
            return type(error) is kind
        return False

    def expect(self, asked: Sequence[tuple[Problem, str]]) -> None:
        """Have responses judged together that are asked about next, where the verifier is faster that way.

        What was asked for in this way before is not judged again: whether verdicts repeat is for `determinism` to see.
        """
        verify = self.task.verify
        if not isinstance(verify, Batched):
            return
        pairs = {(problem.key, text): (problem, text) for problem, text in asked}
        new = {key: pair for key, pair in pairs.items() if key not in self.remembered}
        completions = [
            (problem, Completion(problem.key, text, "stop", policy="check")) for problem, text in new.values()
        ]
        found = dict(zip(new, verify.all(completions), strict=True))
        self.ahead |= {key: self.remembered[key] for key in pairs if key not in found} | found
        if not self.task.audit.varies:
            self.remembered |= {key: each for key, each in found.items() if all(it.status != "failed" for it in each)}

    def ask(self, problem: Problem, completion: Completion) -> tuple[Verdict, ...]:
        """Call the verifier, with the evidence that it asks for if there is a runner."""
        if (ahead := self.ahead.pop((problem.key, completion.text), None)) is not None:
            return ahead
        wanted = None if self.runner is None else self.task.request(problem, completion)
        evidence = None if wanted is None or self.runner is None else next(iter(self.runner.run([wanted])))
        return self.task.verify(problem, completion, evidence)

    def uncounted(self, problem: Problem, text: str) -> Any:
        """Return whatever the verifier returns, without counting it."""

        def ask(text: str) -> tuple[Verdict, ...]:
            return self.ask(problem, Completion(problem.key, text, "stop", policy="check"))

        return self.call("verify", lambda: ask(text), problem, text, failed=_FAILED, again=ask)

    def verdicts(self, problem: Problem, text: str) -> tuple[Verdict, ...]:
        """Return the verdicts; record a finding and return none if the verifier breaks its contract for any text."""
        found = self.uncounted(problem, text)
        if found is _FAILED:
            return ()
        if not (isinstance(found, tuple) and found and all(isinstance(one, Verdict) for one in found)):
            self.find("totality", "no verdict", f"expected a tuple of verdicts, got {found!r:.60}", problem, text)
            return ()
        self.verdicts_given += 1
        failed = [verdict for verdict in found if verdict.status == "failed"]
        if failed:
            reason = "; ".join(each.message for each in failed[0].violations) or "no reason was given"
            self.failed[reason] += 1
            self.failed_on.setdefault(reason, (problem.key, text))
        return found

    def judges(self, problem: Problem, text: str) -> bool | None:
        """True if the task would admit the response; None if it could not be judged."""
        found = self.verdicts(problem, text)
        answer = self.answer(problem, text, found)
        return None if answer.failed else bool(found) and answer.right

    def answer(self, problem: Problem, text: str, verdicts: tuple[Verdict, ...]) -> Answer:
        """Return the response with the reward for these verdicts."""
        found = answered_by(self.task, problem, Completion(problem.key, text, "stop", policy="check"), verdicts)
        self.partial |= found.reward not in (None, 0.0, 1.0)
        return found

    def passes_wrongly(self, problem: Problem, text: str) -> bool:
        """True if the verifier admits the response and the independent judge does not."""
        return self.is_right(problem, text) and not self.says(problem, text)

    def is_right(self, problem: Problem, text: str) -> bool:
        """True if the response was judged and the task would admit it."""
        return self.judges(problem, text) is True

    def says(self, problem: Problem, text: str) -> bool | None:
        """Return the independent judge's verdict; None if there is no judge.

        Raises:
            BadInput: the judge raises.
        """
        if self.accepts is None:
            return None
        own = self.task.instance_type is Question
        try:
            return bool(self.accepts(MappingProxyType(problem.instance.row) if own else problem, text))
        except Exception as error:
            given = "row" if own else "problem"
            said = one_line(f"{type(error).__name__}: {error}", 150)
            raise BadInput(
                f"accepts raised {said} for the response {clipped(text)} to {problem.key}: expected a function "
                f"({given}, text) that returns true or false for any text"
            ) from error

    def answers(self, problem: Problem, rng: random.Random, *, changed: int = 6) -> list[str]:
        """Return some right and wrong answers, and `changed` mutated ones."""
        right, wrong = self.right[problem.key], self.wrong[problem.key]
        texts = [*right[:3], *wrong[:3], *rng.sample(wrong, min(3, len(wrong)))]
        known = right + wrong or [message.content for message in problem.prompt]
        return list(dict.fromkeys(texts + [mutated(rng.choice(known), wrong, rng) for _ in range(changed)]))

    def _plain_answers(self, problem: Problem) -> list[str]:
        """Return the distinct answers of the heuristics and the demonstration, right or wrong."""
        texts = [policy(problem, self.rng("policy", name, problem.key)) for name, policy in self.policies.items()]
        return list(dict.fromkeys(text for text in texts if text is not None))

    def _right_answers(self, problem: Problem) -> list[str]:
        return [
            text
            for text in self._plain_answers(problem)
            if self.is_right(problem, text) and self.says(problem, text) is not False
        ]

    def _wrong_answers(self, problem: Problem) -> list[str]:
        """Return wrong answers: of heuristics, mutated right ones, prompt-blind ones, and those of other problems."""
        rng = self.rng("wrong", problem.key)
        texts = self._plain_answers(problem)
        texts += [
            renumbered(text, rng) if re.search(r"\d", text) else mutated(text, (), rng)
            for text in self.right[problem.key]
            for _ in range(4)
        ]
        texts += [
            text
            for name, policy in self.prompt_blind.items()
            if name != COMMON_WORDS  # Which is no answer to anything.
            and (text := policy(problem, rng)) is not None
        ]
        texts += [text for other in self.right for text in self.right[other][:1] if other != problem.key][-3:]
        return [text for text in dict.fromkeys(texts) if text.strip() and not self.is_right(problem, text)]


def beyond_chance(right: int, n: int, chance: float, family: int) -> bool:
    """Whether chance, a solve rate in [0, 1], is too low to explain so many right of `n` responses.

    Exact binomial test at `FALSE_ALARM` divided by the size of the family of responses tried (Bonferroni): the lower
    end of the interval of Clopper and Pearson is above chance.
    """
    low = (
        interval(right, n, method="clopper-pearson", confidence=1.0 - 2.0 * FALSE_ALARM / family).low if right else 0.0
    )
    return low > chance


def prompt_of(problem: Problem) -> str:
    """Return all messages of a prompt as one text."""
    return " ".join(message.content for message in problem.prompt)


def last_line(text: str) -> str:
    """Return the last line that is not blank."""
    return text.rstrip().rpartition("\n")[2]


def clipped(text: str) -> str:
    """Return a response for display: escaped and shortened."""
    shown = ascii(text)
    return shown if len(shown) <= 120 else f"{shown[:60]}...{shown[-20:]} ({len(text):,} characters)"


def called(verdicts: Sequence[Verdict]) -> str:
    """Return the statuses of verdicts for use in a sentence."""
    return ", ".join(verdict.status for verdict in verdicts) or "no verdict"


def statuses(verdicts: Sequence[Verdict]) -> list[tuple[str, str]]:
    """Return each verdict's evaluator and status."""
    return [(verdict.evaluator, verdict.status) for verdict in verdicts]


def scores(verdicts: Sequence[Verdict]) -> list[tuple[str, float | None]]:
    """Return each verdict's status and score, whoever the evaluator."""
    return [(verdict.status, verdict.score) for verdict in verdicts]
