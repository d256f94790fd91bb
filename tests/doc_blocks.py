"""Code blocks of Markdown pages, run in the order of the page, in one process and one empty folder a page.

A fence marked `python` or `bash` is run; one with `title="FILE"`, of any language, is written to that file. A fence
marked `text` that follows a block which runs is what this block prints on standard output, where `...` stands for
anything. Comments on the lines before a fence change that:

    <!-- long: --n 200 => --n 5; 8 => 2 -->     only among long tests; `=>` gives its small form
    <!-- not run: it installs packages -->      with the reason
    <!-- status: 1 -->                          exit status of a command that finds something
    <!-- needs: mlx_lm, matplotlib -->          packages that blocks need, from here to the next such line
"""

from __future__ import annotations

import contextlib
import doctest
import io
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attrs import evolve, field, frozen

LANGUAGES = {"bash", "ini", "json", "python", "sql", "text", "toml"}
FENCE = re.compile(
    r"(?P<marks>(?:^<!-- [^\n]* -->\n)*)^(?P<ticks>```+) *(?P<language>[\w+-]*)(?: +title=\"(?P<title>[\w.-]+)\")? *\n"
    r"(?P<code>.*?)^(?P=ticks)$",
    re.M | re.S,
)
MARK = re.compile(r"^<!-- (long|not run|status)(?:: *(.*?))? *-->$", re.M)
NEEDS = re.compile(r"<!-- needs: ([\w, ]*)-->")


@frozen
class Block:
    """A code block and what is said about it; `want` is what it has to print, None where the page does not say."""

    language: str
    code: str
    line: int
    title: str | None = None
    marks: Mapping[str, str] = field(factory=dict)
    needs: tuple[str, ...] = ()
    want: str | None = None

    @property
    def runs(self) -> bool:
        return "not run" not in self.marks and (self.title is not None or self.language in ("bash", "python"))

    def small(self) -> Block:
        """With the substitutions of its marker."""
        code = self.code
        for pair in filter(None, self.marks.get("long", "").split(";")):
            old, arrow, new = (part.strip() for part in pair.partition("=>"))
            if not arrow or old not in code:
                raise ValueError(f"line {self.line}: expected OLD => NEW with OLD from the block, got {pair.strip()!r}")
            code = code.replace(old, new)
        return evolve(self, code=code, want=None)


def blocks(page: str) -> list[Block]:
    """All fenced blocks of a page; ValueError where a fence or a marker is not as the module's docstring says."""
    found: list[Block] = []
    end = 0
    for match in FENCE.finditer(page):
        line = page.count("\n", 0, match.start("ticks")) + 1
        if re.search(r"^```", page[end : match.start("ticks")], re.M) or match["language"] not in LANGUAGES:
            raise ValueError(f"line {line}: expected a fence with one of {sorted(LANGUAGES)}")
        marks = {name: text for name, text in MARK.findall(match["marks"])}
        if marks.get("not run") == "":
            raise ValueError(f"line {line}: expected a reason after 'not run:'")
        if match["language"] == "text" and found and found[-1].runs and not page[end : match.start()].strip():
            found[-1] = evolve(found[-1], want=match["code"])
        needed = tuple(re.findall(r"\w+", (["", *NEEDS.findall(page, 0, match.start("ticks"))])[-1]))
        found.append(Block(match["language"], match["code"], line, match["title"], marks, needed))
        end = match.end() + 1
    if re.search(r"^```", page[end:], re.M):
        raise ValueError("expected that every fence ends")
    return found


def steps(page: str, form: str) -> list[Block]:
    """What runs of a page: `short` leaves long blocks out, `small` has their small forms, `whole` has all of it."""
    running = [block for block in blocks(page) if block.runs]
    if form == "short":
        return [block for block in running if "long" not in block.marks]
    if not any("long" in block.marks for block in running):
        return []
    return [block.small() if form == "small" and "long" in block.marks else block for block in running]


def setup_commands(page: str, form: str) -> list[str]:
    """The code of blocks that install packages, in their `small` form or `whole`, for `.ci/run`."""
    installing = [block for block in blocks(page) if "pip install" in block.code]
    return [(block.small() if form == "small" else block).code for block in installing]


def run(running: list[Block], name: str, folder: Path, seconds: float) -> str:
    """Runs blocks in a process of their own in `folder`; '' where all is as the page says, otherwise what is not."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path, "PYTHONPATH": os.pathsep.join(sys.path), "COLUMNS": "80"}
    sent = json.dumps(
        [{**{key: getattr(each, key) for key in Block.__annotations__}, "name": name} for each in running]
    )
    command = [sys.executable, str(Path(__file__)), sent]
    done = subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        _, error = done.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        os.killpg(done.pid, signal.SIGKILL)  # with what its blocks have started
        return f"{name} took more than {seconds:.0f} s"
    return "" if done.returncode == 0 else error[-4000:] or f"exit status {done.returncode}"


def play(block: dict[str, Any], namespace: dict[str, Any]) -> None:
    """Runs one block here; an exception says what is not as the page says."""
    place, code, printed = f"{block['name']}:{block['line']}", block["code"], ""
    if block["title"]:
        Path(block["title"]).write_text(code, encoding="utf-8")
    elif block["language"] == "bash":
        done = subprocess.run(["bash", "-euo", "pipefail", "-c", code], stdout=subprocess.PIPE, text=True)
        status, printed = int(block["marks"].get("status", 0)), done.stdout
        assert done.returncode == status, f"{place}: exit status {done.returncode}, expected {status}\n{printed}"
    else:
        with contextlib.redirect_stdout(io.StringIO()) as kept:
            exec(compile("\n" * block["line"] + code, place.rpartition(":")[0], "exec"), namespace)
        printed = kept.getvalue()
    got = "".join(f"{line.rstrip()}\n" for line in printed.splitlines())
    same = block["want"] is None or doctest.OutputChecker().check_output(block["want"], got, doctest.ELLIPSIS)
    assert same, f"{place}: expected\n{block['want']}got\n{got}"


if __name__ == "__main__":
    shared: dict[str, Any] = {"__name__": "__main__"}
    sys.path.insert(0, "")
    for each in json.loads(sys.argv[1]):
        play(each, shared)
