"""A plain loop over a model: it edits, its edits are measured, it is told the result, for a fixed number of turns.

Asks and measures through functions that it is given.
"""

from __future__ import annotations

from collections.abc import Callable, Set

from gce.domain.performance.decision import Comparison
from gce.domain.performance.edits import FORM, Reply, edited, read_reply
from gce.domain.performance.overlap import GAINS
from gce.domain.performance.patches import Tree, applied, difference
from gce.domain.problems import Message
from gce.domain.text import printable

__all__ = ["improve"]

_MOST_SHOWN = 60_000
"""Characters of files that one message shows."""
_MOST_LISTED = 400
"""Files that the first message lists."""


def improve(
    prompt: str,
    base: Tree,
    allowed: tuple[str, ...],
    *,
    turns: int,
    reserved: Set[str],
    ask: Callable[[tuple[Message, ...]], str | None],
    measure: Callable[[Tree], Comparison],
) -> tuple[dict[str, bytes], str]:
    """Ask a model for edits `turns` times, and tell it each time what became of them.

    Edits build on each other; those of paths that may not be changed are not made. The tree with the largest gain
    counts.

    Args:
        prompt: the task.
        base: the tree that it edits.
        allowed: patterns of the paths that it may change.
        turns: its replies.
        reserved: see `difference`.
        ask: returns the reply to a conversation; None if it is too long for the model.
        measure: compares a tree with the base, quickly.

    Returns:
        The best tree that was measured, or else the base, and why the loop ended early, if it did.
    """
    names = [path for path in sorted(base) if difference({}, {path: b""}, allowed).paths]
    listed = "\n".join(names[:_MOST_LISTED])
    said = [Message("user", f"{prompt}\n\n{FORM}\n\nYou have {turns} replies. Files that may be changed:\n{listed}")]
    tree, best, most = dict(base), dict(base), 1.0
    for turn in range(turns):
        text = ask(tuple(said))
        if text is None:
            return best, f"the model gave no reply in turn {turn + 1}"
        said.append(Message("assistant", text))
        reply = read_reply(text)
        told = []
        if reply.edits:
            wanted, faults = edited(tree, reply.edits)
            patch = difference(base, wanted, allowed, reserved=reserved)
            tree = applied(base, patch)
            told += [*faults, *(f"{printable(path)[:100]} may not be changed" for path in patch.refused)]
            if patch.changes:
                found = measure(tree)
                told.append(_in_words(found))
                if found.verdict in GAINS and found.gain is not None and found.gain.value > most:
                    best, most = dict(tree), found.gain.value
        if reply.done:
            break
        told += _shown(tree, reply)
        left = turns - turn - 1
        said.append(Message("user", "\n".join([*(told or ["Nothing was asked for."]), f"Replies left: {left}"])))
    return best, ""


def _in_words(found: Comparison) -> str:
    if found.verdict == "incorrect":
        return f"Incorrect: {printable(found.fault)[:500]}"
    if found.gain is None:
        return f"Measured: {found.verdict}"
    gain = found.gain
    return f"Correct; {gain.value:.2f} times as fast as before ({gain.low:.2f} to {gain.high:.2f}): {found.verdict}"


def _shown(tree: Tree, reply: Reply) -> list[str]:
    """Return the files that a reply asks for, as long as there is room."""
    shown, room = [], _MOST_SHOWN
    for path in reply.shown:
        if path not in tree:
            shown.append(f"There is no file {printable(path)[:100]}")
            continue
        text = tree[path].decode("utf-8", "replace")
        cut = text[:room]
        room -= len(cut)
        more = "" if len(cut) == len(text) else f"\n({len(text) - len(cut):,} more characters are not shown)"
        shown.append(f"FILE {path}\n{cut}{more}")
    return shown
