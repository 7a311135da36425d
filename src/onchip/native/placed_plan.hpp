// A plan that has addresses, of which windows are planned anew by a beam over orders while the rest is as it was.
//
// Words. Of consecutive uses of a tensor it either stays in between, in the same bytes, or comes back for the second.
// A window is a few steps of the order. What crosses an end of it lies where it lies: a first operator writes what
// comes, a last one reads what goes. The problem of a window numbers its operators from 1 on, and its tensors as they
// rise. `tests/oracles/placed_plan.py` is a plain version.

#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "layout_orders.hpp"

namespace onchip::layouts {

// How to plan the steps [begin, stop) anew; `soon` and `seed` as the beam has them.
struct WindowChoice {
    Index begin = 0;
    Index stop = 0;
    Index soon = 1;
    std::uint64_t seed = 0;
};

class PlacedPlan {
public:
    // The stays are those of all uses, each tensor's with gaps between or at other offsets. Throws
    // std::invalid_argument for a problem that is none, an order that has not all operators, or a use without a stay.
    PlacedPlan(OrderProblem problem, std::vector<Index> order, const std::vector<Stay>& stays);

    // Plans each window anew, one after the other, among so many layouts; false if it was stopped. What costs no more
    // takes the place of what there was.
    bool plan_anew(const std::vector<WindowChoice>& windows, Index width, const StopToken& stop);

    // What is paid beyond the compulsory, in which order, and what lies where; residencies are as short as uses allow.
    Cost cost() const;
    const std::vector<Index>& order() const { return order_; }
    std::vector<Stay> stays() const;

private:
    // Of one tensor; it `stays` until its next use.
    struct PlacedUse {
        Index runs = none;
        bool stays = false;
        Bytes offset = 0;
    };

    // The uses [first, stop) of it are within; the one before may stay until them, and they until the one behind.
    struct WindowTensor {
        Index tensor = none;
        Index first = 0;
        Index stop = 0;
        bool comes = false;
        bool goes = false;
        bool is_stored = false;  // DRAM gets or has a copy anyway
        Bytes pin = anywhere;
    };

    struct Window {
        WindowChoice choice;
        std::vector<WindowTensor> tensors;
        OrderProblem problem;
        Cost cost = 0;
    };

    // placed_plan.cpp
    void plan_one_anew(const WindowChoice& choice, Index width, const StopToken& stop);
    void move_to(Index begin);
    void follow(const Window& window, const OrderBeam& found);
    Cost cost_of(Index tensor) const;

    // placed_plan_window.cpp
    bool state(Window& window);
    std::vector<Index> tensors_of(const WindowChoice& choice) const;
    bool add_tensor(Window& window, Index tensor) const;
    Cost cost_within(const WindowTensor& one) const;
    void add_operators(Window& window);

    OrderProblem problem_;
    std::vector<Index> order_;
    std::vector<Index> step_of_;
    std::vector<std::vector<PlacedUse>> uses_;  // of each tensor, as they follow one another
    Index reached_ = 0;                         // the step before which `across_` is
    std::vector<Index> across_;                 // tensors that stay over it, rising
    std::vector<Index> number_;                 // of each operator within the window, or `none`
};

}  // namespace onchip::layouts
