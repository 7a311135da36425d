"""Check that an accelerator states the energies of which the energy of a mapping consists."""

from __future__ import annotations

from typing import Final

from onchip.arch.accelerator import Accelerator
from onchip.arch.memory import DRAM
from onchip.errors import AcceleratorError

ACCESS: Final = "access_bits, read_energy_pj and write_energy_pj"


def unstated_accesses(accelerator: Accelerator) -> tuple[str, ...]:
    """Return the memories, DRAM among them, of which an access is not described, with the missing fields."""
    unpriced = [f"memory {level.memory.name!r}" for level in accelerator.levels if level.access is None]
    if accelerator.dram is None or accelerator.dram.access is None:
        unpriced.append(DRAM)
    return (f"{ACCESS} of {', '.join(unpriced)}",) if unpriced else ()


def unstated_energies(accelerator: Accelerator) -> tuple[str, ...]:
    """Return the energies that the accelerator file leaves out."""
    is_mac_unstated = accelerator.array is not None and accelerator.array.mac_energy_pj is None
    return (*(("mac_energy_pj of the array",) if is_mac_unstated else ()), *unstated_accesses(accelerator))


def ensure_energies(accelerator: Accelerator) -> None:
    """Raise AcceleratorError if the energy of a mapping cannot be told; the error lists all that is missing."""
    if missing := unstated_energies(accelerator):
        raise AcceleratorError(
            f"it does not state {'; '.join(missing)}",
            place=f"accelerator {accelerator.name!r}",
            expected="these energies in its file, 0 where they do not matter, as every mapping comes with its energy, "
            "or a plan (`onchip plan`), which needs none for traffic, peak, dma-cycles and, with --cost macs, latency",
        )
