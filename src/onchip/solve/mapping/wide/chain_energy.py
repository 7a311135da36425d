"""What the boundaries of all operands take in energy, in some ways to use the array: what no order of loops is below.

Sums that come to a memory are those that come back to it later and those that are finished. An instance that adds to a
sum beside others begins its own part: what comes back below it is less by that (docs/mapping.md, section 9).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import ceil, prod
from typing import Final

import numpy as np

from onchip.arch.memory import Access, Operand
from onchip.cost.layer.cost import access_of
from onchip.cost.layer.limits import array_of
from onchip.ir.layer import LOOPS
from onchip.solve.mapping.wide.chain import ADDING, OperandChain, UnrolledWays
from onchip.solve.mapping.wide.lattice import Along, Lattice
from onchip.solve.mapping.wide.least import Boundaries, least_of

MOST_AT_ONCE: Final = 256
"""Of more elements at once a part of an access more or less is not counted."""


@dataclass(frozen=True)
class ChainEnergy:
    """The energy of every mapping of a way is at least `least_pj`."""

    way: UnrolledWays
    lattice: Lattice

    @cached_property
    def least_pj(self) -> float:
        """Return it, infinite where nothing fits."""
        return self.fixed_pj + least_of(self.lattice, self.boundaries)

    @cached_property
    def fixed_pj(self) -> float:
        """Return what multiply-accumulates take, and the memories nearest the units for them."""
        at_units = sum(float(own[0].max()) for own in self._of_operands.values())
        array = array_of(self.way.problem.accelerator)
        return self.way.problem.layer.macs * (array.mac_energy_pj or 0.0) + at_units

    @cached_property
    def boundaries(self) -> Boundaries:
        """Return what the boundaries above memories take."""
        chains = {operand: OperandChain(self.way, self.lattice, operand) for operand in self._of_operands}
        return {
            (operand, at): np.where(chains[operand].fits(at), one, np.inf)
            for operand, (_, *own) in self._of_operands.items()
            for at, one in enumerate(own)
        }

    @cached_property
    def _of_operands(self) -> dict[Operand, list[Along]]:
        return {one: self._boundaries(one) for one in map(Operand, self.way.problem.layer.operands)}

    def _boundaries(self, operand: Operand) -> list[Along]:
        """That at the units, then those above each memory."""
        memories = self.way.memories(operand)
        if operand is Operand.OUTPUT:
            return SumsEnergy(self.way, self.lattice).boundaries()
        bits = self.way.problem.layer.bits(operand)
        found = []
        for lower, upper in zip([None, *memories[:-1]], memories, strict=True):
            chain = OperandChain(self.way, self.way.at_units if lower is None else self.lattice, operand)
            total: Along = np.zeros((1,) * len(LOOPS))
            for memory, is_read in ((upper, True), (lower, False)):
                if memory is not None:
                    inside = self.way.served(memory)
                    access = access_of(self.way.problem.accelerator, memory)
                    each_pj = element_pj(access, bits, chain.at_once(inside), is_read=is_read)
                    total = total + chain.moved(inside) * each_pj
            found.append(total)
        return found


@dataclass(frozen=True)
class SumsEnergy:
    """The energy of all boundaries of outputs, from the units upwards."""

    way: UnrolledWays
    lattice: Lattice

    def boundaries(self) -> list[Along]:
        """Return that at the units, then those above each memory."""
        found = self._all(counts_returns=True)
        return found if all(np.isfinite(one).all() for one in found) else self._all(counts_returns=False)

    @cached_property
    def _memories(self) -> Sequence[str]:
        return self.way.memories(Operand.OUTPUT)

    def _beside(self, number: int) -> int:
        """Instances of a memory below one of the next that add to the same sums."""
        lower, upper = (self.way.served(memory).most_apart for memory in self._memories[number : number + 2])
        return max(1, prod(lower[at] for at in ADDING) // prod(upper[at] for at in ADDING))

    def _all(self, *, counts_returns: bool) -> list[Along]:
        """Without returns, of those below memories whose parts of sums are added up."""
        parted = [at for at in range(len(self._memories) - 1) if self._beside(at) > 1]
        return [
            self._boundary(number, comes_back=counts_returns or not any(at >= number for at in parted),
                           spares=counts_returns and number - 1 in parted)
            for number in range(len(self._memories))
        ]  # fmt: skip

    def _boundary(self, number: int, *, comes_back: bool, spares: bool) -> Along:
        """Number 0 is at the units; `spares`: it lets less come back over those below it."""
        upper = self._memories[number]
        above = self.way.served(upper)
        chain = OperandChain(self.way, self.lattice if number else self.way.at_units, Operand.OUTPUT)
        bits = chain.bits_above(above)
        arrived, outputs = chain.moved(above), chain.elements(above)
        at_once = chain.at_once(above)
        coming = self._pj(upper, bits, at_once, is_read=False)
        back = self._pj(upper, bits, at_once, is_read=True) * float(comes_back)
        if number == 0:
            return arrived * coming + (arrived - outputs) * back
        lower = self._memories[number - 1]
        inside = self.way.served(lower)
        own_bits, own_at_once = chain.bits(number - 1, above), chain.at_once(inside)
        back = back + self._pj(lower, own_bits, own_at_once, is_read=False) * float(comes_back)
        leaving = self._pj(lower, own_bits, own_at_once, is_read=True)
        left = chain.moved(inside)
        if not spares:
            return arrived * (coming + back) + left * leaving - outputs * back
        spared, beside = sum(self._most_back_pj(at) for at in range(number)), self._beside(number - 1)
        if_few = (coming + back + spared) * arrived + (leaving - spared) * left
        if_all = coming + back + beside * leaving - (beside - 1) * spared
        if_many = np.where(if_all >= 0, if_all * arrived, -np.inf)
        return np.where(leaving >= spared, if_few, if_many) - outputs * back

    def _most_back_pj(self, number: int) -> float:
        """Of a sum that comes back over a boundary, if nothing else moves with it."""
        bits, memories = self.way.problem.layer.partial_bits, self._memories
        moves = [(memories[number], True), *([(memories[number - 1], False)] if number else [])]
        alone = np.ones((1,) * len(LOOPS))
        found = 0.0
        for memory, is_read in moves:
            access = access_of(self.way.problem.accelerator, memory)
            shortest = access.shortest_access_bits or access.access_bits
            whole = ceil(bits / shortest) * shortest
            found += float(element_pj(access, whole, alone, is_read=is_read).max())
        return found

    def _pj(self, memory: str, bits: Along, at_once: Along, *, is_read: bool) -> Along:
        access = access_of(self.way.problem.accelerator, memory)
        found: Along = np.zeros((1,) * len(LOOPS))
        for one in np.unique(bits):
            found = np.where(bits == one, element_pj(access, int(one), at_once, is_read=is_read), found)
        return found


def element_pj(access: Access, bits: int, at_once: Along, *, is_read: bool) -> Along:
    """Return the energy in pJ of one of at most so many elements that move at once, at least: parts are rounded up."""
    shortest = access.shortest_access_bits or access.access_bits
    energy_pj = access.read_energy_pj if is_read else access.write_energy_pj
    words = _words_of_an_element(bits, shortest)
    least = np.where(at_once > MOST_AT_ONCE, bits / shortest, words[np.minimum(at_once, MOST_AT_ONCE).astype(int) - 1])
    return least * (shortest / access.access_bits * energy_pj)


@lru_cache(maxsize=1 << 8)
def _words_of_an_element(bits: int, shortest: int) -> Along:
    """By how many elements move at once at most, from one on: the accesses of the shortest that each takes at least."""
    counts = np.arange(1, MOST_AT_ONCE + 1)
    found: Along = np.minimum.accumulate(-(-counts * bits // shortest) / counts)
    return found
