"""One problem in three calls: the model lists the constraints, drafts against them, and answers. Only that is judged.

python examples/run_simulation.py [TIER [NUMBER]]
"""

import sys

import gce
from gce.app.config import with_recipe
from gce.app.models import find_model
from gce.app.modes import MODES

tier, number = (sys.argv[1:] + ["T1", "0"][len(sys.argv) - 1 :])[:2]
task = gce.TASKS["scheduling"]
model = find_model(with_recipe("gce", {}), task)
problem = gce.draw_problem(task, "grounded", tier, "test", int(number))

talk = MODES["simulate"](task, problem, None)
turns = next(talk)
try:
    while True:
        (reply,) = model.sample([gce.SampleRequest("reply", turns, seed=0, temperature=0.0, max_tokens=640)])
        print(f"\n--- asked\n{turns[-1].content}\n--- said\n{reply.text}")
        turns = talk.send(reply)
except StopIteration as ended:
    (judged,) = ended.value
print("\n" + ("right" if judged.right else task.feedback(judged.verdicts[0])))
