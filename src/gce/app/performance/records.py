"""Records of other benchmarks as drafts of tasks, and performance runs as records of ISO-Bench.

A draft has all that a record says. Where the record's first script defines `setup`, `run` and `equal`, it is the
workload. What is missing, a person has to write.
"""

from __future__ import annotations

import json
import re
from ast import FunctionDef
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from gce.app.performance import drafts
from gce.app.performance.drafts import Draft, task_name, write_draft
from gce.app.performance.stages import MOST_RECORDS, prepared_subject, rows_of
from gce.app.wiring.files import new_output, parse_json, read_input, whole_folder
from gce.app.wiring.performance import History, open_history, read_records
from gce.domain.performance.collecting import draft_tests, draft_workload, targets_of
from gce.domain.performance.gso import is_gso, iso_of
from gce.domain.performance.iso_bench import IsoRecord, measured_record, record_of_task, texts_in
from gce.domain.performance.overlap import definitions, parsed
from gce.domain.performance.patches import Tree, difference
from gce.domain.serialization import from_plain, to_plain
from gce.errors import BadInput, one_line

__all__ = ["export_records", "import_records"]

_MARK = re.compile(rb'\{"repo": ')


def import_records(file: Path, out: Path, *, repository: Path | None = None) -> list[str]:
    """Write a draft of a task for each record of a file, and return their names.

    Args:
        file: JSON with a list of records, or with one record a line.
        out: folder for the drafts; new, or empty.
        repository: local clone that has the commits; without it, drafts have no sources.

    Raises:
        BadInput: no such file, a record that is none, two of one name, a commit that is not in the repository, or trees
            of more than `MOST_DRAFTED` bytes together.
    """
    found = _records(file)
    names = [task_name(record.instance_id) for _, record in found]
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise BadInput(f"{file} has two records with the instance_id {twice[0]!r}")
    size = 0
    with whole_folder(out, durable=False) as folder, ExitStack() as stack:
        history = None if repository is None else stack.enter_context(open_history(repository))
        for name, (data, record) in zip(names, found, strict=True):
            scripts = (record.task_record().efficiency_test, *texts_in(data.get("tests")))
            draft = _draft(name, record, scripts[0], _trees(record, history))
            size += draft.size
            if size > drafts.MOST_DRAFTED:
                most = f"{drafts.MOST_DRAFTED // 2**20:,} MiB"
                raise BadInput(f"drafts up to {name} have more than {most} of sources: import fewer records at once")
            write_draft(draft, folder / name)
            kept = folder / name / ("gso.json" if is_gso(data) else IsoRecord.FILE)
            kept.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
            for number, script in enumerate(scripts):
                if script and script != draft.workload:
                    place = folder / name / f"efficiency_test{f'_{number}' if number else ''}.py"
                    place.write_text(script, encoding="utf-8")
    return names


def _trees(record: IsoRecord, history: History | None) -> dict[str, Tree]:
    if history is None:
        return {}
    return {"base": history.tree(record.base_commit), "human": history.tree(record.head_commit)}


def _draft(name: str, record: IsoRecord, script: str, trees: Mapping[str, Tree]) -> Draft:
    targets = targets_of(difference(trees["base"], trees["human"], ("*.py",)).changes) if trees else ()
    defined = {each for each, node in definitions(parsed(script) or []) if isinstance(node, FunctionDef)}
    return Draft(
        name=name,
        trees=trees,
        workload=script if {"setup", "run", "equal"} <= defined else draft_workload(targets),
        tests=draft_tests(targets),
        notes=record.notes,
        record=record.task_record(),
    )


def export_records(run: Path, out: Path, *, force: bool = False) -> int:
    """Write a record for each task of a run, one a line, and return their number.

    A record that was imported is kept as it was, but for durations and gain of the human's form where the run has
    measured them.

    Raises:
        BadInput: no run, a task that is not prepared, or the file may not be written.
    """
    plan, rows = rows_of(run)
    lines = []
    for planned in plan.tasks:
        subject = prepared_subject(run, planned.name)
        kept = run / "tasks" / planned.name / IsoRecord.FILE
        if kept.is_file():
            record = _read(parse_json(read_input(kept, MOST_RECORDS), str(kept)), str(kept))
        else:
            record = record_of_task(subject.task, subject.human_patch)
        found = [row.comparison for row in rows if (row.item.task, row.item.agent) == (planned.name, "human")]
        human = [each for each in found if not each.failed]
        lines.append(json.dumps(to_plain(measured_record(record, human))))
    with new_output(out, mark=_MARK, replace=force) as file:
        file.write("".join(f"{line}\n" for line in lines).encode())
    return len(lines)


def _records(file: Path) -> list[tuple[Mapping[str, Any], IsoRecord]]:
    if file.suffix == ".json":
        found = parse_json(read_input(file, MOST_RECORDS), str(file))
        several = found if isinstance(found, list) else [found]
    else:
        several = read_records(file)
    return [(each, _read(each, f"{file}, record {number}")) for number, each in enumerate(several, 1)]


def _read(data: Any, where: str) -> IsoRecord:
    """Return the record in plain data; missing fields, and those that are null, have their default."""
    if not isinstance(data, Mapping):
        raise BadInput(f"{where}: expected an object, got {data!r:.60}")
    try:
        json.dumps(data, ensure_ascii=False).encode()
        fields = iso_of(data) if is_gso(data) else data
        return from_plain(IsoRecord, {name: value for name, value in fields.items() if value is not None})
    except UnicodeEncodeError as error:
        raise BadInput(f"{where}: expected Unicode text, got half of a surrogate pair") from error
    except ValueError as error:
        raise BadInput(f"{where}: {one_line(error)}") from error
