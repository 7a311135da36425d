// A search over splits of operators into bands, and orders of the bands, for low latency.
//
// A network is split as `transform/slices/channel_bands` splits a graph: band k of n of an operator takes the k-th of n
// equal channel ranges of its split operands, and its other operands whole. A tensor is split at the ends of all such
// ranges. Tests check both for equality.
//
// Terms. A piece is an operator or one of its bands. Pieces are numbered operator by operator, bands of tensors tensor
// by tensor. Parts are the number of bands of each operator, 1 for whole.

#pragma once

#include <array>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "latency.hpp"
#include "stop.hpp"

namespace onchip::latency {

using Parts = std::vector<Index>;

// Cycles of a transfer: the sum over terms of the units, rounded up, times the cycles of a unit.
struct Term {
    std::int64_t unit_bits = 8;
    Cycles cycles = 1;
};
using Rate = std::vector<Term>;

// A tensor without a shape has one channel.
struct WholeTensor {
    Bytes bytes = 0;
    Index channels = 1;
    std::int64_t bits_per_channel = 0;
    bool is_in_dram = false;
    bool is_output = false;
    Index memory = 0;
    Index same_as = none;  // its original in another scratchpad, split in the same way
};

// Properties of a scratchpad that the search over whole operators does not need.
struct Access {
    Bytes alignment_bytes = 1;
    Rate load, store;
};

struct Way {
    Index parts = 1;
    Cycles cycles = 0;  // of one band
};

struct Operand {
    Index tensor = none;
    bool is_cut = false;  // true if each band uses only its part
};

// The first way is the whole operator.
struct WholeOperator {
    std::vector<Operand> reads;
    std::vector<Operand> writes;
    std::vector<Way> ways;
    bool cuts_inputs = false;
};

struct Network {
    std::vector<WholeTensor> tensors;
    std::vector<WholeOperator> operators;
    Machine machine;
    std::vector<Access> accesses;  // by scratchpad
    bool has_given_order = false;

    // Throws std::invalid_argument, with the entry, if the network is invalid.
    void check() const;
};

struct Piece {
    Index of = none;
    Index part = 0;
    Index parts = 1;

    // Share of the operator that has run once this piece has.
    double share() const { return static_cast<double>(part + 1) / parts; }
};

struct Cut {
    std::vector<Piece> pieces;
    Problem problem;
    std::vector<Bytes> sizes_bytes;  // of bands of tensors, not rounded up to the alignment
};

// The parts must be among the operators' ways.
Cut cut(const Network& network, const Parts& parts);

// Lexicographic objective: latency, cycles of all transfers, number of pieces.
using Worth = std::array<std::int64_t, 3>;

class BandSearch {
public:
    explicit BandSearch(Network network);

    // Restarts from an order of the pieces, or from the network's given order.
    void begin(const Parts& parts, std::uint64_t seed, const std::vector<Index>& order = {});

    // Sets the room for orders from now on.
    void limit_room(const Room& room);

    // Tries each change of the incumbent once, in random order, and continues from each improvement.
    void cut_otherwise(Cycles enough, const StopToken& stop);

    // Improves the order of the incumbent.
    void reorder(std::int64_t most_evaluations, double hottest, Cycles enough, const StopToken& stop);

    // Simulated annealing over bands and orders together, from the incumbent, with at most `most_evaluations` orders.
    void anneal(std::int64_t most_evaluations, double hottest, Cycles enough, const StopToken& stop);

    // Times the incumbent in the given room; rounds of placement end after a stop request.
    Timing evaluate(const Room& room, const std::vector<Bytes>& first = {}, const StopToken* stop = nullptr) const;

    const Parts& parts() const { return best_.parts; }
    const std::vector<Index>& order() const { return best_.order; }
    const std::vector<Bytes>& sizes_bytes() const { return best_.cut.sizes_bytes; }
    const std::vector<Tensor>& tensors() const { return best_.cut.problem.tensors; }
    Worth worth() const { return best_.worth; }

    // Returns true if the operands of one of `parts` bands fit together.
    bool fits(Index of, Index parts) const;

private:
    using Change = std::vector<std::pair<Index, Index>>;
    using Place = std::pair<double, double>;

    struct Answer {
        Parts parts;
        Cut cut;
        std::vector<Index> order;
        Worth worth{never, never, never};
        std::vector<std::vector<Place>> places;  // by operator: (share that has run, position from 0 to 1), ascending
    };

    Index whole(Index tensor) const;
    void find_changes();
    void add_together(const std::vector<Index>& group);
    std::vector<Index> that_cut(Index of) const;
    void attempt(const Change& change, double heat);
    void go_on_from(const Parts& parts, const Cut& cut, std::vector<Index> order, double heat);
    void reorder_now(std::int64_t most_evaluations, double hottest, double coldest, Cycles enough,
                     const StopToken& stop);
    Worth worth_of(const Cut& cut, const std::vector<Index>& order, Cycles latest = never) const;
    std::vector<Index> carried_over(const Cut& cut) const;
    std::vector<Index> woven(const Cut& cut, const Parts& parts) const;
    void note_places();

    Network network_;
    std::vector<Index> writer_;
    std::vector<std::vector<Index>> readers_;
    std::vector<Change> changes_;
    std::mt19937_64 random_;
    Room room_;

    Answer best_, now_;
};

}  // namespace onchip::latency
