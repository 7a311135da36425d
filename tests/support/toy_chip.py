"""A machine small enough to prove the best mapping of a small layer at once."""

from __future__ import annotations

CHIP = """\
format: onchip-accelerator
version: 1
name: chip
array: {dimensions: {lane: 4, row: 2}, mac_energy_pj: 0.5}
memories:
  - {name: register, capacity: 4B, holds: [weight], serves: [], access_bits: 8, read_energy_pj: 0.1,
     write_energy_pj: 0.1, ports: [{direction: read_write, bits_per_cycle: 16}]}
  - {name: buffer, capacity: 2KiB, scratchpad: true, access_bits: 64, read_energy_pj: 5, write_energy_pj: 6,
     ports: [{direction: read_write, bits_per_cycle: 64}]}
dram: {access_bits: 64, read_energy_pj: 400, write_energy_pj: 400, ports: [{direction: read_write, bits_per_cycle: 64}]}
"""
