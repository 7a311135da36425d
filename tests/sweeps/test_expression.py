"""Expressions, values, fronts, versions of methods and the library."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import onchip
from onchip.errors import InputError, InternalError, UsageError
from onchip.formats.own.accelerator_yaml import load_accelerator
from onchip.sweeps.point import (
    Expression,
    Scalar,
    SweepPoint,
    SweptVerb,
    Value,
    doubling,
    number_of,
    range_of_text,
    stepped,
)
from onchip.sweeps.processes import answer_point
from onchip.sweeps.store import NOT_HASHED, method_version, sources_of, version_of
from onchip.sweeps.study import machine_of
from onchip.sweeps.sweep import front_of, names_of_front
from support.diamond import Program, diamond_fields
from support.small_schedules import LAYER_BY_LAYER, chip, three

# Expressions of studies: arithmetic with sizes, and no other Python


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("K * C", 512),
        ("K * C <= 1024", True),
        ("K ** 2 // 3 - 1", 340),
        ("64KiB + 1B", 65537),
        ("sram == 1.5MiB", True),
        ("memories.sram.capacity / 2", 50.0),
        ("name == '64KiB'", True),
        ("not (K == 32 and C == 16)", False),
        ("K > 100 or C == 16", True),
        ("0 < C < K", True),
        ("max(K, C, 40) + ceil(2.5) + log2(8)", 46),
        ("-K + +C", -16),
        ("nothing < 3", False),
        ("nothing >= 3", False),
        ("nothing == None", True),
        ("nothing + 1", None),
    ],
)
def test_an_expression_has_its_value(text: str, value: Value) -> None:
    values: dict[str, Value] = {"K": 32, "C": 16, "sram": 1572864, "memories.sram.capacity": 100}
    assert Expression(text).value({**values, "name": "64KiB", "nothing": None}) == value


def test_an_expression_knows_its_names() -> None:
    assert Expression("K * memories.a.capacity + min(C, 4KiB)").names == {"K", "C", "memories.a.capacity"}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "K *",
        "__import__('os')",
        "K.__class__()",
        "[K]",
        "lambda: K",
        "K if C else 1",
        "open('x')",
        "K @ C",
        "K << 40",
        "f'{K}'",
        "(K := 3)",
        "K in C",
        "b'x'",
        "1j",
        "max()",
        "max(*K)",
        "-" * 80 + "1",
        "1" * 1001,
    ],
)
def test_what_is_no_arithmetic_is_refused(text: str) -> None:
    with pytest.raises(InputError):
        Expression(text)


@pytest.mark.parametrize(
    "text",
    ["1 / K", "K ** -1", "(C ** 64) ** 64", "9 ** 65", "(0 - C) ** 0.5", "name + 1", "log2(K)", "1e308 * 10 * C"],
)
def test_what_has_no_value_is_refused(text: str) -> None:
    with pytest.raises(InputError):
        Expression(text).value({"K": 0, "C": 16, "name": "x"})


def test_a_name_that_stands_for_nothing_is_refused() -> None:
    with pytest.raises(InputError, match="names 'L'"):
        Expression("K * L").ensure_names_are(frozenset({"K"}))


# Values of parameters: sizes and numbers, ranges in steps and doubling


@pytest.mark.parametrize(
    ("value", "number"), [("64KiB", 65536), ("12", 12), ("0.5", 0.5), (7, 7), ("1.5MB", 1500000), (2.5, 2.5)]
)
def test_a_value_is_a_number(value: Scalar, number: float) -> None:
    assert number_of(value) == number


@pytest.mark.parametrize("value", ["", "x", "64KiX", "-", ".", True, "1e400"])
def test_what_is_no_number_is_refused(value: Scalar) -> None:
    with pytest.raises(InputError):
        number_of(value)


def test_a_range_has_two_ends() -> None:
    assert range_of_text("256KiB..8MiB") == ("256KiB", "8MiB")
    assert [range_of_text(text) for text in ("256KiB", "..8MiB", "1..", "")] == [None] * 4


def test_steps_are_evenly_apart() -> None:
    assert stepped("1KiB", "2KiB", 5) == (1024, 1280, 1536, 1792, 2048)
    assert stepped(1, 3, 20) == (1, 2, 3)
    assert stepped(5, 5, 1) == (5,)
    assert stepped(0.0, 1.0, 3) == (0.0, 0.5, 1.0)


def test_doubling_ends_within_the_range() -> None:
    assert doubling("256KiB", "1.5MiB") == (262144, 524288, 1048576)
    assert doubling(3, 3) == (3,)


@pytest.mark.parametrize(
    ("first", "last", "steps"), [(2, 1, 5), ("2MiB", "1MiB", 5), (1, 2, 1), (1, 2, 0), (1, 2, 10**6)]
)
def test_an_empty_range_is_refused(first: Scalar, last: Scalar, steps: int) -> None:
    with pytest.raises(InputError):
        stepped(first, last, steps)


def test_doubling_begins_above_0() -> None:
    with pytest.raises(InputError):
        doubling(0, 4)


@given(st.integers(0, 10**9), st.integers(0, 10**9), st.integers(2, 200))
def test_steps_ascend_from_end_to_end(low: int, width: int, steps: int) -> None:
    values = stepped(low, low + width, steps)

    assert (values[0], values[-1]) == (low, low + width)
    assert list(values) == sorted(set(values))
    assert len(values) <= steps


# Pareto fronts: the points shown are those of all-pairs comparison


PAIRS = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=20)


def pairs_of_front(pairs: list[tuple[int, int]]) -> set[tuple[int, int]]:
    return {
        one for one in pairs if not any(other != one and other[0] <= one[0] and other[1] <= one[1] for other in pairs)
    }


@given(PAIRS)
def test_the_front_is_what_no_other_is_at_most_as_much_as(pairs: list[tuple[int, int]]) -> None:
    records: list[dict[str, Value]] = [{"network": "n", "area": area, "value": value} for area, value in pairs]

    found = front_of(pairs, records, ("area", "value"))

    assert set(found) == pairs_of_front(pairs)
    assert len(set(found)) == len(found)


def test_each_network_has_its_own_front() -> None:
    records: list[dict[str, Value]] = [
        {"network": "a", "area": 1, "value": 1},
        {"network": "b", "area": 2, "value": 2},
        {"network": "a", "area": 2, "value": 2},
        {"network": "a", "area": 0, "value": None},
    ]
    assert front_of("abcd", records, ("area", "value")) == ("a", "b")


def test_a_front_has_two_columns() -> None:
    assert names_of_front("area, value") == ("area", "value")
    with pytest.raises(UsageError):
        names_of_front("area")


# `onchip.sweep`, `capacity` and `diff`: the results of the verbs, as typed rows and tables


@pytest.fixture
def diamond(tmp_path: Path) -> Path:
    path = tmp_path / "diamond.json"
    path.write_text(json.dumps({**diamond_fields(), "name": "<b>diamond</b>"}))
    return path


@pytest.mark.slow
def test_rows_are_those_of_the_command(onchip: Program, diamond: Path, tmp_path: Path) -> None:
    import onchip as library

    costs = {"area": "sram / 10"}
    rows = library.sweep([diamond], store=tmp_path / "here.db", sram=["130B", 160, 200], costs=costs)

    assert [row.answer.objective_value for row in rows] == [100, 0, 0]
    assert [row.costs["area"] for row in rows[1:]] == [16, 20]
    printed = onchip("sweep", diamond, "--sram", "130B,160,200", "--store", tmp_path / "there.db", "--json").json[
        "rows"
    ]
    assert [row["objective_value"] for row in printed] == [100, 0, 0]
    assert "3 points" in rows._repr_html_()
    assert "<b>" not in rows._repr_html_()
    again = library.sweep([diamond], store=tmp_path / "here.db", sram="130B..160B", costs=costs)
    assert len(again) == 20


@pytest.mark.slow
def test_rows_are_a_frame_where_pandas_is(diamond: Path, tmp_path: Path) -> None:
    pytest.importorskip("pandas")
    frame = onchip.sweep([diamond], sram="130B..200B").to_pandas()
    assert list(frame["sram"]) == sorted(frame["sram"])
    assert frame["status"].iloc[0] == "OPTIMAL"


def test_a_curve_and_a_difference_show_as_tables(diamond: Path) -> None:
    assert "<td>130</td><td>159</td><td>100</td>" in onchip.capacity(diamond)._repr_html_()
    tight, roomy = (onchip.plan(diamond, size) for size in ("130B", "200B"))
    found = onchip.diff(tight, roomy)
    assert not found.is_equal
    assert found.change("traffic_bytes") == -100
    assert "no longer moves to DRAM and back" in found._repr_html_()


def test_a_curve_starts_at_the_required_bytes(diamond: Path) -> None:
    curve = onchip.capacity(onchip.load_network(diamond), options=onchip.CapacityOptions(order=onchip.Order.GIVEN))
    assert curve.status is onchip.Status.OPTIMAL
    assert curve.required_bytes == curve.steps[0].first == 130
    assert repr(curve).startswith("OPTIMAL  2 steps  traffic: 100 from 130 bytes")


@pytest.mark.slow
def test_a_sweep_takes_objects(diamond: Path, tmp_path: Path) -> None:
    """A changed graph and a resized accelerator are written next to the store, for its processes."""
    network = replace(onchip.load_network(diamond), name="a/b")
    machine = onchip.load_accelerator("simba").resized(global_buffer="1KiB")
    rows = onchip.sweep([network], [machine], store=tmp_path / "s.db")
    assert [row.answer.objective_value for row in rows] == [onchip.plan(network, machine).objective]
    assert sorted(path.name for path in (tmp_path / "s.inputs").iterdir()) == ["a_b.json", "simba.yaml"]
    with pytest.raises(UsageError, match="read in different ways"):
        onchip.sweep([onchip.load_network("lenet5", bits=8), "lenet5"], sram=[65536])


def test_a_schedule_shows_its_figures_and_pictures() -> None:
    found = onchip.schedule(three(), chip(), minimize="energy", options=LAYER_BY_LAYER)
    assert found.answer is not None
    shown = found._repr_html_()
    for name in ("energy_pj", "latency_cycles", "traffic_bytes"):
        assert f"<td>{name}</td>" in shown
    assert "<svg" in shown


def test_what_does_not_fit_is_refused(diamond: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="accelerators: "):
        onchip.sweep([diamond], store=tmp_path / "points.db")
    with pytest.raises(InputError):
        onchip.sweep([diamond], store=tmp_path / "points.db", verb="dance")
    with pytest.raises(UsageError, match="a study file defines all other choices"):
        onchip.sweep("study.yaml", store=tmp_path / "points.db", sram="1MiB..2MiB")
    with pytest.raises(UsageError, match="minimize: 'random'"):
        onchip.capacity(diamond, minimize="random")
    assert not (tmp_path / "points.db").exists()


def test_a_layer_without_a_mapping_has_a_reason_and_no_answer() -> None:
    machine, options = machine_of(load_accelerator("simba")), {"time_limit": 1e-9, "method": "hybrid"}
    point = SweepPoint("k", SweptVerb.MAP, "lenet5", "", "simba", machine, None, "energy", options, {})

    answer = answer_point(point)

    assert (answer.objective_value, answer.document, answer.reason) == (None, None, "a layer has no mapping")


# The version of the methods depends on every source file that decides an answer


PACKAGE = Path(onchip.__file__).parent
HASHED = sorted({path.relative_to(PACKAGE).parts[0] for path in sources_of(PACKAGE)})


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    copied = tmp_path_factory.mktemp("copied") / "onchip"
    for source in sources_of(PACKAGE):
        target = copied / source.relative_to(PACKAGE)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
    _make_not_hashed(copied)
    return copied


def _make_not_hashed(package: Path) -> None:
    for name in NOT_HASHED:
        (package / name).mkdir()


def test_version_does_not_depend_on_the_folder_of_installation(package: Path) -> None:
    assert version_of(package) == method_version()


@pytest.mark.parametrize("name", HASHED)
def test_changed_byte_in_any_hashed_package_changes_the_version(package: Path, name: str) -> None:
    source = next(path for path in sources_of(package) if path.is_relative_to(package / name))
    before, content = version_of(package), source.read_bytes()
    source.write_bytes(content + b"\n")
    assert version_of(package) != before
    source.write_bytes(content)
    assert version_of(package) == before


def test_renamed_source_changes_the_version(package: Path) -> None:
    source = next(path for path in sources_of(package) if path.suffix == ".py")
    before = version_of(package)
    moved = source.rename(source.with_name("another.py"))
    assert version_of(package) != before
    moved.rename(source)


def test_compiled_library_is_hashed_if_there_are_no_cpp_sources(tmp_path: Path) -> None:
    _make_not_hashed(tmp_path)
    (tmp_path / "native").mkdir()
    before = version_of(tmp_path)
    (tmp_path / "native" / "_core.so").write_bytes(b"compiled")
    with_library = version_of(tmp_path)
    (tmp_path / "native" / "core.cpp").write_text("int main() {}")
    assert len({before, with_library, version_of(tmp_path)}) == 3


def test_every_package_is_hashed_or_listed_as_not_hashed() -> None:
    packages = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    assert packages == {name for name in (*HASHED, *NOT_HASHED) if not name.endswith(".py")}


@pytest.mark.parametrize("name", NOT_HASHED)
def test_missing_name_of_the_list_is_an_error(package: Path, name: str) -> None:
    (package / name).rmdir()
    with pytest.raises(InternalError, match=f"'{name}' of NOT_HASHED does not exist"):
        version_of(package)
    (package / name).mkdir()
