"""A task of one's own from questions and a function that scores an answer.

What is wrong with either is said before anything is asked, in one line: the reward is tried on a few questions first.
Knows nothing of files.
"""

from __future__ import annotations

import math
import random
import re
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache, partial
from numbers import Real
from types import MappingProxyType
from typing import Any, TypeVar

import numpy as np
from attrs import frozen

from gce.domain.completions import Completion
from gce.domain.executions import Evidence
from gce.domain.problems import Problem
from gce.domain.tasks.answer_lists import vocabulary
from gce.domain.tasks.answer_words import common_words, constants_of
from gce.domain.tasks.copying import Copy, copying_rules
from gce.domain.tasks.drawing import NoProblem
from gce.domain.tasks.extraction import Extract, Extraction, NoAnswer, extraction_of
from gce.domain.tasks.parts import Audit, Policy, References, Teaching, always
from gce.domain.tasks.questions import ONE_TIER, Question, list_of, question_of, shown, tier_of
from gce.domain.tasks.source import ProblemSource
from gce.domain.tasks.task import Batched, Draw, Listed, Task, TaskTier, verifier_failed
from gce.domain.verdicts import Status, Verdict, Violation

__all__ = [
    "COMMON_WORDS",
    "COPIED",
    "GENERIC",
    "ONE_ITEM",
    "DrawRow",
    "RewardFunction",
    "Rewards",
    "Rows",
    "answer_of",
    "is_joined",
    "own_task",
    "why_refused",
]

RewardFunction = Callable[[str, Mapping[str, Any]], Any]
"""(answer, row of the question) -> bool, number in the declared range, `Verdict` or list of them."""
Rewards = Callable[[Sequence[tuple[str, Mapping[str, Any]]]], Iterable[Any]]
"""[(answer, row)] -> for each what a `RewardFunction` returns, or the exception that it raises."""
DrawRow = Callable[[random.Random, str], Mapping[str, Any]]
"""(generator, tier) -> a row; all that is drawn comes from the generator."""
Rows = Iterable[Mapping[str, Any]]
_Value = TypeVar("_Value")
_Candidate = TypeVar("_Candidate", bound=Hashable)

NONSENSE = ("no idea", "0", "A")
"""Answers to every question; a reward is tried on the first one that the extraction lets through."""
SHORT = (*"BCDEaeinorst1", "the", "yes", "no", "true", "None", "nan", "inf", ".*")
"""More answers to every question: a score that looks for the answer in the known one pays for a letter."""
GENERIC = "I am not sure, but I think that this is the right answer to the question."
"""An answer that fits any question, for the prompt-blind baseline "generic answer"."""
MOST_LISTED = 500
"""Answers that the prompt-blind baseline "all answers at once" names at most."""
LEAST_LIMIT = 0.25
MOST_LIMIT = 0.9
"""The least and the highest limit of prompt-blind baselines."""
MARGIN = 0.1
"""What a prompt-blind baseline may be right above the rate of the most common answer."""
FIXED_TRIED = 12
"""Fixed answers of which the prompt-blind baseline "best fixed answer" takes the best, and questions to try them on, as
the copied parts of `COPIED`."""
FINALISTS = 8
FITTED_ON = 100
"""Answers that earn most on these few questions, and questions that the best of them is chosen on."""
ONE_ITEM = "best item of a list"
"""The prompt-blind baseline that answers with one item of the lists that are answers to other questions."""
COMMON_WORDS = "common words of answers"
"""The prompt-blind baseline that answers with words which answers to other questions often have."""
WORDS_TRIED = 24
"""Most common words that are tried alone for `COMMON_WORDS`: those that earn nothing go last."""
COPIED = "best copied part of the prompt"
"""The prompt-blind baseline that copies; where a problem has several right answers, what it copies may be one."""
ESTIMATED_ON = 40
"""Drawn questions of each tier that the rate of the most common answer is estimated on."""
_WHOLE = re.compile("-?[0-9]{1,9}")
_NUMBER = re.compile(r"-?[0-9]{1,15}(?:\.[0-9]{1,15})?")
_NOT_IN_A_NAME = ("/", "@", ":")
_EXPRESSION = re.compile(r"[0-9(][0-9\s.()]*(?:(?:[+*^\u00d7\u00f7]|(?<=\s)[-/](?=\s))[0-9\s.()]+)+")


def own_task(
    problems: Rows | DrawRow,
    reward: RewardFunction,
    *,
    name: str,
    extract: Extract = "last line",
    shares: Sequence[float] = (60, 15, 25),
    tiers: Sequence[str] = (),
    held_out: Sequence[str] = (),
    reward_range: tuple[float, float] = (0.0, 1.0),
    admit_at: float | None = None,
    deterministic: bool = True,
    max_tokens: int = 512,
    rewards: Rewards | None = None,
) -> Task:
    """The task of these questions and this reward; see `gce.task`, which also reads files.

    `rewards` gives what `reward` returns, or raises, for several answers at once.

    Raises:
        ValueError: in one line, what was expected, what came, and in which row.
    """
    if not isinstance(name, str) or not name.strip() or not name.isprintable() or set(name) & set(_NOT_IN_A_NAME):
        raise ValueError(f"expected the task's name to be text without {' '.join(_NOT_IN_A_NAME)}, got {shown(name)}")
    if not isinstance(max_tokens, int) or isinstance(max_tokens, bool) or max_tokens < 1:
        raise ValueError(f"expected max_tokens to be a whole number from 1, got {shown(max_tokens)}")
    for names in (tiers, held_out):
        is_list = isinstance(names, (list, tuple)) and all(isinstance(each, str) for each in names)
        if not is_list or len({*names}) < len(names) or not all(each and "/" not in each for each in names):
            raise ValueError(f"expected tiers as a list of different names without /, got {shown(names)}")
    judge = _Judge(name, extraction_of(extract), reward, *_bounds(reward_range, admit_at), deterministic)
    draw: Draw | Listed
    questions_of: Callable[[str], Sequence[Question]]
    rows: dict[str, int] = {}
    listed: Counter[str] = Counter()
    if callable(problems):
        names = tuple(tiers) or (ONE_TIER,)
        if unknown := sorted({*held_out} - {*names}):
            raise ValueError(f"no tier {unknown[0]!r} to be held out: expected some of {', '.join(names)}")
        levels = tuple(TaskTier(tier, held_out=tier in held_out) for tier in names)
        draw, sample = _Drawing(problems), [(_drawn(problems, tier), f"draw(rng, {tier!r})") for tier in names]
        questions_of = partial(_some_drawn, draw)
    else:
        found = list_of(_rows(problems), shares=_shares(shares), tiers=tiers, held_out=held_out)
        listed = _answers(found.rows)
        levels, draw, last = found.tiers, found.listed, len(found.rows) - 1
        rows = {each.digest: number for number, each in enumerate(found.rows, 1)}
        questions_of = partial(_listed_of, found.rows)
        sample = [(found.rows[place], f"row {place + 1}") for place in sorted({0, last // 2, last})]
    for place, (question, where) in enumerate(sample):
        # A scorer of another framework, which comes with `rewards`, may raise for nonsense: that answer fails.
        judge.try_on(question, where, nonsense=place == 0 and rewards is None, twice=deterministic)
    limits = _Limits(tuple(level.name for level in levels), cache(lambda tier: _limit(questions_of(tier))))
    task = Task(
        name=name,
        presets={"questions" if isinstance(draw, Listed) else "drawn": levels},
        draw=draw,
        prompt=lambda question, _rng: question.prompt,
        digest=lambda question: question.digest,
        verify=judge.verify if rewards is None else Batched(judge.verify, partial(judge.verify_all, rewards)),
        instance_type=Question,
        reward=_lowest_score,
        admit_at=judge.admit_at,
        max_tokens=max_tokens,
        teaching=Teaching(demonstration=lambda problem, _solve: judge.known(problem)),
        references=References(prompt_blind=partial(judge.prompt_blind, listed), limits=limits, assumed=True),
        audit=Audit(
            hidden=frozenset({"prompt", "row", "digest"}),
            varies=not deterministic,
            write=judge.extraction.write,
            read=judge.read,
            where=lambda question: f"row {rows[question.digest]}" if question.digest in rows else "",
        ),
    )
    if not isinstance(draw, Listed):
        _check_splits(task)
    return task


def _bounds(reward_range: Any, admit_at: Any) -> tuple[float, float, float]:
    """Lowest and highest raw reward, and the reward in [0, 1] from which on an answer counts as right."""
    pair = tuple(reward_range) if isinstance(reward_range, (tuple, list)) else ()
    if len(pair) != 2 or not all(_is_number(each) for each in pair) or not pair[0] < pair[1]:
        raise ValueError(f"expected reward_range to be two finite numbers, the lower first, got {shown(reward_range)}")
    low, high = map(float, pair)
    if admit_at is not None and not (_is_number(admit_at) and low < admit_at <= high):
        raise ValueError(f"expected admit_at above {low:g} and at most {high:g}, got {shown(admit_at)}")
    return low, high, 1.0 if admit_at is None else (admit_at - low) / (high - low)


def _is_number(value: Any) -> bool:
    try:
        return isinstance(value, Real) and not isinstance(value, (bool, np.bool_)) and math.isfinite(value)
    except OverflowError:  # A whole number beyond floats.
        return False


def _shares(shares: Any) -> tuple[float, ...]:
    found = tuple(shares) if isinstance(shares, (tuple, list)) else ()
    if len(found) != 3 or not all(_is_number(each) and each >= 0 for each in found) or not found[2]:
        raise ValueError(f"expected shares of train, dev and test, that of test above 0, got {shown(shares)}")
    return tuple(map(float, found))


def _rows(problems: Any) -> list[Any]:
    if isinstance(problems, Mapping):
        raise ValueError(
            f"expected a list of rows, got a mapping of {', '.join(map(str, problems))[:80]}: give one of them"
        )
    if isinstance(problems, (str, bytes)) or not isinstance(problems, Iterable):
        raise ValueError(
            f"expected problems as a list of rows, a file or a function draw(rng, tier), got {shown(problems)}"
        )
    try:
        return list(problems)
    except Exception as error:  # It may be anybody's generator.
        raise ValueError(f"reading the problems raised {_one_line(error)}") from error


def _one_line(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:160]


@frozen
class _Judge:
    """Finds the answer, asks the reward, and makes verdicts of what it returns."""

    name: str
    extraction: Extraction
    reward: RewardFunction
    low: float
    high: float
    admit_at: float
    """In [0, 1]."""
    deterministic: bool

    def verify(
        self, problem: Problem, completion: Completion, _evidence: Evidence | None = None
    ) -> tuple[Verdict, ...]:
        """See `Task.verify`; ValueError, or what the reward raises, where it cannot judge."""
        try:
            answer = self.extraction.answer(completion.text)
        except NoAnswer as error:
            return self._unreadable(error)
        return self.verdicts(self.reward(answer, MappingProxyType(problem.instance.row)))

    def read(self, text: str) -> str:
        """See `Audit.read`."""
        try:
            return self.extraction.answer(text)
        except NoAnswer:
            return ""

    def verify_all(self, rewards: Rewards, answers: Sequence[tuple[Problem, Completion]]) -> list[tuple[Verdict, ...]]:
        """See `Batched.all`; an answer that cannot be judged has failed."""
        found: dict[int, tuple[Verdict, ...]] = {}
        asked: dict[int, tuple[str, Mapping[str, Any]]] = {}
        for place, (problem, completion) in enumerate(answers):
            try:
                asked[place] = (self.extraction.answer(completion.text), problem.instance.row)
            except NoAnswer as error:
                found[place] = self._unreadable(error)
        for place, returned in zip(asked, rewards([*asked.values()]), strict=True):
            try:
                if isinstance(returned, Exception):
                    raise returned
                found[place] = self.verdicts(returned)
            except Exception as error:
                found[place] = (verifier_failed(self.name, error),)
        return [found[place] for place in range(len(answers))]

    def _unreadable(self, error: NoAnswer) -> tuple[Verdict, ...]:
        return (Verdict("unreadable", 0.0, self.name, "1", violations=(Violation(error.kind, str(error)),)),)

    def verdicts(self, returned: Any) -> tuple[Verdict, ...]:
        """What a reward returned, as verdicts; ValueError where it is nothing that a reward may be."""
        if isinstance(returned, (bool, np.bool_)):
            returned = self.high if returned else self.low
        if _is_number(returned) and self.low <= returned <= self.high:
            score = (float(returned) - self.low) / (self.high - self.low)
            status: Status = "right" if score >= self.admit_at else "wrong"
            return (Verdict(status, score, self.name, "1", measures={"reward": float(returned)}),)
        several = [returned] if isinstance(returned, Verdict) else returned
        if isinstance(several, (list, tuple)) and several and all(isinstance(each, Verdict) for each in several):
            for each in several:
                if each.status in ("wrong", "unreadable") and each.score is not None and each.score >= self.admit_at:
                    raise ValueError(f"the reward returned a verdict {each.status} with the score {each.score:g}")
            return tuple(several)
        raise ValueError(
            f"the reward returned {shown(returned)}: expected true or false, a finite number from {self.low:g} to "
            f"{self.high:g}, a Verdict or a list of them"
        )

    def try_on(self, question: Question, where: str, *, nonsense: bool, twice: bool) -> None:
        """Ask for the reward of the question's own answer, where it has one, and of nonsense.

        Raises:
            ValueError: it raises, is no reward, or is another one the second time.
        """
        own = answer_of(question)
        anything = [each for each in NONSENSE if self._reaches(each)][:1] if nonsense or not own else []
        for answer in ([own] if own else []) + anything:
            found = [self._asked(answer, question, where) for _ in range(1 + twice)]
            if found[0] != found[-1]:
                scores = ", then ".join(f"{_lowest_score(each)}" for each in found)
                raise ValueError(
                    f"{where}: the reward of the answer {answer!r:.60} was {scores}: expected the same each time, or "
                    "deterministic=False for one that is meant to vary"
                )

    def _reaches(self, answer: str) -> bool:
        """Whether some response has this answer, so that the reward is asked for it."""
        try:
            return self.extraction.answer(self.extraction.write(answer)) == answer
        except NoAnswer:
            return False

    def _asked(self, answer: str, question: Question, where: str) -> tuple[Verdict, ...]:
        try:
            returned = self.reward(answer, MappingProxyType(question.row))
        except Exception as error:
            hint = f"an answer that it cannot read is wrong: return False (columns: {', '.join(question.row):.80})"
            if isinstance(error, (TypeError, AttributeError, KeyError)) and self._takes_exchanged(answer, question):
                hint = "it does not when they are exchanged: its arguments are (answer, problem), in this order"
            raise ValueError(
                f"{where}: the reward raised {_one_line(error)} for the answer {answer!r:.60}; {hint}"
            ) from error
        try:
            return self.verdicts(returned)
        except ValueError as error:
            raise ValueError(f"{where}: for the answer {answer!r:.60} {error}") from error

    def _takes_exchanged(self, answer: str, question: Question) -> bool:
        """Whether the reward raises nothing when it is given the row first."""
        exchanged: Callable[..., Any] = self.reward
        try:
            exchanged(MappingProxyType(question.row), answer)
        except Exception:  # It is the user's.
            return False
        return True

    def known(self, problem: Problem) -> str | None:
        """A response with the answer of the column `answer`, as a demonstration; None where there is none.

        A list is one only where the reward takes it as "a, b".
        """
        own = answer_of(problem.instance)
        if not own or (is_joined(problem.instance) and self._reward_of(own, problem.instance) < self.admit_at):
            return None
        return self.extraction.write(own)

    def prompt_blind(self, listed: Collection[str], training: Sequence[Problem]) -> Mapping[str, Policy]:
        """Answers that ignore the question or solve nothing: what it says, nothing, what fits any, the most common.

        The best copied part of the prompt, the best fixed answer, the best item of a list and the best constant of
        common words are chosen on training questions.

        `listed` are the answers of all questions of a list.
        """
        write, counts = self.extraction.write, _answers(each.instance for each in training)
        policies: dict[str, Policy] = {
            "repeats the prompt": lambda problem, _rng: write(" ".join(_said(problem).split())),
            "copies an expression": lambda problem, _rng: _expression(_said(problem), write),
            "empty answer": always(write("")),
            "generic answer": always(write(GENERIC)),
        }
        if counts:
            common, all_at_once = counts.most_common(1)[0][0], ", ".join(_candidates({*counts, *listed}))
            policies["most common answer"] = always(write(common))
            policies["all answers at once"] = always(write(all_at_once))
            policies |= {name: always(write(text)) for name, text in _ranges({*counts, *listed}).items()}
        if (copy := self._best_copy(training)) is not None:
            policies[COPIED] = lambda problem, _rng: _written(copy(_said(problem)), write)
        item = self._best_item([each.instance for each in training], vocabulary(counts.elements()))
        if item is not None:
            policies[ONE_ITEM] = always(write(item))
        words = self._best_words([each.instance for each in training], common_words(counts.elements()))
        if words is not None:
            policies[COMMON_WORDS] = always(write(words))
        fixed = self._best_fixed([each.instance for each in training], counts)
        if fixed is not None:
            policies["best fixed answer"] = always(write(fixed))
        return policies

    def _best_copy(self, training: Sequence[Problem]) -> Copy | None:
        """The part of a prompt with the highest mean reward on some of the training problems.

        None where no part earns anything, or where the reward varies.
        """
        if not training or not self.deterministic:
            return None
        places = range(len(training))

        @cache  # Rules often agree.
        def reward_of(part: str, place: int) -> float:
            return self._reward_of(part, training[place].instance) if self._reaches(part) else 0.0

        rules = copying_rules([_said(problem) for problem in training]).values()
        return _best(rules, places, lambda rule, place: reward_of(rule(_said(training[place])), place))

    def _best_fixed(self, questions: Sequence[Question], counts: Mapping[str, int]) -> str | None:
        """The fixed answer with the highest mean reward on some of the questions, of answers to others and short texts.

        None where no reward is partial and it earns no more than the most common answer should: that one is a baseline
        already. A reward that varies would choose another one each time.
        """
        if not questions or not self.deterministic:
            return None
        earned = self._earned([*NONSENSE, *SHORT, *_spread(sorted(counts, key=_by_size))], questions)
        best = sorted(filter(earned.__getitem__, earned), key=earned.__getitem__, reverse=True)[:FINALISTS]
        asked = _spread(questions, FITTED_ON)
        rewards = {each: [self._reward_of(each, question) for question in asked] for each in best}
        fixed = max(rewards, key=lambda each: math.fsum(rewards[each]), default=None)
        if fixed is None or any(reward not in (0.0, 1.0) for found in rewards.values() for reward in found):
            return fixed
        known = _answers(asked)
        return fixed if known and math.fsum(rewards[fixed]) > max(known.values()) else None

    def _best_item(self, questions: Sequence[Question], items: Mapping[str, int]) -> str | None:
        """The item of lists with the highest mean reward on some of the questions; None where no item earns anything.

        A score that asks for no complete list pays for a single item that many lists have.
        """
        if not items or not self.deterministic:
            return None
        tried = filter(self._reaches, [item for item, _ in Counter(items).most_common(FIXED_TRIED)])
        return _best(tried, questions, self._reward_of)

    def _best_words(self, questions: Sequence[Question], words: Sequence[str]) -> str | None:
        """The constant of common words with the highest mean reward on some of the questions; None as `_best_item`.

        A score that counts words of the known answer pays for what is no sentence. Words that earn nothing alone, as
        "the" often does, go last.
        """
        if not words or not self.deterministic:
            return None
        alone = self._earned(words[:WORDS_TRIED], questions)
        constants = constants_of(sorted(alone, key=lambda word: not alone[word]))
        return _best(filter(self._reaches, constants), questions, self._reward_of)

    def _earned(self, answers: Sequence[str], questions: Sequence[Question]) -> dict[str, float]:
        """What each of the answers that the extraction lets through earns on some of the questions together."""
        tried, asked = filter(self._reaches, answers), _spread(questions)
        return {answer: math.fsum(self._reward_of(answer, each) for each in asked) for answer in tried}

    def _reward_of(self, answer: str, question: Question) -> float:
        """In [0, 1]; 0 where the reward raises."""
        try:
            return _lowest_score(self.verdicts(self.reward(answer, MappingProxyType(question.row)))) or 0.0
        except Exception:  # It is the user's; `verify` says what it raised.
            return 0.0


def _best(
    candidates: Iterable[_Candidate], asked: Sequence[_Value], earns: Callable[[_Candidate, _Value], float]
) -> _Candidate | None:
    """The candidate that earns most: all are tried on a few questions, and the best of them on more.

    None where none earns anything.
    """
    few, many = _spread(asked), _spread(asked, FITTED_ON)
    first = {each: math.fsum(earns(each, value) for value in few) for each in candidates}
    finalists = sorted(filter(first.__getitem__, first), key=first.__getitem__, reverse=True)[:FINALISTS]
    earned = {each: math.fsum(earns(each, value) for value in many) for each in finalists}
    return max(earned, key=earned.__getitem__, default=None)


def _said(problem: Problem) -> str:
    """What the last message of a prompt says."""
    return problem.prompt[-1].content


def _written(part: str, write: Callable[[str], str]) -> str | None:
    return write(part) if part else None


def _candidates(answers: Collection[str]) -> list[str]:
    """At most `MOST_LISTED` answers to be named at once: these, or all whole numbers from the lowest to the highest."""
    if all(_WHOLE.fullmatch(answer) for answer in answers):
        numbers = sorted(map(int, answers))
        if numbers[-1] - numbers[0] < MOST_LISTED:
            return [str(number) for number in range(numbers[0], numbers[-1] + 1)]
    return sorted(answers)[:MOST_LISTED]


def _ranges(answers: Collection[str]) -> Mapping[str, str]:
    """Ranges that hold every answer, by what they look like; none unless all are numbers, and some differ."""
    if not all(map(_NUMBER.fullmatch, answers)) or len(answers) < 2:
        return {}
    low, *_, high = sorted(answers, key=float)
    forms = ("{}-{}", "{} to {}", "between {} and {}", "[{}, {}]")
    return {f"a range of all answers, {form.format('x', 'y')}": form.format(low, high) for form in forms}


def _spread(values: Sequence[_Value], most: int = FIXED_TRIED) -> list[_Value]:
    """At most so many of the values, evenly spread over their order."""
    count = min(len(values), most)
    return [values[place * len(values) // count] for place in range(count)]


def _by_size(answer: str) -> tuple[bool, float, str]:
    """The order of answers: numbers by size, then texts."""
    try:
        number = float(answer)
    except ValueError:
        return True, 0.0, answer
    return not math.isfinite(number), number if math.isfinite(number) else 0.0, answer


def _answers(questions: Iterable[Question]) -> Counter[str]:
    """How often each answer of the column `answer` occurs."""
    return Counter(filter(None, map(answer_of, questions)))


@frozen(eq=False)
class _Limits(Mapping[str, float]):
    """The limits by tier; each is estimated when it is asked for, as drawing may be slow."""

    tiers: tuple[str, ...]
    limit: Callable[[str], float]

    def __getitem__(self, tier: str) -> float:
        if tier not in self.tiers:
            raise KeyError(tier)
        return self.limit(tier)

    def __iter__(self) -> Iterator[str]:
        return iter(self.tiers)

    def __len__(self) -> int:
        return len(self.tiers)


def _limit(questions: Sequence[Question]) -> float:
    """How often an answer that ignores the question may be right: a little above the most common answer."""
    rate = max(_answers(questions).values(), default=0) / max(1, len(questions))
    return min(max(LEAST_LIMIT, rate + MARGIN * (rate > 0)), MOST_LIMIT)


def _expression(text: str, write: Callable[[str], str]) -> str | None:
    """The longest arithmetic expression in a text, as an answer; None where there is none."""
    return _written(max((found[0].strip() for found in _EXPRESSION.finditer(text)), key=len, default=""), write)


def answer_of(question: Question) -> str:
    """The column `answer` of a row as text, items of a list as "a, b"; empty where it is no text and no number."""
    answer = question.row.get("answer")
    items = answer if isinstance(answer, (list, tuple)) else [answer]
    is_plain = all(isinstance(each, (str, int, float)) and not isinstance(each, bool) for each in items)
    return ", ".join(str(each).strip() for each in items) if is_plain else ""


def is_joined(question: Question) -> bool:
    """Whether the column `answer` of a row is a list, so that nobody has said how it is written."""
    return isinstance(question.row.get("answer"), (list, tuple))


def why_refused(refused: Sequence[tuple[Question, float | None]], admit_at: float) -> str:
    """What to look at where a reward refuses own answers, each with what it earned, in [0, 1]; empty where unknown."""
    earned = sorted({reward for _, reward in refused if reward})
    if earned:
        span = f"{earned[0]:.3g}" + (f" to {earned[-1]:.3g}" if len(earned) > 1 else "")
        return f"own answers earn {span}, below admit_at, which is {admit_at:.3g} (rewards from 0 to 1)"
    if refused and not any(isinstance(question.row["answer"], str) for question, _ in refused):
        return "a scorer is given text: compare with str(problem['answer'])"
    return ""


def _lowest_score(verdicts: Sequence[Verdict]) -> float | None:
    """The reward of an answer: its lowest score; None where judging failed."""
    if any(verdict.status == "failed" for verdict in verdicts):
        return None
    return min(float(verdict.right) if verdict.score is None else verdict.score for verdict in verdicts)


@frozen
class _Drawing:
    """A user's function of generator and tier, as `Task.draw`."""

    draw: DrawRow

    def __call__(self, _preset: str, tier: str, rng: random.Random, _solve: Any) -> Question:
        where = f"draw(rng, {tier!r})"
        try:
            row = self.draw(rng, tier)
        except Exception as error:
            raise NoProblem(f"{where} raised {_one_line(error)}") from error
        try:
            return question_of(row, where)
        except ValueError as error:
            raise NoProblem(str(error)) from error


def _drawn(draw: DrawRow, tier: str) -> Question:
    """A first question of a tier, which has to be the same when it is drawn again from the same generator."""
    one, other = (_Drawing(draw)("", tier, random.Random(0), None) for _ in range(2))
    if one != other:
        raise ValueError(f"draw(rng, {tier!r}) gave two questions from equal generators: draw from rng alone")
    return one


def _listed_of(rows: Sequence[Question], tier: str) -> list[Question]:
    """Questions of a tier of a list."""
    return [each for each in rows if tier_of(each) == tier]


def _some_drawn(draw: _Drawing, tier: str) -> list[Question]:
    """Questions of a tier that the rates of answers are estimated on; those that cannot be drawn are left out."""
    found = []
    for seed in range(ESTIMATED_ON):
        with suppress(NoProblem):
            found.append(draw("", tier, random.Random(seed), None))
    return found


def _check_splits(task: Task) -> None:
    """Refuse a function whose questions do not fall into all splits."""
    source = ProblemSource(task)
    for preset, tiers in task.presets.items():
        for tier in tiers:
            for split in ("dev", "test") if tier.held_out else ("train", "dev", "test"):
                source.draw(preset, tier.name, split, 0)
