"""Does a critic with log-probabilities know more than the length?

python examples/evaluators/learned_critic_v1.py
"""

import gce

report = gce.critic(n=12, samples=3, seeds=3, tiers=("T0", "T1"), progress=False)
for each in report.critics:
    mean, low, high = each.spread(lambda quality: quality.explained)
    print(f"{each.name}: R^2 {mean:.3f} ({low:.3f} to {high:.3f} over {len(each.qualities)} deals)")
whole, length, _tier = (each.spread(lambda quality: quality.explained)[0] for each in report.critics)
print(f"{report.problems * report.samples} answers; beyond the length: {whole - length:+.3f} of R^2")
