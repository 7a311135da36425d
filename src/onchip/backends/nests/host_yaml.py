"""The accelerator `host`: this machine, measured once and kept in a file of the cache folder."""

from __future__ import annotations

from pathlib import Path

from onchip.arch.accelerator import Accelerator
from onchip.backends.nests.host import (
    HostCache,
    HostRates,
    host_accelerator,
    host_caches,
    host_compiler,
    host_rates,
    machine_key,
)
from onchip.errors import InputError, OutputError
from onchip.formats.files import write_file
from onchip.formats.own.accelerator_yaml import accelerator_to_yaml, read_accelerator
from onchip.kept_folder import cache_folder


def load_host() -> Accelerator:
    """Return the measured machine from its file, or measure it now; raises InputError if that fails."""
    place = kept_host_file()
    if place is not None and place.is_file():
        try:
            return read_accelerator(place)
        except InputError:  # another version wrote it: it is measured again
            pass
    accelerator, text = measure_host()
    if place is not None:
        keep_host(text, place)
    return accelerator


def measure_host() -> tuple[Accelerator, str]:
    """Measure the machine; return it with its accelerator file. Raises InputError without a compiler or caches."""
    caches = host_caches()
    rates = host_rates(caches, host_compiler())
    accelerator = host_accelerator(caches, rates)
    return accelerator, _comments(caches, rates) + accelerator_to_yaml(accelerator)


def kept_host_file() -> Path | None:
    """Return the file that `--accelerator host` reads, or None without a cache folder."""
    folder = cache_folder()
    return None if folder is None else folder / f"host-{machine_key()}.yaml"


def keep_host(text: str, place: Path) -> bool:
    """Write the measured machine to its file; return True if that succeeded."""
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        write_file(place, text.encode())
    except (OSError, OutputError):
        return False
    return True


def _comments(caches: tuple[HostCache, ...], rates: HostRates) -> str:
    lanes = 8 * rates.vector_bytes // 32
    lines = [
        f"one core of this machine: {rates.units} units of {lanes} lanes of float32 at {rates.clock_mhz} MHz, and",
        f"{rates.registers} vector registers. A cycle is one multiply-accumulate of a vector, energies are cycles.",
        "GB/s read and written: "
        + ", ".join(
            f"{name} {read / 1000:.1f} and {written / 1000:.1f}"
            for name, (read, written) in zip((*(f"l{one.level}" for one in caches), "DRAM"), rates.moved, strict=True)
        ),
    ]
    return "".join(f"# {line}\n" for line in lines)
