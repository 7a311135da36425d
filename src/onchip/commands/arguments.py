"""Arguments and options shared by several commands, alone or in groups, each defined once; parsers of bindings.

A group is a dataclass whose fields become options of a command (`commands/verb.py`). A command with different help for
a shared option has its own group, derived from the shared one.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias

import typer

from onchip.answer.bindings import Bindings
from onchip.answer.document import Granularity, Reading
from onchip.answer.options.choices import GREATEST_ALIGNMENT, GREATEST_BITS, option
from onchip.commands.progress import seconds_since_start, show_limit
from onchip.errors import SuggestedBindings, UsageError
from onchip.search.budget.limits import Limits, MipSolver

if TYPE_CHECKING:
    from onchip.api.target import Target


COMPLETION_VARIABLE: Final = "_ONCHIP_COMPLETE"
"""Environment variable set by the shell script that `--install-completion` writes."""


def network_names(incomplete: str) -> list[str]:
    """Return the bundled networks whose names start with `incomplete`."""
    from onchip.formats.own.graph_json import bundled_networks

    return [name for name in bundled_networks() if name.startswith(incomplete)]


def accelerator_names(incomplete: str) -> list[str]:
    """Return the bundled accelerators whose names start with `incomplete`."""
    from onchip.formats.own.accelerator_yaml import bundled_accelerators

    return [name for name in bundled_accelerators() if name.startswith(incomplete)]


def accelerator_option(words: str) -> Any:  # noqa: ANN401 (Typer's own type)
    """Return the option `--accelerator` with a help text."""
    return typer.Option("--accelerator", metavar="NAME|FILE", autocompletion=accelerator_names, help=words)


def output_option(metavar: str, words: str) -> Any:  # noqa: ANN401 (Typer's own type)
    """Return the option `--output` with a help text."""
    return typer.Option("--output", "-o", metavar=metavar, help=words)


GREATEST_SEED = 2**31 - 1

Network: TypeAlias = Annotated[
    str,
    typer.Argument(
        metavar="NETWORK", help="A bundled name, or .onnx, .tflite, .pt2 or .json file.", autocompletion=network_names
    ),
]
PlanOrScheduleFile: TypeAlias = Annotated[
    Path, typer.Argument(metavar="FILE", help="A plan or schedule file, from any tool.")
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
    str | None, accelerator_option("Instead of --sram: a bundled name (NAME@64KiB resizes it) or a file.")
]
Alignment: TypeAlias = Annotated[
    int | None, typer.Option(min=1, max=GREATEST_ALIGNMENT, metavar="N", help="Alignment of every offset in bytes.")
]
Bits: TypeAlias = Annotated[
    int | None,
    typer.Option(
        min=1, max=GREATEST_BITS, metavar="N", help="Bits of every element.", show_default="the data types of the model"
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
RequiredAccelerator: TypeAlias = Annotated[str, accelerator_option("A bundled name (NAME@64KiB resizes it) or a file.")]
AsJson: TypeAlias = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
Detail: TypeAlias = Annotated[
    Granularity,
    typer.Option(help="fused: merge normalisations and activations into the operator before; raw: keep every node."),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class BindingOptions:
    """Options that bind the open sizes and values of a network file."""

    dim: list[str] | None = option(None, "Size of a symbolic dimension; repeatable.", "SYMBOL=N")
    shape: list[str] | None = option(None, "Shape of a network input; repeatable.", "INPUT=1x3x224x224")
    value: list[str] | None = option(None, "Make a network input this constant; repeatable.", "INPUT=N")

    @property
    def bindings(self) -> Bindings:
        """Return the bindings; raises UsageError if a name has no value, or two values."""
        return Bindings(*(bindings_of(f"--{name}", getattr(self, name)) for name in ("dim", "shape", "value")))


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
class PackedOptions:
    """Options for the capacity and the objective of one packing; raises UsageError for two objectives."""

    capacity: str | None = option(None, "Bytes to pack into (1048576, 1MiB).", "SIZE")
    alignment: Alignment = None
    minimize: bool = option(False, "Find the minimum capacity.")
    overflow: bool = option(False, "If not everything fits, minimise the bytes outside the capacity.")

    def __post_init__(self) -> None:
        if self.overflow and self.minimize:
            raise UsageError(
                "--overflow cannot be combined with --minimize", place="--overflow", expected="only one of the two"
            )

    @property
    def capacity_bytes(self) -> int | None:
        """Return the capacity in bytes; raises InputError for an invalid size."""
        return bytes_of(self.capacity, "--capacity")


@dataclass(frozen=True, slots=True, kw_only=True)
class PackingOptions(PackedOptions):
    """Options for a packing, which may be split over several allocations."""

    split: bool = option(False, "Split over the fewest allocations, none larger than the capacity.")

    def __post_init__(self) -> None:
        PackedOptions.__post_init__(self)
        if self.split and (self.minimize or self.overflow):
            what = "--split cannot be combined with --minimize or --overflow"
            raise UsageError(what, place="--split", expected="only one of them")


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


GREATEST_RANK: Final = 64
GREATEST_VALUES: Final = 4096
_GREATEST_DIGITS: Final = 18
_TRUTH: Final = {"true": 1, "false": 0}


def options_of(bindings: SuggestedBindings) -> str:
    """Return the options that state the bindings, quoted for a shell."""
    dims = [("--dim", f"{symbol}={size}") for symbol, size in bindings.dims.items()]
    shapes = [("--shape", f"{name}={'x'.join(map(str, shape))}") for name, shape in bindings.shapes.items()]
    values = [("--value", f"{name}={','.join(map(str, numbers))}") for name, numbers in bindings.values.items()]
    return shlex.join(word for option in (*dims, *shapes, *values) for word in option)


def _size(text: str) -> int | None:
    is_size = text.isascii() and text.isdecimal() and len(text) <= _GREATEST_DIGITS
    return int(text) if is_size else None


def _shape(text: str) -> tuple[int, ...] | None:
    sizes = [_size(size) for size in text.lower().split("x")]
    if not 1 <= len(sizes) <= GREATEST_RANK:
        return None
    known = tuple(size for size in sizes if size is not None)
    return known if len(known) == len(sizes) else None


def _numbers(text: str) -> tuple[float, ...] | None:
    numbers = [_number(number.strip().lower()) for number in text.split(",", GREATEST_VALUES)]
    known = tuple(number for number in numbers if number is not None)
    return known if len(known) == len(numbers) <= GREATEST_VALUES else None


def _number(text: str) -> float | None:
    if text in _TRUTH:
        return _TRUTH[text]
    try:
        return int(text) if len(text) <= _GREATEST_DIGITS + 1 else None
    except ValueError:
        pass
    try:
        number = float(text)
    except ValueError:
        return None
    return number if isfinite(number) else None


_BINDINGS: Final[Mapping[str, tuple[str, Callable[[str], object]]]] = {
    "--dim": ("NAME=N with N at least 0", _size),
    "--shape": ("INPUT=1x3x224x224 with sizes of at least 0", _shape),
    "--value": ("INPUT=N, or INPUT=N,N,...", _numbers),
    "--state": ("INPUT=OUTPUT", lambda text: text or None),
    "--bands": ("OPERATOR=N with N at least 1", lambda text: _size(text) or None),
}
"""The form of a binding by its option, and the parser of its value, which returns None for an invalid text."""


def bindings_of(flag: str, bindings: Sequence[str] | None) -> dict[str, Any]:
    """Return a map from name to value, integers as such; raises UsageError for an invalid value or two values."""
    expected, parse = _BINDINGS[flag]
    found: dict[str, object] = {}
    for binding in bindings or ():
        name, _, text = binding.rpartition("=")
        bound = parse(text) if name else None
        if bound is None:
            raise UsageError(f"{binding!r} is not a binding", place=flag, expected=expected)
        if found.setdefault(name, bound) != bound:
            what = f"{name!r} is bound to {found[name]} and {bound}"
            raise UsageError(what, place=flag, expected="one value")
    return found
