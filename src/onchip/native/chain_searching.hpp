// A search for chains: it eliminates the points that no chain below the limit passes through, then searches the
// remaining ones.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "chain_means.hpp"
#include "chain_search.hpp"
#include "chain_tiles.hpp"

namespace onchip::chains {

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

    // chain_guides.cpp
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

    // chain_points.cpp
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

    // chain_search.cpp
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
    std::vector<std::size_t> counting_;  // numbers of the remaining criteria
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
