// The candidates for eviction, and the dominance between similar ones.

#include <iterator>

#include "joint_parts.hpp"

namespace onchip::joint {

// Lists the residents that the operator does not read, with the candidate that each yields to.
void Evictions::list_candidates(Index state, Index runs) {
    if (listed_ != state) list_residents(state);
    candidates_.clear();
    const std::span<const Index> read = tables_.reads[runs];
    std::ranges::copy_if(residents_, std::back_inserter(candidates_),
                         [read](const Candidate& one) { return !std::ranges::binary_search(read, one.tensor); });
    for (auto one = candidates_.begin(); one != candidates_.end(); ++one) {
        for (auto other = one; other != candidates_.begin() && one->rather == none;) {
            --other;
            if (other->units != one->units) break;
            if (leaves_rather(state, *other, *one)) one->rather = static_cast<Index>(other - candidates_.begin());
        }
    }
    list_overwritables(state, runs);
}

// Lists the inputs that may be overwritten if they are evicted, unless an input of their group is dead then.
void Evictions::list_overwritables(Index state, Index runs) {
    const std::vector<Overwritable>& all = tables_.overwritables[runs];
    for (const Overwritable& one : all) {
        const auto is_dead = [&](const Overwritable& other) {
            return other.group == one.group && states_.is_last_use(state, other.tensor, runs);
        };
        if (std::ranges::any_of(all, is_dead)) continue;
        candidates_.push_back({one.tensor, none, one.units, states_.evict_cost(state, one.tensor), none, one.group,
                               tables_.tensors[one.tensor].may_end_short, false});
    }
}

// Lists residents by decreasing size; for equal sizes by decreasing next use, so that `rather` refers to an earlier
// one.
void Evictions::list_residents(Index state) {
    listed_ = state;
    residents_.clear();
    for (Index at = 0; at < tables_.tensor_words; ++at) {
        Word left = states_.resident(state)[at];
        while (left != 0) {
            const Index tensor = at * word_bits + take_lowest(left);
            const Tensor& one = tables_.tensors[tensor];
            std::size_t first = 0;
            const Index next = next_reader(state, tables_.readers[tensor], first);
            residents_.push_back(
                {tensor, next, one.units, states_.evict_cost(state, tensor), none, none, one.may_end_short, false});
        }
    }
    std::ranges::sort(residents_, [](const Candidate& one, const Candidate& other) {
        if (one.units != other.units) return one.units > other.units;
        if (one.next_reader != other.next_reader) return one.next_reader > other.next_reader;
        return one.tensor < other.tensor;
    });
}

// Returns the first reader from position `at` on that has not run, and sets `at`; none at the end.
Index Evictions::next_reader(Index state, std::span<const Index> readers, std::size_t& at) const {
    const Word* executed = states_.executed(state);
    while (at < readers.size() && has(executed, readers[at])) ++at;
    return at < readers.size() ? readers[at] : none;
}

// Returns true if the first of two candidates of equal size may leave in place of the second.
//
// They must be alike. Either the same operators read both later, and none may overwrite one of them; or a single
// operator reads the second, and it runs before (or is) each later reader of the first.
bool Evictions::leaves_rather(Index state, const Candidate& rather, const Candidate& other) {
    if (tables_.tensors[rather.tensor].load_cost != tables_.tensors[other.tensor].load_cost) return false;
    if (rather.cost != other.cost || rather.may_end_short != other.may_end_short) return false;
    const std::span<const Index> ours = tables_.readers[rather.tensor], theirs = tables_.readers[other.tensor];
    std::size_t our_place = 0, their_place = 0;
    Index mine = next_reader(state, ours, our_place), awaited = next_reader(state, theirs, their_place);
    std::size_t after = their_place + 1;
    if (next_reader(state, theirs, after) == none) {
        for (; mine != none; mine = next_reader(state, ours, ++our_place)) {
            if (mine != awaited && !runs_before(awaited, mine)) return false;
        }
        return true;
    }
    if (tables_.is_overwritable[rather.tensor] || tables_.is_overwritable[other.tensor]) return false;
    while (mine != none && mine == awaited) {
        mine = next_reader(state, ours, ++our_place);
        awaited = next_reader(state, theirs, ++their_place);
    }
    return mine == awaited;
}

bool Evictions::runs_before(Index first, Index second) {
    if (ancestors_.empty()) ancestors_.resize(tables_.operator_count);
    std::pmr::vector<Word>& row = ancestors_[second];
    if (row.empty()) {
        row.resize(tables_.operator_words);
        walked_.assign(1, second);
        while (!walked_.empty()) {
            const Index one = walked_.back();
            walked_.pop_back();
            for (Index before : tables_.predecessors[one]) {
                if (has(row.data(), before)) continue;
                add(row.data(), before);
                walked_.push_back(before);
            }
        }
    }
    return has(row.data(), first);
}

}  // namespace onchip::joint
