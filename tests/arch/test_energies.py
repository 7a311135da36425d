"""What an accelerator leaves out of its energies is listed, and every verb that needs them says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from onchip.arch.energies import unstated_accesses, unstated_energies
from onchip.formats.own.accelerator_yaml import accelerator_from_yaml
from support.diamond import Program

GRAPH = """\
{"format": "onchip-graph", "version": 1, "name": "one",
 "tensors": [{"name": "x", "shape": [1, 4, 4, 4], "bits": 8, "role": "input"},
             {"name": "w", "shape": [4, 4, 1, 1], "bits": 8, "role": "parameter"},
             {"name": "y", "shape": [1, 4, 4, 4], "bits": 8, "role": "output"}],
 "operators": [{"name": "conv", "kind": "Conv", "inputs": ["x"], "parameters": ["w"], "outputs": ["y"]}]}
"""
CHIP = """\
format: onchip-accelerator
version: 1
name: chip
array: {dimensions: {K: 2}, mac_energy_pj: 1}
memories:
- {name: buffer, capacity: 4KiB, scratchpad: true, access_bits: 8, read_energy_pj: 1, write_energy_pj: 1}
dram: {access_bits: 8, read_energy_pj: 9, write_energy_pj: 9, ports: [{direction: read_write, bits_per_cycle: 64}]}
"""
NO_MAC = CHIP.replace(", mac_energy_pj: 1", "")
NO_BUFFER = CHIP.replace(", access_bits: 8, read_energy_pj: 1, write_energy_pj: 1", "")
NO_DRAM = CHIP.replace("access_bits: 8, read_energy_pj: 9, write_energy_pj: 9, ", "")
ACCESS = "access_bits, read_energy_pj and write_energy_pj of"


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        (CHIP, ()),
        (CHIP.replace("mac_energy_pj: 1", "mac_energy_pj: 0"), ()),
        (NO_MAC, ("mac_energy_pj of the array",)),
        (NO_BUFFER, (f"{ACCESS} memory 'buffer'",)),
        (NO_DRAM, (f"{ACCESS} dram",)),
        (CHIP.partition("dram:")[0], (f"{ACCESS} dram",)),
    ],
)
def test_unstated_energies_are_listed(text: str, missing: tuple[str, ...]) -> None:
    accelerator = accelerator_from_yaml(text, "chip.yaml")
    assert unstated_energies(accelerator) == missing
    assert unstated_accesses(accelerator) == tuple(one for one in missing if one.startswith(ACCESS))


@pytest.mark.parametrize("text", [NO_MAC, NO_BUFFER, NO_DRAM], ids=["mac", "buffer", "dram"])
@pytest.mark.parametrize("objective", ["energy", "latency"])
@pytest.mark.parametrize("verb", ["map", "schedule", "fuse"])
def test_verbs_that_map_name_file_and_remedy(
    onchip: Program, tmp_path: Path, verb: str, objective: str, text: str
) -> None:
    chip, graph = tmp_path / "chip.yaml", tmp_path / "one.json"
    chip.write_text(text)
    graph.write_text(GRAPH)
    ended = onchip(verb, graph, "--accelerator", chip, "--objective", objective)
    assert ended.code == 2
    assert ended.err.startswith(f"onchip: {chip}: accelerator 'chip': it does not state ")
    assert "these energies in its file, 0 where they do not matter" in ended.err
    assert "onchip plan" in ended.err


def test_a_plan_needs_no_energy_of_a_mac(onchip: Program, tmp_path: Path) -> None:
    chip, graph = tmp_path / "chip.yaml", tmp_path / "one.json"
    chip.write_text(NO_MAC)
    graph.write_text(GRAPH)
    for objective in ("traffic", "latency", "dma-cycles", "dma-energy"):
        assert onchip("plan", graph, "--accelerator", chip, "--objective", objective, "--json").code == 0


def test_a_plan_for_latency_on_a_machine_without_accesses_points_to_another_cost(
    onchip: Program, tmp_path: Path
) -> None:
    chip, graph = tmp_path / "chip.yaml", tmp_path / "one.json"
    chip.write_text(NO_BUFFER)
    graph.write_text(GRAPH)
    asked = ("plan", graph, "--accelerator", chip, "--objective", "latency", "--json")
    ended = onchip(*asked)
    assert ended.code == 2
    assert "--cost macs" in ended.err
    assert onchip(*asked, "--cost", "macs").code == 0
