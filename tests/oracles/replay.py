"""A replay of a plan file on plain numbers, for its legality and its cost; it shares nothing with the program."""

from __future__ import annotations

from dataclasses import dataclass, field

from oracles.machine import DRAM, Json, Machine, Net


class IllegalError(Exception):
    """Raised if the plan breaks a rule."""


def _must(holds: bool, what: str) -> None:
    if not holds:
        raise IllegalError(what)


@dataclass
class Lying:
    start: int
    since: int
    has_bytes: bool = False


@dataclass
class Replayed:
    """The state after a plan's instructions; `value` is the non-compulsory cost, or the sum of the arenas.

    With `is_peak` only compulsory transfers are legal.
    """

    net: Net
    machine: Machine
    is_peak: bool = False
    may_run_again: frozenset[str] = frozenset()
    order: list[int] = field(default_factory=list)
    cost: int = 0
    lying: dict[tuple[int, int], Lying] = field(default_factory=dict)
    in_dram: set[int] = field(default_factory=set)
    written: set[int] = field(default_factory=set)
    been: set[int] = field(default_factory=set)
    stays: list[tuple[int, int]] = field(default_factory=list)
    tops: dict[int, int] = field(default_factory=dict)
    peak_bytes: int = 0

    def __post_init__(self) -> None:
        self.in_dram = {t for t in range(len(self.net.sizes)) if self.net.comes_from_outside(t)}
        self._tensor = {name: t for t, name in enumerate(self.net.names)}
        self._pad = {pad.name: number for number, pad in enumerate(self.machine.pads)}
        self._memory = self._pad | {DRAM: -1}
        self._operator = {step.name: number for number, step in enumerate(self.net.steps)}

    @property
    def value(self) -> int:
        """Return the plan's value; the compulsory part is a property of net and machine."""
        if self.is_peak:
            return sum(self.tops.values())
        pads = range(len(self.machine.pads))
        prices = self.machine.prices
        outside = [t for t in range(len(self.net.sizes)) if self.net.comes_from_outside(t) and self.net.readers(t)]
        outputs = [t for t, role in enumerate(self.net.roles) if role == "output"]
        loads = sum(min(prices[t, -1, pad] for pad in pads) for t in outside)
        return self.cost - loads - sum(min(prices[t, pad, -1] for pad in pads) for t in outputs)

    def do(self, instruction: Json) -> None:
        """Execute one instruction; raises IllegalError."""
        ((kind, fields),) = instruction.items()
        if kind == "compute":
            _must(fields in self._operator, "no such operator")
            self._compute(self._operator[fields])
            return
        _must(fields["tensor"] in self._tensor, "no such tensor")
        tensor = self._tensor[fields["tensor"]]
        if kind == "copy":
            _must(fields["source"] in self._memory and fields["target"] in self._memory, "no such memory")
            self._copy(tensor, self._memory[fields["source"]], self._memory[fields["target"]])
            return
        _must(fields["memory"] in self._pad, "no such scratchpad")
        pad = self._pad[fields["memory"]]
        if kind == "allocate":
            self._allocate(tensor, pad, fields["offset_bytes"])
        else:
            _must((tensor, pad) in self.lying, "freed where it is not")
            self._end(tensor, pad)

    def finish(self, *, is_static: bool, order: str) -> None:
        """Check the end of the plan; raises IllegalError."""
        for tensor, pad in list(self.lying):
            self._end(tensor, pad)
        _must(len(set(self.order)) == len(self.net.steps), "an operator has not run")
        outputs = {t for t, role in enumerate(self.net.roles) if role == "output"}
        _must(outputs <= self.written, "an output was not written")
        _must(order != "given" or self.order == sorted(self.order), "not the given order")
        for tensor in range(len(self.net.sizes)):
            lengths = [length for t, length in self.stays if t == tensor]
            _must(not is_static or len(lengths) < 2 or max(lengths) < 2, "not static")

    def _end(self, tensor: int, pad: int) -> None:
        self.stays.append((tensor, len(self.order) - self.lying.pop((tensor, pad)).since))

    def _allocate(self, tensor: int, pad: int, start: int) -> None:
        one, stop = self.machine.pads[pad], start + self.net.sizes[tensor]
        _must((tensor, pad) not in self.lying, "allocated twice")
        _must(start >= 0 and stop <= one.capacity and start % one.alignment == 0, "no such place")
        for (other, where), lying in self.lying.items():
            apart = stop <= lying.start or lying.start + self.net.sizes[other] <= start
            _must(where != pad or apart, "overlap")
        self.lying[tensor, pad] = Lying(start, len(self.order))
        self.tops[pad] = max(self.tops.get(pad, 0), stop)
        self.peak_bytes = max(self.peak_bytes, sum(self.net.sizes[one] for one, _ in self.lying))

    def _copy(self, tensor: int, source: int, target: int) -> None:
        _must((tensor, source, target) in self.machine.prices, "no way")
        self.cost += self.machine.prices[tensor, source, target]
        if source < 0:
            _must(tensor in self.in_dram, "not in DRAM")
        else:
            _must((tensor, source) in self.lying and self.lying[tensor, source].has_bytes, "nothing to copy")
        if target < 0:
            _must(tensor not in self.written, "written again")
            self.in_dram.add(tensor)
            self.written |= {tensor} if self.net.roles[tensor] == "output" else set()
        else:
            _must((tensor, target) in self.lying, "no place to copy to")
            self.lying[tensor, target].has_bytes = True
        if self.is_peak:
            is_first = source < 0 and self.net.comes_from_outside(tensor) and tensor not in self.been
            is_write = target < 0 and self.net.roles[tensor] == "output"
            is_read = bool(self.net.readers(tensor))
            _must((is_first and is_read) or is_write, "moves what it need not")
        self.been |= {tensor} if source < 0 else set()

    def _compute(self, number: int) -> None:
        step = self.net.steps[number]
        _must(number not in self.order or step.name in self.may_run_again, "run twice")
        for tensor in step.reads:
            operand = self.net.operand(tensor)
            places = [lying for (t, pad), lying in self.lying.items() if t == tensor and self._takes(pad, operand)]
            _must(any(lying.has_bytes for lying in places), "nothing to read")
        for tensor in step.writes:
            pads = [pad for t, pad in self.lying if t == tensor]
            _must(len(pads) == 1 and self._takes(pads[0], "output"), "no single place to write")
            _must(not self.lying[tensor, pads[0]].has_bytes, "writes what is there")
            self.lying[tensor, pads[0]].has_bytes = True
            self.been.add(tensor)
        self.order.append(number)

    def _takes(self, pad: int, operand: str) -> bool:
        return operand in self.machine.pads[pad].holds


def replayed(
    plan: Json,
    net: Net,
    machine: Machine,
    *,
    objective: str,
    order: str,
    placement: str,
    may_run_again: frozenset[str] = frozenset(),
) -> Replayed:
    """Replay a plan file; raises IllegalError."""
    state = Replayed(net, machine, objective == "peak", may_run_again)
    for instruction in plan["instructions"]:
        state.do(instruction)
    state.finish(is_static=placement == "static", order=order)
    return state
