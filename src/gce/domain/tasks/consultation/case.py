"""A consultation: a project of which some facts are known to the user alone.

The project holds what the prompt states. What it leaves out are facts, which complete it. Independent of wording and
personas' words.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import get_args

from attrs import field, frozen, validators

from gce.domain.tasks.consultation.personas import Persona
from gce.domain.tasks.consultation.topics import Topic
from gce.domain.tasks.scheduling.instance import Instance, Job

__all__ = ["ConsultationCase", "Fact", "case_of", "facts_of"]


@frozen
class Fact:
    """One thing that can be known of a project."""

    topic: Topic = field(validator=validators.in_(get_args(Topic)))
    job: str
    """The job that it is about; empty for the end of the project."""
    numbers: tuple[int, ...] = ()
    """Hours, or units of each resource."""
    jobs: tuple[str, ...] = ()
    """Of a sequence, the predecessors."""


@frozen
class ConsultationCase:
    """What the model is asked about."""

    project: Instance
    """As far as the prompt states it: a missing duration is 1, a missing demand 0, all else is absent."""
    secrets: tuple[Fact, ...] = ()
    """What the user alone knows; each tells of a job and a topic that the project leaves out."""
    persona: Persona | None = None
    """How the user talks; None where there is no user, and the prompt is that of the task `scheduling`."""

    @property
    def full(self) -> Instance:
        """The project with the user's facts.

        Raises:
            ValueError: a fact is not about the project, or contradicts it.
        """
        known = {(secret.topic, secret.job): secret for secret in self.secrets}
        edges = [(before, each.job) for each in self.secrets if each.topic == "sequence" for before in each.jobs]
        end = known.get(("end", ""))
        return Instance(
            [_completed(job, known) for job in self.project.jobs],
            [*self.project.precedence, *edges],
            self.project.resources,
            self.project.horizon if end is None else end.numbers[0],
        )

    def hides(self, topic: Topic, job: str) -> bool:
        """Whether the user alone knows this."""
        return any((secret.topic, secret.job) == (topic, job) for secret in self.secrets)


def _completed(job: Job, known: dict[tuple[Topic, str], Fact]) -> Job:
    duration, demands, deadline = (known.get((topic, job.label)) for topic in ("duration", "resources", "deadline"))
    return Job(
        job.label,
        job.duration if duration is None else duration.numbers[0],
        job.demands if demands is None else demands.numbers,
        job.deadline if deadline is None else deadline.numbers[0],
    )


def facts_of(project: Instance) -> Iterator[Fact]:
    """Yield all facts of a project except the capacities, which are never secret."""
    for job in project.jobs:
        yield Fact("duration", job.label, (job.duration,))
        if before := project.predecessors(job.label):
            yield Fact("sequence", job.label, jobs=before)
        if project.resources:
            yield Fact("resources", job.label, job.demands)
        if job.deadline is not None:
            yield Fact("deadline", job.label, (job.deadline,))
    if project.horizon is not None:
        yield Fact("end", "", (project.horizon,))


def case_of(project: Instance, secrets: tuple[Fact, ...], persona: Persona | None) -> ConsultationCase:
    """Return the case of this project in which the user alone knows these of its facts."""
    hidden = {(secret.topic, secret.job) for secret in secrets}

    def stated(job: Job) -> Job:
        return Job(
            job.label,
            1 if ("duration", job.label) in hidden else job.duration,
            (0,) * len(job.demands) if ("resources", job.label) in hidden else job.demands,
            None if ("deadline", job.label) in hidden else job.deadline,
        )

    edges = [(before, after) for before, after in project.precedence if ("sequence", after) not in hidden]
    horizon = None if ("end", "") in hidden else project.horizon
    return ConsultationCase(Instance(map(stated, project.jobs), edges, project.resources, horizon), secrets, persona)
