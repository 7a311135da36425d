"""The C99 header of a plan: arena sizes, identifiers of memories, tensors and operators, types of the tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from onchip.backends.c.names import number
from onchip.backends.c.program import CProgram

_TYPES = """
/* Every size and offset. */
typedef {bytes_type} {stem}_bytes;

enum {stem}_kind {{ {prefix}_ALLOCATE, {prefix}_COPY, {prefix}_COMPUTE, {prefix}_FREE }};

struct {stem}_memory {{
    const char *name;
    {stem}_bytes capacity_bytes;
    {stem}_bytes arena_bytes;
    {stem}_bytes alignment_bytes;
}};

struct {stem}_tensor {{
    const char *name;
    {stem}_bytes size_bytes;
}};

/* A tensor lies in a scratchpad at one offset over the instructions [start, stop). */
struct {stem}_residency {{
    uint32_t tensor;
    uint32_t memory;
    {stem}_bytes offset_bytes;
    uint32_t start;
    uint32_t stop;
}};

/* What to do, one after the other:
   ALLOCATE  a residency begins in memory `target` (and `source`)
   COPY      the bytes of a tensor move from memory `source` to memory `target`
   COMPUTE   an operator runs
   FREE      a residency ends in memory `source` (and `target`) */
struct {stem}_instruction {{
    enum {stem}_kind kind;
    uint32_t subject;   /* of COMPUTE an operator, else a tensor */
    uint32_t residency; /* in the scratchpad, of two the target; of COMPUTE {prefix}_RESIDENCIES, which is none */
    uint32_t origin;    /* of a COPY from scratchpad to scratchpad the residency in the source, else none */
    uint32_t source;
    uint32_t target;
}};

extern const struct {stem}_memory {stem}_memories[{prefix}_MEMORIES]; /* DRAM, the first, has no size */
extern const struct {stem}_tensor {stem}_tensors[{prefix}_TENSORS];
extern const char *const {stem}_operators[{prefix}_OPERATORS];
extern const struct {stem}_residency {stem}_residencies[{prefix}_RESIDENCIES + !{prefix}_RESIDENCIES];
extern const struct {stem}_instruction {stem}_program[{prefix}_INSTRUCTIONS];
"""


PLAN_TITLE: Final = "A memory plan, written by onchip: how a network uses scratchpads."


def header_of(program: CProgram, title: str = PLAN_TITLE, further: Sequence[str] = ()) -> str:
    """The header, with further declarations behind those of a program; raises PlanError for numbers beyond 64 bits."""
    guard = f"ONCHIP_{program.prefix}_H"
    parts = [
        f"/* {title} */",
        f"#ifndef {guard}\n#define {guard}\n\n#include <stdint.h>",
        '#ifdef __cplusplus\nextern "C" {\n#endif',
        "\n".join(_counts(program)),
        "\n".join(_sizes(program)),
        _enumeration(program, "memory_id", program.memory_identifiers),
        _enumeration(program, "tensor_id", program.tensor_identifiers),
        _enumeration(program, "operator_id", program.operator_identifiers),
        _TYPES.strip("\n").format(stem=program.stem, prefix=program.prefix, bytes_type=program.bytes_type),
        *further,
        "#ifdef __cplusplus\n}\n#endif",
        f"#endif /* {guard} */",
    ]
    return "\n\n".join(parts) + "\n"


def _counts(program: CProgram) -> Iterator[str]:
    for what, names in (
        ("MEMORIES", program.memory_identifiers),
        ("TENSORS", program.tensors),
        ("OPERATORS", program.operators),
        ("RESIDENCIES", program.residencies),
        ("INSTRUCTIONS", program.plan.instructions),
    ):
        yield f"#define {program.prefix}_{what} {len(names)}u"


def _sizes(program: CProgram) -> Iterator[str]:
    """What a scratchpad must have: an arena of so many bytes, at a multiple of so many."""
    for memory in program.plan.memories:
        name = program.memory_identifier[memory.name].removeprefix(f"{program.prefix}_MEMORY_")
        for what, value in (
            ("CAPACITY_BYTES", memory.capacity_bytes),
            ("ARENA_BYTES", program.arena_bytes(memory)),
            ("ALIGNMENT_BYTES", memory.alignment_bytes),
        ):
            yield f"#define {program.prefix}_{what}_{name} {number(value, what.lower())}"


def _enumeration(program: CProgram, what: str, identifiers: Sequence[str]) -> str:
    lines = "".join(f"\n    {name} = {value}," for value, name in enumerate(identifiers)).removesuffix(",")
    return f"enum {program.stem}_{what} {{{lines}\n}};"
