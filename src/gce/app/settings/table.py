"""The table of all settings: `python -m gce.app.settings.table > docs/SETTINGS.md`."""

from __future__ import annotations

from itertools import groupby

from gce.app.settings.command_line import about
from gce.app.settings.fields import Setting
from gce.app.settings.records import all_settings
from gce.app.terminal import put

__all__ = ["settings_table"]

INTRODUCTION = """\
# Settings of a training run

`gce.app.settings.records.TrainSettings` holds all of them in nested frozen records. A setting's dotted name is the one
in `run.sqlite`, in `summary.json` under `config`, in reports and in errors; `gce train` and `gce ablate` take those
with an option on the command line. This file is made by `python -m gce.app.settings.table > docs/SETTINGS.md`.
"""


def settings_table() -> str:
    """Return one Markdown table per section."""
    lines = INTRODUCTION.split("\n")
    for section, settings in groupby(all_settings().values(), lambda each: each.name.rpartition(".")[0]):
        lines += [f"## {section or 'run'}", ""]
        lines += [about(section), ""] if section else []
        lines += ["| setting | option | default | values | unit | what it decides |", "|---|---|---|---|---|---|"]
        lines += [*map(_row, settings), ""]
    return "\n".join(lines).rstrip()


def _row(setting: Setting) -> str:
    default = "-" if setting.default in (None, "", ()) else f"`{setting.default}`"
    flag = f"`{setting.flag}`" if setting.flag else "-"
    cells = (f"`{setting.name}`", flag, default, setting.kind.expected, setting.unit or "-", setting.help)
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


if __name__ == "__main__":
    put(*settings_table().split("\n"))
