// The search for a provably optimal mapping in a mapspace. docs/mapping.md has the proofs; read it first, then:
//
// exact_space.hpp    the layer's prime factors, the memory hierarchy of each operand, the unrollings (ways) of the
// array
// exact_tiling.hpp   one way: its tiles and their transfers
// exact_price.hpp    one criterion: cost tables of tiles, and the minimum over all chains
// exact_descent.hpp  branch and bound over the chains that no criterion excludes
// exact_way.hpp      one way: lower bounds and criteria
//
// This file searches all ways in the order of their lower bounds.

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

    // Searches for a mapping below `best` with several threads, until the optimum is proven, a stop is requested, or
    // about `most_nodes` nodes or `most_work` units of work are done. A single thread is deterministic.
    void run(double best, const StopToken& stop, Index workers, Count most_nodes, Count most_work);

    // These may be read during the search.
    double best() const { return best_.load(std::memory_order_relaxed); }
    double proven() const { return proven_.load(std::memory_order_relaxed); }
    Count nodes() const { return nodes_.load(std::memory_order_relaxed); }
    // In priced tiles, or equivalent work.
    Count work() const { return work_.load(std::memory_order_relaxed); }

    // The best mapping so far.
    std::optional<Nest> answer() const {
        const std::scoped_lock held(lock_);
        return answer_;
    }

private:
    // An unrolling of the array. The choice of the first dimension varies fastest in `number`.
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
        Count at = 0;  // position of the way being searched; the ways before it have no better mapping
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
    std::vector<std::vector<double>> units_;  // by dimension of the array and choice: number of active units
    std::vector<std::unique_ptr<Worker>> workers_;
    mutable std::mutex lock_;  // no thread waits for a stop token while holding it
    std::optional<Nest> answer_;
    std::atomic<double> best_{std::numeric_limits<double>::infinity()};
    std::atomic<double> proven_{0.0};
    std::atomic<Count> nodes_{0}, work_{0};
    Count most_nodes_ = 0, most_work_ = 0;
};

}  // namespace onchip::exact
