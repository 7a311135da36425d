// A beam over orders and layouts at once: what runs next, and where what it needs lies.
//
// Beside `layouts.hpp`, which places one order: here each layout has run operators of its own, all as many, and any
// operator that may run next does. No schedule says what should stay. What leaves is charged at once with the load that
// brings it back, and a store if DRAM has no copy; what stays counts as leaving by a chance that grows with the
// operators until its next use, in the order of their numbers. What is no longer read is gone at no cost.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "layouts.hpp"

namespace onchip::layouts {

inline constexpr Index most_ahead = 64;
inline constexpr Bytes anywhere = -1;

// Its lists have each number once; what has to run before it has lower numbers.
struct Operator {
    std::vector<Index> reads;
    std::vector<Index> writes;
    std::vector<Index> predecessors;
};

// The operands of each operator fit together, each at a multiple of the alignment. A pin is the one place of its
// tensor.
struct OrderProblem {
    std::vector<Tensor> tensors;
    std::vector<Bytes> pins;  // of each tensor, or `anywhere`
    std::vector<Operator> operators;
    Bytes capacity = 0;
    Bytes alignment = 1;

    // Throws std::invalid_argument, saying which entry, for what no problem has.
    void check() const;
};

struct OrderOptions {
    Index width = 1;                           // layouts
    Cost upper_bound = std::int64_t{1} << 62;  // only plans below it count
    Index ahead = most_ahead;                  // operators run at most so far from the first that has not run
    Index soon = 24;                           // what is read so many operators later surely leaves before
    std::uint64_t seed = 0;
};

class OrderBeam {
public:
    // Throws std::invalid_argument for a problem that is none.
    explicit OrderBeam(OrderProblem problem);

    // Begins anew; false if it was stopped, or no layout was left: pins, or the upper bound, may leave none.
    bool run(const OrderOptions& options, const StopToken& stop);

    // Of the last run that found a plan: what is paid beyond the compulsory, in which order, and what lies where.
    Cost cost() const { return cost_; }
    const std::vector<Index>& order() const { return order_; }
    const std::vector<Stay>& stays() const { return stays_; }

private:
    // Its residents, by address, are `count` from `begin` on in the list that it is in.
    struct Layout {
        Cost cost = 0;
        Cost weight = 0;  // the cost, and what is likely to be paid for what is there
        double tie = 0.0;
        std::uint64_t key = 0;
        std::uint64_t ran = 0;  // of the operators from `first` on
        Index first = 0;        // that has not run
        Index runs = none;      // the operator whose operands are placed
        Index placed = 0;       // so many of these surely are
        Index node = none;
        Index begin = 0;
        Index count = 0;
    };

    struct Layouts {
        std::vector<Layout> list;
        std::vector<Resident> residents;

        void clear();
        std::span<Resident> of(const Layout& layout) { return {residents.data() + layout.begin, size_of(layout)}; }
        // Adds one like that, with residents of another list.
        Layout& add(const Layout& like, std::span<const Resident> of_it);

    private:
        static std::size_t size_of(const Layout& layout) { return static_cast<std::size_t>(layout.count); }
    };

    // One operand placed, or all stacked (`use` none); `first` to `stop` leave.
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

    // How often each key has been counted since it was cleared.
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
    Resident placed(Index runs, Index tensor, Bytes start) const;

    OrderProblem problem_;
    std::vector<std::vector<Index>> readers_;   // of each tensor, rising
    std::vector<std::vector<Index>> operands_;  // of each operator: pinned ones first, then the largest
    bool has_pins_ = false;
    OrderOptions options_;
    Layouts layouts_;  // of which each has run as many
    Layouts begun_;    // of which each runs one more, with operands to be placed
    Layouts before_;   // without the operand placed last
    Layouts ended_;
    KeyCounts alike_;
    KeyCounts seen_;
    std::vector<Child> children_;
    Cost dearest_ = 0;  // of the children that are kept
    Index steps_ = 0;
    Trail trail_;
    Cost cost_ = 0;
    std::vector<Index> order_;
    std::vector<Stay> stays_;
};

}  // namespace onchip::layouts
