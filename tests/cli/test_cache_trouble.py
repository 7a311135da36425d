"""A faulty mapping cache does not change the answer and prints one warning line."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from onchip.kept_folder import cache_folder
from onchip.mapping.methods.cache import GREATEST_FILE_BYTES
from support.diamond import Ended, Program
from support.small_disk import small_disk_at

MAP = ("map", "gemm:m4n4k4", "--method", "exact-even")
"""A search of some milliseconds whose proof is kept."""
SOON = ("--time-limit", "0.2")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ONCHIP_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def right(onchip: Program, chip: Path) -> object:
    return answer_in(onchip(*MAP, "--accelerator", chip, "--no-cache", "--json"))


def answer_in(ended: Ended) -> object:
    assert ended.code == 0
    return {**ended.json, "seconds": 0}


def line_in(ended: Ended) -> str:
    """Return the one line on standard error."""
    assert ended.err.startswith("onchip: ")
    assert ended.err.count("\n") == 1
    return ended.err


def is_in_the_way(folder: Path) -> None:
    folder.write_text("a file")


def is_below_a_file(folder: Path) -> None:
    (folder / "mappings").parent.mkdir()
    (folder / "mappings").write_text("a file")


def leads_nowhere(folder: Path) -> None:
    folder.symlink_to(folder)


@pytest.mark.parametrize("make", [is_in_the_way, is_below_a_file, leads_nowhere])
def test_a_folder_that_is_none(
    onchip: Program, chip: Path, cache: Path, right: object, make: Callable[[Path], None]
) -> None:
    make(cache)
    ended = onchip(*MAP, "--accelerator", chip, "--json")

    assert answer_in(ended) == right
    assert f"{cache}: mappings cannot be kept there" in line_in(ended)


def test_every_verb_that_maps_says_so_once(onchip: Program, chip: Path, network: Path, cache: Path) -> None:
    cache.write_text("a file")
    for verb in ("map", "fuse", "schedule"):
        ended = onchip(verb, network, "--accelerator", chip, *SOON)
        assert ended.code == 0
        assert "mappings cannot be kept" in line_in(ended)
    ended = onchip("fuse", network, "--accelerator", chip, "--workers", "2", *SOON)
    assert ended.code == 0
    assert "mappings cannot be kept" in line_in(ended)


def test_without_the_cache_nothing_is_said_of_it(onchip: Program, chip: Path, cache: Path) -> None:
    cache.write_text("a file")
    assert onchip(*MAP, "--accelerator", chip, "--no-cache").err == ""


@pytest.mark.parametrize("options", ["ro", "rw"])
def test_a_disk_that_is_read_only_or_full(
    onchip: Program, chip: Path, cache: Path, right: object, options: str
) -> None:
    with small_disk_at(cache, "64k", options) as is_mounted:
        if not is_mounted:
            pytest.skip("no file system can be mounted here")
        if options == "rw":
            fill(cache / "full")
        ended = onchip(*MAP, "--accelerator", chip, "--json")

        assert answer_in(ended) == right
        assert ("Read-only" if options == "ro" else "No space left") in line_in(ended)


def fill(path: Path) -> None:
    with path.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(4096))


def is_empty(path: Path) -> None:
    path.write_bytes(b"")


def is_cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:40])


def is_no_text(path: Path) -> None:
    path.write_bytes(b"\xff\xfe\x00")


def is_deep(path: Path) -> None:
    path.write_text("[" * 100_000)


def is_large(path: Path) -> None:
    os.truncate(path, GREATEST_FILE_BYTES + 1)


def is_a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def is_a_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def is_of_another_version(path: Path) -> None:
    document = json.loads(path.read_text())
    path.write_text(json.dumps({"version": 9, "loops": document["nest"]}))


def has_other_types(path: Path) -> None:
    document = json.loads(path.read_text())
    path.write_text(json.dumps({**document, "nest": [["K", "2", 3]], "kept": {"input": 1}}))


def costs_less(path: Path) -> None:
    document = json.loads(path.read_text())
    path.write_text(json.dumps({**document, "objective_value": document["objective_value"] - 1}))


DAMAGE = [
    is_empty, is_cut, is_no_text, is_deep, is_large, is_a_folder, is_a_pipe, is_of_another_version, has_other_types,
    costs_less,
]  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_file(
    onchip: Program, chip: Path, cache: Path, right: object, damage: Callable[[Path], None]
) -> None:
    assert onchip(*MAP, "--accelerator", chip).err == ""
    (kept,) = (cache / "mappings").iterdir()
    damage(kept)
    ended = onchip(*MAP, "--accelerator", chip, "--json")

    assert answer_in(ended) == right
    assert "a kept mapping is damaged" in line_in(ended)
    if kept.is_file():  # the cache was repaired
        assert onchip(*MAP, "--accelerator", chip).err == ""


@pytest.mark.slow
def test_two_processes_at_once(chip: Path, cache: Path, right: object) -> None:
    command = [sys.executable, "-m", "onchip", *MAP, "--accelerator", str(chip), "--json"]
    for _ in range(2):
        both = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in "ab"]
        for process in both:
            out, err = process.communicate()
            assert answer_in(Ended(process.returncode, out, err)) == right
            assert err == ""
        assert [path.suffix for path in (cache / "mappings").iterdir()] == [".json"]
        shutil.rmtree(cache)


def test_a_user_without_a_home(
    onchip: Program, chip: Path, right: object, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("ONCHIP_CACHE")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", homeless)
    ended = onchip(*MAP, "--accelerator", chip, "--json")

    assert answer_in(ended) == right
    assert "ONCHIP_CACHE may name one" in line_in(ended)


def test_where_the_cache_lies(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ONCHIP_CACHE", "here")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert cache_folder() == Path("here")
    monkeypatch.delenv("ONCHIP_CACHE")
    assert cache_folder() == tmp_path / "onchip"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setattr(sys, "platform", "linux")
    assert cache_folder() == tmp_path / "home" / ".cache" / "onchip"
    monkeypatch.setattr(sys, "platform", "darwin")
    assert cache_folder() == tmp_path / "home" / "Library" / "Caches" / "onchip"
