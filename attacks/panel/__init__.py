"""Sets of verifiers that measure the error rates of `gce check`: `python -m attacks.panel SET`.

A set is a package `attacks/panel/SET/` of two modules:

- `bugs.py`: verifiers with one realistic bug each. The panel should find something in each.
- `sound.py`: verifiers without a bug. The panel should find nothing in any.

Each module has a table `VERIFIERS`: name -> `(problems, reward)`, the arguments of `gce.task`, or a task that
`gce.task(problems, reward, name=..., extract=..., ...)` has made, where options are needed:

    QUESTIONS = [{"prompt": f"What is {a} + {b}?", "answer": a + b} for a in range(10, 30) for b in (11, 24)]


    def prefix(answer, problem):
        return answer.startswith(str(problem["answer"]))


    VERIFIERS = {
        "prefix match": (QUESTIONS, prefix),
        "prefix match in a box": gce.task(QUESTIONS, prefix, name="boxed prefix", extract="boxed"),
    }

`reward(answer, problem)` gets the answer as text (the last line of the response, unless `extract` says otherwise) and
the row, and returns true or false, or a number from 0 to 1. It refuses text that it cannot read by returning False.
The column `answer` holds a right answer in the form that the reward accepts; leave it out where none is known. Give at
least 12 questions, better 40, with different answers where the kind of question allows it. A verifier may draw its
problems instead: a function `draw(rng, tier)` that returns a row takes the place of the list.

Two further tables are optional, in both modules:

- `UNIQUE`: a set of names of verifiers whose questions have exactly one right answer each, however it is written. An
  answer that means something else and passes is then a bug for certain. Leave out verifiers whose questions have
  several right answers, or that grant a tolerance.
- `ACCEPTS`: name -> a second judge `(row, response) -> bool`, written in another way than the reward.

What the panel says of a verifier is read from its findings: notes and doubtful answers count for nothing. A verifier in
`bugs.py` is found where there is at least one finding, one in `sound.py` falsely accused where there is any.
"""
