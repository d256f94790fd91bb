# The decorators of inspect_ai have no types where it is not installed.
# mypy: disable-error-code="untyped-decorator"
"""Tasks of inspect_ai, as users write them, and some that cannot be served."""

from typing import Any

from inspect_ai import Task, task
from inspect_ai.dataset import Sample
from inspect_ai.scorer import Score, choice, includes, match, mean, model_graded_qa, scorer
from inspect_ai.solver import generate, multiple_choice, prompt_template, self_critique, system_message, use_tools
from inspect_ai.tool import tool

SUMS = [Sample(input=f"What is {n} + {n}?", target=str(2 * n)) for n in range(30)]
PICKS = [Sample(input=f"Which is {n}?", choices=[str(n + off) for off in range(3)], target="A") for n in range(30)]


@task
def sums(most: int = 30) -> Task:
    ask = [system_message("You add."), prompt_template("{prompt}\nEnd with the number."), generate()]
    return Task(dataset=SUMS[:most], solver=ask, scorer=match(numeric=True))


@task
def picks() -> Task:
    return Task(dataset=PICKS, solver=multiple_choice(), scorer=choice())


@task
def shuffled() -> Task:
    return Task(dataset=PICKS, solver=multiple_choice(shuffle=True), scorer=choice())


@task
def graded() -> Task:
    return Task(dataset=SUMS, scorer=model_graded_qa())


@task
def twice() -> Task:
    return Task(dataset=SUMS, solver=[generate(), self_critique()], scorer=match())


@task
def again() -> Task:
    return Task(dataset=SUMS, solver=[generate(), generate()], scorer=match())


@tool
def clock() -> Any:
    async def execute() -> str:
        """The hour."""
        return "12"

    return execute


@task
def tools() -> Task:
    return Task(dataset=SUMS, solver=[use_tools(clock()), generate()], scorer=match())


@task
def several() -> Task:
    return Task(dataset=SUMS, scorer=[match(), includes()])


@scorer(metrics={"length": [mean()], "odd": [mean()]})
def two_values() -> Any:
    async def score(state: Any, target: Any) -> Score:
        said = state.output.completion
        return Score(value={"length": min(len(said), 10) / 10, "odd": len(said) % 2})

    return score


@task
def values() -> Task:
    return Task(dataset=SUMS, scorer=two_values())
