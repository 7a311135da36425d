// Iterated local search that improves a mapping with separate cuts for each operand. It proves nothing.
//
// A move changes the position of a cut, a loop or one prime factor of a loop, or moves the factor onto or off the
// array. The search makes the best move until none improves, perturbs at random, and repeats. The same seed gives the
// same moves.

#include <algorithm>
#include <random>
#include <stdexcept>
#include <utility>
#include <vector>

#include "exact.hpp"
#include "layer.hpp"

namespace onchip::exact {

using layer::Count;
using layer::Index;

// Temporal loops innermost first, spatial loops, and cuts as in `layer::Mapping`.
struct UnevenNest {
    std::vector<layer::Turn> turns;
    std::vector<layer::Beside> beside;
    std::vector<Index> cuts;
};

// Distinct prime factors, ascending.
std::vector<Count> primes_of(Count size);

// Inserts a loop at a position, inside the cuts there or directly outside them.
void insert(UnevenNest& nest, Index at, const layer::Turn& turn, bool is_inside);
void erase(UnevenNest& nest, Index at);
bool is_cut_at(const UnevenNest& nest, Index at);

// Removes loops of one iteration, and merges adjacent loops of equal kind without a cut between them.
void tidy(UnevenNest& nest);

Count used_units(const UnevenNest& nest, Index along);

// Multiplies an existing spatial loop along a dimension, or adds one at its own position.
void put_beside(UnevenNest& nest, const layer::Beside& added);

class Refiner {
public:
    // `unrolls` is true per dimension of the array and loop if the loop may be unrolled along it. Throws
    // std::invalid_argument if the cuts do not cover each level, or do not ascend from level to level of an operand.
    Refiner(Layer layer, Machine machine, Objective objective, std::vector<std::vector<bool>> unrolls, UnevenNest start,
            std::uint32_t seed);

    // Evaluates about `mappings` more mappings.
    void go_on(Count mappings);

    // In femtojoules, cycles or their product; infinite if neither the start nor any later mapping fits.
    double value() const { return best_value_.first; }
    Nest nest() const;

private:
    // The objective, then energy times cycles as a tie-breaker, so that equal mappings still give a direction.
    using Value = std::pair<double, double>;

    void check() const;
    Value cost(const UnevenNest& nest);
    bool step();
    void shake();
    void offer(UnevenNest nest);

    template <typename Take>
    void each_step(const UnevenNest& nest, Take take) const;
    template <typename Take>
    void move_cuts(const UnevenNest& nest, Take take) const;
    template <typename Take>
    void move_turns(const UnevenNest& nest, Take take) const;
    template <typename Take>
    void unroll(const UnevenNest& nest, Take take) const;
    template <typename Take>
    void exchange(const UnevenNest& taken, const layer::Beside& added, Take take) const;
    template <typename Take>
    void roll_up(const UnevenNest& nest, Take take) const;
    template <typename Take>
    void insert_anywhere(const UnevenNest& nest, const layer::Turn& turn, Take take) const;

    layer::Costs costs_;
    Objective objective_;
    std::vector<Count> units_;
    std::vector<std::vector<bool>> unrolls_;  // by dimension of the array and loop
    std::size_t levels_;
    UnevenNest now_, best_, next_;
    Value now_value_, best_value_, next_value_;
    Count costed_ = 0;
    std::mt19937 random_;
};

using layer::Beside;
using layer::Turn;

std::vector<Count> primes_of(Count size) {
    std::vector<Count> found;
    for (Count prime = 2; prime * prime <= size; ++prime) {
        if (size % prime == 0) found.push_back(prime);
        while (size % prime == 0) size /= prime;
    }
    if (size > 1) found.push_back(size);
    return found;
}

void insert(UnevenNest& nest, Index at, const Turn& turn, bool is_inside) {
    nest.turns.insert(nest.turns.begin() + at, turn);
    const auto shift = [&](Index& place) {
        if (place > at || (place == at && is_inside)) ++place;
    };
    for (Index& cut : nest.cuts) shift(cut);
    for (Beside& one : nest.beside) shift(one.at);
}

void erase(UnevenNest& nest, Index at) {
    nest.turns.erase(nest.turns.begin() + at);
    for (Index& cut : nest.cuts) cut -= cut > at;
    for (Beside& one : nest.beside) one.at -= one.at > at;
}

bool is_cut_at(const UnevenNest& nest, Index at) {
    return std::ranges::find(nest.cuts, at) != nest.cuts.end() ||
           std::ranges::any_of(nest.beside, [at](const Beside& one) { return one.at == at; });
}

void tidy(UnevenNest& nest) {
    std::erase_if(nest.beside, [](const Beside& one) { return one.size == 1; });
    for (auto at = static_cast<Index>(nest.turns.size()) - 1; at >= 0; --at) {
        if (nest.turns[at].size == 1) {
            erase(nest, at);
        } else if (at + 1 < static_cast<Index>(nest.turns.size()) && nest.turns[at].loop == nest.turns[at + 1].loop &&
                   !is_cut_at(nest, at + 1)) {
            nest.turns[at].size *= nest.turns[at + 1].size;
            erase(nest, at + 1);
        }
    }
}

Count used_units(const UnevenNest& nest, Index along) {
    Count used = 1;
    for (const Beside& one : nest.beside) used *= one.along == along ? one.size : 1;
    return used;
}

void put_beside(UnevenNest& nest, const Beside& added) {
    for (Beside& one : nest.beside) {
        if (one.loop == added.loop && one.along == added.along) {
            one.size *= added.size;
            return;
        }
    }
    nest.beside.push_back(added);
    std::ranges::stable_sort(nest.beside, {}, &Beside::at);
}

namespace {

constexpr Index steps_at_random = 4;

}  // namespace

Refiner::Refiner(Layer layer, Machine machine, Objective objective, std::vector<std::vector<bool>> unrolls,
                 UnevenNest start, std::uint32_t seed)
    : costs_(std::move(layer), machine),
      objective_(objective),
      units_(machine.units),
      unrolls_(std::move(unrolls)),
      levels_(costs_.levels()),
      now_(std::move(start)),
      random_(seed) {
    check();
    tidy(now_);
    best_ = now_;
    now_value_ = best_value_ = cost(now_);
}

void Refiner::check() const {
    const auto require = [](bool is_so, const char* what) {
        if (!is_so) throw std::invalid_argument(what);
    };
    require(unrolls_.size() == units_.size(), "what may be unrolled is not said of each dimension");
    for (const auto& loops : unrolls_) require(loops.size() == layer::loops, "nor of each loop");
    require(now_.cuts.size() == layer::operands * levels_, "cuts are not of each operand and level");
    for (std::size_t operand = 0; operand < layer::operands; ++operand) {
        Index least = 0;
        for (std::size_t level = 0; level < levels_; ++level) {
            const Index cut = now_.cuts[operand * levels_ + level];
            require(cut == none || (cut >= least && cut <= static_cast<Index>(now_.turns.size())), "cuts do not rise");
            if (cut != none) least = cut;
        }
    }
}

void Refiner::go_on(Count mappings) {
    const Count last = costed_ + mappings;
    while (costed_ < last) {
        if (step()) continue;
        if (now_value_ < best_value_) {
            best_ = now_;
            best_value_ = now_value_;
        } else {
            now_ = best_;
            now_value_ = best_value_;
        }
        shake();
    }
    if (now_value_ < best_value_) {
        best_ = now_;
        best_value_ = now_value_;
    }
}

Refiner::Value Refiner::cost(const UnevenNest& nest) {
    ++costed_;
    const layer::Cost found = costs_.of({nest.turns, nest.beside, nest.cuts});
    if (found.status != layer::Status::costed) return {infinite, infinite};
    const auto cycles = static_cast<double>(found.cycles);
    return {value_of(objective_, found.energy_pj, cycles), found.energy_pj * cycles};
}

// Moves to the best neighbour if it is better. Returns true if it moved.
bool Refiner::step() {
    next_value_ = now_value_;
    each_step(now_, [this](UnevenNest nest) { offer(std::move(nest)); });
    if (!(next_value_ < now_value_)) return false;
    now_ = next_;
    now_value_ = next_value_;
    return true;
}

void Refiner::offer(UnevenNest nest) {
    tidy(nest);
    const Value value = cost(nest);
    if (!(value < next_value_)) return;
    next_value_ = value;
    next_ = std::move(nest);
}

// Perturbs the mapping by random moves to valid mappings.
void Refiner::shake() {
    for (Index steps = 0; steps < steps_at_random; ++steps) {
        std::vector<UnevenNest> neighbours;
        each_step(now_, [&](UnevenNest nest) { neighbours.push_back(std::move(nest)); });
        for (Index tries = 0; tries < 8 && !neighbours.empty(); ++tries) {
            UnevenNest& one = neighbours[random_() % neighbours.size()];
            tidy(one);
            const Value value = cost(one);
            if (value.first == infinite) continue;
            now_ = one;
            now_value_ = value;
            break;
        }
    }
    ++costed_;
}

template <typename Take>
void Refiner::each_step(const UnevenNest& nest, Take take) const {
    move_cuts(nest, take);
    move_turns(nest, take);
    unroll(nest, take);
    roll_up(nest, take);
}

template <typename Take>
void Refiner::move_cuts(const UnevenNest& nest, Take take) const {
    for (std::size_t at = 0; at < nest.cuts.size(); ++at) {
        if (nest.cuts[at] == none) continue;
        const std::size_t first = at - at % levels_, last = first + levels_;
        Index lowest = 0, highest = static_cast<Index>(nest.turns.size());
        for (std::size_t other = first; other < at; ++other) lowest = std::max(lowest, nest.cuts[other]);
        for (std::size_t other = last - 1; other > at; --other) {
            if (nest.cuts[other] != none) highest = nest.cuts[other];
        }
        for (Index cut = lowest; cut <= highest; ++cut) {
            if (cut == nest.cuts[at]) continue;
            UnevenNest moved = nest;
            moved.cuts[at] = cut;
            take(std::move(moved));
        }
    }
}

// Moves a loop, or one of its prime factors, to another position.
template <typename Take>
void Refiner::move_turns(const UnevenNest& nest, Take take) const {
    for (Index at = 0; at < static_cast<Index>(nest.turns.size()); ++at) {
        const Turn turn = nest.turns[at];
        for (Count part : primes_of(turn.size)) {
            UnevenNest without = nest;
            without.turns[at].size /= part;
            insert_anywhere(without, {turn.loop, part}, take);
            if (part == turn.size) continue;
            without = nest;
            without.turns[at].size = part;
            insert_anywhere(without, {turn.loop, turn.size / part}, take);
        }
        UnevenNest without = nest;
        erase(without, at);
        insert_anywhere(without, turn, take);
    }
}

template <typename Take>
void Refiner::insert_anywhere(const UnevenNest& nest, const Turn& turn, Take take) const {
    for (Index place = 0; place <= static_cast<Index>(nest.turns.size()); ++place) {
        UnevenNest moved = nest;
        insert(moved, place, turn, false);
        take(std::move(moved));
        if (!is_cut_at(nest, place)) continue;
        moved = nest;
        insert(moved, place, turn, true);
        take(std::move(moved));
    }
}

// Unrolls a prime factor of a loop, in addition to the present factors or in exchange for a factor of another loop.
template <typename Take>
void Refiner::unroll(const UnevenNest& nest, Take take) const {
    for (Index at = 0; at < static_cast<Index>(nest.turns.size()); ++at) {
        const Turn turn = nest.turns[at];
        for (Index along = 0; along < static_cast<Index>(units_.size()); ++along) {
            if (!unrolls_[along][turn.loop]) continue;
            for (Count prime : primes_of(turn.size)) {
                UnevenNest taken = nest;
                taken.turns[at].size /= prime;
                for (Index place : {Index{0}, at, at + 1}) {
                    if (used_units(nest, along) * prime > units_[along]) break;
                    UnevenNest moved = taken;
                    put_beside(moved, {turn.loop, prime, along, place});
                    take(std::move(moved));
                }
                exchange(taken, {turn.loop, prime, along, at}, take);
            }
        }
    }
}

// Adds a factor along a dimension of the array in exchange for a prime factor there, which takes its position in time.
template <typename Take>
void Refiner::exchange(const UnevenNest& taken, const Beside& added, Take take) const {
    const Count used = used_units(taken, added.along);
    for (std::size_t other = 0; other < taken.beside.size(); ++other) {
        const Beside one = taken.beside[other];
        if (one.along != added.along || one.loop == added.loop) continue;
        for (Count given : primes_of(one.size)) {
            if (used / given * added.size > units_[added.along]) continue;
            UnevenNest moved = taken;
            moved.beside[other].size /= given;
            put_beside(moved, {added.loop, added.size, added.along, one.at});
            insert(moved, added.at, {one.loop, given}, false);
            take(std::move(moved));
        }
    }
}

// Moves a prime factor of a spatial loop to a temporal loop of its own.
template <typename Take>
void Refiner::roll_up(const UnevenNest& nest, Take take) const {
    for (std::size_t at = 0; at < nest.beside.size(); ++at) {
        for (Count prime : primes_of(nest.beside[at].size)) {
            UnevenNest without = nest;
            without.beside[at].size /= prime;
            insert_anywhere(without, {nest.beside[at].loop, prime}, take);
        }
    }
}

Nest Refiner::nest() const {
    Nest found;
    std::vector<Index> inside{0};
    for (Index at = 0; at <= static_cast<Index>(best_.turns.size()); ++at) {
        for (const Beside& one : best_.beside) {
            if (one.at == at) found.loops.push_back({one.loop, one.size, one.along});
        }
        if (at == static_cast<Index>(best_.turns.size())) break;
        found.loops.push_back({best_.turns[at].loop, best_.turns[at].size, none});
        inside.push_back(static_cast<Index>(found.loops.size()));
    }
    for (std::size_t operand = 0; operand < layer::operands; ++operand) {
        for (std::size_t level = 0; level < levels_; ++level) {
            const Index cut = best_.cuts[operand * levels_ + level];
            found.kept[operand].push_back(cut == none ? none : inside[cut]);
        }
    }
    return found;
}

}  // namespace onchip::exact
