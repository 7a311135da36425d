// Dominance between states.

#include "joint_parts.hpp"

namespace onchip::joint {

bool Frontier::enter(Index state) {
    Index& first = first_peer(state);
    for (Index peer = first; peer != none; peer = states_[peer].peer) {
        if (dominates(peer, state)) return false;
    }
    Index* link = &first;
    while (*link != none) {
        State& peer = states_[*link];
        if (dominates(state, *link)) {
            peer.is_dominated = true;
            *link = peer.peer;
        } else {
            link = &peer.peer;
        }
    }
    states_[state].peer = first;
    first = state;
    return true;
}

// Returns the first state with the same executed operators. A different set with the same hash uses the next hash
// value.
Index& Frontier::first_peer(Index state) {
    const Word* mine = states_.executed(state);
    for (Word hash = states_[state].hash;; ++hash) {
        Index& first = first_.try_emplace(hash, none).first->second;
        if (first == none || std::equal(mine, mine + tables_.operator_words, states_.executed(first))) return first;
    }
}

// Returns true if the first state can imitate the second at no higher cost: it evicts its excess tensors and stores the
// copies that only the second has. Both have executed the same operators.
bool Frontier::dominates(Index better, Index worse) const {
    Cost left = states_[worse].cost - states_[better].cost;
    const Word *mine = states_.resident(better), *theirs = states_.resident(worse);
    const Word *my_copies = states_.copied(better), *their_copies = states_.copied(worse);
    for (Index at = 0; at < tables_.tensor_words && left >= 0; ++at) {
        Word excess = mine[at] & ~theirs[at];
        Word copies = their_copies[at] & ~my_copies[at] & ~excess;
        while (excess != 0 && left >= 0) {
            left -= states_.evict_cost(better, at * word_bits + take_lowest(excess));
        }
        while (copies != 0 && left >= 0) left -= tables_.tensors[at * word_bits + take_lowest(copies)].store_cost;
    }
    return left >= 0;
}

}  // namespace onchip::joint
