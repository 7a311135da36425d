"""`onchip-minimalloc`: the packing engine behind MiniMalloc's command line, for compilers that call MiniMalloc.

Flags, CSV files and exit codes are those of google/minimalloc: 0 with an allocation, 1 without one. Flags that only
steer MiniMalloc's search are accepted and have no effect. Nothing but the packing is imported, so that it starts fast.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from onchip.answer.result import Status
from onchip.api.pack import pack_file
from onchip.errors import OnchipError, UsageError
from onchip.formats.minimalloc import write_packing
from onchip.search.budget.limits import Limits

_OF_MINIMALLOC: Final = frozenset(
    {"canonical_only", "section_inference", "dynamic_ordering", "check_dominance", "unallocated_floor"}
    | {"static_preordering", "dynamic_decomposition", "monotonic_floor", "hatless_pruning"}
)
"""Flags that switch parts of MiniMalloc's search on and off."""
_SWITCHES: Final = _OF_MINIMALLOC | {"validate", "minimize_capacity"}
_VALUES: Final = frozenset({"capacity", "input", "output", "timeout", "preordering_heuristics"})
_SECONDS: Final = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}


@dataclass(frozen=True, slots=True)
class MiniMallocRequest:
    """The request of a MiniMalloc command line.

    Attributes
    ----------
    capacity_bytes
        Greatest end of a buffer; 0 if the capacity is to be minimised without a limit.
    time_limit_seconds
        Limit of the search, or None.

    """

    input: Path
    output: Path | None
    capacity_bytes: int
    minimizes: bool
    validates: bool
    time_limit_seconds: float | None

    @classmethod
    def of_arguments(cls, arguments: Sequence[str]) -> MiniMallocRequest:
        """Return the request; raises UsageError for an unknown flag, and for a value of another form."""
        flags = dict(_flags(arguments))
        capacity = flags.get("capacity", "0")
        if not capacity.isdecimal():
            raise UsageError(f"it is {capacity!r}", place="--capacity", expected="a number of bytes")
        if not flags.get("input"):
            raise UsageError("it is missing", place="--input", expected="a CSV file: id,lower,upper,size")
        return cls(
            Path(flags["input"]),
            Path(flags["output"]) if flags.get("output") else None,
            int(capacity),
            flags.get("minimize_capacity") == "true",
            flags.get("validate") == "true",
            _seconds(flags.get("timeout", "inf")),
        )


def _flags(arguments: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield names and values: `--name=value`, `--name value`, `--switch`, `--noswitch`, with dashes or underscores."""
    waiting = list(arguments)
    while waiting:
        argument = waiting.pop(0)
        name, has_value, value = argument.lstrip("-").partition("=")
        name = name.replace("-", "_")
        if not argument.startswith("-"):
            raise UsageError(f"{argument!r} is no flag", expected="--capacity, --input, --output, ...")
        if name in _SWITCHES:
            yield name, value.lower() if has_value else "true"
        elif name.removeprefix("no").lstrip("_") in _SWITCHES and name.startswith("no"):
            yield name.removeprefix("no").lstrip("_"), "false"
        elif name in _VALUES and (has_value or waiting):
            yield name, value if has_value else waiting.pop(0)
        else:
            what = "it has no value" if name in _VALUES else "there is no such flag"
            raise UsageError(what, place=argument, expected=f"one of --{', --'.join(sorted(_VALUES | _SWITCHES))}")


def _seconds(text: str) -> float | None:
    """Return a duration of one or several parts, as `60s` or `1h30m`; None for `inf`. Raises UsageError."""
    if text in ("inf", "infinite", ""):
        return None
    parts = re.findall(r"([0-9]*\.?[0-9]+)(ns|us|ms|s|m|h)", text)
    if "".join(map("".join, parts)) != text:
        raise UsageError(f"{text!r} is no duration", place="--timeout", expected="60s, 500ms, 1h30m or inf")
    return sum(float(number) * _SECONDS[unit] for number, unit in parts)


def allocate(request: MiniMallocRequest) -> list[str]:
    """Pack the buffers, write the file, and return the lines that MiniMalloc would log.

    Raises OnchipError for unreadable files, and if there is no allocation in time.
    """
    capacity_bytes = None if request.minimizes and not request.capacity_bytes else request.capacity_bytes
    limits = Limits(time_limit_seconds=request.time_limit_seconds)
    outcome = pack_file(request.input, capacity_bytes, None, limits, minimize=request.minimizes)
    result = outcome.result
    if result.answer is None or (capacity_bytes is not None and (result.objective_value or 0) > capacity_bytes):
        is_proven = result.lower_bound > (capacity_bytes or 0) or result.status is Status.INFEASIBLE
        reason = "NOT_FOUND: the buffers do not fit" if is_proven else "DEADLINE_EXCEEDED: no answer in time"
        raise OnchipError(f"{reason} in {capacity_bytes} bytes", file=str(request.input))
    if request.output is not None:
        write_packing(outcome.ids, outcome.problem, result.answer, request.output)
    lines = [f"Elapsed time {outcome.seconds:.3f}s"]
    if request.validates:  # `pack_file` has verified the offsets
        lines.append(f"Validation PASS, height {result.objective_value}")
    return lines


def main() -> int:
    """Run the command; the exit code is 0 with an allocation, else 1."""
    try:
        lines = allocate(MiniMallocRequest.of_arguments(sys.argv[1:]))
    except OnchipError as error:
        print(error, file=sys.stderr)
        return 1
    print(*lines, sep="\n", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
