"""Timeloop's architecture files of version 0.4, written for this test."""

from __future__ import annotations

import re
import warnings
from pathlib import Path

import pytest

from onchip.arch.accelerator import Accelerator
from onchip.arch.memory import Direction, Operand, Port
from onchip.errors import InputError, NetworkWarning
from onchip.formats.foreign_files import load_any_accelerator, read_layers
from onchip.formats.own.accelerator_yaml import accelerator_from_yaml, accelerator_sha256, accelerator_to_yaml
from onchip.formats.timeloop.architecture import timeloop_architecture
from onchip.formats.timeloop.components import Keeps, evaluated
from onchip.ir.layer import Layer

MACHINE = """\
variables: {version: 0.4, WIDE: 8, DEEP: WIDE * 128}
architecture:
  version: 0.4
  nodes:
  - !Container
    name: chip
    attributes: {datawidth: WIDE, technology: "45nm"}
  - !Component
    name: main
    class: DRAM
    attributes: {width: 64, type: "LPDDR4"}
  - !Component
    name: shared
    class: storage
    subclass: smartbuffer_SRAM
    attributes: {depth: DEEP, width: 64, read_bandwidth: 16, write_bandwidth: 4}
    constraints: {dataspace: {keep: [Inputs, Outputs], bypass: [Weights]}}
  - !Container
    name: column
    spatial: {meshX: 4}
  - !Container
    name: row
    spatial: {meshY: 3}
  - !Parallel
    nodes:
    - !Component
      name: weights
      class: regfile
      attributes: {depth: 16, width: "max(WIDE, 16)", cluster_size: 2}
      constraints: {dataspace: {keep: [Weights]}}
    - !Hierarchical
      nodes:
      - !Component
        name: sums
        class: regfile
        attributes: {depth: 16, width: 16, datawidth: 16}
        constraints: {dataspace: {keep: [Outputs]}}
    - !Nothing {constraints: {dataspace: {keep: [Inputs]}}}
  - !Component
    name: lane
    class: regfile
    spatial: {meshX: 2}
    attributes: {depth: 2, width: 8}
    constraints: {dataspace: {keep_only: [Inputs]}}
  - !Component
    name: mac
    class: intmac
    attributes: {multiplier_width: 8}
"""


def read(text: str, file: str = "chip.yaml") -> tuple[Accelerator, list[str]]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", NetworkWarning)
        return timeloop_architecture(text, file), [str(one.message) for one in caught]


def test_nodes_are_memories_with_the_instances_around_them() -> None:
    machine, remarks = read(MACHINE)
    assert remarks == []
    assert machine.array is not None
    assert machine.array.sizes == {"lane units": 2, "sums x": 4, "sums y": 3} or machine.array.macs == 24
    held = {level.memory.name: (level.memory.capacity_bytes, level.memory.holds) for level in machine.levels}
    assert held == {
        "lane": (2, (Operand.INPUT,)),
        "sums": (32, (Operand.OUTPUT,)),
        "weights": (16, (Operand.WEIGHT,)),
        "shared": (8192, (Operand.INPUT, Operand.OUTPUT)),
    }
    units = {level.memory.name: [machine.array.sizes[name] for name in level.serves or ()] for level in machine.levels}
    assert units == {"lane": [], "sums": [2], "weights": [2], "shared": [2, 4, 3]}
    assert machine.levels[-1].ports == (Port(Direction.READ, 128), Port(Direction.WRITE, 32))
    assert [memory.name for memory in machine.scratchpads] == ["shared"]


COLUMN = "spatial: {meshX: 4}\n"
ALONE = "the mapping may break it, and status and bound are valid for mappings without it"
DENSE = "energies, cycles and capacities are those of dense execution"


@pytest.mark.parametrize(
    ("text", "note"),
    [
        (
            MACHINE.replace(COLUMN, f"{COLUMN}    constraints: {{spatial: {{factors: [N=1]}}}}\n"),
            f"Not applied: spatial constraint of column (Timeloop 0.4): {ALONE}",
        ),
        (
            MACHINE.replace(COLUMN, f"{COLUMN}    constraints: {{temporal: {{permutation: [P]}}, max_fanout: 4}}\n"),
            "Not applied: temporal constraint of column, max_fanout constraint of column (Timeloop 0.4): "
            "the mapping may break them, and status and bound are valid for mappings without them",
        ),
        (
            MACHINE + "constraints: {targets: [{target: shared, type: temporal, factors: [P=1]}]}\n",
            f"Not applied: temporal constraint of shared (Timeloop 0.4): {ALONE}",
        ),
        (
            MACHINE.replace(COLUMN, f"{COLUMN}    sparse_optimizations: {{action_optimization: []}}\n"),
            f"Not modelled: sparse optimisations of column (Timeloop 0.4): {DENSE}",
        ),
        (
            MACHINE + "sparse_optimizations: {targets: [{name: shared}]}\n",
            f"Not modelled: sparse optimisations of the file (Timeloop 0.4): {DENSE}",
        ),
    ],
)
@pytest.mark.parametrize("keeps", [None, {}])
def test_features_that_change_mappings_or_costs_are_left_out_with_a_note(
    text: str, note: str, keeps: Keeps | None
) -> None:
    assert text != MACHINE
    with pytest.warns(NetworkWarning, match=re.escape(note)):
        machine = timeloop_architecture(text, "chip.yaml", keeps)
    plain = timeloop_architecture(MACHINE, "chip.yaml", keeps)
    assert (machine.notes, plain.notes) == ((note,), ())
    assert (machine, repr(machine)) == (plain, repr(plain))
    assert accelerator_sha256(machine) == accelerator_sha256(plain)
    assert accelerator_from_yaml(accelerator_to_yaml(machine), "chip.yaml").notes == machine.notes


def test_an_error_behind_a_constraint_that_is_not_applied_has_its_own_place() -> None:
    first = "{target: shared, type: temporal, factors: [P=1]}"
    with pytest.raises(InputError, match=re.escape("constraints[1].keep")):
        read(MACHINE + f"constraints: [{first}, {{target: shared, type: dataspace, keep: [Sums]}}]\n")


def test_a_machine_of_one_memory_is_fed_by_a_free_dram() -> None:
    text = """\
architecture:
  version: 0.4
  nodes:
  - !Component {name: buffer, class: SRAM, attributes: {depth: 12, width: 17, datawidth: 17}}
  - !Component {name: mac, class: intmac}
"""
    machine, remarks = read(text)
    assert [(level.memory.name, level.memory.capacity_bytes) for level in machine.levels] == [("buffer", 25)]
    assert machine.addressed == machine.levels  # one MAC is an array, which its buffer serves in full
    assert machine.dram is not None
    assert machine.dram.access is not None
    assert machine.dram.access.read_energy_pj == 0
    assert remarks == [
        "chip.yaml: buffer is read as 25 whole bytes, 4 bits less than it has",
        "chip.yaml: buffer is the only memory: what it holds comes from a DRAM that costs nothing",
    ]


@pytest.mark.parametrize(
    ("old", "new", "message", "place"),
    [
        ("!Parallel", "!Pipelined", "a !Pipelined branch (version 0.4)", "line 24: architecture.nodes[5]"),
        ("!Nothing", "!Buffer", "a node is a !Buffer (version 0.4)", "line 38: architecture.nodes[5].nodes[2]"),
        ("keep_only: [Inputs]", "keep_only: [Input]", 'lists "Input"', "line 44"),
        ("keep_only: [Inputs]", "no_coalesce: [Inputs]", "the field is unknown", "line 44"),
        ("meshY: 3", "meshY: TALL", 'meshY is "TALL"', "line 23"),
        ("meshY: 3", "meshY: 0", "meshY is 0", "line 23"),
        ("depth: DEEP", "depth: HIGH", '"HIGH" (version 0.4: a name has to be in `variables`', "line 16"),
        ("name: lane\n", "nom: lane\n", "the field is unknown", "line 40"),
        (
            "  nodes:\n  - !Container\n    name: chip",
            "  subtree: []\n  nodes:\n  - !Container\n    name: chip",
            "",
            "line",
        ),
        ("class: intmac", "class: regfile", "from outside inwards it has", "the whole file"),
        ("variables:", "variable:", "the field is unknown", "line 1: variable"),
        ("cluster_size: 2", "cluster_size: 3", "is not 3 x 0 words", "line 29"),
    ],
)
def test_a_bad_node_is_refused_with_its_place(old: str, new: str, message: str, place: str) -> None:
    text = MACHINE.replace(old, new, 1)
    assert text != MACHINE
    with pytest.raises(InputError) as caught:
        timeloop_architecture(text, "bad.yaml")
    assert message in caught.value.what
    assert place in (caught.value.place or "")
    assert caught.value.file == "bad.yaml"


def test_all_parts_may_stand_in_one_file(tmp_path: Path) -> None:
    path = tmp_path / "all.yaml"
    path.write_text(
        MACHINE
        + "problem: {shape: cnn_layer, instance: {N: 1, K: 2, C: 3, P: 4, Q: 5, R: 3, S: 1, Hstride: 2}}\n"
        + "mapper: {version: 0.4}\nmapspace_constraints: [{target: shared, type: datatype, bypass: [Outputs]}]\n"
    )
    assert load_any_accelerator(str(path)).levels[-1].memory.holds == (Operand.INPUT, Operand.WEIGHT)
    assert load_any_accelerator(str(path), str(path)) == load_any_accelerator(str(path))
    assert read_layers(path) == {"all": Layer(1, 2, 3, 4, 5, 3, 1, stride=(1, 2))}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2 * WIDE + 1", 17),
        ("max(WIDE, 16)", 16),
        ("-(7 // 2)", -3),
        ("45nm", "45nm"),
        ("WIDE.real", "WIDE.real"),
        ("9 ** 9", "9 ** 9"),
        ("1 / 0", "1 / 0"),
        ("unknown + 1", "unknown + 1"),
        ("max(key=len)", "max(key=len)"),
        ("__import__('os')", "__import__('os')"),
        ("(" * 150 + "1" + ")" * 150, "(" * 150 + "1" + ")" * 150),
    ],
)
def test_expressions_are_arithmetic_and_nothing_else(text: str, value: object) -> None:
    assert evaluated(text, {"WIDE": 8}) == value


def test_several_memories_may_share_the_outermost_one() -> None:
    text = MACHINE.replace("name: shared\n", "name: shared\n    spatial: {meshX: 5}\n")
    machine, _ = read(text)
    assert machine.array is not None
    assert machine.array.macs == 5 * 24
    assert machine.array.sizes["shared units"] == 5
    assert all("shared units" not in (level.serves or ()) for level in machine.levels)


def test_the_outermost_memory_is_dram_whatever_its_class() -> None:
    machine, remarks = read(
        MACHINE.replace("class: DRAM", "class: SRAM").replace("{width: 64, type", "{depth: 64, width: 64, type")
    )
    assert remarks == ["chip.yaml: main, the outermost memory, is read as a DRAM that holds everything"]
    assert machine.dram is not None
    assert machine.dram.access is not None
    assert machine.dram.access.access_bits == 64
    assert [level.memory.name for level in machine.levels] == ["lane", "sums", "weights", "shared"]
