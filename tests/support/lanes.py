"""An accelerator of eight lanes, small enough that its mappings are compiled and run at once."""

LANES = """
format: onchip-accelerator
version: 1
name: lanes
clock_mhz: 1000
array: {dimensions: {lane: 8}, unrolls: {lane: [K, G]}, mac_energy_pj: 1}
memories:
  - {name: sums, capacity: 96B, holds: [output], serves: [], access_bits: 32, read_energy_pj: 0, write_energy_pj: 0}
  - {name: near, capacity: 16KiB, scratchpad: true, serves: [lane], access_bits: 256, shortest_access_bits: 8,
     read_energy_pj: 1, write_energy_pj: 1, ports: [{direction: read_write, bits_per_cycle: 256}]}
dram: {access_bits: 256, shortest_access_bits: 8, read_energy_pj: 9, write_energy_pj: 9,
       ports: [{direction: read_write, bits_per_cycle: 64}]}
"""
