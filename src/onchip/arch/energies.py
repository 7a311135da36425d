"""Energies stated by an accelerator, and substitutes for those that are missing."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final, TypeVar

from onchip.arch.accelerator import Accelerator
from onchip.arch.memory import DRAM, Access, Dram
from onchip.errors import AcceleratorError

ACCESS: Final = "access_bits, read_energy_pj and write_energy_pj"
MAC_ENERGY: Final = "mac_energy_pj of the array"
NEED_ENERGY: Final = ("energy", "edp")
"""Objectives of `map`, `fuse` and `schedule` that need energies."""
EnergyT = TypeVar("EnergyT", int, float)


def unstated_accesses(accelerator: Accelerator) -> tuple[str, ...]:
    """Return the memories (including DRAM) without access energies, with the names of the missing fields."""
    unpriced = [f"memory {level.memory.name!r}" for level in accelerator.levels if level.access is None]
    if accelerator.dram is None or accelerator.dram.access is None:
        unpriced.append(DRAM)
    return (f"{ACCESS} of {', '.join(unpriced)}",) if unpriced else ()


def states_mac_energy(accelerator: Accelerator) -> bool:
    """Return True if the energy of a multiply-accumulate is stated, or there is no array."""
    return accelerator.array is None or accelerator.array.mac_energy_pj is not None


def unstated_energies(accelerator: Accelerator) -> tuple[str, ...]:
    """Return the energies missing from the accelerator file."""
    return (*(() if states_mac_energy(accelerator) else (MAC_ENERGY,)), *unstated_accesses(accelerator))


def states_energies(accelerator: Accelerator) -> bool:
    """Return True if the energies of all accesses, and of a multiply-accumulate if there is an array, are stated."""
    return not unstated_energies(accelerator)


def ensure_energies(accelerator: Accelerator, objective: str) -> None:
    """Raise AcceleratorError, with all missing fields, if the objective needs energies and some are not stated."""
    missing = unstated_energies(accelerator)
    if missing and objective in NEED_ENERGY:
        raise AcceleratorError(
            f"it does not state {'; '.join(missing)}",
            place=f"accelerator {accelerator.name!r}",
            expected=f"these energies in its file (0 if they do not matter), or an objective other than {objective}: "
            f"{accelerator.name} works with {working_verbs_words(accelerator)}",
        )


def working_verbs(accelerator: Accelerator) -> tuple[str, ...]:
    """Return the verbs that the accelerator can be used with, each with a condition if it has one."""
    has_energies, has_dram = states_energies(accelerator), accelerator.dram is not None and accelerator.dram.ports
    timed = " (not latency)" if accelerator.array is None or not has_dram else ""
    verbs = [f"plan{timed}"] if accelerator.scratchpads else []
    if accelerator.array is not None and has_dram:
        verbs += [verb if has_energies else f"{verb} (not energy, edp)" for verb in ("map", "fuse", "schedule")]
    return tuple(verbs)


def working_verbs_words(accelerator: Accelerator) -> str:
    """Return the verbs that the accelerator can be used with, each condition once."""
    verbs = ", ".join(working_verbs(accelerator))
    return verbs.replace(" (not energy, edp),", ",")  # the last verb has the condition of all


def with_assumed_energies(accelerator: Accelerator) -> Accelerator:
    """Return the accelerator with an assumed value for each missing energy, to search for another objective.

    On-chip energies are 0. A DRAM bit costs the energy of a bit in the most expensive on-chip memory, but at least 1
    pJ, so that among equal answers the one with less traffic needs less energy. Price an answer on the original
    accelerator.
    """
    if states_energies(accelerator):
        return accelerator
    array = accelerator.array
    if array is not None and array.mac_energy_pj is None:
        array = replace(array, mac_energy_pj=0.0)
    return replace(_with_accesses(accelerator, _most_expensive_bit_pj(accelerator)), array=array)


def with_free_accesses(accelerator: Accelerator) -> Accelerator:
    """Return the accelerator with an energy of 0 for each missing access energy, for lower bounds."""
    return _with_accesses(accelerator, 0.0)


def _with_accesses(accelerator: Accelerator, dram_bit_pj: float) -> Accelerator:
    levels = tuple(
        replace(level, access=Access(1, 0.0, 0.0)) if level.access is None else level for level in accelerator.levels
    )
    dram = accelerator.dram or Dram()
    if dram.access is None:
        dram = replace(dram, access=Access(1, dram_bit_pj, dram_bit_pj))
    return replace(accelerator, levels=levels, dram=dram)


def _most_expensive_bit_pj(accelerator: Accelerator) -> float:
    accesses = [level.access for level in accelerator.levels if level.access is not None]
    bits_pj = (max(one.read_energy_pj, one.write_energy_pj) / one.access_bits for one in accesses)
    return max((1.0, *bits_pj))


def unknown_energy(accelerator: Accelerator) -> str:
    """Return the note that explains why the energy of an answer is unknown."""
    missing = "; ".join(unstated_energies(accelerator))
    return f"energy unknown: accelerator {accelerator.name!r} does not state {missing}"


def stated(energy: EnergyT | None) -> EnergyT:
    """Return an energy; raises AcceleratorError if the energy is unknown (None)."""
    if energy is None:
        expected = f"{MAC_ENERGY}, and {ACCESS} of each memory, 0 where they do not matter"
        raise AcceleratorError("it does not state all energies", expected=expected)
    return energy


def summed(energies: Iterable[EnergyT | None]) -> EnergyT | None:
    """Return the sum of energies, or None if one of them is unknown."""
    total: EnergyT | int = 0
    for energy in energies:
        if energy is None:
            return None
        total += energy
    return total
