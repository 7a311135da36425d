// Depth-first enumeration of the inclusion-minimal eviction sets, and the bound on the remaining ones.

#include "joint_parts.hpp"

namespace onchip::joint {

namespace {

constexpr int nodes_of_a_choice = 1 << 10;

}  // namespace

Evictions::Evictions(const Tables& tables, const States& states, EvictedSets& sets, Queue& queue, Budget& budget)
    : tables_(tables), states_(states), sets_(sets), queue_(queue), ancestors_(&budget) {}

bool Evictions::defer(const Deferred& choice, const StopToken& stop) {
    Node node = begin(choice);
    for (int count = 0; count < nodes_of_a_choice; ++count) {
        if (stop.is_asked()) return false;
        const bool is_enough = holds(node.over);
        if (is_enough && is_minimal(node.over)) push(choice, node.cost, none);
        const auto places = static_cast<Index>(candidates_.size());
        while (node.following < places && has_to_stay(candidates_[node.following])) ++node.following;
        if (!is_enough && node.following < places && queue_.accepts(states_.least_cost(choice.parent, node.cost))) {
            choose(node);
        } else if (!path_.empty()) {
            take_back(node);
        } else {
            return true;
        }
    }
    push_rest(choice, node);
    return true;
}

// Returns the node at which the evictions of a choice have been made.
Evictions::Node Evictions::begin(const Deferred& choice) {
    list_candidates(choice.parent, choice.runs);
    operands_may_end_short_ = tables_.operands_may_end_short[choice.runs];
    path_.clear();
    Node node{states_.units_over(choice.parent, choice.runs), 0, choice.following};
    sets_.visit(choice.evicted, [&](Index tensor) {
        Candidate& one = *std::ranges::find(candidates_, tensor, &Candidate::tensor);
        one.is_chosen = true;
        node.over -= one.units;
        node.cost += one.cost;
    });
    return node;
}

// Returns true if the remaining tensors fit, given their units above the capacity.
bool Evictions::holds(Units over) const {
    if (over <= 0) return true;
    if (over > 1) return false;
    const auto stays_short = [](const Candidate& one) { return !one.is_chosen && one.may_end_short; };
    return operands_may_end_short_ || std::ranges::any_of(candidates_, stays_short);
}

// Returns true if every eviction is necessary.
bool Evictions::is_minimal(Units over) {
    return std::ranges::none_of(candidates_, [&](Candidate& one) {
        if (!one.is_chosen) return false;
        one.is_chosen = false;
        const bool could_stay = holds(over + one.units);
        one.is_chosen = true;
        return could_stay;
    });
}

// Returns true if the candidate it yields to stays, or if another input of its group is overwritten.
bool Evictions::has_to_stay(const Candidate& one) const {
    if (one.rather != none && !candidates_[one.rather].is_chosen) return true;
    const auto excludes = [&](const Candidate& other) { return other.is_chosen && other.group == one.group; };
    return one.group != none && std::ranges::any_of(candidates_, excludes);
}

void Evictions::choose(Node& node) {
    Candidate& one = candidates_[node.following];
    path_.push_back({node.following, none});
    one.is_chosen = true;
    node.over -= one.units;
    node.cost += one.cost;
    ++node.following;
}

void Evictions::take_back(Node& node) {
    Candidate& one = candidates_[path_.back().candidate];
    one.is_chosen = false;
    node.over += one.units;
    node.cost -= one.cost;
    node.following = path_.back().candidate + 1;
    path_.pop_back();
}

void Evictions::push(const Deferred& choice, Cost cost, Index following) {
    const Cost least = states_.least_cost(choice.parent, cost);
    if (!queue_.accepts(least)) return;
    Index set = choice.evicted;
    for (Chosen& one : path_) {
        if (one.set == none) one.set = sets_.with(set, candidates_[one.candidate].tensor);
        set = one.set;
    }
    queue_.push({choice.parent, choice.runs, set, following}, least, states_[choice.parent].cost + cost,
                states_[choice.parent].steps + 1);
}

// Defers the remaining sets: from a candidate on at this depth, and at each depth of the path.
void Evictions::push_rest(const Deferred& choice, Node node) {
    const Cost worth = worth_of_a_unit(states_.units_over(choice.parent, choice.runs));
    while (true) {
        const Cost least = least_cost_from(node.following, node.over, worth);
        if (least >= 0) push(choice, node.cost + least, node.following);
        if (path_.empty()) return;
        take_back(node);
    }
}

// Returns the price of a unit with the greatest bound over all candidates: the dual of a knapsack.
Cost Evictions::worth_of_a_unit(Units over) const {
    Cost best = 0, best_bound = 0;
    for (const Candidate& one : candidates_) {
        const Cost price = one.cost / one.units;
        const Cost bound = least_cost_from(0, over, price);
        if (bound > best_bound) {
            best = price;
            best_bound = bound;
        }
    }
    return best;
}

// Returns a lower bound on the cost of further evictions from a candidate on, valid for any price of a unit; -1 if all
// candidates together do not suffice.
//
// The last, partial unit is free.
Cost Evictions::least_cost_from(Index following, Units over, Cost worth) const {
    const Units units = std::max<Units>(0, over - 1);
    Units left = 0;
    __int128 bound = static_cast<__int128>(worth) * units;
    for (std::size_t at = following; at < candidates_.size(); ++at) {
        const Candidate& one = candidates_[at];
        left += one.units;
        bound -= std::max<__int128>(0, static_cast<__int128>(worth) * one.units - one.cost);
    }
    if (left < units) return none;
    return static_cast<Cost>(std::max<__int128>(0, bound));
}

}  // namespace onchip::joint
