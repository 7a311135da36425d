// A beam search over layouts: addresses for one order, close to the desired residencies.
//
// A layout is the set of residents and their addresses between two operators. Missing operands are placed one by one,
// the largest first: at either end of a gap that is large enough, or in place of a minimal run of evicted neighbours.
// The beam keeps the cheapest layouts. If an operand finds no place, all residents are evicted and the operands are
// stacked. Any width gives a legal plan; none proves a bound.
//
// Terms. A tensor that should stay until its next use `is_wanted`. Otherwise it is idle in memory until its bytes are
// needed, at no cost: its eviction is charged after its last use, and refunded if it is still resident at the next.

#pragma once

#include <cstdint>
#include <vector>

#include "stop.hpp"

namespace onchip::layouts {

using Bytes = std::int64_t;
using Cost = std::int64_t;
using Index = std::int32_t;

inline constexpr Index none = -1;

// `store` is 0 if DRAM has a copy whenever the tensor could leave.
struct Tensor {
    Bytes size = 0;
    Cost load = 0;
    Cost store = 0;
};

// An operand of an operator.
struct Use {
    Index tensor = none;
    bool is_written = false;
    bool is_wanted = false;  // should stay until its next use
    bool is_last = false;
    Index until = none;  // last step up to which it is wanted without a gap; this one at least
};

// The operands of each step's operator fit together, each at a multiple of the alignment.
struct Problem {
    std::vector<Tensor> tensors;
    std::vector<std::vector<Use>> steps;
    Bytes capacity = 0;
    Bytes alignment = 1;

    // Sets `until` and sorts each step's uses. Throws std::invalid_argument, with the entry, if the problem is invalid.
    void prepare();
};

// A residency at one address over the steps [start, stop).
struct Stay {
    Index tensor = none;
    Index start = 0;
    Index stop = 0;
    Bytes offset = 0;
};

struct Resident {
    Index tensor = none;
    Bytes start = 0;
    Bytes end = 0;
    bool is_copied = false;  // DRAM has a copy
    bool is_idle = false;    // its eviction is charged
    bool is_operand = false;
    bool is_new = false;  // placed in this step
};

// The placements of all layouts as a shared tree; nodes without users are recycled.
class Trail {
public:
    struct Node {
        Index parent = none;
        Index step = 0;
        Index tensor = none;  // none: all operands were stacked
        Index users = 1;
        Bytes start = 0;
    };

    Index add(Index parent, Index step, Index tensor, Bytes start);
    void share(Index node);
    void release(Index node);
    std::vector<Node> path_to(Index node) const;

private:
    std::vector<Node> nodes_;
    std::vector<Index> unused_;
};

class Beam {
public:
    // Throws std::invalid_argument if the problem is invalid.
    explicit Beam(Problem problem);

    // Restarts with at most `width` layouts; `seed` breaks ties. Returns false if it was stopped.
    bool run(Index width, std::uint64_t seed, const StopToken& stop);

    // The last complete run: non-compulsory cost and residencies.
    Cost cost() const { return cost_; }
    const std::vector<Stay>& stays() const { return stays_; }

private:
    struct Layout {
        std::vector<Resident> residents;  // sorted by address
        Cost cost = 0;
        std::uint64_t key = 0;
        Index node = none;
    };

    enum class Move { nothing, place, stack };

    // A successor layout: residents `first` to `stop` are evicted.
    struct Child {
        Cost cost = 0;
        double tie = 0.0;
        std::uint64_t key = 0;
        Bytes start = 0;
        Index layout = 0;
        Index use = none;
        Index first = 0;
        Index stop = 0;
        Move move = Move::nothing;

        bool operator<(const Child& other) const;
    };

    // layouts_beam.cpp
    void begin_step(Layout& layout) const;
    bool place_operands(const StopToken& stop);
    void end_step(Layout& layout) const;
    void keep_cheapest();
    Layout follow(const Child& child);
    void stack_operands(Layout& layout) const;
    void write_stays(Index node);

    // layouts_places.cpp
    bool list_children(Index number);
    bool list_places(Index number, Index use);
    void add_place(Index number, Index use, Index first, Index stop, Cost cost, Bytes start);
    void add_stack(Index number);

    Index missing_use(const Layout& layout) const;
    const Use* use_of(Index tensor) const;
    Cost leaving(const Resident& one) const;
    Resident placed(const Use& use, Bytes start) const;
    static std::uint64_t key_of(const Resident& one);

    Problem problem_;
    std::vector<Index> until_;  // by tensor: `until` of its latest use
    std::vector<Layout> layouts_;
    std::vector<Child> children_;
    Cost dearest_ = 0;  // of the children kept
    Trail trail_;
    Index step_ = 0;
    Index width_ = 1;
    std::uint64_t seed_ = 0;
    Cost cost_ = 0;
    std::vector<Stay> stays_;
};

}  // namespace onchip::layouts
