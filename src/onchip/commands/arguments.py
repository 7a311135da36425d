"""Arguments that several verbs share, each said once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from onchip.errors import InputError, UsageError

GREATEST_SEED = 2**31 - 1
GREATEST_ALIGNMENT = 2**30

Network: TypeAlias = Annotated[str, typer.Argument(metavar="NETWORK", help="A bundled name, or .onnx or .json file.")]
PlanFile: TypeAlias = Annotated[Path, typer.Argument(metavar="PLAN.json", help="A plan file, from whichever tool.")]
Sram: TypeAlias = Annotated[
    str | None,
    typer.Option(metavar="SIZE|m_r|m_h|m_p", help="One scratchpad of this size (512KiB, 1.5MB, 1048576) or budget."),
]
AcceleratorName: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--accelerator",
        metavar="NAME|FILE",
        help="Instead of --sram: a bundled name (NAME@64KiB resizes it) or a file.",
    ),
]
Alignment: TypeAlias = Annotated[
    int | None, typer.Option(min=1, max=GREATEST_ALIGNMENT, metavar="N", help="Every offset is a multiple of N bytes.")
]
Bits: TypeAlias = Annotated[int | None, typer.Option(min=1, metavar="N", help="Bits per element; else the model's.")]
Dims: TypeAlias = Annotated[
    list[str] | None, typer.Option("--dim", metavar="NAME=N", help="Bind a symbolic dimension; repeatable.")
]
TimeLimit: TypeAlias = Annotated[float | None, typer.Option(metavar="S", help="Seconds; else until proven.")]
Workers: TypeAlias = Annotated[int, typer.Option(min=1, metavar="N", help="Parallel workers.")]
Seed: TypeAlias = Annotated[int, typer.Option(min=0, max=GREATEST_SEED, metavar="N", help="Seed of all choices.")]
AsJson: TypeAlias = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
GREATEST_BITS = 64
ElementBits: TypeAlias = Annotated[
    int, typer.Option("--bits", min=1, max=GREATEST_BITS, metavar="N", help="Bits of an element of every operand.")
]
PartialBits: TypeAlias = Annotated[
    int | None,
    typer.Option(min=1, max=GREATEST_BITS, metavar="N", help="Bits of a sum in the making; else as many as fit."),
]


def seconds_of(time_limit: float | None) -> float | None:
    """Return the value of `--time-limit`; raises UsageError."""
    if time_limit is not None and not 0 < time_limit < math.inf:
        raise UsageError(f"it is {time_limit:g}", place="--time-limit", expected="a number of seconds above 0")
    return time_limit


def bytes_of(size: str | None, option: str) -> int | None:
    """Return the value of an option that is a size; raises InputError that names the option."""
    from onchip.formats.sizes import parse_size

    try:
        return None if size is None else parse_size(size)
    except InputError as error:
        error.place = error.place or option
        raise


def dims_of(bindings: Sequence[str] | None) -> dict[str, int]:
    """Return the values of `--dim`; raises UsageError."""
    dims: dict[str, int] = {}
    for binding in bindings or ():
        name, _, number = binding.rpartition("=")
        if not name or not number.isdecimal() or int(number) < 1:
            raise UsageError(f"{binding!r} binds nothing", place="--dim", expected="NAME=N with N at least 1")
        if dims.setdefault(name, int(number)) != int(number):
            raise UsageError(
                f"{name!r} is bound to {dims[name]} and {int(number)}", place="--dim", expected="one value"
            )
    return dims
