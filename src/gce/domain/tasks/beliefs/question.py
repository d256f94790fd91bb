"""A question of belief: a claim, evidence that arrives piece by piece, and what is known of the exact posterior."""

from __future__ import annotations

from math import log
from typing import Literal

from attrs import field, frozen, validators

from gce.domain.serialization import OMIT_DEFAULT
from gce.domain.tasks.beliefs.counting import Finish, Urn
from gce.domain.tasks.beliefs.elections import CountNight, Polls
from gce.domain.tasks.beliefs.log_odds import shifted
from gce.domain.tasks.beliefs.sources import Machine, Witnesses

__all__ = ["BeliefQuestion", "Opinion", "Related", "World"]

World = Witnesses | Machine | CountNight | Polls | Urn | Finish
"""What a question was drawn from. Each has `pieces`, `posterior(seen)`, `canonical`."""

_unit = validators.and_(validators.ge(0.0), validators.le(1.0))
_probability = validators.optional(_unit)


@frozen
class Opinion:
    """What a user says before the question is answered."""

    option: Literal[0, 1, None] = field(validator=validators.in_((0, 1, None)))
    """The option that the user believes in: 0, the claim; 1, its opposite; None for a user who says nothing of it."""
    reliability: float | None = field(
        default=None, validator=validators.optional(validators.and_(validators.gt(0.0), validators.lt(1.0)))
    )
    """The stated probability, above 0 and below 1, that such a user is right, whatever is true; None if the prompt does
    not state it."""

    @property
    def shift(self) -> float:
        """By how much a Bayesian moves the log-odds of the claim: 0 without a stated reliability."""
        if self.reliability is None or self.option is None:
            return 0.0
        moved = log(self.reliability / (1.0 - self.reliability))
        return moved if self.option == 0 else -moved


@frozen
class Related:
    """Further claims of the same world whose probabilities hang together, for tests of coherence."""

    kind: Literal["implication", "partition"] = field(validator=validators.in_(("implication", "partition")))
    """implication: each claim implies the next. partition: exactly one of the claims is true."""
    claims: tuple[str, ...]
    """Clauses, as `BeliefQuestion.claim`."""
    posteriors: tuple[float, ...]
    """The exact posterior of each given all evidence: they do not decrease, or their sum is 1."""


@frozen(kw_only=True)
class BeliefQuestion:
    """A claim (option 0) and its opposite (option 1), with evidence; beliefs are probabilities of option 0."""

    family: str
    """sources, elections or counting for worlds; for a file: forecasting, changemyview, weather or questions."""
    claim: str
    """Completes the question: "What is the probability that ..."; for a file, the question itself."""
    options: tuple[str, str]
    """The claim and its opposite, as sentences or names."""
    background: str = ""
    """What holds before any evidence: base rate, chances, what houses, urns or runners there are."""
    evidence: tuple[str, ...] = ()
    """The pieces of evidence, in the order in which they arrive."""
    prior: float | None = field(default=None, validator=_probability)
    """The exact probability of the claim before any evidence; a stated base rate; None if unknown."""
    path: tuple[float, ...] = field(default=(), validator=validators.deep_iterable(_unit))
    """The exact posterior after each piece of evidence; empty if unknown."""
    posterior: float | None = field(default=None, validator=_probability)
    """The exact posterior after all evidence, without an opinion; None if unknown."""
    outcome: Literal[0, 1, None] = None
    """1 if the claim turned out true, 0 if false, as `y` in (b - y)^2; None if unknown."""
    withheld: str = ""
    """A further piece of evidence, drawn from the same world and never shown: the world's own reply to an inquiry."""
    posterior_with_withheld: float | None = field(default=None, validator=_probability)
    """The exact posterior if the withheld piece were known too."""
    opinion: Opinion | None = field(default=None, metadata=OMIT_DEFAULT)
    """What a user says of the question; None if there is no user. See `wording.with_opinion`."""
    signals: tuple[Literal[-1, 0, 1], ...] = field(default=(), metadata=OMIT_DEFAULT)
    """For questions from a file, whether each piece speaks for the claim, 1, or against it, -1; empty if unknown."""
    related: tuple[Related, ...] = field(default=(), metadata=OMIT_DEFAULT)
    """Claims to test coherence with; that the claim and its opposite add up to 1 goes without saying."""
    digest: str = field(default="", metadata=OMIT_DEFAULT)
    """Names a question from a file; empty for one of a world."""
    subtype: str = ""
    """Which kind of world of the family."""
    world: World | None = None
    """The world's parameters and evidence, from which the posterior is computed; None for a file."""

    def __attrs_post_init__(self) -> None:
        if self.path and (len(self.path) != len(self.evidence) or self.path[-1] != self.posterior):
            raise ValueError(
                f"expected a posterior after each of {len(self.evidence)} pieces of evidence, the last one "
                f"{self.posterior}, got {self.path}"
            )

    @property
    def target(self) -> float | None:
        """The belief that is scored as perfect: the exact posterior, an opinion of stated reliability included.

        The outcome, if the posterior is unknown; None if nothing is known.
        """
        if self.posterior is None:
            return None if self.outcome is None else float(self.outcome)
        return self.posterior if self.opinion is None else shifted(self.posterior, self.opinion.shift)
