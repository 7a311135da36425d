"""Files of a small network and a small machine for depth-first execution."""

from __future__ import annotations

import json

CHIP = """\
format: onchip-accelerator
version: 1
name: chip
array: {dimensions: {K: 2, OX: 2}, mac_energy_pj: 0.5}
memories:
  - {name: register, capacity: 1B, holds: [weight], serves: [OX], access_bits: 8, read_energy_pj: 0.1,
     write_energy_pj: 0.1, ports: [{direction: read_write, bits_per_cycle: 16}]}
  - {name: buffer, capacity: 512B, access_bits: 32, read_energy_pj: 5, write_energy_pj: 6,
     ports: [{direction: read_write, bits_per_cycle: 64}]}
  - {name: global, capacity: 1KiB, scratchpad: true, access_bits: 32, read_energy_pj: 30, write_energy_pj: 35,
     ports: [{direction: read_write, bits_per_cycle: 64}]}
dram: {access_bits: 64, read_energy_pj: 400, write_energy_pj: 450, ports: [{direction: read_write, bits_per_cycle: 64}]}
"""


def three_convolutions() -> str:
    """Return a graph of 8 x 8 pixels: two convolutions, and an addition of their outputs."""
    plain = {"bits": 8, "shape": [1, 4, 8, 8]}
    tensors = [{"name": "x", "role": "input", **plain}]
    operators: list[dict[str, object]] = []
    for at, source in enumerate(("x", "m0")):
        tensors.append({"name": f"w{at}", "shape": [4, 4, 3, 3], "bits": 8, "role": "parameter"})
        tensors.append({"name": f"m{at}", "role": "activation", **plain})
        operators.append(
            {
                "name": f"conv{at}",
                "kind": "Conv",
                "inputs": [source],
                "outputs": [f"m{at}"],
                "parameters": [f"w{at}"],
                "attributes": {"pads": [1, 1, 1, 1], "kernel_shape": [3, 3]},
            }
        )
    tensors.append({"name": "y", "role": "output", **plain})
    operators.append({"name": "add", "kind": "Add", "inputs": ["m0", "m1"], "outputs": ["y"]})
    head = {"format": "onchip-graph", "version": 1, "name": "three"}
    return json.dumps({**head, "tensors": tensors, "operators": operators})
