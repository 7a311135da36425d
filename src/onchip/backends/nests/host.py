"""One core of the processor of this machine as an accelerator: vector registers, caches and DRAM.

A cycle is that of one multiply-accumulate of a vector: a core with two units has twice as many as its clock says. What
the caches hold is read from the system (Linux: sysfs), how fast they are is measured (`host_probe.c`).
"""

from __future__ import annotations

import json
import platform
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from importlib.resources import as_file, files
from pathlib import Path
from re import fullmatch
from typing import Final

from onchip.arch.accelerator import Accelerator
from onchip.arch.compute import ComputeArray
from onchip.arch.memory import Access, Direction, Dram, Memory, MemoryLevel, Operand, Port
from onchip.backends.nests.host_compiler import HostCompiler
from onchip.errors import InputError

HOST: Final = "host"
CACHES: Final = Path("/sys/devices/system/cpu/cpu0/cache")
LANE: Final = "lane"
LANE_BYTES: Final = 4
WEIGHT_VECTORS: Final = 2
LINE_BITS: Final = 512
GREATEST_BUFFER_BYTES: Final = 256 * 2**20
"""What is read to measure DRAM, and the most of a cache."""
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
    """What the probe measured: vectors and registers, and per microsecond cycles, vectors multiplied and bytes moved.

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
    """The caches that hold data, nearest first; raises InputError where the system does not say them."""
    found = sorted((cache for entry in folder.glob("index*") for cache in _cache(entry)), key=lambda one: one.level)
    if not found:
        raise InputError("it says no caches", file=str(folder), expected="a Linux system that does")
    return tuple(found)


def host_rates(caches: Sequence[HostCache], compiler: HostCompiler) -> HostRates:
    """What the processor does in a microsecond, measured in some seconds; raises InputError where that fails.

    The best of several runs of a second or two each, as what others do to the core and its caches may last that long.
    """
    sizes = [min(cache.capacity_bytes // 2, GREATEST_BUFFER_BYTES // 8) for cache in caches]
    with tempfile.TemporaryDirectory() as folder, as_file(files("onchip.backends.nests") / "host_probe.c") as source:
        program = Path(folder) / "probe"
        compiler.build(source, program, is_library=False)
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
    """What seems slower than a memory behind it was disturbed: it is at least as fast."""
    found: list[tuple[float, float]] = []
    for read, written in reversed(rates):
        last = found[-1] if found else (0.0, 0.0)
        found.append((max(read, last[0]), max(written, last[1])))
    return tuple(reversed(found))


def host_accelerator(caches: Sequence[HostCache], rates: HostRates) -> Accelerator:
    """One core as an accelerator of float32: its cycle is one multiply-accumulate of a vector.

    Caches count as double buffered, as lines come while others are read, so that a tile takes at most half of one:
    more does not last where a few ways are all its places. The nearest is listed with twice its bytes: what passes
    through it replaces line by line what has passed. It reads a vector whole or not in a cycle. Energies are the
    cycles that an access takes: that of a vector, or of a line, however little of it is asked for.
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


def machine_key() -> str:
    """Return what tells this processor, and how it is probed, from others, as a short text for a file's name."""
    text = platform.machine() + platform.processor() + (files("onchip.backends.nests") / "host_probe.c").read_text()
    info = Path("/proc/cpuinfo")
    if info.exists():
        lines = info.read_text(encoding="utf-8", errors="replace").splitlines()
        text += "".join(sorted({line for line in lines if line.startswith(("model name", "flags", "Features"))}))
    return sha256(text.encode()).hexdigest()[:12]


def _registers(rates: HostRates) -> Iterator[MemoryLevel]:
    """A few vectors of weights, one input for all lanes, and sums in most of what is left."""
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
    """A whole vector or line, however little of it is asked for; its energy is its cycles."""
    read, written = (bits / port.bits_per_cycle for port in ports)
    return Access(bits, round(read, 3), round(written, 3))


def _bits(bytes_per_microsecond: float, rates: HostRates) -> int:
    return max(1, round(8 * bytes_per_microsecond / rates.multiplied))


def _cache(entry: Path) -> Iterator[HostCache]:
    """The cache that a folder of the system describes; none for one of instructions."""
    try:
        said = {name: (entry / name).read_text().strip() for name in ("type", "level", "size", "ways_of_associativity")}
    except OSError:
        return
    size = fullmatch(r"([0-9]+)([KMG]?)", said["size"])
    if said["type"] != "Instruction" and size is not None:
        yield HostCache(int(said["level"]), int(size[1]) * _UNITS.get(size[2], 1), int(said["ways_of_associativity"]))
