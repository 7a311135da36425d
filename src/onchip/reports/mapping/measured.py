"""Mappings as they were measured: what they reach, what the model says, and what a library reaches on the same."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.box import SIMPLE
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from onchip.reports.shared.words import printable


@dataclass(frozen=True, slots=True)
class MeasuredMapping:
    """One mapping measured; `error` is the greatest difference from its peer's values, over the greatest of these."""

    names: tuple[str, ...]
    macs: int
    is_integer: bool
    seconds: float
    peer: str
    peer_seconds: float
    ratio: float
    predicted_cycles: float
    measured_cycles: float
    error: float
    is_right: bool

    @property
    def gflops(self) -> float:
        """Return billions of operations a second, two for each multiply-accumulate."""
        return 2e-9 * self.macs / self.seconds

    @property
    def peer_gflops(self) -> float:
        """Return what the peer reaches, in the same unit."""
        return 2e-9 * self.macs / self.peer_seconds


def measured_object(measured: Sequence[MeasuredMapping]) -> dict[str, object]:
    """One mapping is one object; several are a list of `layers`."""
    rows = [_row(one) for one in measured]
    return rows[0] if len(rows) == 1 else {"layers": rows}


def measured_table(measured: Sequence[MeasuredMapping]) -> Iterator[RenderableType]:
    """Yield a row for each mapping, and a line for each that computes something else."""
    table = Table(box=SIMPLE, collapse_padding=True, pad_edge=False)
    table.add_column("layer")
    for name in ("Gop/s", "of peer", "ratio", "predicted", "measured", "ratio"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("peer")
    for one in measured:
        table.add_row(
            printable(one.names[0]),
            f"{one.gflops:.1f}",
            f"{one.peer_gflops:.1f}",
            f"{one.ratio:.2f}",
            f"{one.predicted_cycles:,.0f}",
            f"{one.measured_cycles:,.0f}",
            f"{one.predicted_cycles / one.measured_cycles:.2f}",
            one.peer,
        )
    yield table
    for one in measured:
        if not one.is_right:
            yield Text(
                f"{printable(one.names[0])}: its values differ from the peer's by {one.error:.2g} of the greatest"
            )


def _row(one: MeasuredMapping) -> dict[str, object]:
    return {
        "names": list(one.names),
        "macs": one.macs,
        "seconds": one.seconds,
        "gflops": one.gflops,
        "numpy_gflops": one.peer_gflops if one.peer == "numpy" else None,
        "onnxruntime_gflops": one.peer_gflops if one.peer == "onnxruntime" else None,
        "ratio": one.ratio,
        "predicted_cycles": one.predicted_cycles,
        "measured_cycles": one.measured_cycles,
        "predicted_of_measured": one.predicted_cycles / one.measured_cycles,
        "error": one.error,
        "is_right": one.is_right,
    }
