// Edits of a nest with separate cuts per operand.

#include "exact_uneven.hpp"

#include <algorithm>

namespace onchip::exact {

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

}  // namespace onchip::exact
