"""Prints what extras of onchip need, a requirement a word: installed so, onchip is not compiled again.

python tools/requirements.py EXTRA ...
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1] / "pyproject.toml"
OWN = re.compile(r"onchip\[(?P<extras>[^]]*)\]")


def requirements(extras: Mapping[str, list[str]], name: str) -> Iterator[str]:
    """What an extra asks for, and what the extras ask for that it names."""
    for wanted in extras[name]:
        if own := OWN.fullmatch(wanted):
            for other in own["extras"].split(","):
                yield from requirements(extras, other)
        else:
            yield wanted


def main() -> int:
    """Of the extras that are named."""
    extras = tomllib.loads(PROJECT.read_text())["project"]["optional-dependencies"]
    if unknown := [name for name in sys.argv[1:] if name not in extras]:
        print(f"{PROJECT.name}: no extra {unknown[0]!r}; expected some of {', '.join(extras)}", file=sys.stderr)
        return 2
    print(*(one for name in sys.argv[1:] for one in requirements(extras, name)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
