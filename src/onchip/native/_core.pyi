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

class JointOutcome(Enum):
    """Why a joint search ended; exhausted: no plan costs less than the upper bound."""

    FOUND = ...
    EXHAUSTED = ...
    STOPPED = ...
    STATES_SPENT = ...
    MEMORY_SPENT = ...

class JointTensor:
    """A tensor in units of the alignment; its store costs 0 where DRAM has a copy whenever it could leave.

    Of what it costs the first of two parts pays `first_load_cost` and `first_store_cost`.
    """

    def __init__(
        self,
        *,
        units: int,
        load_cost: int,
        store_cost: int,
        may_end_short: bool,
        first_load_cost: int = 0,
        first_store_cost: int = 0,
    ) -> None: ...

class JointOperator:
    """An operator: tensors and earlier operators by their numbers, each list rising.

    `overwritables` are what it reads and may write to the bytes of: (tensor, units saved, group), by group.
    """

    def __init__(
        self,
        *,
        reads: Sequence[int],
        writes: Sequence[int],
        predecessors: Sequence[int],
        overwritables: Sequence[tuple[int, int, int]] = (),
    ) -> None: ...

class JointSearch:
    """Searches for the order and the residencies of least cost below `upper_bound`.

    Of a problem of two parts every plan costs each of them at least `least_of_first` and `least_of_second`.
    """

    def __init__(
        self,
        tensors: Sequence[JointTensor],
        operators: Sequence[JointOperator],
        *,
        capacity_units: int,
        upper_bound: int = ...,
        greed: int = 0,
        seed: int = 0,
        most_states: int = ...,
        most_bytes: int = ...,
        workers: int = 1,
        least_of_first: int = 0,
        least_of_second: int = 0,
    ) -> None: ...
    def run(self, stop: StopToken) -> JointOutcome:
        """Search, once; raises RuntimeError the second time."""

    @property
    def states(self) -> int:
        """States built and kept, and choices listed; may be read while it runs, as may `lower_bound`."""

    @property
    def lower_bound(self) -> int:
        """A bound on what every plan costs that the search may find."""

    @property
    def cost(self) -> int:
        """What the plan found costs; -1 before. Several workers that were stopped may have one that is not proven."""

    @property
    def moves(self) -> list[tuple[int, list[int]]]:
        """Each operator of the plan found, and what is evicted before it."""

class NetworkOutcome(Enum):
    """Why a run of a network ended; stuck: nothing can happen any more, and tasks are left."""

    FINISHED = ...
    STOPPED = ...
    STUCK = ...
    TOO_LONG = ...

class NetworkTaskKind(Enum):
    """What an endpoint does: send packets, compute; a barrier is done by nobody, and at once."""

    SEND = ...
    COMPUTE = ...
    BARRIER = ...

class NetworkEndpoint:
    """A place on a router's port (local, north, east, south, west).

    The tail of a packet it sends waits `read_cycles` after the head was made; one it receives counts `write_cycles`
    after its tail.
    """

    def __init__(self, *, router: int, port: int, read_cycles: int, write_cycles: int) -> None: ...

class NetworkShape:
    """A mesh of at most 64 routers, row by row, with its channels and at most 64 endpoints."""

    def __init__(
        self,
        *,
        columns: int,
        rows: int,
        packet_flits: int,
        buffer_flits: int,
        hop_cycles: int,
        credit_cycles: int,
        injection_flits: int,
        injection_cycles: int,
        ejection_cycles: int,
        endpoints: Sequence[NetworkEndpoint],
    ) -> None: ...

class NetworkTask:
    """`size` is packets or cycles, `receivers` a set of endpoints as bits; it waits for earlier tasks or a cycle."""

    def __init__(
        self,
        kind: NetworkTaskKind,
        actor: int,
        size: int,
        earliest: int,
        receivers: int,
        waits_for: Sequence[int],
    ) -> None: ...

class NetworkSimulation:
    """Runs tasks on a network, cycle by cycle."""

    def __init__(self, network: NetworkShape, tasks: Sequence[NetworkTask]) -> None: ...
    def run(self, last_cycle: int, stop: StopToken) -> NetworkOutcome:
        """Run on until all tasks have ended, or to a cycle."""

    @property
    def cycles(self) -> int:
        """When the last task ended that has ended."""

    @property
    def flit_hops(self) -> int:
        """How many flits passed how many outputs of routers."""

    @property
    def begins(self) -> list[int]:
        """When each task began; -1 of one that has not."""

    @property
    def ends(self) -> list[int]:
        """When each task ended; -1 of one that has not."""

class ArenaBlock:
    """A buffer alive in the sections `first` to `stop - 1`, for so many steps; `size` is padded, `used` is not."""

    def __init__(self, *, first: int, stop: int, size: int, used: int, steps: int) -> None: ...
    @property
    def first(self) -> int: ...
    @property
    def stop(self) -> int: ...
    @property
    def size(self) -> int: ...
    @property
    def used(self) -> int: ...
    @property
    def steps(self) -> int: ...

class JoinedBlocks:
    """Blocks joined in twos without waste: of equal lives upon each other, of equal sizes right after each other.

    Ends early if asked to stop. Raises ValueError, naming the entry, for what no block can be.
    """

    def __init__(self, blocks: Sequence[ArenaBlock], stop: StopToken) -> None: ...
    def left(self) -> list[ArenaBlock]:
        """Return what is no part of another block."""

    def offsets(self, offsets_left: Sequence[int]) -> list[int]:
        """Return the offsets by block as given, from those of what is left; raises ValueError for another number."""

class ArenaSearch:
    """Packs blocks as low as it can, and keeps the best packing; proves nothing."""

    def __init__(self, blocks: Sequence[ArenaBlock], seed: int) -> None: ...
    def place(self, order: Sequence[int], *, in_smallest_gap: bool, stop: StopToken) -> bool:
        """Place one after another, in the lowest or the smallest gap; False if asked to stop before the last."""

    def fill_skylines(self, rounds: int, target: int, stop: StopToken) -> None:
        """Fill so many skylines more, or until the arena is at most the target."""

    def offer(self, offsets: Sequence[int]) -> None:
        """Keep a packing found elsewhere if it is lower; raises ValueError where there is not an offset for each."""

    @property
    def arena(self) -> int:
        """The least arena so far; 2^60 while there is none."""

    @property
    def offsets(self) -> list[int]:
        """By block, of the least arena so far."""

class ArenaRepair:
    """Lowers a packing: puts what ends too high in again, where it pushes out what weighs least; proves nothing.

    Raises ValueError for what no block can be, and where there is not an offset for each.
    """

    def __init__(self, blocks: Sequence[ArenaBlock], offsets: Sequence[int], seed: int) -> None: ...
    def lower(self, looks: int, target: int, stop: StopToken) -> None:
        """Look at so many blocks beside others, or until the arena is at most the target."""

    def offer(self, offsets: Sequence[int]) -> None:
        """Go on from a packing found elsewhere if it is lower; raises ValueError where there is not one for each."""

    @property
    def arena(self) -> int:
        """The least arena so far."""

    @property
    def offsets(self) -> list[int]:
        """By block, of the least arena so far."""

class StayGap:
    """A tensor is idle in the steps `start` to `stop - 1`: it stays, or its load is paid and, once, its store.

    The gaps of one tensor have its units and its costs.
    """

    def __init__(self, *, tensor: int, start: int, stop: int, units: int, load_cost: int, store_cost: int) -> None: ...

class StaySearch:
    """What stays at least cost, of one order; raises ValueError for gaps that are none.

    `left_units` are those that each step has for what is idle.
    """

    def __init__(self, gaps: Sequence[StayGap], left_units: Sequence[int]) -> None: ...
    def run(self, most_states: int, stop: StopToken) -> bool:
        """Whether all states were seen; not if there are too many, too much stays at once, or it is asked to stop."""

    @property
    def cost(self) -> int:
        """What leaving costs at least; once all states were seen."""

    @property
    def stays(self) -> list[bool]:
        """Of each gap whether it stays, at that cost."""

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

class PeakOutcome(Enum):
    """Why a search for an order ended; exhausted: no order needs as little as was allowed."""

    FOUND = ...
    EXHAUSTED = ...
    STOPPED = ...
    STATES_SPENT = ...
    MEMORY_SPENT = ...

class PeakOperator:
    """An operator: tensors and other operators by their numbers, each list rising.

    `overwritables` are what it reads and may write to the bytes of: (tensor, group, what then lies within others).
    """

    def __init__(
        self,
        *,
        reads: Sequence[int],
        writes: Sequence[int],
        predecessors: Sequence[int],
        overwritables: Sequence[tuple[int, int, Sequence[int]]] = (),
    ) -> None: ...

class PeakSearch:
    """Searches for an order without spills of which no operator needs more than `most_bytes`, and the least does.

    Below `least_bytes` no order is told from another.
    """

    def __init__(
        self,
        sizes_bytes: Sequence[int],
        operators: Sequence[PeakOperator],
        *,
        alignment_bytes: int = 1,
        least_bytes: int = 0,
        most_bytes: int = ...,
        most_memory_bytes: int = ...,
    ) -> None: ...
    def run(self, stop: StopToken, most_states: int) -> PeakOutcome:
        """Search on until it ends, or has looked at so many states in all."""

    @property
    def states(self) -> int:
        """States looked at; may be read while it runs, as may `lower_bound`."""

    @property
    def lower_bound(self) -> int:
        """A bound on the peak of every order, at least `least_bytes`, which is taken for one."""

    @property
    def order(self) -> list[int]:
        """The order found; empty before."""

def peak_needs(
    sizes_bytes: Sequence[int], operators: Sequence[PeakOperator], alignment_bytes: int, order: Sequence[int]
) -> list[int]:
    """What each step of an order needs, in bytes, without spills."""

class LayoutTensor:
    """A tensor; storing it costs 0 if DRAM has a copy whenever it could leave."""

    def __init__(self, *, size_bytes: int, load_cost: int, store_cost: int) -> None: ...

class LayoutUse:
    """An operand of one operator; what is wanted should stay until its next use."""

    def __init__(self, *, tensor: int, is_written: bool, is_wanted: bool, is_last: bool) -> None: ...

class LayoutStay:
    """One tensor at one address over the half-open range of steps [start, stop)."""

    def __init__(self, *, tensor: int, start: int, stop: int, offset_bytes: int) -> None: ...
    @property
    def tensor(self) -> int: ...
    @property
    def start(self) -> int: ...
    @property
    def stop(self) -> int: ...
    @property
    def offset_bytes(self) -> int: ...

class LayoutBeam:
    """Gives the residencies of one order addresses, the cheapest found; `steps` lists the uses of each step.

    Raises ValueError where a size, a cost or a tensor is none, or an operator's operands do not fit.
    """

    def __init__(
        self,
        tensors: Sequence[LayoutTensor],
        steps: Sequence[Sequence[LayoutUse]],
        *,
        capacity_bytes: int,
        alignment_bytes: int,
    ) -> None: ...
    def run(self, width: int, seed: int, stop: StopToken) -> bool:
        """Begin anew with so many layouts at most; False if it was stopped."""

    @property
    def cost(self) -> int:
        """What the last run that was not stopped pays beyond the compulsory."""

    @property
    def stays(self) -> list[LayoutStay]:
        """What lies where, of that run."""

class LayoutOperator:
    """An operator: tensors and earlier operators by their numbers, each number once."""

    def __init__(self, *, reads: Sequence[int], writes: Sequence[int], predecessors: Sequence[int]) -> None: ...

class OrderBeam:
    """Looks for an order, residencies and addresses at once, among layouts that have run as many operators each.

    `pins_bytes` has by tensor the only offset where it may lie, or -1. Raises ValueError where a size, a cost, a pin, a
    tensor or an operator is none, or an operator's operands do not fit.
    """

    def __init__(
        self,
        tensors: Sequence[LayoutTensor],
        pins_bytes: Sequence[int],
        operators: Sequence[LayoutOperator],
        *,
        capacity_bytes: int,
        alignment_bytes: int,
    ) -> None: ...
    def run(self, width: int, *, upper_bound: int, ahead: int, soon: int, seed: int, stop: StopToken) -> bool:
        """Begin anew with so many layouts at most, for a plan below the upper bound; False if none was found.

        No operator runs `ahead` (at most 64) numbers or more beyond the first that has not run. What is read again
        `soon` numbers later, or after that, counts as leaving before.
        """

    @property
    def cost(self) -> int:
        """What the last plan found pays beyond the compulsory."""

    @property
    def order(self) -> list[int]:
        """The order of that plan."""

    @property
    def stays(self) -> list[LayoutStay]:
        """What lies where, of that plan."""

class WindowChoice:
    """The steps [begin, stop) of a plan, and what an `OrderBeam` is told to plan them anew."""

    def __init__(self, *, begin: int, stop: int, soon: int, seed: int) -> None: ...

class PlacedPlan:
    """An order, what stays and where it lies, of which windows are planned anew; what crosses their ends stays there.

    Raises ValueError where a size, a cost, a tensor or an operator is none, an operator's operands do not fit, the
    order has not each of them once, or a use is in no stay.
    """

    def __init__(
        self,
        tensors: Sequence[LayoutTensor],
        operators: Sequence[LayoutOperator],
        order: Sequence[int],
        stays: Sequence[LayoutStay],
        *,
        capacity_bytes: int,
        alignment_bytes: int,
    ) -> None: ...
    def plan_anew(self, windows: Sequence[WindowChoice], width: int, stop: StopToken) -> bool:
        """Plan each window anew, one after the other, among so many layouts; False if it was stopped.

        What costs no more takes the place of what there was.
        """

    @property
    def cost(self) -> int:
        """What the plan pays beyond the compulsory."""

    @property
    def order(self) -> list[int]:
        """The order as it is now."""

    @property
    def stays(self) -> list[LayoutStay]:
        """What lies where now, by its first step, each residency as short as its uses allow."""

class LatencyMachine:
    """Scratchpads and their DMA; with one channel loads and stores take turns.

    Of each scratchpad (capacity, addressed) bytes: sizes are rounded up to its alignment, together they may be its
    capacity, and they lie within as many as are addressed.
    """

    def __init__(
        self, *, scratchpads: Sequence[tuple[int, int]], queues: int, setup_cycles: int, has_one_channel: bool
    ) -> None: ...

class LatencyAccess:
    """What addresses in a scratchpad are multiples of, and how long loads into it and stores out of it take.

    `load` and `store` are terms of rates.
    """

    def __init__(
        self, *, alignment_bytes: int, load: Sequence[tuple[int, int]], store: Sequence[tuple[int, int]]
    ) -> None: ...

class LatencyPlacing(Enum):
    """Whether stays get addresses while they are timed, and which of those that are as good, or `AFTERWARDS`."""

    NONE = ...
    LOWEST = ...
    HIGHEST = ...
    AFTERWARDS = ...

class LatencyRoom:
    """Shares of each scratchpad: of what stays, and of what is loaded ahead of its step or waits for its store.

    Where the share is 0 nothing stays from one step to the next, and operators have all room.

    What is written is placed first, by its bytes, or `is_longest_first`; with `has_place_for_all` loads, too, which
    may find a better place later. Afterwards all are placed in `rounds`: what had no place, or a late one, is placed
    sooner in the next.
    """

    def __init__(
        self,
        share: float,
        ahead_share: float,
        placing: LatencyPlacing = LatencyPlacing.NONE,
        is_longest_first: bool = False,
        has_place_for_all: bool = False,
        rounds: int = 1,
    ) -> None: ...
    @property
    def share(self) -> float: ...
    @property
    def ahead_share(self) -> float: ...

class LatencyTensor:
    """A band of a tensor in one scratchpad, by number."""

    @property
    def memory(self) -> int: ...
    @property
    def same_as(self) -> int:
        """The band, in the scratchpad where it is written or read first, that this is in another one; -1 of itself."""

class LatencyStay:
    """One tensor over the half-open range of steps [start, stop); it begins with a load or with its operator."""

    @property
    def tensor(self) -> int: ...
    @property
    def start(self) -> int: ...
    @property
    def stop(self) -> int: ...
    @property
    def is_loaded(self) -> bool: ...
    @property
    def is_stored(self) -> bool: ...

class LatencyTransfer:
    """A load or a store of a stay, by number, over the half-open range of cycles [start, stop).

    At `position` p it stands between the operators of steps p - 1 and p.
    """

    @property
    def stay(self) -> int: ...
    @property
    def is_store(self) -> bool: ...
    @property
    def position(self) -> int: ...
    @property
    def start(self) -> int: ...
    @property
    def stop(self) -> int: ...

class LatencyTiming:
    """What an order comes to in cycles; without room for an operator `fits` is false, and nothing else is said.

    Nor is it where stays are to be placed, and no place for one was found.
    """

    @property
    def fits(self) -> bool: ...
    @property
    def latency(self) -> int: ...
    @property
    def transfer_cycles(self) -> int: ...
    @property
    def stays(self) -> list[LatencyStay]: ...
    @property
    def transfers(self) -> list[LatencyTransfer]:
        """As they are begun."""

    @property
    def ends(self) -> list[int]:
        """By step the cycle in which its operator ends."""

    @property
    def offsets_bytes(self) -> list[int]:
        """By stay its address; empty where they are not placed."""

class LatencyWholeTensor:
    """A tensor that may be cut along its channels; one without a shape has one channel.

    It lies in one scratchpad: `same_as` is the number of the tensor that it is in another one, or -1.
    """

    def __init__(
        self,
        *,
        size_bytes: int,
        channels: int,
        bits_per_channel: int,
        is_in_dram: bool,
        is_output: bool,
        memory: int,
        same_as: int,
    ) -> None: ...

class LatencyWholeOperator:
    """An operator that may run in bands: operands (tensor, is it cut), ways (parts, cycles of one) from 1 part on."""

    def __init__(
        self,
        *,
        reads: Sequence[tuple[int, bool]],
        writes: Sequence[tuple[int, bool]],
        ways: Sequence[tuple[int, int]],
        cuts_inputs: bool,
    ) -> None: ...

class LatencyBands:
    """Searches for bands of operators and an order of them that ends sooner; `accesses` are by scratchpad.

    Pieces (operators, or bands) are numbered operator by operator, bands of tensors tensor by tensor.
    """

    def __init__(
        self,
        tensors: Sequence[LatencyWholeTensor],
        operators: Sequence[LatencyWholeOperator],
        machine: LatencyMachine,
        *,
        accesses: Sequence[LatencyAccess],
        has_given_order: bool,
    ) -> None: ...
    def begin(self, parts: Sequence[int], seed: int, order: Sequence[int] = ()) -> None:
        """Start over, at an order of the pieces, or at the network's own."""

    def limit_room(self, room: LatencyRoom) -> None:
        """From now on orders have this room."""

    def cut_otherwise(self, enough: int, stop: StopToken) -> None:
        """Try each change of bands once; ends where no more than `enough` cycles are reached."""

    def reorder(self, most_evaluations: int, hottest: float, enough: int, stop: StopToken) -> None:
        """Change the order of the best by simulated annealing, from `hottest` cycles on."""

    def anneal(self, most_evaluations: int, hottest: float, enough: int, stop: StopToken) -> None:
        """Change bands and order of the best together by simulated annealing, from `hottest` cycles on."""

    def evaluate(
        self, room: LatencyRoom, first_offsets_bytes: Sequence[int] = (), stop: StopToken | None = None
    ) -> LatencyTiming:
        """Time the best in so much room; of all its stays without loads ahead it may be said where they lie at first.

        Raises IndexError for fewer offsets than stays.
        """

    @property
    def parts(self) -> list[int]:
        """By operator in how many bands it runs in the best."""

    @property
    def order(self) -> list[int]:
        """Pieces of the best."""

    @property
    def sizes_bytes(self) -> list[int]:
        """By band of a tensor in the best."""

    @property
    def tensors(self) -> list[LatencyTensor]:
        """The bands of tensors in the best; those that are in another scratchpad, too, come once more after all."""

    @property
    def worth(self) -> tuple[int, int, int]:
        """Latency, cycles of all transfers and number of pieces of the best; least is best."""

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

def highest_mean(
    shape: Sequence[int],
    operands: Sequence[int],
    room: Sequence[NDArray[np.float64]],
    criteria: Sequence[tuple[float, Sequence[NDArray[np.float64] | None]]],
    slope: float | None,
    enough: float,
    vain: float,
) -> tuple[float, list[float]]:
    """What the greatest of several criteria is at least of any chain, and the weights of the mean that says so.

    No less than any criterion by itself. A mean is looked for until it is enough, or the greatest of some chain is not
    above `vain`. With a slope it is so many times the first criterion plus the greatest of all others. `operands` and
    `room` (nothing, or infinite) are by boundary, an operand's one after the other from the units upwards. Of a
    criterion, what is fixed and what boundaries cost, or None; tables as `least_chain` takes them. Raises ValueError
    for tables that do not fit, and for too few criteria.
    """

def least_chain(shape: Sequence[int], operands: Sequence[Sequence[NDArray[np.float64]]]) -> float:
    """The least that boundaries cost in places that stand inside each other; of each operand from the units upwards.

    Costs are by point of a lattice of that shape, flat, the last dimension's fastest; infinite where there is no room.
    Or they have as many dimensions as the lattice, and one cell where they are the same in all of a dimension. Raises
    ValueError for costs that are not of each point.
    """

def least_chain_below(
    shape: Sequence[int],
    may_stand_inside: Sequence[Sequence[int]],
    leads: Sequence[Sequence[int]],
    stays: Sequence[Sequence[float]],
    short_turns: Sequence[Sequence[float]],
    part_of_turn: Sequence[float],
    counts: Sequence[Sequence[int]],
    turns: Sequence[Sequence[float]],
    is_single: Sequence[Sequence[int]],
    room_bits: Sequence[float],
    ports: Sequence[Sequence[int]],
    fewest_turns: Sequence[Sequence[float]],
    last_turns: Sequence[Sequence[float]],
    is_known: Sequence[Sequence[int]],
    boundaries: Sequence[tuple[int, int, NDArray[np.float64], Sequence[NDArray[np.float64]], bool]],
    criteria: Sequence[
        tuple[
            float,
            Sequence[NDArray[np.float64] | None],
            Sequence[NDArray[np.float64] | None],
            Sequence[NDArray[np.float64] | None],
            bool,
            Sequence[Sequence[tuple[NDArray[np.float64], NDArray[np.float64]]]],
            int | None,
        ]
    ],
    is_product: bool,
    limit: float,
    most_steps: int,
) -> tuple[float, bool, int, list[int], list[list[int]], list[int]]:
    """What no chain below `limit` is worth less than, if one is worth just that, steps, points, cells, and criteria.

    A chain is worth the greatest of its criteria, or the first times the greatest of the others. `boundaries` are their
    operand, memory, bits of room by point, how often tiles come by point as each memory sees it, and whether there is
    room for two, operands one after the other from the units upwards; `criteria` what is fixed, what each boundary
    adds, what more where none of its tiles may stay, and what beyond that, whether it is linear in how often tiles
    come, by boundary of a memory with room for one tile how often transfers are waited for one by one and how long each
    takes, and the port that it counts all transfers of. Tables are as `least_chain` takes them.
    `may_stand_inside` says by dimension, inner and outer cell, the latter fastest, whether one place may stand inside
    the other; `leads` by operand and dimension whether that leads to other elements of the operand, `counts` whether
    the part of its cell that `stays`, by dimension and cell, is one of the operand's elements; `turns` the most cycles
    that lead to a cell, `is_single` whether no loop may stand between two places in it, `fewest_turns` those of any
    part of a place but the last at least, `last_turns` those of the last, `is_known` whether both are just so many. The
    cells are by dimension those in which a chain below the limit may stand, the criteria, by their number, those that
    may count of one; none if there is no such chain.
    """

class ExactObjective(Enum):
    """What the exact mapper makes least; the product is of energy and cycles."""

    ENERGY = ...
    LATENCY = ...
    PRODUCT = ...

class ExactSpace:
    """A layer on a machine whose memories of an operand are a chain.

    `bounds` are the loops', `holds` says of each operand and level whether it is kept there, `touched` of each operand
    how many different elements the layer uses; `ways` are by dimension of the array the sizes of its loops.
    """

    def __init__(
        self,
        *,
        layer: LayerShape,
        machine: LayerMachine,
        bounds: Sequence[int],
        holds: Sequence[Sequence[bool]],
        touched: Sequence[float],
        ways: Sequence[Sequence[Sequence[int]]],
    ) -> None: ...

class ExactNest:
    """A mapping: loops innermost first, with their sizes and dimensions of the array (-1: in time).

    `kept` is by operand and level how many of them a tile spans, -1 where nothing is kept.
    """

    @property
    def loops(self) -> list[tuple[int, int, int]]: ...
    @property
    def kept(self) -> list[list[int]]: ...

class ExactCriterion:
    """What is added up over boundaries: energy, or cycles of a port and of one preloading."""

    @property
    def is_energy(self) -> bool: ...

class ExactWay:
    """What rules out ways to use the array, one at a time; a way is by dimension a place in `ways`."""

    def __init__(self, space: ExactSpace, objective: ExactObjective) -> None: ...
    @property
    def criteria(self) -> list[ExactCriterion]: ...
    def floor(self, way: Sequence[int]) -> tuple[float, float] | None:
        """Energy in pJ and cycles (0 for an objective of energy); None where loops run out."""

    def may_be_below(self, way: Sequence[int], cycles: float, limit: float, criteria: Sequence[ExactCriterion]) -> bool:
        """Whether none of these criteria is at the limit; an energy before others makes the limit one for products."""

    def chains(self, way: Sequence[int], limit: float) -> list[tuple[list[float], ExactNest]]:
        """Every chain of tiles that no bound rules out, with the bounds of its places."""

class ExactMapper:
    """The best mapping of all ways."""

    def __init__(self, space: ExactSpace, objective: ExactObjective) -> None: ...
    def run(self, best: float, stop: StopToken, workers: int, most_nodes: int, most_work: int) -> None:
        """Look for better than `best`, in femtojoules, cycles or their product; the properties say how far it is.

        It ends after about so many nodes, or so much work, too.
        """

    @property
    def best(self) -> float: ...
    @property
    def proven(self) -> float:
        """What no mapping is below, unless the run is at its end."""

    @property
    def nodes(self) -> int: ...
    @property
    def work(self) -> int:
        """How many tiles were priced, or what takes as long: the same on every machine."""

    @property
    def answer(self) -> ExactNest | None:
        """Of the run that ended, if it found any."""

class ExactRefiner:
    """One mapping, in a row, made better step by step; `unrolls` is by dimension of the array, and loop."""

    def __init__(
        self,
        layer: LayerShape,
        machine: LayerMachine,
        objective: ExactObjective,
        unrolls: Sequence[Sequence[bool]],
        seed: int,
        turn_count: NDArray[np.int64],
        turn_loop: NDArray[np.int64],
        turn_size: NDArray[np.int64],
        beside_count: NDArray[np.int64],
        beside_loop: NDArray[np.int64],
        beside_size: NDArray[np.int64],
        beside_along: NDArray[np.int64],
        beside_at: NDArray[np.int64],
        cut: NDArray[np.int64],
    ) -> None: ...
    def go_on(self, mappings: int) -> None:
        """Cost about so many more mappings."""

    @property
    def value(self) -> float:
        """Of the best so far, in femtojoules, cycles or their product; infinite where none fits."""

    @property
    def nest(self) -> ExactNest: ...

class ZigzagAccounting:
    """Where ZigZag and DeFiNES differ, in the words of `cost.layer.accounting`; `is_systolic` by array dimension."""

    def __init__(
        self,
        *,
        units_keep_operands: bool,
        whole_operands_load_meanwhile: bool,
        parts_are_cut_late: bool,
        parts_have_whole_room: bool,
        single_taps_are_channels: bool,
        accesses_are_of_a_cycle: bool,
        lone_transfers_never_stall: bool,
        last_sums_overlap: bool,
        is_systolic: Sequence[bool],
    ) -> None: ...

class ZigzagCosts:
    """Costs mappings of one layer on one machine as ZigZag or DeFiNES counts them.

    `bounds` are the layer's as they are asked for, while mappings may run longer; `is_shared` says of each level, DRAM
    being the last, that it holds inputs and weights.
    """

    def __init__(
        self,
        *,
        layer: LayerShape,
        bounds: Sequence[int],
        machine: LayerMachine,
        is_shared: Sequence[bool],
        accounting: ZigzagAccounting,
    ) -> None: ...
    def of(self, *chosen: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]]:
        """Energies in pJ, cycles and statuses, a row each, of the columns of `Chosen`."""
