"""Timeloop's architectures, mapspaces and problems, written for this test in the format of ucb-bar/cosa."""

from __future__ import annotations

import random
import warnings
from dataclasses import dataclass
from itertools import product
from math import prod
from pathlib import Path

import pytest

from onchip.arch.accelerator import Accelerator
from onchip.arch.memory import Direction, Operand, Port
from onchip.errors import InputError, NetworkWarning, UsageError
from onchip.formats.foreign_files import load_any_accelerator, read_layers
from onchip.formats.own.accelerator_yaml import load_accelerator
from onchip.formats.timeloop.architecture import timeloop_architecture
from onchip.formats.timeloop.components import timeloop_bypass
from onchip.formats.timeloop.problem import ShapeFields, layer_of, timeloop_problem
from onchip.ir.layer import INPUT, OUTPUT, WEIGHT, Layer

NESTED = """\
architecture:
  version: 0.3
  subtree:
  - name: System
    local:
    - name: DRAM
      class: DRAM
      attributes: {instances: 1, word-bits: 8, block_size: 64}
    subtree:
    - name: Chip
      attributes: {technology: 40nm}
      local:
      - name: GlobalBuffer
        class: SRAM
        attributes: {entries: 65536, width: 64, depth: 1024, meshX: 1, instances: 1, word-bits: 8, n_banks: 1}
      subtree:
      - name: PE[0..15]
        local:
        - {name: InputBuffer, class: SRAM, attributes: {entries: 4096, width: 64, meshX: 16, word-bits: 8}}
        - {name: WeightBuffer, class: SRAM, attributes: {entries: 16384, width: 64, instances: 128, meshX: 16}}
        - {name: AccumulationBuffer, class: SRAM,
           attributes: {entries: 64, width: 24, instances: 128, meshX: 16, word-bits: 24}}
        - {name: Registers, class: regfile, attributes: {depth: 1, width: 8, instances: 1024, meshX: 16}}
        - {name: MACC, class: intmac, attributes: {instances: 1024, meshX: 16, datawidth: 8}}
"""
FLAT = """\
arch:
  arithmetic: {instances: 1024, meshX: 16, word-bits: 8}
  storage:
  - {name: Registers, entries: 1, instances: 1024, meshX: 16, word-bits: 8}
  - {name: AccumulationBuffer, entries: 64, instances: 128, meshX: 16, word-bits: 24}
  - {name: WeightBuffer, entries: 16384, instances: 128, meshX: 16, word-bits: 8, block-size: 8}
  - {name: InputBuffer, entries: 4096, instances: 16, meshX: 16, word-bits: 8, block-size: 8}
  - {name: GlobalBuffer, sizeKB: 64, instances: 1, word-bits: 8, block-size: 8}
  - {name: DRAM, technology: DRAM, instances: 1, word-bits: 8, block-size: 64, bandwidth: 20.0}
"""
MAPSPACE = """\
mapspace:
  constraints:
  - {target: Registers, type: datatype, keep: [Weights], bypass: [Inputs, Outputs]}
  - {target: AccumulationBuffer, type: datatype, keep: [Outputs], bypass: [Weights, Inputs]}
  - {target: WeightBuffer, type: datatype, keep: [Weights], bypass: [Inputs, Outputs]}
  - {target: InputBuffer, type: datatype, keep: [Inputs], bypass: [Weights, Outputs]}
  - {target: GlobalBuffer, type: datatype, keep: [Inputs, Outputs], bypass: [Weights]}
"""
PROBLEM = """\
problem:
  {shape: cnn-layer, C: 3, K: 64, N: 1, P: 112, Q: 56, R: 7, S: 3, Wstride: 2, Hstride: 1, Wdilation: 1, Hdilation: 4}
"""


def sizes(accelerator: Accelerator) -> list[tuple[int, tuple[Operand, ...], int, float]]:
    """Return for each memory: bytes, operands, MACs that share an instance, and pJ per 8 bits in two digits."""
    array = accelerator.array
    assert array is not None
    found = []
    for level in accelerator.levels:
        assert level.access is not None
        units = 1
        for name in array.sizes if level.serves is None else level.serves:
            units *= array.sizes[name]
        each = float(f"{level.access.read_energy_pj / level.access.access_bits * 8:.2g}")
        found.append((level.memory.capacity_bytes, level.memory.holds, units, each))
    return found


@pytest.mark.parametrize("text", [NESTED, FLAT])
def test_simba_in_either_form_is_the_preset_after_the_same_file(text: str) -> None:
    accelerator, preset = timeloop_architecture(text + MAPSPACE, "simba.yaml"), load_accelerator("simba-cosa")
    assert accelerator.array is not None
    assert preset.array is not None
    assert sizes(accelerator) == sizes(preset)
    assert list(accelerator.array.sizes.values()) == list(preset.array.sizes.values())
    assert accelerator.array.mac_energy_pj == preset.array.mac_energy_pj
    assert [level.ports for level in accelerator.levels[2:]] == [level.ports for level in preset.levels[2:]]
    assert [memory.name for memory in accelerator.scratchpads] == ["GlobalBuffer"]
    assert accelerator.name == "simba"


@pytest.mark.parametrize(
    ("attributes", "capacity_bytes", "access_bits"),
    [
        ("depth: 128, width: 8192", 128 * 1024, 8192),
        ("depth: 128, width: 8192, block-size: 32", 128 * 32, 256),
        ("depth: 128, width: 8192, cluster-size: 64", 128 * 16, 128),
        ("depth: 128, width: 8192, block-size: 32, cluster-size: 32", 128 * 32, 256),
        ("entries: 512, width: 8192, block-size: 32", 512, 256),
        ("sizeKB: 2, width: 256, block-size: 8", 2048, 64),
        ("data_storage_depth: 16, data_storage_width: 32", 64, 32),
    ],
)
def test_an_instance_holds_depth_times_block_size_words(attributes: str, capacity_bytes: int, access_bits: int) -> None:
    level = timeloop_architecture(NESTED.replace("entries: 4096, width: 64", attributes), "x.yaml").levels[3]
    assert level.memory.name == "InputBuffer"
    assert level.access is not None
    assert (level.memory.capacity_bytes, level.access.access_bits) == (capacity_bytes, access_bits)


def test_a_mapspace_file_says_what_each_memory_keeps_and_else_it_keeps_all() -> None:
    keeps = timeloop_bypass(MAPSPACE, "mapspace.yaml")
    assert timeloop_architecture(FLAT, "x.yaml", keeps) == timeloop_architecture(FLAT + MAPSPACE, "x.yaml")
    assert all(level.memory.holds == tuple(Operand) for level in timeloop_architecture(FLAT, "x.yaml").levels)


def test_a_memory_that_keeps_nothing_is_left_out_with_its_units_in_place() -> None:
    keeps = dict(timeloop_bypass(MAPSPACE, "mapspace.yaml")) | {"InputBuffer": ()}
    machine = timeloop_architecture(FLAT, "x.yaml", keeps)
    assert [level.memory.name for level in machine.levels] == [
        "Registers",
        "AccumulationBuffer",
        "WeightBuffer",
        "GlobalBuffer",
    ]
    assert machine.array is not None
    assert machine.array.macs == 1024


def test_energies_and_bandwidths_that_are_given_are_taken() -> None:
    given = "width: 64, n_rdwr_ports: 1, vector-access-energy: 3.5, multiple-buffering: 2"
    text = NESTED.replace("entries: 4096, width: 64", f"entries: 4096, {given}")
    text = text.replace("datawidth: 8", "energy-per-op: 1.25")
    text = text.replace("entries: 16384, width: 64", "entries: 16384, width: 64, read_bandwidth: 2, write_bandwidth: 1")
    machine = timeloop_architecture(text, "x.yaml")
    weights, inputs = machine.levels[2:4]
    assert inputs.access is not None
    assert (inputs.access.read_energy_pj, inputs.double_buffered) == (3.5, True)
    assert inputs.ports == (Port(Direction.READ_WRITE, 64),)
    assert weights.ports == (Port(Direction.READ, 16), Port(Direction.WRITE, 8))
    assert machine.array is not None
    assert machine.array.mac_energy_pj == 1.25


def test_a_problem_is_a_layer_with_p_and_r_along_w() -> None:
    layer = Layer(1, 64, 3, 112, 56, 7, 3, stride=(2, 1), dilation=(1, 4))
    assert timeloop_problem(PROBLEM, "p.yaml") == layer
    flat = PROBLEM.removeprefix("problem:\n").replace("shape: cnn-layer, ", "")
    assert timeloop_problem(flat, "p.yaml") == layer


@dataclass(frozen=True, slots=True)
class Refused:
    text: str
    old: str
    new: str
    message: str
    place: str


REFUSED = [
    Refused(NESTED, "class: DRAM", "class: SRAM", "from outside inwards it has DRAM", "line 1"),
    Refused(NESTED, "meshX: 16, word-bits: 24", "meshX: 24, word-bits: 24", "rows of 24", "line 22"),
    Refused(NESTED, "instances: 128, meshX: 16}", "instances: 100, meshX: 4}", "100 of it", "line 20"),
    Refused(NESTED, "entries: 4096, width: 64,", "width: 64,", "nothing says how large", "line 19"),
    Refused(NESTED, "entries: 4096", "entries: many", 'is "many"', "line 19"),
    Refused(NESTED, "entries: 4096", "entries: 2.5", "is 2.5", "line 19"),
    Refused(NESTED, "entries: 4096, width: 64", "depth: 9, width: 60", "is not 1 x 7 words", "line 19"),
    Refused(NESTED, "entries: 4096, width: 64", "depth: 9, width: 64, block_size: 3", "is not 2 x 3 words", "line 19"),
    Refused(
        NESTED, "entries: 4096, width: 64", "depth: 9, width: 64, block_size: 2, cluster_size: 2", "is not", "line 19"
    ),
    Refused(NESTED, "block_size: 64", "width: 512, block_size: 8", "a cluster of DRAMs", "line 8"),
    Refused(FLAT, "bandwidth: 20.0", "shared_bandwidth: 20, read_bandwidth: 4", "for both directions", "line 9"),
    Refused(NESTED, "PE[0..15]", "PE[3..0]", "make -2 of it", "line 19"),
    Refused(NESTED, "class: regfile", "clas: regfile", "the field is unknown", "line 23"),
    Refused(NESTED, "instances: 1, word-bits: 8, n_banks", "instances: 2, word-bits: 8, n_banks", "2 share", "line 15"),
    Refused(NESTED, "  version: 0.3\n  subtree:\n", "  version: 0.3\n  tree:\n", "the field is", "line"),
    Refused(FLAT, "arch:", "machine:", "the field is unknown", "line 1"),
    Refused(FLAT, "name: WeightBuffer, ", "", "a memory has no name", "line 6"),
    Refused(FLAT, "bandwidth: 20.0", "bandwidth: 0.01", "bits a cycle", "line 9"),
    Refused(FLAT, "bandwidth: 20.0", "bandwidth: -1", "is -1", "line 9"),
    Refused(FLAT, "name: InputBuffer", "name: WeightBuffer", "several have this name", "line 7"),
    Refused(FLAT + MAPSPACE, "keep: [Weights]", "keep: [Weight]", 'lists "Weight"', "line 12"),
    Refused(FLAT + MAPSPACE, "bypass: [Weights]}", "bypass: [Inputs]}", "is kept and bypassed", "line 16"),
    Refused(FLAT + MAPSPACE, "target: Registers", "target: Register", "there is no memory 'Register'", "mapspace"),
    Refused(FLAT + MAPSPACE, "type: datatype", "type: temporal", 'type "temporal"', "line 12"),
]


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case.message)
def test_what_is_no_architecture_is_refused_with_file_place_and_what_was_expected(case: Refused) -> None:
    text = case.text.replace(case.old, case.new, 1)
    assert text != case.text
    with pytest.raises(InputError) as caught:
        timeloop_architecture(text, "bad.yaml")
    error = caught.value
    assert error.file == "bad.yaml"
    assert case.message in error.what
    assert case.place in (error.place or "")
    assert error.expected


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("K: 64, ", "", "dimension K has no size"),
        ("K: 64", "K: 0", "K is 0"),
        ("K: 64", "K: lots", "K is 'lots'"),
        ("shape: cnn-layer", "shape: gemm", 'it is "gemm"'),
        ("Wstride", "stride", "the field is unknown"),
    ],
)
def test_what_is_no_problem_is_refused(old: str, new: str, message: str) -> None:
    text = PROBLEM.replace(old, new, 1)
    assert text != PROBLEM
    with pytest.raises(InputError) as caught:
        timeloop_problem(text, "bad.yaml")
    assert (caught.value.file, caught.value.what) == ("bad.yaml", message)
    assert "line" in (caught.value.place or "")


def test_files_are_told_apart_by_their_fields(tmp_path: Path) -> None:
    chip, mapspace, layer, other = (tmp_path / f"{name}.yaml" for name in ("chip", "mapspace", "layer", "other"))
    chip.write_text(FLAT)
    mapspace.write_text(MAPSPACE)
    layer.write_text(PROBLEM)
    other.write_text("answer: 42\n")
    assert load_any_accelerator(str(chip), str(mapspace)).levels[0].memory.holds == (Operand.WEIGHT,)
    assert load_any_accelerator("simba") == load_accelerator("simba")
    assert read_layers(layer) == {"layer": timeloop_problem(PROBLEM, "layer.yaml")}
    with pytest.raises(InputError, match="describes no layer"):
        read_layers(other)
    with pytest.raises(UsageError, match="no Timeloop file"):
        load_any_accelerator("simba", str(mapspace))


SHAPE = """\
problem:
  version: 0.4
  instance: {C: 3, M: 32, N: 2, P: 10, Q: 11, R: 3, S: 5, G: 4, Wstride: 2, Hdilation: 3, H: 99}
  shape:
    coefficients:
    - {name: Wstride, default: 1}
    - {name: Hstride, default: 1}
    - {name: Wdilation, default: 1}
    - {name: Hdilation, default: 1}
    data_spaces:
    - {name: Weights, projection: [[[C]], [[M]], [[R]], [[S]], [[G]]]}
    - name: Inputs
      projection:
      - [[N]]
      - [[C]]
      - [[R, Wdilation], [P, Wstride]]
      - [[S, Hdilation], [Q, Hstride]]
      - [[G]]
    - {name: Outputs, projection: [[[N]], [[M]], [[Q]], [[P]], [[G]]], read_write: true}
    dimensions: [C, M, R, S, N, P, Q, G]
"""


def read(text: str) -> Layer:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NetworkWarning)
        return timeloop_problem(text, "p.yaml")


def test_a_convolution_of_its_own_shape_is_a_layer() -> None:
    layer = Layer(2, 32, 3, 10, 11, 3, 5, 4, stride=(2, 1), dilation=(1, 3))
    assert read(SHAPE) == layer
    older = SHAPE.replace("data_spaces", "data-spaces").replace("read_write", "read-write")
    assert read(older) == layer


def test_names_of_an_instance_that_mean_nothing_are_said() -> None:
    with pytest.warns(NetworkWarning, match="p.yaml: H in its instance names no dimension or coefficient"):
        timeloop_problem(SHAPE, "p.yaml")
    with pytest.warns(NetworkWarning, match="its densities are not modelled: all tensors are dense"):
        timeloop_problem(SHAPE.replace("H: 99", "densities: {Weights: {density: 0.5}}"), "p.yaml")


@pytest.mark.parametrize(
    ("text", "layer"),
    [
        ("shape: gemm_ABZ, instance: {M: 8, N: 4, K: 2}", Layer(n=8, k=4, c=2)),
        ("instance: {N: 1, K: 2, C: 3, P: 4, Q: 5, R: 1, S: 1}", Layer(1, 2, 3, 4, 5)),
        (
            "instance: {K: 9, M: 1}, shape: {dimensions: [K, M], data_spaces: [{name: A, projection: [[[K]]]}, "
            "{name: B, projection: [[[K]]]}, {name: Z, projection: [[[M]]], read_write: True}]}",
            Layer(c=9),
        ),
        (
            "instance: {S: 3, Q: 9}, shape: {dimensions: [S, Q], data_spaces: [{name: Weights, projection: [[[S]]]}, "
            "{name: Inputs, projection: [[[S], [Q]]]}, {name: Outputs, projection: [[[Q]]], read_write: true}]}",
            Layer(q=9, s=3),
        ),
        (
            "instance: {w: 3, o: 9}, shape: {dimensions: [w, o], data_spaces: [{name: I, projection: [[[w], [o]]]}, "
            "{name: O, projection: [[[o]]], read_write: true}]}",
            Layer(p=9, r=3, has_weight=False),
        ),
    ],
)
def test_shapes_are_layers(text: str, layer: Layer) -> None:
    assert read(f"problem: {{{text}}}") == layer


def test_random_shapes_touch_as_many_elements_as_their_projections() -> None:
    """Count the elements of each tensor by running all dimensions of small einsums."""
    chance = random.Random(7)
    for _ in range(60):
        names = chance.sample("abcdef", chance.randint(1, 5))
        sizes = {name: chance.randint(1, 3) for name in names}
        kinds = {name: chance.choice(("N", "K", "C", "G")) for name in names}
        windows = [
            (f"o{at}", f"f{at}", chance.randint(1, 3), chance.randint(1, 2)) for at in range(chance.randint(0, 2))
        ]
        coefficients: dict[str, int] = {}
        spaces: dict[str, list[list[list[str]]]] = {
            "I": [[[name]] for name in names if kinds[name] != "K"],
            "W": [[[name]] for name in names if kinds[name] != "N"],
            "O": [[[name]] for name in names if kinds[name] != "C"],
        }
        for output, filters, stride, dilation in windows:
            sizes |= {output: chance.randint(1, 3), filters: chance.randint(1, 3)}
            coefficients |= {f"s{output}": stride, f"d{filters}": dilation}
            spaces["I"].append([[output, f"s{output}"], [filters, f"d{filters}"]])
            spaces["W"].append([[filters]])
            spaces["O"].append([[output]])
        shape: ShapeFields = {
            "dimensions": list(sizes),
            "data_spaces": [
                {"name": name, "projection": projection, "read_write": name == "O"}
                for name, projection in spaces.items()
            ],
            "coefficients": [{"name": name, "default": value} for name, value in coefficients.items()],
        }
        if len(spaces["W"]) == 0 and len(spaces["I"]) == 0:
            continue
        layer = layer_of(shape, sizes)
        assert layer.macs == prod(sizes.values())
        for name, operand in (("I", INPUT), ("W", WEIGHT), ("O", OUTPUT)):
            spans = [_span(rank, sizes, coefficients) for rank in spaces[name]]
            assert layer.elements(operand) == prod(spans)


def _span(rank: list[list[str]], sizes: dict[str, int], coefficients: dict[str, int]) -> int:
    """Count the positions from the first to the last that a rank takes, including the gaps of a stride."""
    steps = [coefficients[term[1]] if len(term) > 1 else 1 for term in rank]
    points = product(*(range(sizes[term[0]]) for term in rank))
    return 1 + max(sum(at * step for at, step in zip(point, steps, strict=True)) for point in points)


@pytest.mark.parametrize(
    ("old", "new", "message", "place"),
    [
        ("C: 3, ", "", "dimension C has no size", "line 3"),
        ("C: 3", "C: 0", "C is 0", "line 3"),
        ("C: 3", "C: many", "C is 'many'", "line 3"),
        (", read_write: true", "", "0 data spaces are written and 3 are read", "line 10"),
        ("[[M]], [[R]]", "[[M, Wstride]], [[R]]", "Weights is indexed by a sum", "line 11"),
        ("[[M]], [[R]]", "[[M]], [[M]], [[R]]", "Weights is indexed by M, twice", "line 11"),
        ("[[M]], [[R]]", "[[X]], [[R]]", "Weights is indexed by X, which is no dimension", "line 11"),
        ("[P, Wstride]", "[P, Wide]", "Wide is no coefficient", "line 13"),
        ("[[R, Wdilation], [P, Wstride]]", "[[R], [P], [C]]", "Inputs is indexed by C, twice", "line 13"),
        ("[[R, Wdilation], [P, Wstride]]", "[[P, Wdilation, Wstride]]", "a product has 3 factors", "line 13"),
        ("- [[N]]\n", "- [[N], [M]]\n", "a sum of N, M slides over nothing", "line 13"),
        ("[[M]], [[Q]]", "[[Q]]", "of its dimensions it adds up an axis of one operand alone", "line 10"),
        ("    dimensions:", "    flatten: []\n    dimensions:", "it flattens dimensions", "line 20"),
        ("    dimensions:", "    dimension:", "the field is", "line"),
    ],
)
def test_shapes_that_are_no_layer_are_refused(old: str, new: str, message: str, place: str) -> None:
    text = SHAPE.replace(old, new, 1)
    assert text != SHAPE
    with pytest.raises(InputError) as caught:
        read(text)
    assert message in caught.value.what
    assert place in (caught.value.place or "")


def test_a_template_includes_another_file_and_merges_it(tmp_path: Path) -> None:
    (tmp_path / "base.yaml").write_text(
        SHAPE.replace("problem:", "problem_base_ignore: &base", 1).replace("H: 99", "H: 1")
    )
    folder = tmp_path / "layers"
    folder.mkdir()
    path = folder / "0.yaml"
    path.write_text("{{include_text('../base.yaml')}}\nproblem:\n  <<<: *base\n  instance: {C: 7, Wstride: 1}\n")
    assert read_layers(path) == {"0": Layer(2, 32, 7, 10, 11, 3, 5, 4, dilation=(1, 3))}
    (folder / "part.yaml").write_text(SHAPE.replace("H: 99", "H: 1"))
    path.write_text(
        "{{add_to_path('.')}}\n{% if a|default(0) %}\n{% endif %}\nproblem: {{include('part.yaml', 'problem')}}\n"
    )
    assert read_layers(path)["0"] == read(SHAPE)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("problem: {{bits}}", "'bits' is undefined"),
        ("{{include_text('nothing.yaml')}}", "its template (version 0.4) includes 'nothing.yaml', which is not there"),
        ("{{include_text('bad.yaml')}}", "its includes do not end"),
        ("{% for i in range(9) %}a{% endfor %}", "uses For of Jinja"),
        ("{{ 9 ** 99999999 }}", "uses Pow of Jinja"),
        ("{{ ''.__class__ }}", "uses Getattr of Jinja"),
        ("{% if %}", "its template (version 0.4) is malformed"),
        ("problem: {{include('good.yaml', 'architecture')}}", "'good.yaml' has no 'architecture'"),
    ],
)
def test_templates_that_are_not_supported_are_refused_by_name(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "good.yaml").write_text(SHAPE)
    path = tmp_path / "bad.yaml"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        read_layers(path)
    assert message in caught.value.what
