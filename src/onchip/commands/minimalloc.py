"""`onchip-minimalloc`: MiniMalloc's command line, for compilers that call MiniMalloc.

The command is the native program `onchip/native/onchip-minimalloc`, which needs no Python; this module starts it.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

PROGRAM: Final = Path(__file__).parent.parent / "native" / ("onchip-minimalloc" + (".exe" if os.name == "nt" else ""))


def main() -> int:
    """Become the native program; the exit code is 0 with an allocation, else 1."""
    arguments = [str(PROGRAM), *sys.argv[1:]]
    if os.name != "nt":
        os.execv(PROGRAM, arguments)
    import subprocess

    return subprocess.call(arguments)


if __name__ == "__main__":
    sys.exit(main())
