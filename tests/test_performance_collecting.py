"""Drafts of performance tasks from histories and releases: what is a candidate, hostile repositories, and drafts."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import time
import zipfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gce.adapters.performance import history as history_module
from gce.adapters.performance.history import open_history
from gce.adapters.performance.measuring import check_sources
from gce.adapters.performance.task_files import read_task
from gce.adapters.performance.trees import read_tree, write_files
from gce.app import cli
from gce.app.performance import drafts
from gce.app.performance.drafts import collect_commits, collect_releases
from gce.domain.performance.collecting import (
    SPEED,
    Target,
    draft_tests,
    draft_workload,
    import_root,
    is_source,
    measurable,
    targets_of,
)
from gce.domain.performance.patches import Change
from gce.domain.performance.sources import unfinished
from gce.domain.performance.task import PerformanceTask, Source
from gce.errors import BadInput

SLOW = """\
class Box:
    def get(self, key, *, size=1):
        return [key] * size


def total(n):
    return sum(range(n))
"""
FAST = SLOW.replace("sum(range(n))", "n * (n - 1) // 2")


def committed(repository: Path, files: dict[str, str], message: str) -> str:
    """Write files and commit them; the commit's hash."""
    write_files({path: text.encode() for path, text in files.items()}, repository)
    person = ["-c", "user.name=x", "-c", "user.email=x@localhost", "-c", "core.hooksPath=/dev/null"]
    said = ""
    for words in (["init", "-q"], ["add", "-A"], [*person, "commit", "-q", "-m", message], ["rev-parse", "HEAD"]):
        said = subprocess.run(["git", *words], cwd=repository, check=True, capture_output=True, text=True).stdout
    return said.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Five commits, of which the second and the last are about speed, and only the second changes a source."""
    place = tmp_path / "some project"
    committed(place, {"src/small/__init__.py": SLOW, "README": "x"}, "First")
    committed(place, {"src/small/__init__.py": FAST, "tests/test_small.py": ""}, "Make total\x1b faster\n\nO(1) now.")
    committed(place, {"src/small/__init__.py": FAST + "\nx = 1\n"}, "Add x")
    committed(place, {"src/small/__init__.py": SLOW}, "Undo")
    committed(place, {"docs/conf.py": "x = 1\n", "README": "y"}, "Docs: performance")
    return place


def test_commits_about_speed_become_drafts_that_name_what_is_missing(
    repository: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "drafts"
    assert cli.main(["performance", "collect", str(repository), "--out", str(out)]) == 0
    assert "\x1b" not in capsys.readouterr().err
    (place,) = out.iterdir()
    assert place.name.startswith("some-project-")
    assert read_tree(place / "base") == {"small/__init__.py": SLOW.encode()}
    assert read_tree(place / "human") == {"small/__init__.py": FAST.encode()}
    task = read_task(place)
    assert task.allowed == ("small/*.py",) and task.record.api == "total"
    assert task.record.commit_message == "Make total\x1b faster\n\nO(1) now.\n"
    with pytest.raises(BadInput, match=r"to be written: workload\.py: setup: return a tuple"):
        check_sources(task)
    assert cli.main(["performance", "validate", str(out)]) == 1
    said = capsys.readouterr().out.splitlines()
    assert said[0].endswith("a draft; to be written:")
    assert said[1].startswith("  workload.py: setup: ") and "on which total(n) is slow" in said[1]
    assert said[2].startswith("  tests.py: test_edge_cases: ")


def test_a_draft_is_refused_by_admit_and_a_completed_one_is_a_task(
    repository: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (name,) = collect_commits(repository, tmp_path / "drafts", match=None, most=5)
    place = tmp_path / "drafts" / name
    monkeypatch.setattr("gce.app.commands.performance.find_measuring", lambda *_: None)
    assert cli.main(["performance", "admit", str(place), "--json"]) == 1
    (found,) = json.loads(capsys.readouterr().out)
    assert found["reasons"][0].startswith("to be written: workload.py: setup") and found["measured"] is None
    workload = (place / "workload.py").read_text()
    (place / "workload.py").write_text(
        workload.split("    raise")[0] + "    return (1000,)\n" + workload[workload.index("\n\ndef run") :]
    )
    assert unfinished(read_task(place)) == (
        "tests.py: test_edge_cases: return what total(n) returns for edge cases, as plain data",
    )
    (place / "tests.py").write_text("def test_zero():\n    from small import total\n    return total(0)\n")
    check_sources(read_task(place))
    assert cli.main(["performance", "validate", str(place)]) == 0
    (place / "tests.py").write_text("x = 1\n")
    capsys.readouterr()
    assert cli.main(["performance", "admit", str(place)]) == 1
    assert capsys.readouterr().out.splitlines()[1] == "  tests.py defines no function test_*"


def test_without_a_candidate_nothing_is_written(repository: Path, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"has no candidate: 4 commits read, 0 with a matching message, 0 left out"):
        collect_commits(repository, tmp_path / "drafts", match="nowhere said", most=5)
    with pytest.raises(BadInput, match="expected a regular expression"):
        collect_commits(repository, tmp_path / "drafts", match="(", most=5)
    with pytest.raises(BadInput, match="cannot read"):
        collect_commits(tmp_path, tmp_path / "drafts", match=None, most=5)
    assert not (tmp_path / "drafts").exists()


def test_nothing_that_a_repository_configures_is_run(repository: Path, tmp_path: Path) -> None:
    """Each program that its configuration names would leave a file."""
    left = tmp_path / "left"
    program = tmp_path / "program.sh"
    program.write_text(f"#!/bin/sh\ntouch {left}\ncat\n")
    program.chmod(0o755)
    for name in ("post-checkout", "post-index-change", "reference-transaction", "fsmonitor-watchman"):
        (repository / ".git" / "hooks").mkdir(exist_ok=True)
        (repository / ".git" / "hooks" / name).symlink_to(program)
    settings = {
        "diff.external": program,
        "core.fsmonitor": program,
        "core.pager": program,
        "core.sshCommand": program,
        "diff.x.textconv": program,
        "diff.x.command": program,
        "filter.x.smudge": program,
        "gpg.program": program,
        "log.showSignature": "true",
        "pager.log": "true",
        "remote.origin.url": f"ext::{program}",
        "remote.origin.promisor": "true",
        "protocol.ext.allow": "always",
        "extensions.partialClone": "origin",
        "core.repositoryFormatVersion": "1",
    }
    for key, value in settings.items():
        subprocess.run(["git", "config", key, str(value)], cwd=repository, check=True)
    (repository / ".git" / "info").mkdir(exist_ok=True)
    (repository / ".git" / "info" / "attributes").write_text("* diff=x filter=x\n")
    assert len(collect_commits(repository, tmp_path / "drafts", match=None, most=5)) == 1
    assert not left.exists()
    subprocess.run(["git", "status"], cwd=repository, capture_output=True, check=False)
    assert left.exists()  # What git does with this configuration.


def test_a_tree_has_the_files_that_attributes_would_leave_out_or_change(tmp_path: Path) -> None:
    place = tmp_path / "r"
    files = {
        "m.py": "x = '$Format:%H$'\n",
        "kept.py": "y = 1\n",
        ".gitattributes": "kept.py export-ignore\n* export-subst\n",
    }
    commit = committed(place, files, "x")
    committed(place, {"m.py": "x = 2\n"}, "y")
    with open_history(place) as history:
        assert history.tree(commit) == {path: files[path].encode() for path in ("m.py", "kept.py")}
        assert history.tree(f"{history.head}^") == history.tree(commit)
        with pytest.raises(BadInput, match="expected the hash of a commit"):
            history.tree("--output=/tmp/x")


def test_an_object_that_is_absent_is_said_and_not_fetched(repository: Path) -> None:
    with open_history(repository) as history:
        blob = history.files(history.head)["src/small/__init__.py"]
        (repository / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
        with pytest.raises(BadInput, match="lacks the object"):
            history.tree(history.head)


def imported(repository: Path, stream: str) -> None:
    """Make a repository of a stream of `git fast-import`."""
    for words, read in ((["init", "-q", "-b", "main"], ""), (["fast-import", "--quiet"], stream)):
        subprocess.run(["git", *words], cwd=repository, input=read.encode(), check=True, capture_output=True)


def commit_of(number: int, message: str, path: str, text: str) -> str:
    told = f"commit refs/heads/main\ncommitter x <x@localhost> {number} +0000\ndata {len(message)}\n{message}\n"
    return f"{told}M 100644 inline {path}\ndata {len(text)}\n{text}\n"


@pytest.mark.slow
def test_of_very_many_commits_the_last_are_read_within_bounds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """6,000 commits about speed, each with a message of 1,000 characters: by number, by output and by time."""
    place = tmp_path / "r"
    place.mkdir()
    message = "Faster " + "x" * 993
    texts = (f"def f():\n    return {number}\n" for number in range(6_000))
    imported(place, "".join(commit_of(number, message, "m.py", text) for number, text in enumerate(texts)))
    with open_history(place) as history:
        newest = history.commits(4_000)
        assert len(newest) == 4_000 and newest[0].message.startswith("Faster")
    monkeypatch.setattr(history_module, "_MOST_LISTED", 10**6)
    with open_history(place) as history:
        found = history.commits(4_000)
        assert 800 < len(found) < 1_000 and found == newest[: len(found)]
    monkeypatch.setattr(drafts, "MOST_SECONDS", 3)
    began = time.monotonic()
    with contextlib.suppress(BadInput):  # No candidate: on a machine so busy that nothing was read in time.
        collect_commits(place, tmp_path / "drafts", match=None, most=1_000)
    assert time.monotonic() - began < 60
    assert "stopped after 3 s" in capsys.readouterr().err
    with open_history(place, 0.0) as history:
        assert history.is_over and history.commits(20_000) == []
        with pytest.raises(BadInput, match="git took more than 0 s"):
            history.files(history.head)


@pytest.mark.slow
def test_commits_of_very_large_differences_are_left_out_and_the_others_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A source of 5 MB, and 20,000 changed files; neither is parsed or checked out."""
    place = tmp_path / "r"
    place.mkdir()
    many = "".join(f"M 100644 inline d/{number // 100}/{number}.txt\ndata 1\nx\n" for number in range(20_000))
    stream = commit_of(1, "First", "m.py", SLOW) + commit_of(2, "Faster", "m.py", FAST)
    stream += commit_of(3, "Faster by a table", "m.py", FAST + "x = (" + "1, " * 1_700_000 + ")\n")
    stream += commit_of(4, "Fast path", "n.py", SLOW) + many
    imported(place, stream)
    monkeypatch.setattr(history_module, "_MOST_LISTED", 2**20)
    (name,) = collect_commits(place, tmp_path / "drafts", match=None, most=5)
    assert read_tree(tmp_path / "drafts" / name / "human") == {"m.py": FAST.encode()}
    assert "2 commits left out, the last because" in capsys.readouterr().err
    with pytest.raises(BadInput, match="2 with a matching message, 2 left out"):
        collect_commits(place, tmp_path / "none", match="table|path", most=5)


@pytest.mark.slow
def test_drafts_have_a_bound_together(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    committed(repository, {"src/small/__init__.py": FAST}, "Faster again")
    assert len(collect_commits(repository, tmp_path / "both", match=None, most=5)) == 2
    monkeypatch.setattr(drafts, "MOST_DRAFTED", 2 * len(SLOW) + 100)
    assert len(collect_commits(repository, tmp_path / "one", match=None, most=5)) == 1
    assert "stopped at 0 MiB of drafts" in capsys.readouterr().err


def test_the_bounds_stand_in_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["performance", "--help"])
    said = " ".join(capsys.readouterr().out.split())
    assert "20,000 commits at most, for 10 minutes, and writes up to 1,024 MiB of sources" in said


def change(path: str, before: str | None = SLOW, after: str | None = FAST) -> Change:
    return Change(path, None if before is None else before.encode(), None if after is None else after.encode())


def test_targets_exist_before_and_after_and_public_ones_come_first() -> None:
    hidden = change("a/_m.py", "def f(x): return 1", "def f(x): return 2")
    added = change("a/b.py", "def g(): pass", "def g(): pass\ndef h(): pass")
    method = change("b/m.py", SLOW, SLOW.replace("[key] * size", "[key for _ in range(size)]"))
    assert targets_of([hidden, added, method, change("tests/test_m.py"), change("m.py", None)]) == (
        Target("b/m.py", "Box.get", "get(self, key, *, size=1)"),
        Target("a/_m.py", "f", "f(x)"),
    )


@pytest.mark.parametrize("path", ["a.py", "src/a/b.py", "testing_tools/a.py", "contest/a.py"])
def test_sources(path: str) -> None:
    assert is_source(path)


@pytest.mark.parametrize(
    "path", ["a.pyi", "tests/a.py", "a/test_b.py", "setup.py", "docs/conf.py", "../a.py", ".x/a.py"]
)
def test_other_files(path: str) -> None:
    assert not is_source(path)


def test_commits_with_compiled_or_many_sources_are_no_candidates() -> None:
    assert measurable(["a.py", "tests/test_a.py"])
    assert not measurable(["a.py", "a.pyx"])
    assert not measurable([f"a{number}.py" for number in range(11)])
    assert not measurable(["README.md"])


@pytest.mark.parametrize(
    ("said", "is_about_speed"),
    [
        ("Speed up f", True),
        ("PERF: avoid copies", True),
        ("make it O(n log n)", True),
        ("Optimise lookups", True),
        ("Fix a typo", False),
        ("Perforce support", False),
        ("fasteners", False),
    ],
)
def test_messages(said: str, is_about_speed: bool) -> None:
    assert bool(SPEED.search(said)) is is_about_speed


def test_import_root_is_above_the_topmost_package() -> None:
    files = {"src/a/__init__.py", "src/a/b/__init__.py", "src/a/b/c.py", "m.py"}
    assert import_root("src/a/b/c.py", files) == "src/"
    assert import_root("m.py", files) == ""


SIGNATURES = st.text(max_size=300)


@pytest.mark.slow
@given(SIGNATURES, st.sampled_from(["a/b.py", "a-b/c.py", "class.py", "a/__init__.py"]), st.sampled_from(["f", "A.f"]))
def test_a_draft_is_python_that_lacks_its_input_and_its_tests_whatever_was_changed(
    signature: str, path: str, name: str
) -> None:
    targets = (Target(path, name, signature),)
    task = PerformanceTask(
        name="t",
        base=Source(directory="b"),
        human=Source(directory="h"),
        workload=draft_workload(targets),
        tests=draft_tests(targets),
    )
    lacking = [line.split(":")[1].strip() for line in unfinished(task)]
    whole = path in ("a/b.py", "a/__init__.py") and name == "f"
    assert lacking == ["setup", *([] if whole else ["run"]), "test_edge_cases"]
    compile(task.workload, "w", "exec")


def test_what_raises_elsewhere_is_no_draft() -> None:
    workload = "class A:\n    def f(self):\n        raise NotImplementedError\ndef setup(seed): raise ValueError\n"
    task = PerformanceTask(
        name="t", base=Source(directory="b"), human=Source(directory="h"), workload=workload, tests="("
    )
    assert unfinished(task) == ()


def test_releases_are_compared_and_pinned_by_hash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three releases: the second changes a function, the third nothing but a constant."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    sources = {"1.0": SLOW, "1.1": FAST, "1.2": FAST + "\nx = 1\n"}

    def downloads(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        folder, file = command[command.index("--dest") + 1], command[command.index("--requirement") + 1]
        version = Path(file).read_text().strip().removeprefix("small==")
        with zipfile.ZipFile(os.path.join(folder, f"small-{version}-py3-none-any.whl"), "w") as archive:
            archive.writestr("small/__init__.py", sources[version])
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(subprocess, "run", downloads)
    assert collect_releases("small==1.0,1.1,1.2", tmp_path / "drafts") == ["small-1.1"]
    task = read_task(tmp_path / "drafts" / "small-1.1")
    assert [pin.version for pin in (*task.base.pins, *task.human.pins)] == ["1.0", "1.1"]
    assert task.notes == "Changed functions:\nsmall/__init__.py: total"
    assert len(unfinished(task)) == 2
    with pytest.raises(BadInput, match="none of these releases"):
        collect_releases("small==1.1,1.2", tmp_path / "others")
    assert not (tmp_path / "others").exists()


@pytest.mark.parametrize(
    "releases", ["small", "small==1", "small==1,1", "small==1,2,1,2", "a;b==1,2", "small==1.0,--index-url=x"]
)
def test_releases_of_another_form_are_refused(releases: str, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="expected NAME==OLD,NEW"):
        collect_releases(releases, tmp_path / "drafts")
