// The search for a provably optimal mapping in a mapspace. docs/mapping.md has the proofs; read it first.
//
// A way is an unrolling of the array. A loop's class is the operand that is constant along it (K: input; N, P, Q:
// weight; C, R, S: output), or `no_class` (G). A boundary is the one above a level and has the level's number plus one;
// boundary 0 is above the units.

#pragma once

#include <array>
#include <atomic>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "layer.hpp"
#include "stop.hpp"

namespace onchip::exact {

using layer::Count;
using layer::Index;
using layer::Layer;
using layer::Machine;
using layer::Move;
using layer::none;
using layer::Operand;
using layer::operands;

inline constexpr Index no_class = 3;
inline constexpr Index classes = 4;

// Returns true for transfers that bring back partial sums; all other transfers are unavoidable.
inline bool is_return(Index operand, Index move) {
    return operand == layer::output && (move == layer::read_for_below || move == layer::write_from_above);
}

// A prime factor of a loop, with its multiplicity.
struct Digit {
    Index loop = 0;
    Index prime = 2;
    Index copies = 0;
};

// The number of stored positions that blocks along an axis touch.
struct BlockEntry {
    double total = 0.0;    // over all positions of the blocks
    double largest = 0.0;  // of a single block
    double fewest = 0.0;   // least number of transfers times the largest block moved, if parts may compose it
    layer::BlockSizes sizes;
};

// For every split of an axis's outputs and taps into those within a tile, spatially adjacent, and elsewhere.
class BlockTable {
public:
    BlockTable() = default;
    // At most `units` units are adjacent.
    BlockTable(const layer::Axis& axis, Count units);

    const BlockEntry& of(const layer::Block& block) const {
        const std::size_t at =
            ((place(outputs_, block.outputs) * outputs_.count + place(outputs_, block.more_outputs)) * taps_.count +
             place(taps_, block.filters)) *
                taps_.count +
            place(taps_, block.more_filters);
        return entries_[entry_[at]];
    }

private:
    struct Divisors {
        std::vector<Count> sizes;
        std::vector<Index> place;  // position of a size in `sizes`
        std::size_t count = 0;
    };

    static Divisors divisors_of(Count bound);
    static std::size_t place(const Divisors& divisors, Count size) {
        return static_cast<std::size_t>(divisors.place[size]);
    }
    double fewest(const layer::Block& block) const;

    Divisors outputs_, taps_;
    std::vector<Index> entry_;  // by outputs within, outputs adjacent, taps within, taps adjacent
    std::vector<BlockEntry> entries_;
};

// An unrolling of loops along one dimension of the array: numbers of units with distinct and with equal elements of an
// operand.
struct Unrolled {
    std::array<Count, layer::loops> sizes{};
    std::array<Count, operands> relevant{};  // for the input, without loops along an axis
    std::array<Count, operands> copies{};
    std::array<Count, layer::sides> side{};
};

// Capacities in `machine` exclude inputs and weights stored whole. Whole outputs are not excluded: the chain decides
// their width.
struct Space {
    Space(Layer layer, Machine machine, std::array<Count, layer::loops> bounds,
          std::array<std::vector<bool>, operands> holds, std::array<double, operands> touched,
          const std::vector<std::vector<std::array<Count, layer::loops>>>& ways);

    Layer layer;
    Machine machine;        // capacities for tiles
    Machine whole_machine;  // as given
    std::array<Count, layer::loops> bounds;
    std::array<Index, layer::loops> class_of{};
    std::array<Index, layer::sides> loop_of_side{};
    std::vector<Digit> digits;
    std::array<std::vector<bool>, operands> holds;     // by level
    std::array<double, operands> touched;              // distinct elements that the layer uses
    std::array<std::vector<Index>, operands> above{};  // by boundary: the level that fills it, or none
    std::array<std::vector<std::array<Index, layer::moves>>, operands> port{};  // by boundary and move
    std::vector<std::vector<Unrolled>> ways;                                    // by dimension of the array
    std::array<BlockTable, 2> blocks;

    Index levels() const { return machine.on_chip(); }
    Index memories_of_outputs() const;
    double bits(Index operand) const { return static_cast<double>(layer.bits[operand]); }
    double shortest(Index level) const { return static_cast<double>(machine.levels[level].shortest.size()); }

    // Returns true if no access of sums is rounded up, and sums are reduced at a single boundary between memories.
    bool sums_are_linear() const;

private:
    void check() const;
    void find_digits();
    void find_chains();
    void find_ports();
};

// One unrolling (way) of the array: its share at each boundary, the tiles of the remaining loops, and their transfers.

inline constexpr double infinite = std::numeric_limits<double>::infinity();

// Numbers of units, by their elements: in one tile, in adjacent tiles, in other tiles; and with equal elements.
struct Share {
    double inside = 1.0;
    double beside = 1.0;
    double outside = 1.0;
    double copies = 1.0;
    double copies_above = 1.0;
};

struct Tile {
    std::array<Count, layer::loops> loops{1, 1, 1, 1, 1, 1, 1, 1};
    std::array<Index, classes> part{};  // number of the tile with the loops of the class alone
    double iterations = 1.0;
    std::array<double, operands> relevant{1.0, 1.0, 1.0};
    std::array<double, classes> of_class{1.0, 1.0, 1.0, 1.0};
    double channels = 1.0;       // elements of the input at one position of its axes
    bool sums_are_left = false;  // true if loops outside it accumulate into its sums
};

// Tiles are numbered from 0 (one iteration) to the last (all temporal loops).
class Tiling {
public:
    explicit Tiling(const Space& space);

    // Returns false if the way unrolls a loop beyond its bound.
    bool choose(std::span<const Index> way);
    // Lists all tiles, in the order of their digits.
    void list_tiles();
    // Lists only the smallest and the largest tile, numbered 0 and 1, without parts.
    void list_ends();

    Index last() const { return static_cast<Index>(tiles.size()) - 1; }
    const Tile& whole() const { return tiles.back(); }

    // Elements of the largest tile; with adjacent tiles if `beside`.
    double largest(Index operand, Index boundary, Index tile, bool beside) const;
    // Lower bound on `largest` times the number of tiles, if each tile is moved once.
    double moved_once(Index operand, Index boundary, bool beside) const;
    // Returns true if sums of a tile are incomplete.
    bool is_pending(Index boundary, Index tile) const {
        return tiles[tile].sums_are_left || share[layer::output][boundary].copies_above > 1;
    }
    // Bits of a sum on its way up from a tile.
    double bits_of_sums(Index boundary, Index tile) const;
    // Bits of an element in a memory. Sums are complete above cut `complete_from` (from 1) of the output's memories.
    double own_bits(Index operand, Index level, Index complete_from) const;

    // Energy of all tiles of inputs or weights across a boundary.
    double energy_of_reads(Index operand, Index boundary, Index tile) const;
    // Energy as if all sums above had been started; `saved_pj` is the saving below for each sum reduced between
    // memories.
    double energy_of_sums(Index boundary, Index tile, double bits_below, double saved_pj) const;
    // Energy to read one sum back at a boundary: exact at the units, an upper bound elsewhere.
    double price_of_return(Index boundary, double bits_below) const;

    const Space& space;
    std::vector<Index> way;
    std::vector<Tile> tiles;
    std::vector<Index> radix, stride;                // by digit: number of temporal copies, plus 1
    std::array<std::vector<Share>, operands> share;  // by boundary

private:
    void share_units(Index operand, Index boundary);
    void multiply_loops();
    const BlockEntry& block(Index boundary, Index tile, Index axis, bool beside) const;
    double words(Index level, double bits) const;
    double block_words(Index level, Index boundary, Index tile, bool beside, double bits) const;

    std::array<Count, layer::loops> side_{};                        // unrolling of each loop over all dimensions
    std::vector<std::array<Count, layer::sides>> inside_, beside_;  // by boundary: the input's unrolling along its axes
};

// Cost tables of one criterion, by tile and boundary, and the minimum over all chains of tiles.
//
// docs/mapping.md proves that the sums over boundaries are exact.

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

    double price_reads(Index at);
    double read_price(const double* own, Index operand, Index level, Index tile) const;
    double price_sums(Index at, Index complete_from);
    std::optional<bool> pending_elsewhere(Index operand, Index level, Index complete_from) const;
    void price_cycles(Index at, const Criterion& criterion, Index complete_from);
    double fixed_cycles(const Criterion& criterion) const;
    void add_moves(const Criterion& criterion, Index operand, Index level, double* own) const;
    double busy_cycles(Index operand, Index boundary, Index tile, Index move, double bits_below) const;

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

// Branch and bound from the outermost loops down to the units, over chains of tiles and orders of the loops between
// them.
//
// A chain has places: 0 for the units, level + 1 for each level, and one for all loops. Loops belong to the place below
// them.

inline constexpr Index no_loops = 4;  // the class of absent loops

enum class Objective { energy, latency, product };

enum class Step { finished, leaf, paused };

// A mapping: loops innermost first (`along`: a dimension of the array, or none in time), and the number of loops that
// each level spans.
struct Nest {
    struct Loop {
        Index loop = 0;
        Count size = 1;
        Index along = none;
    };

    std::vector<Loop> loops;
    std::array<std::vector<Index>, operands> kept;  // by level; none where it keeps no tile
};

class Descent {
public:
    Descent(const Tiling& tiling, const Prices& prices, Objective objective);

    // Restarts at the outermost memory; bounds combine these criteria.
    void begin(std::span<const Criterion> criteria);
    // Advances to the next complete chain with a bound below the limit, best first at each place.
    Step next(double limit, Count most_nodes, Count most_work, const StopToken& stop);

    Count nodes() const { return nodes_; }
    // Number of pairs of tile and order evaluated.
    Count work() const { return work_; }
    Nest nest() const;
    // Bounds of the chain's places, from the outermost inwards.
    std::vector<double> bounds() const;

private:
    // The content of a place; `inner` and `outer` are the classes of the loops up to the next place.
    struct Place {
        Index tile = 0;
        Index inner = none;
        Index outer = none;
        Index run_class = none;  // class of the run that begins here
        Index run_end = 0;       // the tile at its end
    };

    struct Candidate {
        double bound = 0.0;
        Index tile = 0;
        Index inner = none;
        Index outer = none;
    };

    // Per depth, from 0 (the outermost memory): candidates sorted by bound.
    struct Choices {
        bool is_listed = false;
        std::size_t next = 0;
        std::vector<Candidate> candidates;
    };

    // A port's transfers so far.
    struct Busy {
        double alone = 0.0;  // cycles by which single transfers exceed their windows
        double busy = 0.0;
        double first = 0.0;           // of transfers before the loops begin
        bool is_always_open = false;  // true if it serves the units in every cycle
    };

    void expand(double limit);
    bool next_inside(Index& tile);
    void put(Index place, Index tile, Index inner, Index outer);
    void try_orders(Index place, Index tile, double limit);
    void consider(Index place, const Candidate& candidate, double limit);
    bool raise_by_ports(Index place, double limit);
    double joint() const;
    double paid(Index at, Index lowest) const;
    double rest(Index at, Index place) const;

    std::unordered_map<Index, std::vector<Nest::Loop>> loops_beside() const;

    bool is_inner(Index inner, Index tile, Index around) const;
    bool is_outer(Index inner, Index outer, Index tile, Index around) const;
    Index sole_run(Index place) const;
    bool lengthens(Index place, Index inner) const;
    bool narrows(Index place, Index outer) const;
    bool has_free_outer(Index place, Index inner, Index tile) const;

    void account(Index place);
    void add_units(Index operand);
    void add_level(Index operand, Index level, double window);
    double window_of(Index operand, Index level, Index filled) const;
    double stall(Index place);
    Count covered_cycles(Index port, Index place);
    bool uses(Index port, Index operand, Index level, Index tile) const;

    Index tile_spanning(Index tile, Index own, Index around) const {
        return tile - tiling_.tiles[tile].part[own] + tiling_.tiles[around].part[own];
    }

    const Tiling& tiling_;
    const Prices& prices_;
    const Space& space_;
    Objective objective_;
    Index levels_;
    std::vector<Criterion> criteria_;
    Index depth_ = 0;
    Count nodes_ = 0, work_ = 0;
    std::vector<Place> chain_;                      // by place
    std::array<std::vector<Index>, operands> cut_;  // by level
    std::vector<Choices> choices_;                  // by depth
    std::vector<Index> exponent_, most_;            // by digit: of the current tile, and of the tile around it
    std::vector<double> paid_, rest_, value_;       // by criterion
    std::vector<Busy> ports_;
    std::array<double, operands> chained_{};  // transfers of an operand's first tiles (output: of its last)
    std::vector<Index> lowest_;               // by port: the lowest level whose boundary it serves
    layer::Windows windows_;
};

// One unrolling (way) of the array: its lower bounds, and its remaining chains of tiles.

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

    double floor_of_energy() const;
    double floor_of_cycles() const;
    double busy_at_units(Index port, Index operand, double& waiting) const;
    double busy_once(Index port, Index operand, Index boundary) const;

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

// The search takes all ways in the order of their lower bounds.

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
