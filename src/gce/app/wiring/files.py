"""Files that the application reads and writes."""

from __future__ import annotations

from gce.adapters.system.atomic_folder import whole_folder
from gce.adapters.system.input_files import (
    parse_json,
    parse_toml,
    read_input,
    read_standard_input,
    standard_input_lines,
)
from gce.adapters.system.output_files import check_apart, check_appended, check_output, new_output, write_output

__all__ = [
    "check_apart",
    "check_appended",
    "check_output",
    "new_output",
    "parse_json",
    "parse_toml",
    "read_input",
    "read_standard_input",
    "standard_input_lines",
    "whole_folder",
    "write_output",
]
