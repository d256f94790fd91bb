"""Find the storage of a run, a study or a checkpoint by its name on the command line."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path

from attrs import frozen

from gce.adapters.models.formats.adapter_files import MLX_FILES, PEFT_FILES, read_peft, state_of
from gce.adapters.runs.answer_index import AnswerIndex, AnswerQuery, Indexed, IndexedAnswer
from gce.adapters.runs.checkpoint_files import files_of_state, state_of_files
from gce.adapters.runs.directory_store import DirectoryRuns, run_of
from gce.adapters.runs.kept_open import KeptOpen
from gce.adapters.runs.memory_store import MemoryRuns
from gce.adapters.runs.postgres.store import PostgresRuns
from gce.adapters.runs.run_directory import writer_of
from gce.adapters.system.input_files import read_input
from gce.app.evaluation.stored_runs import base_of, best_iteration
from gce.app.terminal import put
from gce.domain.learning import ModelState
from gce.errors import BadInput, GceError, ModelError
from gce.ports.runs import RunReader, Runs

__all__ = [
    "IN_MEMORY",
    "STORES",
    "UNVERIFIED",
    "AnswerIndex",
    "AnswerQuery",
    "Checkpoint",
    "Indexed",
    "IndexedAnswer",
    "KeptOpen",
    "add_no_verify",
    "files_of_state",
    "find_adapter",
    "find_checkpoint",
    "folder_of",
    "open_run",
    "place_of",
    "runs_of",
    "state_of_files",
    "verifies",
    "writer_of",
]

STORES: Mapping[str, Runs] = {"postgresql://": PostgresRuns(), "postgres://": PostgresRuns(), "": DirectoryRuns()}
"""Storage by prefix of run names; the first match is used, so directories come last."""
IN_MEMORY = "memory"
"""Name of a run in memory that was given none."""
PEFT_PICKLE = "adapter_model.bin"
MOST_OF_A_CHECKPOINT = 16 * 2**30
"""Maximum size of each of its files, in bytes."""
UNVERIFIED = "Not verified: the records were not checked against the run's digests."


def runs_of(name: str | Path) -> Runs:
    """Return the storage of the run or study of this name."""
    return next(runs for prefix, runs in STORES.items() if str(name).startswith(prefix))


def place_of(run: str | Path | None, runs: Runs | None = None) -> tuple[Runs, str]:
    """Return the storage for a run of this name, and the run's name there; None for a run in memory.

    `runs` overrides the storage; by default the name determines it.
    """
    if run is None:
        return (MemoryRuns(), IN_MEMORY) if runs is None else (runs, "run")
    return (runs_of(run) if runs is None else runs), str(run)


def folder_of(run: str) -> Path:
    """The folder for what is made from a run: its directory, or the current one where it is kept elsewhere."""
    return Path(run) if isinstance(runs_of(run), DirectoryRuns) else Path()


def open_run(name: str | Path, *, verify: bool = True) -> AbstractContextManager[RunReader]:
    """Open a run for reading: see `gce.ports.runs.Runs.read`."""
    return runs_of(name).read(str(name), verify=verify)


def find_adapter(name: str | Path) -> ModelState:
    """Return the model state in a checkpoint's directory, verified against its run if it has one; of a run, the newest.

    Of the directory of an adapter that PEFT saved, its state before the first optimizer step.

    Raises:
        BadInput: there is none, or it is damaged, or PEFT's adapter is of another kind.
        DamagedStore: it differs from what the run wrote, or PEFT's files are inconsistent.
    """
    checkpoint = Path(name)
    if _is_peft(checkpoint):
        return _peft_state(checkpoint)[0]
    try:
        if str(name) in runs_of(name).find(str(name)):
            with open_run(name) as run:
                return run.checkpoint()[1]
        if (found := run_of(checkpoint)) is not None:
            # Later records may be damaged, so only the checkpoint is verified.
            with open_run(found[0], verify=False) as run:
                return run.checkpoint(found[1])[1]
        names = ("adapters.safetensors", "optimizer.safetensors", "state.json")
        return state_of_files({name: read_input(checkpoint / name, MOST_OF_A_CHECKPOINT) for name in names})
    except BadInput as error:
        raise BadInput(f"{error}: give a run's checkpoints/last, or PEFT's directory of an adapter") from error
    except GceError:
        raise
    except Exception as error:  # safetensors has its own exceptions.
        raise BadInput(f"the checkpoint {checkpoint} is damaged: {error}") from error


def _is_peft(folder: Path) -> bool:
    """Return whether a folder holds an adapter that PEFT saved, and no checkpoint."""
    return (folder / PEFT_FILES[0]).is_file() and not (folder / MLX_FILES[1]).is_file()


def _peft_state(folder: Path) -> tuple[ModelState, str | None]:
    """Return the state of an adapter that PEFT saved, and the name of its base."""
    if not (folder / PEFT_FILES[1]).is_file() and (folder / PEFT_PICKLE).is_file():
        raise BadInput(f"{folder} holds {PEFT_PICKLE}, a pickle, which gce does not load: save it as {PEFT_FILES[1]}")
    files = {name: read_input(folder / name, MOST_OF_A_CHECKPOINT) for name in PEFT_FILES}
    try:
        return state_of(read_peft(files, str(folder))), json.loads(files[PEFT_FILES[0]]).get("base_model_name_or_path")
    except ModelError as error:
        raise BadInput(f"{folder}: {error}") from error


@frozen(eq=False)
class Checkpoint:
    """A checkpoint as files in mlx-lm's layout, with its origin."""

    name: str
    files: Mapping[str, bytes]
    home: Path
    """The run's directory, or the checkpoint's own if it belongs to no run."""
    base: str | None
    """The base model that the run or PEFT names; None if neither made the checkpoint."""


def find_checkpoint(name: str | Path, which: str | None = None) -> Checkpoint:
    """Return the checkpoint at this path, or the run's `last` (default) or `best` checkpoint.

    Raises:
        BadInput: there is none, or `which` was given for a checkpoint.
        DamagedStore: it differs from what the run wrote.
    """
    path = Path(name)
    if str(name) in runs_of(name).find(str(name)):
        with open_run(name) as run:
            iteration, state = run.checkpoint(best_iteration(run) if which == "best" else None)
            files = files_of_state(iteration, state)
            return Checkpoint(f"iteration {iteration} of {run.name}", files, folder_of(str(name)), base_of(run))
    is_peft = _is_peft(path)
    if not is_peft and not (path / MLX_FILES[1]).is_file():
        raise BadInput(f"expected a run directory or a checkpoint, found no run.sqlite in {path}")
    if which is not None:
        raise BadInput(f"{path} is a checkpoint itself", hint="leave out {checkpoint}, or give its run")
    if is_peft:
        state, base = _peft_state(path)
        return Checkpoint(str(path), files_of_state(0, state), path, base)
    if (found := run_of(path)) is None:
        files = {name: read_input(path / name, MOST_OF_A_CHECKPOINT) for name in MLX_FILES}
        return Checkpoint(str(path), files, path, None)
    with open_run(found[0], verify=False) as run:
        files = files_of_state(*run.checkpoint(found[1]))
        return Checkpoint(str(path), files, Path(run.name), base_of(run))


def add_no_verify(parser: argparse.ArgumentParser) -> None:
    """Add the option `--no-verify`."""
    parser.add_argument(
        "--no-verify",
        action="store_true",
        help="skip the integrity check of the records (about 7 s per gigabyte); the output says so",
    )


def verifies(arguments: argparse.Namespace) -> bool:
    """Return whether to verify the run; if not, print a warning on standard error."""
    if arguments.no_verify:
        put(f"warning: {UNVERIFIED}", error=True)
    return not arguments.no_verify
