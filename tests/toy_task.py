"""A task of one's own, as a user would write it: add two numbers, up to a multiple of the tier's modulus."""

from __future__ import annotations

import re
from hashlib import blake2b
from typing import Any

from attrs import evolve, frozen

from gce.adapters.evaluators.verifier import TaskVerifier
from gce.adapters.models.scripted import ScriptedModel
from gce.app.training.state import Run
from gce.domain.completions import SampleRequest
from gce.domain.problems import Message, Problem
from gce.domain.tasks import ProblemSource, References, Task, TaskTier
from gce.domain.verdicts import Verdict, Violation

MODULI = {"T0": 2, "T1": 3, "T2": 5}


@frozen
class Addition:
    """What is the remainder of a + b?"""

    a: int
    b: int
    modulus: int


def verify(problem: Problem, completion: Any, _evidence: Any = None) -> tuple[Verdict, ...]:
    """Right where the last word is w and a number that leaves the same remainder."""
    found = re.search(r"(?:^|\s)w([0-9]{1,3})$", completion.text)
    if found is None:
        return (Verdict("wrong", 0.0, "sum", "1", violations=(Violation("grammar", "The last word is no number."),)),)
    rest = (int(found[1]) - problem.instance.a - problem.instance.b) % problem.instance.modulus
    violations = (Violation("sum", f"{found[1]} is off by {rest}.", found=rest, bound=0),) if rest else ()
    return (Verdict("wrong" if rest else "right", float(not rest), "sum", "1", violations=violations),)


def forgiving(problem: Problem, completion: Any, _evidence: Any = None) -> tuple[Verdict, ...]:
    """A faulty verifier: any word will do, wherever it stands."""
    found = [verify(problem, evolve(completion, text=word))[0] for word in completion.text.split()[:20]]
    return (next((verdict for verdict in found if verdict.right), Verdict("wrong", 0.0, "sum", "1")),)


def accepts(problem: Problem, text: str) -> bool:
    """A second judge: takes the last word apart."""
    words = text.removesuffix("\n").split()
    last = words[-1] if words and text.removesuffix("\n").endswith(words[-1]) else ""
    if last[:1] != "w" or not 1 <= len(last[1:]) <= 3 or set(last[1:]) - set("0123456789"):
        return False
    right: int = (problem.instance.a + problem.instance.b) % problem.instance.modulus
    return bool(int(last[1:]) % problem.instance.modulus == right)


def by_hand(problem: Problem, _solve: Any) -> str:
    """A right answer, written out."""
    return f"adds w{problem.instance.a + problem.instance.b}"


def shy(_config: Any, _task: Any) -> ScriptedModel:
    """A model that adds right after examples, and cannot say a thing without."""

    def answer(request: SampleRequest) -> str:
        a, b, _ = (int(word[1:]) for word in request.messages[-1].content.split())
        return f"w{request.seed % 97} w{a + b}" if len(request.messages) > 1 else "what?"

    return ScriptedModel(answer)


def careless(_config: Any, _task: Any) -> ScriptedModel:
    """A model that adds right in two of three answers, in words that differ from rollout to rollout."""

    def answer(request: SampleRequest) -> str:
        a, b, _ = (int(word[1:]) for word in request.messages[0].content.split())
        return f"w{request.seed % 7} w{a + b}" if request.seed % 3 else "about w1 or so"

    return ScriptedModel(answer)


def bare(config: Any, task: Any) -> ScriptedModel:
    """A model whose backend tells no log-probabilities."""

    class Bare(ScriptedModel):
        def sample(self, requests: Any) -> Any:
            return (evolve(completion, log_probabilities=None) for completion in super().sample(requests))

    return Bare(careless(config, task)._answer)


def hopeless(_config: Any, _task: Any) -> ScriptedModel:
    """A model that is never right."""
    return ScriptedModel(lambda _request: "no idea")


ADDITION = Task(
    name="addition",
    presets={"small": (TaskTier("T0"), TaskTier("T1"), TaskTier("T2", held_out=True))},
    draw=lambda _preset, tier, rng, _solve: Addition(rng.randrange(40), rng.randrange(40), MODULI[tier]),
    prompt=lambda found, _rng: (Message("user", f"w{found.a} w{found.b} w{found.modulus}"),),
    digest=lambda found: blake2b(repr(found).encode(), digest_size=8).hexdigest(),
    verify=verify,
    instance_type=Addition,
    references=References(
        prompt_blind=lambda _training: {"always 0": lambda _problem, _rng: "w0"},
        heuristics=lambda _training: {"adds": lambda problem, _rng: f"w{problem.instance.a + problem.instance.b}"},
        limits={"T0": 0.9, "T1": 0.7, "*": 0.5},
    ),
)
UNSURE = evolve(ADDITION, verify=lambda *_: (Verdict("failed", None, "sum", "1"),))
SILENT = evolve(ADDITION, verify=lambda *answer: tuple(evolve(verdict, violations=()) for verdict in verify(*answer)))
FORGIVING = evolve(ADDITION, verify=forgiving)
WORKED = evolve(ADDITION, teaching=evolve(ADDITION.teaching, demonstration=by_hand))
TWO_PRESETS = evolve(WORKED, presets={**ADDITION.presets, "other": ADDITION.presets["small"]})
ONE_TIER = evolve(ADDITION, presets={"small": (TaskTier("T0"),)})
PLAIN = evolve(ADDITION, references=References())


def on(run: Run, task: Task) -> Run:
    """A training run on another task."""
    return evolve(run, task=task, evaluator=TaskVerifier(task), source=ProblemSource(task))
