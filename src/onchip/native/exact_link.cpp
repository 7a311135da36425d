// The least value of a criterion over all chains of tiles of one way: dynamic programming over the memory levels.

#include <algorithm>

#include "exact_price.hpp"

namespace onchip::exact {

namespace {

void add(Index count, const double* one, const double* other, double* sums) {
    for (Index tile = 0; tile < count; ++tile) sums[tile] = one[tile] + other[tile];
}

}  // namespace

double Prices::link(Index at) {
    const Index count = tiling_.last() + 1;
    for (Index level = 0; level < levels_; ++level) {
        double* ended = ended_.data();
        const double* barred = barred_[level];
        if (level == 0)
            std::copy(barred, barred + count, ended);
        else
            add(count, barred, best(at, level - 1), ended);
        for (Index operand = 0; operand < operands; ++operand) {
            for (Index first = 0; first < level; ++first) {
                if (space_.holds[operand][first]) go_on(at, level, operand, first, run(at, level - 1, operand, first));
            }
            if (space_.holds[operand][level]) go_on(at, level, operand, level, ended);
        }
        for (Index operand = 0; operand < operands; ++operand) {
            if (!space_.holds[operand][level]) continue;
            const double* own = term(at, operand, level);
            add(count, ended, own, ended);
        }
        end_runs(at, level, ended);
        double* least = best_[at * levels_ + level];
        std::copy(ended, ended + count, least);
        spread(least, no_class);
    }
    return levels_ == 0 ? fixed_[at] : fixed_[at] + best(at, levels_ - 1)[count - 1];
}

// Continues a run that begins at level `first`, with further loops of its class; only the other operands are paid yet.
void Prices::go_on(Index at, Index level, Index operand, Index first, const double* before) {
    const Index count = tiling_.last() + 1;
    double* open = run_[run_row(at, level, operand, first)];
    add(count, barred_[level], before, open);
    for (Index other = 0; other < operands; ++other) {
        if (other == operand || !space_.holds[other][level]) continue;
        const double* own = term(at, other, level);
        add(count, open, own, open);
    }
    spread(open, operand);
}

// Pays for open runs at the tile at which they end.
void Prices::end_runs(Index at, Index level, double* ended) {
    const Index count = tiling_.last() + 1;
    double* due = due_.data();
    for (Index operand = 0; operand < operands; ++operand) {
        std::fill(due, due + count, 0.0);
        for (Index first = level; first >= 0; --first) {
            if (!space_.holds[operand][first]) continue;
            const double* own = term(at, operand, first);
            add(count, due, own, due);
            const double* open = run(at, level, operand, first);
            for (Index tile = 0; tile < count; ++tile) ended[tile] = std::min(ended[tile], open[tile] + due[tile]);
        }
    }
}

// Sets each tile's value to the minimum over the tiles inside it that differ by loops of one class (`no_class`: any).
void Prices::spread(double* values, Index loops_of) const {
    const Index count = tiling_.last() + 1;
    for (std::size_t digit = 0; digit < space_.digits.size(); ++digit) {
        const Index own = space_.class_of[space_.digits[digit].loop];
        if (loops_of != no_class && loops_of != own) continue;
        const Index stride = tiling_.stride[digit], copies = tiling_.radix[digit] - 1;
        for (Index start = 0; start < count; start += stride * (copies + 1)) {
            for (Index copy = 0; copy < copies; ++copy) {
                const double* __restrict__ inside = values + start + copy * stride;
                double* __restrict__ around = values + start + (copy + 1) * stride;
                for (Index tile = 0; tile < stride; ++tile) around[tile] = std::min(around[tile], inside[tile]);
            }
        }
    }
}

}  // namespace onchip::exact
