"""Cost of a Compute: the sum over its operator's loop nests, or one read or write of each operand."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Final

from onchip.arch.accelerator import Accelerator
from onchip.arch.energies import stated, summed
from onchip.arch.memory import DRAM, Direction, Operand
from onchip.errors import UsageError
from onchip.model.program.rates import FEMTOJOULES_PER_PICOJOULE, MemoryRates

_BOTH: Final = (Direction.READ, Direction.WRITE)


@dataclass(frozen=True, slots=True)
class NestCost:
    """The cost of a mapped loop nest at its homes; energies in pJ, `access_pj` by memory and operand.

    `stated_energy_pj` and `mac_pj` are None if they are unknown; unknown parts are omitted from `access_pj`. `cycles`
    are whole numbers; `workspace_bytes` is by addressed memory.
    """

    stated_energy_pj: float | None
    cycles: int
    dram_read_bits: int
    dram_written_bits: int
    workspace_bytes: Mapping[str, int]
    mac_pj: float | None
    access_pj: Mapping[tuple[str, str], float]

    @property
    def energy_pj(self) -> float:
        """Return the energy in pJ; raises AcceleratorError if it is unknown."""
        return stated(self.stated_energy_pj)


@dataclass(frozen=True, slots=True)
class ComputeCost:
    """The cost of one Compute; `stated_energy_fj` is rounded once for the total.

    `mac_pj` and `access_pj`, by memory and operand, are the unrounded parts of the energy. The energy and `mac_pj` are
    None if they are unknown; unknown parts are omitted from `access_pj`. `workspace_bytes` are the sizes of its
    workspaces, by addressed memory.

    Raises UsageError for a negative figure.
    """

    stated_energy_fj: int | None
    cycles: int
    dram_read_bits: int
    dram_written_bits: int
    workspace_bytes: Mapping[str, int]
    mac_pj: float | None = 0.0
    access_pj: Mapping[tuple[str, str], float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        figures = (self.stated_energy_fj or 0, self.cycles, self.dram_read_bits, self.dram_written_bits)
        if min(*figures, *self.workspace_bytes.values()) < 0:
            raise UsageError(f"a Compute costs {figures}", expected="figures of at least 0")

    @property
    def energy_fj(self) -> int:
        """Return the energy in fJ; raises AcceleratorError if it is unknown."""
        return stated(self.stated_energy_fj)

    @property
    def streams(self) -> bool:
        """Return True if it reads from or writes to DRAM."""
        return self.dram_read_bits + self.dram_written_bits > 0


@dataclass(frozen=True, slots=True)
class OperandAtHome:
    """An operand of an operator without a loop nest: its bits, the bits of a row, and its home (None: streamed)."""

    operand: Operand
    bits: int
    row_bits: int
    home: str | None


@dataclass(frozen=True, slots=True)
class FilledOutputs:
    """The bits of an output that no loop nest computes, such as outputs that no tap reaches, and the output's home.

    The operator writes them once, after its nests. Home None is DRAM. `energy_fj` is None if it is unknown.
    """

    bits: int = 0
    home: str | None = None
    energy_fj: Fraction | None = Fraction(0)
    cycles: int = 0

    @classmethod
    def of(cls, accelerator: Accelerator, bits: int, home: str | None) -> FilledOutputs:
        """Return the cost of writing the bits."""
        if not bits:
            return NOTHING_FILLED
        rates, memory = MemoryRates(accelerator), home or DRAM
        energy_fj = rates.stated_energy_fj(memory, Direction.WRITE, bits)
        return cls(bits, home, energy_fj, rates.cycles(memory, Direction.WRITE, bits))


NOTHING_FILLED: Final = FilledOutputs()


def cost_of_nests(nests: Sequence[NestCost], filled: FilledOutputs = NOTHING_FILLED) -> ComputeCost:
    """Return the cost of nests that run one after the other on the same operands, and of filled outputs.

    The workspace of each memory is the maximum over the nests.
    """
    energy_pj, filled_fj = summed([nest.stated_energy_pj for nest in nests]), filled.energy_fj
    parts: dict[tuple[str, str], float] = defaultdict(float)
    workspaces: dict[str, int] = {}
    for nest in nests:
        for key, part in nest.access_pj.items():
            parts[key] += part
        for memory, size in nest.workspace_bytes.items():
            workspaces[memory] = max(workspaces.get(memory, 0), size)
    if filled.bits and filled_fj is not None:
        parts[filled.home or DRAM, Operand.OUTPUT.value] += float(filled_fj / FEMTOJOULES_PER_PICOJOULE)
    stated_fj = None
    if energy_pj is not None and filled_fj is not None:
        stated_fj = round(energy_pj * FEMTOJOULES_PER_PICOJOULE + float(filled_fj))
    return ComputeCost(
        stated_fj,
        sum(nest.cycles for nest in nests) + filled.cycles,
        sum(nest.dram_read_bits for nest in nests),
        sum(nest.dram_written_bits for nest in nests) + (filled.bits if filled.home is None else 0),
        {memory: size for memory, size in workspaces.items() if size},
        summed([nest.mac_pj for nest in nests]),
        dict(parts),
    )


def with_declared(cost: ComputeCost, accelerator: Accelerator, declared_bytes: int) -> ComputeCost:
    """Return the cost with the operator's declared workspace in the addressed memory farthest from the MACs."""
    if not declared_bytes:
        return cost
    memory = accelerator.addressed[-1].memory.name
    sizes = {**cost.workspace_bytes, memory: cost.workspace_bytes.get(memory, 0) + declared_bytes}
    return replace(cost, workspace_bytes=sizes)


def cost_without_nest(
    operands: Iterable[OperandAtHome], accelerator: Accelerator, declared_bytes: int = 0
) -> ComputeCost:
    """Return the cost of reading every input and writing every output once, each at its home or at DRAM.

    Rows of streamed operands that exceed their memory pass through it in pieces. The pieces take the whole memory
    except the operator's declared workspace, which is not counted here (see `with_declared`). Raises AcceleratorError
    if a memory has no port of the direction.
    """
    rates, energies_fj = MemoryRates(accelerator), list[Fraction | None]()
    parts: dict[tuple[str, str], Fraction] = defaultdict(Fraction)
    moved: dict[tuple[str, Direction], int] = defaultdict(int)
    rows: dict[str, int] = defaultdict(int)
    for one in operands:
        memory = one.home or DRAM
        direction = Direction.WRITE if one.operand is Operand.OUTPUT else Direction.READ
        energies_fj.append(rates.stated_energy_fj(memory, direction, one.bits))
        if (energy_fj := energies_fj[-1]) is not None:
            parts[memory, one.operand.value] += energy_fj
        moved[memory, direction] += one.bits
        if one.home is None and (farthest := _farthest(rates, one.operand)) is not None:
            rows[farthest] += one.row_bits
    room_bytes = {level.memory.name: level.memory.capacity_bytes for level in rates.addressed}
    if declared_bytes:
        last = rates.addressed[-1].memory.name
        room_bytes[last] = max(room_bytes[last] - declared_bytes, 1)
    cycles = {
        memory: sum(rates.cycles(memory, each, moved.get((memory, each), 0)) for each in _BOTH)
        for memory in {memory for memory, _ in moved}
    }
    return ComputeCost(
        None if None in energies_fj else round(sum(parts.values())),
        max(cycles.values(), default=0),
        moved.get((DRAM, Direction.READ), 0),
        moved.get((DRAM, Direction.WRITE), 0),
        {memory: min(-(-bits // 8), room_bytes[memory]) for memory, bits in rows.items()},
        0.0,
        {key: float(part / FEMTOJOULES_PER_PICOJOULE) for key, part in parts.items()},
    )


def _farthest(rates: MemoryRates, operand: Operand) -> str | None:
    """Return the addressed memory farthest from the MACs that holds the operand, or None."""
    return next((level.memory.name for level in reversed(rates.addressed) if operand in level.memory.holds), None)
