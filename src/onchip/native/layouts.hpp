// Tensors, residencies, and layouts with their free places, for beam searches.
//
// A layout is the set of residents and their addresses between two operators.

#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
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
    Index until = none;      // last use up to which it should stay, by operator number; none without readers
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
        Index tensor = none;
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

// Writes residencies from a sequence of placements.
class Replay {
public:
    explicit Replay(std::vector<Stay>& stays) : stays_(stays) {}

    void use(Index tensor, Index step) {
        for (Open& one : open_) {
            if (one.resident.tensor == tensor) one.used = step;
        }
    }

    // Overlapping residents leave.
    void place(const Resident& placed, Index step) {
        close_if([&](const Open& one) { return one.resident.start < placed.end && placed.start < one.resident.end; });
        open_.push_back({placed, step, step});
    }

    // All residents leave; those placed in this step are dropped.
    void clear(Index step) {
        std::erase_if(open_, [&](const Open& one) { return one.since == step; });
        close_if([](const Open&) { return true; });
    }

    void end(Index tensor) {
        close_if([&](const Open& one) { return one.resident.tensor == tensor; });
    }

private:
    // A resident, its first step here, and its last use.
    struct Open {
        Resident resident;
        Index since = 0;
        Index used = 0;
    };

    template <typename Test>
    void close_if(const Test& test) {
        for (const Open& one : open_) {
            if (test(one)) stays_.push_back({one.resident.tensor, one.since, one.used + 1, one.resident.start});
        }
        std::erase_if(open_, test);
    }

    std::vector<Stay>& stays_;
    std::vector<Open> open_;
};

inline constexpr double distance_to_the_edge = 5.0;
inline constexpr std::size_t children_kept_per_layout = 4;

inline Bytes aligned(Bytes address, Bytes alignment) {
    return (address + alignment - 1) / alignment * alignment;
}

// The free ranges between residents sorted by address.
class Room {
public:
    Room(std::span<const Resident> residents, Bytes capacity, Bytes alignment)
        : residents_(residents), capacity_(capacity), alignment_(alignment) {}

    // The lowest address above `count` residents, and the start of the resident with a number.
    Bytes start_behind(Index count) const { return aligned(count ? residents_[count - 1].end : 0, alignment_); }
    Bytes end_before(Index number) const { return number < count() ? residents_[number].start : capacity_; }

    // Calls `place(first, stop, cost, start)` for each minimal run of neighbours, often empty, whose eviction makes
    // room: at the lower and the upper end. Operands stay. Returns false if no run makes room.
    template <typename Leaving, typename Place>
    bool list_places(Bytes size, const Leaving& leaving, const Place& place) const {
        Index stop = 0;
        Cost cost = 0;
        bool has_any = false;
        for (Index first = 0; first <= count(); ++first) {
            if (stop < first) {
                stop = first;
                cost = 0;
            }
            const Bytes low = start_behind(first);
            while (stop < count() && end_before(stop) - low < size && !residents_[stop].is_operand) {
                cost += leaving(residents_[stop++]);
            }
            if (end_before(stop) - low >= size) {
                has_any = true;
                if (stop == first || end_before(stop) - start_behind(first + 1) < size) {
                    const Bytes high = (end_before(stop) - size) / alignment_ * alignment_;
                    place(first, stop, cost, low);
                    if (high > low) place(first, stop, cost, high);
                }
            }
            if (first < stop) cost -= leaving(residents_[first]);
        }
        return has_any;
    }

    // Returns the least distance `between` the placed tensor and its direct neighbours, without those from `first` to
    // `stop`. Tensors that leave together leave one gap.
    template <typename Between>
    double mismatch(Index first, Index stop, Bytes start, Bytes size, const Between& between) const {
        double least = HUGE_VAL;
        if (start == start_behind(first)) least = first ? between(residents_[first - 1]) : distance_to_the_edge;
        if (start + size + alignment_ > end_before(stop)) {
            least = std::fmin(least, stop == count() ? distance_to_the_edge : between(residents_[stop]));
        }
        return least;
    }

private:
    Index count() const { return static_cast<Index>(residents_.size()); }

    std::span<const Resident> residents_;
    Bytes capacity_;
    Bytes alignment_;
};

// Keeps the cheapest children for a beam of this width if there are more than `most`; sets the cost above which
// children need not be listed.
template <typename Child>
void shrink(std::vector<Child>& children, Index width, std::size_t most, Cost& dearest) {
    const std::size_t fewest = children_kept_per_layout * static_cast<std::size_t>(width);
    if (children.size() <= most) return;
    const auto last = children.begin() + static_cast<std::ptrdiff_t>(fewest) - 1;
    std::nth_element(children.begin(), last, children.end());
    dearest = last->cost;
    children.resize(fewest);
}

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

// A plan with addresses, improved window by window by a beam search over orders, with the rest of the plan fixed.
//
// Terms. Between consecutive uses, a tensor stays at its address or is reloaded for the second use. A window is a few
// consecutive steps of the order. Tensors that cross its ends keep their addresses: an extra first operator writes the
// incoming ones, an extra last operator reads the outgoing ones. The window's problem numbers its operators from 1, and
// its tensors in ascending order.

// The steps [begin, stop) to plan again; `soon` and `seed` are options of the beam.
struct WindowChoice {
    Index begin = 0;
    Index stop = 0;
    Index soon = 1;
    std::uint64_t seed = 0;
};

class PlacedPlan {
public:
    // The stays cover all uses; those of a tensor have gaps between them or different offsets. Throws
    // std::invalid_argument if the problem is invalid, if the order lacks operators, or if a use has no stay.
    PlacedPlan(OrderProblem problem, std::vector<Index> order, const std::vector<Stay>& stays);

    // Plans each window again, one after the other, with a beam of at most `width` layouts. Replaces a window if the
    // new plan costs no more. Returns false if it was stopped.
    bool plan_anew(const std::vector<WindowChoice>& windows, Index width, const StopToken& stop);

    // The non-compulsory cost, the order, and the residencies, as short as the uses allow.
    Cost cost() const;
    const std::vector<Index>& order() const { return order_; }
    std::vector<Stay> stays() const;

private:
    // A use of a tensor; it `stays` until its next use.
    struct PlacedUse {
        Index runs = none;
        bool stays = false;
        Bytes offset = 0;
    };

    // Its uses [first, stop) are in the window. It `comes` if it stays from the use before, and `goes` if it stays
    // until the use after.
    struct WindowTensor {
        Index tensor = none;
        Index first = 0;
        Index stop = 0;
        bool comes = false;
        bool goes = false;
        bool is_stored = false;  // DRAM has or gets a copy outside the window
        Bytes pin = anywhere;
    };

    struct Window {
        WindowChoice choice;
        std::vector<WindowTensor> tensors;
        OrderProblem problem;
        Cost cost = 0;
    };

    void plan_one_anew(const WindowChoice& choice, Index width, const StopToken& stop);
    void move_to(Index begin);
    void follow(const Window& window, const OrderBeam& found);
    Cost cost_of(Index tensor) const;

    bool state(Window& window);
    std::vector<Index> tensors_of(const WindowChoice& choice) const;
    bool add_tensor(Window& window, Index tensor) const;
    Cost cost_within(const WindowTensor& one) const;
    void add_operators(Window& window);

    OrderProblem problem_;
    std::vector<Index> order_;
    std::vector<Index> step_of_;
    std::vector<std::vector<PlacedUse>> uses_;  // by tensor, in order
    Index reached_ = 0;                         // the step of `across_`
    std::vector<Index> across_;                 // tensors that stay across it, ascending
    std::vector<Index> number_;                 // by operator: its number in the window, or `none`
};

}  // namespace onchip::layouts
