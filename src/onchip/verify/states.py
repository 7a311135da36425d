"""States that stay on chip throughout (rule 12): their initial residency, and exclusive use of its bytes."""

from __future__ import annotations

from onchip.answer.program import Allocate, Copy, Free, Instruction
from onchip.ir.graph import Graph
from onchip.ir.state import State
from onchip.verify.reporting import Reporting
from onchip.verify.rules import Rule


class StatesOnChip:
    """The states that stay on chip, each with its fixed location: (scratchpad, offset in bytes)."""

    def __init__(self, graph: Graph, report: Reporting) -> None:
        self._report = report
        self._state = {name: state for state in graph.states for name in (state.old, state.new)}
        self._place: dict[str, tuple[str, int]] = {}
        self._followed: set[str] = set()
        self._has_begun = False
        self._vacant: State | None = None

    def stays(self, tensor: str) -> bool:
        """Return True if the tensor is the old or new tensor of a state that stays on chip."""
        return tensor in self._state and self._state[tensor].old in self._place

    def overwritten_by(self, tensor: str) -> str | None:
        """Return the old tensor of a state on chip that its new tensor `tensor` may overwrite in place, or None."""
        state = self._state.get(tensor)
        return state.old if state and state.in_place and tensor == state.new and self.stays(tensor) else None

    def execute(self, instruction: Instruction) -> None:
        """Report violations of the states' residency by an instruction; call it before the instruction takes effect."""
        self._the_new_one_follows_at_once(instruction)
        match instruction:
            case Allocate(is_state=True):
                self._begin(instruction)
                return
            case Allocate(tensor, memory, offset_bytes):
                self._the_new_one_lies_where_the_old_one_lay(tensor, memory, offset_bytes)
            case Copy(tensor):
                if self.stays(tensor):
                    self._report.violation(Rule.STATE_COPIED, tensor, "copied, and its state stays on the chip")
            case Free(tensor):
                self._free(tensor)
        self._has_begun = True

    def finish(self) -> None:
        """Report a state whose old tensor is freed at the end of the plan without its new tensor in its place."""
        if self._vacant is not None:
            detail = f"the plan ends, and {self._vacant.new!r} has not come to its place"
            self._report.of_plan(Rule.STATE_MOVED, self._vacant.old, detail)

    def _begin(self, allocate: Allocate) -> None:
        state = self._state.get(allocate.tensor)
        if state is None or state.old != allocate.tensor:
            detail = "allocated with what the inference before left there, and the network has no state of this name"
            self._report.violation(Rule.NO_STATE, allocate.tensor, detail)
            return
        if allocate.tensor in self._place:
            detail = f"allocated at {allocate.offset_bytes} of {allocate.memory!r}, and its state lies elsewhere"
            self._report.violation(Rule.STATE_MOVED, allocate.tensor, detail)
        elif self._has_begun:
            detail = "allocated with what the inference before left there, and the plan has begun"
            self._report.violation(Rule.STATE_NOT_FIRST, allocate.tensor, detail)
        self._place.setdefault(allocate.tensor, (allocate.memory, allocate.offset_bytes))

    def _the_new_one_lies_where_the_old_one_lay(self, tensor: str, memory: str, offset_bytes: int) -> None:
        if not self.stays(tensor):
            return
        self._followed.add(tensor)
        place = self._place[self._state[tensor].old]
        if (memory, offset_bytes) != place:
            detail = f"allocated at {offset_bytes} of {memory!r}, and its state lies at {place[1]} of {place[0]!r}"
            self._report.violation(Rule.STATE_MOVED, tensor, detail)

    def _free(self, tensor: str) -> None:
        """Record that an old tensor makes way for its new one; report the Free of a new tensor."""
        if not self.stays(tensor):
            return
        state = self._state[tensor]
        if tensor == state.new:
            self._report.violation(Rule.STATE_MOVED, tensor, "freed, and its state stays on the chip")
        elif state.new not in self._followed:
            self._vacant = state

    def _the_new_one_follows_at_once(self, instruction: Instruction) -> None:
        state, self._vacant = self._vacant, None
        if state is not None and not (isinstance(instruction, Allocate) and instruction.tensor == state.new):
            detail = f"freed, and the next instruction does not allocate {state.new!r} there"
            self._report.violation(Rule.STATE_MOVED, state.old, detail)
