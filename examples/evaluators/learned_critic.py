"""A critic that is fitted to answers foretells those to other problems.

python examples/evaluators/learned_critic.py
"""

from typing import Any

import numpy as np

import gce
from gce.domain.evaluators.critic import fit_critic, quality


def answers(split: Any) -> list[Any]:
    """Two sampled answers to each of 15 problems of two tiers."""
    asked: Any = {"n": 15, "samples": 2, "temperature": 0.8, "tiers": ("T0", "T1"), "progress": False}
    return [each.last for each in gce.evaluate(split=split, **asked).conversations["zero-shot"]]


known, unseen = answers("dev"), answers("test")
critic = fit_critic([a.completion for a in known], [a.reward for a in known], [a.problem.tier for a in known])
predicted = np.array([critic(a.problem, a.completion) for a in unseen])
found = quality(predicted, np.array([a.reward for a in unseen], float))
print(f"{len(known)} answers to learn from, {len(unseen)} answers to other problems to predict")
print(f"right: {100 * np.mean([a.right for a in unseen]):.0f} %; R^2 {found.explained:.2f}, AUROC {found.auroc:.2f}")
