// The least total cost of tiles of several operands, each kept up to places in a shared loop nest.
//
// A place is a point of a lattice: how far the loops inside it lead along each dimension. The boundaries of an operand
// are at successive places, from the units upwards. All operands share one order of loops, so of any two places one
// contains the other. The cost of a boundary depends on its place alone.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace onchip::chains {

inline constexpr double infinity = std::numeric_limits<double>::infinity();

using Costs = std::span<const double>;  // by point, last dimension fastest; infinite where a tile does not fit

// Least cost of a chain with a boundary at a point, by operand, boundary and point.
using Through = std::vector<std::vector<std::vector<double>>>;

// `operands`: the costs of each boundary by operand. Throws std::invalid_argument if a table does not have a value for
// each point.
double least_cost(const std::vector<std::size_t>& shape, const std::vector<std::vector<Costs>>& operands);

struct LeastChain {
    double cost;
    std::vector<std::size_t> points;  // operand by operand, by boundary; empty if nothing fits
};

// Least cost of the placed boundaries inside a point, by state (number of placed boundaries of each operand) and point.
using Inside = std::vector<std::vector<double>>;

// Like `least_cost`, with the chain. Reuses the memory of `inside`; its initial content is irrelevant.
LeastChain least_chain(const std::vector<std::size_t>& shape, const std::vector<std::vector<Costs>>& operands,
                       Inside& inside);

// Cost of boundaries added unless tiles stay, by operand and boundary (empty for no cost). It is due if the next
// boundary's point differs only in dimensions that lead to elements of the operand, and one of them ends there. For the
// last boundary, the last point of the lattice is the next.
struct More {
    std::vector<std::vector<Costs>> costs;
    std::vector<std::vector<std::uint8_t>> leads;  // by operand and dimension
};

// By operand placed last, state (number of placed boundaries of each operand, first operand fastest) and point.
using Outside = std::vector<std::vector<std::vector<double>>>;

// Returns the least costs of chains through each point. Sets `outside` to the least cost of all other boundaries
// outside the point of the last one placed, plus the cost that it adds then. Throws std::invalid_argument if a table
// does not have a value for each point.
Through costs_through(const std::vector<std::size_t>& shape, const std::vector<std::vector<Costs>>& operands,
                      const More& more, Outside& outside);

// The search for the least chain of places by several criteria, with memory capacities that tiles share.
//
// Boundaries are at points of a lattice, as above. The value of a chain is its greatest criterion. Each
// criterion is a constant plus a cost per boundary that depends on its place. As a product, the value is the first
// criterion times the greatest of the others. For each dimension, the problem states which pairs of cells may be
// nested.
//
// If loops have remainders, tiles of a boundary may stay while outer loops iterate. If an outer loop moves on, only the
// elements at the end of every dimension that leads to them and has moved on inside may stay. No element stays if one
// of these dimensions has ended or has parts of equal length.
//
// The last point of the lattice contains all loops and is outside all places. A tile is needed until the last turn of
// the loops that lead to its elements. If no such loop can be between two points, a tile of the outer point is replaced
// within the turns of the inner one. In the last part of a place its tile is not replaced. So of all cycles there, the
// only ones in a window at a port belong to a tile of another boundary inside.

struct Boundary {
    std::size_t operand;
    std::size_t memory;
    Costs bits;                // size of its tile in its memory, by point
    std::vector<Costs> comes;  // lower bound on its tiles' arrivals, by point, per memory that counts them
    bool may_come_at_once;     // true if its memory holds two tiles: then the next tile may arrive at any time
};

// Transfers of a boundary that the array awaits one by one, by point: a lower bound on their number, and the duration
// of each.
struct Wait {
    Costs times;
    Costs longest;
};

struct Criterion {
    double fixed;
    std::vector<Costs> costs;  // by boundary, empty if it adds nothing
    std::vector<Costs> more;   // cost added if none of its tiles may stay; empty for no cost
    std::vector<Costs> rest;   // further cost added then, in full or not at all
    bool is_linear;            // true if linear in arrivals: a part of `more` is added if fewer tiles stay
    std::vector<std::vector<Wait>>
        waits;  // by boundary, for memories that hold one tile; `costs` include them with full windows
    std::optional<std::size_t> port;  // the port whose transfers it counts, with the cycles without a window
};

struct Problem {
    std::vector<std::size_t> shape;
    std::vector<std::vector<std::uint8_t>> may_stand_inside;  // by dimension: inner cell (slowest), outer cell
    std::vector<std::vector<std::uint8_t>> leads;             // by operand and dimension: true if to other elements
    std::vector<std::vector<double>> stays;                   // by dimension and cell: largest part at an end
    // By dimension and cell: the turns of a place's last part if it has fewer turns than the others; 0 if all parts
    // have equally many, infinity if unknown. And by dimension: the largest part that one turn leads to.
    std::vector<std::vector<double>> short_turns;
    std::vector<double> part_of_turn;
    std::vector<std::vector<std::uint8_t>> counts;  // by operand and dimension: true if the part is one of its elements
    std::vector<std::vector<double>> turns;         // by dimension and cell: most cycles of the loops that lead there
    std::vector<std::vector<std::uint8_t>> is_single;  // by dimension and cell: true if no loop may be inside it
    std::vector<double> room_bits;                     // by memory
    std::vector<std::vector<std::uint8_t>> ports;      // by port and boundary: true if it has transfers there
    std::vector<std::vector<double>> fewest_turns;     // by dimension and cell: least turns of every part but the last
    std::vector<std::vector<double>> last_turns;       // least turns of the last part
    std::vector<std::vector<std::uint8_t>> is_known;   // true if both bounds are exact
    std::vector<Boundary> boundaries;                  // operand by operand, each from the units upwards
    std::vector<Criterion> criteria;
    bool is_product;
};

struct Found {
    double floor;                     // lower bound on all chains below `limit`; `limit` itself if none exists
    bool is_least;                    // true if a chain attains the bound, or if no chain is below `limit`
    std::size_t steps;                // inspected points; sixteen infeasible successors count as one
    std::vector<std::size_t> points;  // of the best chain, by boundary; empty if none was found
    std::vector<std::vector<std::uint8_t>> cells;  // by dimension: true if such a chain may use the cell
};

// Throws std::invalid_argument if a table does not have a value for each point.
Found least_chain_below(const Problem& problem, double limit, std::size_t most_steps);

// Tiles that may stay where loops have remainders, as far as outer points determine it. Replacement windows of tiles,
// as far as inner points determine them, and cycles without a window at a port.

// A boundary with an upper bound on the part of its tiles that may stay, known from the places up to `before`. Outside
// these places the part is at most `outside`; inside, it is at most `settled`, by memory.
struct Placed {
    Placed(std::size_t number, std::size_t place) : boundary(number), point(place), before(place) {}

    std::size_t boundary;
    std::size_t point;
    std::size_t before;
    double stays = 1.0;
    double outside = 1.0;
    std::array<double, 2> settled = {0.0, 0.0};
    double window = 0.0;  // upper bound on its replacement window
};

// The state of the placed boundaries: their tiles, and by port a lower bound on the cycles without a window.
struct Chain {
    std::vector<Placed> tiles;
    std::vector<double> without_window;
};

// Returns true if all tables have a value for each point.
bool is_of_each_point(const Problem& problem, std::size_t points);

// By boundary: the cost added if none of its tiles stay; empty for no cost.
std::vector<std::vector<double>> costs_if_all_move(const Criterion& criterion);

// Places a boundary at a point outside the chain. Adds to all criteria the costs that this determines for the chain's
// tiles and its own. `at` holds the cells of the points, last dimension fastest.
void follow(const Problem& problem, const std::vector<std::uint16_t>& at, std::size_t boundary, std::size_t x,
            Chain& chain, std::vector<double>& added);

// Adds the cost that a boundary at its point causes at least, whichever boundaries come between.
void follow_at_least(const Problem& problem, const std::vector<std::uint16_t>& at, std::size_t boundary, std::size_t x,
                     const Chain& chain, std::vector<double>& added);

// Adds the cost of all loops outside a chain whose boundaries are all placed.
void end(const Problem& problem, const std::vector<std::uint16_t>& at, Chain& chain, std::vector<double>& added);

// Lower bounds on the greatest of several criteria over all chains: the least weighted mean, for any weights.
//
// The criteria are usually minimised by different chains. Then the best mean is a stronger bound than each single
// criterion.

// By criterion. The weights of the criteria under the maximum add up to one; the first criterion of a product has any
// weight.
using Weights = std::vector<double>;

struct Mean {
    Weights weights;
    double least;                  // lower bound over all chains
    std::vector<double> criteria;  // by criterion: cost of the boundaries of the chain that attains the bound
};

// Means of a problem's criteria over the chains of the remaining points. They ignore costs of moving tiles and of
// waits.
class Means {
public:
    // `room`: by boundary and point, 0 or infinity.
    Means(const Problem& problem, std::vector<std::vector<double>> room);

    Mean of(Weights weights);
    Mean alone(std::size_t criterion);

    // Returns the weights with approximately the highest bound, or with at least `enough`, starting from one criterion.
    // The first criterion of a product has the weight `slope`.
    Mean highest(std::size_t criterion, double slope, double enough);

private:
    Weights weights_of(std::size_t criterion, double slope) const;
    // Returns the best mean on the way from a mean to a single criterion, or the given mean if none is higher.
    Mean towards(const Mean& from, std::size_t criterion, double enough);
    // The value of a mean's chain without the first criterion of a product.
    double weighed(const Weights& weights, const std::vector<double>& criteria) const;

    const Problem& problem_;
    std::vector<std::vector<double>> room_;
    std::vector<std::vector<double>> tables_;  // of one mean, and the inner costs; members, to reuse their memory
    Inside inside_;
};

// Returns a lower bound on the product of two numbers that are at least `first` and `second`, where `slope` times one
// plus the other is at least `least_sum`. The least product is at a corner of this region.
double least_product(double first, double second, double slope, double least_sum);

// A search for chains: it eliminates the points that no chain below the limit passes through, then searches the
// remaining ones.

class Search {
public:
    Search(const Problem& problem, double limit, std::size_t most_steps);
    Found run();

private:
    struct Step {
        double worth;
        std::size_t operand;
        std::size_t point;
    };

    // A lower bound on a chain's value, by a criterion or a mean of several, evaluated at each step. In the mean of a
    // product the first criterion has the weight `slope`.
    struct Guide {
        std::vector<std::pair<std::size_t, double>> weights;
        double slope;
    };

    // Chooses the guides: up to `most` criteria under the maximum, then means.
    void choose_guides(std::size_t most);
    // Returns the criteria under the maximum, sorted by approximate decreasing bound.
    std::vector<std::size_t> highest_alone(Means& means) const;
    // Returns the bound with each boundary at its cheapest point.
    double least_apart(const Criterion& criterion) const;
    void guide_alone(std::size_t criterion);
    void add_means(const Weights& highest);
    void add_means_with(double energy, std::size_t highest, Means& means);
    void add_guide(const Weights& weights, double slope);
    // By boundary and point: 0, or infinity at eliminated points.
    std::vector<std::vector<double>> room_left() const;
    // The cost of boundaries by a guide (infinite at eliminated points), and the cost added if no tile stays.
    std::vector<std::vector<double>> costs_left(const Guide& guide) const;
    std::vector<std::vector<double>> costs_if_all_move(const Guide& guide) const;
    // By guide: the weighted sum of the amounts added to all criteria.
    std::vector<double> guided(const std::vector<double>& added) const;
    // Returns a lower bound on the value: the guides' sums so far plus their least cost from a point on, as if every
    // tile stayed that may. `others` is the maximum of the criteria that do not guide.
    double at_least(const double* through, const std::vector<double>& have, double others) const;

    // Sets the coordinates of the points and marks all points as remaining.
    void lay_out();
    // Eliminates points without room: the least bits of the other boundaries of a memory are not available to a
    // boundary.
    void take_out_without_room();
    double worth(const std::vector<double>& criteria) const;
    // Eliminates the points through which every chain reaches the limit. Returns true if it eliminated any. The last
    // call keeps the columns.
    bool take_out(bool is_last);
    // By boundary and point: the least cost of a chain through the point by a guide, without constants.
    std::vector<std::vector<double>> costs_through_points(const Guide& guide, bool is_last);
    // For the remaining points: the cost of a boundary plus the least cost of everything outside.
    Outside columns_of(const std::vector<std::vector<double>>& costs, const Outside& outside) const;
    std::vector<double> fixed_costs() const;
    // Removes criteria that are always below the bound of the others, for all remaining points.
    void take_out_criteria();
    // Returns an upper bound on the cost of a boundary.
    double most_of(const Criterion& criterion, std::size_t boundary) const;
    // The remaining points, and for each point the data of a step, contiguous.
    void list();
    void gather();
    std::vector<std::vector<std::uint8_t>> cells_left() const;

    // Searches with limits that grow towards `limit_`. A search that is cut short proves no more than its initial
    // bound. So each round searches below a part of the distance to the limit first: a completed round proves that
    // bound or finds the optimum.
    Found look_ever_higher();
    double most_of_others(const std::vector<double>& added) const;
    // Like the above, including the cost of a boundary at a point.
    double most_of_others(const std::vector<double>& added, std::size_t boundary, std::size_t x) const;
    bool may_follow(std::size_t inner, const std::uint16_t* outer) const;
    // Searches after a place in `point`, where `least_operand` is the last operand placed. Returns a boundary for which
    // no place remains, independent of later places, if one is known.
    std::optional<std::size_t> go_on(std::size_t state, std::size_t point, std::size_t least_operand,
                                     const std::vector<double>& added);
    // Returns the possible next steps, sorted by increasing value.
    std::vector<Step> steps_from(std::size_t state, std::size_t point, std::size_t least_operand,
                                 const std::vector<double>& added);
    std::optional<std::size_t> without_place(std::size_t point, const std::vector<double>& added);
    // Returns true if a boundary may be at some point outside `point`, with all other boundaries at their cheapest
    // points.
    bool has_place(std::size_t boundary, std::size_t point, const std::vector<double>& added);
    bool is_outside(std::size_t outer, std::size_t inner) const;
    // Completes a chain. All loops are outside all places: a dimension that moves on from the last place ends there.
    void end(const std::vector<double>& added);
    std::optional<std::size_t> take(const Step& step, std::size_t state, const std::vector<double>& added);
    // Returns a lower bound on the bits that the unplaced boundaries of a memory will take, except for one.
    double coming_bits(std::size_t memory, std::size_t but) const;

    Problem problem_;
    double limit_;
    std::size_t most_steps_;
    std::size_t points_ = 0, states_ = 1, steps_ = 0;
    std::vector<std::size_t> count_, first_, step_;  // by operand: boundaries, the first one, stride in a state
    std::vector<std::uint16_t> at_;                  // by point: its cell along each dimension
    std::vector<std::vector<std::uint8_t>> alive_;   // by boundary and point
    std::vector<std::vector<std::size_t>> left_;
    std::vector<Guide> guides_;
    std::vector<std::uint8_t> guides_alone_;                 // by criterion: true if it is a guide alone
    std::vector<std::size_t> sides_;                         // dimensions with several cells
    std::vector<std::vector<std::uint16_t>> cells_;          // by boundary: its remaining points along `sides_`
    std::vector<std::vector<std::vector<double>>> through_;  // by operand, state: through its last boundary, by guide
    std::vector<double> least_bits_, used_bits_;
    std::vector<std::vector<double>> least_costs_;  // by boundary and criterion, over the remaining points
    std::vector<Outside> columns_;                  // by guide: the earlier result of `columns_of`
    std::vector<std::size_t> placed_, chosen_, best_;
    std::vector<std::size_t> last_place_;  // by boundary: the remaining point that `has_place` last found
    Chain chain_;
    double floor_ = 0.0, least_cycles_ = 0.0;
    double not_looked_into_ = infinity;  // least value of the unexplored steps
};

}  // namespace onchip::chains
