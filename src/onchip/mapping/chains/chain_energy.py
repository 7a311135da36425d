"""Lower bound on the energy of all operands' memory boundaries over all loop orders, for a set of unrollings.

Sums that arrive at a memory either return later or are finished. Instances that add to the same sums in parallel start
their own partial sums, which saves returns below them (docs/mapping.md, section 9).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import ceil, prod

import numpy as np

from onchip.arch.memory import Access, Operand
from onchip.ir.layer import LOOPS
from onchip.mapping.chains.chain import OperandChain
from onchip.mapping.chains.element_accesses import element_accesses, shortest_of
from onchip.mapping.chains.lattice import Along, Lattice
from onchip.mapping.chains.least import Boundaries, least_of
from onchip.mapping.prove.unrolled_ways import ADDING, UnrolledWays
from onchip.model.layer.cost import access_of
from onchip.model.layer.limits import array_of


@dataclass(frozen=True)
class ChainEnergy:
    """The energy bound of a set of unrollings: every mapping takes at least `least_pj`."""

    way: UnrolledWays
    lattice: Lattice
    counts_tiles: bool = True

    @property
    def in_parts(self) -> ChainEnergy:
        """Return the same bound with accesses counted per tile, which is linear in the number of tiles that move."""
        return replace(self, counts_tiles=False)

    @cached_property
    def least_pj(self) -> float:
        """Return the lower bound in pJ, infinite if nothing fits."""
        return self.fixed_pj + least_of(self.lattice, self.boundaries)

    @cached_property
    def fixed_pj(self) -> float:
        """Return the energy in pJ of the multiply-accumulates and of the accesses that feed the MACs."""
        at_units = sum(float(own[0].max()) for own in self._of_operands.values())
        array = array_of(self.way.problem.accelerator)
        return self.way.problem.layer.macs * (array.mac_energy_pj or 0.0) + at_units

    @cached_property
    def boundaries(self) -> Boundaries:
        """Return the energy in pJ of the boundaries above memories, infinite in cells that do not fit."""
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
        """Return the energy at the MACs, then above each memory, from the MACs up."""
        memories = self.way.memories(operand)
        if operand is Operand.OUTPUT:
            return SumsEnergy(self.way, self.lattice, self.counts_tiles).boundaries()
        bits = self.way.problem.layer.bits(operand)
        found = []
        for lower, upper in zip([None, *memories[:-1]], memories, strict=True):
            chain = OperandChain(self.way, self.way.at_units if lower is None else self.lattice, operand)
            total: Along = np.zeros((1,) * len(LOOPS))
            for memory, is_read in ((upper, True), (lower, False)):
                if memory is not None:
                    inside = self.way.served(memory)
                    access = access_of(self.way.problem.accelerator, memory)
                    shortest, each_pj = shortest_of(access), access_pj(access, is_read=is_read)
                    below = None if lower is None else self.way.served(lower)
                    of_one = element_accesses(chain, inside, bits, shortest, self.counts_tiles, below)
                    total = total + chain.moved(inside, below) * of_one * each_pj
            found.append(total)
        return found


@dataclass(frozen=True)
class SumsEnergy:
    """The energy of all boundaries of outputs, from the MACs upwards."""

    way: UnrolledWays
    lattice: Lattice
    counts_tiles: bool = True

    def boundaries(self) -> list[Along]:
        """Return the energy in pJ at the MACs, then above each memory."""
        found = self._all(counts_returns=True)
        return found if all(np.isfinite(one).all() for one in found) else self._all(counts_returns=False)

    @cached_property
    def _memories(self) -> Sequence[str]:
        return self.way.memories(Operand.OUTPUT)

    def _beside(self, number: int) -> int:
        """Return the number of instances per instance of the next memory that add to the same sums."""
        lower, upper = (self.way.served(memory).most_apart for memory in self._memories[number : number + 2])
        return max(1, prod(lower[at] for at in ADDING) // prod(upper[at] for at in ADDING))

    def _all(self, *, counts_returns: bool) -> list[Along]:
        """Return all boundaries; without `counts_returns`, omit returns below memories that merge partial sums."""
        parted = [at for at in range(len(self._memories) - 1) if self._beside(at) > 1]
        return [
            self._boundary(number, comes_back=counts_returns or not any(at >= number for at in parted),
                           spares=counts_returns and number - 1 in parted)
            for number in range(len(self._memories))
        ]  # fmt: skip

    def _boundary(self, number: int, *, comes_back: bool, spares: bool) -> Along:
        """Return the energy above memory `number - 1`; 0 is at the MACs. If it `spares`, fewer sums return below it."""
        upper = self._memories[number]
        above = self.way.served(upper)
        chain = OperandChain(self.way, self.lattice if number else self.way.at_units, Operand.OUTPUT)
        bits = chain.bits_above(above)
        arrived, outputs = chain.moved(above), chain.elements(above)
        coming = self._pj(chain, upper, bits, is_read=False)
        back = self._pj(chain, upper, bits, is_read=True) * float(comes_back)
        if number == 0:
            return arrived * coming + (arrived - outputs) * back
        lower = self._memories[number - 1]
        inside = self.way.served(lower)
        own_bits = chain.bits(number - 1, above)
        back = back + self._pj(chain, lower, own_bits, is_read=False) * float(comes_back)
        leaving = self._pj(chain, lower, own_bits, is_read=True)
        left = chain.moved(inside)
        if not spares:
            return arrived * (coming + back) + left * leaving - outputs * back
        spared, beside = sum(self._most_back_pj(at) for at in range(number)), self._beside(number - 1)
        if_few = (coming + back + spared) * arrived + (leaving - spared) * left
        if_all = coming + back + beside * leaving - (beside - 1) * spared
        if_many = np.where(if_all >= 0, if_all * arrived, -np.inf)
        return np.where(leaving >= spared, if_few, if_many) - outputs * back

    def _most_back_pj(self, number: int) -> float:
        """Return the maximum energy in pJ of a sum that returns over a boundary alone."""
        bits, memories = self.way.problem.layer.partial_bits, self._memories
        moves = [(memories[number], True), *([(memories[number - 1], False)] if number else [])]
        accesses = [(access_of(self.way.problem.accelerator, memory), is_read) for memory, is_read in moves]
        return sum(ceil(bits / shortest_of(own)) * access_pj(own, is_read=is_read) for own, is_read in accesses)

    def _pj(self, chain: OperandChain, memory: str, bits: Along, *, is_read: bool) -> Along:
        access, served = access_of(self.way.problem.accelerator, memory), self.way.served(memory)
        shortest, found = shortest_of(access), np.zeros((1,) * len(LOOPS))
        for one in np.unique(bits) if bits.size > 1 else bits.flat:
            of_one = element_accesses(chain, served, int(one), shortest, self.counts_tiles)
            found = np.where(bits == one, of_one * access_pj(access, is_read=is_read), found)
        return found


def access_pj(access: Access, *, is_read: bool) -> float:
    """Return the energy in pJ of one access of the shortest length."""
    energy_pj = access.read_energy_pj if is_read else access.write_energy_pj
    return shortest_of(access) / access.access_bits * energy_pj
