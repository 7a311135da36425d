"""Any content of a file gives one line that names the file, soon and within 2 GiB."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.forked import run_forked
from support.hostile_files import ANY, CSV, JSON, LONG_YAML, ONNX, PACKED, YAML, Maker

GREATEST_SECONDS = 60  # processor seconds, on a slow machine; a reader that does not end is killed
GREATEST_BYTES = 2 * 2**30
READERS: dict[str, tuple[str, dict[str, Maker]]] = {
    "info {}.json": (".json", ANY | JSON),
    "info {}.json.gz": (".json.gz", PACKED),
    "info {}.onnx": (".onnx", ANY | ONNX),
    "plan lenet5 --accelerator {}.yaml": (".yaml", ANY),
    "pack {}.csv --minimize": (".csv", ANY | CSV),
}
OTHER_READERS: dict[str, tuple[str, dict[str, Maker]]] = {
    "plan lenet5 --accelerator {}.yaml": (".yaml", YAML | LONG_YAML),
    "map {}.yaml --accelerator simba": (".yaml", ANY | YAML | LONG_YAML),
    "pack {}.csv.gz --minimize": (".csv.gz", PACKED),
    "check {}.json lenet5": (".json", ANY | JSON),
    "check {}.json.gz lenet5": (".json.gz", PACKED),
    "check {}.yaml lenet5 --accelerator simba": (".yaml", ANY),
    "explain {}.json lenet5": (".json", ANY),
    "run {}.json lenet5": (".json", ANY),
}


def cases(readers: dict[str, tuple[str, dict[str, Maker]]], every: int = 1) -> list[object]:
    """Return each file for each verb; all but one in `every` cases are left to `make test-long`."""
    each = [(verb, suffix, name, makers[name]) for verb, (suffix, makers) in readers.items() for name in makers]
    return [
        pytest.param(verb, suffix, make, id=f"{verb}-{name}", marks=[pytest.mark.slow] if at % every else [])
        for at, (verb, suffix, name, make) in enumerate(each)
    ]


@pytest.mark.parametrize(("verb", "suffix", "make"), cases(READERS, every=2))
def test_a_hostile_file_is_one_line(tmp_path: Path, verb: str, suffix: str, make: Maker) -> None:
    is_one_line(tmp_path, verb, suffix, make)


@pytest.mark.slow
@pytest.mark.parametrize(("verb", "suffix", "make"), cases(OTHER_READERS, every=5))
def test_a_hostile_file_is_one_line_to_every_verb(tmp_path: Path, verb: str, suffix: str, make: Maker) -> None:
    is_one_line(tmp_path, verb, suffix, make)


def is_one_line(tmp_path: Path, verb: str, suffix: str, make: Maker) -> None:
    path = tmp_path / f"file{suffix}"
    make(path)
    ended = run_forked(verb.format(tmp_path / "file").split(), tmp_path, GREATEST_SECONDS)
    lines = ended.said.splitlines()

    assert (ended.code, len(lines)) == (2, 1), lines[-3:]
    assert lines[0].startswith(f"onchip: {path}")
    assert len(lines[0]) < 1000
    assert ended.greatest_bytes < GREATEST_BYTES
