"""Mappings as they were measured: what they reach, what the model says, and what a library reaches on the same."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rich.box import SIMPLE
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from onchip.reports.shared.words import printable


@dataclass(frozen=True, slots=True)
class MeasuredMapping:
    """One mapping measured beside a peer, whose time over its own, run in turn, has the median `ratio`.

    `model_cycles` are those of the mapping as it is written, `predicted_cycles` those of what the machine makes of it;
    `error` is the greatest difference from the peer's values, over the greatest of these.
    """

    names: tuple[str, ...]
    macs: int
    is_integer: bool
    seconds: float
    peer: str
    peer_seconds: float
    numpy_seconds: float
    ratio: float
    model_cycles: float
    predicted_cycles: float
    clock_mhz: float | None
    error: float
    is_right: bool

    @property
    def gflops(self) -> float:
        """Return billions of operations a second, two for each multiply-accumulate."""
        return 2e-9 * self.macs / self.seconds

    @property
    def measured_cycles(self) -> float | None:
        """Return its time in cycles of the accelerator's clock; None without one."""
        return None if self.clock_mhz is None else 1e6 * self.clock_mhz * self.seconds

    @property
    def predicted_of_measured(self) -> float | None:
        """Return the cycles predicted over those measured; None where the accelerator has no clock."""
        return None if self.measured_cycles is None else self.predicted_cycles / self.measured_cycles

    @property
    def peer_gflops(self) -> float:
        """Return what the peer reaches, in the same unit."""
        return 2e-9 * self.macs / self.peer_seconds


@dataclass(frozen=True, slots=True)
class MeasuredMappings:
    """The mappings of a file that were measured, and the names of the layers that have no form in C."""

    measured: tuple[MeasuredMapping, ...]
    left_out: tuple[str, ...] = ()


def measured_object(found: MeasuredMappings) -> dict[str, object]:
    """One mapping is one object; several are a list of `layers`, and what was left out."""
    rows = [_row(one) for one in found.measured]
    is_one = len(rows) == 1 and not found.left_out
    return rows[0] if is_one else {"layers": rows, "left_out": list(found.left_out)}


def measured_table(found: MeasuredMappings) -> Iterator[RenderableType]:
    """Yield a row for each mapping, and a line for each that computes something else or was left out."""
    table = Table(box=SIMPLE, collapse_padding=True, pad_edge=False)
    table.add_column("layer")
    for name in ("Gop/s", "of peer", "ratio", "predicted", "measured", "ratio"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("peer")
    for one in found.measured:
        table.add_row(
            printable(one.names[0]),
            f"{one.gflops:.1f}",
            f"{one.peer_gflops:.1f}",
            f"{one.ratio:.2f}",
            f"{one.predicted_cycles:,.0f}",
            "no clock" if one.measured_cycles is None else f"{one.measured_cycles:,.0f}",
            "" if one.predicted_of_measured is None else f"{one.predicted_of_measured:.2f}",
            one.peer,
        )
    yield table
    for one in found.measured:
        if not one.is_right:
            yield Text(
                f"{printable(one.names[0])}: its values differ from the peer's by {one.error:.2g} of the greatest"
            )
    for name in found.left_out:
        yield Text(f"{printable(name)}: it has no weights, and is left out")


def _row(one: MeasuredMapping) -> dict[str, object]:
    return {
        "names": list(one.names),
        "peer": one.peer,
        "macs": one.macs,
        "seconds": one.seconds,
        "gflops": one.gflops,
        "numpy_gflops": 2e-9 * one.macs / one.numpy_seconds,
        "onnxruntime_gflops": one.peer_gflops if one.peer == "onnxruntime" else None,
        "ratio": one.ratio,
        "predicted_cycles": one.predicted_cycles,
        "model_cycles": one.model_cycles,
        "measured_cycles": one.measured_cycles,
        "predicted_of_measured": one.predicted_of_measured,
        "error": one.error,
        "is_right": one.is_right,
    }
