"""Scratchpads and what leads from one to another, in words."""

from __future__ import annotations

from onchip.answer.problem import Problem
from onchip.arch.memory import Memory, Operand
from onchip.model.capacity.bounds import OperatorNeed
from onchip.reports.shared.words import exact_bytes, short_bytes
from onchip.verify.figures import Figures


def memory_words(memory: Memory, size: str) -> str:
    """`left of 4 KiB (aligned to 8, holds input and weight)`; what holds everything does not say so."""
    notes = [f"aligned to {memory.alignment_bytes}"] if memory.alignment_bytes > 1 else []
    if set(memory.holds) != set(Operand):
        notes.append(f"holds {operand_words(memory)}")
    return f"{memory.name} of {size}" + (f" ({', '.join(notes)})" if notes else "")


def least_need_words(need: OperatorNeed, setters: str) -> str:
    """`864 bytes, set by pool`, or `at most 864 bytes` if a smaller M_R was not ruled out."""
    return f"{'' if need.is_proven else 'at most '}{exact_bytes(need.need_bytes)}, set by {setters}"


def memory_title(memory: Memory) -> str:
    """`left, 4 KiB, for input and weight`."""
    title = f"{memory.name}, {short_bytes(memory.capacity_bytes)}"
    return title if set(memory.holds) == set(Operand) else f"{title}, for {operand_words(memory)}"


def operand_words(memory: Memory) -> str:
    """Name what a memory holds: `input and weight`."""
    return " and ".join(memory.holds)


def links_words(problem: Problem) -> str:
    """Name the ways between scratchpads: `left -> right, right -> left`."""
    return ", ".join(f"{source} -> {target}" for source, target in problem.transfers.links)


def arenas_words(figures: Figures) -> str:
    """Of each scratchpad where there are several, behind a colon; else nothing."""
    if len(figures.arenas) == 1:
        return ""
    return ": " + ", ".join(f"{name} {arena_bytes:,}" for name, arena_bytes in figures.arenas)
