"""Patches of performance tasks: what they keep, what they refuse, how they are shown, and what they hit."""

from __future__ import annotations

import shutil
import subprocess

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gce.domain.performance.edits import Edit, Reply, edited, read_reply
from gce.domain.performance.overlap import Overlap, changed_functions, overlap, quadrant
from gce.domain.performance.patches import Change, Patch, applied, diff_text, difference, is_safe, lint, reverted
from gce.domain.performance.task import is_allowed

NAMES = st.one_of(
    st.sampled_from(["a.py", "b.py", "pkg/a.py", "pkg/A.py", "../a.py", "/etc/a.py", ".git/hooks/x.py", "a b.py"]),
    st.text(max_size=12),
    st.lists(st.text("ab.\u00e9 \\\"'\n\0/-", min_size=1, max_size=6), min_size=1, max_size=3).map("/".join),
)
TREES = st.dictionaries(NAMES, st.one_of(st.binary(max_size=40), st.text(max_size=40).map(str.encode)), max_size=5)
PATTERNS = st.lists(st.sampled_from(["*.py", "pkg/*", "a.py", "*"]), min_size=1, max_size=2).map(tuple)


@pytest.mark.slow
@given(TREES, TREES, PATTERNS)
def test_patch_makes_the_new_tree_but_for_what_it_refuses(
    base: dict[str, bytes], tree: dict[str, bytes], allowed: tuple[str, ...]
) -> None:
    """Applied, a patch gives the new tree on the kept paths and the base on all others; reverted, it gives the base."""
    patch = difference(base, tree, allowed)
    found = applied(base, patch)
    assert set(patch.paths).isdisjoint(patch.refused)
    for path in {*base, *tree}:
        expected = tree.get(path) if path in patch.paths else base.get(path)
        assert found.get(path) == expected
        assert (path in patch.paths or path in patch.refused) == (base.get(path) != tree.get(path))
    assert applied(found, reverted(patch)) == base


@pytest.mark.slow
@given(TREES, TREES, PATTERNS)
def test_path_outside_the_patterns_never_passes(
    base: dict[str, bytes], tree: dict[str, bytes], allowed: tuple[str, ...]
) -> None:
    for path in difference(base, tree, allowed).paths:
        assert is_allowed(path, allowed) and is_safe(path)
        assert not path.startswith("/") and ".." not in path.split("/") and ".git" not in path.split("/")


@pytest.mark.parametrize(
    "path",
    ["../x.py", "/x.py", "a//b.py", "a/../b.py", "./a.py", ".git/x.py", "a\n.py", "a\\b.py", "C:/x.py", "x.py ",
     "\udc80.py", "a/\u202ey.py", "", "x" * 300 + ".py", "a/.hidden.py", "nul\0.py"],
)  # fmt: skip
def test_unsafe_path_is_refused(path: str) -> None:
    assert difference({}, {path: b""}, ("*",)) == Patch((), (path,))


def test_new_module_that_hides_one_of_the_standard_library_is_refused() -> None:
    """A file random.py at the root would be what `import random` of the harness finds."""
    tree = {
        "random.py": b"",
        "json/__init__.py": b"",
        "pkg/random.py": b"",
        "sitecustomize.py": b"",
        "workload.py": b"",
    }
    patch = difference({}, tree, ("*.py",), reserved={"random", "json"})
    assert patch.paths == ("pkg/random.py",)
    assert patch.refused == ("json/__init__.py", "random.py", "sitecustomize.py", "workload.py")


def test_new_file_that_differs_in_case_alone_is_refused() -> None:
    assert difference({"a.py": b""}, {"a.py": b"", "A.py": b"1"}, ("*",)).refused == ("A.py",)


def test_what_is_no_regular_file_is_refused() -> None:
    patch = difference({"a.py": b"1"}, {}, ("*",), odd=("a.py", "link.py"))
    assert patch == Patch((), ("a.py", "link.py"))


def test_file_in_place_of_a_directory_is_refused_and_the_reverse() -> None:
    """Both cannot be in one tree, and the half that makes room for the other may not be allowed."""
    base = {"notes": b"1", "pkg/a.py": b"2"}
    assert difference(base, {"notes/b.py": b"", "pkg/a.py": b"2"}, ("*.py",)).refused == ("notes", "notes/b.py")
    assert difference(base, {"notes": b"1", "pkg": b""}, ("pkg",)).refused == ("pkg", "pkg/a.py")
    both = difference(base, {**base, "new.py": b"", "New.py/c.py": b""}, ("*.py",))
    assert (both.paths, both.refused) == (("New.py/c.py",), ("new.py",))


def test_link_in_place_of_a_directory_changes_none_of_its_files() -> None:
    patch = difference({"pkg/a.py": b"1", "b.py": b"2"}, {"b.py": b"2"}, ("*",), odd=("pkg",))
    assert patch == Patch((), ("pkg", "pkg/a.py"))


def test_applying_to_another_tree_is_an_error() -> None:
    with pytest.raises(ValueError, match="not as it was"):
        applied({"a.py": b"2"}, Patch((Change("a.py", b"1", b"3"),)))


def test_diff_is_that_of_git() -> None:
    patch = difference({"a.py": b"x = 1\ny = 2\n", "gone.py": b"z"}, {"a.py": b"x = 1\ny = 3", "b.py": b"\0"}, ("*",))
    assert diff_text(patch) == (
        "diff --git a/a.py b/a.py\n--- a/a.py\n+++ b/a.py\n@@ -1,2 +1,2 @@\n x = 1\n-y = 2\n+y = 3\n"
        "\\ No newline at end of file\n"
        "diff --git a/b.py b/b.py\nnew file mode 100644\nBinary files /dev/null and b/b.py differ\n"
        "diff --git a/gone.py b/gone.py\ndeleted file mode 100644\n--- a/gone.py\n+++ /dev/null\n@@ -1 +0,0 @@\n-z\n"
        "\\ No newline at end of file\n"
    )


TEXTS = st.lists(
    st.sampled_from(["a\n", "b\n", "--- a/f.py\n", "@@ -1 +1 @@\n", "\f\n", "\r\n", "\u2028x\n", "+x"]), max_size=6
)


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.dictionaries(st.sampled_from(["f.py", "d/g h.py", "\u00e9.py", "'q.py"]), TEXTS.map("".join), max_size=3),
    st.dictionaries(st.sampled_from(["f.py", "d/g h.py", "\u00e9.py", "'q.py"]), TEXTS.map("".join), max_size=3),
)
def test_git_applies_the_diff_to_the_new_tree(
    tmp_path_factory: pytest.TempPathFactory, old: dict[str, str], new: dict[str, str]
) -> None:
    """`git apply` of the text gives the new tree, whatever the lines hold."""
    base = {path: text.encode() for path, text in old.items() if text}
    tree = {path: text.encode() for path, text in new.items() if text}
    text = diff_text(difference(base, tree, ("*",)))
    folder = tmp_path_factory.mktemp("tree")
    for path, content in base.items():
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).write_bytes(content)
    if text:
        command = ["git", "apply", "--unsafe-paths", "--whitespace=nowarn", "-"]
        subprocess.run(command, cwd=folder, input=text.encode(), check=True, env={"PATH": "/usr/bin:/bin", "HOME": "/"})
    found = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert found == tree


def test_lint_names_added_lines_by_kind() -> None:
    before = b"import inspect\n\ndef f(x):\n    return x\n"
    after = b"import inspect\nimport time\n\ndef f(x):\n    if os.environ: return open('x')\n    return x\n"
    found = lint(Patch((Change("a.py", before, after),)))
    kinds = [(each.line, each.kind) for each in found]
    assert kinds == [(2, "clock"), (5, "environment"), (5, "persistence")]
    assert not lint(Patch((Change("a.py", after, before),)))


def test_findings_are_bounded() -> None:
    assert len(lint(Patch((Change("a.py", None, b"import gc\n" * 1000),)))) == 200


def test_same_import_is_not_the_same_target() -> None:
    """Both patches add an import; only one of them changes the human's function."""
    base = b"def a():\n    return 1\ndef b():\n    return 2\n"
    human = Patch((Change("p.py", base, b"import re\n" + base.replace(b"1", b"10")),))
    assert not overlap(Patch((Change("p.py", base, b"import re\n" + base.replace(b"2", b"20")),)), human).target
    assert overlap(Patch((Change("p.py", base, base.replace(b"1", b"11")),)), human).target
    alone = Patch((Change("p.py", base, b"import re\n" + base),))
    assert overlap(alone, alone).target


def test_large_file_is_not_parsed() -> None:
    large = b"def a(): pass\n" * 100_000
    assert changed_functions(Patch((Change("p.py", None, large),))) == {"p.py:<module>"}


def test_overlap_counts_functions_by_their_code_not_their_layout() -> None:
    """The human changes a and C.m; the patch changes a and b, and the layout of C.m: 1 of 3 functions is shared."""
    base = b"def a():\n    return 1\ndef b():\n    return 2\nclass C:\n    def m(self):\n        return 3\n"
    theirs = b"def a():\n    return 10\ndef b():\n    return 2\nclass C:\n    def m(self):\n        return 30\n"
    ours = b"def a():\n    return 11\ndef b():\n    return 22\nclass C:\n\n    def m(self):  # m\n        return 3\n"
    human, patch = (
        Patch((Change("p.py", base, theirs),)),
        Patch((Change("p.py", base, ours), Change("q.py", None, b""))),
    )
    assert changed_functions(human) == {"p.py:a", "p.py:C.m"}
    assert overlap(patch, human) == Overlap(files=1 / 2, functions=1 / 3, target=True)
    assert overlap(Patch(), human) == Overlap(0.0, 0.0, target=False)


def test_file_that_does_not_parse_counts_as_one() -> None:
    assert changed_functions(Patch((Change("p.py", b"def a(): pass\n", b"def a(:"),))) == {"p.py:a", "p.py:<module>"}


def test_quadrants() -> None:
    hit, missed = Overlap(1.0, 1.0, target=True), Overlap(0.0, 0.0, target=False)
    assert quadrant(hit, "partial") == "true success"
    assert quadrant(hit, "incorrect") == "right target but failed"
    assert quadrant(missed, "beats the human") == "lucky win"
    assert quadrant(missed, "inconclusive") == "neither"


def test_reply_is_read_strictly() -> None:
    text = (
        "First\nSHOW pkg/a.py\nSHOW pkg/a.py\nFILE pkg/b.py\n```python\n<<<<<<< SEARCH\nx = 1\n=======\nx = 2\n"
        ">>>>>>> REPLACE\n```\nDONE\nFILE c.py\n<<<<<<< SEARCH\n"
    )
    assert read_reply(text) == Reply(("pkg/a.py",), (Edit("pkg/b.py", "x = 1\n", "x = 2\n"),), True)
    assert read_reply("FILE x\n<<<<<<< SEARCH\n" * 100_000) == Reply()


def test_edits_are_made_or_say_why_not() -> None:
    tree = {"a.py": b"x = 1\ny = 1\n", "latin.py": b"x\n# \xe9\n"}
    edits = (
        Edit("latin.py", "x\n", "y\n"),
        Edit("a.py", "x = 1\n", "x = 2\n"),
        Edit("a.py", "z\n", ""),
        Edit("b.py", "", "new\n"),
        Edit("b.py", "", "again\n"),
        Edit("c.py", "x\n", ""),
    )
    found, faults = edited(tree, edits)
    assert found == {**tree, "a.py": b"x = 2\ny = 1\n", "b.py": b"new\n"}
    assert [fault.partition(": ")[2] for fault in faults] == [
        "the file is not UTF-8",
        "the SEARCH part occurs 0 times, expected once",
        "the file exists already, and SEARCH is empty",
        "there is no such file",
    ]


@given(st.text(max_size=200))
def test_any_text_is_read(text: str) -> None:
    assert isinstance(read_reply(text), Reply)
