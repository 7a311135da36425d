// The moves of the local search.

#include "exact_refine.hpp"

#include <algorithm>
#include <stdexcept>

namespace onchip::exact {

using layer::Beside;
using layer::Turn;

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
