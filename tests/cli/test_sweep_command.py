"""`onchip sweep`: a study finds the same answers as each question alone, despite interruptions."""

from __future__ import annotations

import csv
import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from onchip.sweeps.store import Store
from support.diamond import Program

STUDY = """\
format: onchip-study
version: 1
networks: [{network}]
parameters:
  sram: [100B, 130B, 140, 160B, 200B]
objectives: [traffic, peak]
"""
RANGE = ("--sram", "100B..200B", "--steps", "21")


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "points.db"


def test_every_point_is_what_its_question_alone_gives(onchip: Program, diamond: Path, store: Path) -> None:
    swept = onchip("sweep", diamond, *RANGE, "--store", store, "--json").json

    assert (swept["points"], swept["is_over"], swept["failed"]) == (21, True, 0)
    assert swept["computed"] + swept["settled"] == 21
    assert swept["settled"] > 10
    for row in swept["rows"]:
        alone = onchip("plan", diamond, "--sram", row["sram"], "--json").json
        assert (row["status"], row["objective_value"]) == (alone["status"], alone["objective_value"])
        if alone["traffic"] is not None:
            assert row["traffic_bytes"] == alone["traffic"]["total"]


@pytest.mark.slow
def test_pruning_changes_no_figure(onchip: Program, diamond: Path, store: Path, tmp_path: Path) -> None:
    pruned = onchip("sweep", diamond, *RANGE, "--store", store, "--json").json
    whole = onchip("sweep", diamond, *RANGE, "--store", tmp_path / "whole.db", "--no-prune", "--json").json

    assert (whole["computed"], whole["settled"]) == (21, 0)
    figures = ("sram", "status", "objective_value", "traffic_bytes")
    assert [[row[name] for name in figures] for row in pruned["rows"]] == [
        [row[name] for name in figures] for row in whole["rows"]
    ]


def test_what_was_computed_is_never_computed_again(onchip: Program, diamond: Path, store: Path) -> None:
    onchip("sweep", diamond, *RANGE, "--store", store)
    again = onchip("sweep", diamond, *RANGE, "--store", store, "--json").json
    other = onchip("sweep", diamond, "--sram", "100B,130B,131B", "--store", store, "--json").json

    assert (again["computed"], again["settled"], again["kept_before"]) == (0, 0, 21)
    assert other["kept_before"] == 2


@pytest.mark.slow
def test_a_study_file_says_the_same(onchip: Program, diamond: Path, store: Path, tmp_path: Path) -> None:
    study = tmp_path / "sizes.yaml"
    study.write_text(STUDY.format(network=json.dumps(str(diamond))))

    swept = onchip("sweep", study, "--store", store, "--json").json

    assert [(row["study"], row["sram"], row["objective"]) for row in swept["rows"]] == [
        ("sizes", size, objective) for objective in ("traffic", "peak") for size in (100, 130, 140, 160, 200)
    ]


@pytest.mark.slow
def test_rows_are_exported_and_queried(onchip: Program, diamond: Path, store: Path, tmp_path: Path) -> None:
    onchip("sweep", diamond, *RANGE, "--store", store)
    table, objects = tmp_path / "rows.csv", tmp_path / "rows.json"

    onchip("sweep", "--store", store, "--export", "csv", "-o", table)
    onchip("sweep", "--store", store, "--export", "json", "-o", objects)
    found = onchip("sweep", "--store", store, "--query", "sram >= 150B and status == 'OPTIMAL'", "--json").json

    with table.open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 21
    assert [int(row["sram"]) for row in rows] == [row["sram"] for row in json.loads(objects.read_text())]
    assert {row["sram"] for row in found["rows"]} == set(range(150, 201, 5))


@pytest.mark.slow
def test_parquet_holds_the_same_rows(onchip: Program, diamond: Path, store: Path, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    onchip("sweep", diamond, *RANGE, "--store", store)
    onchip("sweep", "--store", store, "--export", "parquet", "-o", tmp_path / "rows.parquet")

    rows = parquet.read_table(tmp_path / "rows.parquet").to_pylist()

    assert [row["sram"] for row in rows] == list(range(100, 201, 5))
    assert rows[-1]["status"] == "OPTIMAL"


@pytest.mark.parametrize("verb", ["map", "fuse", "schedule"])
def test_other_verbs_are_swept_over_fields_of_a_machine(
    onchip: Program, network: Path, chip: Path, store: Path, verb: str
) -> None:
    asked = ("sweep", network, "--accelerator", chip, "--verb", verb, "--objective", "energy", "--store", store)
    swept = onchip(*asked, "--parameter", "dram.read_energy_pj=10,1000", "--option", "time_limit=0.3", "--json").json

    assert swept["failed"] == 0, swept["rows"]
    low, high = swept["rows"]
    assert 0 < low["energy_pj"] < high["energy_pj"]


BAD = {
    "no such network": (["nonsense", "--sram", "1MiB"], "nonsense"),
    "an empty range": (["{net}", "--sram", "2MiB..1MiB"], "--sram: the range from 2MiB to 1MiB is empty"),
    "no size": (["{net}", "--sram", "big"], "--sram"),
    "no machine": (["{net}"], "--accelerator: the study names no target"),
    "a path that is not there": (
        ["{net}", "--accelerator", "simba", "--parameter", "memories.none.capacity=1MiB"],
        "memories.none.capacity: accelerator 'simba' has no such field",
    ),
    "units that do not fit": (
        ["{net}", "--accelerator", "simba", "--parameter", "clock_mhz.x=64KiB"],
        "--parameter clock_mhz.x: '64KiB' is a size in bytes, which does not fit",
    ),
    "no objective": (["{net}", "--sram", "1MiB", "--objective", "beauty"], "--objective: 'beauty'"),
    "no option": (["{net}", "--sram", "1MiB", "--option", "colour=red"], "--option colour: there is no such option"),
    "no value of an option": (["{net}", "--sram", "1MiB", "--option", "bits=0"], "--option bits: 0 "),
    "both machines": (["{net}", "--sram", "1MiB", "--accelerator", "simba"], "--accelerator: "),
    "no query": (["--query", "sram >", "--store-there"], "--query"),
    "a column that is not there": (["--query", "colour == 3", "--store-there"], "names 'colour'"),
    "no store": ([], "there is no such store"),
    "no study": (["nowhere.yaml"], "nowhere.yaml does not exist"),
    "a study and networks": (["nowhere.yaml", "{net}"], "diamond.json: "),
    "a format alone": (["--export", "csv"], "--export, --answer, --output: "),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_one_line(onchip: Program, diamond: Path, store: Path, name: str) -> None:
    words, said = BAD[name]
    if "--store-there" in words:
        onchip("sweep", diamond, "--sram", "200B", "--store", store)
    before = store.read_bytes() if store.exists() else None

    asked = [word.format(net=diamond) for word in words if word != "--store-there"]
    ended = onchip("sweep", *asked, "--store", store)

    assert (ended.code, ended.out) == (2, "")
    assert ended.err.count("\n") == 1
    assert said in ended.err
    assert (store.read_bytes() if store.exists() else None) == before


STUDY_OF_LANES = """format: onchip-study
version: 1
verb: map
networks: [gemm:m2n2k2]
accelerators: [simba]
parameters:
  lanes: {path: array.dimensions.lane, values: [4, 8]}
constraints:
  - lanes <= 8
costs:
  price: {by: accelerator, table: {simba: 3.5}}
"""


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("dimensions.lane", "dimensions.K", "line 7: parameters.lanes: accelerator 'simba' has no such field"),
        ("[4, 8]", "[4, 1.5]", "line 7: parameters.lanes: 1.5 "),
        ("lanes <= 8", "lanes / 0 <= 8", "line 9: constraints[0]: 'lanes / 0 <= 8' has no value"),
        ("lanes <= 8", "lanes < 4", "line 8: constraints: "),
        ("{simba: 3.5}", "{eyeriss: 1}", "line 11: costs.price: the table has no entry for accelerator 'simba'"),
        ("gemm:m2n2k2", "nonsense", "nonsense: unknown layer or network"),
        ("[simba]", "[simbo]", "line 11: costs.price: the table has no entry for accelerator 'simbo'"),
    ],
)
def test_what_does_not_fit_in_a_study_is_named_with_its_line(
    onchip: Program, store: Path, tmp_path: Path, old: str, new: str, said: str
) -> None:
    study = tmp_path / "study.yaml"
    assert old in STUDY_OF_LANES
    study.write_text(STUDY_OF_LANES.replace(old, new))
    ended = onchip("sweep", study, "--store", store)

    assert (ended.code, ended.out, ended.err.count("\n"), store.exists()) == (2, "", 1, False)
    assert ended.err.startswith(f"onchip: {study}: {said}")


def test_a_store_that_is_written_is_refused_to_another_writer(onchip: Program, diamond: Path, store: Path) -> None:
    with Store.for_writing(store):
        ended = onchip("sweep", diamond, "--sram", "200B", "--store", store)
    assert (ended.code, ended.err.count("\n")) == (2, 1)
    assert "another sweep writes it" in ended.err


def exported(onchip: Program, store: Path) -> list[dict[str, object]]:
    """Return the rows without their seconds."""
    path = store.with_suffix(".rows.json")
    assert onchip("sweep", "--store", store, "--export", "json", "-o", path).code == 0
    return [{name: value for name, value in row.items() if name != "seconds"} for row in json.loads(path.read_text())]


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_a_sweep_that_is_stopped_again_and_again_ends_as_one_that_was_not(
    onchip: Program, store: Path, tmp_path: Path, how: signal.Signals
) -> None:
    asked = ["sweep", "densenet121", "lenet5", "--sram", "1500KiB..2200KiB", "--steps", "12", "--option", "bits=8"]
    command = [sys.executable, "-m", "onchip", *asked, "--no-prune", "--store", str(store)]
    for seconds in (1.3, 1.8, 2.4):
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as stopped:
            time.sleep(seconds)
            stopped.send_signal(how)
            code = stopped.wait(20)
        # Before onchip has started, and after all is written, a signal ends a process in the default way.
        assert code in ((-how, 0) if how is signal.SIGKILL else (130, -how, 0))
    whole = tmp_path / "whole.db"
    last = onchip(*asked, "--no-prune", "--store", store, "--json").json
    onchip(*asked, "--no-prune", "--store", whole)

    assert last["is_over"]
    assert last["computed"] + last["kept_before"] == last["points"] == 24
    assert exported(onchip, store) == exported(onchip, whole)


FRONT = """\
format: onchip-study
version: 1
networks: [{network}]
parameters: {{sram: {{range: 130B..200B, steps: 40}}}}
costs: {{area: sram / 10}}
"""


@pytest.mark.slow
def test_a_front_is_shown_and_alone_paid_for(onchip: Program, diamond: Path, store: Path, tmp_path: Path) -> None:
    study = tmp_path / "front.yaml"
    study.write_text(FRONT.format(network=json.dumps(str(diamond))))

    found = onchip("sweep", study, "--store", store, "--pareto", "area,objective_value", "--json").json

    least = min(size for size in range(130, 201) if size >= 160 and any(row["sram"] == size for row in found["rows"]))
    assert [(row["sram"], row["objective_value"]) for row in found["rows"]] == [(130, 100), (least, 0)]
    assert onchip("sweep", study, "--store", store, "--pareto", "price,objective_value").code == 2


@pytest.mark.slow
def test_points_that_all_fail_are_no_answer(onchip: Program, store: Path, tmp_path: Path) -> None:
    bare = tmp_path / "bare.yaml"
    bare.write_text(
        "{format: onchip-accelerator, version: 1, name: bare, memories: [{name: a, capacity: 1KiB, scratchpad: true}]}"
    )
    asked = ("sweep", "lenet5", "--accelerator", bare, "--verb", "map", "--store", store)

    ended = onchip(*asked, "--json")

    assert (ended.code, ended.json["failed"]) == (4, 1)
    assert ended.json["rows"][0]["reason"]
    assert onchip(*asked, "--json").json["kept_before"] == 1
    assert onchip(*asked, "--retry-failed", "--json").json["failed"] == 1


@pytest.mark.slow
def test_an_answer_is_written_as_its_verb_writes_it(
    onchip: Program, diamond: Path, store: Path, tmp_path: Path
) -> None:
    rows = onchip("sweep", diamond, "--sram", "130B,160B,180B,200B", "--store", store, "--json").json["rows"]
    for row, size in zip(rows, (130, 160, 160, 200), strict=True):
        onchip("sweep", "--store", store, "--answer", row["key"][:20], "-o", tmp_path / "swept.json")
        onchip("plan", diamond, "--sram", size, "-o", tmp_path / "alone.json")
        assert (tmp_path / "swept.json").read_bytes() == (tmp_path / "alone.json").read_bytes()
    assert onchip("sweep", "--store", store, "--answer", "", "-o", tmp_path / "swept.json").code == 2


@pytest.mark.slow
def test_a_point_that_takes_too_long_fails_and_the_others_go_on(onchip: Program, store: Path) -> None:
    asked = ("sweep", "nasnetalarge", "lenet5", "--sram", "3MiB", "--option", "bits=8", "--store", store)

    rows = onchip(*asked, "--point-seconds", "0.5", "--json").json["rows"]

    assert [(row["network"], row["status"]) for row in rows] == [("nasnetalarge", "FAILED"), ("lenet5", "OPTIMAL")]
    assert rows[0]["reason"] == "the point exceeds its time limit of 0.5 s"
    assert onchip(*asked, "--retry-failed", "--json").json["failed"] == 0
