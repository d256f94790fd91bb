"""Agents as commands: each attempt works in a copy of the code, in a sandbox that shows little else.

Inside it sees this interpreter and its standard library, but no installed packages (one of them may hold the fix), the
system's programs, the paths that the agent needs, and, writable, a directory of its own, which is gone afterwards. Its
processes have a namespace of their own, and end with the command. Independent of measuring.
"""

from __future__ import annotations

import glob
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from attrs import frozen

from gce.adapters.models.servers.redaction import Redaction, redacted
from gce.adapters.performance.trees import BadTree, read_regular, read_working_copy, write_working_copy
from gce.adapters.sandboxes.bubblewrap import bubblewrap_path
from gce.adapters.sandboxes.view import view
from gce.adapters.system.bounded_commands import Ended, run_bounded
from gce.domain.performance.agents import AgentCommand, AgentUsage, Attempt, Ending, usage_in
from gce.domain.performance.patches import Tree
from gce.errors import BadInput, one_line

__all__ = ["INSIDE", "Worked", "run_agent", "sandbox_of", "why_no_program", "why_no_sandbox"]

INSIDE = "/gce-agent"
"""Where the directory of an agent is in its sandbox."""
_START_SECONDS = 60
_MOST_COMPLAINT = 1_000_000
_MOST_TRAJECTORY = 50_000_000
_ETC = (
    *("alternatives", "ca-certificates", "group", "hosts", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "localtime"),
    *("nsswitch.conf", "passwd", "pki", "resolv.conf", "ssl"),
)
"""What programs need of /etc, and nothing secret."""
_PROGRAMS = ("/bin", "/sbin", "/lib", "/lib32", "/lib64")
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_PACKAGES = "/usr/local/lib/python*/*-packages"
"""Installed packages that `view` does not know, because sandboxes for measuring do not see them at all."""
_LINKS = "/tmp/bin"
"""Where the sandbox has links to this interpreter."""
_PYTHONS = ("python", "python3")


@frozen
class Worked:
    """What an agent left: what it printed and changed is hostile, and has no keys."""

    attempt: Attempt
    """How it ended; of its patch nothing is known here."""
    tree: Mapping[str, bytes]
    odd: tuple[str, ...]
    """Paths of what is no regular file in the copy, or has a key in its name, which is taken out."""
    output: str
    complaint: str
    trajectory: str
    """What it wrote to {trajectory_file}."""


def why_no_sandbox() -> str:
    """Return why agents cannot be run in a sandbox here; empty if they can."""
    program = bubblewrap_path()
    if program is None:
        return "bubblewrap is not installed"
    with TemporaryDirectory(prefix="gce-agent-") as home:
        words = [*sandbox_of(program, Path(home), (), network=False), "--", "true"]
        try:
            found = subprocess.run(words, capture_output=True, check=False, timeout=_START_SECONDS)
        except subprocess.TimeoutExpired:
            return f"bubblewrap did not start within {_START_SECONDS} s"
    return one_line(found.stderr.decode(errors="replace")) or "bubblewrap failed" if found.returncode else ""


def why_no_program(agent: AgentCommand, *, isolated: bool) -> str:
    """Return why an agent's program cannot be run; empty if it can, or if its name is not known yet."""
    program = shlex.split(agent.command)[0]
    if program in _PYTHONS or "{" in program or shutil.which(program, path=_path(agent, isolated=isolated)):
        return ""
    return f"cannot run agent {agent.name}: {program!r} is not found, or no program"


def run_agent(
    agent: AgentCommand,
    prompt: str,
    tree: Tree,
    beside: Mapping[str, str],
    *,
    keys: Sequence[str],
    isolated: bool = True,
) -> Worked:
    """Run one attempt of an agent.

    Args:
        agent: the command and its limits.
        prompt: what it is told.
        tree: the code that it gets a copy of.
        beside: other files that it can see beside the copy, by name: the workload and the tests. Its changes to them
            count for nothing.
        keys: further secrets that are taken out of all that is kept.
        isolated: False runs it without a sandbox, with this user's rights.

    Raises:
        BadInput: no sandbox, or the agent's program is not found.
    """
    reason = why_no_program(agent, isolated=isolated)
    if reason:
        raise BadInput(reason)
    environment = {name: os.environ[name] for name in agent.environment if name in os.environ}
    redactions = [Redaction(key.strip()) for key in {*environment.values(), *keys}]
    program = bubblewrap_path() if isolated else ""
    if program is None:
        raise BadInput("agents run in a sandbox made by bubblewrap, which is not installed")
    with _own_directory() as home:
        for name in ("scratch", "home"):
            (home / name).mkdir()
        write_working_copy(tree, home / "code")
        for name, text in {**beside, "prompt.md": prompt}.items():
            (home / name).write_text(text, encoding="utf-8")
        shown = Path(INSIDE) if isolated else home
        own = {"PATH": _path(agent, isolated=isolated), "HOME": str(shown / "home"), "LANG": "C.UTF-8", **environment}
        words = _words(agent, prompt, shown)
        if program:
            boundary = sandbox_of(program, home, agent.visible, network=agent.network)
            words = [*boundary, "--chdir", f"{INSIDE}/code", "--", *words]
        ended = _ended(agent, prompt, words, own, None if isolated else home / "code")
        trajectory, unread = _text_of(home / "scratch" / "trajectory.json"), ""
        try:
            left, odd = read_working_copy(home / "code")
        except BadTree:
            left, odd, unread = dict(tree), (), "it left no working directory, or too much in it"
    output = redacted(ended.output.decode(errors="replace"), redactions)
    usage = usage_in(output, agent)
    ending, reason = _ending(ended, agent, usage, unread)
    named = {path for path in left if redacted(path, redactions) != path}
    return Worked(
        Attempt(ending, redacted(reason, redactions), ended.seconds, usage),
        {
            path: content if tree.get(path) == content else _without_keys(content, redactions)
            for path, content in left.items()
            if path not in named
        },
        tuple(sorted(redacted(path, redactions) for path in {*odd, *named})),
        output,
        redacted(ended.complaint.decode(errors="replace"), redactions),
        redacted(trajectory, redactions),
    )


def _words(agent: AgentCommand, prompt: str, shown: Path) -> list[str]:
    """Return the words of a command that sees its directory at `shown`."""
    return agent.words(
        {
            "prompt_file": str(shown / "prompt.md"),
            "prompt": prompt,
            "workdir": str(shown / "code"),
            "scratch": str(shown / "scratch"),
            "trajectory_file": str(shown / "scratch" / "trajectory.json"),
            "max_cost": "" if agent.max_cost is None else f"{agent.max_cost:g}",
            "seconds": str(agent.seconds),
        }
    )


def _ended(
    agent: AgentCommand, prompt: str, words: Sequence[str], environment: Mapping[str, str], directory: Path | None
) -> Ended:
    """Run the words within the agent's limits, and return how they ended; BadInput if they cannot be run."""
    try:
        return run_bounded(
            words,
            seconds=agent.seconds,
            memory=agent.memory_mb * 2**20,
            most_output=agent.most_output,
            most_complaint=_MOST_COMPLAINT,
            given=prompt.encode() if agent.stdin else b"",
            directory=directory,
            environment=environment,
        )
    except (OSError, ValueError) as error:  # As words that are too long, or have a null character.
        reason = getattr(error, "strerror", None) or error
        raise BadInput(f"cannot run agent {agent.name}: {reason}", hint="its command may read prompt_file") from error


def _without_keys(content: bytes, redactions: Sequence[Redaction]) -> bytes:
    """Return contents without keys, also where they are no text."""
    try:
        return redacted(content.decode(), redactions).encode()
    except UnicodeDecodeError:
        return redacted(content.decode("latin-1"), redactions).encode("latin-1")


@contextmanager
def _own_directory() -> Iterator[Path]:
    """A temporary directory."""
    place = TemporaryDirectory(prefix="gce-agent-", ignore_cleanup_errors=True)
    try:
        yield Path(place.name)
    finally:
        try:
            place.cleanup()
        except RecursionError:  # An agent can nest directories deeper than Python removes them.
            subprocess.run(["rm", "-rf", "--", place.name], capture_output=True, check=False)


def sandbox_of(program: str, home: Path, visible: Sequence[str], *, network: bool) -> list[str]:
    """Return the words that run what follows them in a sandbox, with the environment of this command.

    Keys are in that environment and not in these words, which every user of the machine can read.
    """
    shown, python = view(), os.path.realpath(sys.executable)
    options = [program, "--unshare-all", "--unshare-user", "--uid", "1000", "--gid", "1000", "--disable-userns"]
    options += ["--die-with-parent", "--new-session", "--cap-drop", "ALL", "--hostname", "sandbox"]
    options += ["--share-net"] if network else []
    options += ["--ro-bind", "/usr", "/usr", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"]
    for path in _PROGRAMS:
        if os.path.islink(path):
            options += ["--symlink", os.readlink(path), path]
        else:
            options += ["--ro-bind-try", path, path]
    options += [word for name in _ETC for word in ("--ro-bind-try", f"/etc/{name}", f"/etc/{name}")]
    wanted = [(outside, inside) for outside, inside in shown.read_only if not inside.startswith(("/usr/", "/lib"))]
    wanted += [(path, path) for path in map(os.path.expanduser, visible)]
    options += [word for outside, inside in wanted for word in ("--ro-bind-try", outside, inside)]
    hidden = {*shown.hidden, *map(os.path.realpath, glob.glob(_PACKAGES))}
    options += [word for path in sorted(hidden) for word in ("--tmpfs", path)]
    options += [word for name in _PYTHONS for word in ("--symlink", python, f"{_LINKS}/{name}")]
    return [*options, "--bind", str(home), INSIDE]


def _path(agent: AgentCommand, *, isolated: bool) -> str:
    """Return the directories in which programs are looked for: those of visible paths, then the system's."""
    if not isolated or "PATH" in agent.environment:
        return os.environ.get("PATH", _PATH)
    roots = [os.path.expanduser(path) for path in agent.visible]
    return ":".join([*(f"{root}/bin" for root in roots), *roots, _LINKS, _PATH])


def _ending(ended: Ended, agent: AgentCommand, usage: AgentUsage, unread: str) -> tuple[Ending, str]:
    if unread:
        return "output", unread
    if ended.exceeded == "output":
        return "output", f"it printed more than {agent.most_output:,} bytes"
    if ended.exceeded == "time":
        return "time", f"it did not end within {agent.seconds:,} seconds"
    if agent.max_cost is not None and usage.cost is not None and usage.cost > agent.max_cost:
        return "cost", f"it reports {usage.cost:.2f} US dollars, more than {agent.max_cost:g}"
    if ended.status:
        last = ended.complaint.decode(errors="replace").strip().rpartition("\n")[2]
        return "exit status", one_line(
            f"{shlex.split(agent.command)[0]} ended with exit status {ended.status}{last and ': '}{last}"
        )
    return "ended", ""


def _text_of(file: Path) -> str:
    """Return the text of a file that an agent may have written; empty where there is none, or it is too large.

    The agent may have replaced the file, or the directory that it is in, by a link.
    """
    content = None if file.parent.is_symlink() else read_regular(file, _MOST_TRAJECTORY)
    return "" if content is None else content.decode(errors="replace")
