// Operators whole or in bands, and orders of the bands: whatever ends sooner is kept.
//
// A network is cut as `transform/slices/channel_bands` cuts a graph: band k of n of an operator has the k-th of n equal
// ranges of the channels of what it cuts, and all of what it does not; a tensor is cut at the ends of every such range.
// Tests hold both equal.
//
// Words. A piece is an operator, or one of its bands. Pieces are numbered operator by operator, bands of tensors tensor
// by tensor. Parts say of each operator in how many bands it runs, 1 for whole.

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

// Cycles of a transfer: those of every unit begun, added up over the terms.
struct Term {
    std::int64_t unit_bits = 8;
    Cycles cycles = 1;
};
using Rate = std::vector<Term>;

// Without a shape a tensor has one channel.
struct WholeTensor {
    Bytes bytes = 0;
    Index channels = 1;
    std::int64_t bits_per_channel = 0;
    bool is_in_dram = false;
    bool is_output = false;
    Index memory = 0;
    Index same_as = none;  // it is another place of that tensor, cut as it is
};

// What of a scratchpad the search of whole machines does not know.
struct Access {
    Bytes alignment_bytes = 1;
    Rate load, store;
};

struct Way {
    Index parts = 1;
    Cycles cycles = 0;  // of one
};

struct Operand {
    Index tensor = none;
    bool is_cut = false;  // each band has a part of it
};

// Its first way is the whole.
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

    // Throws std::invalid_argument, saying which entry, for what no network has.
    void check() const;
};

struct Piece {
    Index of = none;
    Index part = 0;
    Index parts = 1;

    // The share of the operator that has run when this piece has.
    double share() const { return static_cast<double>(part + 1) / parts; }
};

struct Cut {
    std::vector<Piece> pieces;
    Problem problem;
    std::vector<Bytes> sizes_bytes;  // of bands of tensors, not rounded up to the alignment
};

// The parts are among the ways of the operators.
Cut cut(const Network& network, const Parts& parts);

// What is less: the latency, then the cycles of all transfers, then the pieces.
using Worth = std::array<std::int64_t, 3>;

class BandSearch {
public:
    explicit BandSearch(Network network);

    // Starts over, at an order of the pieces, or at that of the network as given.
    void begin(const Parts& parts, std::uint64_t seed, const std::vector<Index>& order = {});

    // From now on orders have this room.
    void limit_room(const Room& room);

    // Tries each change of the best once, in any order, and goes on from each that is better.
    void cut_otherwise(Cycles enough, const StopToken& stop);

    // Changes the order of the best.
    void reorder(std::int64_t most_evaluations, double hottest, Cycles enough, const StopToken& stop);

    // Simulated annealing over bands and orders together: starts at the best and evaluates at most so many orders.
    void anneal(std::int64_t most_evaluations, double hottest, Cycles enough, const StopToken& stop);

    // The best, as it is with so much room; rounds of placing end when `stop` is asked.
    Timing evaluate(const Room& room, const std::vector<Bytes>& first = {}, const StopToken* stop = nullptr) const;

    const Parts& parts() const { return best_.parts; }
    const std::vector<Index>& order() const { return best_.order; }
    const std::vector<Bytes>& sizes_bytes() const { return best_.cut.sizes_bytes; }
    const std::vector<Tensor>& tensors() const { return best_.cut.problem.tensors; }
    Worth worth() const { return best_.worth; }

    // Whether the operands of one band of so many have room together.
    bool fits(Index of, Index parts) const;

private:
    using Change = std::vector<std::pair<Index, Index>>;
    using Place = std::pair<double, double>;

    struct Answer {
        Parts parts;
        Cut cut;
        std::vector<Index> order;
        Worth worth{never, never, never};
        std::vector<std::vector<Place>> places;  // by operator (share that has run, place from 0 to 1), rising
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
