"""What happens while a schedule runs: what lies where in which step, what moves, where each step's operands are."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate

from onchip.answer.program import Allocate, Compute, Copy, Free
from onchip.answer.residencies import Began, Residency
from onchip.answer.schedule import WORKSPACE, Schedule
from onchip.arch.accelerator import Accelerator
from onchip.arch.memory import DRAM
from onchip.ir.tensor import Role
from onchip.model.program.compute_cost import ComputeCost
from onchip.model.program.homes import homes_of_computes
from onchip.scheduling.program.runs import NestPlace, Step, step_of
from onchip.transform.groups.tile_graph import TileGraph


@dataclass(frozen=True, slots=True)
class StepCopy:
    """Copy number `instruction` of the program, after `step` Computes."""

    instruction: int
    step: int
    tensor: str
    source: str
    target: str


@dataclass(frozen=True)
class ScheduleHistory:
    """Facts of a legal schedule, for drawing; step k is the slot of the program's Compute number k.

    A residency that is there in the steps [k, l) was begun after Compute k-1 and ended after Compute l-1.
    """

    schedule: Schedule
    tiles: TileGraph
    accelerator: Accelerator
    compute_costs: Mapping[str, ComputeCost]

    @cached_property
    def operators(self) -> tuple[str, ...]:
        """The tile operators in the order in which they run."""
        return tuple(one.operator for one in self.schedule.program.instructions if isinstance(one, Compute))

    @cached_property
    def residencies(self) -> tuple[Residency, ...]:
        """Of tensors and workspaces, in the order in which they begin."""
        return self._replay.residencies

    @cached_property
    def copies(self) -> tuple[StepCopy, ...]:
        """The Copies in the program's order."""
        return tuple(self._replay.copies)

    @cached_property
    def nest_places(self) -> Mapping[str, tuple[NestPlace, ...]]:
        """Of each tile operator its nests, and where their operands are: by this a Compute finds its mappings."""
        return {
            name: tuple(self.steps[name].nest_places(homes)) if self.steps[name].nests else ()
            for name, homes in self.homes.items()
        }

    @cached_property
    def tensors_in_dram(self) -> frozenset[str]:
        """The network's tensors of which any part is copied from or to DRAM, or streamed."""
        tensors = self.tiles.graph.tensor
        copied = (tensors[one.tensor] for one in self.copies if DRAM in (one.source, one.target))
        streamed = (
            band
            for name, homes in self.homes.items()
            for operand, home in zip(self.steps[name].operands, homes, strict=True)
            for band in operand.bands
            if home is None
        )
        return frozenset(one.part_of or one.name for one in (*copied, *streamed))

    @cached_property
    def steps(self) -> Mapping[str, Step]:
        """Return for each tile operator its nests and operands."""
        return {one.name: step_of(self.tiles, one) for one in self.tiles.graph.operators}

    @cached_property
    def homes(self) -> Mapping[str, tuple[str | None, ...]]:
        """Of each tile operator, in the order in which they run, where its operands are; None: in DRAM."""
        operands = {name: step.operands for name, step in self.steps.items()}
        return dict(homes_of_computes(self.accelerator.addressed, self.schedule.program, operands))

    @property
    def step_count(self) -> int:
        """The number of tile operators that run."""
        return len(self.operators)

    def size_bytes(self, tensor: str, memory: str) -> int:
        """The bytes of a tensor, or of a workspace, in a memory."""
        if tensor.endswith(WORKSPACE) and tensor not in self.tiles.graph.tensor:
            return self.compute_costs[tensor.removesuffix(WORKSPACE)].workspace_bytes[memory]
        return self.tiles.graph.tensor[tensor].size_bytes

    def role(self, tensor: str) -> str:
        """The tensor's role, or `workspace`."""
        return str(self.tiles.graph.tensor[tensor].role) if tensor in self.tiles.graph.tensor else "workspace"

    def footprint(self, memory: str) -> Mapping[str, Sequence[int]]:
        """By role the bytes resident in a memory in each step."""
        changes: dict[str, list[int]] = defaultdict(lambda: [0] * (self.step_count + 1))
        for one in self.residencies:
            if one.memory == memory:
                change = changes[self.role(one.tensor)]
                change[one.start_step] += one.size_bytes
                change[one.stop_step] -= one.size_bytes
        return {role: list(accumulate(change))[:-1] for role, change in changes.items()}

    @cached_property
    def _replay(self) -> _Replay:
        return _Replay(self).replayed()


@dataclass
class _Open:
    """A residency that has not ended."""

    start_instruction: int
    start_step: int
    offset_bytes: int
    began: Began = Began.EMPTY
    is_spilled: bool = False


@dataclass
class _Replay:
    """Follows the program instruction by instruction."""

    history: ScheduleHistory
    copies: list[StepCopy] = field(default_factory=list)
    step: int = 0
    _open: dict[str, dict[str, _Open]] = field(default_factory=dict)
    _ended: list[Residency] = field(default_factory=list)
    _been_on_chip: set[str] = field(default_factory=set)

    @property
    def residencies(self) -> tuple[Residency, ...]:
        return tuple(sorted(self._ended, key=lambda one: one.start_instruction))

    def replayed(self) -> _Replay:
        instructions = self.history.schedule.program.instructions
        for number, instruction in enumerate(instructions):
            match instruction:
                case Allocate(tensor, memory, offset_bytes):
                    self._open.setdefault(tensor, {})[memory] = _Open(number, self.step, offset_bytes)
                case Copy():
                    self._copy(number, instruction)
                case Compute(operator):
                    self._compute(operator)
                case Free(tensor, memory):
                    self._end(number, tensor, memory)
        for tensor, memories in self._open.items():
            for memory in list(memories):
                self._end(len(instructions), tensor, memory)
        return self

    def _copy(self, number: int, copy: Copy) -> None:
        self.copies.append(StepCopy(number, self.step, copy.tensor, copy.source, copy.target))
        if copy.target == DRAM:
            self._open[copy.tensor][copy.source].is_spilled = self.history.role(copy.tensor) != Role.OUTPUT
            return
        target = self._open[copy.tensor][copy.target]
        if target.began is Began.EMPTY:
            loaded = Began.RELOADED if copy.tensor in self._been_on_chip else Began.LOADED
            target.began = loaded if copy.source == DRAM else Began.MOVED
        self._been_on_chip.add(copy.tensor)

    def _compute(self, operator: str) -> None:
        self.step += 1
        for tensor in self.history.tiles.graph.operator[operator].outputs:
            for one in self._open.get(tensor, {}).values():
                one.began = Began.COMPUTED
                self._been_on_chip.add(tensor)

    def _end(self, number: int, tensor: str, memory: str) -> None:
        one = self._open[tensor].pop(memory)
        self._ended.append(
            Residency(
                tensor,
                memory,
                one.offset_bytes,
                self.history.size_bytes(tensor, memory),
                one.start_instruction,
                number,
                one.start_step,
                self.step,
                one.began,
                one.is_spilled,
            )
        )
