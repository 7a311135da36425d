"""The version of the methods follows from their sources: nobody raises a number, and nobody can forget to."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from onchip.sweeps.method_version import ROOMS, method_version, sources_of, version_of

PACKAGE = Path(method_version.__wrapped__.__code__.co_filename).parent.parent
NO_METHODS = ("audits", "commands", "data", "explanations", "formats", "reports", "simulate", "sweeps", "verify")
"""What these read is hashed as such; they check, show and keep answers, and decide none."""


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    copied = tmp_path_factory.mktemp("copied") / "onchip"
    for source in sources_of(PACKAGE):
        target = copied / source.relative_to(PACKAGE)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
    return copied


def test_it_is_that_of_the_sources_wherever_they_lie(package: Path) -> None:
    assert version_of(package) == method_version()


@pytest.mark.parametrize("room", ROOMS)
def test_a_changed_source_is_another_version(package: Path, room: str) -> None:
    source = next(path for path in sources_of(package) if path.is_relative_to(package / room))
    before, content = version_of(package), source.read_bytes()
    source.write_bytes(content + b"\n")
    assert version_of(package) != before
    source.write_bytes(content)
    assert version_of(package) == before


def test_a_renamed_source_is_another_version(package: Path) -> None:
    source = next(path for path in sources_of(package) if path.suffix == ".cpp")
    before = version_of(package)
    moved = source.rename(source.with_name("another.cpp"))
    assert version_of(package) != before
    moved.rename(source)


def test_without_sources_the_compiled_library_counts(tmp_path: Path) -> None:
    for room in ROOMS:
        (tmp_path / room).mkdir()
        (tmp_path / room / "__init__.py").write_text(room)
    before = version_of(tmp_path)
    (tmp_path / "native" / "_core.so").write_bytes(b"compiled")
    with_library = version_of(tmp_path)
    (tmp_path / "native" / "core.cpp").write_text("int main() {}")
    assert len({before, with_library, version_of(tmp_path)}) == 3


def test_all_that_answers_points_is_hashed() -> None:
    program = (
        "import sys\nfrom onchip.app.point_answer import prepare_for\nfrom onchip.sweeps.verbs import SweptVerb\n"
        "for verb in SweptVerb: prepare_for(verb)\n"
        "print(*{name.split('.')[1] for name in sys.modules if name.startswith('onchip.')})"
    )
    loaded = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout.split()
    folders = {name for name in loaded if (PACKAGE / name).is_dir()}
    assert folders <= {*ROOMS, *NO_METHODS}
