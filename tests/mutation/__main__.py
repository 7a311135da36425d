"""`python -m mutation [MODULE ...]`: every mutant of the verifier's modules against the tests that run it.

A module is named by its path in `verify`, such as `schedule/costs`. Prints each survivor and a table; ends with 1 if a
mutant survives that `equivalent.py` does not explain, or if it explains a killed or a missing mutant.
"""

from __future__ import annotations

import argparse
import os
import sys
from math import inf

from mutation.run import MODULES, MutationRun


def main() -> int:
    parser = argparse.ArgumentParser(prog="mutation", description=__doc__)
    parser.add_argument("modules", nargs="*", metavar="MODULE", help="of `verify`; all without any")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="try one mutant of so many")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, metavar="N", help="processes at a time")
    parser.add_argument("--seconds", type=float, default=inf, metavar="N", help="compute of the tests of a mutant")
    parser.add_argument("--survivors", action="store_true", help="try only those that no earlier run has found out")
    parser.add_argument("--explained", action="store_true", help="try those that are explained, too")
    asked = parser.parse_args()
    if unknown := [module for module in asked.modules if module not in MODULES]:
        parser.error(f"no module of the verifier: {', '.join(unknown)}; there is {', '.join(MODULES)}")
    run = MutationRun(asked)
    run.start()
    print(run.table())
    return int(run.is_anything_wrong)


if __name__ == "__main__":
    sys.exit(main())
