"""The compiled searches; the header of each says what it does.

Every search releases the interpreter lock, looks at its stop token in the innermost loop, and raises TypeError for
numbers of more than 64 bits (32, for what is counted), ValueError for what its header rules out.
"""

from collections.abc import Sequence
from enum import Enum

import numpy as np
from numpy.typing import NDArray

class StopToken:
    """How a search that runs in another thread is asked to end."""

    def __init__(self) -> None: ...
    def ask(self) -> None: ...
    @property
    def is_asked(self) -> bool: ...

class PackingOutcome(Enum):
    """Why a run of the packing search ended."""

    FOUND = ...
    EXHAUSTED = ...
    STOPPED = ...

class PackingBuffer:
    """A buffer in units, alive in the sections `first` to `stop - 1`.

    `last` is its highest legal offset, `twin` one with the same life and size that is placed before it, or -1. Its
    neighbours live in one of its sections at least.
    """

    def __init__(
        self, *, first: int, stop: int, size: int, last: int, twin: int, neighbours: Sequence[int]
    ) -> None: ...
    @property
    def first(self) -> int: ...
    @property
    def stop(self) -> int: ...
    @property
    def size(self) -> int: ...
    @property
    def last(self) -> int: ...

class PackingSearch:
    """Packs buffers, or proves that no section's limit is kept by any packing; keeps what it learns between runs."""

    def __init__(self, buffers: Sequence[PackingBuffer], limits: Sequence[int]) -> None: ...
    def run(self, rank: Sequence[int], most_nodes: int, stop: StopToken) -> PackingOutcome:
        """Begin anew, trying buffers of low rank first."""

    @property
    def nodes(self) -> int:
        """Decisions of the last run."""

    @property
    def offsets(self) -> list[int]:
        """By buffer, in units; of a packing if the last run found one."""

    @property
    def hardest_section(self) -> int:
        """The section that was most to blame in all runs, the first of equals."""

class LayerAxis:
    """A dimension of the input: `size` stored positions, seen by so many outputs through so many filter taps."""

    def __init__(self, *, outputs: int, filters: int, stride: int, dilation: int, padding: int, size: int) -> None: ...

class LayerShape:
    """A layer as it is executed; operands are input, weight, output, and loops stand as in LOOPS.

    `side_of` a loop is its place among P, R, Q, S, or -1; `is_channel` says of a loop that it leads to other elements
    of the input along no axis; `axes` are height and width.
    """

    def __init__(
        self,
        *,
        relevant: Sequence[Sequence[bool]],
        side_of: Sequence[int],
        is_channel: Sequence[bool],
        bits: Sequence[int],
        elements: Sequence[int],
        partial_bits: int,
        has_weight: bool,
        mac_energy_pj: float,
        axes: Sequence[LayerAxis],
    ) -> None: ...

class MachineLevel:
    """An on-chip memory, or DRAM; energies are of accesses of `shortest_bits`, `port` of each move is -1 for none."""

    def __init__(
        self,
        *,
        serves: Sequence[bool],
        capacity_bits: int,
        is_double_buffered: bool,
        shortest_bits: int,
        read_pj: float,
        write_pj: float,
        port: Sequence[int],
    ) -> None: ...

class LayerMachine:
    """The last level is DRAM, which has room for everything; `home` is the level where an operand lies whole."""

    def __init__(
        self,
        *,
        levels: Sequence[MachineLevel],
        units: Sequence[int],
        bits_per_cycle: Sequence[int],
        home: Sequence[int],
    ) -> None: ...

class LayerCosts:
    """Costs mappings of one layer on one machine."""

    def __init__(self, layer: LayerShape, machine: LayerMachine) -> None: ...
    def of(self, *chosen: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.int64]]:
        """Energies in pJ, cycles and statuses, a row each, of the columns of `Chosen`."""

class FactorKind:
    """Alike factors of a loop; with one more of them inside, a tile's number is greater by `step`."""

    def __init__(self, *, loop: int, size: int, step: int, count: int) -> None: ...

class FilledLevel:
    """A memory: `held` are three operands, or -1, in the order of the file; `elements` are of each operand and tile."""

    def __init__(
        self,
        *,
        capacity_bits: int,
        is_double_buffered: bool,
        adds_beside: bool,
        held: Sequence[int],
        is_home: Sequence[bool],
        elements: Sequence[Sequence[float]],
    ) -> None: ...

class LomaOrders:
    """All orders of the factors, filled into the memories from the units up."""

    def __init__(
        self,
        *,
        kinds: Sequence[FactorKind],
        iterations: Sequence[int],
        sums_are_left: Sequence[bool],
        is_left: Sequence[Sequence[bool]],
        levels: Sequence[FilledLevel],
        bits: Sequence[int],
        partial_bits: int,
        last_apart: Sequence[int],
    ) -> None: ...
    def fill(
        self,
        turn_count: NDArray[np.int64],
        turn_loop: NDArray[np.int64],
        turn_size: NDArray[np.int64],
        beside_at: NDArray[np.int64],
        cut: NDArray[np.int64],
    ) -> int:
        """Write the next mappings, a row each; how many, fewer than there are rows only at the end."""

class UnevenCut:
    """One cut of an operand, by tile; `need_bits` where sums arrive incomplete, and complete, by shared memory."""

    def __init__(
        self,
        *,
        energy_pj: Sequence[float],
        need_bits: Sequence[Sequence[Sequence[int]]],
        leaves_complete: Sequence[bool],
    ) -> None: ...

class UnevenSearch:
    """Labels from the empty tile on; lists of each operand, `least_to_come` by cuts placed and tile."""

    def __init__(
        self,
        *,
        kinds: Sequence[FactorKind],
        cuts: Sequence[Sequence[UnevenCut]],
        least_to_come: Sequence[Sequence[Sequence[float]]],
        capacity_bits: Sequence[int],
        is_open: Sequence[Sequence[bool]],
        worst_pj: float,
        starts_complete: bool,
    ) -> None: ...
    def go_on(self, tiles: int) -> bool:
        """Go on for so many tiles; False once the last is done."""

    def best(self) -> tuple[float, list[int]]:
        """Energy in pJ and actions of the best label, infinite where there is none; once the last tile is done.

        An action is a kind of factors that is added, or, after the kinds, an operand of which a cut is placed.
        """
