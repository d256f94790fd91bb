"""Does revising every answer once help this model?

python examples/evaluators/revision.py
"""

import gce

asked = gce.evaluate(strategies=["revise@always"], n=6, tiers=("T0", "T1"), progress=False)
held = asked.conversations["revise@always"]
first = [next(a.right for a in each.attempts if a.reading == "first") for each in held]
revised = [a.right for each in held for a in each.attempts if a.reading == "revised"]
kept = [each.last.right for each in held]
print(f"first answers: {sum(first)} of {len(first)} right")
print(f"revisions: {sum(revised)} of {len(revised)} right")
print(f"the answer that the critic prefers, with no verifier asked: {sum(kept)} of {len(kept)} right")
print(f"mended {sum(b and not a for a, b in zip(first, kept, strict=True))}, ", end="")
print(f"spoiled {sum(a and not b for a, b in zip(first, kept, strict=True))}")
