"""The loop over a model, records of ISO-Bench and GSO, and the figure of ratios: no process is started."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest
from attrs import evolve, fields
from hypothesis import given
from hypothesis import strategies as st

from gce.adapters.performance.measuring import check_sources
from gce.adapters.performance.task_files import read_task
from gce.adapters.performance.trees import read_tree, write_files
from gce.app.performance import records
from gce.app.performance.records import import_records
from gce.domain.figures import Ratios
from gce.domain.performance.decision import Comparison, Round, Timing
from gce.domain.performance.gso import NAMES, OWN
from gce.domain.performance.iso_bench import IsoRecord, measured_record, record_of_task
from gce.domain.performance.model_loop import improve
from gce.domain.performance.patches import Tree, difference
from gce.domain.performance.sources import unfinished
from gce.domain.performance.task import PerformanceTask, Source
from gce.domain.problems import Message
from gce.domain.serialization import to_plain
from gce.domain.statistics import Estimate
from gce.errors import BadInput

FASTER = Comparison("a", "matches the human", (), Estimate(4.0, 3.9, 4.1), None, Estimate(4.0, 3.9, 4.1))
WRONG = Comparison("b", "incorrect", fault="returned another value than the base")


class Scripted:
    """Gives replies and comparisons in turn, and notes what it is asked."""

    def __init__(self, replies: list[str | None], comparisons: list[Comparison]) -> None:
        self.replies, self.comparisons = replies, comparisons
        self.told: list[str] = []
        self.tried: list[Tree] = []

    def ask(self, messages: tuple[Message, ...]) -> str | None:
        self.told.append(messages[-1].content)
        return self.replies.pop(0)

    def measure(self, tree: Tree) -> Comparison:
        self.tried.append(tree)
        return self.comparisons.pop(0)

    def loop(self, base: Tree, allowed: tuple[str, ...]) -> tuple[dict[str, bytes], str]:
        turns, given = len(self.replies), {"ask": self.ask, "measure": self.measure}
        return improve("Make it fast.", base, allowed, turns=turns, reserved=frozenset(), **given)  # type: ignore[arg-type]


EDIT = "FILE {}\n<<<<<<< SEARCH\n{}=======\n{}>>>>>>> REPLACE\n"


def test_loop_keeps_the_tree_with_the_largest_gain() -> None:
    """Three replies: it asks for a file, makes an edit that is faster, then one that is not; the second tree counts."""
    faster, slower = EDIT.format("m.py", "x = 1\n", "x = 2\n"), EDIT.format("m.py", "x = 2\n", "x = 3\n")
    replies = ["SHOW m.py\nSHOW missing.py", faster + EDIT.format("data.txt", "", "e\n"), slower]
    model = Scripted([*replies], [FASTER, WRONG])
    assert model.loop({"m.py": b"x = 1\n", "data.txt": b"d"}, ("*.py",)) == (
        {"m.py": b"x = 2\n", "data.txt": b"d"},
        "",
    )
    first, shown, told = model.told
    assert first.endswith("You have 3 replies. Files that may be changed:\nm.py")
    assert shown == "FILE m.py\nx = 1\n\nThere is no file missing.py\nReplies left: 2"
    assert "the file exists already" in told and "4.00 times as fast as before (3.90 to 4.10)" in told
    assert [tree["m.py"] for tree in model.tried] == [b"x = 2\n", b"x = 3\n"]


def test_loop_never_tries_what_may_not_be_changed() -> None:
    model = Scripted([EDIT.format("../other.py", "", "x\n")], [])
    assert model.loop({"m.py": b""}, ("m.py",)) == ({"m.py": b""}, "")
    assert not model.tried


def test_loop_without_a_reply_says_so() -> None:
    assert Scripted([None], []).loop({"m.py": b""}, ("m.py",)) == ({"m.py": b""}, "the model gave no reply in turn 1")


TEXT = st.text(max_size=20)
PLAIN = st.one_of(st.none(), TEXT, st.lists(TEXT, max_size=3), st.floats(allow_nan=False, allow_infinity=False))
RECORDS = st.builds(
    IsoRecord,
    repo=st.text(min_size=1, max_size=9),
    instance_id=st.text(min_size=1, max_size=9),
    patch=TEXT,
    notes=TEXT,
    efficiency_test=PLAIN,
    duration_changes=PLAIN,
    patch_functions=PLAIN,
    setup_commands=PLAIN,
)


@given(RECORDS)
def test_record_is_read_as_it_was_written(record: IsoRecord) -> None:
    assert records._read(json.loads(json.dumps(to_plain(record))), "x") == record


def test_record_has_the_fields_of_iso_bench() -> None:
    assert [each.name for each in fields(IsoRecord)] == [
        *("repo", "instance_id", "created_at", "base_commit", "head_commit", "patch", "test_patch", "efficiency_test"),
        *("duration_changes", "human_performance", "version", "patch_functions", "test_functions", "api"),
        *("gt_commit_message", "setup_commands", "install_commands", "notes"),
    ]


def test_record_has_the_fields_of_gso() -> None:
    assert set(NAMES) | set(OWN) == {
        *("instance_id", "repo", "base_commit", "opt_commit", "api", "prob_script", "tests", "hints_text"),
        *("setup_commands", "install_commands", "created_at", "gt_commit_message", "gt_diff", "arch"),
        "instance_image_tag",
    }
    known = {each.name for each in fields(IsoRecord)}
    assert set(NAMES.values()) <= known and not known & set(OWN), "told apart by names"


def test_records_of_gso_become_drafts_with_their_scripts(tmp_path: Path) -> None:
    """The base is the parent of the human's commit, as GSO writes it; what the record says is kept whole."""
    clone, hashes = cloned(tmp_path)
    record = {
        "instance_id": "a__b-1234567",
        "repo": "a/b",
        "base_commit": f"{hashes[1]}^",
        "opt_commit": hashes[1],
        "api": "total",
        "prob_script": "def setup(): ...\n",
        "tests": ["print(1)\n", "print(2)\n"],
        "hints_text": "make it fast",
        "setup_commands": ["apt-get update"],
        "arch": "x86_64",
    }
    file, out = tmp_path / "gso.jsonl", tmp_path / "drafts"
    file.write_text(json.dumps(record) + "\n")
    assert import_records(file, out, repository=clone) == ["a__b-1234567"]
    place = out / "a__b-1234567"
    assert read_tree(place / "base") == {"m.py": b"slow"}
    assert read_tree(place / "human") == {"m.py": b"fast"}
    names = ("efficiency_test.py", "efficiency_test_1.py", "efficiency_test_2.py")
    assert [(place / name).read_text() for name in names] == ["def setup(): ...\n", "print(1)\n", "print(2)\n"]
    task = read_task(place)
    assert unfinished(task) and task.record.commit_message == "make it fast" and task.record.api == "total"
    assert task.record.head_commit == hashes[1] and task.record.setup_commands == ("apt-get update",)
    kept = json.loads((place / "gso.json").read_text())
    assert kept == record


def test_tests_of_gso_keep_their_numbers_where_there_is_no_first_script(tmp_path: Path) -> None:
    """They judge, and none of them becomes the workload that is shown."""
    script = "def setup(seed): ...\ndef run(x): ...\ndef equal(a, b): ...\n"
    record = {"instance_id": "x", "repo": "a/b", "opt_commit": "1" * 40, "tests": [script, "print(2)\n"]}
    (tmp_path / "gso.jsonl").write_text(json.dumps(record) + "\n")
    import_records(tmp_path / "gso.jsonl", tmp_path / "drafts")
    place = tmp_path / "drafts" / "x"
    found = {file.name: file.read_text() for file in place.glob("efficiency_test*")}
    assert found == {"efficiency_test_1.py": script, "efficiency_test_2.py": "print(2)\n"}
    assert "workload.py: setup" in unfinished(read_task(place))[0]


def test_imported_drafts_have_a_bound_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A draft has 4 bytes before and 4 after: two of them are more than 12 bytes."""
    clone, hashes = cloned(tmp_path)
    commits = {"base_commit": hashes[0], "head_commit": hashes[1]}
    records = [{"repo": "a/b", "instance_id": name, **commits} for name in "xy"]
    for number in (1, 2):
        (tmp_path / f"{number}.json").write_text(json.dumps(records[:number]))
    monkeypatch.setattr("gce.app.performance.drafts.MOST_DRAFTED", 12)
    assert import_records(tmp_path / "1.json", tmp_path / "one", repository=clone) == ["x"]
    with pytest.raises(BadInput, match="drafts up to y have more than 0 MiB of sources"):
        import_records(tmp_path / "2.json", tmp_path / "two", repository=clone)
    assert not (tmp_path / "two").exists()


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ([], "record 1: expected an object, got []"),
        ({"repo": "a/b"}, "IsoRecord.instance_id: expected this field"),
        ({"repo": "a/b", "instance_id": ""}, "instance_id"),
        ({"repo": "a/b", "instance_id": "x", "patch": 3}, "IsoRecord.patch: expected text, got 3"),
        ({"repo": "a/b", "instance_id": "x", "more": 3}, "got 'more'"),
        ({"repo": "a/b", "instance_id": "x", "opt_commit": "y", "notes": "n"}, "fields of GSO, got 'notes'"),
        ({"repo": "a/b", "instance_id": "x", "opt_commit": ["y"]}, "IsoRecord.head_commit: expected text"),
    ],
)
def test_other_data_is_refused(data: object, said: str, tmp_path: Path) -> None:
    (tmp_path / "r.json").write_text(json.dumps([data]))
    with pytest.raises(BadInput, match=re.escape(said)):
        import_records(tmp_path / "r.json", tmp_path / "drafts")


def test_record_of_a_measured_task() -> None:
    """The gain is the median one of three comparisons, and durations are those of their rounds."""
    task = PerformanceTask(
        name="t", base=Source(directory="b"), human=Source(directory="h"), workload="w", tests="t", notes="n"
    )
    human = difference({"m.py": b"def f(): return 1\n"}, {"m.py": b"def f(): return 2\n"}, ("*",))
    record = record_of_task(task, human)
    assert (record.repo, record.instance_id, record.efficiency_test, record.notes) == ("t", "t", "w", "n")
    assert record.patch_functions == ["m.py:f"]
    rounds = (Round(1, Timing(4.0), Timing(1.0)), Round(2, Timing(5.0), Timing(2.0)))
    several = [evolve(FASTER, gain=Estimate(gain, gain, gain), rounds=rounds) for gain in (3.0, 9.0, 4.0)]
    found = measured_record(record, several)
    assert found.human_performance == 4.0
    assert found.duration_changes[0] == {"base": [4.0, 5.0], "head": [1.0, 2.0]}
    assert measured_record(record, several[:2]).human_performance == 6.0
    assert measured_record(record, []) == record


def cloned(tmp_path: Path) -> tuple[Path, list[str]]:
    """A repository of two commits, slow and fast, and their hashes."""
    clone = tmp_path / "clone"
    hashes = []
    for text in ("slow", "fast"):
        write_files({"m.py": text.encode(), ".github/x.yml": b"x"}, clone)
        person = ["-c", "user.name=x", "-c", "user.email=x@localhost"]
        for words in (["init", "-q"], ["add", "-A"], [*person, "commit", "-q", "-m", text]):
            subprocess.run(["git", *words], cwd=clone, check=True, capture_output=True)
        found = subprocess.run(["git", "rev-parse", "HEAD"], cwd=clone, check=True, capture_output=True, text=True)
        hashes.append(found.stdout.strip())
    return clone, hashes


def test_half_of_a_surrogate_pair_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "records.jsonl"
    file.write_text('{"repo": "a/b", "instance_id": "x", "patch": "\\ud800"}\n')
    with pytest.raises(BadInput, match="record 1: expected Unicode text"):
        import_records(file, tmp_path / "drafts")
    assert not (tmp_path / "drafts").exists()


def test_import_takes_trees_from_a_local_clone(tmp_path: Path) -> None:
    """Without a workload the draft cannot be measured."""
    clone, hashes = cloned(tmp_path)
    record = IsoRecord(
        repo="a/b",
        instance_id="a__b-1",
        base_commit=hashes[0],
        head_commit=hashes[1],
        patch='"\\\x7f\n\u2028"""',
        efficiency_test="print('timing')",
        setup_commands=["pip install x", 'echo "y"'],
        notes="first\nsecond",
    )
    file, out = tmp_path / "records.json", tmp_path / "drafts"
    file.write_text(json.dumps([to_plain(record)]))
    assert import_records(file, out, repository=clone) == ["a__b-1"]
    place = out / "a__b-1"
    assert read_tree(place / "base") == {"m.py": b"slow"}
    assert read_tree(place / "human") == {"m.py": b"fast"}
    assert (place / "efficiency_test.py").read_text() == "print('timing')"
    with pytest.raises(BadInput, match="to be written"):
        check_sources(read_task(place))
    (place / "workload.py").write_text("w")
    (place / "tests.py").write_text("t")
    task = read_task(place)
    assert task.record.patch == record.patch
    assert task.record.setup_commands == ("pip install x", 'echo "y"')
    assert task.notes == "first\nsecond"
    assert records._read(json.loads((place / IsoRecord.FILE).read_text()), "x") == record


def test_import_of_a_commit_that_is_not_there_writes_nothing(tmp_path: Path) -> None:
    person = ["-c", "user.name=x", "-c", "user.email=x@localhost"]
    for words in (["init", "-q"], [*person, "commit", "-q", "--allow-empty", "-m", "x"]):
        subprocess.run(["git", *words], cwd=tmp_path, check=True, capture_output=True)
    file = tmp_path / "records.jsonl"
    file.write_text(json.dumps({"repo": "a/b", "instance_id": "x", "base_commit": "--output=/tmp/x"}) + "\n")
    with pytest.raises(BadInput, match="expected the hash of a commit"):
        import_records(file, tmp_path / "drafts", repository=tmp_path)
    assert not (tmp_path / "drafts").exists()


def test_figure_of_ratios_is_drawn_with_its_table() -> None:
    pytest.importorskip("matplotlib")
    from gce.adapters.matplotlib_figures import png, svg

    figure = Ratios("r", "a <title>", {"human": Estimate(3.95, 3.9, 4.1), "nothing": Estimate(1.0, 0.98, 1.02)})
    assert figure.table.rows == (("human", "3.95", "3.9 to 4.1"), ("nothing", "1", "0.98 to 1.02"))
    assert "human" in svg(figure)
    assert png(figure).startswith(b"\x89PNG")
