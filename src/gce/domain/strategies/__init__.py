"""Prompting strategies: one file for one or a few of them, and one line each in `STRATEGIES`."""

from __future__ import annotations

from collections.abc import Mapping

from gce.domain.strategies.attack import ATTACK
from gce.domain.strategies.coherence import COHERENCE
from gce.domain.strategies.consultation import CONSULTATION
from gce.domain.strategies.debate import SELF_DEBATE
from gce.domain.strategies.elicitation import FINAL_BELIEF, OPTION_LIKELIHOODS, REPEATED_SAMPLING
from gce.domain.strategies.episode import EPISODE
from gce.domain.strategies.interview import INTERVIEW
from gce.domain.strategies.judge import JUDGE
from gce.domain.strategies.label_search import LABEL_SEARCH
from gce.domain.strategies.multi_turn import MULTI_TURN
from gce.domain.strategies.mutual_predictability import MUTUAL_PREDICTABILITY
from gce.domain.strategies.opinions import STATED_OPINION
from gce.domain.strategies.orchestrate import MAJORITY, ORCHESTRATE
from gce.domain.strategies.peer_prediction import PEER_PREDICTION
from gce.domain.strategies.reasoning import CHAIN_OF_THOUGHT, DIRECT, LENGTH_CONTROLLED
from gce.domain.strategies.requests import Strategy
from gce.domain.strategies.revise import REVISE
from gce.domain.strategies.simulate import SIMULATE
from gce.domain.strategies.single_turn import FEW_SHOT, ZERO_SHOT
from gce.domain.strategies.stepwise import STEPWISE_EVIDENCE
from gce.domain.strategies.world_in_the_loop import WORLD_IN_THE_LOOP

__all__ = ["STRATEGIES", "Strategy"]

_ALL = (
    ZERO_SHOT,
    FEW_SHOT,
    MULTI_TURN,
    REVISE,
    EPISODE,
    CONSULTATION,
    SIMULATE,
    DIRECT,
    CHAIN_OF_THOUGHT,
    LENGTH_CONTROLLED,
    SELF_DEBATE,
    INTERVIEW,
    STATED_OPINION,
    STEPWISE_EVIDENCE,
    OPTION_LIKELIHOODS,
    REPEATED_SAMPLING,
    FINAL_BELIEF,
    COHERENCE,
    MUTUAL_PREDICTABILITY,
    PEER_PREDICTION,
    LABEL_SEARCH,
    WORLD_IN_THE_LOOP,
    JUDGE,
    ATTACK,
    MAJORITY,
    ORCHESTRATE,
)
STRATEGIES: Mapping[str, Strategy] = {strategy.name: strategy for strategy in _ALL}
