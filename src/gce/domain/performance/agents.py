"""Agents that make code faster: commands, a loop over a model, and controls; and how one attempt of an agent ended.

Knows no process and no file.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from string import Formatter
from typing import Any, Literal, get_args

from attrs import field, frozen, validators

from gce.domain.performance.overlap import Overlap
from gce.domain.performance.patches import Finding

__all__ = ["CONTROLS", "PLACEHOLDERS", "PRESETS", "AgentCommand", "AgentUsage", "Attempt", "Ending", "usage_in"]

CONTROLS: Mapping[str, str] = {
    "nothing": "the base unchanged: an empty patch",
    "human": "the human's changes, as far as they are in allowed paths",
    "revert": "the human's changes made and taken back",
}
"""Agents that always run, with what they do."""

PLACEHOLDERS = ("prompt_file", "prompt", "workdir", "scratch", "trajectory_file", "max_cost", "seconds")
"""Names that may stand in braces in a command."""

Ending = Literal["ended", "exit status", "time", "output", "cost", "failed"]
"""ended: with exit status 0. exit status: with another one. time, output, cost: at this limit; output also where it
left more files than are read. failed: the agent could not be run, which is not its fault; the attempt is made again.
In all other cases the patch is measured: how an agent ends says nothing about its patch."""

_NO_OVERLAP = Overlap(0.0, 0.0, target=False)
_path_or_empty = validators.matches_re(r"([A-Za-z_]\w*(\.[A-Za-z_]\w*)*)?")


@frozen(kw_only=True)
class AgentCommand:
    """An agent that is run as a command, in a sandbox that shows it a copy of the code."""

    name: str = field(validator=validators.matches_re(r"[A-Za-z0-9][A-Za-z0-9_-]{0,39}"))
    command: str = field()
    """Words as a shell would split them, though none runs. {prompt_file} and {prompt} stand for the task, {workdir} for
    the copy of the code, {scratch} for a directory for the agent's own files, {trajectory_file} for a file whose
    contents are kept, {max_cost} and {seconds} for the limits."""
    stdin: bool = False
    """Whether the task is given on standard input."""
    seconds: int = field(default=1800, validator=validators.in_(range(1, 86_401)))
    """Limit on wall-clock time."""
    most_output: int = field(default=10_000_000, validator=validators.in_(range(1, 10**9 + 1)))
    """Limit on bytes of standard output."""
    memory_mb: int = field(default=8192, validator=validators.in_(range(64, 2**20)))
    """Limit on the data of each process, in MiB."""
    max_cost: float | None = field(default=None, validator=validators.optional(validators.gt(0.0)))
    """US dollars that one attempt may cost. Told to the command by {max_cost}; what the command reports is checked."""
    network: bool = False
    environment: tuple[str, ...] = ()
    """Variables that are passed on. Their values are taken out of all that is kept."""
    visible: tuple[str, ...] = ()
    """Paths that are shown read-only, as those of the agent's program; `~` is the home directory."""
    cost: str = field(default="", validator=_path_or_empty)
    """Where the last JSON object on standard output has the cost in US dollars, as `usage.cost`."""
    prompt_tokens: str = field(default="", validator=_path_or_empty)
    tokens: str = field(default="", validator=_path_or_empty)
    """Where it has the numbers of prompt tokens and generated tokens."""

    @command.validator
    def _with_known_names(self, _attribute: Any, command: str) -> None:
        expected = f"{', '.join(f'{{{each}}}' for each in PLACEHOLDERS)} in braces"
        try:
            words = shlex.split(command)
            parts = [part for word in words for part in Formatter().parse(word) if part[1] is not None]
        except ValueError as error:
            raise ValueError(f"cannot read the command {command!r:.200}: {error}") from error
        names = {name for _, name, _, _ in parts}
        if not words or names - set(PLACEHOLDERS) or any(spec or how for _, _, spec, how in parts):
            raise ValueError(f"expected a command with none but {expected}, got {command!r:.200}")
        if not self.stdin and not names & {"prompt", "prompt_file"}:
            raise ValueError(f"expected {{prompt}}, {{prompt_file}} or stdin = true, got {command!r:.200}")

    def is_online(self, isolated: bool) -> bool:
        """Whether it has the network, which it always has without a sandbox, and so may cost something."""
        return self.network or not isolated

    def words(self, values: Mapping[str, str]) -> list[str]:
        """Return the words of the command with these values in them."""
        return [word.format(**values) for word in shlex.split(self.command)]


PRESETS: Mapping[str, AgentCommand] = {
    each.name: each
    for each in (
        AgentCommand(
            name="claude",
            command="claude -p --output-format json --dangerously-skip-permissions",
            stdin=True,
            network=True,
            environment=("ANTHROPIC_API_KEY",),
            visible=("~/.local/bin", "~/.local/share/claude", "~/.nvm", "/opt"),
            cost="total_cost_usd",
            prompt_tokens="usage.input_tokens",
            tokens="usage.output_tokens",
        ),
        AgentCommand(
            name="codex",
            command="codex exec --skip-git-repo-check --cd {workdir} {prompt}",
            network=True,
            environment=("OPENAI_API_KEY", "CODEX_API_KEY"),
            visible=("~/.local/bin", "~/.nvm", "/opt"),
        ),
        AgentCommand(
            name="trae",
            command="python -m trae_agent.cli run --file {prompt_file} --working-dir {workdir} --must-patch "
            "--patch-path {scratch}/agent.patch --trajectory-file {trajectory_file}",
            network=True,
            environment=("OPENAI_API_KEY", "ANTHROPIC_API_KEY"),
            visible=("/opt",),
        ),
        AgentCommand(
            name="openhands",
            command="python -m openhands.core.main -d {workdir} -f {prompt_file}",
            network=True,
            environment=("LLM_API_KEY", "LLM_MODEL"),
            visible=("/opt",),
        ),
    )
}
"""Commands of known agents by name."""


@frozen
class AgentUsage:
    """What an attempt used; None where it is not known."""

    prompt_tokens: int | None = None
    tokens: int | None = None
    """Generated tokens."""
    cost: float | None = None
    """US dollars."""


@frozen
class Attempt:
    """How one attempt of an agent ended, and what is known of its patch without measuring it."""

    ending: Ending = field(validator=validators.in_(get_args(Ending)))
    reason: str = ""
    """One line, if it did not simply end."""
    seconds: float = 0.0
    usage: AgentUsage = AgentUsage()
    turns: int = 0
    """Replies of the model, if the attempt was a loop over a model."""
    paths: tuple[str, ...] = ()
    """Files that the patch changes."""
    refused: tuple[str, ...] = ()
    """Changed files that are not in the patch: they may not be changed."""
    findings: tuple[Finding, ...] = ()
    overlap: Overlap = field(default=_NO_OVERLAP)
    """With the human's patch."""


def usage_in(output: str, agent: AgentCommand) -> AgentUsage:
    """Return the usage that a command reports in the last line of its output that is a JSON object."""
    for line in reversed(output.split("\n")[-1000:]):
        if line.lstrip().startswith("{"):
            try:
                found = json.loads(line)
            except (ValueError, RecursionError):
                continue
            tokens = [_number(found, name) for name in (agent.prompt_tokens, agent.tokens)]
            whole = [None if each is None else int(each) for each in tokens]
            return AgentUsage(whole[0], whole[1], _number(found, agent.cost))
    return AgentUsage()


def _number(found: Any, name: str) -> float | None:
    """Return the finite number from 0 on at a path like `usage.cost`; None if there is none."""
    if not name:
        return None
    for part in name.split("."):
        found = found.get(part) if isinstance(found, dict) else None
    number = isinstance(found, (int, float)) and not isinstance(found, bool)
    return float(found) if number and 0 <= found <= 1e12 else None
