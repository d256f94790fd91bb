"""One problem in three calls: the model lists the constraints, drafts against them, and answers. Only that is judged.

python examples/run_simulation.py [TIER [NUMBER]]
"""

import argparse

import gce
from gce.app.evaluation.scoring import judge
from gce.app.settings.records import TrainSettings
from gce.app.wiring.evaluators import find_evaluator
from gce.app.wiring.models import find_model
from gce.domain.strategies.requests import Ask, Settings, draft_of
from gce.ports.model import Sampler

task = gce.TASKS["scheduling"]
parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("tier", nargs="?", default="T1", choices=[tier.name for tier in task.tiers("grounded")])
parser.add_argument("number", nargs="?", type=int, default=0)
given = parser.parse_args()
model, evaluator = find_model(TrainSettings(), task), find_evaluator(task)
assert isinstance(model, Sampler)
problem = gce.draw_problem(task, "grounded", given.tier, "test", given.number)

talk = gce.STRATEGIES["simulate"].converse(task, problem, Settings())
ask = next(talk)
try:
    while True:
        assert isinstance(ask, Ask)
        (reply,) = model.sample([gce.SampleRequest("reply", ask.turns, seed=0, temperature=0.0, max_tokens=640)])
        print(f"\n--- asked\n{ask.turns[-1].content}\n--- said\n{reply.text}")
        ask = talk.send(draft_of(problem, reply) if ask.draft else judge(task, evaluator, problem, reply))
except StopIteration as ended:
    (judged,) = ended.value
print("\n" + ("right" if judged.right else task.teaching.feedback(judged.verdicts[0])))
