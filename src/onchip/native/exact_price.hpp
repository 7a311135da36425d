// Cost tables of one criterion, by tile and boundary, and the minimum over all chains of tiles.
//
// docs/mapping.md proves that the sums over boundaries are exact.

#pragma once

#include <array>
#include <optional>
#include <vector>

#include "exact_tiling.hpp"

namespace onchip::exact {

// Energy; cycles without stalls; cycles that single transfers at a port wait; busy cycles of a port beyond the loops.
enum class Kind { energy, no_stall, waiting, busy };

// A sum over boundaries. `preload` is an operand, or `first_port` plus a port, or none.
struct Criterion {
    Kind kind = Kind::energy;
    Index port = none;
    Index preload = none;

    bool is_energy() const { return kind == Kind::energy; }
};

inline constexpr Index first_port = 3;

// Rows of doubles, one value per tile.
class Rows {
public:
    void resize(std::size_t rows, std::size_t tiles) {
        tiles_ = tiles;
        if (values_.size() < rows * tiles) values_.resize(rows * tiles);
    }
    double* operator[](std::size_t row) { return values_.data() + row * tiles_; }
    const double* operator[](std::size_t row) const { return values_.data() + row * tiles_; }

private:
    std::vector<double> values_;
    std::size_t tiles_ = 0;
};

class Prices {
public:
    // Reserves tables for `criteria` criteria.
    Prices(const Tiling& tiling, Index criteria);

    // Sizes the tables for the tiling's list of tiles.
    void make_room();
    // Determines the tiles that fit at each level.
    void measure(Index complete_from);
    // Determines the cycles of a port per transfer of a tile, at the boundary above each level and at the units.
    void time_moves(Index complete_from);
    // Returns the least value of a criterion over all chains.
    double find_least(Index at, const Criterion& criterion, Index complete_from);
    // Returns true if no bound excludes a chain with less energy than the limit, with sums complete from a cut in
    // `first` to `last` on.
    bool may_take_less(Index first, Index last, double limit);

    double fixed(Index at) const { return fixed_[at]; }
    const double* term(Index at, Index operand, Index level) const { return term_[term_row(at, operand, level)]; }
    double* term(Index at, Index operand, Index level) { return term_[term_row(at, operand, level)]; }
    // The least cost of all boundaries at or below the level, for this tile and any inside it.
    const double* best(Index at, Index level) const { return best_[at * levels_ + level]; }
    // Like `best`, if the run of the operand's class above its tiles from level `first` on continues.
    const double* run(Index at, Index level, Index operand, Index first) const {
        return run_[run_row(at, level, operand, first)];
    }
    bool fits(Index level, Index tile) const { return barred_[level][tile] == 0.0; }
    double unit_busy(Index operand, Index move) const { return unit_busy_[operand][move]; }
    double busy(Index operand, Index level, Index move, Index tile) const {
        return busy_[busy_row(operand, level, move)][tile];
    }
    Index criteria() const { return static_cast<Index>(fixed_.size()); }

private:
    std::size_t term_row(Index at, Index operand, Index level) const {
        return (at * operands + operand) * levels_ + level;
    }
    std::size_t busy_row(Index operand, Index level, Index move) const {
        return (operand * levels_ + level) * layer::moves + move;
    }
    std::size_t run_row(Index at, Index level, Index operand, Index first) const {
        return (at * levels_ + level) * operands * levels_ + operand * levels_ + first;
    }

    // exact_price.cpp
    double price_reads(Index at);
    double read_price(const double* own, Index operand, Index level, Index tile) const;
    double price_sums(Index at, Index complete_from);
    std::optional<bool> pending_elsewhere(Index operand, Index level, Index complete_from) const;
    void price_cycles(Index at, const Criterion& criterion, Index complete_from);
    double fixed_cycles(const Criterion& criterion) const;
    void add_moves(const Criterion& criterion, Index operand, Index level, double* own) const;
    double busy_cycles(Index operand, Index boundary, Index tile, Index move, double bits_below) const;

    // exact_link.cpp
    double link(Index at);
    void go_on(Index at, Index level, Index operand, Index first, const double* before);
    void end_runs(Index at, Index level, double* ended);
    void spread(double* values, Index loops_of) const;

    const Tiling& tiling_;
    const Space& space_;
    Index levels_;
    Rows barred_;  // by level: 0 where a tile fits, else infinity
    std::array<std::array<double, layer::moves>, operands> unit_busy_{};
    Rows busy_;  // by operand, level and move
    Rows term_;  // by criterion, operand and level
    Rows run_;   // by criterion, level, operand and `first`
    Rows best_;  // by criterion and level
    std::vector<double> ended_, due_;
    std::vector<double> fixed_;
};

}  // namespace onchip::exact
