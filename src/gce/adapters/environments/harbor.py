"""`harbor:DIR`: a task directory of Harbor, or a directory of them, without the container.

An answer is a bash script in a fenced block, which is run in the task's working directory as the oracle's
`solution/solve.sh` is; or, where `answer_file` of the table `[metadata]` in `task.toml` or the option `writes` names a
file, the contents of that file. The candidate's part and the tests run in two sandboxes, one after the other: the
second gets the regular files that the first one left, and `tests/`, and it alone has a place for the reward. The host's
files, interpreter and installed packages stand in for the container image, there is no network, and commands that
would install something do nothing.

Options: `seconds` and `wait`, maxima for the candidate's part and the tests, whatever `task.toml` says; `memory` in
MiB; `writes`; `low`, `high` and `admit_at` as for `trl:`.

Format: see `harbor_files`. Reward: `/logs/verifier/reward.json`, its value `reward` or its only one, else
`/logs/verifier/reward.txt`.
"""

from __future__ import annotations

import base64
import json
import math
import os
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from attrs import field, frozen

from gce.adapters.environments.foreign import Given, listed_task, shares_of, text_digest
from gce.adapters.environments.harbor_files import Case, File, case_of, directories_of
from gce.adapters.environments.scorers import SLACK, ScorerFailed, installed_places, whole
from gce.adapters.sandboxes.process import Shown, Silent, Start
from gce.domain.tasks.task import Task
from gce.errors import BadInput, one_line

__all__ = ["open_task"]

OPTIONS = ("seconds", "wait", "memory", "writes", "low", "high", "admit_at")
MOST_LEFT, MOST_REWARD = 8 * 2**20, 2**16
"""Maximum bytes of what a candidate leaves, and of a reward file."""
HOME = "/tmp/tmp/home"
"""Below a name that no task's directory has, so that nothing of it is kept; see `harbor_files`."""
REWARDS = ("/tmp/logs/verifier/reward.json", "/tmp/logs/verifier/reward.txt")
_SYSTEM = ("/bin", "/sbin", "/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/share/perl", "/etc/alternatives")
_SCRIPT = re.compile("```bash\n(.+?)\n```", re.DOTALL)
ASKED = {
    False: "Answer with one bash script between ```bash and ```. It is run once, in {}, without a network.",
    True: "Answer with the contents of {} and nothing else.",
}
"""Behind the instruction."""

_NOTHING = "#!/bin/bash\nexit 0\n"
_REST = """#!/bin/bash
while [ $# -gt 0 ]; do
  case "$1" in run) shift;; -p|-w|--with|--python|--from) shift 2;; -*) shift;; *) break;; esac
done
[ $# -gt 0 ] && exec "$@"
"""
_PYTEST = """#!/bin/bash
if ! python3 -c 'from importlib.metadata import version; version("pytest-json-ctrf")' 2>/dev/null; then
  kept=()
  while [ $# -gt 0 ]; do case "$1" in --ctrf) shift 2;; --ctrf=*) shift;; *) kept+=("$1"); shift;; esac; done
  set -- "${kept[@]}"
fi
exec python3 -P -m pytest -p no:cacheprovider "$@"
"""
"""Without the report that a plug-in writes, where there is no such plug-in; with `-P`, modules that the candidate
left in the working directory are not imported in place of others."""


@frozen
class _Limits:
    """Maxima, whatever a task says."""

    seconds: int = field(default=60, validator=whole(1))
    wait: int = field(default=120, validator=whole(1))
    memory: int = field(default=4096, validator=whole(64))


def open_task(given: Given, start: Start, say: Callable[[str], None]) -> Task:
    """The task of one or several task directories.

    Args:
        given: what was named.
        start: starts a sandbox that works.
        say: told in one line what differs from the container.

    Raises:
        BadInput: there is no such directory, or a task needs what a sandbox does not give.
    """
    options = given.held_to(OPTIONS)
    try:
        limits = _Limits(**{name: options[name] for name in ("seconds", "wait", "memory") if name in options})
    except (ValueError, TypeError) as error:
        raise BadInput(f"{given.text}: {one_line(error)}") from error
    cases = [case_of(path, str(options.get("writes", ""))) for path in directories_of(Path(given.name).absolute())]
    if len({bool(case.answer_file) for case in cases}) > 1:
        raise BadInput(
            f"{given.text}: some tasks want a file and others a script: name them one by one, or writes=FILE"
        )
    _check_places(given, cases)
    if any("pytest" in (case.directory / "tests" / "test.sh").read_text("utf-8", "replace") for case in cases):
        _check_pytest(given)
    say(_differences(given, cases))
    return listed_task(
        given,
        _Sandboxed({case.name: case for case in cases}, start, limits, options.get("low", 0.0)),
        [_row(case) for case in cases],
        "harbor",
        extract="text" if cases[0].answer_file else _SCRIPT,
        shares=shares_of(len(cases)),
        **given.rewards(),
        max_tokens=2048,
        unread=("prompt", "answer"),
    )


def _check_places(given: Given, cases: Sequence[Case]) -> None:
    """Nothing that the sandbox shows may be where a task writes."""
    needed = [os.path.realpath(sys.executable), sys.base_prefix, *installed_places(), *_SYSTEM]
    for case in cases:
        for place in case.places:
            if at := next((path for path in needed if path.startswith(f"{place}/")), ""):
                raise BadInput(
                    f"{given.text}: task {case.name} writes to {place}, which holds {at}: install gce elsewhere for it"
                )


def _check_pytest(given: Given) -> None:
    """Without it, every answer would be wrong."""
    if find_spec("pytest") is None:
        raise BadInput(f"{given.text}: its tests run pytest, which is not installed: pip install pytest")


def _differences(given: Given, cases: Sequence[Case]) -> str:
    left_out = list(dict.fromkeys(step for case in cases for step in case.left_out))
    said = f"note: {given.text} runs in this machine's sandbox in place of its container image, without a network"
    shown = "; ".join(f"{step:.60}" for step in left_out[:3])
    return f"{said}; not done: {shown}{', ...' if len(left_out) > 3 else ''}" if left_out else said


def _row(case: Case) -> dict[str, Any]:
    asked = ASKED[bool(case.answer_file)].format(case.answer_file or case.workdir)
    prompt = f"{case.instruction}\n\n{asked}"
    # Tasks may differ in their files alone.
    digest = text_digest(repr((prompt, case.files)))
    row = {"prompt": prompt, "case": case.name, "digest": digest, **case.said}
    return {**row, "answer": case.oracle} if case.oracle else row


class _Sandboxed:
    """Scores answers as a worker of `Scorers` does: each in sandboxes of its own.

    `low` is the reward of a candidate that leaves what cannot be tested.
    """

    def __init__(self, cases: Mapping[str, Case], start: Start, limits: _Limits, low: float) -> None:
        self._cases, self._start, self._limits, self._low = cases, start, limits, low
        self._packages = installed_places()

    def call(self, *call: Any) -> Any:
        """See `Scorers.call`."""
        _score, answer, row = call
        return self._score(answer, self._cases[row["case"]])

    def each(self, calls: Iterable[Sequence[Any]]) -> Iterator[Any]:
        """See `Scorers.each`."""
        for call in calls:
            try:
                yield self.call(*call)
            except ScorerFailed as failed:
                yield failed

    def _score(self, answer: str, case: Case) -> float:
        text = base64.b64encode(answer.encode("utf-8", "surrogatepass")).decode("ascii")
        files: list[File] = [_placed(each) for each in case.files]
        if case.answer_file:
            files.append(_placed((case.answer_file, 0o644, text)))
        else:
            script: File = ("/tmp/answer.sh", 0o755, text)
            said = self._run(
                case,
                (("", "/solution"),),
                files=[*files, script],
                places=["/tmp/solution"],
                command=["bash", "/tmp/answer.sh"],
                seconds=min(self._limits.seconds, case.agent_seconds),
                collect=[f"/tmp{place}" for place in case.places],
                most=MOST_LEFT,
            )
            files = said["files"]
            # It left more than it may, or a file in place of the working directory.
            if not said["whole"] or f"/tmp{case.workdir}" in {path for path, _, _ in files}:
                return self._low
        said = self._run(
            case,
            ((str(case.directory / "tests"), "/tests"), ("", "/logs")),
            files=files,
            places=["/tmp/logs/verifier", "/tmp/logs/artifacts", "/tmp/logs/agent"],
            command=["bash", "/tests/test.sh"],
            seconds=min(self._limits.wait, case.tests_seconds),
            collect=list(REWARDS),
            most=MOST_REWARD,
            environment=case.tests_environment,
        )
        if said["ended"] is None:
            raise ScorerFailed("time", "its tests did not end in time")
        return _reward(said)

    def _run(
        self,
        case: Case,
        shown: Shown,
        *,
        places: list[str],
        files: list[Any],
        environment: Mapping[str, str] | None = None,
        seconds: int,
        **job: Any,
    ) -> dict[str, Any]:
        """Run one command in a sandbox of its own."""
        shown += tuple(("", place) for place in case.places)
        shown += tuple((path, path) for path in (*_SYSTEM, *self._packages) if os.path.isdir(path))
        job |= {
            "places": [*places, f"{HOME}/.local/bin", *(f"/tmp{place}" for place in (*case.places, case.workdir))],
            "files": [*files, *_commands()],
            "directory": case.workdir,
            "environment": {**_variables(self._packages), **case.environment, **(environment or {})},
            "seconds": seconds,
            "memory": min(case.memory, self._limits.memory * 2**20),
        }
        try:
            process = self._start(shown, "shell_inside")
            try:
                process.give(job, time.monotonic() + SLACK)
                process.allow(time.monotonic() + seconds + SLACK)
                found: dict[str, Any] = json.loads(process.exchange(b"run", 4 * MOST_LEFT))
            finally:
                process.close()
        except (OSError, Silent, ValueError) as error:
            raise ScorerFailed("ended", f"the sandbox: {one_line(error)}") from error
        if found["problem"]:
            raise ScorerFailed("ended", f"the sandbox did not start {job['command'][0]}: {one_line(found['problem'])}")
        return found


def _placed(file: File) -> File:
    path, mode, text = file
    return (path if path.startswith("/tmp/") else f"/tmp{path}"), mode, text


def _variables(packages: Sequence[str]) -> dict[str, str]:
    """The whole environment inside, without a task's own."""
    *installed, own = packages
    return {
        "PATH": "/tmp/bin:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
        "HOME": HOME,
        "LANG": "C.UTF-8",
        "PYTHONPATH": ":".join([*installed, os.path.dirname(own)]),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONNOUSERSITE": "1",
        "PYTHONHASHSEED": "0",
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }


def _commands() -> list[File]:
    """Commands inside: this interpreter, and what stands in for installers."""
    python = f'#!/bin/bash\nexec {os.path.realpath(sys.executable)} "$@"\n'
    nothing = ("apt", "apt-get", "curl", "pip", "pip3", "wget")
    texts = {"python": python, "python3": python, "sudo": _REST, "uv": _REST, "uvx": _REST, "pytest": _PYTEST}
    texts |= dict.fromkeys(nothing, _NOTHING)
    found = [(f"/tmp/bin/{name}", 0o755, text) for name, text in texts.items()]
    found.append((f"{HOME}/.local/bin/env", 0o644, ""))
    return [(path, mode, base64.b64encode(text.encode()).decode("ascii")) for path, mode, text in found]


def _reward(said: Mapping[str, Any]) -> float:
    """The reward that the tests wrote.

    Raises:
        ScorerFailed: there is none.
    """
    files = {path: base64.b64decode(text).decode("utf-8", "replace") for path, _, text in said["files"]}
    by_json, by_text = (files.get(path) for path in REWARDS)
    if by_json is None and by_text is None:
        last = next((line for line in reversed(said["said"].splitlines()) if line.strip()), "nothing")
        raise ScorerFailed("raised", f"its tests wrote no reward (exit status {said['ended']}; last line: {last:.120})")
    try:
        if by_json is not None:
            named = json.loads(by_json)
            value: Any = (
                named["reward"] if "reward" in named else next(iter(named.values())) if len(named) == 1 else None
            )
        else:
            value = float((by_text or "").strip())
        if isinstance(value, bool) or not math.isfinite(value):
            raise ValueError
    except (ValueError, TypeError, AttributeError, RecursionError, OverflowError) as error:
        raise ScorerFailed(
            "nonsense", f"its tests wrote no number as the reward: {by_json or by_text!r:.60}"
        ) from error
    return float(value)
