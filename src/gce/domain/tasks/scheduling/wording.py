"""The prompt of an instance in plain English; each section has several wordings, drawn by a generator.

The prompt states every constraint of the instance and nothing else, in seven sections: intro, durations, sequence,
resources, deadlines, horizon, and answer format. The wording never depends on the solution.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Sequence

from attrs import frozen

from gce.domain.tasks.scheduling.instance import Instance, Job

__all__ = ["ANSWER_ONLY", "TAUGHT", "UNSEEN", "Phrases", "job_pairs", "needs", "prompt_text"]

Items = Sequence[tuple[str, str]]
Hours = Sequence[tuple[str, int]]


@frozen
class Phrases:
    """The wordings of each section; one of each is drawn."""

    intro: tuple[str, ...]
    durations: tuple[Callable[[Sequence[Job]], str], ...]
    sequence: tuple[Callable[[Items], str], ...]
    """Takes pairs: a job, and its predecessors."""
    resources: tuple[Callable[[str, str, str], str], ...]
    """Takes the capacities, the names, and the demands of each job."""
    deadlines: tuple[Callable[[Hours], str], ...]
    horizon: tuple[Callable[[int], str], ...]
    answer: tuple[str, ...]


TAUGHT = Phrases(
    intro=(
        "Plan these jobs. Times are whole hours, counted from 0.",
        "Find a start hour for every job. Hours are whole numbers from 0.",
        "Make a schedule for the jobs below, in whole hours from hour 0 on.",
    ),
    durations=(
        lambda jobs: f"Hours each job takes: {job_pairs(jobs, ' ')}.",
        lambda jobs: f"Durations in hours: {job_pairs(jobs, ' ')}.",
        lambda jobs: f"How long jobs take, in hours: {job_pairs(jobs, ' takes ')}.",
    ),
    sequence=(
        lambda items: (
            f"Sequence: {'; '.join(f'{job} after {before}' for job, before in items)}. "
            "A job starts only when all jobs that it comes after have ended."
        ),
        lambda items: (
            f"Some jobs wait: {'; '.join(f'{job} waits for {before}' for job, before in items)}. "
            "A job starts only when every job it waits for has ended."
        ),
        lambda items: (
            f"What must have ended before a job starts: {'; '.join(f'{job} : {before}' for job, before in items)}."
        ),
    ),
    resources=(
        lambda capacities, names, uses: (
            f"At any time there are {capacities} and no more. A job holds some while it runs ( {names} ): {uses}."
        ),
        lambda capacities, names, uses: (
            f"Never use more than {capacities} at once. Use of each running job ( {names} ): {uses}."
        ),
        lambda capacities, names, uses: (
            f"Available at every hour: {capacities}. Held by a job while it runs ( {names} ): {uses}."
        ),
    ),
    deadlines=(
        lambda items: f"Latest end hours: {', '.join(f'{job} {hour}' for job, hour in items)}.",
        lambda items: (
            f"Deadlines, the hour by which a job has ended: {', '.join(f'{job} {hour}' for job, hour in items)}."
        ),
        lambda items: f"Jobs must have ended in time: {', '.join(f'{job} by {hour}' for job, hour in items)}.",
    ),
    horizon=(
        lambda hour: f"All jobs must have ended by hour {hour}.",
        lambda hour: f"The whole project must end by hour {hour}.",
        lambda hour: f"Nothing may end after hour {hour}.",
    ),
    answer=(
        "Reason first if you like. The last line gives each job's start hour, and no other line has its first word: "
        "Answer: JOB HOUR, JOB HOUR",
        "You may write out your steps. End with one line that has every job and its start hour; its first word comes "
        "only there: Answer: JOB HOUR, JOB HOUR",
    ),
)
"""The wordings of prompts, in pretraining text too."""

UNSEEN = Phrases(
    intro=("Here is a list of jobs. Say at which hour each of them is to begin; the first hour is 0.",),
    durations=(lambda jobs: f"Time needed, in hours: {job_pairs(jobs, ' ')}.",),
    sequence=(
        lambda items: f"{'. '.join(f'{job} cannot begin until {before} have finished' for job, before in items)}.",
    ),
    resources=(
        lambda capacities, names, uses: (
            f"The site has {capacities} in all. This is what each job keeps busy ( {names} ): {uses}."
        ),
    ),
    deadlines=(lambda items: f"Must be finished no later than: {', '.join(f'{job} {hour}' for job, hour in items)}.",),
    horizon=(lambda hour: f"Finish everything no later than hour {hour}.",),
    answer=(
        "Think on paper as long as it helps. Finish with one line of begin hours, which alone opens with its first "
        "word: Answer: JOB HOUR, JOB HOUR",
    ),
)
"""Paraphrased prompts that no pretraining text holds, to measure dependence on the wording."""

ANSWER_ONLY = "Write one line only, with every job and its start hour, like this: Answer: JOB HOUR, JOB HOUR"


def job_pairs(jobs: Sequence[Job], link: str) -> str:
    """Return jobs with their durations, as in "K 3, B 5" with a space as the link."""
    return ", ".join(f"{job.label}{link}{job.duration}" for job in jobs)


def needs(job: Job) -> str:
    """Return a job's demand for each resource, as in "2 0"."""
    return " ".join(map(str, job.demands))


def prompt_text(
    instance: Instance,
    rng: random.Random,
    *,
    phrases: Phrases = TAUGHT,
    answer_only: bool = False,
    unsaid: Collection[tuple[str, str]] = (),
) -> str:
    """Return the whole prompt, one section per line; `rng` draws the wordings and the order of constraints.

    The durations leave out the jobs that are `unsaid` as ("duration", label), the resources those as ("resources",
    label).
    """
    timed = [job for job in instance.jobs if ("duration", job.label) not in unsaid]
    lines = [rng.choice(phrases.intro), rng.choice(phrases.durations)(timed)]
    sequence = [(label, ", ".join(instance.predecessors(label))) for label in instance.labels]
    sequence = [(label, before) for label, before in sequence if before]
    if sequence:
        rng.shuffle(sequence)
        lines.append(rng.choice(phrases.sequence)(sequence))
    if instance.resources:
        capacities = " and ".join(f"{resource.capacity} {resource.name}" for resource in instance.resources)
        names = " and ".join(resource.name for resource in instance.resources)
        uses = ", ".join(f"{job.label} {needs(job)}" for job in instance.jobs if ("resources", job.label) not in unsaid)
        lines.append(rng.choice(phrases.resources)(capacities, names, uses))
    deadlines = [(job.label, job.deadline) for job in instance.jobs if job.deadline is not None]
    if deadlines:
        lines.append(rng.choice(phrases.deadlines)(deadlines))
    if instance.horizon is not None:
        lines.append(rng.choice(phrases.horizon)(instance.horizon))
    lines.append(ANSWER_ONLY if answer_only else rng.choice(phrases.answer))
    return "\n".join(lines)
