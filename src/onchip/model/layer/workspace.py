"""What a mapping needs of the addressed memories while its layer runs, beside the operands that lie whole there."""

from __future__ import annotations

from collections.abc import Mapping

from onchip.answer.layer_problem import LayerProblem


def workspace_bytes(problem: LayerProblem, needs: Mapping[tuple[str, str], int]) -> Mapping[str, int]:
    """By addressed memory, for tiles and for sums in the making that are wider at their home than the output is.

    `needs` are the `needed_bits` of a legal mapping. Memories of which nothing is needed are left out.
    """
    found: dict[str, int] = {}
    for level in problem.accelerator.addressed:
        name = level.memory.name
        bits = sum(need for (memory, _), need in needs.items() if memory == name) - problem.resident_bits(name)
        if bits:
            found[name] = -(-bits // 8)
    return found
