"""Options of the command line, made from the settings."""

from __future__ import annotations

import argparse
from collections.abc import Collection, Mapping
from itertools import groupby
from typing import Any

from gce.app.parser import Parser
from gce.app.settings.fields import Setting, sections_in
from gce.app.settings.records import TrainSettings, all_settings

__all__ = ["about", "add_settings", "given_settings"]


def add_settings(parser: argparse.ArgumentParser, *, without: Collection[str] = ()) -> None:
    """An option for every setting that has one, in a group for each section; parsed values have dotted names."""
    offered = [each for each in all_settings().values() if each.flag and each.name not in without]
    if isinstance(parser, Parser):
        parser.common += [each.flag for each in offered if each.common]
    for section, settings in groupby(offered, lambda each: each.name.rpartition(".")[0]):
        group = parser.add_argument_group(section or "run", about(section) if section else None)
        for each in settings:
            _add(group, each)


def given_settings(arguments: argparse.Namespace) -> dict[str, Any]:
    """The settings among parsed arguments, by dotted name; those that were not given are not among them."""
    known = all_settings()
    return {name: value for name, value in vars(arguments).items() if name in known}


def about(section: str) -> str:
    """What a section's settings are about."""
    return sections_in(TrainSettings)[section].__doc__ or ""


def _add(group: Any, setting: Setting) -> None:
    common: Mapping[str, Any] = {"dest": setting.name, "default": argparse.SUPPRESS}
    if setting.is_switch:
        group.add_argument(setting.flag, action=argparse.BooleanOptionalAction, help=setting.help, **common)
        return
    choices = setting.choices
    metavar = None if choices else setting.metavar or setting.flag.removeprefix("--").replace("-", "_").upper()
    group.add_argument(
        setting.flag,
        type=setting.kind,
        choices=choices,
        metavar=metavar,
        help=setting.help + _default(setting),
        **common,
    )


def _default(setting: Setting) -> str:
    return f" (default {setting.default_text})" if setting.default_text else ""
