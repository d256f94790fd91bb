"""How many wrong programs the tests of a file let pass: `python -m attacks.program_tests --task programs@human-eval`.

Each solution with one token changed, drawn by seed: an operator, a number, a truth value, or a name of two that are
easily mixed up. A changed program that still passes means the same in some cases, and in the others shows what the
given tests do not see; nobody can tell which by running the tests.

`--fresh 600` tells more: it calls what passes with as many fresh arguments, and counts the programs that give another
value there than the solution does. For generated functions (`--task programs`) the arguments are drawn as those of the
hidden calls are, and such a program is wrong. For functions from a file they are those of the tests with values changed
(`attacks.fresh_arguments`), and such a program is wrong unless the description rules the arguments out.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator, Sequence

from attacks.fresh_arguments import arguments_in, varied
from gce.adapters.evaluators.verifier import TaskVerifier
from gce.app.tables.cells import interval_cell
from gce.app.tables.layout import table
from gce.app.wiring.sandboxes import LazyRunner, add_runner
from gce.app.wiring.tasks import find_preset, find_task
from gce.domain.completions import Completion
from gce.domain.executions import Execution
from gce.domain.plain_values import NotPlain, to_text
from gce.domain.problems import Problem
from gce.domain.randomness import generator, python_generator
from gce.domain.statistics import interval
from gce.domain.tasks import draw_problems
from gce.domain.tasks.programs.answer import fenced
from gce.domain.tasks.programs.primitives import draw_edge, draw_value
from gce.errors import BadInput, GceError
from gce.ports.runner import Runner

SWAPS = {
    **{"<": ("<=", ">"), "<=": ("<", ">="), ">": (">=", "<"), ">=": (">", "<="), "==": ("!=",), "!=": ("==",)},
    **{"+": ("-",), "-": ("+",), "*": ("+",), "/": ("//",), "//": ("/",), "%": ("//",), "**": ("*",)},
    **{"+=": ("-=",), "-=": ("+=",), "*=": ("+=",), "True": ("False",), "False": ("True",), "None": ("0",)},
    **{"and": ("or",), "or": ("and",), "break": ("continue",), "continue": ("break",), "not": ("",)},
    **{"min": ("max",), "max": ("min",), "all": ("any",), "any": ("all",), "lower": ("upper",), "upper": ("lower",)},
    **{"append": ("extend",), "isupper": ("islower",), "islower": ("isupper",), "floor": ("ceil",), "ceil": ("floor",)},
}
"""What a token may become."""


def mutants(source: str) -> Iterator[tuple[str, str]]:
    """Every program with one token changed, and what was changed; texts and comments stay as they are."""
    lines = source.splitlines(keepends=True)
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        others = SWAPS.get(token.string, ())
        if token.type == tokenize.NUMBER and token.string.isdigit():
            others = (str(int(token.string) + 1), str(max(0, int(token.string) - 1)))
        if token.type not in (tokenize.OP, tokenize.NAME, tokenize.NUMBER) or token.start[0] != token.end[0]:
            continue
        for other in others:
            if other == token.string:
                continue
            row, (begin, end) = token.start[0] - 1, (token.start[1], token.end[1])
            changed = lines[row][:begin] + other + lines[row][end:]
            yield "".join([*lines[:row], changed, *lines[row + 1 :]]), f"{token.string} -> {other or 'nothing'}"


def differing(runner: Runner, passed: Sequence[tuple[Problem, str]], fresh: int, seed: int) -> list[str]:
    """For each program, the first fresh arguments for which it does not return what its problem's solution returns.

    As text of `plain_values`; empty where there are none. Arguments that the solution itself raises at say nothing.
    """
    executions = []
    for problem, program in passed:
        exercise = problem.instance
        calls = tuple(dict.fromkeys(_fresh_calls(problem, fresh, seed)))
        executions += [
            Execution(source, exercise.entry_point, calls, preamble=exercise.preamble, seconds=exercise.seconds)
            for source in (exercise.solution, program)
        ]
    found = []
    evidence = list(runner.run(executions))
    for execution, right, changed in zip(executions[::2], evidence[::2], evidence[1::2], strict=True):
        differ = (
            call
            for call, one, other in zip(execution.calls, right.outcomes, changed.outcomes, strict=False)
            if one.status == "returned" and (one.status, one.text) != (other.status, other.text)
        )
        found.append(next(differ, ""))
    return found


def _fresh_calls(problem: Problem, fresh: int, seed: int) -> Iterator[str]:
    exercise = problem.instance
    rng = python_generator("program tests", seed, problem.key)
    if exercise.kinds:
        for number in range(fresh):
            yield to_text([(draw_value, draw_edge)[number % 2](exercise.kinds[0], rng)])
        return
    for arguments in varied(arguments_in(exercise.tests, exercise.entry_point), fresh, rng):
        with contextlib.suppress(NotPlain):
            yield to_text(arguments)


def main() -> int:
    """Draw, judge and count; 0 where every solution passes unchanged."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", default="programs@human-eval", help="programs, or programs@FILE")
    parser.add_argument("--each", type=int, default=1, help="changed programs of each solution at most (default 1)")
    parser.add_argument("--n", type=int, default=164, help="problems a tier at most (default 164)")
    parser.add_argument("--seed", type=int, default=0, help="another seed, other changes")
    parser.add_argument("--fresh", type=int, default=0, help="fresh arguments for each that passes (default none)")
    parser.add_argument("--json", action="store_true", help="print what passed as JSON")
    add_runner(parser)
    arguments = parser.parse_args()
    try:
        task, runner = find_task(arguments.task), LazyRunner(arguments.runner)
        preset = find_preset(task, "")
        problems = [
            problem
            for tier in task.tiers(preset)
            for problem in draw_problems(task, preset, tier.name, "test", arguments.n)
            if problem.instance.solution
        ]
        if not problems:
            raise BadInput(f"task {task.name} has no problems whose solution is known")
        answers, changes = [], []
        for problem in problems:
            answers.append((problem, problem.instance.solution))
            found = list(mutants(problem.instance.solution))
            order = generator(arguments.seed, "mutants", problem.key).permutation(len(found))[: arguments.each]
            changes += [(problem, *found[place]) for place in order.tolist()]
        answers += [(problem, program) for problem, program, _ in changes]
        verdicts = [
            verdict
            for _, _, (verdict,) in TaskVerifier(task, runner).judge(
                (problem, Completion(problem.key, fenced(program), "stop", policy="changed"))
                for problem, program in answers
            )
        ]
        changed = verdicts[len(problems) :]
        passing = [change for change, verdict in zip(changes, changed, strict=True) if verdict.right]
        programs = [(problem, program) for problem, program, _ in passing]
        differs = differing(runner, programs, arguments.fresh, arguments.seed) if arguments.fresh else []
    except GceError as error:
        print(f"attacks.program_tests: {error}", file=sys.stderr)
        return 2
    whole = verdicts[: len(problems)]
    right = sum(verdict.right for verdict in whole)
    caught = interval(sum(verdict.status == "wrong" for verdict in changed), len(changed))
    passed = [
        {"problem": problem.key, "entry_point": problem.instance.entry_point, "changed": what}
        for problem, _, what in passing
    ]
    for each, differ in zip(passed, differs, strict=False):
        each["differs"] = differ
    differ_count = sum(map(bool, differs))
    wrong = interval(differ_count, caught.correct + differ_count) if arguments.fresh else None
    kinds = Counter(each.kind for verdict in changed for each in verdict.violations)
    if arguments.json:
        counts = {"solutions": [right, len(whole)], "caught": caught.correct, "n": caught.n}
        print(json.dumps({**counts, **({"differ": [wrong.correct, wrong.n]} if wrong else {}), "passed": passed}))
    else:
        print(f"{right} of {len(whole)} solutions pass unchanged")
        print(f"{caught.correct} of {caught.n} with one token changed are caught: {interval_cell(caught)} %")
        print("\n" + table(["caught by", "programs"], [[kind, str(count)] for kind, count in kinds.most_common()]))
        if wrong:
            print(
                f"\n{wrong.correct} of {wrong.n} that are caught or differ on {arguments.fresh} fresh arguments pass: "
                f"{interval_cell(wrong, digits=2)} %; {len(passed) - wrong.correct} more pass and do not differ"
            )
            passed = [each for each in passed if each["differs"]]
        name = "problem" if wrong else "entry_point"
        print("\npassed: " + ", ".join(f"{each[name]} ({each['changed']})" for each in passed))
        for each in passed if wrong else ():
            print(f"{each['entry_point']} ({each['changed']}): another value for {each['differs'][:200]}")
    return 0 if right == len(whole) else 1


if __name__ == "__main__":
    sys.exit(main())
