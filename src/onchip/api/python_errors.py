"""Errors of the Python API: options of the command line are named as arguments of the verbs."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from re import Match, sub
from typing import Final, ParamSpec, TypeVar

from onchip.errors import OnchipError

P = ParamSpec("P")
T = TypeVar("T")
ARGUMENTS: Final = {
    "sram": "target",
    "accelerator": "target",
    "objective": "minimize",
    "pareto": "minimize",
    "tile-sizes": "sizes",
    "maps-in-dram": "maps_stay",
    "dim": "dims",
    "shape": "shapes",
    "value": "values",
    "alignment": "alignment_bytes",
}
"""Arguments and options with another name than the option of the command line."""


def errors_in_python(verb: Callable[P, T]) -> Callable[P, T]:
    """Return the verb; its errors name arguments such as `time_limit` where commands have `--time-limit`."""

    @wraps(verb)
    def call(*positional: P.args, **named: P.kwargs) -> T:
        try:
            return verb(*positional, **named)
        except OnchipError as error:
            error.what = _in_python(error.what)
            error.place = error.place and _in_python(error.place)
            error.expected = error.expected and _in_python(error.expected)
            raise

    return call


def _in_python(text: str) -> str:
    return sub(r"--([a-z]+(?:-[a-z]+)*)", _argument, text)


def _argument(option: Match[str]) -> str:
    return ARGUMENTS.get(option[1], option[1].replace("-", "_"))
