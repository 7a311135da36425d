// The request to end or pause a search that runs without the interpreter lock.

#pragma once

#include <atomic>

namespace onchip {

// May be set from any thread. A search checks it in its innermost loop, and waits there while it is paused.
class StopToken {
public:
    void ask() {
        state_.store(State::asked, std::memory_order_relaxed);
        state_.notify_all();
    }
    void pause() { change(State::running, State::paused); }
    void resume() { change(State::paused, State::running); }

    bool is_asked() const {
        while (state_.load(std::memory_order_relaxed) == State::paused) state_.wait(State::paused);
        return was_asked();
    }
    bool was_asked() const { return state_.load(std::memory_order_relaxed) == State::asked; }  // without waiting

private:
    enum class State : unsigned char { running, paused, asked };

    void change(State from, State to) {
        if (state_.compare_exchange_strong(from, to)) state_.notify_all();
    }

    std::atomic<State> state_{State::running};
};

}  // namespace onchip
