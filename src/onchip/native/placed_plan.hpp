// A plan with addresses, improved window by window by a beam search over orders, with the rest of the plan fixed.
//
// Terms. Between consecutive uses, a tensor stays at its address or is reloaded for the second use. A window is a few
// consecutive steps of the order. Tensors that cross its ends keep their addresses: an extra first operator writes the
// incoming ones, an extra last operator reads the outgoing ones. The window's problem numbers its operators from 1, and
// its tensors in ascending order.

#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "layout_orders.hpp"

namespace onchip::layouts {

// The steps [begin, stop) to plan again; `soon` and `seed` are options of the beam.
struct WindowChoice {
    Index begin = 0;
    Index stop = 0;
    Index soon = 1;
    std::uint64_t seed = 0;
};

class PlacedPlan {
public:
    // The stays cover all uses; those of a tensor have gaps between them or different offsets. Throws
    // std::invalid_argument if the problem is invalid, if the order lacks operators, or if a use has no stay.
    PlacedPlan(OrderProblem problem, std::vector<Index> order, const std::vector<Stay>& stays);

    // Plans each window again, one after the other, with a beam of at most `width` layouts. Replaces a window if the
    // new plan costs no more. Returns false if it was stopped.
    bool plan_anew(const std::vector<WindowChoice>& windows, Index width, const StopToken& stop);

    // The non-compulsory cost, the order, and the residencies, as short as the uses allow.
    Cost cost() const;
    const std::vector<Index>& order() const { return order_; }
    std::vector<Stay> stays() const;

private:
    // A use of a tensor; it `stays` until its next use.
    struct PlacedUse {
        Index runs = none;
        bool stays = false;
        Bytes offset = 0;
    };

    // Its uses [first, stop) are in the window. It `comes` if it stays from the use before, and `goes` if it stays
    // until the use after.
    struct WindowTensor {
        Index tensor = none;
        Index first = 0;
        Index stop = 0;
        bool comes = false;
        bool goes = false;
        bool is_stored = false;  // DRAM has or gets a copy outside the window
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
    std::vector<std::vector<PlacedUse>> uses_;  // by tensor, in order
    Index reached_ = 0;                         // the step of `across_`
    std::vector<Index> across_;                 // tensors that stay across it, ascending
    std::vector<Index> number_;                 // by operator: its number in the window, or `none`
};

}  // namespace onchip::layouts
