"""Tests of one plug-in of each group, as an external package adds it (docs/architecture.md, "Where do I add")."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from support.diamond import Program
from support.fused_files import CHIP
from support.reports import facts_of


def install(folder: Path, entry_points: Mapping[str, Mapping[str, str]], package: str = "toy") -> Path:
    """Write the package's metadata, with its functions by name by group; return the folder to search packages in."""
    metadata = folder / f"{package}-1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    groups = (
        f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in functions.items())
        for group, functions in entry_points.items()
    )
    (metadata / "entry_points.txt").write_text("\n".join(groups))
    return folder


EVERYTHING = {
    "onchip.readers": {"chain": "support.toy_plugins:read_chain"},
    "onchip.operators": {"Mix": "support.toy_plugins:mix_channels"},
    "onchip.methods": {"nothing-stays": "support.toy_plugins:nothing_stays"},
    "onchip.mapping_methods": {"some": "support.toy_plugins:some_mapping"},
    "onchip.costs": {"seven": "support.toy_plugins:seven_cycles"},
    "onchip.exports": {"order": "support.toy_plugins:order_of_operators"},
    "onchip.pictures": {"Cycles of networks": "support.toy_plugins:cycles_of_networks"},
    "onchip.accelerators": {"toy": "support.toy_plugins:toy_accelerator"},
    "onchip.file_checks": {"toy": "support.toy_plugins:check_of_empty_file"},
}
CHECK = {"onchip.checks": {"nothing-on-chip": "support.toy_plugins:nothing_on_chip"}}
Installs = Callable[[Mapping[str, Mapping[str, str]]], None]


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Installs:
    """Return a function that installs packages named toy0, toy1, ... in the order of its calls."""
    count = iter(range(9))

    def install_it(entry_points: Mapping[str, Mapping[str, str]]) -> None:
        number = next(count)
        monkeypatch.syspath_prepend(install(tmp_path / f"packages{number}", entry_points, f"toy{number}"))

    return install_it


@pytest.fixture
def chain(tmp_path: Path) -> Path:
    """Save two operators of a kind and in a format that onchip does not know."""
    path = tmp_path / "two.chain"
    path.write_text("Mix\nMix\n")
    return path


@pytest.fixture
def chip(tmp_path: Path) -> Path:
    """Save an accelerator, which needs no package."""
    path = tmp_path / "chip.yaml"
    path.write_text(CHIP)
    return path


def test_a_network_of_an_outside_format_and_kind_is_scheduled_checked_and_run(
    onchip: Program, installed: Installs, chain: Path, chip: Path, tmp_path: Path
) -> None:
    installed(EVERYTHING)
    schedule = tmp_path / "schedule.json"
    found = onchip("schedule", chain, "--accelerator", chip, "--dim", "size=8", "--no-cache", "-o", schedule, "--json")

    assert found.code == 0, found.err
    assert found.json["macs"] == 2 * 4 * 4 * 8 * 8
    assert [one["stack"] for one in json.loads(schedule.read_text())["mappings"]] == [0, 1]
    checked = onchip("check", schedule, chain, "--json")
    assert checked.code == 0, checked.out
    assert "loop nests of operators of kind Mix are those that a plug-in says" in checked.json["not_checked"]
    assert onchip("run", schedule, chain).code == 0


def test_an_operator_kind_of_a_plugin_is_not_cut_into_tiles(
    onchip: Program, installed: Installs, chain: Path, chip: Path, tmp_path: Path
) -> None:
    installed(EVERYTHING)
    schedule = tmp_path / "schedule.json"
    tiled = ("--groups", "one", "--tile", "2x2")
    assert onchip("schedule", chain, "--accelerator", chip, *tiled, "--no-cache", "-o", schedule).code == 0

    stacks = json.loads(schedule.read_text())["stacks"]
    assert [(one["operators"], one["tile"]) for one in stacks] == [(["mix0"], None), (["mix1"], None)]


def test_without_the_package_nobody_reads_its_files(onchip: Program, chain: Path, chip: Path) -> None:
    ended = onchip("schedule", chain, "--accelerator", chip)

    assert ended.code == 2
    assert "no such network" in ended.err


def test_a_method_plans(onchip: Program, installed: Installs, chain: Path) -> None:
    installed(EVERYTHING)
    ended = onchip("plan", chain, "--sram", "1KiB", "--method", "nothing-stays", "--json")

    assert ended.code == 0, ended.err
    assert ended.json["traffic"]["non_compulsory"] == 2 * 4 * 4 * 4  # the map between the two, there and back
    refused = onchip("plan", chain, "--sram", "1KiB", "--method", "nothing-stays", "--objective", "peak")
    assert (refused.code, "does not support peak" in refused.err) == (2, True)
    unknown = onchip("plan", chain, "--sram", "1KiB", "--method", "everything-stays")
    assert (unknown.code, "naive, nothing-stays" in unknown.err) == (2, True)


def test_a_method_maps(onchip: Program, installed: Installs, chain: Path, chip: Path) -> None:
    installed(EVERYTHING)
    ended = onchip("map", chain, "--accelerator", chip, "--method", "some", "--no-cache", "--json")

    assert ended.code == 0, ended.err
    assert (ended.json["method"], ended.json["layers"][0]["macs"]) == ("some", 4 * 4 * 4 * 4)


def test_a_cost_model_times_a_plan(
    onchip: Program, installed: Installs, chain: Path, chip: Path, tmp_path: Path
) -> None:
    installed(EVERYTHING)
    plan = tmp_path / "plan.json"
    assert onchip("plan", chain, "--accelerator", chip, "-o", plan).code == 0
    asked = ("time", plan, chain, "--accelerator", chip, "--json")

    by_rule, by_plugin = onchip(*asked).json, onchip(*asked, "--cost", "seven").json
    assert by_plugin["compute_cycles"] == 2 * 7
    assert by_rule["compute_cycles"] != 2 * 7
    unknown = onchip(*asked[:-1], "--cost", "eight")
    assert (unknown.code, "macs, seven" in unknown.err) == (2, True)


def test_a_check_finds_what_is_legal_and_not_wanted(
    onchip: Program, installed: Installs, chain: Path, chip: Path, tmp_path: Path
) -> None:
    installed(EVERYTHING)
    schedule = tmp_path / "schedule.json"
    assert onchip("schedule", chain, "--accelerator", chip, "--no-cache", "-o", schedule).code == 0
    assert onchip("check", schedule, chain).code == 0
    installed(CHECK)
    ended = onchip("check", schedule, chain)

    assert ended.code == 1
    assert "outside-check-failed: " in ended.out
    assert "nothing-on-chip: it lies in " in ended.out


def test_a_picture_stands_in_the_report(
    onchip: Program, installed: Installs, chain: Path, chip: Path, tmp_path: Path
) -> None:
    installed(EVERYTHING)
    page = tmp_path / "page.html"
    asked = ("schedule", chain, "--accelerator", chip, "--no-cache", "--report", page, "--json")
    found = onchip(*asked).json

    text = page.read_text()
    assert '<div class="plot" id="outside-0" role="img" aria-label="Cycles of networks">' in text
    (trace,) = facts_of(text)["figures"]["outside-0"]["traces"]
    assert trace["y"] == [found["latency_cycles"]]


def test_a_plan_is_exported(onchip: Program, installed: Installs, chain: Path, tmp_path: Path) -> None:
    installed(EVERYTHING)
    plan, output = tmp_path / "plan.json", tmp_path / "order.txt"
    assert onchip("plan", chain, "--sram", "1KiB", "-o", plan).code == 0
    ended = onchip("export", plan, chain, "--to", "order", "-o", output)

    assert ended.code == 0, ended.err
    assert json.loads(output.read_text()) == ["mix0", "mix1"]
    unknown = onchip("export", plan, chain, "--to", "orders", "-o", output)
    assert (unknown.code, ", order" in unknown.err) == (2, True)


def test_an_accelerator_of_a_plugin_is_found_by_its_name(onchip: Program, installed: Installs, chain: Path) -> None:
    installed(EVERYTHING)
    ended = onchip("map", chain, "--accelerator", "toy", "--no-cache", "--time-limit", "2", "--json")

    assert ended.code == 0, ended.err
    unknown = onchip("map", chain, "--accelerator", "toys")
    assert (unknown.code, "toy, or another" in unknown.err) == (2, True)


def test_a_file_is_checked_by_the_plugin_that_knows_it(
    onchip: Program, installed: Installs, chain: Path, tmp_path: Path
) -> None:
    installed(EVERYTHING)
    empty, other = tmp_path / "empty.txt", tmp_path / "other.txt"
    empty.touch()
    other.write_text("text")

    assert onchip("check", empty, chain).code == 0
    unknown = onchip("check", other, chain)
    assert (unknown.code, "tflite, toy, vela, xla" in unknown.err) == (2, True)


@pytest.mark.parametrize(
    ("function", "said"),
    [
        ("support.no_such_module:read", "cannot be loaded: ModuleNotFoundError"),
        ("support.toy_plugins:no_such_function", "cannot be loaded: AttributeError"),
        ("support.toy_plugins:fails", "fails: ValueError: this never works in two lines"),
        ("support.toy_plugins:returns_text", "returns a str"),
        ("support.toy_plugins:NO_FUNCTION", "is a int"),
    ],
)
def test_a_broken_plugin_ends_in_one_clear_line(
    function: str, said: str, onchip: Program, installed: Installs, chain: Path
) -> None:
    installed({"onchip.readers": {"chain": function}})
    ended = onchip("info", chain)

    assert ended.code == 2
    assert ended.err.count("\n") == 1
    assert ended.err.startswith("onchip: plug-in 'chain' of onchip.readers")
    assert said in ended.err


@pytest.mark.parametrize("group", [name for name in EVERYTHING if name != "onchip.readers"])
def test_a_plugin_that_fails_is_named_wherever_it_stands(
    group: str, onchip: Program, installed: Installs, chain: Path, chip: Path, tmp_path: Path
) -> None:
    (name,) = EVERYTHING[group]
    installed(EVERYTHING | {group: {name: "support.toy_plugins:fails"}})
    plan, page, text = tmp_path / "plan.json", tmp_path / "page.html", tmp_path / "file.txt"
    text.touch()
    needs_plan = group in ("onchip.costs", "onchip.exports")
    if needs_plan:
        assert onchip("plan", chain, "--accelerator", chip, "-o", plan).code == 0
    asked: Mapping[str, tuple[object, ...]] = {
        "onchip.operators": ("schedule", chain, "--accelerator", chip, "--no-cache"),
        "onchip.methods": ("plan", chain, "--sram", "1KiB", "--method", name),
        "onchip.mapping_methods": ("map", chain, "--accelerator", chip, "--method", name),
        "onchip.costs": ("time", plan, chain, "--accelerator", chip, "--cost", name),
        "onchip.exports": ("export", plan, chain, "--to", name, "-o", tmp_path / "order.txt"),
        "onchip.pictures": ("schedule", chain, "--accelerator", chip, "--no-cache", "--report", page),
        "onchip.accelerators": ("map", chain, "--accelerator", name),
        "onchip.file_checks": ("check", text, chain),
    }
    ended = onchip(*asked[group])

    assert ended.code == 2, ended.out
    assert ended.err.count("\n") == 1
    assert ended.err.startswith(f"onchip: plug-in {name!r} of {group} fails: ValueError")


def test_a_method_that_fails_while_it_solves_is_named(onchip: Program, installed: Installs, chain: Path) -> None:
    installed(EVERYTHING | {"onchip.methods": {"gives-up": "support.toy_plugins:gives_up"}})
    ended = onchip("plan", chain, "--sram", "1KiB", "--method", "gives-up")

    assert ended.code == 2
    assert ended.err.startswith("onchip: method 'gives-up' of onchip.methods fails: ValueError")


def test_two_packages_cannot_add_one_name(onchip: Program, installed: Installs, chain: Path) -> None:
    installed(EVERYTHING)
    installed(EVERYTHING)
    ended = onchip("info", chain)

    assert ended.code == 2
    assert "toy0 and toy1 both add it" in ended.err


def test_a_plugin_replaces_nothing_that_onchip_has(onchip: Program, installed: Installs, chain: Path) -> None:
    installed(EVERYTHING | {"onchip.methods": {"naive": "support.toy_plugins:fails"}})
    chain.write_text("Sigmoid\nMix\n")

    assert onchip("plan", chain, "--sram", "1KiB", "--method", "naive", "--order", "given").code == 0
