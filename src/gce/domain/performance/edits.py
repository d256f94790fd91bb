"""How a model asks for files and edits them, in a form that is read strictly and applied to a tree in memory.

Search and replace blocks in the form of aider: https://aider.chat/docs/more/edit-formats.html
"""

from __future__ import annotations

from attrs import frozen

from gce.domain.performance.patches import Tree

__all__ = ["FORM", "Edit", "Reply", "edited", "read_reply"]

FORM = """\
Ask for files with lines of the form
SHOW path/to/file.py
Change a file with blocks of the form
FILE path/to/file.py
<<<<<<< SEARCH
lines as they are, once in the file
=======
lines as they shall be
>>>>>>> REPLACE
An empty SEARCH part makes a new file. Say DONE on a line of its own when nothing is left to do."""

_START, _MIDDLE, _END = "<<<<<<< SEARCH", "=======", ">>>>>>> REPLACE"
_MOST = 50
"""Requests and edits of one reply."""


@frozen
class Edit:
    """One block: lines of a file and what takes their place."""

    path: str
    old: str
    new: str


@frozen
class Reply:
    """What a model wants."""

    shown: tuple[str, ...] = ()
    """Paths of files that it asks for."""
    edits: tuple[Edit, ...] = ()
    done: bool = False


def read_reply(text: str) -> Reply:
    """Return the requests in any text, in linear time. A block that is not whole is left out."""
    shown: dict[str, None] = {}
    edits: list[Edit] = []
    path, done = "", False
    old: list[str] | None = None
    new: list[str] | None = None
    for line in text.split("\n"):
        word = line.rstrip()
        if new is not None:
            if word == _END:
                edits.append(Edit(path, _joined(old or []), _joined(new)))
                old = new = None
            else:
                new.append(line)
        elif old is not None:
            if word == _MIDDLE:
                new = []
            else:
                old.append(line)
        elif word == _START and path:
            old = []
        elif word.startswith("FILE "):
            path = word[5:].strip()
        elif word.startswith("SHOW "):
            shown[word[5:].strip()] = None
        elif word in ("DONE", "DONE."):
            done = True
    return Reply(tuple(shown)[:_MOST], tuple(edits[:_MOST]), done)


def edited(tree: Tree, edits: tuple[Edit, ...]) -> tuple[dict[str, bytes], tuple[str, ...]]:
    """Return the tree after the edits that could be made, and why the others could not, one line each."""
    found, faults = dict(tree), []
    for number, edit in enumerate(edits, 1):
        where = f"block {number}, {edit.path!r:.100}"
        if not edit.old:
            if edit.path in found:
                faults.append(f"{where}: the file exists already, and SEARCH is empty")
            else:
                found[edit.path] = edit.new.encode("utf-8", "replace")
            continue
        if edit.path not in found:
            faults.append(f"{where}: there is no such file")
            continue
        try:
            text = found[edit.path].decode()
        except UnicodeDecodeError:
            faults.append(f"{where}: the file is not UTF-8")
            continue
        count = text.count(edit.old)
        if count != 1:
            faults.append(f"{where}: the SEARCH part occurs {count} times, expected once")
        else:
            found[edit.path] = text.replace(edit.old, edit.new).encode("utf-8", "replace")
    return found, tuple(faults)


def _joined(lines: list[str]) -> str:
    return "".join(f"{line}\n" for line in lines)
