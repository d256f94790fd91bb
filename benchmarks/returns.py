"""Returns of players of Gymnasium environments on a task's test problems: `python -m benchmarks.returns [NAME ...]`.

Random actions, the scripted player, and PPO of Stable-Baselines3 (extra `sb3`), each on the same seeds, with the 95 %
normal interval of the mean. PPO is trained with the hyperparameters of RL Baselines3 Zoo (hyperparams/ppo.yml), or
with those of Stable-Baselines3 where the Zoo has none, until its mean return over 100 episodes reaches the
environment's published threshold or the steps are used up; seeds of training are not those of the test.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from attrs import frozen

from gce.adapters.environments import gymnasium as adapter
from gce.app.tables.layout import table
from gce.app.wiring.tasks import find_task
from gce.domain.completions import Completion
from gce.domain.problems import Problem
from gce.domain.statistics import clustered_mean
from gce.domain.tasks import Task, draw_problems


@frozen
class Played:
    """An environment, the range of its returns, and how PPO learns it."""

    id: str
    low: float
    high: float
    actions: int
    steps: int
    """Of training at most."""
    threshold: float
    """The mean return at which training ends; the environment's own, where it has one."""
    environments: int = 8
    normalized: bool = False
    parameters: Mapping[str, Any] = {}

    @property
    def task(self) -> str:
        """Its name for `--task`."""
        return f"gymnasium:{self.id}?low={self.low}&high={self.high}&actions={self.actions}&problems=seeds"


def falling(value: float) -> Callable[[float], float]:
    """Falls to 0 with the steps that are left."""
    return lambda left: left * value


PLAYED = {
    "CartPole": Played(
        "CartPole-v1", 0.0, 500.0, 500, 100_000, 475.0,
        parameters={
            "n_steps": 32, "batch_size": 256, "gae_lambda": 0.8, "gamma": 0.98, "n_epochs": 20, "ent_coef": 0.0,
            "learning_rate": falling(0.001), "clip_range": falling(0.2),
        },
    ),
    "MountainCar": Played(
        "MountainCar-v0", -200.0, 0.0, 200, 1_000_000, -110.0, 16, True,
        parameters={"n_steps": 16, "gae_lambda": 0.98, "gamma": 0.99, "n_epochs": 4, "ent_coef": 0.0},
    ),
    "FrozenLake": Played("FrozenLake-v1", 0.0, 1.0, 100, 200_000, 0.7),
    "CarOnLane": Played(
        "gce.adapters.environments.car_on_lane:CarOnLane-v0", 0.0, 100.0, 100, 200_000, 85.0
    ),
}  # fmt: skip


def ppo(played: Played, seed: int) -> tuple[Callable[[Any], int], int]:
    """What chooses actions after training, and the steps that it took."""
    import gymnasium
    from stable_baselines3 import PPO
    from stable_baselines3.common.callbacks import BaseCallback
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.vec_env import VecNormalize

    class Enough(BaseCallback):  # type: ignore[misc, unused-ignore]
        def _on_step(self) -> bool:
            recent = [each["r"] for each in self.model.ep_info_buffer or ()]
            return len(recent) < 100 or float(np.mean(recent)) < played.threshold

    environments: Any = make_vec_env(partial(gymnasium.make, played.id), n_envs=played.environments, seed=seed)
    if played.normalized:
        environments = VecNormalize(environments)
    model = PPO("MlpPolicy", environments, seed=seed, device="cpu", **played.parameters)
    model.learn(played.steps, callback=Enough())

    def choose(observation: Any) -> int:
        if played.normalized:
            observation = environments.normalize_obs(np.asarray(observation))
        return int(model.predict(observation, deterministic=True)[0])

    return choose, model.num_timesteps


def plan_of(played: Played, choose: Callable[[Any], int], problem: Problem) -> str:
    """The actions of an episode, as an answer."""
    import gymnasium

    environment: Any = gymnasium.make(played.id)
    observation, over, actions = environment.reset(seed=problem.instance.row["seed"])[0], False, list[int]()
    while not over and len(actions) < played.actions:
        actions.append(choose(observation))
        observation, _, terminated, truncated, _ = environment.step(actions[-1])
        over = terminated or truncated
    return f"<answer>{' '.join(map(str, actions))}</answer>"


def returns(task: Task, played: Played, problems: Sequence[Problem], answers: Sequence[str]) -> list[float]:
    """By the task's own verdicts, in the environment's unit."""
    found = []
    for problem, answer in zip(problems, answers, strict=True):
        (verdict,) = task.judge(problem, Completion("answer", answer, "stop", policy=""))
        assert verdict.score is not None, verdict
        found.append(played.low + verdict.score * (played.high - played.low))
    return found


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("names", nargs="*", default=[*PLAYED], metavar="NAME", help=f"of {', '.join(PLAYED)}")
    parser.add_argument("--n", type=int, default=100, help="test problems (default: 100)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--without-ppo", action="store_true")
    asked = parser.parse_args()
    rows = []
    for name in asked.names:
        played = PLAYED[name]
        task = find_task(played.task)
        problems = draw_problems(task, "default", "default", "test", asked.n)
        players = {**task.references.prompt_blind(problems), **task.references.heuristics(problems)}
        answers = {
            player: [players[player](problem, random.Random(0)) or "" for problem in problems]
            for player in (adapter.RANDOM, adapter.SCRIPTED)
        }
        if not asked.without_ppo:
            choose, steps = ppo(played, asked.seed)
            answers[f"PPO, {steps:,} steps"] = [plan_of(played, choose, problem) for problem in problems]
        for player, given in answers.items():
            mean = clustered_mean([[each] for each in returns(task, played, problems, given)])
            cell = f"{mean.value:.2f} ({mean.low:.2f} to {mean.high:.2f})"
            rows.append([name, player, str(len(problems)), cell])
            print(*rows[-1], sep=", ", flush=True)
    print(table(["environment", "player", "n", "mean return"], rows, words=True))


if __name__ == "__main__":
    main()
