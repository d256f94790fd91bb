"""A fingerprint of the language that the shipped model was trained on: wordings, grammars and feedback.

If the code's language changes, the shipped model no longer matches its model card.
"""

from __future__ import annotations

from hashlib import blake2b

from gce.domain.randomness import python_generator
from gce.domain.tasks.scheduling import conversation, wording
from gce.domain.tasks.scheduling.instance import Instance, Job, Resource
from gce.domain.tasks.scheduling.reasoning import worked_response
from gce.domain.tasks.scheduling.verify import feedback, verify

__all__ = ["language_fingerprint"]

SAMPLES = 300
"""Number of prompts drawn: enough for each wording of each section to occur many times."""

SPOKEN_OF = Instance(
    jobs=(
        Job("K", 3, (2, 1), 9),
        Job("B", 2, (1, 1)),
        Job("T", 4, (2, 2), 12),
        Job("M", 1, (1, 1), 5),
    ),
    precedence=(("B", "T"), ("K", "T")),
    resources=(Resource("workers", 3), Resource("machines", 2)),
    horizon=14,
)


def language_fingerprint() -> str:
    """Return 32 hexadecimal digits that change with any text that a model reads or is taught to write."""
    said = [wording.prompt_text(SPOKEN_OF, python_generator("language", index)) for index in range(SAMPLES)]
    said.append(wording.prompt_text(SPOKEN_OF, python_generator("language"), answer_only=True))
    order = ("M", "T", "K", "B")
    said.append(worked_response(SPOKEN_OF, order, deadlines=True))
    said.append(worked_response(SPOKEN_OF, order, later=lambda label: label in "MK"))
    said.append(worked_response(SPOKEN_OF, order, minds_sequence=lambda _: False, minds_resources=lambda _: False))
    wrong = "Answer: K 0, B 0, T 0, X 3"
    said.append(conversation.try_again(feedback(verify(SPOKEN_OF, wrong))))
    said += [conversation.LIST_CALL, conversation.DRAFT_CALL, conversation.ANSWER_CALL]
    said.append(conversation.constraint_list(SPOKEN_OF))
    return blake2b("\0".join(said).encode(), digest_size=16).hexdigest()
