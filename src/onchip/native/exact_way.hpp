// One unrolling (way) of the array: its lower bounds, and its remaining chains of tiles.

#pragma once

#include <optional>
#include <span>
#include <vector>

#include "exact_descent.hpp"

namespace onchip::exact {

class WaySearch {
public:
    WaySearch(const Space& space, Objective objective);

    // Lower bounds over all tilings.
    struct Floor {
        double energy_pj = 0.0;
        double cycles = 0.0;
    };

    // Returns none if the way unrolls a loop beyond its bound.
    std::optional<Floor> floor(std::span<const Index> way);

    // Returns true if no criterion in use reaches the limit; `cycles` is the way's floor. The criterion that excluded
    // the last way is checked first; an energy criterion stays first, because with others the limit is for energy times
    // cycles.
    bool may_be_below(std::span<const Index> way, double cycles, double limit);

    // Prepares the descent for chains with sums complete from cut `complete_from` on. Call it for 1 first, which lists
    // the way's tiles, then for each next cut. Returns false if the limit excludes all of them. Selects new criteria
    // unless `keeps_criteria`.
    bool prepare(std::span<const Index> way, Index complete_from, double limit, bool keeps_criteria);
    Descent& descent() { return descent_; }

    // Work done so far, the same on every machine: 64 table entries count as one tile priced in a descent.
    Count work() const { return entries_ / entries_a_tile + descent_.work(); }
    static constexpr Count entries_a_tile = 64;

    // Number of cuts from which sums may be complete; they are numbered from 1.
    Index patterns() const { return 1 + space_.memories_of_outputs(); }
    // All criteria, and a setter for those in use.
    const std::vector<Criterion>& criteria() const { return criteria_; }
    void use(std::vector<Criterion> criteria) { used_ = std::move(criteria); }

private:
    WaySearch(const WaySearch&) = delete;
    WaySearch& operator=(const WaySearch&) = delete;

    // exact_floor.cpp
    double floor_of_energy() const;
    double floor_of_cycles() const;
    double busy_at_units(Index port, Index operand, double& waiting) const;
    double busy_once(Index port, Index operand, Index boundary) const;

    // exact_way.cpp
    void list_criteria();
    std::vector<Index> preloads() const;
    void list(std::span<const Index> way);
    bool is_below(Index complete_from, double cycles, double limit);
    void select(Index complete_from);
    void fill_tables(Index complete_from);
    bool may_take_less(Index first, Index last, double limit);
    double least(Index at, const Criterion& criterion, Index complete_from);

    const Space& space_;
    Objective objective_;
    bool sums_are_linear_;
    Tiling tiling_;
    std::vector<Criterion> criteria_, used_;
    Prices prices_;
    Descent descent_;
    Count entries_ = 0;  // number of table entries filled, one per tile and level
};

}  // namespace onchip::exact
