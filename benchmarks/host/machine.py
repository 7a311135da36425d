"""A core of this machine as an accelerator: its compiler, its caches, and a probe of their rates."""

from __future__ import annotations

import functools
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from re import fullmatch
from typing import Final

from onchip.arch.accelerator import Accelerator
from onchip.arch.compute import ComputeArray
from onchip.arch.memory import Access, Direction, Dram, Memory, MemoryLevel, Operand, Port
from onchip.errors import InputError

OPTIONS: Final = ("-std=gnu11", "-O3", "-march=native", "-Wall", "-Wextra")
NAMES: Final = ("cc", "gcc", "clang")
HOW_TO_GET_ONE: Final = "gcc or clang (on Debian: apt install gcc), or `pip install ziglang`"
LONGEST_COMPILE_SECONDS: Final = 300.0


@dataclass(frozen=True, slots=True)
class HostCompiler:
    """A compiler of C for this processor."""

    command: tuple[str, ...]

    def build(self, source: Path, target: Path, *, is_library: bool) -> None:
        """Compile a source into a program or a shared library; raises InputError with the compiler's first error."""
        kind = ("-shared", "-fPIC") if is_library else ()
        command = (*self.command, *OPTIONS, *kind, str(source), "-o", str(target))
        try:
            ended = subprocess.run(
                command, capture_output=True, text=True, timeout=LONGEST_COMPILE_SECONDS, check=False
            )
        except OSError as error:
            raise InputError(error.strerror or str(error), file=self.command[0], expected=HOW_TO_GET_ONE) from None
        except subprocess.TimeoutExpired:
            raise InputError(
                f"the C compiler did not finish within {LONGEST_COMPILE_SECONDS:g} seconds",
                file=self.command[0],
                expected="a compiler that ends",
            ) from None
        if ended.returncode != 0:
            lines = [line for line in ended.stderr.splitlines() if "error" in line] or [ended.stderr or "no word"]
            raise InputError(f"it does not compile: {lines[0]}", file=self.command[0], expected="a compiler of GNU C")


def host_compiler() -> HostCompiler:
    """Return the first compiler found; raises InputError, which says how to get one."""
    named = shlex.split(os.environ.get("CC", ""))
    if named:
        if shutil.which(named[0]) is None:
            raise InputError(f"there is no {named[0]!r}", place="CC", expected=HOW_TO_GET_ONE)
        return HostCompiler(tuple(named))
    for name in NAMES:
        if found := shutil.which(name):
            return HostCompiler((found,))
    if find_spec("ziglang") is not None:
        return HostCompiler((sys.executable, "-m", "ziglang", "cc"))
    raise InputError("no C compiler is found", expected=HOW_TO_GET_ONE)


HOST: Final = "host"
PROBE: Final = Path(__file__).with_name("host_probe.c")
CACHES: Final = Path("/sys/devices/system/cpu/cpu0/cache")
LANE: Final = "lane"
LANE_BYTES: Final = 4
WEIGHT_VECTORS: Final = 2
LINE_BITS: Final = 512
GREATEST_BUFFER_BYTES: Final = 256 * 2**20
"""Size of the buffer that measures DRAM, and limit on a cache."""
LONGEST_SECONDS: Final = 60.0
PROBES: Final = 3
_UNITS: Final = {"K": 2**10, "M": 2**20, "G": 2**30}


@dataclass(frozen=True, slots=True)
class HostCache:
    """A cache of data, its bytes, and into how many places of it a line may go."""

    level: int
    capacity_bytes: int
    ways: int


@dataclass(frozen=True, slots=True)
class HostRates:
    """Rates measured by the probe, per microsecond: cycles, multiplied vectors and moved bytes.

    `moved` has reads and writes of each cache, then of DRAM.
    """

    vector_bytes: int
    registers: int
    clock_mhz: float
    multiplied: float
    moved: tuple[tuple[float, float], ...]

    @property
    def units(self) -> int:
        """Return how many vectors it multiplies and adds in a cycle of its clock."""
        return max(1, round(self.multiplied / self.clock_mhz))


def host_caches(folder: Path = CACHES) -> tuple[HostCache, ...]:
    """Return the data caches, nearest first; raises InputError if the system does not list them."""
    found = sorted((cache for entry in folder.glob("index*") for cache in _cache(entry)), key=lambda one: one.level)
    if not found:
        raise InputError("it says no caches", file=str(folder), expected="a Linux system that does")
    return tuple(found)


def host_rates(caches: Sequence[HostCache], compiler: HostCompiler) -> HostRates:
    """Return the rates of the processor, measured in some seconds; raises InputError if that fails.

    Each rate is the best of several runs of a second or two, because other programs disturb the core that long.
    """
    sizes = [min(cache.capacity_bytes // 2, GREATEST_BUFFER_BYTES // 8) for cache in caches]
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "probe"
        compiler.build(PROBE, program, is_library=False)
        found = [_probed(program, (*sizes, GREATEST_BUFFER_BYTES)) for _ in range(PROBES)]
    of_each = zip(*(one.moved for one in found), strict=True)
    rates = [(max(read for read, _ in each), max(written for _, written in each)) for each in of_each]
    return replace(
        found[0],
        clock_mhz=max(one.clock_mhz for one in found),
        multiplied=max(one.multiplied for one in found),
        moved=_none_faster_than_the_one_before(rates),
    )


def _probed(program: Path, sizes: Sequence[int]) -> HostRates:
    try:
        ended = subprocess.run(
            [str(program), *map(str, sizes)], capture_output=True, text=True, timeout=LONGEST_SECONDS, check=True
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise InputError(f"the probe ended wrongly ({error})", place="measuring", expected="rates") from None
    said = json.loads(ended.stdout)
    rates = tuple((read, written) for read, written in said["rates"])
    return HostRates(
        said["vector_bytes"], said["registers"], said["clock_mhz"], said["multiplied_per_microsecond"], rates
    )


def _none_faster_than_the_one_before(rates: Sequence[tuple[float, float]]) -> tuple[tuple[float, float], ...]:
    """Raise each rate to at least the rate of the next memory, as a lower rate shows a disturbed measurement."""
    found: list[tuple[float, float]] = []
    for read, written in reversed(rates):
        last = found[-1] if found else (0.0, 0.0)
        found.append((max(read, last[0]), max(written, last[1])))
    return tuple(reversed(found))


def host_accelerator(caches: Sequence[HostCache], rates: HostRates) -> Accelerator:
    """Return one core as an accelerator of float32, whose cycle is one multiply-accumulate of a vector.

    Caches count as double buffered: lines arrive while others are read, so that a tile takes at most half of a cache.
    The nearest cache is listed with twice its bytes, because streamed lines replace streamed lines. It reads a whole
    vector per cycle. Energies are the cycles of an access: of a vector, or of a line, even if only a part is needed.
    """
    lanes = rates.vector_bytes // LANE_BYTES
    levels = [*_registers(rates)]
    for cache, (read, written) in zip(caches, rates.moved, strict=False):
        capacity_bytes = cache.capacity_bytes
        if cache.level == caches[0].level:
            capacity_bytes *= 2
            read = max(1, round(read / rates.multiplied / rates.vector_bytes)) * rates.multiplied * rates.vector_bytes
        ports = (Port(Direction.READ, _bits(read, rates)), Port(Direction.WRITE, _bits(written, rates)))
        levels.append(
            MemoryLevel(
                Memory(f"l{cache.level}", capacity_bytes, 64),
                (LANE,),
                is_scratchpad=True,
                double_buffered=True,
                access=_access(LINE_BITS if cache.level > caches[0].level else 8 * rates.vector_bytes, ports),
                ports=ports,
            )
        )
    read, written = rates.moved[-1]
    ports = (Port(Direction.READ, _bits(read, rates)), Port(Direction.WRITE, _bits(written, rates)))
    array = ComputeArray({LANE: lanes}, mac_energy_pj=1 / lanes, unrolls={LANE: ("K", "G")})
    scratchpads = tuple(level.memory for level in levels if level.is_scratchpad)
    dram = Dram(_access(LINE_BITS, ports), ports)
    return Accelerator(HOST, scratchpads, tuple(levels), round(rates.multiplied, 1), array, dram)


@functools.cache
def load_host() -> Accelerator:
    """Measure this machine, once in a process; raises InputError without a compiler or caches."""
    caches = host_caches()
    return host_accelerator(caches, host_rates(caches, host_compiler()))


def _registers(rates: HostRates) -> Iterator[MemoryLevel]:
    """Yield the registers: a few vectors of weights, one input for all lanes, and sums in most of the others."""
    sums = rates.registers - WEIGHT_VECTORS - 2
    free = Access(8 * LANE_BYTES, 0.0, 0.0)
    yield MemoryLevel(
        Memory("weight_register", 2 * WEIGHT_VECTORS * LANE_BYTES, holds=(Operand.WEIGHT,)),
        (),
        double_buffered=True,
        access=free,
    )
    yield MemoryLevel(
        Memory("input_register", 2 * LANE_BYTES, holds=(Operand.INPUT,)), (LANE,), double_buffered=True, access=free
    )
    yield MemoryLevel(Memory("sum_register", sums * LANE_BYTES, holds=(Operand.OUTPUT,)), (), access=free)


def _access(bits: int, ports: tuple[Port, Port]) -> Access:
    """Return the access of a whole vector or line; its energy is its cycles."""
    read, written = (bits / port.bits_per_cycle for port in ports)
    return Access(bits, round(read, 3), round(written, 3))


def _bits(bytes_per_microsecond: float, rates: HostRates) -> int:
    return max(1, round(8 * bytes_per_microsecond / rates.multiplied))


def _cache(entry: Path) -> Iterator[HostCache]:
    """Yield the data cache that a folder of the system describes."""
    try:
        said = {name: (entry / name).read_text().strip() for name in ("type", "level", "size", "ways_of_associativity")}
    except OSError:
        return
    size = fullmatch(r"([0-9]+)([KMG]?)", said["size"])
    if said["type"] != "Instruction" and size is not None:
        yield HostCache(int(said["level"]), int(size[1]) * _UNITS.get(size[2], 1), int(said["ways_of_associativity"]))
