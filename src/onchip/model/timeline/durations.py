"""Durations of operators and transfers on an accelerator, for plans of least latency."""

from __future__ import annotations

from collections.abc import Mapping

from onchip.answer.problem import Durations
from onchip.arch.accelerator import Accelerator
from onchip.arch.memory import Direction, Dma


def durations_on(accelerator: Accelerator, cycles: Mapping[str, int]) -> Durations:
    """Return the durations of DMA transfers, with `cycles` for operators that state none."""
    dma = accelerator.dma or Dma()
    ports = accelerator.dram.ports if accelerator.dram else ()
    has_one_channel = any(port.direction is Direction.READ_WRITE for port in ports)
    return Durations(cycles, dma.queues, dma.setup_cycles, has_one_channel)
