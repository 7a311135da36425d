// A beam over layouts: addresses for one order, near what should stay of it.
//
// A layout is what lies where between two operators. What an operator needs and is not there is placed, one after
// another, the largest first: at either end of a gap that takes it, or where a least run of neighbours leaves. The
// cheapest layouts are kept, as many as the beam is wide; where no place is found all that is there leaves, and the
// operands are stacked. Any width gives a legal plan; none proves anything.
//
// Words. What should stay until its next use `is_wanted`; what is not lies there idle until it is in the way, at no
// cost: leaving was paid after its last use, and is paid back if it is still there at the next.

#pragma once

#include <cstdint>
#include <vector>

#include "stop.hpp"

namespace onchip::layouts {

using Bytes = std::int64_t;
using Cost = std::int64_t;
using Index = std::int32_t;

inline constexpr Index none = -1;

// `store` is 0 if DRAM has a copy whenever it could leave.
struct Tensor {
    Bytes size = 0;
    Cost load = 0;
    Cost store = 0;
};

// One operand of one operator.
struct Use {
    Index tensor = none;
    bool is_written = false;
    bool is_wanted = false;  // should stay until its next use
    bool is_last = false;
    Index until = none;  // the step up to which it is wanted without a break, this one at least
};

// The operands of the operator of each step fit together, each at a multiple of the alignment.
struct Problem {
    std::vector<Tensor> tensors;
    std::vector<std::vector<Use>> steps;
    Bytes capacity = 0;
    Bytes alignment = 1;

    // Throws std::invalid_argument, saying which entry, for what no problem has; sets `until`, sorts each step's uses.
    void prepare();
};

// One tensor at one address over the steps [start, stop).
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
    bool is_idle = false;    // its leaving is paid
    bool is_operand = false;
    bool is_new = false;  // began in this step
};

// What has been placed, as a tree that all layouts of a beam share; a node that no layout leads from is used again.
class Trail {
public:
    struct Node {
        Index parent = none;
        Index step = 0;
        Index tensor = none;  // none: all operands have been stacked
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
    // Throws std::invalid_argument for a problem that is none.
    explicit Beam(Problem problem);

    // Begins anew with so many layouts at most, ties broken by the seed; false if it was stopped.
    bool run(Index width, std::uint64_t seed, const StopToken& stop);

    // Of the last run that was not stopped: what is paid beyond the compulsory, and what lies where.
    Cost cost() const { return cost_; }
    const std::vector<Stay>& stays() const { return stays_; }

private:
    struct Layout {
        std::vector<Resident> residents;  // by address
        Cost cost = 0;
        std::uint64_t key = 0;
        Index node = none;
    };

    enum class Move { nothing, place, stack };

    // One layout that may follow: `first` to `stop` leave.
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
    std::vector<Index> until_;  // by tensor, as its last use up to now says
    std::vector<Layout> layouts_;
    std::vector<Child> children_;
    Cost dearest_ = 0;  // of the children that are kept
    Trail trail_;
    Index step_ = 0;
    Index width_ = 1;
    std::uint64_t seed_ = 0;
    Cost cost_ = 0;
    std::vector<Stay> stays_;
};

}  // namespace onchip::layouts
