"""Arguments and options shared by several commands, alone or in groups, each defined once.

A group is a dataclass whose fields become options of a command (`commands/verb.py`). A command with different help for
a shared option has its own group, derived from the shared one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from onchip.answer.bindings import Bindings
from onchip.answer.document import Granularity, Reading
from onchip.answer.options.choices import GREATEST_ALIGNMENT, GREATEST_BITS
from onchip.commands.bindings import dims_of, shapes_of, values_of
from onchip.commands.completion import accelerator_names, network_names
from onchip.commands.progress import show_limit
from onchip.commands.started import seconds_since_start
from onchip.errors import UsageError
from onchip.search.budget.limits import Limits, MipSolver

if TYPE_CHECKING:
    from onchip.api.target import Target

GREATEST_SEED = 2**31 - 1

Network: TypeAlias = Annotated[
    str,
    typer.Argument(
        metavar="NETWORK", help="A bundled name, or .onnx, .tflite, .pt2 or .json file.", autocompletion=network_names
    ),
]
PlanOrScheduleFile: TypeAlias = Annotated[
    Path, typer.Argument(metavar="FILE", help="A plan or schedule file, from whichever tool.")
]
CostOfPlan: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Cycle model of a plan's operators: macs or a plug-in.",
        show_default="the plan's cycle model, else macs",
    ),
]
Sram: TypeAlias = Annotated[
    str | None,
    typer.Option(metavar="SIZE|m_r|m_h|m_p", help="Size of the only scratchpad (512KiB, 1.5MB, 1048576), or a budget."),
]
AcceleratorName: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--accelerator",
        metavar="NAME|FILE",
        autocompletion=accelerator_names,
        help="Instead of --sram: a bundled name (NAME@64KiB resizes it) or a file.",
    ),
]
Alignment: TypeAlias = Annotated[
    int | None, typer.Option(min=1, max=GREATEST_ALIGNMENT, metavar="N", help="Alignment of every offset in bytes.")
]
Bits: TypeAlias = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=GREATEST_BITS,
        metavar="N",
        help="Bits of every element.",
        show_default="the data types of the model",
    ),
]
TimeLimit: TypeAlias = Annotated[
    float | None,
    typer.Option(metavar="S", help="Seconds for the whole command; by default until the answer is proven."),
]
Workers: TypeAlias = Annotated[int, typer.Option(min=1, metavar="N", help="Parallel workers.")]
Dask: TypeAlias = Annotated[
    str | None, typer.Option(metavar="ADDRESS", help="Address of a Dask scheduler that computes instead of --workers.")
]
Seed: TypeAlias = Annotated[
    int, typer.Option(min=0, max=GREATEST_SEED, metavar="N", help="Seed of all random choices.")
]
RequiredAccelerator: TypeAlias = Annotated[
    str,
    typer.Option(
        "--accelerator",
        metavar="NAME|FILE",
        autocompletion=accelerator_names,
        help="A bundled name (NAME@64KiB resizes it) or a file.",
    ),
]
AsJson: TypeAlias = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
Detail: TypeAlias = Annotated[
    Granularity,
    typer.Option(help="fused: merge normalisations and activations into the operator before; raw: keep every node."),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class BindingOptions:
    """Options that bind the open sizes and values of a network file."""

    dim: Annotated[
        list[str] | None, typer.Option("--dim", metavar="SYMBOL=N", help="Size of a symbolic dimension; repeatable.")
    ] = None
    shape: Annotated[
        list[str] | None,
        typer.Option("--shape", metavar="INPUT=1x3x224x224", help="Shape of a network input; repeatable."),
    ] = None
    value: Annotated[
        list[str] | None,
        typer.Option("--value", metavar="INPUT=N", help="Make a network input this constant; repeatable."),
    ] = None

    @property
    def bindings(self) -> Bindings:
        """Return the bindings; raises UsageError if a name has no value, or two values."""
        return Bindings(dims_of(self.dim), shapes_of(self.shape), values_of(self.value))


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadingOptions:
    """Options for the conversion of a network to a graph."""

    bits: Bits = None
    granularity: Detail = Granularity.FUSED
    open_sizes: BindingOptions = BindingOptions()

    @property
    def reading(self) -> Reading:
        """Return the requested reading; raises UsageError if a name has no value, or two values."""
        return replace(Reading.of(self.open_sizes.bindings, self.granularity), bits=self.bits)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryOptions:
    """Options for the target: one scratchpad of a size or a budget, or those of an accelerator."""

    sram: Sram = None
    accelerator: AcceleratorName = None
    alignment: Alignment = None

    @property
    def target(self) -> Target:
        """Return the target; raises InputError for an invalid size, UsageError if both are given."""
        from onchip.api.target import Target

        try:
            return Target.of_text(self.sram, self.accelerator, self.alignment)
        except UsageError as error:
            error.place = "--sram" if self.accelerator is None else error.place
            raise


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitOptions:
    """Options for the limits of a search: time, workers and seed."""

    time_limit: TimeLimit = None
    workers: Workers = 1
    seed: Seed = 0

    def limits(self, solver: MipSolver = MipSolver.CP_SAT) -> Limits:
        """Return the limits of a search; raises UsageError for an invalid time."""
        return Limits(seconds_of(self.time_limit), workers=self.workers, seed=self.seed, solver=solver)


@dataclass(frozen=True, slots=True, kw_only=True)
class PackingOptions:
    """Options for the capacity and the objective of a packing; raises UsageError for two objectives."""

    capacity: Annotated[str | None, typer.Option(metavar="SIZE", help="Bytes to pack into (1048576, 1MiB).")] = None
    alignment: Alignment = None
    minimize: Annotated[bool, typer.Option("--minimize", help="Find the minimum capacity.")] = False
    overflow: Annotated[
        bool, typer.Option("--overflow", help="If not everything fits, minimise the bytes outside the capacity.")
    ] = False
    split: Annotated[
        bool, typer.Option("--split", help="Split over the fewest allocations, none larger than the capacity.")
    ] = False

    def __post_init__(self) -> None:
        if self.overflow and self.minimize:
            raise UsageError(
                "--overflow and --minimize exclude each other", place="--overflow", expected="one of the two"
            )
        if self.split and (self.minimize or self.overflow):
            raise UsageError("--split excludes --minimize and --overflow", place="--split", expected="one objective")

    @property
    def capacity_bytes(self) -> int | None:
        """Return the capacity in bytes; raises InputError for an invalid size."""
        return bytes_of(self.capacity, "--capacity")


def seconds_of(time_limit: float | None) -> float | None:
    """Return the rest of the value of `--time-limit`, which counts from the start of the command.

    Raises UsageError for an invalid number.
    """
    if time_limit is None:
        return None
    if not 0 < time_limit < math.inf:
        raise UsageError(f"{time_limit:g} is invalid", place="--time-limit", expected="a number of seconds above 0")
    show_limit(time_limit)
    return max(0.0, time_limit - seconds_since_start())


def bytes_of(size: str | None, option: str) -> int | None:
    """Return the value of a size option in bytes; raises InputError that names the option."""
    from onchip.arch import sizes

    return None if size is None else sizes.bytes_of(size, option)
