"""Mutated `.onnx`, `.pt2` and `.tflite` files: each is read, or refused in one line, in 10 s and 2 GiB.

    PYTHONPATH=tests python benchmarks/mutated_files.py [--count 2000] [--seed 0] [--only .pt2] [--keep FOLDER]

Bits are flipped, ends and parts are cut off, and fields stand in each other's place, at random, in small files of
every kind. Prints how many ended how; what should not have been is listed, and kept in FOLDER.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

import onnx

from onchip.api.networks import read_network
from onchip.errors import InputError
from support.mutated_files import MUTATIONS, Ended, ended, mutated
from support.quantised import random_quantised
from support.tflite_control_flow import branching, looping, with_variables

sys.path.insert(0, str(Path(__file__).parent.parent / "examples"))
from light_model import light_models

TFLITE_MICRO = Path(__file__).parent.parent / "tests" / "data" / "tflite"


def originals(folder: Path) -> dict[str, list[Path]]:
    """Return intact files by suffix; those of torch only if it is installed."""
    onnx.save(random_quantised(1), folder / "quantised.onnx")
    light = [path for name, path in light_models().items() if name in ("squeezenet", "shufflenet", "zfnet512")]
    controlled = {
        "branching": branching(),
        "unrolled": looping(3),
        "looping": looping(None),
        "stateful": with_variables(),
    }
    written = [model.write(folder / f"{name}.tflite") for name, model in controlled.items()]
    found = {
        ".onnx": [folder / "quantised.onnx", *light],
        ".tflite": [*sorted(TFLITE_MICRO.glob("*.tflite")), *written],
    }
    if find_spec("torch") is not None:
        from support.small_programs import small_programs

        found[".pt2"] = small_programs(folder)
    return found


def endings(folder: Path, count: int, seed: int, only: str | None) -> Iterator[tuple[Path, Ended]]:
    """Yield `count` mutated files, equally many of each kind, with the end of the attempt to read them."""
    chance = random.Random(seed)
    whole = {suffix: paths for suffix, paths in originals(folder).items() if only in (None, suffix)}
    for paths in whole.values():
        with suppress(InputError):  # import everything that is imported lazily once, here
            read_network(str(paths[0]))
    suffixes = sorted(whole)
    for number in range(count):
        original = chance.choice(whole[suffixes[number % len(suffixes)]])
        path = folder / f"{original.stem}.{number}{original.suffix}"
        path.write_bytes(mutated(original, chance))
        yield path, ended(path)
        path.unlink()


def main() -> None:
    """Print the figures; exit 1 where something should not have been."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=sorted(MUTATIONS))
    parser.add_argument("--keep", type=Path, metavar="FOLDER")
    asked = parser.parse_args()
    counts: Counter[tuple[str, str]] = Counter()
    most, faults = 0, 0
    with TemporaryDirectory() as folder:
        for path, one in endings(Path(folder), asked.count, asked.seed, asked.only):
            most = max(most, one.peak_bytes)
            counts[path.suffix, "read" if one.code == 0 else "refused"] += one.fault is None
            if one.fault is not None:
                faults += 1
                print(f"{path.name}: {one.fault}", flush=True)
                if asked.keep is not None:
                    asked.keep.mkdir(parents=True, exist_ok=True)
                    (asked.keep / path.name).write_bytes(path.read_bytes())
    for (suffix, how), number in sorted(counts.items()):
        print(f"{suffix} {how}: {number}")
    print(f"faults: {faults}; most {most / 2**20:.0f} MiB")
    sys.exit(faults > 0)


if __name__ == "__main__":
    main()
