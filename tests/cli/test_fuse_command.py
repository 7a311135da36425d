from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from onchip.answer.document import Reading
from onchip.answer.options.fusion_objective import FusionObjective
from onchip.answer.options.verb_options import FusionOptions
from onchip.answer.result import Status, Stop
from onchip.answer.stacks import OverlapMode
from onchip.api.fuse import FusionRequest, fuse_network
from onchip.formats.own.strategy_json import read_strategy
from onchip.search.budget.clock import Deadline
from onchip.search.budget.limits import Limits, Progress, Run
from support.diamond import Ended, Program
from support.fused_files import CHIP
from support.series import series

FIELDS = ("energy_pj", "latency_cycles", "macs", "tile_types", "accesses", "stacks", "status", "lower_bound", "seconds")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONCHIP_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def fuse(onchip: Program, network: Path, chip: Path) -> Program:
    """Return a function that runs `onchip fuse` with a mapper that takes milliseconds, and few tile sizes."""

    def run_it(*arguments: object) -> Ended:
        fast = ("--bits", "8", "--method", "loma", "--tile-sizes", "divisors")
        return onchip("fuse", network, "--accelerator", chip, *fast, *arguments)

    return run_it


def answer_of(ended: Ended) -> dict[str, Any]:
    assert ended.code == 0
    answer: dict[str, Any] = ended.json
    return answer


def test_json_says_what_it_costs_and_how_well_that_is_proven(fuse: Program) -> None:
    answer = answer_of(fuse("--json", "--groups", "one"))
    assert all(answer[field] is not None for field in FIELDS)
    assert (answer["status"], answer["optimal_among"]) == ("FEASIBLE", answer["space"])
    assert answer["objective_value"] == answer["bound_among"] > answer["lower_bound"] > 0
    assert answer["gap"] > answer["gap_among"] == 0
    assert answer["objective_value"] == pytest.approx(1000 * answer["energy_pj"], abs=3)
    assert answer["energy_pj"] == pytest.approx(sum(one["energy_pj"] for one in answer["energies"]))
    assert sum(answer["latency_parts"].values()) == pytest.approx(answer["latency_cycles"], abs=1)
    assert [name for stack in answer["stacks"] for name in stack["layers"]] == ["conv0", "conv1", "add"]
    assert answer["macs"] == sum(stack["macs"] for stack in answer["stacks"])
    for stack in answer["stacks"]:
        assert stack["tiles"] == sum(kind["times"] for kind in stack["tile_kinds"])


@pytest.mark.slow
def test_the_best_is_no_worse_than_any_strategy_given_by_hand(fuse: Program) -> None:
    best = answer_of(fuse("--json"))["objective_value"]
    by_hand = [
        ("--groups", "one", "--tile", "4x4", "--mode", "fully-cached"),
        ("--groups", "one", "--tile", "8x8"),
        ("--groups", "greedy"),
        ("--groups", "layers"),
        ("--groups", "0,1-2"),
        ("--groups", "conv0,conv1-add", "--mode", "recompute"),
        ("--combination", "single"),
        ("--placements", "dram"),
    ]
    assert all(answer_of(fuse("--json", *one))["objective_value"] >= best for one in by_hand)


@pytest.mark.parametrize("objective", series(FusionObjective, 1))
def test_each_objective_is_least_where_it_is_asked_for(fuse: Program, objective: FusionObjective) -> None:
    def value(answer: dict[str, Any]) -> float:
        energy, cycles = answer["energy_pj"], answer["latency_cycles"]
        values = {"energy": energy, "latency": cycles, "edp": energy * cycles, "dram": answer["dram_bits"]}
        return float(values[objective])

    asked = answer_of(fuse("--json", "--objective", objective))
    whole = answer_of(fuse("--json", "--objective", objective, "--groups", "one", "--tile", "8x8"))
    assert value(asked) <= value(whole) * 1.001


@pytest.mark.slow
def test_dram_traffic_is_at_best_what_the_network_reads_and_writes(fuse: Program) -> None:
    answer = answer_of(fuse("--json", "--objective", "dram"))
    maps, weights = 4 * 8 * 8, 2 * 4 * 4 * 9
    assert answer["objective_value"] == answer["dram_bits"] == 8 * (2 * maps + weights)


def test_one_tile_computes_everything_once_and_recomputing_tiles_more(fuse: Program) -> None:
    whole = answer_of(fuse("--json", "--groups", "one", "--tile", "8x8"))
    macs = 2 * 4 * 4 * 9 * 64 + 4 * 64
    assert (whole["macs"], whole["tiles"], whole["tile_types"]) == (macs, 1, 1)
    tiled = {
        mode: answer_of(fuse("--json", "--groups", "one", "--tile", "4x4", "--mode", mode)) for mode in OverlapMode
    }
    assert tiled[OverlapMode.FULLY_CACHED]["macs"] == macs
    assert macs < tiled[OverlapMode.H_CACHED]["macs"] < tiled[OverlapMode.RECOMPUTE]["macs"]
    (stack,) = tiled[OverlapMode.H_CACHED]["stacks"]
    assert (stack["mode"], stack["tile"]) == ("h-cached", {"columns": 4, "rows": 4})


def test_the_file_is_read_again_and_costs_what_it_says(fuse: Program, tmp_path: Path) -> None:
    out = tmp_path / "s.json"
    answer = answer_of(fuse("--json", "-o", out))
    document = read_strategy(out)
    assert document.claim is not None
    assert document.claim.objective_value == answer["objective_value"]
    checked = fuse("--check", out, "--json")
    (recomputed,) = checked.json["recomputed"]
    assert (checked.code, checked.json["legal"], recomputed["macs"]) == (0, True, answer["macs"])
    assert recomputed["objective_value"] == answer["objective_value"]
    assert recomputed["energies_pj"].keys() == checked.json["claimed"][0]["energies_pj"].keys()
    assert fuse("--check", out).out.endswith("the strategy is legal\n")
    again = tmp_path / "again.json"
    fuse("-o", again, "--no-cache")
    assert again.read_bytes() == out.read_bytes()


@pytest.mark.slow
def test_a_strategy_that_claims_too_much_is_refused(fuse: Program, tmp_path: Path) -> None:
    out = tmp_path / "s.json"
    fuse("--groups", "one", "-o", out)
    fields = json.loads(out.read_text())
    fields["result"]["energy_pj"] /= 2
    out.write_text(json.dumps(fields))
    ended = fuse("--check", out)
    assert ended.code == 1
    assert "figure-differs: 'result.energy_pj'" in ended.out
    fields["stacks"][-1]["layers"].pop()
    out.write_text(json.dumps(fields))
    ended = fuse("--check", out)
    assert ended.code == 1
    assert ended.out.startswith("layer-missing: 'add': it is in no stack\n")


@pytest.mark.slow
def test_a_strategy_for_another_network_is_refused(fuse: Program, network: Path, tmp_path: Path) -> None:
    out = tmp_path / "s.json"
    fuse("-o", out)
    network.write_text(network.read_text().replace('"three"', '"four"'))
    ended = fuse("--check", out)
    assert ended.code == 1
    assert ended.out.startswith("network-differs: 'three': ")


def test_tables_for_people(fuse: Program) -> None:
    given = ("--groups", "0,1-2", "--tile", "4x2", "--mode", "fully-cached", "--placements", "dram")
    ended = fuse(*given)
    assert ended.code == 0
    assert "conv1 to add (2)" in ended.out
    words = " ".join(ended.out.split())
    assert "status FEASIBLE objective energy" in words
    assert "optimal for the groups and tiles searched" in words
    explained = fuse(*given, "--explain-bound")
    assert "2 given fused groups; tiles of 4 x 2; overlap modes fully-cached" in " ".join(explained.out.split())


@pytest.mark.slow
def test_a_second_process_finds_the_same(fuse: Program) -> None:
    alone, both = (answer_of(fuse("--json", "--groups", "one", "--workers", workers)) for workers in (1, 2))
    assert both["objective_value"] == alone["objective_value"]
    assert both["optimal_among"] == both["space"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--tile", "9x4", "--groups", "one"), "--tile: a tile of 9 x 4 is larger than every stack's last feature map"),
        (("--tile", "4"), "--tile: '4' "),
        (("--tile", "0x4"), "--tile: '0x4' "),
        (("--mode", "cached"), "'cached' is not one of 'recompute', 'h-cached', 'fully-cached'"),
        (("--groups", "0-1,2"), "three: --groups: the stack 'conv0' to 'conv1' is over a branch: 'conv0' does not end"),
        (("--groups", "0-1"), "three: --groups"),
        (("--groups", "many"), "'many'"),
        (("--objective", "power"), "'power' is not one of"),
        (("--time-limit", "0"), "--time-limit"),
        (("-o", "nowhere/s.json"), "there is no directory"),
        (("--report", "nowhere/s.html"), "there is no directory"),
        (("--check", "nowhere.json"), "nowhere.json does not exist"),
    ],
)
def test_bad_arguments_end_in_one_line(fuse: Program, arguments: tuple[str, ...], message: str) -> None:
    ended = fuse(*arguments)
    assert (ended.code, ended.out) == (2, "")
    assert message in ended.err
    assert ended.err.count("\n") == 1


NO_WEIGHTS = {
    "holds: [weight]": "holds: [input]",
    "capacity: 512B,": "capacity: 512B, holds: [input, output],",
    "capacity: 1KiB,": "capacity: 1KiB, holds: [input, output],",
}
NO_ARRAY = {"array: {dimensions: {K: 2, OX: 2}, mac_energy_pj: 0.5}\n": "", "serves: [OX], ": ""}
NO_ENERGY = {"access_bits: 32, read_energy_pj: 5, write_energy_pj: 6,": ""}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (NO_WEIGHTS, "chip.yaml: accelerator 'chip': no memory on the chip holds weight"),
        (NO_ARRAY, "chip.yaml: accelerator 'chip' has no array"),
        (NO_ENERGY, "'chip' does not state access_bits, read_energy_pj and write_energy_pj of memory 'buffer'"),
    ],
)
def test_a_bad_machine_ends_in_one_line(
    onchip: Program, network: Path, chip: Path, changes: dict[str, str], message: str
) -> None:
    text = CHIP
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new, 1)
    chip.write_text(text)
    ended = onchip("fuse", network, "--accelerator", chip, "--method", "loma")
    assert (ended.code, ended.out) == (2, "")
    assert message in ended.err
    assert ended.err.count("\n") == 1


@pytest.mark.slow
def test_elements_wider_than_a_register_are_no_refusal(onchip: Program, network: Path, chip: Path) -> None:
    """The weight register of one byte has no room for 16 bits, so mappings bypass it."""
    ended = onchip(
        "fuse", network, "--accelerator", chip, "--method", "loma", "--bits", "16", "--tile", "4x4", "--json"
    )
    assert ended.code == 0
    assert 0 < ended.json["lower_bound"] <= ended.json["objective_value"]


def request(network: Path, chip: Path) -> FusionRequest:
    return FusionRequest(
        str(network), str(chip), options=FusionOptions(mapper="loma", uses_cache=False), reading=Reading(bits=8)
    )


def test_an_interruption_ends_with_a_bound(network: Path, chip: Path) -> None:
    @contextmanager
    def interrupted(limits: Limits, deadline: Deadline) -> Iterator[Run]:
        run = Run(limits, deadline=deadline)
        run.interrupt.set()
        yield run

    outcome = fuse_network(request(network, chip), interrupted)
    assert (outcome.result.status, outcome.result.stopped_by) == (Status.UNKNOWN, Stop.INTERRUPTED)
    assert outcome.result.lower_bound > 0
    assert outcome.document is None


@pytest.mark.slow
def test_progress_tells_the_best_so_far(network: Path, chip: Path) -> None:
    heard: list[Progress] = []

    @contextmanager
    def listened(limits: Limits, deadline: Deadline) -> Iterator[Run]:
        yield Run(limits, heard.append, deadline=deadline)

    fuse_network(request(network, chip), listened)
    best = [one.best for one in heard if one.best is not None]
    assert best == sorted(best, reverse=True)
    assert [one.lower_bound for one in heard] == sorted(one.lower_bound for one in heard)
