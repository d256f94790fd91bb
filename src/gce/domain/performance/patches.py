"""What a candidate changed: the difference of two trees of files, limited to the paths that it may change.

A patch is never a file that an agent wrote. Knows no file system: a tree is a mapping from paths to contents.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping, Set
from difflib import unified_diff
from hashlib import sha256
from itertools import islice

from attrs import field, frozen

from gce.domain.performance.task import is_allowed
from gce.domain.text import printable

__all__ = [
    "Change",
    "Finding",
    "KeptChange",
    "KeptPatch",
    "Patch",
    "Tree",
    "applied",
    "diff_text",
    "difference",
    "is_safe",
    "kept_patch",
    "lint",
    "patch_of",
    "reverted",
    "tree_digest",
]

Tree = Mapping[str, bytes]
"""Contents of files by path, relative to the root of the tree, with `/`."""

_MOST_DIFFED, _MOST_LINES = 1_000_000, 5_000
"""Bytes and lines of a file that is shown line by line; comparing more could take hours if the lines are hostile."""
_MOST_FINDINGS = 200
_HOOKS = frozenset({"sitecustomize", "usercustomize", "workload", "tests"})
"""Modules that an interpreter imports by itself, and names of the harness."""

_SUSPICIOUS: Mapping[str, re.Pattern[str]] = {
    "introspection": re.compile(
        r"\b(?:inspect|gc|ctypes|settrace|setprofile|_getframe|currentframe|f_back|tb_frame|sys\.modules|__builtins__"
        r"|builtins|importlib|meta_path|monitoring|__subclasses__)\b"
    ),
    "clock": re.compile(
        r"\b(?:perf_counter|process_time|monotonic|thread_time|getrusage|clock_gettime|setitimer|time\.(?:time|sleep)"
        r"|os\.times|import time|from time)\b"
    ),
    "environment": re.compile(
        r"\b(?:environ|getenv|getpid|getppid|sys\.argv|__main__|RLIMIT_\w+)\b|/proc\b|/sys\b|/tmp\b|/dev/shm\b"
    ),
    "process": re.compile(
        r"\b(?:subprocess|multiprocessing|threading|_thread|concurrent|asyncio|atexit|fork|popen|os\.system|signal)\b"
    ),
    "persistence": re.compile(r"\b(?:open|pickle|shelve|sqlite3|mmap|shared_memory|tempfile|lru_cache)\b|\bcache\("),
    "harness": re.compile(r"\b(?:workload|nonce|benchmark|harness|pytest|unittest|test_\w+|gce|bwrap|seed)\b", re.I),
}
"""Words by what they may be used for. An honest patch may contain them, too."""


def _short(text: str) -> str:
    return printable(text.strip())[:160]


@frozen
class Change:
    """One file before and after; None where it does not exist."""

    path: str
    before: bytes | None
    after: bytes | None


@frozen
class Patch:
    """Changes that are kept, sorted by path, and paths of changes that are not."""

    changes: tuple[Change, ...] = ()
    refused: tuple[str, ...] = ()
    """Paths that may not be changed, or are unsafe. Their changes are dropped."""

    @property
    def paths(self) -> tuple[str, ...]:
        """Those of the changes."""
        return tuple(change.path for change in self.changes)


@frozen
class Finding:
    """A word in an added line that an honest patch seldom needs."""

    path: str
    line: int
    """In the new file, from 1."""
    kind: str
    text: str = field(converter=_short)


def is_safe(path: str) -> bool:
    """Whether a path stays in the tree, is the same on every system, and is printable and not hidden."""
    parts = path.split("/")
    return (
        len(path) <= 240
        and path.isprintable()
        and not set(path) & set('\\:*?"<>|')
        and all(part and not part.startswith(".") and part.rstrip(". ") == part for part in parts)
    )


def difference(
    base: Tree, tree: Tree, allowed: tuple[str, ...], *, reserved: Set[str] = frozenset(), odd: tuple[str, ...] = ()
) -> Patch:
    """Return the difference of two trees.

    Args:
        base: the tree before.
        tree: the tree after.
        allowed: patterns of the paths that may be changed.
        reserved: names of modules that a new file at the root may not have: those of the standard library, which it
            would hide from the harness.
        odd: paths of what is no regular file in the tree after, such as links; they are refused, and so are changes of
            files that were in a directory of that path.
    """
    changed = [path for path in {*base, *tree} if base.get(path) != tree.get(path)]
    # Only one of two names that differ in nothing but case would exist on some systems.
    names = {path.casefold(): path for path in base}
    folders = {folder for path in base for folder in _folders(path.casefold())}
    links = frozenset(odd)
    kept, refused = [], set(odd)
    for path in sorted(changed):
        new = path not in base
        top = path.split("/")[0].partition(".")[0]
        hides = new and (top in reserved or top in _HOOKS) and not any(each.startswith(f"{top}/") for each in base)
        name, above = path.casefold(), _folders(path.casefold())
        # A base's file is never replaced by a directory, nor a directory by a file: half of that may not be allowed.
        collides = new and (names.get(name, path) != path or name in folders or not names.keys().isdisjoint(above))
        is_odd = not links.isdisjoint((path, *_folders(path)))
        if not is_safe(path) or not is_allowed(path, allowed) or hides or collides or is_odd:
            refused.add(path)
            continue
        kept.append(Change(path, base.get(path), tree.get(path)))
        if new:
            names[name] = path
            folders.update(above)
    return Patch(tuple(kept), tuple(sorted(refused)))


def _folders(path: str) -> list[str]:
    """Return the paths of the directories that a file is in."""
    return [path[:place] for place, sign in enumerate(path) if sign == "/"]


def applied(base: Tree, patch: Patch) -> dict[str, bytes]:
    """Return the tree with the changes.

    Raises:
        ValueError: a file is not as it was before the patch.
    """
    found = dict(base)
    for change in patch.changes:
        if found.get(change.path) != change.before:
            raise ValueError(f"{change.path!r} is not as it was when the patch was made")
        if change.after is None:
            del found[change.path]
        else:
            found[change.path] = change.after
    return found


def tree_digest(tree: Tree) -> str:
    """Return a digest of paths and contents."""
    found = sha256()
    for path, content in sorted(tree.items()):
        found.update(f"{len(path.encode())} {path} {len(content)} ".encode() + content)
    return found.hexdigest()


def reverted(patch: Patch) -> Patch:
    """Return the patch that takes the changes back."""
    return Patch(tuple(Change(each.path, each.after, each.before) for each in patch.changes))


def diff_text(patch: Patch) -> str:
    """Return the changes as a unified diff in the form of git, for people; contents that are not text are left out."""
    return "".join(line for change in patch.changes for line in _diff(change))


@frozen
class KeptChange:
    """A change as plain data, without what stood there before."""

    path: str
    before: str | None
    """SHA-256 of the file before; None where there was none."""
    after: str | None
    """Base64 of the file after; None where it is deleted."""


@frozen
class KeptPatch:
    """A patch as plain data, to be read beside its base."""

    changes: tuple[KeptChange, ...]


def kept_patch(patch: Patch) -> KeptPatch:
    """Return the changes as `patch_of` reads them."""
    return KeptPatch(
        tuple(
            KeptChange(
                each.path,
                None if each.before is None else sha256(each.before).hexdigest(),
                None if each.after is None else b64encode(each.after).decode(),
            )
            for each in patch.changes
        )
    )


def patch_of(kept: KeptPatch, base: Tree) -> Patch:
    """Return the changes that `kept_patch` kept.

    Raises:
        ValueError: the base is not that of the patch, or a file is no base64.
    """
    changes = []
    for each in kept.changes:
        before = base.get(each.path)
        if each.before != (None if before is None else sha256(before).hexdigest()):
            raise ValueError(f"{each.path!r:.200} is not as it was when the patch was made")
        after = None if each.after is None else b64decode(each.after, validate=True)
        changes.append(Change(each.path, before, after))
    return Patch(tuple(changes))


def lint(patch: Patch) -> tuple[Finding, ...]:
    """Return the first 200 suspicious words in added lines. A report: measuring must hold without it."""
    found = (
        Finding(change.path, number, kind, line)
        for change in patch.changes
        for number, line in _added(change)
        for kind, words in _SUSPICIOUS.items()
        if words.search(line)
    )
    return tuple(islice(found, _MOST_FINDINGS))


def _diff(change: Change) -> Iterator[str]:
    old, new = f"a/{change.path}", f"b/{change.path}"
    yield f"diff --git {old} {new}\n"
    if change.before is None:
        yield "new file mode 100644\n"
        old = "/dev/null"
    if change.after is None:
        yield "deleted file mode 100644\n"
        new = "/dev/null"
    before, after = _lines(change.before), _lines(change.after)
    if before is None or after is None:
        yield f"Binary files {old} and {new} differ\n"
        return
    for place, line in enumerate(unified_diff(before, after, old, new)):
        if place < 2:  # A tab ends a name with blanks.
            name = line.removesuffix("\n")
            yield f"{name}\t\n" if " " in name[4:] else line
        else:
            yield line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"


def _lines(content: bytes | None) -> list[str] | None:
    """Return lines with their ends, line feeds alone; None for what is not text, or too large to be compared."""
    if content is None:
        return []
    if len(content) > _MOST_DIFFED or b"\0" in content:
        return None
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return None
    *whole, last = text.split("\n")
    if len(whole) > _MOST_LINES:
        return None
    return [f"{line}\n" for line in whole] + ([last] if last else [])


def _added(change: Change) -> Iterator[tuple[int, str]]:
    """Yield the lines that a change adds, with their numbers; of large files, those that are new anywhere."""
    before, after = _lines(change.before), _lines(change.after)
    if before is None or after is None:
        known = set((change.before or b"").split(b"\n"))
        lines = enumerate((change.after or b"").split(b"\n"), 1)
        yield from ((number, line.decode("utf-8", "replace")) for number, line in lines if line not in known)
        return
    number = 0
    for line in unified_diff(before, after, n=0):
        if line.startswith("@@"):
            number = int(line.split("+")[1].split(" ")[0].split(",")[0])
        elif line.startswith("+") and number:
            yield number, line[1:]
            number += 1
