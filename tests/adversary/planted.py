"""The faults that are planted one at a time, to test that the adversary finds each: `make planted`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

PLANTED: Final[Mapping[str, Mapping[str, Mapping[str, tuple[str, str]]]]] = {
    "pack": {
        "src/onchip/native/arena.cpp": {
            "the least arena pads the topmost buffer, too": (
                "most = std::max(most, live - paddings.rbegin()->first);",
                "most = std::max(most, live);",
            )
        },
        "src/onchip/memory/allocate/pools.py": {
            "bytes surely outside forget that one step's excess is not all steps'": (
                "return too_large + max(0, most - problem.capacity_bytes)",
                "return too_large + max(0, most + 1 - problem.capacity_bytes)",
            ),
            "what is kept may take one unit less than there is": (
                "for units in (whole, whole + 1))",
                "for units in (whole - 1, whole))",
            ),
        },
        "src/onchip/memory/allocate/exact.py": {
            "what ends in the last, partial unit does not count as short": (
                "short = [0 < one.size_bytes % alignment <= partial for one in buffers]",
                "short = [0 < one.size_bytes % alignment < partial for one in buffers]",
            )
        },
    },
    "pack-fixed": {
        "src/onchip/memory/allocate/exact.py": {
            "limits are rounded to sums of sizes although some offsets are fixed": (
                "    if not problem.has_fixed:\n        limits",
                "    if problem.buffers:\n        limits",
            )
        },
        "src/onchip/native/packing_attempt.cpp": {
            "buffers beside fixed ones are postponed": (
                "buffer < count && !has_fixed; ++buffer",
                "buffer < count; ++buffer",
            )
        },
        "src/onchip/native/packing_search.cpp": {
            "a fixed buffer may be raised as if it were passed over": (
                "if (state.low == state.support || one.fixed != none) continue;",
                "if (state.low == state.support) continue;",
            )
        },
    },
    "arena": {
        "src/onchip/formats/tflite/arena.py": {
            "variables of an arena plan share bytes": (
                "    lives |= dict.fromkeys(states, (0, len(network.operators) + 1))",
                "",
            )
        },
        "src/onchip/backends/tflm/check_arena_plan.py": {
            "offsets below -1 of constants pass": ("for name, offset in plan.negative:", "for name, offset in ():")
        },
    },
    "mutants": {
        "src/onchip/api/check_mapping.py": {
            "layers without a mapping are not missed": (
                "if name not in mapped]",
                "if name in mapped and name not in mapped]",
            )
        },
        "src/onchip/formats/own/mapping_yaml.py": {
            "a layer may have two mappings": ("        if name in named:", "        if name in named and not named:")
        },
    },
    "plan": {
        "src/onchip/native/joint_states.cpp": {
            "a state dominates though it lacks copies that the other has": (
                "while (copies != 0 && left >= 0) left -= ",
                "while (copies != 0 && left >= 0) left -= 0 * ",
            ),
            "safe: outputs may stand in for an input that is cheaper to evict": (
                "} else if (is_resident && left.cost <= evict_cost(state, tensor)) {",
                "} else if (is_resident) {",
            ),
            "of two that are alike, either may leave in place of the other, whoever reads them": (
                "if (mine != awaited && !runs_before(awaited, mine)) return false;",
                "if (mine == none) return false;",
            ),
        },
        "src/onchip/native/joint_parts.hpp": {
            "an eviction is charged a write though DRAM has a copy": (
                "return has(copied(state), tensor) ? one.load_cost : one.load_cost + one.store_cost;",
                "return one.load_cost + one.store_cost;",
            )
        },
        "src/onchip/model/lifetimes/indexed.py": {
            "a network output that leaves early is charged another write": (
                "if tensor.role is not Role.ACTIVATION)",
                "if tensor.role in (Role.INPUT, Role.PARAMETER))",
            ),
            "the last, partial unit takes a tensor that ends one byte beyond": (
                "if 0 < size % alignment <= partial)",
                "if 0 < size % alignment <= partial + 1)",
            ),
        },
        "src/onchip/native/peak.cpp": {
            "least peak: safe though more stays resident than before": (
                "return change.units < 0 ||",
                "return change.units <= 1 ||",
            )
        },
        "src/onchip/memory/decisions.py": {
            "a spill is stored a step after the tensor has left": (
                "stores.setdefault(stored.stop - 1 if can_wait else stored.start, []).append(stored)",
                "stores.setdefault(stored.stop if can_wait else stored.start, []).append(stored)",
            )
        },
    },
    "recompute": {
        "src/onchip/memory/remat/search.py": {
            "recompute: what an operator reads that runs again for another is forgotten": (
                "if not has_run or (self._may_run_again[operator] and indexed.writes[operator] & useful):",
                "if not has_run:",
            ),
            "recompute: a spill is not charged to the search": ("cost += indexed.store_costs[tensor]", "cost += 0"),
            "recompute: a state makes another useless that holds less": (
                "return cost <= other and not resident & ~state.resident and not stored & ~state.stored",
                "return cost <= other and not stored & ~state.stored",
            ),
            "recompute: a further run costs nothing to the search": (
                "more = brought[0] + (self._costs[operator] if has_run else 0)",
                "more = brought[0]",
            ),
            "recompute: what draws at random may run again": (
                "self._may_run_again = [indexed.problem.may_run_again(one) for one in operators]",
                "self._may_run_again = [True for one in operators]",
            ),
        }
    },
    "state": {
        "src/onchip/model/capacity/bounds.py": {
            "M_R counts both values of a state that is updated in place": (
                "        self._search((), frozenset())\n",
                "",
            )
        }
    },
    "baselines": {
        "src/onchip/mapping/tile_search/uneven.py": {
            "the least that cuts still cost is too high by a thousandth": (
                "grid = (cuts[placed].energy_pj + least[placed + 1]).reshape(shape)",
                "grid = (cuts[placed].energy_pj * (1 + 1e-3) + least[placed + 1]).reshape(shape)",
            ),
            "a label's bits of shared memories are forgotten before all its cuts are placed": (
                "is_open=_open(cuts, shared),",
                "is_open=[[False] * len(shared) for _ in _open(cuts, shared)],",
            ),
            "uneven forgets the second tile of a double-buffered memory": (
                "copies = np.where(self._machine.levels[lower].is_double_buffered & (self._episodes > 1), 2, 1)",
                "copies = np.where(self._machine.levels[lower].is_double_buffered & (self._episodes > 2), 2, 1)",
            ),
        },
        "src/onchip/mapping/baselines/loma.py": {
            "loma takes sums of several instances for complete if other loops stand beside each other, too": (
                "return serves is not None and any(",
                "return serves is not None and all(",
            )
        },
        "src/onchip/model/layer/tables.py": {
            "rows that a stride skips take no room": (
                "positions = self._block(axis, sizes) if is_stored else self._positions(axis, sizes)",
                "positions = self._positions(axis, sizes)",
            )
        },
        "src/onchip/mapping/cosa/program.py": {
            "CoSA's window weighs what it does where weights lie elsewhere": (
                "wide = round(self.objective_per_unit * window_weight(self.machine))",
                "wide = round(self.objective_per_unit * 0.1)",
            )
        },
        "src/onchip/bounds/layer/floors.py": {
            "the floor of a padded layer forgets that units work beside each other": (
                "return energy_pj, layer.macs / array.macs",
                "return energy_pj, layer.macs / 1",
            )
        },
        "src/onchip/formats/timeloop/architecture.py": {
            "a Timeloop memory keeps what it bypasses": (
                "if holds := described.keeps.get(one.name, tuple(Operand)):",
                "if holds := described.keeps.get(one.name, tuple(Operand)) and tuple(Operand):",
            )
        },
    },
    "map": {
        "src/onchip/native/exact.cpp": {
            "a mapping better by one cycle is not looked for": ("best() - 0.5", "best() - 1.5"),
            "energies within a hundredth count as equal": (
                "constexpr double slack = 1 + 1e-9;",
                "constexpr double slack = 1 + 1e-2;",
            ),
        },
        "src/onchip/native/exact.hpp": {
            "sums that are complete in no memory are forgotten": (
                "return 1 + space_.memories_of_outputs();",
                "return space_.memories_of_outputs() > 1 ? space_.memories_of_outputs() : 1;",
            )
        },
        "src/onchip/mapping/tile_search/exact.py": {
            "a run that is cut short claims that nothing is better": (
                "bound = min(proven, value) if stop else value",
                "bound = value",
            )
        },
        "src/onchip/native/exact_space.cpp": {
            "rows that a stride skips are in every way to cut an input": (
                "part.outputs /= prime;\n        found = std::min(found, prime * of(part).fewest);",
                "part.outputs /= prime;\n        found = std::min(found, prime * of(block).largest);",
            ),
            "an input is counted whole at the port of each instance": (
                "return joint * whole().channels * rows.fewest * columns.fewest;",
                "return space.touched[operand];",
            ),
        },
        "src/onchip/native/exact_descent.cpp": {
            "the first tile of all makes the loops wait, too": (
                "const double times = is_return(operand, move) ? returned : episodes - 1.0;",
                "const double times = is_return(operand, move) ? returned : episodes;",
            )
        },
    },
    "map-limits": {
        "src/onchip/mapping/prove/wide.py": {
            "the best even mapping is taken for the best of all": (
                (
                    "return replace(found, answer=even.answer, objective_value=even.objective_value, "
                    "optimal_among=among)"
                ),
                "return replace(even, method=found.method, space=found.space)",
            ),
            "the bound of even mappings is taken for that of all": (
                "found = SearchResult(Status.FEASIBLE, self.answer, value, bound, seconds, METHOD, stop, space)",
                (
                    "bound = min(value, max(bound, even.lower_bound if even else 0))\n"
                    "        found = SearchResult(Status.FEASIBLE, self.answer, value, bound, "
                    "seconds, METHOD, stop, space)"
                ),
            ),
        },
        "src/onchip/mapping/methods/cache.py": {
            "a second search proves the answer of the first": (
                "bound = min(value, max(kept.lower_bound, found.lower_bound))",
                "bound = value",
            )
        },
    },
    "fuse": {
        "src/onchip/scheduling/search/fusion.py": {
            "a single tiling is imposed on stacks for which it is not tried": (
                "found.append([one for one in dict.fromkeys((*one_tile, own)) if one in tried[span]])",
                "found.append([own])",
            ),
            "given groups are proven although maps between them may stay on chip": (
                "self.is_complete &= not any(self._homes(one) for one in between)",
                "self.is_complete &= True or not any(self._homes(one) for one in between)",
            ),
            "a map that two stacks read is alive for the first of them alone": (
                "if until.get(name := layer.output.name, 0) >= choice.span.start",
                "if until.get(name := layer.output.name, 0) == choice.span.start",
            ),
        },
        "src/onchip/bounds/network/relaxation.py": {
            "views through which stacks read are paid for, in the bound": (
                (
                    "if operator.name in self.free or (\n"
                    "                operator.outputs[0] in self._joined and not self.nests.get(operator.name)\n"
                    "            ):"
                ),
                "if operator.outputs[0] in self._joined and not self.nests.get(operator.name):",
            )
        },
        "src/onchip/model/group/layers.py": {
            "what goes on to the cache of rows is not loaded": (
                "load = MapCopy(made.computed, made.map.bits",
                "load = MapCopy(made.computed - made.to_rows, made.map.bits",
            )
        },
    },
    "scratchpads": {
        "src/onchip/bounds/retention/sure_gaps.py": {
            "the pool's forced cost pays for the compulsory write too": (
                "        if indexed.tensors[tensor].role is not Role.OUTPUT:\n",
                "        if indexed.tensors[tensor].role is not Role.PARAMETER:\n",
            )
        },
        "src/onchip/memory/retention/kept_gaps.py": {
            "a spill is forgotten unless the tensor leaves at its first gap": (
                "            for gap in self._gaps[tensor]:\n                self._model.add(spilled",
                "            for gap in self._gaps[tensor][:1]:\n                self._model.add(spilled",
            ),
            "the last, partial unit of a scratchpad is never used": (
                "self._model.add(used <= room.capacity_units + one_more)",
                "self._model.add(used <= room.capacity_units)",
            ),
        },
        "src/onchip/memory/retention/linked.py": {
            "what is passed on needs room beside all that is in the next step": (
                "        for place, stays in self._stays.items():\n            staying.setdefault",
                "        for place, stays in self._at.items():\n            staying.setdefault",
            )
        },
        "src/onchip/memory/retention/addressed.py": {
            "a tensor pinned for life may have two residencies over links": (
                "self._model.add(sum(residencies) <= 1).only_enforce_if",
                "self._model.add(sum(residencies) <= 2).only_enforce_if",
            )
        },
        "src/onchip/verify/replay.py": {
            "the verifier lets an operator write into two scratchpads": (
                "        elif len(residencies) > 1:\n",
                "        elif len(residencies) > 2:\n",
            )
        },
    },
    "latency": {
        "src/onchip/bounds/latency/latency_bounds.py": {
            "all scratchpads together are as large as the largest": (
                "    room = Memory(name, sum(memory.capacity_bytes for memory in memories))\n",
                "    room = Memory(name, max(memory.capacity_bytes for memory in memories))\n",
            ),
            "all scratchpads together are as fast as the slowest": (
                "        if all(_is_nowhere_above(rate, other) for other in known):\n",
                "        if all(_is_nowhere_above(other, rate) for other in known):\n",
            ),
            "readers that have run wait for a later load": (
                "self._tails[one] for one in self.ways.readers[each] if one in later)",
                "self._tails[one] for one in self.ways.readers[each])",
            ),
        },
        "src/onchip/memory/timed/homes.py": {
            "operands never fill a scratchpad to its last byte": (
                "fill.need_bytes > self._capacities[memory]:\n",
                "fill.need_bytes >= self._capacities[memory]:\n",
            )
        },
    },
    "tiles": {
        "src/onchip/ops/slicing.py": {
            "elements behind the last window are not read": (
                "following = self.size if stop == axis_size else stop // self.per * self.step + self.offset",
                "following = stop // self.per * self.step + self.offset",
            ),
            "a group's input channels are taken for one output channel's": (
                "per, step = written.terms[outer], dimension.terms[outer]",
                "per, step = 1, dimension.terms[outer]",
            ),
        },
        "src/onchip/ir/window.py": {
            "a window without its dilation": ("return (self.kernel - 1) * self.dilation + 1", "return self.kernel")
        },
        "src/onchip/scheduling/tiles/bounds.py": {
            "borders between tiles are counted twice": (
                "behind_it = np.maximum(held, link.border) * link.row_bytes + after[ran]",
                "behind_it = (held + link.border) * link.row_bytes + after[ran]",
            ),
            "the smallest tile is the largest": ("return min((whole, *tilings))", "return max((whole, *tilings))"),
        },
    },
    "audit": {
        "src/onchip/audits/crossings.py": {
            "audit: an output of the network pays for a store even if it is already in DRAM": (
                "if one.role is Role.ACTIVATION:",
                "if one.role is not Role.INPUT:",
            ),
            "audit: what crosses an operator has a unit less of room": (
                "left = self._room - sum(",
                "left = self._room - 1 - sum(",
            ),
        },
        "src/onchip/audits/moments.py": {
            "audit: solutions must be two below the bound": (
                "self.model.add(total <= self.shape.bound - 1)",
                "self.model.add(total <= self.shape.bound - 2)",
            ),
            "audit: residents that overlap are taken for a plan": (
                "            self.model.add_no_overlap(intervals)\n",
                "            self.model.add_no_overlap(intervals[1:])\n",
            ),
            "audit: a network output is written to DRAM only if it has to leave": (
                "self.facts.tensors[tensor].role is Role.OUTPUT:\n                self.model.add(is_there == 1)",
                ("self.facts.tensors[tensor].role is Role.PARAMETER:\n                self.model.add(is_there == 1)"),
            ),
        },
        "src/onchip/audits/packing.py": {
            "audit: the last unit of a packing's alignment is lost": (
                "room = _units(self._capacity_bytes, alignment)",
                "room = self._capacity_bytes // alignment",
            )
        },
    },
    "schedule": {
        "src/onchip/bounds/layer/nest_floor.py": {
            "in the bound a map comes from the home that is dearest": (
                "return work.macs_with_input * floor.per_mac + work.inputs * min(floor.per_element.values())",
                "return work.macs_with_input * floor.per_mac + work.inputs * max(floor.per_element.values())",
            )
        },
        "src/onchip/model/program/figures.py": {
            "loads of parameters are not traffic": (
                "self.loads += tensor.size_bytes if copy.source == DRAM else 0",
                "self.loads += tensor.size_bytes if copy.source == DRAM and not is_parameter else 0",
            )
        },
        "src/onchip/model/program/compute_cost.py": {
            "tiles of sums have no workspace": (
                (
                    "bits = sum(need for (memory, _), need in needs.items() if memory == name) - "
                    "problem.resident_bits(name)"
                ),
                'bits = sum(need for (memory, one), need in needs.items() if memory == name and one != "output")',
            )
        },
        "src/onchip/scheduling/search/solve.py": {
            "the last schedule found is taken for the best": (
                "return min(self.attempts, key=lambda one: one.improver.best.key, default=None)",
                "return self.attempts[-1] if self.attempts else None",
            )
        },
    },
}
"""By level that is to find the fault, by file, by name: the text, which stands in the file once, and its fault."""
