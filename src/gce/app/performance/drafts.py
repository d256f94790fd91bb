"""Drafts of performance tasks, as directories: from commits of a repository, and from releases of a package.

A draft is read like a task, but cannot be measured before a person has completed its workload and tests.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from attrs import evolve, frozen

from gce.app.settings.config_file import toml_value
from gce.app.terminal import note
from gce.app.wiring.files import whole_folder
from gce.app.wiring.performance import (
    History,
    cache_of_wheels,
    find_wheel,
    open_history,
    read_tree,
    unpack_wheels,
    write_files,
)
from gce.domain.performance.collecting import (
    SPEED,
    Commit,
    Target,
    draft_tests,
    draft_workload,
    import_root,
    is_source,
    measurable,
    notes_on,
    targets_of,
)
from gce.domain.performance.patches import Tree, difference
from gce.domain.performance.task import Pin, Record, Source
from gce.domain.serialization import to_plain
from gce.domain.text import counted
from gce.errors import BadInput, one_line

__all__ = ["Draft", "collect_commits", "collect_releases", "task_name", "write_draft"]

MOST_COMMITS = 20_000
"""Commits whose messages are read."""
MOST_SECONDS, MOST_DRAFTED = 600, 2**30
"""Time in which further commits of a repository are looked at, and bytes of sources in its drafts."""
_MOST_MESSAGE = 10_000
_RELEASE = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._+!-]*[A-Za-z0-9])?")
_NOTHING_KNOWN = Record()
_DIRECTORIES = (Source(directory="base"), Source(directory="human"))


@frozen(kw_only=True)
class Draft:
    """What `write_draft` writes."""

    name: str
    sources: tuple[Source, Source] = _DIRECTORIES
    """Base and human."""
    trees: Mapping[str, Tree] = {}
    """Files of the directories that `sources` name."""
    workload: str
    tests: str
    allowed: tuple[str, ...] = ()
    notes: str = ""
    record: Record = _NOTHING_KNOWN

    @property
    def size(self) -> int:
        """Bytes of its trees."""
        return sum(len(content) for tree in self.trees.values() for content in tree.values())


def task_name(text: str) -> str:
    """Return a text as the name of a task and of its directory."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-._") or "task"


def write_draft(draft: Draft, place: Path) -> None:
    """Write a draft to a directory, which is made."""
    place.mkdir()
    for name, tree in draft.trees.items():
        write_files(tree, place / name)
    for name, text in {"workload.py": draft.workload, "tests.py": draft.tests, "task.toml": _task_toml(draft)}.items():
        (place / name).write_text(text, encoding="utf-8")


def collect_commits(repository: Path, out: Path, *, match: str | None, most: int) -> list[str]:
    """Write a draft for each commit of a local repository that may be about speed, newest first; return their names.

    A candidate's message matches, it changes few Python sources and no compiled ones, and at least one function that
    exists before and after. Nothing of the repository is run.

    Args:
        repository: a local clone; it need not be trusted.
        out: folder for the drafts; new, or empty.
        match: a regular expression that a message must contain; None for words about speed.
        most: drafts.

    Raises:
        BadInput: no repository, no regular expression, or no candidate within `MOST_SECONDS` and `MOST_DRAFTED`.
    """
    try:
        words = SPEED if match is None else re.compile(match)
    except (re.error, RecursionError, OverflowError) as error:
        raise BadInput(f"expected a regular expression, got {match!r:.60}: {error}", hint="change {match}") from error
    with whole_folder(out, durable=False) as folder, open_history(repository, MOST_SECONDS) as history:
        commits = history.commits(MOST_COMMITS)
        names: list[str] = []
        unread: list[str] = []
        size = matching = 0
        for commit in commits:
            if len(names) == most or history.is_over:
                break
            if not words.search(commit.message[:_MOST_MESSAGE]):
                continue
            matching += 1
            name = f"{task_name(repository.resolve().name)}-{commit.hash[:12]}"
            try:
                draft = _of_commit(name, commit, history)
            except BadInput as error:
                unread.append(str(error))
                continue
            if draft is None:
                continue
            size += draft.size
            if size > MOST_DRAFTED:
                note(f"stopped at {MOST_DRAFTED // 2**20:,} MiB of drafts, before {name}")
                break
            write_draft(draft, folder / name)
            note(f"{name}: {one_line(commit.message)[:80]}")
            names.append(name)
        if history.is_over:
            note(f"stopped after {MOST_SECONDS} s, with {matching:,} of {counted(len(commits), 'commit')} that match")
        if unread:
            note(f"{counted(len(unread), 'commit')} left out, the last because {unread[-1]}")
        if not names:
            raise BadInput(
                f"{repository} has no candidate: {counted(len(commits), 'commit')} read, {matching:,} with a "
                f"matching message, {len(unread):,} left out",
                hint="give another {match}",
            )
    return names


def collect_releases(releases: str, out: Path) -> list[str]:
    """Write a draft for each pair of successive releases that changes a function, and return their names.

    The wheels are downloaded into the cache of wheels, compared by function, and pinned by their hashes.

    Args:
        releases: `NAME==OLD,NEW,...`, the name of a package and at least two versions, each once, oldest first.
        out: folder for the drafts; new, or empty.

    Raises:
        BadInput: text of another form, a release without a pure Python wheel, or no pair that changes a function.
    """
    package, _, after = releases.partition("==")
    versions = after.split(",")
    if len(set(versions)) < max(2, len(versions)) or not all(map(_RELEASE.fullmatch, (package, *versions))):
        raise BadInput(f"expected NAME==OLD,NEW,..., got {releases!r:.100}", hint="change {releases}")
    with whole_folder(out, durable=False) as folder, TemporaryDirectory(prefix="gce-") as home:
        names: list[str] = []
        found: list[tuple[Pin, Tree]] = []
        for number, version in enumerate(versions):
            note(f"downloading {package} {version}")
            pin, place = find_wheel(package, version, cache_of_wheels()), Path(home, str(number))
            unpack_wheels([pin], cache_of_wheels(), place)
            found.append((pin, read_tree(place)))
        for (old, base), (new, human) in pairwise(found):
            targets = targets_of(difference(base, human, ("*.py",)).changes)
            if targets:
                names.append(task_name(f"{package}-{new.version}"))
                write_draft(_of_releases(names[-1], (old, new), targets), folder / names[-1])
        if not names:
            raise BadInput(f"none of these releases of {package} changes a function: {', '.join(versions)}")
    return names


def _of_commit(name: str, commit: Commit, history: History) -> Draft | None:
    """Return the draft of a commit; None if it is no candidate."""
    changed = history.changed(commit)
    if not measurable(changed):
        return None
    sources = {path: hashes for path, hashes in changed.items() if is_source(path)}
    targets = targets_of(history.changes(sources))
    if not targets:
        return None
    root = import_root(targets[0].path, history.files(commit.parent).keys())
    within = [evolve(each, path=each.path.removeprefix(root)) for each in targets if each.path.startswith(root)]
    return Draft(
        name=name,
        trees={"base": history.tree(commit.parent, root), "human": history.tree(commit.hash, root)},
        workload=draft_workload(within),
        tests=draft_tests(within),
        allowed=_allowed([path.removeprefix(root) for path in sources if path.startswith(root)]),
        notes=notes_on(within),
        record=Record(
            created_at=commit.date,
            base_commit=commit.parent,
            head_commit=commit.hash,
            api=within[0].name,
            commit_message=commit.message[:_MOST_MESSAGE],
        ),
    )


def _of_releases(name: str, pins: tuple[Pin, Pin], targets: Sequence[Target]) -> Draft:
    return Draft(
        name=name,
        sources=(Source(pins=pins[:1]), Source(pins=pins[1:])),
        workload=draft_workload(targets),
        tests=draft_tests(targets),
        allowed=_allowed([each.path for each in targets]),
        notes=notes_on(targets),
        record=Record(api=targets[0].name),
    )


def _allowed(paths: Sequence[str]) -> tuple[str, ...]:
    """Return patterns for the packages of these modules."""
    return tuple(sorted({f"{path.split('/')[0]}/*.py" if "/" in path else path for path in paths}))


def _task_toml(draft: Draft) -> str:
    base, human = (_given(to_plain(source)) for source in draft.sources)
    kept, none = to_plain(draft.record), to_plain(_NOTHING_KNOWN)
    sections: Mapping[str, Mapping[str, Any]] = {
        "metadata": {"name": draft.name},
        "performance": _given({"allowed": list(draft.allowed), "notes": draft.notes}),
        "performance.base": base,
        "performance.human": human,
        "performance.record": {key: value for key, value in kept.items() if value != none[key]},
    }
    lines = []
    for title, values in sections.items():
        lines += [f"[{title}]", *(f"{key} = {toml_value(value)}" for key, value in values.items()), ""]
    return "\n".join(lines)


def _given(values: Mapping[str, Any]) -> Mapping[str, Any]:
    return {key: value for key, value in values.items() if value}
