"""The checks of a task's own answers, those of the column `answer`: they are right, and what resembles them is not."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

from gce.domain.answers import Answer
from gce.domain.problems import Problem
from gce.domain.tasks.answer_words import repetitions
from gce.domain.tasks.own import LEAST_LIMIT, answer_of, is_joined, why_refused
from gce.domain.tasks.questions import Question
from gce.testing.verifiers.bench import Bench, beyond_chance, called, clipped, prompt_of
from gce.testing.verifiers.blind import NEARLY_ALL
from gce.testing.verifiers.responses import in_final_part
from gce.testing.verifiers.responses import near_misses as changed

__all__ = ["near_misses", "own_answers"]

MOST = 0.75
"""Share of the own answer's reward from which on partial credit for a near miss is doubtful."""
EXAMPLES = 3
"""Refused answers that a finding shows."""


def own_answers(bench: Bench, advance: Callable[[], None]) -> None:
    """Check that the verifier calls the own answer of every row right."""
    refused: list[tuple[str, str, Problem, str]] = []
    earned: list[tuple[Question, float | None]] = []
    unwritten = 0
    for problem in bench.every():
        own = answer_of(problem.instance)
        if not own:
            continue
        text = bench.task.audit.write(own)
        verdicts = bench.verdicts(problem, text)
        answer = bench.answer(problem, text, verdicts)
        as_text = not is_joined(problem.instance)
        if verdicts and (all(verdict.status == "unreadable" for verdict in verdicts) or not (as_text or answer.right)):
            unwritten += 1
            continue
        bench.tried["own answers"] += 1
        if not answer.right and not answer.failed:
            score = "" if answer.reward is None else f" (reward {answer.reward:g})"
            where = bench.task.audit.where(problem.instance) or problem.key
            refused.append((where, f"{where}, {clipped(own)}: {called(verdicts)}{score}", problem, text))
            earned.append((problem.instance, answer.reward))
    if unwritten:
        bench.not_checked.append(f"own answers: {unwritten} cannot be written as `extract`, or the score, reads them")
    if refused:
        said = f"the score refuses the row's own answer in {len(refused)} of {bench.tried['own answers']} rows"
        why = why_refused(earned, bench.task.admit_at)
        in_order = sorted(refused, key=lambda each: (len(each[0]), each[0]))
        examples = "; ".join(example for _, example, _, _ in in_order[:EXAMPLES])
        bench.find("own answers", "refused", f"{said}: {examples}{why and f'; {why}'}", *in_order[0][2:])
    for _ in bench.problems:
        advance()


def near_misses(bench: Bench, advance: Callable[[], None]) -> None:
    """Check that answers which resemble the own answer and mean something else are wrong, as a rule.

    A change is found where it leaves more of the different answers right than `LEAST_LIMIT`, beyond chance: some
    problems have several right answers. Where most seem to, it is doubtful. Words of the answer that are repeated are
    held to what they earn, see `_pays`. A change that is wrong and earns `MOST` of the reward is doubtful where it does
    so as often. Of worked solutions only the final answer is changed.
    """
    paid: dict[str, dict[str, tuple[str, Problem, str]]] = defaultdict(dict)
    passed: dict[str, dict[str, tuple[str, str, Problem, str] | None]] = defaultdict(dict)
    for tier in bench.task.tiers(bench.preset):
        for problem in bench.sample(tier.name):
            own = answer_of(problem.instance)
            for name, other in in_final_part(own, lambda final: changed(final, bench.items)).items():
                bench.tried["near misses"] += 1
                text = bench.task.audit.write(other)
                verdicts = bench.verdicts(problem, text)
                answer = bench.answer(problem, text, verdicts)
                passed[name].setdefault(own, None)
                if not verdicts or answer.failed or not answer.reward or bench.says(problem, text) is True:
                    continue
                if answer.right:
                    passed[name][own] = ("right", f", as {clipped(other)} for {clipped(own)}", problem, text)
                elif said := _earns_most(bench, answer, own, other):
                    paid[name][own] = (said, problem, text)
            for name, (once, again) in repetitions(own, prompt_of(problem)).items():
                bench.tried["near misses"] += 1
                passed[name].setdefault(own, None)
                if said := _pays(bench, problem, own, once, again):
                    passed[name][own] = ("paid like the own answer", said, problem, bench.task.audit.write(again))
    for name, by_answer in passed.items():
        examples = [found for found in by_answer.values() if found]
        if beyond_chance(len(examples), len(by_answer), LEAST_LIMIT, len(passed)):
            what, example, problem, text = examples[0]
            said = f"{what} for {len(examples)} of {len(by_answer)} answers{example}"
            if bench.several_right:
                bench.note("near misses", name, said, problem, text, "doubtful")
            else:
                bench.find("near misses", name, said, problem, text)
        elif beyond_chance(len(paid[name]), len(by_answer), LEAST_LIMIT, len(passed)):
            example, problem, text = next(iter(paid[name].values()))
            said = f"{name}: {example}, for {len(paid[name])} of {len(by_answer)} answers"
            bench.note("near misses", name, said, problem, text, "doubtful")
    if any(check == "near misses" for check, _ in bench.kinds) and bench.accepts is None:
        bench.not_checked.append("near misses: whether questions have several right answers (without `accepts`)")
    for _ in bench.problems:
        advance()


def _earns_most(bench: Bench, answer: Answer, own: str, other: str) -> str:
    """Say what a wrong answer earns, if it is most of what the own answer earns; else empty."""
    earned, whole = answer.reward or 0.0, _reward(bench, answer.problem, own)
    said = f"{clipped(other)} earns {earned:.2f}, the own answer {clipped(own)} {whole:.2f}"
    return said if earned >= MOST * whole else ""


def _pays(bench: Bench, problem: Problem, own: str, once: str, again: str) -> str:
    """Say what repeated words earn, if it is nearly what the own answer earns and the words said once earn less.

    Empty otherwise: a score may well ask for a few words of an answer, but not for saying them again.
    """
    whole, alone, repeated = (_reward(bench, problem, text) for text in (own, once, again))
    is_paid = repeated >= NEARLY_ALL * whole > alone
    if not is_paid or bench.says(problem, bench.task.audit.write(again)) is True:
        return ""
    earned = f"{clipped(again)} earns {repeated:.2f}, {clipped(once)} alone {alone:.2f}"
    return f": {earned}, the own answer {whole:.2f}"


def _reward(bench: Bench, problem: Problem, answer: str) -> float:
    """Return the reward of an answer; 0 where it could not be judged."""
    text = bench.task.audit.write(answer)
    return bench.answer(problem, text, bench.verdicts(problem, text)).reward or 0.0
