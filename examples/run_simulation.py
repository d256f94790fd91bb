"""One problem in three calls: the model lists the constraints, drafts against them, and answers. Only that is judged.

python examples/run_simulation.py [TIER [NUMBER]]
"""

import argparse

import gce
from gce.app.config import with_recipe
from gce.app.evaluation import Judged, judge
from gce.app.models import find_model
from gce.app.modes import MODES, Settings

task = gce.TASKS["scheduling"]
parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("tier", nargs="?", default="T1", choices=[tier.name for tier in task.tiers("grounded")])
parser.add_argument("number", nargs="?", type=int, default=0)
given = parser.parse_args()
model = find_model(with_recipe("gce", {}), task)
problem = gce.draw_problem(task, "grounded", given.tier, "test", given.number)

talk = MODES["simulate"](task, problem, Settings())
ask = next(talk)
try:
    while True:
        (reply,) = model.sample([gce.SampleRequest("reply", ask.turns, seed=0, temperature=0.0, max_tokens=640)])
        print(f"\n--- asked\n{ask.turns[-1].content}\n--- said\n{reply.text}")
        ask = talk.send(Judged(problem, reply, (), False) if ask.draft else judge(task, problem, reply))
except StopIteration as ended:
    (judged,) = ended.value
print("\n" + ("right" if judged.right else task.feedback(judged.verdicts[0])))
