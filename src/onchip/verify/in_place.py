"""Outputs that overwrite inputs of their operator (rule 11): shared bytes, and the instructions that must follow."""

from __future__ import annotations

from dataclasses import dataclass, field

from onchip.ir.graph import Graph
from onchip.ir.operator import SEEN_ORDERS, SEEN_PARTS, SEEN_SHAPES, Operator
from onchip.verify.addresses import Addresses, LiveResidency, Range
from onchip.verify.reporting import Reporting
from onchip.verify.rules import Rule
from onchip.verify.states import StatesOnChip


@dataclass(slots=True)
class _Lent:
    """An input that shares its bytes with an output, from the output's Allocate to the input's Free."""

    operator: str
    output: str
    has_run: bool = False


@dataclass(slots=True)
class Overwritten:
    """The inputs being overwritten, by name.

    Until such an input is freed, only its operator may run, and neither the input nor the output may be copied.
    """

    graph: Graph
    states: StatesOnChip
    report: Reporting
    _lent: dict[str, list[_Lent]] = field(default_factory=dict)

    def take(
        self, name: str, new: LiveResidency, addresses: Addresses, there: dict[str, LiveResidency]
    ) -> tuple[list[str], int]:
        """Enter the residency of a tensor, which may share the bytes of inputs that its producer overwrites.

        Returns the names of the residencies that it overlaps illegally, and the number of bytes newly shared.
        """
        overlapped = addresses.take(name, new.start_bytes, new.stop_bytes)
        pairs = self._pairs(name)
        lenders = [one for one in overlapped if one in pairs and there[one].start_bytes + pairs[one] == new.start_bytes]
        if len(lenders) < len(overlapped):
            return [one for one in overlapped if one not in lenders], 0
        shared = 0
        for lender in lenders:
            shared += _lend(lender, there[lender], new, addresses)
            self._lent.setdefault(lender, []).append(_Lent(self.graph.producer[name].name, name))
        addresses.take(name, new.start_bytes, new.stop_bytes)
        return [], shared

    def _pairs(self, name: str) -> dict[str, int]:
        """Map each input whose bytes a tensor may take to the shift of its offset in bytes."""
        producer = self.graph.producer.get(name)
        if producer is None:
            return {}
        pairs = {one.input: one.shift_bytes for one in producer.in_place if one.output == name}
        pairs |= {state: 0 for state in (self.states.overwritten_by(name),) if state is not None}
        return {read: shift for read, shift in pairs.items() if not reads_elsewhere(producer, read)}

    def copied(self, tensor: str) -> None:
        """Report a Copy, before the input's Free, of an overwritten input or of the output that overwrites it."""
        for lender, lent in self._lent.items():
            for one in lent:
                if tensor in (lender, one.output):
                    detail = f"copied while {one.output!r} lies in the bytes of {lender!r}, which is not freed"
                    self.report.violation(Rule.OVERWRITTEN_NOT_FREED, tensor, detail)

    def runs(self, operator: str) -> None:
        """Report an operator that runs while another operator's output occupies the bytes of an input."""
        for lender, lent in self._lent.items():
            for one in lent:
                if one.operator != operator:
                    detail = f"{operator!r} runs while {one.output!r} lies in its bytes for {one.operator!r}"
                    self.report.violation(Rule.OVERWRITTEN_NOT_FREED, lender, detail)
                one.has_run = one.has_run or one.operator == operator

    def freed(self, tensor: str) -> None:
        """Report an input that is freed before its operator has run.

        After its Free the bytes belong to the output alone.
        """
        for one in self._lent.pop(tensor, ()):
            if not one.has_run:
                detail = f"freed before {one.operator!r} has run, for which {one.output!r} lies in its bytes"
                self.report.violation(Rule.OVERWRITTEN_NOT_FREED, tensor, detail)

    def finish(self) -> None:
        """Report each input that is overwritten and not freed at the end of the plan."""
        for lender, (one, *_) in self._lent.items():
            detail = f"the plan ends while {one.output!r} lies in its bytes"
            self.report.of_plan(Rule.OVERWRITTEN_NOT_FREED, lender, detail)


def reads_elsewhere(operator: Operator, name: str) -> bool:
    """Return True if the operator also reads the input at positions that it does not write, through a second view."""
    parts, shapes, orders = (_listed(operator, kind) for kind in (SEEN_PARTS, SEEN_SHAPES, SEEN_ORDERS))
    places = [at for at, one in enumerate(operator.inputs) if one == name]
    return any(parts.get(at) for at in places) or len({repr((shapes.get(at), orders.get(at))) for at in places}) > 1


def _listed(operator: Operator, kind: str) -> dict[int, object]:
    """Return the entries of a list attribute by input index; an empty dict if the operator lacks the attribute."""
    listed = operator.attributes.get(kind)
    return dict(enumerate(listed)) if isinstance(listed, list) else {}


def _lend(name: str, lender: LiveResidency, output: LiveResidency, addresses: Addresses) -> int:
    """Remove the output's address range from the lender's own ranges; return the number of bytes lent."""
    before = lender.own_bytes
    for start, _ in lender.own:
        addresses.release(name, start)
    lender.own = [part for one in lender.own for part in _beside(one, output) if part[0] < part[1]]
    for start, stop in lender.own:
        addresses.take(name, start, stop)
    return before - lender.own_bytes


def _beside(one: Range, output: LiveResidency) -> tuple[Range, Range]:
    start, stop = one
    return (start, min(stop, output.start_bytes)), (max(start, output.stop_bytes), stop)
