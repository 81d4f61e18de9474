// Work that threads share. tile.cpp includes this: freestanding headers only, and nothing but `share` has a name at link time.
#pragma once
#include <stdint.h>

namespace dimargin {

// Calls work(context) on this thread and on up to n_threads - 1 others; returns when every call that began has ended. Others
// that have not begun when this thread's call ends are not waited for: `work` takes piece after piece until none is left.
void share(int n_threads, void (*work)(void*), void* context);

// Work that a thread which comes to help does first, while its owner goes on with something else.
struct Errand {
    void (*work)(void*);
    void* context;
    void* posted = nullptr;  // what `post` made of it
};
void post(Errand& errand);     // returns at once; no thread is woken for this
bool reclaim(Errand& errand);  // whether no thread has begun, so that its owner may; otherwise returns when it is done

namespace {

// The same as `share` for a function object.
template <class F> inline void in_parallel(int n_threads, F work) {
    share(n_threads, [](void* context) { (*static_cast<F*>(context))(); }, &work);
}

// Pieces of work, which have numbers: each is taken once, by the thread that is free first.
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
