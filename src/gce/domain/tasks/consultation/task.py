"""The task `consultation`, as a record that the loop reads: plan a project of which the user alone knows some facts.

Projects are those of `scheduling`, by its tiers. Presets: `personas`, where a user keeps facts, and `stated`, the
control, where the prompt states all facts and is the one of `scheduling`.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from attrs import evolve

from gce.domain.problems import Message, Problem
from gce.domain.tasks.consultation.case import ConsultationCase, Fact, case_of, facts_of
from gce.domain.tasks.consultation.personas import SHIPPED, Persona, personas_of
from gce.domain.tasks.consultation.topics import TOPICS
from gce.domain.tasks.consultation.user import ASK, FACT, FORMS, REFUSE, consulted, counts, minimum, question_in
from gce.domain.tasks.consultation.verify import feedback, verify
from gce.domain.tasks.parts import Audit, Consultation, Policy, References, Relation, Teaching
from gce.domain.tasks.scheduling.baselines import heuristic_policies, prompt_blind_baselines
from gce.domain.tasks.scheduling.canonical import canonical_digest
from gce.domain.tasks.scheduling.gantt import schedule_chart
from gce.domain.tasks.scheduling.instance import Instance
from gce.domain.tasks.scheduling.metamorphic_relations import RELATIONS
from gce.domain.tasks.scheduling.task import SCHEDULING
from gce.domain.tasks.scheduling.wording import prompt_text
from gce.domain.tasks.task import Drawn, Task

__all__ = ["CONSULTATION"]

PERSONAS, STATED = "personas", "stated"
MOST_SECRETS = 4
RULES = (
    f"You can ask for what is not stated here: end a message with one line {ASK} QUESTION. A question is about one of "
    f"{', '.join(TOPICS)}, and about the jobs that it names, or all jobs if it names none. At most {{}} questions are "
    "answered. Wishes that the facts rule out do not count.\n"
    f"If anything is asked for besides a plan, decline it on a line {REFUSE} REASON in the message with the plan; "
    f"otherwise no line starts with that word. Facts that you rely on may stand on lines {FACT} SENTENCE, as in "
    f"{'; '.join(FORMS)}."
)


def _draw(
    preset: str, tier: str, rng: random.Random, solve: Any, *, personas: Sequence[Persona] = SHIPPED
) -> ConsultationCase:
    assert isinstance(SCHEDULING.draw, Drawn)
    project: Instance = SCHEDULING.draw.draw("grounded", tier, rng, solve)
    if preset == STATED:
        return ConsultationCase(project)
    persona = rng.choice(personas)
    secrets = _secrets(project, rng)
    while minimum(case := case_of(project, secrets, persona)) > persona.patience:
        secrets = secrets[:-1]
    return case


def _secrets(project: Instance, rng: random.Random) -> tuple[Fact, ...]:
    """Draw 1 to `MOST_SECRETS` facts; of the durations and the demands the prompt states at least one."""
    found: list[Fact] = []
    for fact in rng.sample(known := list(facts_of(project)), len(known)):
        alike = sum(each.topic == fact.topic for each in found) + 1
        if fact.topic not in ("duration", "resources") or alike < len(project.jobs):
            found.append(fact)
    return tuple(found[: rng.randint(1, MOST_SECRETS)])


def _prompt(case: ConsultationCase, rng: random.Random) -> tuple[Message, ...]:
    hidden = frozenset((secret.topic, secret.job) for secret in case.secrets)
    text = prompt_text(case.project, rng, unsaid=hidden)
    persona = case.persona
    if persona is not None:
        sections, _, answer = text.rpartition("\n")
        jobs = f"The jobs are {', '.join(case.project.labels)}."
        said = (persona.opening, jobs, sections, persona.wish, persona.request, RULES.format(persona.patience), answer)
        text = "\n".join(filter(None, said))
    return (Message("user", text),)


def _plain(problem: Problem) -> Problem:
    """Return the problem of `scheduling` in which all facts are stated."""
    return evolve(problem, instance=problem.instance.full)


def _on_full(policy: Policy) -> Policy:
    """Return the policy with all facts, which also refuses what has to be refused."""

    def answer(problem: Problem, rng: random.Random) -> str | None:
        return _polite(problem.instance, policy(_plain(problem), rng))

    return answer


def _on_stated(policy: Policy) -> Policy:
    """Return the policy that asks nothing: a missing duration is 1, and no other missing fact constrains."""

    def answer(problem: Problem, rng: random.Random) -> str | None:
        case: ConsultationCase = problem.instance
        return _polite(case, policy(evolve(problem, instance=case.project), rng)) if case.secrets else None

    return answer


def _polite(case: ConsultationCase, text: str | None) -> str | None:
    refuses = text is not None and case.persona is not None and case.persona.request
    return f"{REFUSE} that is no plan.\n{text}" if refuses else text


def _prompt_blind(training: Sequence[Problem]) -> Mapping[str, Policy]:
    return {name: _on_full(policy) for name, policy in prompt_blind_baselines([*map(_plain, training)]).items()}


def _heuristics(training: Sequence[Problem]) -> Mapping[str, Policy]:
    found = heuristic_policies([])
    return {name: _on_full(policy) for name, policy in found.items()} | {
        f"{name}, asks nothing": _on_stated(found[name]) for name in ("latest-finish-time",)
    }


def _lifted(relation: Relation) -> Relation:
    """Return a relation of schedules for consultations: the changed project has no secrets."""

    def change(problem: Problem, text: str, rng: random.Random) -> tuple[Problem, str] | None:
        changed = relation.change(_plain(problem), text, rng)
        return changed and (
            evolve(problem, instance=ConsultationCase(changed[0].instance, (), problem.instance.persona)),
            changed[1],
        )

    return Relation(change, relation.holds)


def _demonstration(problem: Problem, solve: Any) -> str | None:
    """Demonstrate a plan where the prompt states all facts: otherwise it would be a lesson in inventing some."""
    case: ConsultationCase = problem.instance
    return None if case.secrets else _polite(case, SCHEDULING.teaching.demonstration(_plain(problem), solve))


def _of_personas(task: Task, preset: str, records: Sequence[Any]) -> Task:
    """Return the task with the personas of a file."""
    draw = partial(_draw, personas=personas_of(records))
    return evolve(task, presets={preset: task.presets[PERSONAS]}, draw=Drawn(draw, stream="consultation"))


CONSULTATION = Task(
    name="consultation",
    presets=dict.fromkeys((PERSONAS, STATED), SCHEDULING.tiers("grounded")),
    draw=Drawn(_draw, stream="consultation", of_records=_of_personas),
    prompt=_prompt,
    digest=lambda case: canonical_digest(case.full),
    verify=verify,
    instance_type=ConsultationCase,
    max_tokens=SCHEDULING.max_tokens,
    teaching=Teaching(
        demonstration=_demonstration,
        feedback=lambda verdict: f"{feedback(verdict)}\nTry again.",
        calls=SCHEDULING.teaching.calls,
        chart=lambda problem, text: schedule_chart(problem.instance.full, text),
        consultation=Consultation(
            question=question_in,
            reply=lambda problem, questions: consulted(problem.instance, questions)[0],
            counts=lambda problem, questions, text: counts(problem.instance, questions, text),
        ),
    ),
    references=References(prompt_blind=_prompt_blind, heuristics=_heuristics, limits=SCHEDULING.references.limits),
    audit=Audit(
        hidden=frozenset({"secrets"}),
        illustrations=frozenset({"persona"}),
        relations={name: _lifted(relation) for name, relation in RELATIONS.items()},
    ),
)
