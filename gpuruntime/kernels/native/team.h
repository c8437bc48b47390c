// A team of threads that runs one function together and meets at barriers inside it.
//
// The caller is member 0. Waiting spins for some 50 us, then sleeps (between steps) or yields (at a barrier), so that
// a member whose core a neighbour took does not also burn the other one.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <sched.h>
#include <thread>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
inline void relax() { _mm_pause(); }
#else
inline void relax() {}
#endif

class Team {
public:
    explicit Team(int most) {
        for (int member = 1; member < most; ++member) threads_.emplace_back([this, member] { follow(member); });
    }

    ~Team() {
        stopping_ = true;
        call_.fetch_add(kSizeMask + 1, std::memory_order_release);
        call_.notify_all();
        for (auto& thread : threads_) thread.join();
    }

    // Runs work(member) on `size` members, at most as many as the team has, and returns when all are done.
    void run(int size, const std::function<void(int)>& work) {
        size_ = std::min<int>(size, static_cast<int>(threads_.size()) + 1);
        work_ = &work;
        if (size_ > 1) {
            call_.store((call_.load(std::memory_order_relaxed) & ~kSizeMask) + kSizeMask + 1 + size_, std::memory_order_release);
            call_.notify_all();
        }
        work(0);
        barrier();
    }

    // Every member of the current run has come here before any goes on.
    void barrier() {
        if (size_ == 1) return;
        const uint32_t round = round_.load(std::memory_order_acquire);
        if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == size_) {
            arrived_.store(0, std::memory_order_relaxed);
            round_.store(round + 1, std::memory_order_release);
            return;
        }
        for (int spins = 0; round_.load(std::memory_order_acquire) == round; ++spins) {
            if (spins < kSpins) relax();
            else sched_yield();
        }
    }

    int size() const { return size_; }

private:
    static constexpr int kSpins = 2000;
    static constexpr uint32_t kSizeMask = 0xfff;   // a call's number lies above its size

    void follow(int member) {
        uint32_t seen = 0;
        while (true) {
            for (int spins = 0; spins < kSpins && call_.load(std::memory_order_acquire) == seen; ++spins) relax();
            call_.wait(seen, std::memory_order_acquire);
            seen = call_.load(std::memory_order_acquire);
            if (stopping_) return;
            if (member < static_cast<int>(seen & kSizeMask)) {
                (*work_)(member);
                barrier();
            }
        }
    }

    std::vector<std::thread> threads_;
    const std::function<void(int)>* work_ = nullptr;
    int size_ = 1;
    std::atomic<bool> stopping_{false};
    // The size travels with the call: a member outside one run that wakes in the next must not mistake the two.
    alignas(64) std::atomic<uint32_t> call_{0};
    alignas(64) std::atomic<int> arrived_{0};
    alignas(64) std::atomic<uint32_t> round_{0};
};
