// The label-setting search, tile by tile.

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <utility>

#include "uneven.hpp"

namespace onchip::layer {

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
