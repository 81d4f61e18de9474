// Work that threads share. tile.cpp includes this file, so it may include only freestanding headers, and only the
// functions that are declared here have external linkage.
#pragma once
#include <stdint.h>

namespace dimargin {

// Calls work(context) on this thread and on up to n_threads - 1 helpers, and returns when every call that has begun has
// ended. Helpers that have not begun when this thread's call ends are not waited for, because `work` takes piece after
// piece until none is left.
void share(int n_threads, void (*work)(void*), void* context);

// Work that the next free helper does before any shared work, while its owner does something else.
struct Errand {
    void (*work)(void*);
    void* context;
    void* posted = nullptr;  // the job that `post` made of it
};
// Returns immediately, and wakes no thread.
void post(Errand& errand);
// Returns true if no helper has begun the errand, so that its owner must do it; otherwise waits until it is done.
bool reclaim(Errand& errand);

namespace {

// Calls `share` with a function object.
template <class F> inline void in_parallel(int n_threads, F work) {
    share(n_threads, [](void* context) { (*static_cast<F*>(context))(); }, &work);
}

// Numbered pieces of work. Each is taken once, by the thread that is free first.
class Turns {
public:
    explicit Turns(int64_t count) : count(count) {}
    // The next piece, or -1 if none is left.
    int64_t take() {
        const int64_t piece = __atomic_fetch_add(&next, 1, __ATOMIC_RELAXED);
        return piece < count ? piece : -1;
    }

private:
    const int64_t count;
    int64_t next = 0;
};

inline void add(int64_t& sum, int64_t value) { __atomic_fetch_add(&sum, value, __ATOMIC_RELAXED); }

}  // namespace
}  // namespace dimargin
