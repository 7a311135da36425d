// Cost model of layer mappings: the figures of `model/layer/cost.py`, fast enough for millions of mappings.
//
// The counted quantities are defined in docs/layer_cost.md. Numbers stand for operands, loops and levels of memory:
// operand 0 is the input, operand 1 the weight, operand 2 the output; loops are numbered as LOOPS in `ir/layer.py`;
// levels are numbered as in the accelerator, followed by DRAM, and level -1 is the MACs, which hold no tiles.

#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

namespace onchip::layer {

using Count = std::int64_t;
using Index = std::int32_t;

enum Operand : Index { input, weight, output };
inline constexpr Index operands = 3;
inline constexpr Index loops = 8;
inline constexpr Index macs = -1;
inline constexpr Index none = -1;

// The loops along which tiles of the input overlap: P and R, Q and S.
enum Side : Index { output_rows, filter_rows, output_columns, filter_columns };
inline constexpr Index sides = 4;

enum Move : Index { read_for_below, write_from_above, read_for_above, write_from_below };
inline constexpr Index moves = 4;

// One dimension of the input, with `size` stored positions.
struct Axis {
    Count outputs = 1;
    Count filters = 1;
    Count stride = 1;
    Count dilation = 1;
    Count padding = 0;
    Count size = 1;
};

// A layer as executed.
struct Layer {
    std::array<std::array<bool, loops>, operands> relevant{};
    std::array<Index, loops> side_of{};    // by loop; none if it has no side
    std::array<bool, loops> is_channel{};  // by loop: true if it leads to other input elements along no axis
    std::array<Count, operands> bits{};
    std::array<Count, operands> elements{};
    Count partial_bits = 0;
    bool has_weight = true;
    double mac_energy_pj = 0.0;  // of all MACs
    std::array<Axis, 2> axes{};  // height, width
};

// Division with rounding up; most divisors are powers of two, and division is slow.
class Unit {
public:
    explicit Unit(Count size = 1);
    Count of(Count bits) const { return shift_ >= 0 ? (bits + size_ - 1) >> shift_ : (bits + size_ - 1) / size_; }
    Count size() const { return size_; }

private:
    Count size_;
    Index shift_;
};

// An on-chip memory, or DRAM; energies are per shortest access.
struct Level {
    std::vector<bool> serves;  // by dimension of the array: true if one instance serves all units along it
    Count capacity_bits = 0;
    bool is_double_buffered = false;
    Unit shortest;
    double read_pj = 0.0;
    double write_pj = 0.0;
    std::array<Index, moves> port{none, none, none, none};
};

// The last level is DRAM, with unlimited room. `home` is the level that holds an operand whole.
struct Machine {
    std::vector<Level> levels;
    std::vector<Count> units;          // by dimension of the array
    std::vector<Unit> bits_per_cycle;  // by port
    std::array<Index, operands> home{};

    Index on_chip() const { return static_cast<Index>(levels.size()) - 1; }

    // Throws std::invalid_argument if a level or a port does not exist.
    void check() const;
};

struct Turn {
    Index loop = 0;
    Count size = 1;
};

// A spatial loop; `at` is the number of temporal loops inside it.
struct Beside {
    Index loop = 0;
    Count size = 1;
    Index along = 0;
    Index at = 0;
};

// Loops innermost first. `cut(operand, level)` is the number of temporal loops within a tile; none: the level is
// bypassed.
struct Mapping {
    std::span<const Turn> turns;
    std::span<const Beside> beside;
    std::span<const Index> cuts;  // by operand, then level

    Index cut(Index operand, Index level, Index levels) const { return cuts[operand * levels + level]; }
};

// INTERLEAVED: tiles of the input are scattered rows, which only the Python version supports.
enum class Status { costed, interleaved, over_capacity, over_array };

struct Cost {
    Status status = Status::costed;
    double energy_pj = 0.0;
    Count cycles = 0;
};

// Numbers of stored positions of an axis that tiles touch, over all positions of a tile: pairs of size and count.
using BlockSizes = std::vector<std::pair<Count, Count>>;

// The outputs and filter taps of a tile, and the multiples in adjacent tiles of other instances.
struct Block {
    Count outputs = 1;
    Count more_outputs = 1;
    Count filters = 1;
    Count more_filters = 1;

    friend bool operator==(const Block&, const Block&) = default;
};

BlockSizes block_sizes(const Axis& axis, const Block& block);

// A tile may be replaced within the last `window` cycles of each period.
struct Period {
    Count length = 1;
    Count window = 1;

    friend bool operator<(const Period& one, const Period& other) {
        return std::pair(one.length, one.window) < std::pair(other.length, other.window);
    }
};

// No tile follows the last one, so its period has no window; some other cost models give it one.
enum class LastPeriod { has_no_window, has_window };

// Windows at one port. Periods are products of inner loops of one nest, so each is a multiple of the shorter ones.
class Windows {
public:
    void clear() { periods_.clear(); }
    void add(const Period& one) { periods_.push_back(one); }
    std::size_t count() const { return periods_.size(); }

    // Cycles with an open window; requires at least one period.
    Count covered_cycles(Count cycles, LastPeriod last);

private:
    Count covered(std::size_t count, Count cycles) const;

    std::vector<Period> periods_;
    std::vector<Count> whole_;  // by number of periods: cycles covered in one period of the last
};

// Evaluates mappings of one layer on one machine.
class Costs {
public:
    Costs(Layer layer, Machine machine);
    Cost of(const Mapping& mapping);

    std::size_t dimensions() const { return machine_.units.size(); }
    std::size_t levels() const { return machine_.levels.size() - 1; }

private:
    // Products of loop sizes.
    struct Products {
        Count all = 1;
        Count channels = 1;
        std::array<Count, sides> side{1, 1, 1, 1};
        std::array<Count, operands> relevant{1, 1, 1};
    };

    // Products of the loops inside a position in the nest, and of those outside.
    struct Place : Products {
        std::array<Count, operands> window{1, 1, 1};  // up to the last relevant loop
        Count all_outside = 1;
        Count channels_outside = 1;
        std::array<Count, operands> relevant_outside{1, 1, 1};
        std::array<Index, operands> next_relevant{};  // first position from here on with a relevant loop
    };

    // Unrolling along one dimension of the array.
    struct Along : Products {
        std::array<Count, operands> copies{1, 1, 1};
    };

    // Between a level that holds an operand and the next one above.
    struct Boundary {
        Index level = macs;
        Index cut = 0;
        Index reach = 0;
        Count episodes = 1;
        Count distinct = 1;
        Count upper_size = 0;
        Count upper_times = 0;
        Count lower_size = 0;
        Count lower_times = 0;
        Count copies_above = 1;
        Count bits = 0;
    };

    // Periodic use of a port: `busy` cycles in each period, within a window.
    struct Visit {
        Index port = 0;
        Index operand = 0;
        Index crossing = 0;
        Count busy = 0;
        Count period = 1;
        Count window = 1;
        Count times = 0;
        Count episodes = 1;
        bool is_first = false;
        bool is_last = false;
    };

    struct Crossing {
        Index operand = 0;
        Index at = 0;
        Count upper_bits = 0;
        Count lower_bits = 0;
    };

    struct Busy {
        Count alone = 0;
        Count all = 0;
        Count covered = 0;
    };

    struct Units {
        Count units = 0;
        Count largest = 0;
    };

    struct BlockHash {
        std::size_t operator()(const Block& block) const;
    };

    void multiply_turns(const Mapping& mapping);
    bool multiply_beside(const Mapping& mapping);
    void reserve_homes();
    bool is_over_capacity() const;
    void chain(const Mapping& mapping, Index operand);
    bool serves(Index level, std::size_t along) const { return level >= 0 && machine_.levels[level].serves[along]; }
    double read_weights();
    double add_sums();
    void cross_sums(Index at, Count& begun, double& energy_pj);
    void size_tiles(Index operand, Index at);
    void hold(Index level, Count bits, Count episodes);

    bool read_input(const Mapping& mapping, double& energy_pj);
    bool is_interleaved(const Mapping& mapping, Index at) const;
    void size_input(Index at, Crossing& crossing, double& energy_pj);
    Units blocks(const Block& rows, const Block& columns, Count bits, Index level);
    const BlockSizes& sizes(Index axis, const Block& block);

    void fetch(const Crossing& crossing);
    void drain(const Crossing& crossing);
    void visit(const Crossing& crossing, Index end, Move move, Visit visit);
    Count stall(Count cycles);
    Count covered_cycles(Index port, Count cycles);
    Count chained(bool Visit::* which);

    Layer layer_;
    Machine machine_;
    bool has_side_beside_ = false;
    std::array<std::unordered_map<Block, BlockSizes, BlockHash>, 2> sizes_;
    std::vector<Place> places_;
    std::vector<Along> along_;
    std::vector<Boundary> chain_;
    std::vector<Count> needs_bits_;
    std::vector<Visit> visits_;
    std::vector<Busy> ports_;
    Windows windows_;
};

}  // namespace onchip::layer
