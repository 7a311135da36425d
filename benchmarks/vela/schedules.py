"""Schedules by onchip in the SRAM of Vela's cascades: off-chip bytes, side by side.

    PYTHONPATH=benchmarks python -m vela.schedules VELA MODEL... [--accelerator ethos-u55-128] [--json RESULTS.json]

VELA is the program (`pip install ethos-u-vela`), MODEL a .tflite file. Each is compiled with `--optimise Size`, and
scheduled (`--objective traffic`, groups free and greedy, the better of both) in an SRAM of Vela's peak.
Vela's bytes are its reads of compressed weights, and its reads and writes of feature maps that do not stay. Ours are
those of the network's inputs and outputs, of uncompressed weights, and of feature maps. Ends with 1 if a schedule takes
more SRAM.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeAlias

from shared.results import write_results
from vela.allocations import compiled, planned

from onchip.api.networks import read_network
from onchip.ir.tensor import Role

Untyped: TypeAlias = Any
"""A JSON value."""
TIME_LIMIT_SECONDS = 40
ACCELERATOR = """
format: onchip-accelerator
version: 1
name: ethos-like
array: {{free: 128, mac_energy_pj: 0}}
memories:
  - {{name: sram, capacity: {sram}, scratchpad: true, alignment: 16, access_bits: 64,
     read_energy_pj: 0, write_energy_pj: 0, ports: [{{direction: read_write, bits_per_cycle: 64}}]}}
dram: {{access_bits: 8, read_energy_pj: 1, write_energy_pj: 1,
       ports: [{{direction: read_write, bits_per_cycle: 8}}]}}
"""


@dataclass(frozen=True, slots=True)
class CascadeRow:
    """One model: Vela's SRAM and off-chip bytes, and those of our schedule in the same SRAM."""

    model: str
    whole_bytes: int
    sram_bytes: int
    vela_off_chip_bytes: int
    ours_sram_bytes: int
    ours_off_chip_bytes: int
    lower_bound_bytes: int
    parameter_bytes: int
    ends_bytes: int
    fused_stacks: int


def row(vela: Path, accelerator: str, model: Path, folder: Path) -> CascadeRow:
    """Compile and schedule one model; raises CalledProcessError where either does not."""
    whole_bytes, parameter_bytes = planned(model)
    check, summary = compiled(vela, accelerator, "Size", model, folder)
    sram = next(one["arena_bytes"] for one in check.recomputed if str(one["names"]).startswith("Sram"))
    assert isinstance(sram, int)
    graph = read_network(str(model))
    ends = sum(one.size_bytes for role in (Role.INPUT, Role.OUTPUT) for one in graph.with_role(role))
    found = [scheduled(model, sram, stacks, folder) for stacks in ("optimal", "greedy")]
    best = min(found, key=lambda one: one["objective_value"])
    return CascadeRow(
        model.stem,
        whole_bytes,
        sram,
        sum(int(float(summary[kind])) for kind in ("dram_total_bytes", "off_chip_flash_total_bytes")),
        best["arena_bytes"]["sram"],
        best["objective_value"],
        max(one["lower_bound"] for one in found),
        parameter_bytes,
        ends,
        sum(len(one["operators"]) > 1 for one in best["stacks"]),
    )


def scheduled(model: Path, sram_bytes: int, stacks: str, folder: Path) -> Untyped:
    """Return the answer of `onchip schedule --json` for the model in that SRAM."""
    accelerator = folder / "accelerator.yaml"
    accelerator.write_text(ACCELERATOR.format(sram=sram_bytes))
    options = ("--objective", "traffic", "--groups", stacks, "--time-limit", str(TIME_LIMIT_SECONDS))
    command = (sys.executable, "-m", "onchip", "schedule", str(model), "--accelerator", str(accelerator), *options)
    return json.loads(subprocess.run((*command, "--json"), capture_output=True, text=True, check=True).stdout)


def main() -> None:
    """Print a row for each model, and why there is none."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("vela", type=Path)
    parser.add_argument("models", type=Path, nargs="+")
    parser.add_argument("--accelerator", default="ethos-u55-128")
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    rows: list[CascadeRow] = []
    print("| model | whole | SRAM | off chip, Vela | off chip, ours | bound | parameters | ends | stacks |")
    print("|---|---|---|---|---|---|---|---|---|")
    for model in asked.models:
        with tempfile.TemporaryDirectory() as folder:
            try:
                one = row(asked.vela, asked.accelerator, model, Path(folder))
            except subprocess.CalledProcessError as error:
                print(f"{model.stem}: {error.stdout}{error.stderr}"[:200], flush=True)
                continue
        rows.append(one)
        print(
            f"| {one.model} | {one.whole_bytes:,} | {one.sram_bytes:,} | {one.vela_off_chip_bytes:,} "
            f"| {one.ours_off_chip_bytes:,} | {one.lower_bound_bytes:,} | {one.parameter_bytes:,} | {one.ends_bytes:,} "
            f"| {one.fused_stacks} |",
            flush=True,
        )
    if asked.json is not None:
        write_results(asked.json, [asdict(one) for one in rows])
    sys.exit(0 if rows and all(one.ours_sram_bytes <= one.sram_bytes for one in rows) else 1)


if __name__ == "__main__":
    main()
