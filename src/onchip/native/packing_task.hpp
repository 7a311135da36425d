// Packing as compilers ask for it: buffers with their own alignment, fixed offset and gaps, in one memory.
//
// Nothing here needs Python; `onchip_pack.h` is the C interface. The exact search is `packing.hpp`, the heuristics for
// many buffers are `arena.hpp`; docs/packing.md has the proofs.

#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

#include "packing.hpp"
#include "stop.hpp"

namespace onchip::packing {

using Bytes = Units;
using Step = std::int64_t;

inline constexpr Step most_steps = Step{1} << 62;

// Steps [start, stop).
struct Interval {
    Step start = 0;
    Step stop = 0;
};

// A buffer, live over [start, stop) except in its gaps. It keeps its offset over all of its lifetime.
struct Request {
    Step start = 0;
    Step stop = 0;
    Bytes size = 0;
    Bytes alignment = 1;
    Bytes fixed = none;          // the only legal offset, or none
    std::vector<Interval> gaps;  // in order, disjoint, inside the lifetime

    // Returns the intervals in which the buffer is live.
    std::vector<Interval> lives() const;
};

struct Task {
    std::vector<Request> buffers;
    Bytes capacity = 0;

    // Throws std::invalid_argument, with the entry, if the task is invalid.
    void check() const;

    // Returns the task of some of the buffers.
    Task part(const std::vector<Index>& kept) const;

    // Returns the task of the buffers that live in these steps, without their other steps.
    Task clipped(Interval steps) const;
};

enum class Verdict { optimal, feasible, infeasible, unknown };

// The result. `lower_bound` is proven for any packing; `offsets` and `arena` are set if there is a packing.
struct Answer {
    Verdict verdict = Verdict::unknown;
    std::vector<Bytes> offsets;
    Bytes arena = none;
    Bytes lower_bound = 0;
    std::int64_t nodes = 0;  // decisions of the exact search; others count as long as they take
};

// Buffers that do not fit together; `is_irreducible` if every proper subset is proven to fit.
struct Conflict {
    std::vector<Index> buffers;
    bool is_irreducible = false;
};

struct Effort {
    bool minimize = false;  // find the lowest arena, else any that fits
    std::int64_t most_nodes = std::numeric_limits<std::int64_t>::max();
    std::uint64_t seed = 0;
    std::int64_t repairs = 0;  // rounds of skylines and repairs before the exact search
};

// Called with the best arena (`none` before the first), the lower bound, and the nodes so far.
using Progress = std::function<void(Bytes, Bytes, std::int64_t)>;

// Packs the buffers. Ends early after a stop request, with the best packing so far.
Answer solve(const Task& task, const Effort& effort, const StopToken& stop, const Progress& progress);

// Shrinks the buffers of an infeasible task to a conflict. Each test takes at most the nodes of the effort.
Conflict conflict_of(const Task& task, const Effort& effort, const StopToken& stop);

// Returns a lower bound on the arena: the most bytes alive at a step, and the end of each fixed buffer.
Bytes least_arena(const Task& task);

// Returns the first step in which the most bytes are alive.
Step fullest_step(const Task& task);

// Returns true if two fixed buffers overlap.
bool fixed_overlap(const Task& task);

}  // namespace onchip::packing
