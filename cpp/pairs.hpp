// Sequential minimal optimisation inside a block, with pairs of coefficients chosen by second-order gain. This is
// arithmetic only.
#pragma once
#include <stdint.h>

namespace dimargin {

// Maximises  sum_i s_i d_i - 1/2 d'(K + diag(curvature)) d  over changes d of the signed coefficients b = y * g, in the
// box lower <= b + d <= upper, with sum d = 0 if there is an intercept, or the sums of two groups zero. If there are kinks, a score has its entry of
// `above` added where b > 0, and its entry of `below`, which is no smaller, where b < 0.
template <class T> struct PairProblem {
    int64_t size;         // number of coefficients
    int64_t stride;       // length of a row of gram: a whole number of 64-byte vectors
    const T* gram;        // [size][stride], aligned to 64 bytes; columns beyond the size are finite
    const T* diagonal;    // [stride] diagonal of K + diag(curvature); one beyond the size
    const T* curvature;   // [stride]; zero beyond the size
    T* score;             // [stride] s, which every step updates; zero beyond the size
    T *rise, *fall;       // [stride] scratch
    double* coefficient;  // [size]
    const double *lower, *upper;  // [size]
    bool intercept;
    void (*fill)(void* context, int64_t row) = nullptr;  // writes a row of gram before it is read; null if all are written
    void* context = nullptr;
    const T *above = nullptr, *below = nullptr;  // [size]; null without kinks
    // [stride] for each of two groups that have an intercept of their own: zero in the group, else minus infinity.
    const T *first = nullptr, *second = nullptr;  // null with a common intercept
};

// Takes steps until the violation is at most `tolerance` times the first violation, or at most `absolute`, or `max_steps`
// are done. With an intercept the violation is the difference between the largest score that may rise and the smallest
// that may fall, of the worse group, otherwise the largest size of a score that its coefficient may follow.
struct PairOutcome {
    int64_t steps;
    double violation, goal;
};
template <class T>
using SolvePairs = PairOutcome (*)(const PairProblem<T>&, double tolerance, double absolute, int64_t max_steps);

struct PairTable {
    SolvePairs<float> f32;
    SolvePairs<double> f64;
};

namespace baseline { extern const PairTable pairs; }
namespace avx2 { extern const PairTable pairs; }
namespace avx512 { extern const PairTable pairs; }

}  // namespace dimargin
