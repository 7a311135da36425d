from __future__ import annotations

import os
import random
import resource
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from onchip.errors import OutputError
from onchip.formats.files import write_file, write_files
from onchip.whole_files import ensure_place, write_whole
from support.small_disk import small_disk_at
from support.writing import CONTENTS

KILLS = (signal.SIGKILL, signal.SIGTERM)


def contents_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def survives_kills(path: Path, kills: int) -> None:
    """Check that a file that is rewritten all the time is complete after each kill at a random moment."""
    moments = random.Random(0)
    for number in range(kills):
        path.write_bytes(CONTENTS[0])
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        process = subprocess.Popen([sys.executable, "-m", "support.writing", str(path)], env=environment)
        while path.read_bytes()[:1] == CONTENTS[0][:1]:
            assert process.poll() is None
        time.sleep(moments.random() * 0.02)
        process.send_signal(KILLS[number % len(KILLS)])
        process.wait()
        assert path.read_bytes() in CONTENTS
    left_behind = len(list(path.parent.iterdir())) - 1
    assert left_behind <= 2 + kills // 10  # it has a separate name only during the rename


@pytest.mark.slow
def test_a_file_is_whole_after_a_kill_at_any_moment(tmp_path: Path) -> None:
    survives_kills(tmp_path / "plan.json", 10)


@pytest.mark.slow
def test_a_file_is_whole_after_200_kills(tmp_path: Path) -> None:
    survives_kills(tmp_path / "plan.json", 200)


def test_a_new_file_has_the_permissions_that_new_files_have(tmp_path: Path) -> None:
    write_whole((tmp_path / "new", b"new"))
    (tmp_path / "like").touch()

    assert (tmp_path / "new").stat().st_mode == (tmp_path / "like").stat().st_mode


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o755, 0o666])
def test_permissions_are_kept(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "plan.json"
    path.write_bytes(b"old")
    path.chmod(mode)
    write_whole((path, b"new"))

    assert path.read_bytes() == b"new"
    assert stat.S_IMODE(path.stat().st_mode) == mode


@pytest.mark.skipif(os.geteuid() != 0, reason="files are given away by root alone")
def test_the_owner_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_bytes(b"old")
    os.chown(path, 1234, 4321)
    write_whole((path, b"new"))

    assert (path.stat().st_uid, path.stat().st_gid) == (1234, 4321)


def test_what_a_link_leads_to_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    target, link, onward = tmp_path / "folder" / "plan.json", tmp_path / "link", tmp_path / "onward"
    target.write_bytes(b"old")
    link.symlink_to(target)
    onward.symlink_to("link")
    write_whole((onward, b"new"))

    assert target.read_bytes() == b"new"
    assert link.is_symlink()
    assert onward.is_symlink()


def test_a_link_to_nothing_makes_its_target(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("absent")
    write_whole((tmp_path / "link", b"new"))

    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "absent").read_bytes() == b"new"


def test_a_link_to_itself_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("link")
    with pytest.raises(OSError, match="symbolic links"):
        write_whole((tmp_path / "link", b"new"))

    assert (tmp_path / "link").is_symlink()


def test_a_pipe_is_written_directly(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    found: list[bytes] = []
    reader = threading.Thread(target=lambda: found.append(pipe.read_bytes()))
    reader.start()
    write_whole((pipe, CONTENTS[0]))
    reader.join()

    assert found == [CONTENTS[0]]
    assert pipe.is_fifo()


def test_devices_stay_devices() -> None:
    write_whole((Path("/dev/null"), b"gone"))
    with pytest.raises(OutputError, match=r"/dev/full cannot be written \(No space left"):
        write_file(Path("/dev/full"), b"x")

    assert Path("/dev/null").is_char_device()
    assert Path("/dev/full").is_char_device()


@pytest.mark.parametrize("name", ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1", "out.txt"])
def test_where_standard_output_goes_is_written_behind_what_is_there(tmp_path: Path, name: str) -> None:
    program = f"""
import sys
from pathlib import Path
from onchip.whole_files import write_whole
print("before", flush=True)
write_whole((Path({name!r}), b"file\\n"))
print("after")
"""
    with (tmp_path / "out.txt").open("wb") as out:
        subprocess.run([sys.executable, "-c", program], stdout=out, cwd=tmp_path, check=True)

    assert (tmp_path / "out.txt").read_text() == "before\nfile\nafter\n"
    assert [path.name for path in tmp_path.iterdir()] == ["out.txt"]


def limited(folder: Path, size_bytes: int) -> Callable[[], None]:
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, size_bytes))

    return limit


def test_a_limit_on_the_size_of_files_leaves_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_bytes(b"old")
    program = (
        f"from pathlib import Path; from onchip.formats.files import write_file; write_file({path!r}, bytes(9999))"
    )
    program = program.replace("PosixPath", "Path")
    ended = subprocess.run(
        [sys.executable, "-c", program], preexec_fn=limited(tmp_path, 5000), capture_output=True, text=True, check=False
    )

    assert "cannot be written (File too large)" in ended.stderr
    assert contents_of(tmp_path) == {"plan.json": b"old"}


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Mount a file system of 64 KiB."""
    with small_disk_at(tmp_path / "disk", "64k") as is_mounted:
        if not is_mounted:
            pytest.skip("no file system can be mounted here")
        yield tmp_path / "disk"


def test_a_full_disk_leaves_the_old_file(small_disk: Path) -> None:
    path = small_disk / "plan.json"
    path.write_bytes(b"old" * 1000)
    with pytest.raises(OutputError, match="No space left on device"):
        write_file(path, bytes(2**17))

    assert contents_of(small_disk) == {"plan.json": b"old" * 1000}


def test_of_several_files_all_are_written_or_none(small_disk: Path) -> None:
    header, source = small_disk / "plan.h", small_disk / "plan.c"
    write_files((header, b"old header"), (source, b"old source"))
    with pytest.raises(OutputError, match=r"plan\.c cannot be written"):
        write_files((header, b"new header"), (source, bytes(2**17)))
    assert contents_of(small_disk) == {"plan.h": b"old header", "plan.c": b"old source"}

    write_files((header, b"new header"), (source, b"new source"))
    assert contents_of(small_disk) == {"plan.h": b"new header", "plan.c": b"new source"}


@pytest.mark.parametrize("has_unnamed_files", [True, False])
def test_an_interruption_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_unnamed_files: bool
) -> None:
    """The test includes systems without unnamed files."""

    def interrupted(descriptor: int) -> None:
        raise KeyboardInterrupt

    if not has_unnamed_files:
        monkeypatch.delattr(os, "O_TMPFILE", raising=False)
    path = tmp_path / "plan.json"
    write_whole((path, b"old"))
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", interrupted)
        with pytest.raises(KeyboardInterrupt):
            write_whole((path, b"new"))
    assert contents_of(tmp_path) == {"plan.json": b"old"}

    write_whole((path, b"new"))
    assert contents_of(tmp_path) == {"plan.json": b"new"}


def test_a_place_is_looked_at_and_left_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    ensure_place(path)
    assert contents_of(tmp_path) == {}

    path.write_bytes(b"old")
    ensure_place(path)
    assert contents_of(tmp_path) == {"plan.json": b"old"}
    with pytest.raises(IsADirectoryError):
        ensure_place(tmp_path)
    with pytest.raises(NotADirectoryError):
        ensure_place(path / "below")


def test_the_name_of_a_file_may_be_as_long_as_names_can_be(tmp_path: Path) -> None:
    write_whole((tmp_path / ("n" * 255), b"new"))

    assert contents_of(tmp_path) == {"n" * 255: b"new"}
