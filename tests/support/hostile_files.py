"""Files by name that are made to exhaust their reader; each is small, or sparse on the disk."""

from __future__ import annotations

import gzip
import json
import os
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import onnx
from onnx.helper import make_function, make_graph, make_model, make_node, make_opsetid, make_tensor_value_info

Maker: TypeAlias = Callable[[Path], None]

GRAPH_HEAD = '{"format": "onchip-graph", "version": 1, "name": "n", "tensors": '
HUGE = 100 * 2**30


def unfolding(path: Path) -> None:
    """Write 100 GB of spaces, in gzip members that repeat one of 1 GB."""
    member = b"".join(_member(b" " * 2**20, 2**10))
    with path.open("wb") as file:
        for _ in range(HUGE // 2**30):
            file.write(member)


def _member(block: bytes, times: int) -> list[bytes]:
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    return [*(packer.compress(block) for _ in range(times)), packer.flush()]


def sparse(path: Path) -> None:
    """Write 100 GB of zeros that take no space on the disk."""
    path.touch()
    os.truncate(path, HUGE)


def cut_gzip(path: Path) -> None:
    path.write_bytes(gzip.compress(b" " * 10_000)[:-9])


def folder(path: Path) -> None:
    path.mkdir()


def device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def nothing(path: Path) -> None:
    path.touch()


def no_text(path: Path) -> None:
    path.write_bytes(b'{"format": "onchip-graph\xff\xfe", "version": 1}')


def deep_json(path: Path) -> None:
    path.write_text("[" * 10**6 + "]" * 10**6)


def deep_objects(path: Path) -> None:
    path.write_text('{"a":' * 10**6 + "1" + "}" * 10**6)


def deep_attribute(path: Path) -> None:
    """Write an attribute nested as deeply as Python's parser permits, where any value may be."""
    deep = "[" * 900 + "]" * 900
    operator = '{"name": "o", "kind": "Conv", "inputs": ["x"], "outputs": ["y"], "attributes": {"a": %s}}'
    tensors = '[{"name": "x", "bytes": 1, "role": "input"}, {"name": "y", "bytes": 1, "role": "output"}]'
    path.write_text(f'{GRAPH_HEAD}{tensors}, "operators": [{operator % deep}]}}')


def many_lists(path: Path) -> None:
    path.write_text(f"{GRAPH_HEAD}[{','.join(['[]'] * 10**7)}]" + ', "operators": []}')


def one_tensor(**fields: object) -> Maker:
    def write(path: Path) -> None:
        tensor = {"name": "x", "role": "input", **fields}
        path.write_text(f'{GRAPH_HEAD}[{json.dumps(tensor)}], "operators": []}}')

    return write


def number(text: str) -> Maker:
    def write(path: Path) -> None:
        path.write_text(GRAPH_HEAD + '[{"name": "x", "role": "input", "bytes": ' + text + '}], "operators": []}')

    return write


def csv_row(row: str) -> Maker:
    def write(path: Path) -> None:
        path.write_text(f"id,lower,upper,size\n{row}\n")

    return write


def long_field(path: Path) -> None:
    path.write_text("id,lower,upper,size\n" + "a" * 10**7 + ",0,1,1\n")


def many_columns(path: Path) -> None:
    path.write_text(",".join(["id"] * 10**6) + "\n")


def many_fields(path: Path) -> None:
    path.write_text("id,lower,upper,size\n" + "," * 10**7 + "\n")


def open_quote(path: Path) -> None:
    path.write_text('id,lower,upper,size\n"' + "a,0,1,1\n" * 10**6)


def _model(nodes: list[onnx.NodeProto], dims: list[int], functions: list[onnx.FunctionProto]) -> onnx.ModelProto:
    value = onnx.TensorProto.FLOAT
    graph = make_graph(
        nodes, "g", [make_tensor_value_info("x", value, dims)], [make_tensor_value_info("y", value, None)]
    )
    opsets = [make_opsetid("", 20), make_opsetid("own", 1)]
    return make_model(graph, opset_imports=opsets, functions=functions, ir_version=9)


def doubling_functions(path: Path) -> None:
    """Write 30 functions; each calls the next twice."""
    opsets = [make_opsetid("", 20), make_opsetid("own", 1)]
    functions = []
    for level in range(30):
        kind, domain = ("Relu", "") if level == 29 else (f"f{level + 1}", "own")
        nodes = [make_node(kind, ["a"], ["m"], domain=domain), make_node(kind, ["m"], ["b"], domain=domain)]
        functions.append(make_function("own", f"f{level}", ["a"], ["b"], nodes, opsets))
    onnx.save(_model([make_node("f0", ["x"], ["y"], domain="own")], [1], functions), path)


def endless_functions(path: Path) -> None:
    """Write two functions that call each other."""
    opsets = [make_opsetid("", 20), make_opsetid("own", 1)]
    functions = [
        make_function("own", name, ["a"], ["b"], [make_node(other, ["a"], ["b"], domain="own")], opsets)
        for name, other in (("f0", "f1"), ("f1", "f0"))
    ]
    onnx.save(_model([make_node("f0", ["x"], ["y"], domain="own")], [1], functions), path)


def huge_input(path: Path) -> None:
    onnx.save(_model([make_node("Relu", ["x"], ["y"])], [2**62, 2**62], []), path)


def huge_constant(path: Path) -> None:
    """Write a constant of 2**62 elements that a reshape reads."""
    shape = onnx.helper.make_tensor("s", onnx.TensorProto.INT64, [1], [2**62])
    nodes = [
        make_node("Constant", [], ["s"], value=shape),
        make_node("ConstantOfShape", ["s"], ["big"]),
        make_node("Cast", ["big"], ["shape"], to=onnx.TensorProto.INT64),
        make_node("Reshape", ["x", "shape"], ["y"]),
    ]
    onnx.save(_model(nodes, [1], []), path)


def large_range(path: Path) -> None:
    """Write numbers from 0 to 2**40, whose length is known only by computing them."""
    ends = {"zero": 0, "end": 2**40, "one": 1}
    nodes = [
        make_node("Constant", [], [name], value=onnx.helper.make_tensor(name, onnx.TensorProto.INT64, [], [at]))
        for name, at in ends.items()
    ]
    nodes += [make_node("Add", ["end", "zero"], ["far"]), make_node("Range", ["zero", "far", "one"], ["shape"])]
    nodes += [make_node("Reshape", ["x", "shape"], ["y"])]
    onnx.save(_model(nodes, [1], []), path)


def large_tile(path: Path) -> None:
    """Write a constant of 2**36 elements that is known only by computing it."""
    small = onnx.helper.make_tensor("v", onnx.TensorProto.INT64, [1], [2**36])
    nodes = [
        make_node("Constant", [], ["v"], value=small),
        make_node("Abs", ["v"], ["times"]),
        make_node("Tile", ["v", "times"], ["tiled"]),
        make_node("Abs", ["tiled"], ["shape"]),
        make_node("Reshape", ["x", "shape"], ["y"]),
    ]
    onnx.save(_model(nodes, [1], []), path)


def _loop(body: list[onnx.NodeProto], limit: str, operand: str, result: str) -> onnx.NodeProto:
    """Return a Loop whose body takes `s` to `t`; `limit` is its trip count, none if empty."""
    inputs = [
        make_tensor_value_info(name, kind, [])
        for name, kind in (("i", onnx.TensorProto.INT64), ("go", onnx.TensorProto.BOOL))
    ]
    state = [make_tensor_value_info(name, onnx.TensorProto.FLOAT, None) for name in ("s", "t")]
    graph = make_graph(body, "body", [*inputs, state[0]], [inputs[1], state[1]])
    return make_node("Loop", [limit, "", operand], [result], body=graph)


def _number(name: str, number: int) -> onnx.NodeProto:
    return make_node("Constant", [], [name], value=onnx.helper.make_tensor(name, onnx.TensorProto.INT64, [], [number]))


def loops_in_loops(path: Path) -> None:
    """Write a loop of a thousand iterations in a loop in a loop."""
    node = make_node("Relu", ["s"], ["t"])
    for _ in range(2):
        node = _loop([node], "n", "s", "t")
    onnx.save(_model([_number("n", 1000), _loop([node], "n", "x", "y")], [1], []), path)


def open_loops_in_loops(path: Path) -> None:
    """Write the same loops with an open dimension, for which sizes are tried."""
    loops_in_loops(path)
    model = onnx.load(path)
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "n"
    onnx.save(model, path)


def choices_in_choices(path: Path) -> None:
    """Write Ifs of an unknown condition, nested 12 deep in both branches."""
    graph = make_graph([make_node("Relu", ["x"], ["r"])], "leaf", [], [make_tensor_value_info("r", 1, None)])
    for _ in range(12):
        node = make_node("If", ["c"], ["r"], then_branch=graph, else_branch=graph)
        graph = make_graph([node], "both", [], [make_tensor_value_info("r", 1, None)])
    compared = [
        make_node("ReduceMax", ["x"], ["m"], keepdims=0),
        make_node("Cast", ["m"], ["c"], to=onnx.TensorProto.BOOL),
    ]
    transposed = make_graph([make_node("Size", ["x"], ["r"])], "other", [], [make_tensor_value_info("r", 7, None)])
    last = make_node("If", ["c"], ["y"], then_branch=graph, else_branch=transposed)
    onnx.save(_model([*compared, last], [4], []), path)


def long_constant_chain(path: Path) -> None:
    """Write a shape at the end of 15,000 products of constants."""
    nodes = [make_node("Constant", [], ["a0"], value=onnx.helper.make_tensor("v", onnx.TensorProto.INT64, [1], [1]))]
    nodes += [make_node("Mul", [f"a{index}", "a0"], [f"a{index + 1}"]) for index in range(15_000)]
    onnx.save(_model([*nodes, make_node("Reshape", ["x", "a15000"], ["y"])], [1], []), path)


def deep_onnx(path: Path) -> None:
    """Write graphs nested in node attributes a thousand deep, encoded by hand, since protobuf refuses them."""
    inner = b""
    for _ in range(1000):  # graph -> node (1) -> attribute (5) -> graph (6)
        for field in (6, 5, 1):
            inner = _field(field, inner)
    path.write_bytes(bytes([8, 9]) + _field(8, bytes([16, 20])) + _field(7, inner))


def sparse_onnx(path: Path) -> None:
    """Write a weight of 100 GB in a field that no graph has."""
    with path.open("wb") as file:
        file.write(bytes([8, 9]) + _field(8, bytes([16, 20])) + bytes([15 << 3 | 2]) + _length(HUGE))
    os.truncate(path, path.stat().st_size + HUGE)


def many_onnx_fields(path: Path) -> None:
    """Write 100 million fields of two bytes that no model has."""
    path.write_bytes(bytes([8, 9]) + _field(8, bytes([16, 20])) + bytes([15 << 3, 1]) * 10**8)


def _field(number: int, content: bytes) -> bytes:
    return bytes([number << 3 | 2]) + _length(len(content)) + content


def _length(value: int) -> bytes:
    encoded = bytearray()
    while value > 127:
        encoded.append(value & 127 | 128)
        value >>= 7
    return bytes((*encoded, value))


ANY: dict[str, Maker] = {
    "sparse": sparse, "folder": folder, "device": device, "nothing": nothing, "no_text": no_text,
}  # fmt: skip
PACKED: dict[str, Maker] = {"unfolding": unfolding, "cut_gzip": cut_gzip}
JSON: dict[str, Maker] = {
    "deep_json": deep_json, "deep_objects": deep_objects, "deep_attribute": deep_attribute, "many_lists": many_lists,
    "near_2_63": one_tensor(bytes=2**63 - 1), "above_2_63": one_tensor(bytes=2**63),
    "huge_shape": one_tensor(shape=[2**62] * 60, bits=2**62), "many_dimensions": one_tensor(shape=[2] * 10**5, bits=8),
    "1e400": number("1e400"), "NaN": number("NaN"), "Infinity": number("-Infinity"),
    "long_number": number("9" * 10**6), "long_real": number("0." + "9" * 10**6),
}  # fmt: skip
CSV: dict[str, Maker] = {
    "csv_2_63": csv_row(f"a,0,1,{2**63}"), "csv_long": csv_row("a,0,1," + "9" * 10**5), "csv_nan": csv_row("a,0,1,nan"),
    "csv_1e400": csv_row("a,0,1e400,1"), "long_field": long_field, "many_columns": many_columns,
    "many_fields": many_fields, "open_quote": open_quote,
}  # fmt: skip
ONNX: dict[str, Maker] = {
    "doubling_functions": doubling_functions, "endless_functions": endless_functions, "huge_input": huge_input,
    "huge_constant": huge_constant, "large_range": large_range, "large_tile": large_tile, "deep_onnx": deep_onnx,
    "sparse_onnx": sparse_onnx, "many_onnx_fields": many_onnx_fields,
    "loops_in_loops": loops_in_loops, "open_loops_in_loops": open_loops_in_loops,
    "choices_in_choices": choices_in_choices, "long_constant_chain": long_constant_chain,
}  # fmt: skip


YAML_HEAD = "format: onchip-accelerator\nversion: 1\nname: chip\n"
MAPPING_HEAD = "format: onchip-mapping\nversion: 1\naccelerator: {name: simba}\nlayers:\n"
LAYER = "{names: [a], layer: {loops: {K: 2}}, nest: [K2]}"


def laughs(path: Path) -> None:
    """Write aliases of lists of aliases: 10**30 values."""
    lines = ["l0: &l0 [lol, lol, lol, lol, lol, lol, lol, lol, lol, lol]"]
    lines += [f"l{at}: &l{at} [{', '.join([f'*l{at - 1}'] * 10)}]" for at in range(1, 30)]
    path.write_text(YAML_HEAD + "\n".join(lines) + "\nmemories: *l29\n")


def merged_laughs(path: Path) -> None:
    """Write the same with merged mappings."""
    lines = ["l0: &l0 {a: lol}"]
    lines += [f"l{at}: &l{at} {{<<: [{', '.join([f'*l{at - 1}'] * 10)}]}}" for at in range(1, 30)]
    path.write_text(YAML_HEAD + "\n".join(lines) + "\n<<: *l29\n")


def layer_laughs(path: Path) -> None:
    """Write aliases in a file that begins like a ZigZag layer."""
    lines = ["- operator_type: Conv", "  l0: &l0 [lol, lol]"]
    lines += [f"  l{at}: &l{at} [*l{at - 1}, *l{at - 1}]" for at in range(1, 60)]
    path.write_text("\n".join(lines))


def deep_yaml(path: Path) -> None:
    path.write_text(YAML_HEAD + "memories: " + "[" * 10**6)


def deep_mappings(path: Path) -> None:
    path.write_text(YAML_HEAD + "\n".join(f"{' ' * at}a:" for at in range(5000)))


def long_yaml(path: Path) -> None:
    path.write_text(YAML_HEAD + "memories:\n" + "- {name: m, capacity: 1KiB}\n" * 10**6)


def huge_name(path: Path) -> None:
    path.write_text(f"{YAML_HEAD}? {'a' * 10**8}\n: 1\n")


def huge_text(path: Path) -> None:
    path.write_text(f"- operator_type: {'😀' * 2**24}\n")


def many_twice(path: Path) -> None:
    """Write repeated fields, where the last one counts, in a file that begins like a ZigZag layer."""
    path.write_text("- operator_type: Conv\n" + "  id: 1\n" * 10**7)


def long_lists(path: Path) -> None:
    path.write_text(f"- operator_type: Conv\n  loop_sizes: [{'1,' * 10**7}]\n")


def deep_long_names(path: Path) -> None:
    """Write a million values, each with a path of 50,000 characters."""
    path.write_text("".join(f"{' ' * at}{'a' * 500}:\n" for at in range(99)) + f"{' ' * 99}[{'x,' * 10**6}]")


def mapping_laughs(path: Path) -> None:
    """Write the same aliases in the layers of a mapping file, which are read one by one."""
    lines = ["l0: &l0 [lol, lol, lol, lol, lol, lol, lol, lol, lol, lol]"]
    lines += [f"l{at}: &l{at} [{', '.join([f'*l{at - 1}'] * 10)}]" for at in range(1, 30)]
    path.write_text(f"{MAPPING_HEAD}- names: [a]\n  " + "\n  ".join(lines) + "\n")


def long_mappings(path: Path) -> None:
    path.write_text(MAPPING_HEAD + "- {names: [a]}\n" * 10**6)


def long_mapping(path: Path) -> None:
    path.write_text(f"{MAPPING_HEAD}- names: [{'a,' * 10**7}]\n")


def long_beside_mappings(path: Path) -> None:
    path.write_text(f"{MAPPING_HEAD}- {LAYER}\nnetworks: [{'a,' * 10**7}]\n")


def deep_mapping(path: Path) -> None:
    path.write_text(MAPPING_HEAD + "- " + "[" * 10**6)


def layers_twice(path: Path) -> None:
    path.write_text(MAPPING_HEAD + f"- {LAYER}\n" + "layers: []\n" * 10**6)


def yaml_number(text: str) -> Maker:
    def write(path: Path) -> None:
        path.write_text(f"{YAML_HEAD}memories:\n- {{name: m, capacity: {text}, scratchpad: true}}\n")

    return write


YAML: dict[str, Maker] = {
    "mapping_laughs": mapping_laughs, "deep_mapping": deep_mapping, "layers_twice": layers_twice,
    "laughs": laughs, "merged_laughs": merged_laughs, "layer_laughs": layer_laughs,
    "deep_yaml": deep_yaml, "deep_mappings": deep_mappings,
    "yaml_nan": yaml_number(".nan"), "yaml_inf": yaml_number("-.inf"),
    "yaml_1e400": yaml_number("1.0e+400"), "yaml_long": yaml_number("9" * 10**6), "yaml_2_63": yaml_number(str(2**63)),
    "yaml_base_60": yaml_number("1:" * 10**5 + "1"), "yaml_binary": yaml_number("0b" + "1" * 10**6),
}  # fmt: skip
LONG_YAML: dict[str, Maker] = {
    "long_mappings": long_mappings, "long_mapping": long_mapping, "long_beside_mappings": long_beside_mappings,
    "huge_name": huge_name, "huge_text": huge_text, "many_twice": many_twice, "long_lists": long_lists,
    "deep_long_names": deep_long_names, "long_yaml": long_yaml,
}  # fmt: skip
"""Files that take seconds to read before the one reader of all YAML refuses them."""
