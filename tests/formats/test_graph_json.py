"""Graph files: read, written, hashed, refused; stated costs; and the schemas of all files."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onchip.answer.problem import Count, Problem
from onchip.api.plan import plan_problem
from onchip.api.run import timeline_of
from onchip.arch.memory import Memory
from onchip.errors import GraphError, InputError
from onchip.formats import validation
from onchip.formats.own.accelerator_yaml import load_accelerator
from onchip.formats.own.graph_json import graph_from_json, graph_sha256, graph_to_json, read_graph, write_graph
from onchip.ir.graph import Graph
from onchip.ir.operator import AttributeValue, ChannelSplits, Operator, StatedCost
from onchip.ir.tensor import Role, Tensor
from onchip.ir.tile import SumPart, Tile
from onchip.transform.rewrite.activations import fuse
from support.programs import graph
from support.schemas import SCHEMA_FOLDER, schema_files
from support.strategies import graphs

EXAMPLE = Path(__file__).parents[2] / "examples" / "diamond.graph.json"
TEXT = st.text(st.characters(exclude_categories=["Cs"]))
FINITE: st.SearchStrategy[AttributeValue] = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63) + 1, 2**63 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    TEXT,
)
ATTRIBUTES = st.dictionaries(
    TEXT, st.recursive(FINITE, lambda inner: st.lists(inner, max_size=3), max_leaves=6), max_size=3
)


def changed(change: Callable[[Any], object]) -> str:
    """Return the example's text after `change` has modified its JSON."""
    document = json.loads(EXAMPLE.read_bytes())
    change(document)
    return json.dumps(document)


def test_the_example_is_rewritten_byte_for_byte() -> None:
    assert graph_to_json(read_graph(EXAMPLE)) == EXAMPLE.read_text(encoding="utf-8")


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(graphs(), ATTRIBUTES, st.lists(TEXT.filter(bool), max_size=2))
def test_a_round_trip_loses_nothing(graph: Graph, attributes: dict[str, Any], members: list[str]) -> None:
    first, *others = graph.operators
    described = replace(first, attributes=attributes, members=tuple(members))
    graph = replace(graph, operators=(described, *others))
    read = graph_from_json(graph_to_json(graph), "graph.json")
    assert read == graph
    types = [[type(value) for value in one.operators[0].attributes.values()] for one in (read, graph)]
    assert types[0] == types[1]


TILE = Tile("conv", ("x", "x"), ("w",), ("y",), ((4,), (4,), (2, 2), (4,)), (((1, 3),),), (0, 2), SumPart.START)


def with_operator(**fields: object) -> str:
    """Return a graph file of one operator, with these fields and the required ones."""
    tensor = {"name": "y", "bytes": 3, "role": "output"}
    operator = {"name": "conv#0", "kind": "Conv", "inputs": [], "outputs": ["y"], **fields}
    return json.dumps(
        {"format": "onchip-graph", "version": 1, "name": "g", "tensors": [tensor], "operators": [operator]}
    )


@pytest.mark.parametrize("tile", [TILE, replace(TILE, reduction=None, part=SumPart.WHOLE)])
def test_a_tile_survives_the_round_trip(tile: Tile) -> None:
    operator = Operator("conv#0", "Conv", (), ("y",), attributes={"group": 2}, tile=tile)
    graph = Graph("g", (Tensor("y", 3, Role.OUTPUT),), (operator,))
    assert graph_from_json(graph_to_json(graph), "g.json") == graph


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"tile": {"operator": "a"}}, "operators[0].tile.inputs: the field is missing"),
        ({"tile": {"operator": "a", "of": 1}}, "the field"),
        (
            {"tile": {"operator": "a", "inputs": [], "outputs": ["y"], "shapes": [[4]], "regions": [[[1, 5]]]}},
            "operators[0] (tile of 'a'): 'y' has the range [1, 5]",
        ),
    ],
)
def test_what_is_no_tile_is_refused(fields: dict[str, object], message: str) -> None:
    with pytest.raises(GraphError) as raised:
        graph_from_json(with_operator(**fields), "bad.json")
    assert message in str(raised.value)


def test_a_packed_file_is_read_and_is_the_same_bytes_each_time(tmp_path: Path) -> None:
    graph = read_graph(EXAMPLE)
    for name in ("a.json.gz", "b.json.gz"):
        write_graph(graph, tmp_path / name)
    assert read_graph(tmp_path / "a.json.gz") == graph
    assert (tmp_path / "a.json.gz").read_bytes() == (tmp_path / "b.json.gz").read_bytes()


def test_the_hash_is_of_the_canonical_json() -> None:
    graph = Graph("g", (Tensor("y", 3, Role.OUTPUT),), (Operator("make", "Make", (), ("y",)),))
    canonical = (
        '{"format":"onchip-graph","name":"g","operators":[{"inputs":[],"kind":"Make","name":"make","outputs":["y"]}],'
        '"tensors":[{"bytes":3,"name":"y","role":"output"}],"version":1}'
    )
    assert graph_sha256(graph) == sha256(canonical.encode()).hexdigest()


def test_the_hash_changes_with_every_field() -> None:
    graph = read_graph(EXAMPLE)
    others = [
        replace(graph, name="other"),
        replace(graph, tensors=(replace(graph.tensors[0], aliases=("alias",)), *graph.tensors[1:])),
        replace(graph, operators=(replace(graph.operators[0], kind="Gemm"), *graph.operators[1:])),
        graph.with_bits(16),
    ]
    assert len({graph_sha256(each) for each in (graph, *others)}) == 5


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda g: g.update(version=2), "version is 2, newer than this onchip reads"),
        (lambda g: g.pop("version"), "version: the field is missing"),
        (lambda g: g.pop("operators"), "operators: the field is missing"),
        (lambda g: g["tensors"][3].update(shape=4), "tensors[3].shape is 4"),
        (lambda g: g["tensors"][3].update(shape=[4, 0]), "tensors[3] (tensor 'left.weight'): its shape [4, 0] has"),
        (lambda g: g["tensors"][3].update(bits=0), "tensors[3] (tensor 'left.weight'): its elements have 0 bits"),
        (lambda g: g["tensors"][3].update(bits=10**40), "tensors[3].bits: the integer is too large"),
        (lambda g: g["tensors"][3].update(shape=[2**62] * 9), "tensors[3]: its size is too large"),
        (lambda g: g["tensors"][3].update(bytes=5), "tensors[3] has shape and bits and bytes"),
        (lambda g: g["tensors"][3].pop("bits"), "tensors[3] has shape"),
        (lambda g: g["tensors"][3].update(role="weight"), 'tensors[3].role is "weight"'),
        (lambda g: g["tensors"][3].update(region=[[0, 1, 2]], part_of="x"), "tensors[3].region[0] has 3 entries"),
        (lambda g: g["tensors"][3].update(part_of="x"), "tensors[3] (tensor 'left.weight'): part_of and region stand"),
        (
            lambda g: g["tensors"].append({"name": "z", "bytes": 0, "role": "input"}),
            "(tensor 'z'): its size is 0 bytes",
        ),
        (lambda g: g["tensors"].append(g["tensors"][0]), "tensor 'x': 2 tensors have this name"),
        (lambda g: g["operators"][0].update(outputs=[]), "operators[0] (operator 'left_wide') writes nothing"),
        (lambda g: g["operators"][0].update(inputs=["q"]), "operator 'left_wide': tensor 'q' is unknown"),
        (lambda g: g["operators"][0].update(attributes={"a": [{}]}), "operators[0].attributes.a[0] is an object"),
        (lambda g: g["operators"][0].update(attributes={"a": float("nan")}), "attributes.a is NaN"),
        (lambda g: g["operators"].reverse(), "stands before"),
    ],
)
def test_a_wrong_field_is_named(change: Callable[[Any], object], message: str) -> None:
    with pytest.raises(GraphError) as raised:
        graph_from_json(changed(change), "bad.json")
    assert str(raised.value).startswith("bad.json: ")
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b'{"format": "onchip-graph",\n "version": 1,\n "name": }', "line 3 column 10: malformed JSON"),
        (b"", "line 1 column 1: malformed JSON"),
        (b'{"name": "\xff"}', "position 10 is not UTF-8"),
        (
            b'{"format": "onchip-graph", "version": 1, "name": "\\ud800", "tensors": [], "operators": []}',
            "Invalid JSON",
        ),
        (b"[]", "the whole file is a list"),
        (b"7", "the whole file is 7"),
        (b'{"tensors": [{"name": "a", "name": "b"}]}', 'tensors[0]: the field "name" stands twice'),
        (b'{"tensors": [1, -Infinity]}', "tensors[1] is -Infinity"),
        (b'{"tensors": [1e999]}', "tensors[0]: the number is too large"),
        (b'{"tensors": [' + b"9" * 5000 + b"]}", "tensors[0]: the integer is too large"),
        (b"[" * 100_000, "is nested too deeply"),
        (b'{"a":' * 100_000, "is nested too deeply"),
    ],
)
def test_malformed_text_is_refused_in_one_line(text: bytes, message: str) -> None:
    with pytest.raises(GraphError) as raised:
        graph_from_json(text, "bad.json")
    assert str(raised.value).startswith("bad.json: ")
    assert message in str(raised.value)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "broken.json.gz").write_bytes(b"\x1f\x8b broken")
    for path in (tmp_path / "absent.json", tmp_path, tmp_path / "broken.json.gz"):
        with pytest.raises(InputError, match=r"cannot be read|does not exist") as raised:
            read_graph(path)
        assert str(raised.value).startswith(f"{path} ")


def stated(text: str, **costs: StatedCost) -> str:
    plain = graph("x:input:4 a:activation:4 y:output:4", f="x -> a", g="a -> y")
    operators = tuple(replace(one, stated=costs.get(one.name, one.stated)) for one in plain.operators)
    return graph_to_json(replace(plain, operators=operators, name=text))


def test_what_is_stated_is_read_as_it_is_written() -> None:
    cost = StatedCost(100, 2.5, ChannelSplits(cuts_inputs=True, ways=((2, 60), (4, 40))))
    read = graph_from_json(stated("network", f=cost, g=StatedCost(7)), "network.json")
    assert [one.stated for one in read.operators] == [cost, StatedCost(7)]


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"cycles": 0}, "takes 0 cycles"),
        ({"cycles": 1, "energy_pj": -1.0}, "takes -1.0 pJ"),
        ({"cycles": 1, "energy_pj": 1e300}, "1e.300 pJ"),
        ({"cycles": 2**62}, "takes 4611686018427387904 cycles"),
        (
            {"splits": {"axis": "channels", "inputs": "whole", "ways": [{"parts": 2, "cycles": 1}]}},
            "cycles of its parts",
        ),
        ({"cycles": 1, "splits": {"axis": "channels", "inputs": "whole", "ways": []}}, r"its parts are \[\]"),
        (
            {"cycles": 1, "splits": {"axis": "channels", "inputs": "whole", "ways": [{"parts": 1, "cycles": 1}]}},
            r"its parts are \[1\]",
        ),
        (
            {"cycles": 1, "splits": {"axis": "channels", "inputs": "whole", "ways": [{"parts": 2, "cycles": 0}]}},
            "a part takes 0 cycles",
        ),
    ],
)
def test_what_cannot_be_is_one_line(fields: dict[str, object], says: str) -> None:
    network = json.loads(stated("network"))
    network["operators"][1] |= fields
    with pytest.raises(GraphError, match=says) as caught:
        graph_from_json(json.dumps(network), "network.json")
    assert caught.value.place == "operators[1]"


def test_operators_take_the_cycles_that_are_stated() -> None:
    network = graph_from_json(stated("network", f=StatedCost(100), g=StatedCost(50)), "network.json")
    problem = Problem(network, (Memory("buffer", 64),), count=Count.ALL)
    plan = plan_problem(problem).answer
    assert plan is not None
    timeline = timeline_of(problem, plan, load_accelerator("soma-edge"))
    computed = [one.cycles for one in timeline.activities if one.queue is None]
    assert computed == [100, 50]
    assert timeline.total_cycles == 1 + 150 + 1


def test_a_tile_takes_its_share_rounded_up() -> None:
    assert StatedCost(100, 3.0, ChannelSplits(cuts_inputs=False, ways=((2, 60),))).share(1, 3) == StatedCost(34, 1.0)


def test_what_states_its_cost_is_not_fused() -> None:
    plain = graph("x:input:4 a:activation:4 y:output:4", f="x -> a", g="a -> y")
    relu = replace(plain, operators=(plain.operators[0], replace(plain.operators[1], kind="Relu")))
    assert len(fuse(relu).operators) == 1
    timed = tuple(replace(one, stated=StatedCost(5)) for one in relu.operators)
    assert len(fuse(replace(relu, operators=timed)).operators) == 2


def test_the_networks_of_soma_are_read() -> None:
    """The test reads one operator in the form of those files."""
    fields = {
        "format": "onchip-graph",
        "version": 1,
        "name": "soma",
        "tensors": [
            {"name": "x", "bytes": 150528, "role": "input"},
            {"name": "w", "shape": [64, 147], "bits": 8, "role": "parameter"},
            {"name": "y", "shape": [64, 112, 112], "bits": 8, "role": "output"},
        ],
        "operators": [
            {
                "name": "conv1",
                "kind": "conv",
                "inputs": ["x"],
                "parameters": ["w"],
                "outputs": ["y"],
                "cycles": 76832,
                "energy_pj": 39416159.896,
                "splits": {"axis": "channels", "inputs": "whole", "ways": [{"parts": 2, "cycles": 38416}]},
            }
        ],
    }
    operator = graph_from_json(json.dumps(fields), "soma.json").operators[0]
    assert operator.stated.splits is not None
    assert operator.stated.splits.cycles_of(2) == 38416
    assert operator.stated.splits.cycles_of(3) is None


def graph_with(attribute: str) -> str:
    return (
        '{"format": "onchip-graph", "version": 1, "name": "g", "tensors": ['
        '{"name": "a", "bytes": 1, "role": "input"}, {"name": "b", "bytes": 1, "role": "output"}], "operators": ['
        '{"name": "o", "kind": "Relu", "inputs": ["a"], "outputs": ["b"], "attributes": {"x": ' + attribute + "}}]}"
    )


def test_too_many_values_are_refused_before_any_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    text = graph_with("[" + "1," * validation.GREATEST_VALUES + "1]")
    monkeypatch.setattr(json, "loads", None)

    with pytest.raises(GraphError, match=str(validation.GREATEST_VALUES)):
        graph_from_json(text, "g.json")


@pytest.mark.parametrize(
    "number",
    ["9223372036854775808", "-9223372036854775808", "1e999", "-1E999", "1.5E+400", "9" * 400 + ".5", "9" * 9999],
)
def test_a_number_that_is_too_large_is_refused(number: str) -> None:
    with pytest.raises(GraphError, match=r"attributes\.x\[1\]: the (integer|number) is too large"):
        graph_from_json(graph_with(f"[1, {number}]"), "g.json")


def test_an_object_deep_in_a_list_is_refused_with_its_place() -> None:
    with pytest.raises(GraphError, match=r"attributes\.x\[2\]\[1\] is an object"):
        graph_from_json(graph_with("[1, 2, [3, {}]]"), "g.json")


def test_a_wrong_entry_of_a_long_list_is_refused_before_python_makes_an_object(monkeypatch: pytest.MonkeyPatch) -> None:
    text = (
        '{"format": "onchip-graph", "version": 1, "name": "g", "tensors": [' + "{}," * 9_999 + '{}], "operators": []}'
    )
    monkeypatch.setattr(json, "loads", None)

    with pytest.raises(GraphError, match=r"tensors\[0\]\.name: the field is missing"):
        graph_from_json(text, "g.json")


Json: TypeAlias = Any


def objects_of(schema: Json) -> Iterator[dict[str, Json]]:
    """Yield every part of a schema that describes an object with fields."""
    if isinstance(schema, dict):
        if schema.get("type") == "object":
            yield schema
        for part in schema.values():
            yield from objects_of(part)
    elif isinstance(schema, list):
        for part in schema:
            yield from objects_of(part)


def test_the_schema_files_are_up_to_date() -> None:
    """Regenerate them with PYTHONPATH=src:tests python -m support.schemas."""
    written = {path.name: path.read_text(encoding="utf-8") for path in SCHEMA_FOLDER.glob("*.json")}
    assert written == schema_files()


@pytest.mark.parametrize("name", ["graph", "plan", "accelerator", "mapping", "strategy", "schedule", "study"])
def test_no_object_allows_unknown_fields(name: str) -> None:
    schema = json.loads((SCHEMA_FOLDER / f"onchip-{name}.schema.json").read_bytes())
    objects = list(objects_of(schema))
    assert len(objects) >= 3
    for part in objects:
        assert part["additionalProperties"] is False or "properties" not in part
    assert schema["additionalProperties"] is False
    assert schema["properties"]["format"]["const"] == f"onchip-{name}"
    assert schema["properties"]["version"]["const"] == 1


@pytest.mark.parametrize("name", ["plan", "schedule"])
def test_an_instruction_is_one_of_four(name: str) -> None:
    schema = json.loads((SCHEMA_FOLDER / f"onchip-{name}.schema.json").read_bytes())
    instruction = schema["$defs"]["InstructionFields"]
    assert set(instruction["properties"]) == {"allocate", "copy", "compute", "free"}
    assert (instruction["minProperties"], instruction["maxProperties"]) == (1, 1)
