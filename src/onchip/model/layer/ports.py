"""The choice of a memory's port for a transfer."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from onchip.answer.layer_mapping import Move
from onchip.arch.accelerator import Accelerator
from onchip.arch.memory import DRAM, Direction, Port
from onchip.errors import AcceleratorError


def port_for(memory: str, ports: Sequence[Port], move: Move) -> int:
    """Return the first port for moves towards the MACs, the last for others; raises AcceleratorError if none fits."""
    reads = move in (Move.READ_FOR_BELOW, Move.READ_FOR_ABOVE)
    wanted = (Direction.READ if reads else Direction.WRITE, Direction.READ_WRITE)
    fitting = [index for index, port in enumerate(ports) if port.direction in wanted]
    if not fitting:
        place = "dram" if memory == DRAM else f"memory {memory!r}"
        raise AcceleratorError(f"no port can {wanted[0]}", place=place, expected=f"one that does, to {move}")
    return fitting[0] if move in (Move.READ_FOR_BELOW, Move.WRITE_FROM_BELOW) else fitting[-1]


def ports_of(accelerator: Accelerator, memory: str) -> Sequence[Port]:
    """Return the ports of a memory, given by name, or of DRAM."""
    if memory == DRAM:
        return accelerator.dram.ports if accelerator.dram else ()
    return next(level.ports for level in accelerator.levels if level.memory.name == memory)


def bits_per_cycle(accelerator: Accelerator, memory: str, move: Move) -> float:
    """Return the bits per cycle of one instance for a move; infinite without ports."""
    ports = ports_of(accelerator, memory)
    return ports[port_for(memory, ports, move)].bits_per_cycle if ports else inf
