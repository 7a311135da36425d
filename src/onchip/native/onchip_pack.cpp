// The C interface of packing. It checks the arguments and runs the search in a thread; the calling thread reports
// progress and watches the time limit.

#include "onchip_pack.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <exception>
#include <mutex>
#include <stdexcept>
#include <thread>

#include "packing.hpp"

namespace onchip::packing {

namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds between_reports{100};
constexpr double most_seconds = 1e9;

Task task_of(const onchip_pack_buffer* buffers, std::size_t count, const onchip_pack_options* options) {
    if (options == nullptr || (buffers == nullptr && count > 0)) throw std::invalid_argument("a pointer is NULL");
    Task task;
    task.capacity = options->capacity;
    for (std::size_t at = 0; at < count; ++at) {
        const onchip_pack_buffer& one = buffers[at];
        if (one.gaps == nullptr && one.gap_count > 0) throw std::invalid_argument("the pointer to gaps is NULL");
        Request request{one.start, one.stop, one.size, one.alignment, one.offset, {}};
        for (std::size_t gap = 0; gap < one.gap_count; ++gap) {
            request.gaps.push_back({one.gaps[2 * gap], one.gaps[2 * gap + 1]});
        }
        task.buffers.push_back(std::move(request));
    }
    task.check();
    return task;
}

Effort effort_of(const onchip_pack_options& options) {
    Effort effort;
    effort.minimize = options.minimize != 0;
    effort.seed = options.seed;
    if (options.most_nodes > 0) effort.most_nodes = options.most_nodes;
    return effort;
}

// The state of a search that the searching and the reporting thread share.
class Watch {
public:
    explicit Watch(const onchip_pack_options& options) : options_(options), began_(Clock::now()) {}

    StopToken stop;

    void note(Bytes arena, Bytes lower_bound, std::int64_t nodes) {
        const std::scoped_lock lock(mutex_);
        arena_ = arena;
        lower_bound_ = lower_bound;
        nodes_ = nodes;
    }

    // Runs the work in a separate thread, reports progress until it ends, and throws its exception again.
    template <typename Work>
    void run(Work work) {
        std::exception_ptr failure;
        std::thread worker([&] {
            try {
                work();
            } catch (...) {
                failure = std::current_exception();
            }
            const std::scoped_lock lock(mutex_);
            has_ended_ = true;
            changed_.notify_one();
        });
        report_until_end();
        worker.join();
        if (failure) std::rethrow_exception(failure);
    }

private:
    void report_until_end() {
        std::unique_lock lock(mutex_);
        while (!changed_.wait_until(lock, next_report(), [&] { return has_ended_; })) {
            if (is_late()) stop.ask();
            if (options_.progress == nullptr || stop.was_asked()) continue;
            const Bytes arena = arena_, lower_bound = lower_bound_;
            const std::int64_t nodes = nodes_;
            lock.unlock();
            const bool is_ended = options_.progress(arena, lower_bound, nodes, options_.user) != 0;
            lock.lock();
            if (is_ended) stop.ask();
        }
    }

    bool has_limit() const { return options_.seconds > 0 && options_.seconds < most_seconds; }
    Clock::time_point deadline() const {
        return began_ + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(options_.seconds));
    }
    bool is_late() const { return has_limit() && Clock::now() >= deadline(); }
    Clock::time_point next_report() const {
        const Clock::time_point next = Clock::now() + between_reports;
        return has_limit() && !stop.was_asked() ? std::min(next, deadline()) : next;
    }

    const onchip_pack_options& options_;
    Clock::time_point began_;
    std::mutex mutex_;
    std::condition_variable changed_;
    bool has_ended_ = false;
    Bytes arena_ = none;
    Bytes lower_bound_ = 0;
    std::int64_t nodes_ = 0;
};

onchip_pack_status status_of(Verdict verdict) {
    switch (verdict) {
        case Verdict::optimal:
            return ONCHIP_PACK_OPTIMAL;
        case Verdict::feasible:
            return ONCHIP_PACK_FEASIBLE;
        case Verdict::infeasible:
            return ONCHIP_PACK_INFEASIBLE;
        case Verdict::unknown:
            break;
    }
    return ONCHIP_PACK_UNKNOWN;
}

Answer answer_of(const Task& task, const onchip_pack_options& options) {
    Answer answer;
    Watch watch(options);
    const Progress note = [&](Bytes arena, Bytes bound, std::int64_t nodes) { watch.note(arena, bound, nodes); };
    watch.run([&] { answer = solve(task, effort_of(options), watch.stop, note); });
    return answer;
}

// Calls the work; turns an exception into ONCHIP_PACK_INVALID with its message.
template <typename Work>
onchip_pack_status guarded(onchip_pack_result* result, Work work) {
    if (result == nullptr) return ONCHIP_PACK_INVALID;
    *result = onchip_pack_result{ONCHIP_PACK_NO_OFFSET, 0, 0, {}};
    try {
        return work();
    } catch (const std::exception& error) {
        std::snprintf(result->message, sizeof result->message, "%s", error.what());
        return ONCHIP_PACK_INVALID;
    }
}

void write(const Answer& answer, onchip_pack_result& result) {
    result.arena = answer.arena;
    result.lower_bound = answer.lower_bound;
    result.nodes = answer.nodes;
}

}  // namespace

}  // namespace onchip::packing

extern "C" {

int onchip_pack_abi(void) {
    return ONCHIP_PACK_ABI;
}

onchip_pack_status onchip_pack(const onchip_pack_buffer* buffers, size_t count, const onchip_pack_options* options,
                               int64_t* offsets, onchip_pack_result* result) {
    using namespace onchip::packing;
    return guarded(result, [&] {
        const Task task = task_of(buffers, count, options);
        if (offsets == nullptr && count > 0) throw std::invalid_argument("a pointer is NULL");
        const Answer answer = answer_of(task, *options);
        write(answer, *result);
        if (answer.arena != none) std::copy(answer.offsets.begin(), answer.offsets.end(), offsets);
        return status_of(answer.verdict);
    });
}

onchip_pack_status onchip_pack_conflict(const onchip_pack_buffer* buffers, size_t count,
                                        const onchip_pack_options* options, unsigned char* is_in,
                                        onchip_pack_result* result) {
    using namespace onchip::packing;
    return guarded(result, [&] {
        const Task task = task_of(buffers, count, options);
        if (is_in == nullptr && count > 0) throw std::invalid_argument("a pointer is NULL");
        std::fill_n(is_in, count, static_cast<unsigned char>(0));
        onchip_pack_options fit = *options;
        fit.minimize = 0;
        const Answer answer = answer_of(task, fit);
        write(answer, *result);
        if (answer.verdict != Verdict::infeasible) return ONCHIP_PACK_UNKNOWN;
        Conflict conflict;
        Watch watch(fit);
        watch.run([&] { conflict = conflict_of(task, effort_of(fit), watch.stop); });
        for (const Index buffer : conflict.buffers) is_in[buffer] = 1;
        return conflict.is_irreducible ? ONCHIP_PACK_OPTIMAL : ONCHIP_PACK_FEASIBLE;
    });
}

}  // extern "C"
