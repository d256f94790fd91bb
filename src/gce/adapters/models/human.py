"""A person at a terminal as a model: sees each prompt, types each answer.

Knows no terminal: lines are shown and read by functions that it is given. Wrapped in `Cached`, answers are kept, so
that nobody answers anything twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from gce.adapters.models.requests import all_different, cut_before
from gce.domain.completions import Completion, SampleRequest
from gce.domain.models import ModelInfo
from gce.domain.problems import Message
from gce.errors import BadInput, Unfinished

__all__ = ["HumanModel"]

HELP = "Type the answer, and end it with a line that has only a full stop. :skip leaves it out, :quit stops for now."
_MOST_CHARACTERS = 1 << 20
"""Of an answer."""


class HumanModel:
    """Asks one person for one answer after another. Limits on tokens, seeds and temperatures do not apply."""

    def __init__(self, show: Callable[[str], None], read: Callable[[int], str | None]) -> None:
        """`show` prints a line, whatever is in it.

        `read` returns the next line typed, of a longer one as many characters as it is given, and None at the end.
        """
        self._show = show
        self._read = read
        self._skipped = set[tuple[str, tuple[Message, ...]]]()
        self._info = ModelInfo("human", frozenset({"sample"}), greedy=True)

    def info(self) -> ModelInfo:
        """See `gce.ports.model.Model`. All people have one identity: give each a directory of answers."""
        return self._info

    def sample(self, requests: Sequence[SampleRequest]) -> Iterator[Completion]:
        """See `gce.ports.model.Sampler`. In the order of the requests.

        A skipped one is an `error`, also if it comes again.

        Raises:
            BadInput: an answer is too long.
            Unfinished: the person stops, or the input ends.
        """
        requests = all_different(requests)
        for place, request in enumerate(requests):
            question = (request.key, tuple(request.messages))
            if question in self._skipped:
                yield self._left_out(request)
                continue
            self._show(f"--- question {place + 1} of {len(requests)}")
            for message in request.messages:
                self._show(f"[{message.role}]")
                for line in message.content.split("\n"):
                    self._show(line)
            self._show(HELP)
            text = self._answer()
            if text is None:
                self._skipped.add(question)
                yield self._left_out(request)
            else:
                yield Completion(request.key, cut_before(text, request.stop), "stop", self._info.identity)

    def _left_out(self, request: SampleRequest) -> Completion:
        return Completion(request.key, "", "error", self._info.identity, error="the person left it out")

    def _answer(self) -> str | None:
        """Return what the person types; None for `:skip`."""
        lines, room = list[str](), _MOST_CHARACTERS
        while (line := self._read(room + 1)) is not None:
            room -= len(line)
            if room < 0:
                raise BadInput(f"an answer has at most {_MOST_CHARACTERS:,} characters")
            line = line.rstrip("\r\n")
            match line.strip():
                case ".":
                    return "\n".join(lines)
                case ":skip":
                    return None
                case ":quit":
                    break
            lines.append(line)
        raise Unfinished(
            "stopped before all questions were answered", hint="the same command goes on where this one stopped"
        )
