"""Faults of the exact mapper."""

from __future__ import annotations

from typing import Final

from adversary.plant import Planted

EXACT = "src/onchip/mapping/tile_search/exact.py"
FAULTS: Final = (
    Planted(
        "a mapping better by one cycle is not looked for",
        "src/onchip/native/exact.cpp",
        "best() - 0.5",
        "best() - 1.5",
        "map",
    ),
    Planted(
        "sums that are complete in no memory are forgotten",
        "src/onchip/native/exact.hpp",
        "return 1 + space_.memories_of_outputs();",
        "return space_.memories_of_outputs() > 1 ? space_.memories_of_outputs() : 1;",
        "map",
    ),
    Planted(
        "energies within a hundredth count as equal",
        "src/onchip/native/exact.cpp",
        "constexpr double slack = 1 + 1e-9;",
        "constexpr double slack = 1 + 1e-2;",
        "map",
    ),
    Planted(
        "a run that is cut short claims that nothing is better",
        EXACT,
        "bound = min(proven, value) if stop else value",
        "bound = value",
        "map",
    ),
    Planted(
        "rows that a stride skips are in every way to cut an input",
        "src/onchip/native/exact_space.cpp",
        "part.outputs /= prime;\n        found = std::min(found, prime * of(part).fewest);",
        "part.outputs /= prime;\n        found = std::min(found, prime * of(block).largest);",
        "map",
    ),
    Planted(
        "the first tile of all makes the loops wait, too",
        "src/onchip/native/exact_descent.cpp",
        "const double times = is_return(operand, move) ? returned : episodes - 1.0;",
        "const double times = is_return(operand, move) ? returned : episodes;",
        "map",
    ),
    Planted(
        "an input is counted whole at the port of each instance",
        "src/onchip/native/exact_space.cpp",
        "return joint * whole().channels * rows.fewest * columns.fewest;",
        "return space.touched[operand];",
        "map",
    ),
    Planted(
        "layers without a mapping are not missed",
        "src/onchip/api/check_mapping.py",
        "if name not in mapped]",
        "if name in mapped and name not in mapped]",
        "mutants",
    ),
    Planted(
        "a layer may have two mappings",
        "src/onchip/formats/own/mapping_yaml.py",
        "        if name in named:",
        "        if name in named and not named:",
        "mutants",
    ),
)
