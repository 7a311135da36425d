"""Energies that an accelerator states, and answers on a machine that states no energy of a multiply-accumulate."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final, TypeVar

from onchip.arch.accelerator import Accelerator
from onchip.arch.memory import DRAM
from onchip.errors import AcceleratorError

ACCESS: Final = "access_bits, read_energy_pj and write_energy_pj"
MAC_ENERGY: Final = "mac_energy_pj of the array"
NEED_ENERGY: Final = ("energy", "edp")
"""Objectives of `map`, `fuse` and `schedule` that need the energy of a multiply-accumulate."""
EnergyT = TypeVar("EnergyT", int, float)


def unstated_accesses(accelerator: Accelerator) -> tuple[str, ...]:
    """Return the memories, DRAM among them, of which an access is not described, with the missing fields."""
    unpriced = [f"memory {level.memory.name!r}" for level in accelerator.levels if level.access is None]
    if accelerator.dram is None or accelerator.dram.access is None:
        unpriced.append(DRAM)
    return (f"{ACCESS} of {', '.join(unpriced)}",) if unpriced else ()


def states_mac_energy(accelerator: Accelerator) -> bool:
    """Return True if the energy of a multiply-accumulate is stated, or there is no array."""
    return accelerator.array is None or accelerator.array.mac_energy_pj is not None


def unstated_energies(accelerator: Accelerator) -> tuple[str, ...]:
    """Return the energies that the accelerator file leaves out."""
    return (*(() if states_mac_energy(accelerator) else (MAC_ENERGY,)), *unstated_accesses(accelerator))


def ensure_energies(accelerator: Accelerator, objective: str) -> None:
    """Raise AcceleratorError if an energy that the objective needs is not stated; the error lists all missing fields.

    Every objective needs the accesses of the memories, as mappings are costed by them. Only energy and the
    energy-delay product need the energy of a multiply-accumulate.
    """
    accesses = unstated_accesses(accelerator)
    if accesses or (objective in NEED_ENERGY and not states_mac_energy(accelerator)):
        other = (
            "a plan (`onchip plan`), which needs none for traffic, peak, dma-cycles and, with --cost macs, latency"
            if accesses
            else "an objective that needs no energy of a multiply-accumulate, such as latency"
        )
        raise AcceleratorError(
            f"it does not state {'; '.join(unstated_energies(accelerator))}",
            place=f"accelerator {accelerator.name!r}",
            expected=f"these energies in its file, 0 where they do not matter, or {other}",
        )


def with_mac_energy(accelerator: Accelerator) -> Accelerator:
    """Return the accelerator with a MAC energy of 0 if it states none, to search for an objective that needs none.

    The energies of its answers lack the multiply-accumulates: cost the answer on the accelerator itself.
    """
    array = accelerator.array
    if array is None or array.mac_energy_pj is not None:
        return accelerator
    return replace(accelerator, array=replace(array, mac_energy_pj=0.0))


def unknown_energy(accelerator: Accelerator) -> str:
    """Return the line under figures that says why their energy is unknown."""
    return f"energy unknown: accelerator {accelerator.name!r} does not state {MAC_ENERGY}"


def stated(energy: EnergyT | None) -> EnergyT:
    """Return an energy; raises AcceleratorError if it is unknown, as the machine states no MAC energy."""
    if energy is None:
        expected = "mac_energy_pj, 0 where it does not matter"
        raise AcceleratorError("it states no energy of a multiply-accumulate", place="array", expected=expected)
    return energy


def summed(energies: Iterable[EnergyT | None]) -> EnergyT | None:
    """Return the sum of energies, or None if any of them is unknown."""
    total: EnergyT | int = 0
    for energy in energies:
        if energy is None:
            return None
        total += energy
    return total
