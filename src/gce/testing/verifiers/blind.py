"""The check of answers that ignore the problem: prompt-blind baselines, and constant answers such as `nan`.

A constant that a sound verifier accepts has a meaning, as "yes" has for questions of yes or no: it is right where the
known answer means the same, and limits of prompt-blind baselines see to that. One that is right on problems with
several other answers tells of a hole.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

from gce.domain.answers import Answer
from gce.domain.baselines import Judged, answers_of_policies, limit_of, scores_of_answers
from gce.domain.completions import Completion
from gce.domain.outcomes import mean_reward
from gce.domain.problems import Problem
from gce.domain.tasks.own import COMMON_WORDS, COPIED, ONE_ITEM
from gce.domain.tasks.parts import Policy, always
from gce.domain.tasks.task import without_thinking
from gce.domain.text import mentions
from gce.testing.verifiers.bench import Bench, beyond_chance, clipped
from gce.testing.verifiers.responses import CONSTANTS

__all__ = ["prompt_blind"]

CHANCE = 0.05
"""Solve rate of a constant up to which chance explains it, on problems whose known answers differ from its meaning."""
NEARLY_ALL = 0.9
"""Share of problems above which a fixed answer is no right one, though problems may have several."""
UNKNOWN = 0.5
"""The same where answers are unknown, so that a constant may mean the more common of two."""
EQUAL = 5
"""Problems from which on equal partial rewards are no coincidence."""
SHRUNK_ON = 5
"""Problems on all of which a smaller constant has to be right."""
COMMON = 20
"""Most common training answers that are tried as baselines."""


def prompt_blind(bench: Bench, advance: Callable[[], None]) -> None:
    """Check that no constant is right beyond chance and no prompt-blind baseline above the task's limit.

    The limit holds for the solve rate and, where there is partial credit, for the mean reward.
    """
    tiers = [tier.name for tier in bench.task.tiers(bench.preset)]
    without = [tier for tier in tiers if limit_of(bench.task, bench.preset, tier) >= 1.0]
    if without:
        first = next(iter(bench.task.presets))
        why = "none in `References.limits`" if bench.preset == first else f"`References.limits` is for preset {first}"
        bench.not_checked.append(f"blind: no limit for preset {bench.preset}, {', '.join(without)}: {why}")
    for tier in tiers:
        if tier not in without:
            _baselines(bench, tier)
        _constants(bench, tier)
    for _ in bench.problems:
        advance()


def _baselines(bench: Bench, tier: str) -> None:
    def judge(answers: Iterable[tuple[Problem, Completion]]) -> Iterator[Judged]:
        for problem, completion in answers:
            yield problem, completion, bench.verdicts(problem, completion.text)

    limit = limit_of(bench.task, bench.preset, tier)
    training = [
        text
        for problem in bench.training
        if problem.tier == tier
        for policy in bench.policies.values()
        if (text := policy(problem, bench.rng("constant"))) is not None
    ]
    policies = {name: _without_thinking(policy) for name, policy in bench.prompt_blind.items()}
    fixed = {"most common answer", "best fixed answer", ONE_ITEM, COMMON_WORDS}
    for text, _ in Counter(training).most_common(COMMON):
        policies[f"always {clipped(text)}"] = always(without_thinking(text))
        fixed.add(f"always {clipped(text)}")
    problems = [problem for problem in bench.more if problem.tier == tier]
    answers = answers_of_policies(bench.task, judge, policies, problems)
    for score in scores_of_answers(bench.task, answers):
        given = answers[score.policy]
        bench.tried["blind"] += score.share.n
        bench.partial |= score.reward.graded
        if score.share.low > limit:
            where = bench.named("on", tier)
            share = f"{score.share.correct} of {score.share.n} right{where}, the limit is {100 * limit:.0f} %"
            responses = [(each.problem, each.completion.text) for each in given if each.right and not each.failed]
            wrong = [each for each in responses if not _is_earned(bench, *each)]
            said = f"{score.policy}: {share}"
            is_unsure = score.policy in {*fixed, COPIED} and not bench.unique and bench.accepts is None
            if wrong and (not is_unsure or score.share.value >= NEARLY_ALL):
                kind = "copied" if score.policy == COPIED else "passes"
                bench.find("blind", kind, said, *min(wrong, key=lambda each: len(each[1])))
            elif responses:
                bench.note("blind", "passes", f"{said}; it may be right there", *responses[0], "doubtful")
        elif score.reward.graded and score.reward.value > limit:
            mean = score.reward.value
            if _is_equal(bench, given):
                _partial_credit(bench, score.policy, given, tier, limit)
            elif score.reward.low <= limit:
                continue
            elif score.policy in fixed and mean < NEARLY_ALL:
                said = (
                    f"{score.policy} gets a mean reward of {mean:.2f}{bench.named('on', tier)}; it may be right in part"
                )
                bench.note("blind", "partial credit", said, problems[0], "", "doubtful")
            else:
                _partial_credit(bench, score.policy, given, tier, limit)


def _without_thinking(policy: Policy) -> Policy:
    """The policy, without what a response thinks first."""

    def answer(problem: Problem, rng: random.Random) -> str | None:
        text = policy(problem, rng)
        return None if text is None else without_thinking(text)

    return answer


def _is_equal(bench: Bench, answers: Sequence[Answer]) -> bool:
    """Whether all of at least `EQUAL` problems, not all with one known answer, give the same reward to what they get.

    Such a reward depends on nothing that a problem asks, so that few problems show it.
    """
    rewards = [answer.reward for answer in answers if answer.reward is not None]
    known = {bench.known_answer(answer.problem) for answer in answers}
    return len(rewards) >= EQUAL and len({*rewards}) == 1 and (len(known) > 1 or known == {""})


def _is_earned(bench: Bench, problem: Problem, text: str) -> bool:
    """Whether a right response is the known answer, or right to the independent judge."""
    opinion, own = bench.says(problem, text), bench.known_answer(problem)
    if opinion is not None:
        return opinion
    return bool(own) and text.strip().casefold() == bench.task.audit.write(own).strip().casefold()


def _partial_credit(bench: Bench, policy: str, answers: Sequence[Answer], tier: str, limit: float) -> None:
    reward = mean_reward([answer.reward for answer in answers])
    gets = (
        f"gets a mean reward of {reward.value:.2f} on {reward.n} problems{bench.named('of', tier)} without solving them"
    )
    shown = max(answers, key=lambda answer: answer.reward or 0.0)
    said = f"{policy} {gets}, the limit is {limit:.2f}"
    bench.find("blind", "partial credit", said, shown.problem, shown.completion.text)


def _constants(bench: Bench, tier: str) -> None:
    """Try the constants, and hostile texts that earned something, each on every problem of a tier."""
    limit = limit_of(bench.task, bench.preset, tier)
    problems = bench.sample(tier)
    texts = {bench.task.audit.write(constant): constant for constant in CONSTANTS}
    texts |= {text: text for text in bench.rewarded.get(tier, ())}
    passing, paid = [], []
    bench.expect([(problem, text) for text in texts for problem in problems])
    for text, constant in texts.items():
        answers = [bench.answer(problem, text, bench.verdicts(problem, text)) for problem in problems]
        bench.tried["blind"] += len(answers)
        keys, n, known = _unexplained(bench, constant, [answer for answer in answers if not answer.failed])
        right = len(keys)
        chance = CHANCE if known else max(UNKNOWN, limit if limit < 1.0 else 0.0)
        if beyond_chance(right, n, chance, len(texts)):
            of_tier = bench.named("of", tier)
            which = f"the {n} problems{of_tier} with another answer" if known else f"{n} problems{of_tier}"
            said = f"always {clipped(text)} is right on {right} of {which}"
            shown = [answer.problem for answer in answers if answer.problem.key in keys]
            passing.append((right, f"{said}; chance explains {100 * chance:.0f} %", shown[:SHRUNK_ON], text))
            continue
        reward = mean_reward([answer.reward for answer in answers])
        if reward.graded and (reward.low > limit or (reward.value > limit and _is_equal(bench, answers))):
            paid.append((reward.value, text, answers))
    for _, said, shown, text in sorted(passing, key=lambda each: -each[0]):
        bench.find("blind", "constant", said, shown[0], text, still=partial(_right_on_all, bench, shown))
    for _, text, answers in sorted(paid, key=lambda each: -each[0]):
        _partial_credit(bench, f"always {clipped(text)}", answers, tier, limit)


def _right_on_all(bench: Bench, problems: Sequence[Problem], text: str) -> bool:
    return all(bench.is_right(problem, text) for problem in problems)


def _unexplained(bench: Bench, constant: str, answers: Sequence[Answer]) -> tuple[set[str], int, bool]:
    """Return the keys of problems on which a constant is right, of how many, and whether answers are known.

    If so, problems are left out whose answer the constant may mean: it stands in it as a word, or it is the answer of
    most problems on which the constant is right.
    """
    right = [
        answer.problem.key
        for answer in answers
        if answer.right and bench.says(answer.problem, answer.completion.text) is not True
    ]
    known = {answer.problem.key: bench.known_answer(answer.problem) for answer in answers} if right else {}
    known = {key: answer for key, answer in known.items() if answer}
    if 2 * len(known) <= len(answers):
        return {*right}, len(answers), False
    accepted = Counter(known[key] for key in right if key in known)
    meaning = max(accepted, key=accepted.__getitem__, default="")
    other = {
        key
        for key, answer in known.items()
        if answer != meaning and not mentions(answer.casefold(), constant.casefold())
    }
    return other.intersection(right), len(other), True
