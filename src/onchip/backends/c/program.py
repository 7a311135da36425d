"""A plan in the words that header and source share."""

from __future__ import annotations

from dataclasses import dataclass

from onchip.answer.problem import Problem
from onchip.answer.program import Plan
from onchip.answer.residencies import Residency, residencies_of
from onchip.arch.memory import DRAM, Memory
from onchip.backends.c.names import fits_in_32_bits, identifier, unique_identifiers
from onchip.ir.operator import Operator
from onchip.ir.tensor import Tensor


@dataclass(frozen=True, slots=True)
class CProgram:
    """`stem` names everything: types and tables in lower case, constants in upper case.

    The identifiers stand in the order of what they name; the first of `memory_identifiers` is DRAM's.
    """

    stem: str
    network: str
    plan: Plan
    tensors: tuple[Tensor, ...]
    operators: tuple[Operator, ...]
    residencies: tuple[Residency, ...]
    memory_identifiers: tuple[str, ...]
    tensor_identifiers: tuple[str, ...]
    operator_identifiers: tuple[str, ...]

    @property
    def prefix(self) -> str:
        """Return what the names of all constants begin with."""
        return self.stem.upper()

    @property
    def memory_identifier(self) -> dict[str, str]:
        """Return for the name of each memory, DRAM among them, its identifier in C."""
        names = (DRAM, *(memory.name for memory in self.plan.memories))
        return dict(zip(names, self.memory_identifiers, strict=True))

    @property
    def tensor_identifier(self) -> dict[str, str]:
        """Return for the name of each tensor its identifier in C."""
        return dict(zip((tensor.name for tensor in self.tensors), self.tensor_identifiers, strict=True))

    def arena_bytes(self, memory: Memory) -> int:
        """The highest end address of any residency in it."""
        return max((one.end_bytes for one in self.residencies if one.memory == memory.name), default=0)

    @property
    def bytes_type(self) -> str:
        """The narrowest type for every size and offset."""
        sizes = [memory.capacity_bytes for memory in self.plan.memories]
        sizes += [tensor.size_bytes for tensor in self.tensors]
        return "uint32_t" if fits_in_32_bits(sizes) else "uint64_t"


def c_program(problem: Problem, plan: Plan, name: str) -> CProgram:
    """The program of a legal plan; `name` becomes the stem of its identifiers."""
    letters = identifier(name).lower()
    stem = letters if letters[:1].isalpha() else f"plan_{letters}"
    tensors, operators = problem.counted_tensors, problem.graph.operators
    prefix = stem.upper()
    return CProgram(
        stem,
        problem.graph.name,
        plan,
        tensors,
        operators,
        residencies_of(plan, problem.graph),
        tuple(unique_identifiers(f"{prefix}_MEMORY_", (DRAM, *(memory.name for memory in plan.memories)))),
        tuple(unique_identifiers(f"{prefix}_TENSOR_", (tensor.name for tensor in tensors))),
        tuple(unique_identifiers(f"{prefix}_OPERATOR_", (operator.name for operator in operators))),
    )
