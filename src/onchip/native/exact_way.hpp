// One way to use the array at a time: what rules it out, and what chains of tiles it leaves.

#pragma once

#include <optional>
#include <span>
#include <vector>

#include "exact_descent.hpp"

namespace onchip::exact {

class WaySearch {
public:
    WaySearch(const Space& space, Objective objective);

    // What no tiles can undercut.
    struct Floor {
        double energy_pj = 0.0;
        double cycles = 0.0;
    };

    // None where loops run out.
    std::optional<Floor> floor(std::span<const Index> way);

    // Whether no criterion in use is at the limit; `cycles` is the way's floor. The one that ruled out the last way
    // comes first, but an energy stays first: with others, the limit is for energy times cycles.
    bool may_be_below(std::span<const Index> way, double cycles, double limit);

    // Stands above the chains whose sums are complete from such a cut on; they are asked for one after the other from
    // 1, which lists the way's tiles. False if the limit rules them all out. Criteria are chosen anew, or those in use.
    bool prepare(std::span<const Index> way, Index complete_from, double limit, bool keeps_criteria);
    Descent& descent() { return descent_; }

    // What was done so far, the same on every machine: 64 entries of tables of tiles count as one tile priced in a
    // descent.
    Count work() const { return entries_ / entries_a_tile + descent_.work(); }
    static constexpr Count entries_a_tile = 64;

    // From which cut on sums are complete: 1 to so many.
    Index patterns() const { return 1 + space_.memories_of_outputs(); }
    // All, and those in use.
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
    Count entries_ = 0;  // of tables that were filled, one for each tile and level
};

}  // namespace onchip::exact
