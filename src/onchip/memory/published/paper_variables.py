"""The variables of COSMA's formulation, made only for the steps in which a tensor can be of use (III-F)."""

from __future__ import annotations

from math import gcd
from typing import TYPE_CHECKING, TypeAlias

from onchip.model.lifetimes.indexed import IndexedProblem
from onchip.model.lifetimes.windows import Windows
from onchip.search.budget.limits import Run
from onchip.search.mip import UnfinishedModelError

if TYPE_CHECKING:
    from ortools.math_opt.python import mathopt

    Variables: TypeAlias = dict[tuple[int, int], mathopt.Variable]
    PairVariables: TypeAlias = dict[tuple[int, int, int], mathopt.Variable]


class ActionVariables:
    """C, P, S and R by (tensor, step).

    A tensor is created in a step of its producer; preserved, spilled or retrieved from the step
    after its earliest creation to its latest use. What DRAM has a copy of anyway (network inputs,
    parameters, written outputs) has no S. Without `spilling` only what nobody creates has an R.
    """

    def __init__(self, model: mathopt.Model, windows: Windows, run: Run, *, spilling: bool) -> None:
        self.created: Variables = {}
        self.preserved: Variables = {}
        self.spilled: Variables = {}
        self.retrieved: Variables = {}
        indexed = windows.indexed
        for tensor, lifetime in enumerate(windows.lifetimes):
            if run.stop is not None:
                raise UnfinishedModelError
            producer = indexed.producer[tensor]
            if producer >= 0:
                for step in windows.steps[producer]:
                    self.created[tensor, step] = model.add_binary_variable(name=f"C_{tensor}_{step}")
            if not indexed.reader_lists[tensor]:
                continue
            later = lifetime[1:]
            for step in later:
                self.preserved[tensor, step] = model.add_binary_variable(name=f"P_{tensor}_{step}")
            if spilling and not indexed.backed >> tensor & 1:
                for step in later:
                    self.spilled[tensor, step] = model.add_binary_variable(name=f"S_{tensor}_{step}")
            if spilling or producer < 0:
                for step in lifetime if producer < 0 else later:
                    self.retrieved[tensor, step] = model.add_binary_variable(name=f"R_{tensor}_{step}")

    def resident(self, tensor: int, step: int) -> list[mathopt.Variable]:
        """Return the terms of res[a,t] = C[a,t] + P[a,t] + R[a,t]."""
        key = (tensor, step)
        return [v[key] for v in (self.created, self.preserved, self.retrieved) if key in v]


class AddressVariables:
    """L and V by (tensor, step), u and d by (tensor, tensor, step).

    Addresses are counted in the greatest unit that loses nothing: in a packing that has sunk as low
    as it can, every offset is a sum of sizes, so it is a multiple of what divides them all.
    """

    def __init__(self, model: mathopt.Model, windows: Windows, actions: ActionVariables, run: Run) -> None:
        indexed = windows.indexed
        self.unit_bytes, self.units, self.last = address_units(indexed)
        budget = indexed.memory.capacity_bytes // self.unit_bytes
        self.offset: Variables = {}
        self.stays: Variables = {}
        self.above: PairVariables = {}
        self.below: PairVariables = {}
        for tensor, lifetime in enumerate(windows.lifetimes):
            for step in lifetime:
                if actions.resident(tensor, step):
                    offset = model.add_integer_variable(lb=0, ub=budget, name=f"L_{tensor}_{step}")
                    self.offset[tensor, step] = offset
        for tensor, step in actions.preserved:
            self.stays[tensor, step] = model.add_binary_variable(name=f"V_{tensor}_{step}")
        for first in range(len(indexed.tensors)):
            if run.stop is not None:
                raise UnfinishedModelError
            for second in range(first):
                for step in windows.shared_steps(first, second):
                    if (first, step) in self.offset and (second, step) in self.offset:
                        key = (first, second, step)
                        self.above[key] = model.add_binary_variable(name=f"u_{first}_{second}_{step}")
                        self.below[key] = model.add_binary_variable(name=f"d_{first}_{second}_{step}")


def address_units(indexed: IndexedProblem) -> tuple[int, tuple[int, ...], tuple[int, ...]]:
    """Return the bytes of an address unit, and per tensor its size and its highest offset in them."""
    used = [tensor for tensor, producer in enumerate(indexed.producer) if producer >= 0 or indexed.reader_lists[tensor]]
    common = gcd(*(indexed.room.units[tensor] for tensor in used))
    unit_bytes = indexed.memory.alignment_bytes * common
    capacity = indexed.memory.capacity_bytes
    return (
        unit_bytes,
        tuple(-(-units // common) for units in indexed.room.units),
        tuple((capacity - size) // unit_bytes for size in indexed.sizes_bytes),
    )


def pair_steps(windows: Windows, most: int) -> int:
    """Count the steps over all pairs of tensors that may meet, which is how many u there are; stop above `most`."""
    count = 0
    for first in range(len(windows.users)):
        count += sum(len(windows.shared_steps(first, second)) for second in range(first))
        if count > most:
            break
    return count
