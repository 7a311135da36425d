"""The version of the methods depends on every source file that decides an answer."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import onchip
from onchip.errors import InternalError
from onchip.sweeps.store import NOT_HASHED, method_version, sources_of, version_of

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
