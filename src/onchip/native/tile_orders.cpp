// Two searches over the orders of loop factors. LOMA's enumerates all orders, and fills the memories for each from the
// units outwards (`mapping/baselines/loma.py`). The other finds the mapping of least energy over all orders and all
// cuts of each operand, by label setting from the empty tile outwards (`mapping/tile_search/uneven.py`).
//
// Tiles are numbered by the number of factors of each kind inside. A state of a tile is the number of placed cuts of
// each operand, and whether sums leave the last of them complete. A label is the energy so far and the bits that placed
// cuts take in memories with cuts still to be placed. It is pruned if another label of its state dominates it.

#include <nanobind/ndarray.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <array>
#include <limits>
#include <stdexcept>
#include <utility>
#include <vector>

#include "bindings.hpp"
#include "layer.hpp"

namespace onchip::layer {

// Equal factors of a loop; each factor inside a tile adds `step` to the tile's number.
struct Kind {
    Turn turn;
    Index step = 0;
    Index count = 0;
};

struct Tile {
    Count iterations = 1;
    bool sums_are_left = false;            // true if loops outside it accumulate into its sums
    std::array<bool, operands> is_left{};  // another tile of the operand follows it
};

// A memory and its operands in the order of the file, which breaks ties between equally good fillings.
struct FilledLevel {
    Count capacity_bits = 0;
    bool is_double_buffered = false;
    bool adds_beside = false;  // sums of several of its instances are reduced above it
    std::array<Index, operands> held{none, none, none};
    std::array<bool, operands> is_home{};
    std::array<std::vector<double>, operands> elements;  // by tile
};

// The data that determine the filling.
struct Filling {
    std::vector<Kind> kinds;
    std::vector<Tile> tiles;
    std::vector<FilledLevel> levels;
    std::array<Count, operands> bits{};
    Count partial_bits = 0;
    std::vector<Index> last_apart;  // by spatial loop: the last input level that does not serve it

    // Throws std::invalid_argument if a tile or an operand does not exist.
    void check() const;
};

// The mapping of an order that fits; cuts by operand, then level.
struct Filled {
    std::vector<Turn> turns;
    std::vector<Index> cuts;
    std::vector<Index> inside;  // by spatial loop: number of temporal loops inside it
};

class Orders {
public:
    explicit Orders(Filling filling);

    // Advances to the next order that fits. Returns false after the last.
    bool next();
    const Filled& filled() const { return filled_; }
    const Filling& filling() const { return filling_; }

private:
    // One operand in the level being filled.
    struct Slot {
        std::vector<double> room_bits;  // by number of further loops, up to the most that fit
        Index first = 0;                // lowest possible number
        Index fitting = 1;              // upper limit, exclusive
        Index best = 0;
    };

    bool fill();
    bool fill_level(Index level);
    bool measure(Index level, Slot& slot, Index operand);
    double traffic(Index level, const Slot& slot, Index operand, Index more) const;

    Filling filling_;
    std::vector<Index> order_;  // kinds, innermost first; next_permutation from the sorted order enumerates all
    bool is_begun_ = false;
    bool is_over_ = false;
    std::vector<Index> tile_;  // by position
    std::array<Index, operands> cut_{};
    std::array<Slot, operands> slots_;
    Filled filled_;
};

// One cut of an operand, by tile.
struct Cut {
    std::vector<double> energy_pj;
    std::array<std::vector<std::vector<Count>>, 2> need_bits;  // by completeness of arriving sums and shared memory
    std::vector<bool> leaves_complete;                         // sums are complete above the cut
};

// `least_to_come`: lower bound in pJ on the remaining cuts, by number of placed cuts and tile.
struct CutsOfOperand {
    std::vector<Cut> cuts;
    std::vector<std::vector<double>> least_to_come;
};

struct UnevenProblem {
    std::vector<Kind> kinds;
    std::array<CutsOfOperand, operands> of;
    std::vector<Count> capacity_bits;        // by memory that more than one cut needs
    std::vector<std::vector<bool>> is_open;  // by placed cuts and memory: true if a cut that needs it remains
    double worst_pj = 0.0;                   // cost of the best known mapping
    bool starts_complete = false;

    // Throws std::invalid_argument if a table has the wrong size.
    void check() const;
    Index tiles() const;
    Index placings() const;
};

class UnevenSearch {
public:
    explicit UnevenSearch(UnevenProblem problem);

    // Processes `tiles` more tiles. Returns false once the last one is done.
    bool go_on(Index tiles);

    // An action adds a factor of a kind or, numbered after the kinds, places a cut of an operand.
    struct Best {
        double energy_pj = 0.0;
        std::vector<Index> actions;
    };

    // The best label of the whole nest with all cuts placed; no actions if none fits. Valid once the last tile is done.
    Best best() const;

private:
    struct Label {
        Index before = none;
        Index next = none;
        Index action = none;
        double energy_pj = 0.0;
    };

    struct State {
        Index tile = 0;
        Index placed = 0;
        bool is_complete = false;
    };

    Index& first(const State& state);
    Index placed_of(Index placed, Index operand) const;
    void place_cuts(Index label, const State& state);
    void add_factors(Index label, const State& state);
    void offer(Index before, const State& state, double energy_pj, Index action);
    bool uses_no_more(Index label) const;
    bool is_used_no_less(Index label) const;

    UnevenProblem problem_;
    std::array<Index, operands> step_{};  // stride of an operand in the number of placed cuts
    Index placings_ = 1;
    Index tiles_ = 1;
    Index tile_ = 0;
    std::vector<Index> first_;  // by tile and state
    std::vector<Label> labels_;
    std::vector<Count> used_bits_;  // label by label, one value per memory
    std::vector<Count> trial_bits_;
};

void Filling::check() const {
    Index last = 0, factors = 0;
    for (const Kind& one : kinds) {
        if (one.step < 0 || one.count < 0 || one.turn.size < 1)
            throw std::invalid_argument("a kind of factors is malformed");
        if (one.turn.loop < 0 || one.turn.loop >= loops)
            throw std::invalid_argument("a kind is of a loop that there is not");
        last += one.step * one.count;
        factors += one.count;
    }
    const auto is_too_short = [last](std::size_t tiles) { return static_cast<Index>(tiles) <= last; };
    if (is_too_short(tiles.size())) throw std::invalid_argument("there are fewer tiles than orders make");
    for (const Tile& one : tiles) {
        if (one.iterations < 1) throw std::invalid_argument("a tile has no iteration");
    }
    for (const FilledLevel& level : levels) {
        for (const Index operand : level.held) {
            if (operand < none || operand >= operands) throw std::invalid_argument("a level holds an unknown operand");
            if (operand != none && is_too_short(level.elements[operand].size())) {
                throw std::invalid_argument("a level knows not the size of each tile");
            }
        }
    }
    for (const Index level : last_apart) {
        if (level < none || level >= static_cast<Index>(levels.size()))
            throw std::invalid_argument("a level is unknown");
    }
}

Orders::Orders(Filling filling) : filling_(std::move(filling)) {
    filling_.check();
    for (Index kind = 0; kind < static_cast<Index>(filling_.kinds.size()); ++kind) {
        order_.insert(order_.end(), filling_.kinds[kind].count, kind);
    }
    tile_.resize(order_.size() + 1);
    filled_.turns.resize(order_.size());
    filled_.inside.resize(filling_.last_apart.size());
}

bool Orders::next() {
    while (!is_over_) {
        is_over_ = is_begun_ && !std::next_permutation(order_.begin(), order_.end());
        is_begun_ = true;
        if (!is_over_ && fill()) return true;
    }
    return false;
}

// Returns true if the order fits: each memory holds at least the loops of the one below, a home holds all loops.
bool Orders::fill() {
    const auto levels = static_cast<Index>(filling_.levels.size());
    tile_[0] = 0;
    for (std::size_t at = 0; at < order_.size(); ++at) {
        const Kind& kind = filling_.kinds[order_[at]];
        tile_[at + 1] = tile_[at] + kind.step;
        filled_.turns[at] = kind.turn;
    }
    cut_.fill(0);
    filled_.cuts.assign(operands * levels, none);
    for (Index level = 0; level < levels; ++level) {
        if (!fill_level(level)) return false;
        const FilledLevel& here = filling_.levels[level];
        for (Index slot = 0; slot < operands; ++slot) {
            const Index operand = here.held[slot];
            if (operand == none) continue;
            cut_[operand] += slots_[slot].best;
            if (!here.is_home[operand]) filled_.cuts[operand * levels + level] = cut_[operand];
        }
    }
    for (std::size_t at = 0; at < filled_.inside.size(); ++at) {
        const Index last = filling_.last_apart[at];
        filled_.inside[at] = last == none ? 0 : filled_.cuts[input * levels + last];
    }
    return true;
}

// Chooses the further loops of each operand with the least traffic from above; the last of equal choices.
bool Orders::fill_level(Index level) {
    const FilledLevel& here = filling_.levels[level];
    for (Index slot = 0; slot < operands; ++slot) {
        if (!measure(level, slots_[slot], here.held[slot])) return false;
    }
    const auto capacity_bits = static_cast<double>(here.capacity_bits);
    auto& [a, b, c] = slots_;
    double least = 0.0;
    bool is_found = false;
    for (Index one = a.first; one < a.fitting; ++one) {
        const double of_one = traffic(level, a, here.held[0], one);
        for (Index two = b.first; two < b.fitting; ++two) {
            const double of_two = of_one + traffic(level, b, here.held[1], two);
            for (Index three = c.first; three < c.fitting; ++three) {
                if (a.room_bits[one] + b.room_bits[two] + c.room_bits[three] > capacity_bits) {
                    const bool is_least = one == a.first && two == b.first && three == c.first;
                    if (is_least && !here.is_double_buffered) return false;
                    continue;
                }
                const double moved = of_two + traffic(level, c, here.held[2], three);
                if (is_found && moved > least) continue;
                is_found = true;
                least = moved;
                a.best = one;
                b.best = two;
                c.best = three;
            }
        }
    }
    return is_found;
}

// Measures an operand's tiles with increasing numbers of loops, up to the largest that fits. Returns true if a choice
// exists.
//
// In a double-buffered memory the final tile, which has no successor, may fit although a smaller one does not.
bool Orders::measure(Index level, Slot& slot, Index operand) {
    slot.first = 0;
    slot.fitting = 1;
    slot.room_bits.assign(1, 0.0);
    if (operand == none) return true;
    const FilledLevel& here = filling_.levels[level];
    const Index cut = cut_[operand], loops_left = static_cast<Index>(order_.size()) - cut;
    const bool is_partial = operand == output && (filling_.tiles[tile_[cut]].sums_are_left || here.adds_beside);
    const Count bits = is_partial ? filling_.partial_bits : filling_.bits[operand];
    slot.fitting = 0;
    slot.room_bits.clear();
    for (Index more = 0; more <= loops_left; ++more) {
        const Index tile = tile_[cut + more];
        double room_bits = here.elements[operand][tile] * static_cast<double>(bits);
        if (here.is_double_buffered && filling_.tiles[tile].is_left[operand]) room_bits *= 2;
        slot.room_bits.push_back(room_bits);
        if (room_bits <= static_cast<double>(here.capacity_bits)) slot.fitting = more + 1;
    }
    if (here.is_home[operand]) slot.first = loops_left;
    return slot.fitting > slot.first;
}

// Returns the total bits from above, by the tile size and the loops outside it.
double Orders::traffic(Index level, const Slot& slot, Index operand, Index more) const {
    if (operand == none || filling_.levels[level].is_home[operand]) return 0.0;
    const Count inside = filling_.tiles[tile_[cut_[operand] + more]].iterations;
    return slot.room_bits[more] * static_cast<double>(filling_.tiles[tile_.back()].iterations / inside);
}

Index UnevenProblem::tiles() const {
    Index count = 1;
    for (const Kind& one : kinds) count *= one.count + 1;
    return count;
}

Index UnevenProblem::placings() const {
    Index count = 1;
    for (const CutsOfOperand& one : of) count *= static_cast<Index>(one.cuts.size()) + 1;
    return count;
}

void UnevenProblem::check() const {
    const auto require = [](bool is_so, const char* what) {
        if (!is_so) throw std::invalid_argument(what);
    };
    Index step = 1;
    for (const Kind& one : kinds) {
        require(one.step == step && one.count >= 0, "steps are not those of a mixed radix");
        step *= one.count + 1;
    }
    const auto many = static_cast<std::size_t>(tiles());
    for (const CutsOfOperand& one : of) {
        require(one.least_to_come.size() == one.cuts.size() + 1, "a least is missing");
        for (const auto& least : one.least_to_come) require(least.size() == many, "a least is not of each tile");
        for (const Cut& cut : one.cuts) {
            require(cut.energy_pj.size() == many && cut.leaves_complete.size() == many, "a cut is not of each tile");
            for (const auto& needs : cut.need_bits) {
                require(needs.size() == capacity_bits.size(), "a cut does not know each memory");
                for (const auto& need : needs) require(need.size() == many, "a need is not of each tile");
            }
        }
    }
    require(is_open.size() == static_cast<std::size_t>(placings()), "not all states are open or closed");
    for (const auto& one : is_open) require(one.size() == capacity_bits.size(), "a state does not know each memory");
}

UnevenSearch::UnevenSearch(UnevenProblem problem) : problem_(std::move(problem)) {
    problem_.check();
    placings_ = problem_.placings();
    tiles_ = problem_.tiles();
    Index step = 1;
    for (Index operand = 0; operand < operands; ++operand) {
        step_[operand] = step;
        step *= static_cast<Index>(problem_.of[operand].cuts.size()) + 1;
    }
    first_.assign(static_cast<std::size_t>(tiles_) * placings_ * 2, none);
    trial_bits_.resize(problem_.capacity_bits.size());
    labels_.emplace_back();
    used_bits_.resize(trial_bits_.size());
    first({0, 0, problem_.starts_complete}) = 0;
}

Index& UnevenSearch::first(const State& state) {
    return first_[(static_cast<std::size_t>(state.tile) * 2 + state.is_complete) * placings_ + state.placed];
}

Index UnevenSearch::placed_of(Index placed, Index operand) const {
    return placed / step_[operand] % static_cast<Index>(problem_.of[operand].cuts.size() + 1);
}

bool UnevenSearch::go_on(Index tiles) {
    const Index stop = std::min(tile_ + tiles, tiles_);
    for (; tile_ < stop; ++tile_) {
        for (const bool is_complete : {false, true}) {
            for (Index placed = 0; placed < placings_; ++placed) {
                const State state{tile_, placed, is_complete};
                for (Index label = first(state); label != none; label = labels_[label].next) {
                    place_cuts(label, state);
                    add_factors(label, state);
                }
            }
        }
    }
    return tile_ < tiles_;
}

void UnevenSearch::place_cuts(Index label, const State& state) {
    const std::size_t memories = trial_bits_.size();
    for (Index operand = 0; operand < operands; ++operand) {
        const auto& cuts = problem_.of[operand].cuts;
        const Index at = placed_of(state.placed, operand);
        if (at == static_cast<Index>(cuts.size())) continue;
        const Cut& cut = cuts[at];
        State after{state.tile, state.placed + step_[operand], state.is_complete};
        if (operand == output) after.is_complete = cut.leaves_complete[state.tile];
        bool fits = true;
        for (std::size_t memory = 0; memory < memories; ++memory) {
            const Count used =
                used_bits_[label * memories + memory] + cut.need_bits[state.is_complete][memory][state.tile];
            fits = fits && used <= problem_.capacity_bits[memory];
            trial_bits_[memory] = problem_.is_open[after.placed][memory] ? used : 0;
        }
        const auto action = static_cast<Index>(problem_.kinds.size()) + operand;
        if (fits) offer(label, after, labels_[label].energy_pj + cut.energy_pj[state.tile], action);
    }
}

void UnevenSearch::add_factors(Index label, const State& state) {
    const std::size_t memories = trial_bits_.size();
    std::copy_n(used_bits_.begin() + label * memories, memories, trial_bits_.begin());
    for (Index kind = 0; kind < static_cast<Index>(problem_.kinds.size()); ++kind) {
        const Kind& one = problem_.kinds[kind];
        if (state.tile / one.step % (one.count + 1) == one.count) continue;
        offer(label, {state.tile + one.step, state.placed, state.is_complete}, labels_[label].energy_pj, kind);
    }
}

// Adds a label with the bits in `trial_bits_`, unless its bound exceeds the best known cost or another label dominates
// it.
void UnevenSearch::offer(Index before, const State& state, double energy_pj, Index action) {
    double bound = energy_pj;
    for (Index operand = 0; operand < operands; ++operand) {
        bound += problem_.of[operand].least_to_come[placed_of(state.placed, operand)][state.tile];
    }
    if (bound > problem_.worst_pj) return;
    Index last = none;
    for (Index other = first(state); other != none;) {
        if (labels_[other].energy_pj <= energy_pj && uses_no_more(other)) return;
        const Index following = labels_[other].next;
        if (energy_pj <= labels_[other].energy_pj && is_used_no_less(other)) {
            (last == none ? first(state) : labels_[last].next) = following;
        } else {
            last = other;
        }
        other = following;
    }
    labels_.push_back({before, first(state), action, energy_pj});
    used_bits_.insert(used_bits_.end(), trial_bits_.begin(), trial_bits_.end());
    first(state) = static_cast<Index>(labels_.size()) - 1;
}

bool UnevenSearch::uses_no_more(Index label) const {
    const auto used = used_bits_.begin() + label * trial_bits_.size();
    return std::equal(trial_bits_.begin(), trial_bits_.end(), used,
                      [](Count trial, Count own) { return own <= trial; });
}

bool UnevenSearch::is_used_no_less(Index label) const {
    const auto used = used_bits_.begin() + label * trial_bits_.size();
    return std::equal(trial_bits_.begin(), trial_bits_.end(), used,
                      [](Count trial, Count own) { return own >= trial; });
}

UnevenSearch::Best UnevenSearch::best() const {
    Best found{std::numeric_limits<double>::infinity(), {}};
    Index last = none;
    for (const bool is_complete : {false, true}) {
        const std::size_t state = (static_cast<std::size_t>(tiles_ - 1) * 2 + is_complete) * placings_ + placings_ - 1;
        for (Index label = first_[state]; label != none; label = labels_[label].next) {
            if (labels_[label].energy_pj >= found.energy_pj) continue;
            found.energy_pj = labels_[label].energy_pj;
            last = label;
        }
    }
    for (; last != none && labels_[last].before != none; last = labels_[last].before)
        found.actions.push_back(labels_[last].action);
    std::reverse(found.actions.begin(), found.actions.end());
    return found;
}

}  // namespace onchip::layer

namespace nb = nanobind;
using namespace nb::literals;

namespace onchip {

namespace {

using namespace layer;

using Row = nb::ndarray<Count, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Table = nb::ndarray<Count, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Cuts = nb::ndarray<Count, nb::ndim<3>, nb::c_contig, nb::device::cpu>;

// Columns of `Chosen` in `model/layer/tables.py` that an order determines.
struct Rows {
    Row turn_count;
    Table turn_loop, turn_size, beside_at;
    Cuts cut;

    void check(const Filled& filled, std::size_t levels) const {
        const std::size_t rows = turn_count.shape(0);
        const bool has_rows = turn_loop.shape(0) == rows && turn_size.shape(0) == rows && beside_at.shape(0) == rows;
        const bool has_columns = turn_loop.shape(1) >= filled.turns.size() &&
                                 turn_size.shape(1) == turn_loop.shape(1) && beside_at.shape(1) >= filled.inside.size();
        const bool has_cuts = cut.shape(0) == rows && cut.shape(1) == operands && cut.shape(2) == levels;
        if (!has_rows || !has_columns || !has_cuts) throw std::invalid_argument("rows have no room for an order");
    }

    void write(std::size_t row, const Filled& filled) {
        turn_count(row) = static_cast<Count>(filled.turns.size());
        for (std::size_t at = 0; at < filled.turns.size(); ++at) {
            turn_loop(row, at) = filled.turns[at].loop;
            turn_size(row, at) = filled.turns[at].size;
        }
        for (std::size_t at = 0; at < filled.inside.size(); ++at) beside_at(row, at) = filled.inside[at];
        for (std::size_t at = 0; at < filled.cuts.size(); ++at) {
            cut(row, at / cut.shape(2), at % cut.shape(2)) = filled.cuts[at];
        }
    }
};

// Returns the number of rows written, which is below the number of rows only at the end.
std::size_t fill(Orders& orders, Rows rows) {
    rows.check(orders.filled(), orders.filling().levels.size());
    const nb::gil_scoped_release without_lock;
    std::size_t row = 0;
    for (; row < rows.turn_count.shape(0) && orders.next(); ++row) rows.write(row, orders.filled());
    return row;
}

}  // namespace

void add_loma(nb::module_& module) {
    nb::class_<Kind>(module, "FactorKind",
                     "Equal factors of a loop; one more of them inside a tile raises the number of the tile by `step`.")
        .def(
            "__init__",
            [](Kind* place, Index loop, Count size, Index step, Index count) {
                new (place) Kind{{loop, size}, step, count};
            },
            nb::kw_only(), "loop"_a, "size"_a, "step"_a, "count"_a);
    nb::class_<FilledLevel>(
        module, "FilledLevel",
        "A memory that tiles are filled into.\n"
        "\n"
        "`adds_beside` is True if sums of several instances are added up above it. `held` are the operands\n"
        "that it holds, in the order of the file, padded with -1 to three. `is_home` is True per operand\n"
        "that is whole in it. `elements` is the size of each tile per operand, in elements.")
        .def(nb::init<Count, bool, bool, const std::array<Index, operands>&, const std::array<bool, operands>&,
                      std::array<std::vector<double>, operands>>(),
             nb::kw_only(), "capacity_bits"_a, "is_double_buffered"_a, "adds_beside"_a, "held"_a, "is_home"_a,
             "elements"_a);
    nb::class_<Orders>(
        module, "LomaOrders",
        "Iterator over all orders of the factors, each filled into the memories from the array upwards.\n"
        "\n"
        "Tiles are numbered in a mixed radix by how many factors of each kind are inside. `iterations`,\n"
        "`sums_are_left` and `is_left` are by tile: the product of the loops inside, True if loops outside\n"
        "add to the outputs, and per operand True if another tile follows. `last_apart` is, for each\n"
        "spatial loop, the last input level that does not serve it, or -1. Raises ValueError if a tile or\n"
        "an operand does not exist.")
        .def(
            "__init__",
            [](Orders* place, std::vector<Kind> kinds, const std::vector<Count>& iterations,
               const std::vector<bool>& sums_are_left, const std::array<std::vector<bool>, operands>& is_left,
               std::vector<FilledLevel> levels, const std::array<Count, operands>& bits, Count partial_bits,
               std::vector<Index> last_apart) {
                Filling filling{std::move(kinds), {}, std::move(levels), bits, partial_bits, std::move(last_apart)};
                for (std::size_t tile = 0; tile < iterations.size(); ++tile) {
                    filling.tiles.push_back({iterations[tile],
                                             sums_are_left.at(tile),
                                             {is_left[0].at(tile), is_left[1].at(tile), is_left[2].at(tile)}});
                }
                new (place) Orders(std::move(filling));
            },
            nb::kw_only(), "kinds"_a, "iterations"_a, "sums_are_left"_a, "is_left"_a, "levels"_a, "bits"_a,
            "partial_bits"_a, "last_apart"_a)
        .def(
            "fill",
            [](Orders& orders, Row turn_count, Table turn_loop, Table turn_size, Table beside_at, Cuts cut) {
                return fill(orders, {turn_count, turn_loop, turn_size, beside_at, cut});
            },
            "turn_count"_a.noconvert(), "turn_loop"_a.noconvert(), "turn_size"_a.noconvert(), "beside_at"_a.noconvert(),
            "cut"_a.noconvert(),
            "Write the next mappings into the arrays, one per row, and return their number.\n"
            "\n"
            "The number is below the number of rows only at the end. Raises ValueError if the arrays are too\n"
            "small.");
}

}  // namespace onchip

namespace nb = nanobind;
using namespace nb::literals;

namespace onchip {

void add_uneven(nb::module_& module) {
    using namespace layer;
    nb::class_<Cut>(module, "UnevenCut",
                    "One cut of an operand, with tables by tile.\n"
                    "\n"
                    "`need_bits` are the bits that it needs in each shared memory: first if partial sums arrive, then\n"
                    "if complete sums arrive. `leaves_complete` is True if the sums leave the cut complete.")
        .def(nb::init<std::vector<double>, std::array<std::vector<std::vector<Count>>, 2>, std::vector<bool>>(),
             nb::kw_only(), "energy_pj"_a, "need_bits"_a, "leaves_complete"_a);
    nb::class_<UnevenSearch>(
        module, "UnevenSearch",
        "Label-setting search for the mapping of least energy over all orders and all cuts of each operand.\n"
        "\n"
        "`kinds` number the tiles in a mixed radix. `cuts` and `least_to_come` are by operand;\n"
        "`least_to_come` is a lower bound in pJ on the cuts still to be placed, by number of cuts placed\n"
        "and tile. `capacity_bits` is the room of each memory that more than one cut needs. `is_open` is\n"
        "True, by cuts placed and memory, if a cut that needs the memory is still to be placed. `worst_pj`\n"
        "is the energy of the best known mapping. Raises ValueError if a table has the wrong size.")
        .def(
            "__init__",
            [](UnevenSearch* place, std::vector<Kind> kinds, std::array<std::vector<Cut>, operands> cuts,
               std::array<std::vector<std::vector<double>>, operands> least_to_come, std::vector<Count> capacity_bits,
               std::vector<std::vector<bool>> is_open, double worst_pj, bool starts_complete) {
                UnevenProblem problem{std::move(kinds),   {},       std::move(capacity_bits),
                                      std::move(is_open), worst_pj, starts_complete};
                for (Index operand = 0; operand < operands; ++operand) {
                    problem.of[operand] = {std::move(cuts[operand]), std::move(least_to_come[operand])};
                }
                new (place) UnevenSearch(std::move(problem));
            },
            nb::kw_only(), "kinds"_a, "cuts"_a, "least_to_come"_a, "capacity_bits"_a, "is_open"_a, "worst_pj"_a,
            "starts_complete"_a)
        .def("go_on", &UnevenSearch::go_on, "tiles"_a, nb::call_guard<nb::gil_scoped_release>(),
             "Process `tiles` more tiles; return False once the last one is done.")
        .def(
            "best",
            [](const UnevenSearch& search) {
                UnevenSearch::Best found = search.best();
                return std::pair(found.energy_pj, std::move(found.actions));
            },
            "Return energy in pJ and actions of the best label, or infinity and no actions if none fits.\n"
            "\n"
            "An action is the number of a factor kind that is added, or, after the kinds, of an operand of\n"
            "which a cut is placed. Valid once the last tile is done.");
}

}  // namespace onchip
