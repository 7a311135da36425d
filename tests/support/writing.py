"""Writes one large file again and again until it is killed: `python -m support.writing FILE`."""

from __future__ import annotations

import sys
from itertools import cycle
from pathlib import Path

from onchip.whole_files import write_whole

SIZE_BYTES = 2**20
CONTENTS = tuple(bytes([letter]) * SIZE_BYTES for letter in b"abc")


def main() -> None:
    path = Path(sys.argv[1])
    for content in cycle(CONTENTS):
        write_whole((path, content))


if __name__ == "__main__":
    main()
