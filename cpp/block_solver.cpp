#include "block_solver.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <memory>
#include <new>
#include <stdexcept>
#include <vector>

#include "block.hpp"

namespace dimargin {

Lapack lapack{};

namespace {

constexpr int max_primal_steps = 8;  // Primal Newton steps need 2 to 8 steps to the optimum (measured).
constexpr int64_t pair_steps_per_row = 10;  // One step per row suffices unless the kernel is nearly singular.
constexpr double rounding_violation = 1e-14;  // Smaller violations of margins of order one are rounding.
constexpr double max_operations = 4e9;  // A call stops after this many counted operations, a third of a second.
constexpr int max_cut_steps = 20;  // After so many Newton steps that were cut short, pair steps choose the free rows.

// Rounds a length up to a whole number of vectors of the widest instruction set.
template <class T> int64_t padded(int64_t n) {
    constexpr int64_t lanes = 64 / sizeof(T);
    return (n + lanes - 1) / lanes * lanes;
}

template <class T> std::unique_ptr<T[], decltype(&std::free)> aligned(int64_t count) {
    void* p = std::aligned_alloc(64, size_t(padded<T>(std::max<int64_t>(count, 1))) * sizeof(T));
    if (!p) throw std::bad_alloc();
    std::fill_n(static_cast<T*>(p), padded<T>(std::max<int64_t>(count, 1)), T(0));
    return {static_cast<T*>(p), &std::free};
}

// Takes pair steps on signed coefficients `b`. The decision values `f` are not updated. The curvature of a conjugate is
// the same on either side of zero.
template <class T>
PairOutcome pair_steps(const BlockProblem<T>& p, SolvePairs<T> pairs, double* b, const double* f, double tolerance,
                       double absolute, int64_t max_steps) {
    const int64_t n = p.size, stride = padded<T>(n);
    auto gram = aligned<T>(n * stride), vectors = aligned<T>(7 * stride);
    T *diagonal = vectors.get(), *curvature = diagonal + stride, *score = curvature + stride;
    std::vector<double> lower(n), upper(n);
    T *first = score + 3 * stride, *second = first + stride;
    std::vector<T> above(n), below(n);
    bool has_kinks = false;
    std::fill_n(diagonal, stride, T(1));
    for (int64_t i = 0; i < n; ++i) {
        (p.y[p.index[i]] > 0 ? second : first)[i] = -std::numeric_limits<T>::infinity();
        std::copy_n(p.gram + i * n, n, gram.get() + i * stride);
        const int64_t at = p.index[i];
        const double y = p.y[at], bend = p.pieces.curvature_right[at], end = p.pieces.upper[at];
        curvature[i] = T(bend);
        diagonal[i] = T(double(p.gram[i * n + i]) + bend);
        score[i] = T(-y * (y * f[i] + p.pieces.slope_right[at] + bend * y * b[i]));
        const double start = p.pieces.lower[at], jump = p.pieces.slope_right[at] - p.pieces.slope_left[at];
        lower[i] = y > 0 ? start : -end;
        upper[i] = y > 0 ? end : -start;
        has_kinks |= start < 0;
        (y > 0 ? below[i] : above[i]) = T(y * jump);
    }
    const PairProblem<T> problem{n, stride, gram.get(), diagonal, curvature, score, score + stride, score + 2 * stride,
                                 b, lower.data(), upper.data(), p.sums > 0, nullptr, nullptr,
                                 has_kinks ? above.data() : nullptr, has_kinks ? below.data() : nullptr,
                                 p.sums == 2 ? first : nullptr, p.sums == 2 ? second : nullptr};
    const PairOutcome outcome = pairs(problem, tolerance, absolute, max_steps);
    *p.operations += 8.0 * double(outcome.steps) * double(n);
    return outcome;
}

// Whether more steps on coefficients in boxes are allowed. If the matrix is nearly singular there can be very many. A call
// must end within a second, to obey time limits, and the next one continues from its result.
bool has_budget(const Block& block) { return *block.p.operations < max_operations; }

// Alternates pair steps and Newton steps on the free coefficients, which both keep the sum that an intercept requires.
void solve_with_intercept(Block& block, SolvePairs<double> pairs, double goal, int max_steps) {
    const int64_t n = block.n;
    std::vector<double> b(n);
    for (int s = 0; s < max_steps && has_budget(block); ++s) {
        for (int64_t i = 0; i < n; ++i) b[i] = block.y[i] * block.g[i];
        const std::vector<double> before = b;
        if (!pair_steps(block.p, pairs, b.data(), block.f.data(), 0.1, goal, pair_steps_per_row * n).steps) return;
        for (int64_t i = 0; i < n; ++i) {
            if (b[i] != before[i]) block.add_row(block.f, i, b[i] - before[i]);
            block.g[i] = block.y[i] * b[i] + 0.0;
        }
        for (int k = 0; k < max_cut_steps && has_budget(block) && block.boxed_newton(); ++k) {
        }
    }
}

void solve_without_intercept(Block& block, double start, double goal, bool to_rounding, int max_steps) {
    const bool smooth = block.smooth();
    block.single = smooth && !to_rounding;
    const auto unfinished = [&] { return block.largest_violation() > goal; };
    for (int s = 0; s < max_steps && !(smooth && to_rounding) && has_budget(block) && unfinished(); ++s) {
        block.sweep();
        // Newton steps are repeated to the optimum of the face before the next sweep leaves it: this took 5 passes,
        // and one step per sweep took 80.
        while (block.boxed_newton() && !smooth && has_budget(block)) {
        }
    }
    // Each primal step costs a factorisation, which would be half the time of a fit. So primal steps are taken only if
    // the cut steps have hardly reduced the violation.
    if (smooth && unfinished() && (to_rounding || block.largest_violation() > 0.5 * start)) {
        // Cut steps make no progress if many rows change pieces at the same time. Primal steps always converge, but
        // only their limit is certain to lower the dual objective.
        const std::vector<double> g = block.g, f = block.f;
        const int steps = to_rounding ? max_steps : max_primal_steps;
        for (int s = 0; s < steps && unfinished(); ++s)
            if (block.primal_newton()) break;
        block.clip();
        if (!to_rounding && block.dual_change(g, f) > 0.0) {
            block.g = g;
            block.f = f;
        }
    }
}

// Takes primal steps with an intercept, for losses with curvature and coefficients of either sign. Only the limit of the
// steps is certain to lower the dual objective, so that they continue until it is lower.
void solve_two_sided(Block& block, double goal, bool to_rounding, int max_steps) {
    block.single = !to_rounding;
    const std::vector<double> g = block.g, f = block.f;
    const auto is_lower = [&] { return to_rounding || block.dual_change(g, f) <= 0.0; };
    bool settled = false;
    for (int s = 0; s < max_steps && !settled; ++s) {
        if (block.largest_violation() <= goal && is_lower()) return;
        settled = block.primal_newton();
    }
    if (is_lower()) return;
    block.g = g;
    block.f = f;
}

void solve(Block& block, SolvePairs<double> pairs, double start, double goal, bool to_rounding, int max_steps) {
    if (block.p.sums && block.two_sided() && block.smooth()) solve_two_sided(block, goal, to_rounding, max_steps);
    else if (block.p.sums) solve_with_intercept(block, pairs, std::max(goal, rounding_violation), max_steps);
    else solve_without_intercept(block, start, goal, to_rounding, max_steps);
    block.finish();
}

}  // namespace

void solve_block(const BlockProblem<double>& problem, SolvePairs<double> pairs, double tolerance, double absolute,
                 int max_steps) {
    Block block(problem);
    if (problem.sums && block.two_sided() && block.smooth()) block.centre();
    const double start = block.largest_violation();
    solve(block, pairs, start, std::max(tolerance * start, absolute), tolerance == 0.0, max_steps);
}

template <class T>
void solve_pairs(const BlockProblem<T>& p, SolvePairs<T> pairs, SolvePairs<double> precise, double tolerance,
                 double absolute, int max_steps) {
    const int64_t n = p.size;
    std::vector<double> b(n), f(n), before;
    for (int64_t i = 0; i < n; ++i) {
        b[i] = p.y[p.index[i]] * p.dual[p.index[i]];
        f[i] = p.y[p.index[i]] * p.margins[p.index[i]];
    }
    before = b;
    const PairOutcome outcome = pair_steps(p, pairs, b.data(), f.data(), tolerance, absolute, pair_steps_per_row * n);
    if (outcome.violation > outcome.goal) {
        // The matrix is nearly singular: pair steps stall, and Newton steps take over.
        const std::vector<double> gram(p.gram, p.gram + n * n);
        Block block({n, p.index, gram.data(), p.pieces, p.y, p.dual, p.margins, p.change, p.sums, p.operations});
        for (int64_t i = 0; i < n; ++i) {
            if (b[i] != before[i]) block.add_row(block.f, i, b[i] - before[i]);
            block.g[i] = block.y[i] * b[i] + 0.0;
        }
        return solve(block, precise, block.largest_violation(), outcome.goal, false, max_steps);
    }
    for (int64_t i = 0; i < n; ++i) {
        p.change[i] = b[i] - before[i];
        p.dual[p.index[i]] = p.y[p.index[i]] * b[i] + 0.0;  // Adding zero avoids negative zeros.
    }
}

namespace {

constexpr int64_t steps_between_gaps = 64;  // A gap costs as much as one or two pair steps.
constexpr double score_rounding = 1e-6;  // Smaller violations of margins near one are rounding of float32.
constexpr int64_t lanes = 64 / sizeof(float);

// The Gram matrix of both classes with padded rows. Only the rows that pair steps read are written, a small part.
class LazyGram {
public:
    LazyGram(const ClassPair& p, float* gram, int64_t stride)
        : p(p), gram(gram), stride(stride), is_there(size_t(p.first + p.second), 0) {}

    const float* row(int64_t i) {
        float* const to = gram + i * stride;
        if (is_there[size_t(i)]) return to;
        is_there[size_t(i)] = 1;
        const int64_t a = p.first, b = p.second;
        if (i < a) {
            std::copy_n(p.within_first + i * a, a, to);
            std::copy_n(p.between + i * b, b, to + a);
        } else {
            for (int64_t k = 0; k < a; ++k) to[k] = p.between[k * b + i - a];
            std::copy_n(p.within_second + (i - a) * b, b, to + a);
        }
        std::fill(to + a + b, to + stride, 0.0f);
        return to;
    }
    static void fill(void* self, int64_t i) { static_cast<LazyGram*>(self)->row(i); }

    float diagonal(int64_t i) const {
        return i < p.first ? p.within_first[i * (p.first + 1)] : p.within_second[(i - p.first) * (p.second + 1)];
    }

private:
    const ClassPair& p;
    float* const gram;
    const int64_t stride;
    std::vector<char> is_there;
};

// The relative duality gap. By Fenchel-Young it is the sum over rows of the gain of the dual objective, to first order
// in the scores, if only the row's coefficient moves. The intercept is halfway between the largest score that may rise
// and the smallest that may fall.
double relative_gap(const ClassPair& p, const PairProblem<float>& q) {
    double highest = -INFINITY, lowest = INFINITY, gap = 0.0, dual = 0.0;
    for (int64_t i = 0; p.intercept && i < q.size; ++i) {
        if (q.coefficient[i] < q.upper[i]) highest = std::max(highest, double(q.score[i]));
        if (q.coefficient[i] > q.lower[i]) lowest = std::min(lowest, double(q.score[i]));
    }
    const double intercept = std::isfinite(highest) && std::isfinite(lowest) ? 0.5 * (highest + lowest) : 0.0;
    for (int64_t i = 0; i < q.size; ++i) {
        const double slope = double(q.score[i]) - intercept, bend = q.curvature[i];
        double step = slope > 0 ? q.upper[i] - q.coefficient[i] : q.lower[i] - q.coefficient[i];
        if (bend > 0.0) step = std::fabs(slope / bend) < std::fabs(step) ? slope / bend : step;
        if (step != 0.0) gap += step * (slope - 0.5 * bend * step);
        dual += 0.5 * (q.coefficient[i] * double(q.score[i]) - std::fabs(q.coefficient[i]) * p.pieces.slope_right[i]);
    }
    return gap / std::max(std::fabs(dual + gap), 1e-300);
}

}  // namespace

int64_t class_pair_scratch(int64_t rows) { return (rows + 5) * padded<float>(rows) + lanes; }

double solve_class_pair(const ClassPair& p, SolvePairs<float> pairs, float* scratch, double goal, int64_t max_steps) {
    const int64_t n = p.first + p.second, stride = padded<float>(n);
    auto* gram = reinterpret_cast<float*>((reinterpret_cast<std::uintptr_t>(scratch) + 63) / 64 * 64);
    float *diagonal = gram + n * stride, *curvature = diagonal + stride, *score = curvature + stride;
    LazyGram rows(p, gram, stride);
    std::fill_n(diagonal, stride, 1.0f);
    std::fill_n(curvature, 2 * stride, 0.0f);
    std::vector<double> b(n), f(n), lower(n), upper(n);
    for (int64_t i = 0; i < n; ++i) {
        b[i] = i < p.first ? -p.dual[i] : p.dual[i];
        for (int64_t j = 0; b[i] != 0.0 && j < n; ++j) f[j] += b[i] * double(rows.row(i)[j]);
        upper[i] = i < p.first ? 0.0 : p.pieces.upper[i];
        lower[i] = i < p.first ? -p.pieces.upper[i] : 0.0;
    }
    for (int64_t i = 0; i < n; ++i) {
        const double bend = p.pieces.curvature_right[i], slope = p.pieces.slope_right[i];
        curvature[i] = float(bend);
        diagonal[i] = float(double(rows.diagonal(i)) + bend);
        score[i] = float(-f[i] - (i < p.first ? -slope : slope) - bend * b[i]);
    }
    const PairProblem<float> problem{n, stride, gram, diagonal, curvature, score, score + stride, score + 2 * stride,
                                     b.data(), lower.data(), upper.data(), p.intercept, &LazyGram::fill, &rows};
    double gap = relative_gap(p, problem);
    for (int64_t steps = 0; gap > goal && steps < max_steps;) {
        const PairOutcome done = pairs(problem, 0.0, score_rounding, steps_between_gaps);
        steps += done.steps;
        gap = relative_gap(p, problem);
        if (done.steps < steps_between_gaps) break;
    }
    for (int64_t i = 0; i < n; ++i) p.dual[i] = std::fabs(b[i]);
    return gap;
}

template void solve_pairs(const BlockProblem<float>&, SolvePairs<float>, SolvePairs<double>, double, double, int);
template void solve_pairs(const BlockProblem<double>&, SolvePairs<double>, SolvePairs<double>, double, double, int);

}  // namespace dimargin
