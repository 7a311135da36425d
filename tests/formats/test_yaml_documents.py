"""YAML as JSON values, compared with PyYAML's loaders; and studies, which are such documents."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from onchip.errors import InputError
from onchip.formats import yaml_documents
from onchip.formats.validation import Format, field_path
from onchip.formats.yaml_documents import Dialect, YamlDocument, parse_yaml
from onchip.sweeps.point import Number
from onchip.sweeps.study import Study, read_study

FORMAT = Format("some", 1, InputError)
SHARED = Dialect(shared_nodes=True)

TEXTS = st.text("abcXY_é日 :#-'\"{}[],&*!\\\n", max_size=8) | st.sampled_from(
    ["yes", "N", "null", "1e3", "~", "<<", ""]
)
SCALARS = TEXTS | st.integers(-(2**63) + 1, 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
VALUES: st.SearchStrategy[Any] = st.recursive(
    SCALARS | st.booleans() | st.none(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("abcNY é-", min_size=1), inner, max_size=4),
    max_leaves=20,
)


def read(text: str | bytes, dialect: Dialect = Dialect()) -> YamlDocument:  # noqa: B008 - frozen
    return parse_yaml(text, FORMAT, "file", dialect)


def value(text: str, dialect: Dialect = Dialect()) -> Any:  # noqa: ANN401, B008 - JSON, frozen
    return read(text, dialect).value


def lines_of(node: yaml.Node, path: tuple[int | str, ...] = ()) -> dict[tuple[int | str, ...], int]:
    """Map each part of a node to its line, by PyYAML's marks."""
    found: dict[tuple[int | str, ...], int] = {}
    parts: list[tuple[int | str, yaml.Node, yaml.Node]] = []
    if isinstance(node, yaml.SequenceNode):
        parts = [(at, entry, entry) for at, entry in enumerate(node.value)]
    elif isinstance(node, yaml.MappingNode):
        parts = [(key.value, key, entry) for key, entry in node.value]
    for name, start, entry in parts:
        found[(*path, name)] = start.start_mark.line + 1
        found |= lines_of(entry, (*path, name))
    return found


@given(VALUES, st.booleans(), st.integers(2, 6), st.integers(20, 100))
def test_dumped_values_are_read_with_the_lines_of_all_parts(dumped: Any, flow: bool, indent: int, width: int) -> None:  # noqa: ANN401
    text = yaml.dump(dumped, Dumper=Quoting, default_flow_style=flow, indent=indent, width=width, sort_keys=False)
    document = read(text)
    assert repr(document.value) == repr(dumped)
    for path, line in lines_of(yaml.compose(text)).items():
        assert document.place(field_path(path)) == f"line {line}: {field_path(path)}"


class Quoting(yaml.SafeDumper):  # type: ignore[misc]
    """A dumper that quotes every text, since YAML 1.1 and 1.2 disagree on plain ones."""


Quoting.add_representer(str, lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", text, style='"'))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        *[(text, text) for text in ("yes", "no", "on", "off", "Y", "N", "n", "a b", "<a", "-a", "--", "1:20", "45nm")],
        *[
            (text, text)
            for text in ("2001-01-01", "2001-01-01 10:20:30", "12:30:45", "1.2.3", "0x", "1e", ".", "._", "=")
        ],
        *[(text, True) for text in ("true", "True", "TRUE", "!!bool true")],
        *[(text, None) for text in ("~", "null", "!!null null")],
        *[
            ("32_000", 32000),
            ("+7", 7),
            ("-0", 0),
            ("017", 17),
            ("-3_2", -32),
            ('!!int "7"', 7),
            (str(2**63 - 1), 2**63 - 1),
        ],
        *[
            ("1e-3", 0.001),
            ("1E3", 1000.0),
            ("1.", 1.0),
            (".5", 0.5),
            ("-.5e1", -5.0),
            ("1_0.5", 10.5),
            ("1.5e+3", 1500.0),
        ],
        *[('"7"', "7"), ("'true'", "true"), ("!!str 7", "7"), ('"\\u00e9"', "é"), ("|\n  7\n", "7\n"), ("a # b", "a")],
    ],
)
def test_a_scalar_means_text_unless_it_is_a_decimal_number_or_a_constant(text: str, expected: object) -> None:
    found = value(f"a: {text}\n")
    assert repr(found) == repr({"a": expected})


DEEP = "a: " + "[" * 97 + "&a [[1]]" + "]" * 97
CHAIN = "".join(f"a{at}: &a{at} [*a{at - 1}]\n" for at in range(1, 200))
LAUGHS = "a0: &a0 {x: [1]}\n" + "".join(f"a{at}: &a{at} [{', '.join([f'*a{at - 1}'] * 10)}]\n" for at in range(1, 30))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "line 1 is empty"),
        ("# nothing\n", "line 1 is empty"),
        ("%YAML 1.1\n---\na: yes\n", "line 1: the whole file is YAML 1.1"),
        ("a: 1\n---\nb: 2\n", "line 2: the whole file: another document begins"),
        ("a: &x [1]\nb: *x\n", "line 2: b is an alias of another value"),
        ("a: 1\nb: {c: 2,\n  c: 3}\n", "line 3: b.c: the field stands twice, first in line 2"),
        ("a: 1\nb: !!set {c}\n", 'line 2: b is tagged "tag:yaml.org,2002:set"'),
        ("a: !include b.yaml\n", 'line 1: a is tagged "!include"'),
        ("a:\n  <<: {b: 1}\n", "line 2: a: `<<` merges another mapping"),
        ("a: 1\n[b]: 2\n", "line 2: the whole file: the field name is a list"),
        (f"{'a' * 1001}: 2\n", "line 1: the whole file: a field name is too long"),
        (f"{'a' * 999}: 0x1", f'line 1: {"a" * 297}... is "0x1"'),
        ("a: [1\nb: 2\n", "line 2: malformed YAML: did not find expected ',' or ']'"),
        ("a:\n\tb: 1\n", "line 2: malformed YAML: found character that cannot start any token"),
        ("a: 1\nb: \x07\n", "line 2: malformed YAML: control characters are not allowed"),
        (f"a:\n {'[' * 2000}", f"line 2: a{'[0]' * 99} is nested too deeply"),
        *[(f"a:\n- {text}", f'line 2: a[0] is "{text}"') for text in ("0x10", "0o7", "0b1", "0_7")],
        *[(f"a: {text}", f'line 1: a is "{text}"') for text in (".nan", "-.inf", "1e400")],
        ("a: 9223372036854775808", "line 1: a: the integer is too large"),
    ],
)
def test_what_json_lacks_is_refused_with_its_line(text: str, said: str) -> None:
    with pytest.raises(InputError) as raised:
        read(text)
    assert str(raised.value).startswith(f"file: {said}")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: &a [*a]\n", 'line 1: a[0]: the alias "*a" stands inside the value that it repeats'),
        ("a: *b\nb: &b 1\n", 'line 1: a: the alias "*b" stands before the value that it repeats'),
        ("a: {<<: [{}, 3]}\n", "line 1: a: `<<` merges what is no mapping"),
        (LAUGHS, "is too large"),
        (LAUGHS.replace("[*", "{<<<: [*").replace("]\n", "]}\n"), "is too large"),
        (f"a0: &a0 1\n{CHAIN}", "line 101: a100[0] is nested too deeply"),
        (DEEP + "\nb: [*a]\nc: [" + "[" * 97 + "*a" + "]" * 98, "line 3: c[0]"),
        (f"a: &a {{{','.join(f'k{at}' for at in range(2000))}}}\nb: {{<<: [{'*a,' * 400}]}}", "line 2: b"),
    ],
)
def test_shared_nodes_count_as_if_they_were_written_out(text: str, said: str) -> None:
    with pytest.raises(InputError) as raised:
        read(text, SHARED)
    assert said in str(raised.value)


def test_merges_add_the_fields_that_a_mapping_leaves_out_the_first_base_first() -> None:
    bases = "x: &x {a: {b: 1, c: 2}, d: 3}\ny: &y {d: 4, e: [5]}\n"
    document = read(f"{bases}z:\n  <<: [*x, *y]\n  a: {{c: 6}}\n", SHARED)
    assert document.value["z"] == {"a": {"c": 6}, "d": 3, "e": [5]}
    assert [document.place(f"z.{name}")[:6] for name in "ade"] == ["line 5", "line 3", "line 3"]
    deep = value(f"{bases}z: &z\n  <<<: [*x, *y]\n  a: {{c: 6}}\n  e: [7]\nw: *z\n", SHARED)
    assert deep["z"] == deep["w"] == {"a": {"c": 6, "b": 1}, "e": [7, 5], "d": 3}
    assert deep["x"] == {"a": {"b": 1, "c": 2}, "d": 3}


def test_tags_name_the_kind_of_a_mapping_and_are_not_merged() -> None:
    text = "- !One &a {x: 1}\n- !Two {<<: *a}\n- {<<: *a}\n- !Three\n- !Four text\n- !Five [2]\n- '!Six'\n"
    assert value(text, SHARED) == [
        *({"x": 1, "!": "One"}, {"x": 1, "!": "Two"}, {"x": 1}, {"!": "Three"}, "text", [2], "!Six")
    ]


@pytest.mark.parametrize("text", ["\ufeffa: é\n".encode(), b"a: \xc3\xa9\r\n", b"%YAML 1.2\n---\na: \xc3\xa9\n...\n"])
def test_encodings_and_markers_change_nothing(text: bytes) -> None:
    assert read(text).value == {"a": "é"}


@pytest.mark.parametrize("text", [b"a: \xff\n", "a: b\n".encode("utf-16")])
def test_what_is_not_utf_8_is_refused(text: bytes) -> None:
    with pytest.raises(InputError, match=r"file: position [03] is not UTF-8"):
        read(text)


def test_without_libyaml_the_parser_of_pyyaml_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yaml, "__with_libyaml__", False)
    monkeypatch.delattr(yaml, "CSafeLoader", raising=False)
    assert value("a: !K {b: &x [1, 'c']}\nd: *x\n", SHARED) == {"a": {"!": "K", "b": [1, "c"]}, "d": [1, "c"]}
    for text, said in (("a: [1\nb: 2\n", "line 2: malformed"), ("a: \x07", "line 1: malformed"), ("[" * 999, "deeply")):
        with pytest.raises(InputError, match=said):
            read(text)


def test_reading_stops_at_the_greatest_number_of_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yaml_documents, "GREATEST_VALUES", 1000)
    with pytest.raises(InputError, match=r"line 2: a\[998\] is too large"):
        read("a:\n [" + "1," * 100_000 + "\x07")


WHOLE = """\
format: onchip-study
version: 1
name: arrays
verb: schedule
networks: [lenet5, resnet18]
accelerators: [simba]
parameters:
  K: {path: array.dimensions.K, values: [8, 16, 32]}
  C: {path: array.dimensions.C, range: 4..16, doubling: true}
  memories.global_buffer.capacity: 64KiB..256KiB
  memories.a.capacity: {range: 1KiB..3KiB, steps: 3}
objectives: [energy, edp]
options: {bits: [8, 16], time_limit: 10}
constraints: ["K * C <= 128", "memories.a.capacity < 3KiB"]
costs:
  area: 0.5 * K * C
  price: {by: accelerator, table: {simba: 3.5}}
limits: {memory: 2GiB, seconds: 60}
"""


def study_of(tmp_path: Path, text: str) -> Study:
    path = tmp_path / "study.yaml"
    path.write_text(text)
    return read_study(path)


def test_a_study_says_what_its_file_says(tmp_path: Path) -> None:
    study = study_of(tmp_path, WHOLE)
    combinations = list(study.combinations())

    assert study.name == "arrays"
    assert [len(parameter.values) for parameter in study.parameters] == [3, 3, 20, 3]
    assert [parameter.is_capacity for parameter in study.parameters] == [False, False, True, True]
    assert (study.limits.memory_bytes, study.limits.seconds) == (2**31, 60)
    assert len(combinations) == 2 * 2 * 2 * 20 * 2 * 6
    arrays = {(one.parameters["K"], one.parameters["C"]) for one in combinations}
    assert arrays == {(8, 4), (8, 8), (8, 16), (16, 4), (16, 8), (32, 4)}
    assert {one.options["bits"] for one in combinations} == {8, 16}
    costs: dict[str, Number] = {"area": 16.0, "price": 3.5}
    assert combinations[0].costs == costs


@pytest.mark.parametrize(
    ("before", "after", "place"),
    [
        ("version: 1", "version: 2", "line 2: version"),
        ("verb: schedule", "verb: dance", "line 4: verb"),
        ("[lenet5, resnet18]", "[lenet5, 3]", "line 5: networks[1]"),
        ("[lenet5, resnet18]", "[]", "line 5: networks"),
        ("accelerators: [simba]", "accelerator: [simba]", "line 6: accelerator"),
        ("values: [8, 16, 32]", "values: []", "line 8: parameters.K"),
        ("values: [8, 16, 32]", "values: [8, 64KiB]", "line 8: parameters.K"),
        ("values: [8, 16, 32]", "value: 8", "line 8: parameters.K.value"),
        ("range: 4..16", "range: 16..4", "line 9: parameters.C"),
        ("range: 4..16, doubling: true", "range: 4", "line 9: parameters.C"),
        ("64KiB..256KiB", "64KiB..many", "line 10: parameters.memories.global_buffer.capacity"),
        ("  K: {path: array.dimensions.K,", "  K: {", "line 8: parameters.K"),
        ("steps: 3", "steps: three", "line 11: parameters.memories.a.capacity.steps"),
        ("objectives: [energy, edp]", "objectives: [energy, beauty]", "line 12: objectives[1]"),
        ("bits: [8, 16]", "bits: [8, 99]", "line 13: options"),
        ("time_limit: 10", "time: 10", "line 13: options"),
        ("K * C <= 128", "K * L <= 128", "line 14: constraints[0]"),
        ("K * C <= 128", "K * C <=", "line 14: constraints[0]"),
        ("0.5 * K * C", "0.5 * K * Q", "line 16: costs.area"),
        ("by: accelerator", "by: colour", "line 17: costs.price"),
        ("memory: 2GiB", "memory: 2Gi", "line 18: limits.memory"),
        ("seconds: 60", "seconds: -1", "line 18: limits.seconds"),
        ("  K: {", "  status: {", "line 7: parameters"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(tmp_path: Path, before: str, after: str, place: str) -> None:
    assert WHOLE.count(before) == 1
    with pytest.raises(InputError) as refused:
        study_of(tmp_path, WHOLE.replace(before, after))
    assert str(refused.value).startswith(f"{tmp_path / 'study.yaml'}: {place}: ") or place in str(refused.value)
    assert "\n" not in str(refused.value)
