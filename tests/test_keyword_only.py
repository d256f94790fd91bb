"""How the domain's functions are called: what is needed by place or by name, options by name alone."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest

from gce.domain import algorithms, buffer, curriculum, statistics

FUNCTIONS = [
    getattr(module, name)
    for module in (algorithms, buffer, curriculum, statistics)
    for name in module.__all__
    if inspect.isfunction(getattr(module, name)) and name != "empty"  # its settings are its one argument
]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_an_option_is_given_by_name_and_anything_can_be(function: Callable[..., Any]) -> None:
    for parameter in inspect.signature(function).parameters.values():
        assert parameter.kind is not parameter.POSITIONAL_ONLY
        if parameter.default is not parameter.empty:
            assert parameter.kind is parameter.KEYWORD_ONLY
