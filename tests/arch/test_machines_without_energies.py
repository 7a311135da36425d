"""Objectives that need no energies are answered by all verbs on all bundled machines; the refusals are listed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

import pytest

from onchip.arch.energies import states_energies, unstated_energies, with_assumed_energies
from onchip.arch.memory import DRAM
from onchip.commands.show import ExitCode
from onchip.formats.own.accelerator_yaml import accelerator_from_yaml, bundled_accelerators, load_accelerator
from support.diamond import Program

NETWORK: Final = {
    "format": "onchip-graph",
    "version": 1,
    "name": "three",
    "tensors": [
        {"name": "x", "shape": [1, 4, 6, 6], "bits": 8, "role": "input"},
        {"name": "w", "shape": [4, 4, 3, 3], "bits": 8, "role": "parameter"},
        {"name": "m", "shape": [1, 4, 4, 4], "bits": 8, "role": "activation"},
        {"name": "v", "shape": [8, 4, 1, 1], "bits": 8, "role": "parameter"},
        {"name": "a", "shape": [1, 8, 4, 4], "bits": 8, "role": "activation"},
        {"name": "y", "shape": [1, 8, 4, 4], "bits": 8, "role": "output"},
    ],
    "operators": [
        {"name": "first", "kind": "Conv", "inputs": ["x"], "parameters": ["w"], "outputs": ["m"]},
        {"name": "second", "kind": "Conv", "inputs": ["m"], "parameters": ["v"], "outputs": ["a"]},
        {"name": "softmax", "kind": "Softmax", "inputs": ["a"], "outputs": ["y"]},
    ],
}
VERBS: Final = {
    "map": ("energy", "latency", "edp"),
    "schedule": ("energy", "latency", "edp", "traffic"),
    "fuse": ("energy", "latency", "edp", "dram"),
    "plan": ("traffic", "peak", "latency", "dma-cycles", "dma-energy"),
}
WITHOUT_ENERGIES: Final = (
    "cortex-m4-like", "cortex-m7-like", "ethos-u55-like", "ethos-u65-like", "hifi4-like", "nvdla-like", "single-2mib",
    "soma-edge", "tpu-like",
)  # fmt: skip
WITHOUT_ARRAY: Final = ("single-2mib", "soma-edge")
"""Machines of networks whose files state the cycles of their operators."""
WITHOUT_DRAM: Final = ("single-2mib",)
ACCESS: Final = ", access_bits: 8, read_energy_pj: 1, write_energy_pj: 1"
STATED: Final = f"""\
format: onchip-accelerator
version: 1
name: chip
array: {{dimensions: {{K: 2}}, mac_energy_pj: 1}}
memories:
- {{name: local, capacity: 64B{ACCESS}, ports: [{{direction: read_write, bits_per_cycle: 64}}]}}
- {{name: shared, capacity: 1KiB, scratchpad: true{ACCESS}, ports: [{{direction: read_write, bits_per_cycle: 32}}]}}
dram: {{ports: [{{direction: read_write, bits_per_cycle: 8}}]{ACCESS}}}
"""
NEEDS_SPILLS: Final = ("nvdla-like", "plan", "peak")
"""Only DRAM connects its outputs with the scratchpads of inputs, and `peak` rules out spills."""


def refusal(machine: str, verb: str, objective: str) -> str | None:
    """Return a part of the message that refuses a question, or None if the question must be answered."""
    if machine in WITHOUT_ARRAY and verb != "plan":
        return "`array` in its file"
    if machine in WITHOUT_DRAM and objective in ("latency", "dma-cycles"):
        return "`dram` with `ports` in its file"
    if machine in WITHOUT_ARRAY and (verb, objective) == ("plan", "latency"):
        return "`array` in its file, or a network whose file states cycles"
    if machine in WITHOUT_ENERGIES and objective in ("energy", "edp", "dma-energy"):
        return "access_bits, read_energy_pj and write_energy_pj"
    return None


@pytest.fixture
def network(tmp_path: Path) -> Path:
    file = tmp_path / "three.json"
    file.write_text(json.dumps(NETWORK))
    return file


def test_the_machines_without_energies_are_known() -> None:
    found = [name for name in bundled_accelerators() if not states_energies(load_accelerator(name))]
    assert found == list(WITHOUT_ENERGIES)


@pytest.mark.parametrize(
    ("machine", "verb"),
    [
        pytest.param(name, verb, marks=() if name in (*WITHOUT_ENERGIES, "simba") else pytest.mark.slow)
        for name in bundled_accelerators()
        for verb in VERBS
    ],
)
def test_each_objective_is_answered_or_names_what_is_missing(
    onchip: Program, network: Path, machine: str, verb: str
) -> None:
    for objective in VERBS[verb]:
        options = ("--count", "activations") if verb == "plan" else ("--no-cache", "--time-limit", "1")
        asked = (verb, network, "--accelerator", machine, "--objective", objective, *options, "--json")
        ended, expected = onchip(*asked), refusal(machine, verb, objective)
        if expected is not None:
            assert ended.code == 2, (objective, ended)
            assert expected in ended.err
            continue
        assert ended.code == (ExitCode.INFEASIBLE if (machine, verb, objective) == NEEDS_SPILLS else 0), (
            objective,
            ended,
        )
        if machine in WITHOUT_ENERGIES and verb in ("schedule", "fuse"):
            assert ended.json["energy_pj"] is None


def test_an_assumed_bit_of_dram_takes_at_least_as_much_as_one_on_the_chip() -> None:
    text = STATED.replace(
        f"shared, capacity: 1KiB, scratchpad: true{ACCESS}", "shared, capacity: 1KiB, scratchpad: true"
    )
    text = text.replace(f"]{ACCESS}}}\n", "]}\n").replace("read_energy_pj: 1", "read_energy_pj: 24")
    machine = accelerator_from_yaml(text, "chip.yaml")
    assert unstated_energies(machine) == (
        f"access_bits, read_energy_pj and write_energy_pj of memory 'shared', {DRAM}",
    )
    assumed = with_assumed_energies(machine)
    local, shared = assumed.levels
    assert local == machine.levels[0]
    assert shared.access is not None
    assert (shared.access.read_energy_pj, shared.access.write_energy_pj) == (0, 0)
    assert assumed.dram is not None
    assert assumed.dram.access is not None
    assert assumed.dram.access.read_energy_pj == 3
    assert with_assumed_energies(assumed) is assumed


@pytest.mark.parametrize("verb", ["schedule", "fuse"])
@pytest.mark.parametrize("silent", [("local",), ("shared",), ("dram",), ("local", "dram"), ("mac", "shared"), ("mac",)])
def test_a_verified_answer_keeps_the_energies_that_are_stated(
    onchip: Program, network: Path, tmp_path: Path, verb: str, silent: tuple[str, ...]
) -> None:
    machine, answer = tmp_path / "chip.yaml", tmp_path / "answer.json"
    machine.write_text("\n".join(_silenced(line, silent) for line in STATED.splitlines()))
    options = ("--accelerator", machine, "--objective", "latency", "--groups", "layers", "--no-cache", "-o", answer)
    found = onchip(verb, network, *options, "--json").json
    assert found["energy_pj"] is None
    checked = onchip("check", answer, network, *(() if verb == "schedule" else ("--accelerator", machine)))
    assert checked.code == 0, checked.out
    stating = {"local", "shared", "dram", "macs"} - {{"mac": "macs"}.get(name, name) for name in silent}
    if verb == "fuse":
        assert set(json.loads(answer.read_text())["result"]["energies_pj"]) == stating
    else:
        known = {
            name for name, pj in (*found["energies"]["computes"].items(), ("macs", found["energies"]["macs"])) if pj
        }
        assert known == stating


def _silenced(line: str, silent: tuple[str, ...]) -> str:
    if line.startswith("array") and "mac" in silent:
        return line.replace(", mac_energy_pj: 1", "")
    is_silent = any(line.startswith((f"- {{name: {name}", f"{name}:")) for name in silent)
    return line.replace(ACCESS, "") if is_silent else line
