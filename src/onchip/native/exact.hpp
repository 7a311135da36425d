// The mapping that costs least of all in a mapspace, proven. docs/mapping.md says why; begin there, then here:
//
// exact_space.hpp    the layer's factors, the machine's chains of memories, the ways to use the array
// exact_tiling.hpp   one way: its tiles and what they move
// exact_price.hpp    one criterion: what tiles cost, and the least of any chain
// exact_descent.hpp  the chains that no criterion rules out
// exact_way.hpp      one way: floors and criteria
//
// Here, all ways, in the order of their floors.

#pragma once

#include <atomic>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "exact_way.hpp"

namespace onchip::exact {

// In femtojoules, cycles, or their product.
double value_of(Objective objective, double energy_pj, double cycles);

class Mapper {
public:
    Mapper(Space space, Objective objective);

    // Looks for what is better than `best`, in so many threads, until nothing is, or the token asks to end, or about so
    // many nodes, or so much work, are done. With one thread the same is found in the same order each time.
    void run(double best, const StopToken& stop, Index workers, Count most_nodes, Count most_work);

    // To be read at any time.
    double best() const { return best_.load(std::memory_order_relaxed); }
    double proven() const { return proven_.load(std::memory_order_relaxed); }
    Count nodes() const { return nodes_.load(std::memory_order_relaxed); }
    // In tiles priced, or what takes as long.
    Count work() const { return work_.load(std::memory_order_relaxed); }

    // The best mapping found so far.
    std::optional<Nest> answer() const {
        const std::scoped_lock held(lock_);
        return answer_;
    }

private:
    // A way to use the array, by number: the first dimension's changes fastest.
    struct Way {
        double floor = 0.0;
        double cycles = 0.0;
        Count number = 0;

        bool operator<(const Way& other) const {
            return floor < other.floor || (floor == other.floor && number < other.number);
        }
    };

    struct Worker {
        Worker(const Space& space, Objective objective)
            : search(space, objective), costs(space.layer, space.whole_machine) {}
        WaySearch search;
        layer::Costs costs;
        Count at = 0;  // of the way that is searched; no mapping of those before is better
    };

    Count count_ways() const;
    bool divides(const std::vector<Index>& way) const;
    double turns(const std::vector<Index>& way) const;
    void scout(const StopToken& stop);
    std::vector<Way> most_at_work(const StopToken& stop);
    std::optional<Way> measured(Count number, const std::vector<Index>& way);
    std::vector<Way> list_ways(Count& number, const StopToken& stop);
    void sort_below(std::vector<Way>& ways, Count first, double limit) const;
    std::vector<Index> way_of(Count number) const;
    void go_on(std::vector<Index>& way) const;
    void search_ways(std::vector<Way>& ways, bool is_last, const StopToken& stop);
    template <typename Look>
    void in_turn(Count first, Count stop_at, Look look);
    bool search_chains(Worker& worker, const Way& way, Count most_nodes, bool keeps_criteria, const StopToken& stop);
    template <typename Act>
    auto counted(Worker& worker, Act act);
    void consider(Worker& worker, const Nest& nest);
    double limit(const StopToken& stop) const;
    bool is_over(const StopToken& stop) const {
        return stop.is_asked() || nodes() >= most_nodes_ || work() >= most_work_;
    }
    void has_proven(const std::vector<Way>& ways, bool is_last, const StopToken& stop);

    Space space_;
    Objective objective_;
    double scale_;
    double iterations_ = 1.0;                 // of all loops
    std::vector<std::vector<double>> units_;  // dimension of the array, place among its ways: units at work
    std::vector<std::unique_ptr<Worker>> workers_;
    mutable std::mutex lock_;  // nobody waits for a stop token while holding it
    std::optional<Nest> answer_;
    std::atomic<double> best_{std::numeric_limits<double>::infinity()};
    std::atomic<double> proven_{0.0};
    std::atomic<Count> nodes_{0}, work_{0};
    Count most_nodes_ = 0, most_work_ = 0;
};

}  // namespace onchip::exact
