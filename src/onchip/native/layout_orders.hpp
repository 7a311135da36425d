// A beam search over orders and layouts: the next operator, and the addresses of its operands.
//
// Missing operands are placed one by one, the largest first: at either end of a gap that is large enough, or in place
// of a minimal run of evicted neighbours. If an operand finds no place, all residents are evicted and the operands are
// stacked. Any width gives a legal plan; none proves a bound.
//
// Each layout has executed its own set of operators, all of equal number, and may run any ready one. An eviction is
// charged at once: its reload, and a store if DRAM has no copy. A resident tensor is weighted with a probability of
// eviction that grows with the distance to its next use, by operator number. Tensors without a later use are removed at
// no cost.
//
// Operators may prescribe residencies. A tensor that need not stay after an operator is idle in memory until its bytes
// are needed: its eviction is charged after that operator, and refunded if it is still resident at the next use.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "layouts.hpp"

namespace onchip::layouts {

inline constexpr Index most_ahead = 64;
inline constexpr Bytes anywhere = -1;

// The lists have no duplicates; predecessors have lower numbers.
struct Operator {
    std::vector<Index> reads;
    std::vector<Index> writes;
    std::vector<Index> predecessors;
    std::vector<Index> released;  // operands that need not stay until the next use
};

// The operands of each operator fit together, each at a multiple of the alignment. A pin is the only address of its
// tensor.
struct OrderProblem {
    std::vector<Tensor> tensors;
    std::vector<Bytes> pins;  // by tensor, or `anywhere`
    std::vector<Operator> operators;
    Bytes capacity = 0;
    Bytes alignment = 1;

    // Throws std::invalid_argument, with the entry, if the problem is invalid.
    void check() const;
};

struct OrderOptions {
    Index width = 1;                           // number of layouts
    Cost upper_bound = std::int64_t{1} << 62;  // only plans below it are accepted
    Index ahead = most_ahead;                  // limit on operators ahead of the first that has not run
    Index soon = 24;                           // distance in operators from which a use counts as after an eviction
    std::uint64_t seed = 0;
};

class OrderBeam {
public:
    // Throws std::invalid_argument if the problem is invalid.
    explicit OrderBeam(OrderProblem problem);

    // Restarts. Returns false if it was stopped, or if pins or the upper bound left no layout.
    bool run(const OrderOptions& options, const StopToken& stop);

    // The last plan found: its non-compulsory cost, order and residencies.
    Cost cost() const { return cost_; }
    const std::vector<Index>& order() const { return order_; }
    const std::vector<Stay>& stays() const { return stays_; }

private:
    // The residents, sorted by address, are `count` entries from `begin` on in its list.
    struct Layout {
        Cost cost = 0;
        Cost weight = 0;  // cost plus expected cost of the residents
        double tie = 0.0;
        std::uint64_t key = 0;
        std::uint64_t ran = 0;  // bits for the operators from `first` on
        Index first = 0;        // first operator that has not run
        Index runs = none;      // the operator being placed
        Index placed = 0;       // its first operands that are placed
        Index node = none;
        Index begin = 0;
        Index count = 0;
    };

    struct Layouts {
        std::vector<Layout> list;
        std::vector<Resident> residents;

        void clear();
        std::span<Resident> of(const Layout& layout) { return {residents.data() + layout.begin, size_of(layout)}; }
        // Adds a copy of a layout, with the given residents.
        Layout& add(const Layout& like, std::span<const Resident> of_it);

    private:
        static std::size_t size_of(const Layout& layout) { return static_cast<std::size_t>(layout.count); }
    };

    // One operand placed, or all stacked (`use` none); residents `first` to `stop` are evicted.
    struct Child {
        Cost cost = 0;
        double tie = 0.0;
        Bytes start = 0;
        Index layout = 0;
        Index use = none;
        Index first = 0;
        Index stop = 0;

        bool operator<(const Child& other) const { return cost != other.cost ? cost < other.cost : tie < other.tie; }
    };

    // Counts of keys since the last clear.
    class KeyCounts {
    public:
        void clear(std::size_t most_keys);
        Index count(std::uint64_t key);

    private:
        struct Entry {
            std::uint64_t key = 0;
            Index count = 0;
        };

        std::vector<Entry> entries_;
    };

    // layout_orders.cpp
    bool run_one_more(const StopToken& stop);
    void begin_each();
    void begin(Layout& begun, Index runs);
    void write_until();
    bool place_operands(const StopToken& stop);
    void end_operator(Layouts& layouts, Layout& layout) const;
    void keep_best();
    std::uint64_t key_with_places(const Layout& layout);
    void follow(const Child& child);
    void write_plan(Index node);
    void weigh(Layout& layout, std::span<const Resident> residents) const;
    bool has_run(const Layout& layout, Index runs) const;
    bool may_run(const Layout& layout, Index runs) const;
    Index next_reader(const Layout& layout, Index tensor) const;

    // layout_order_places.cpp
    Index missing_use(const Layout& layout, std::span<const Resident> residents) const;
    void list_places(Index number, Index use);
    void list_pin(Index number, Index use);
    void add_place(Index number, Index use, Index first, Index stop, Cost cost, Bytes start);
    std::vector<Resident> stacked_operands(Index runs) const;
    Cost leaving(const Resident& one) const;
    Resident placed(Index runs, Index use, Bytes start) const;

    OrderProblem problem_;
    std::vector<std::vector<Index>> readers_;   // by tensor, ascending
    std::vector<std::vector<Index>> operands_;  // by operator: pinned ones first, then by decreasing size
    std::vector<std::vector<Index>> until_;     // by operator and operand: `Resident::until`
    bool has_pins_ = false;
    bool has_one_order_ = true;
    OrderOptions options_;
    Layouts layouts_;  // with equal numbers of executed operators
    Layouts begun_;    // with one more operator in progress
    Layouts before_;   // the previous step of `begun_`
    Layouts ended_;
    KeyCounts alike_;
    KeyCounts seen_;
    std::vector<Child> children_;
    Cost dearest_ = 0;  // of the children kept
    Index steps_ = 0;
    Trail trail_;
    Cost cost_ = 0;
    std::vector<Index> order_;
    std::vector<Stay> stays_;
};

}  // namespace onchip::layouts
