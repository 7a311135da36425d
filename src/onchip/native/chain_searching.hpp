// A search of chains: points that no chain below the limit goes through are taken out, then what is left is searched.

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

    // What a chain is worth at least by a criterion, or a mean of several, looked up at each step; of a product's mean
    // the first criterion has the weight `slope`.
    struct Guide {
        std::vector<std::pair<std::size_t, double>> weights;
        double slope;
    };

    // chain_guides.cpp
    // Criteria that guide, as many of those whose greatest counts, then means of them.
    void choose_guides(std::size_t most);
    // Those whose greatest counts, the highest first, about.
    std::vector<std::size_t> highest_alone(Means& means) const;
    // If each boundary stands where it costs least.
    double least_apart(const Criterion& criterion) const;
    void guide_alone(std::size_t criterion);
    void add_means(const Weights& highest);
    void add_means_with(double energy, std::size_t highest, Means& means);
    void add_guide(const Weights& weights, double slope);
    // By boundary and point nothing, or infinite in points that are taken out.
    std::vector<std::vector<double>> room_left() const;
    // What boundaries cost by a guide, infinite in points that are taken out, and what more if no tile stays.
    std::vector<std::vector<double>> costs_left(const Guide& guide) const;
    std::vector<std::vector<double>> costs_if_all_move(const Guide& guide) const;
    // By guide, what is added to all criteria.
    std::vector<double> guided(const std::vector<double>& added) const;
    // The worth with what guides add at least from a point on, as if no tile moved that may stay, to what they have;
    // by criteria that do not guide it is `others`.
    double at_least(const double* through, const std::vector<double>& have, double others) const;

    // chain_points.cpp
    // Coordinates of points, and which points have room.
    void lay_out();
    // Each boundary's least bits among points that are left; what all others of a memory take at least is no room.
    void take_out_without_room();
    double worth(const std::vector<double>& criteria) const;
    // Points through which all chains are worth too much; whether there are any. The last time columns are kept.
    bool take_out(bool is_last);
    // By boundary and point, what the least chain through it costs by a guide, but for what is fixed.
    std::vector<std::vector<double>> costs_through_points(const Guide& guide, bool is_last);
    // Of points that are left, what boundaries cost and all that stand outside.
    Outside columns_of(const std::vector<std::vector<double>>& costs, const Outside& outside) const;
    std::vector<double> fixed_costs() const;
    // Criteria that are below what a chain is worth by the others, whichever of the points left it goes through.
    void take_out_criteria();
    // What a boundary adds at most.
    double most_of(const Criterion& criterion, std::size_t boundary) const;
    // What is left of points, and of each all that a step asks of it, one after the other.
    void list();
    void gather();
    std::vector<std::vector<std::uint8_t>> cells_left() const;

    // chain_search.cpp
    // A search that is cut short says no more than where it began. So what is below a part of the way to the limit is
    // looked into first: if that ends, there is none below it, or the least is found.
    Found look_ever_higher();
    double most_of_others(const std::vector<double>& added) const;
    // The same with what a boundary costs in a point.
    double most_of_others(const std::vector<double>& added, std::size_t boundary, std::size_t x) const;
    bool may_follow(std::size_t inner, const std::uint16_t* outer) const;
    // After a place in `point` where, of operands placed just there, `least_operand` was the last. If it is known a
    // boundary that has no place after all that, whatever comes between.
    std::optional<std::size_t> go_on(std::size_t state, std::size_t point, std::size_t least_operand,
                                     const std::vector<double>& added);
    // What may follow, the least worth first.
    std::vector<Step> steps_from(std::size_t state, std::size_t point, std::size_t least_operand,
                                 const std::vector<double>& added);
    std::optional<std::size_t> without_place(std::size_t point, const std::vector<double>& added);
    // Whether a boundary may stand anywhere outside `point`, with all others where they cost least.
    bool has_place(std::size_t boundary, std::size_t point, const std::vector<double>& added);
    bool is_outside(std::size_t outer, std::size_t inner) const;
    // Outside all places stand all loops: a dimension that moves on from the last place ends there.
    void end(const std::vector<double>& added);
    std::optional<std::size_t> take(const Step& step, std::size_t state, const std::vector<double>& added);
    // What boundaries that are not placed yet will take of a memory, but for one of them.
    double coming_bits(std::size_t memory, std::size_t but) const;

    Problem problem_;
    std::vector<std::size_t> counting_;  // criteria that are left, by their number
    double limit_;
    std::size_t most_steps_;
    std::size_t points_ = 0, states_ = 1, steps_ = 0;
    std::vector<std::size_t> count_, first_, step_;  // by operand: boundaries, the first of them, its step in a state
    std::vector<std::uint16_t> at_;                  // by point, its cell along each dimension
    std::vector<std::vector<std::uint8_t>> alive_;   // by boundary and point
    std::vector<std::vector<std::size_t>> left_;
    std::vector<Guide> guides_;
    std::vector<std::uint8_t> guides_alone_;                 // by criterion, whether it is one of them by itself
    std::vector<std::size_t> sides_;                         // dimensions of several cells
    std::vector<std::vector<std::uint16_t>> cells_;          // by boundary, of its points left along these
    std::vector<std::vector<std::vector<double>>> through_;  // by operand and state, of its last boundary's, by guide
    std::vector<double> least_bits_, used_bits_;
    std::vector<std::vector<double>> least_costs_;  // by boundary and criterion, of the points left
    std::vector<Outside> columns_;                  // by guide, as `columns_of` says of points that were left before
    std::vector<std::size_t> placed_, chosen_, best_;
    std::vector<std::size_t> last_place_;  // by boundary, of the points left the one that `has_place` met last
    Chain chain_;
    double floor_ = 0.0, least_cycles_ = 0.0;
    double not_looked_into_ = infinity;  // the least worth of steps that were left
};

}  // namespace onchip::chains
