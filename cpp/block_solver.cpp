#include "block_solver.hpp"

#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

namespace dimargin {

Lapack lapack{};

namespace {

using std::int64_t;

constexpr int max_primal_steps = 8;  // ends are reached in 2 to 8 (measured)
constexpr double least_curvature_single = 1e-3;  // relative to the diagonal
constexpr int64_t pair_steps_a_row = 10;  // where the kernel is not nearly singular one is enough
constexpr double rounding = 1e-14;  // violations of margins of order one that are
constexpr int most_ends = 20;  // Newton steps cut short before pairs sort out what is free
constexpr double smallest_ridge = 1e-12;  // relative: the hinge has no curvature, and duplicates exist

// The block, gathered. Decision values f = K a and signed coefficients a = y * g spare the labels in the inner loop.
struct Block {
    BlockProblem<double> p;
    int64_t n;
    bool single = false;  // whether steps may be computed in single precision
    std::vector<double> g, f, y, slope_right, curvature_right, slope_left, curvature_left, lower, upper;

    explicit Block(const BlockProblem<double>& problem) : p(problem), n(problem.size) {
        auto gather = [&](const double* from) {
            std::vector<double> to(n);
            for (int64_t i = 0; i < n; ++i) to[i] = from[p.index[i]];
            return to;
        };
        g = gather(p.dual);
        y = gather(p.y);
        f = gather(p.margins);
        for (int64_t i = 0; i < n; ++i) f[i] *= y[i];
        slope_right = gather(p.pieces.slope_right);
        curvature_right = gather(p.pieces.curvature_right);
        slope_left = gather(p.pieces.slope_left);
        curvature_left = gather(p.pieces.curvature_left);
        lower = gather(p.pieces.lower);
        upper = gather(p.pieces.upper);
    }

    double phi(int64_t i, double x) const {
        return x >= 0 ? (slope_right[i] + 0.5 * curvature_right[i] * x) * x
                      : (slope_left[i] + 0.5 * curvature_left[i] * x) * x;
    }

    // Distance of zero from the subdifferential of the dual at g_i; infinite outside the box.
    double violation(int64_t i) const {
        const double m = y[i] * f[i], x = g[i];
        if (x < lower[i] || x > upper[i]) return INFINITY;
        const double right = m + slope_right[i] + curvature_right[i] * x;
        const double left = m + slope_left[i] + curvature_left[i] * x;
        double v = 0.0;
        if (x >= 0 && x < upper[i]) v = std::max(v, -right);
        if (x > 0) v = std::max(v, right);
        if (x <= 0 && x > lower[i]) v = std::max(v, left);
        if (x < 0) v = std::max(v, -left);
        return v;
    }

    double largest_violation() const {
        double v = 0.0;
        for (int64_t i = 0; i < n; ++i) v = std::max(v, violation(i));
        return v;
    }

    // The exact one-dimensional minimiser (handbook section 2.2, with box).
    double coordinate_optimum(int64_t i) const {
        const double k = p.gram[i * n + i], r = k * g[i] - y[i] * f[i];
        double x = 0.0;
        if (r > slope_right[i]) {
            const double h = k + curvature_right[i];
            x = h > 0 ? (r - slope_right[i]) / h : upper[i];
        } else if (r < slope_left[i]) {
            const double h = k + curvature_left[i];
            x = h > 0 ? (r - slope_left[i]) / h : lower[i];
        }
        return std::min(std::max(x, lower[i]), upper[i]);
    }

    void add_row(std::vector<double>& to, int64_t i, double step) const {
        const double* row = p.gram + i * n;
        double* t = to.data();
        for (int64_t j = 0; j < n; ++j) t[j] += step * row[j];
    }

    void sweep() {
        for (int64_t i = 0; i < n; ++i) {
            const double x = coordinate_optimum(i), step = x - g[i];
            if (step == 0.0 || !std::isfinite(x)) continue;
            g[i] = x;
            add_row(f, i, y[i] * step);
        }
    }

    // -- Newton for losses with curvature everywhere (their primal is continuously differentiable) ----------------

    // Which piece the optimality condition g = phi'^{-1}(-m) puts a row on: 1 right, -1 left, 0 at the kink.
    int piece_of_margin(int64_t i, double m) const {
        if (upper[i] > 0 && -m > slope_right[i]) return 1;
        if (lower[i] < 0 && -m < slope_left[i]) return -1;
        return 0;
    }
    double slope(int64_t i, int piece) const { return piece > 0 ? slope_right[i] : slope_left[i]; }
    double curvature(int64_t i, int piece) const { return piece > 0 ? curvature_right[i] : curvature_left[i]; }

    bool smooth() const {
        for (int64_t i = 0; i < n; ++i) {
            if (upper[i] > 0 && !(curvature_right[i] > 0 && upper[i] == INFINITY)) return false;
            if (lower[i] < 0 && !(curvature_left[i] > 0 && lower[i] == -INFINITY)) return false;
        }
        return true;
    }

    // Derivative along a step of the primal  1/2 |u|^2 + sum loss_i(y_i (f_i + t h_i)),  loss'(m) = -phi'^{-1}(-m).
    double primal_slope(double t, double linear, double quadratic, const std::vector<double>& h) const {
        double s = linear + t * quadratic;
        for (int64_t i = 0; i < n; ++i) {
            const double m = y[i] * (f[i] + t * h[i]);
            const int piece = piece_of_margin(i, m);
            if (piece) s += y[i] * h[i] * (m + slope(i, piece)) / curvature(i, piece);
        }
        return s;
    }

    // One generalised Newton step on the primal (handbook F5): rows on a piece by their margin are free, all others
    // go to the kink; an exact line search makes it converge from anywhere. Returns whether no row
    // changed its piece, so that this was the end.
    bool primal_newton() {
        std::vector<int64_t> active;
        std::vector<int> piece;
        std::vector<double> step(n, 0.0), h(n, 0.0), rhs, hessian;
        for (int64_t i = 0; i < n; ++i) {
            const int on = piece_of_margin(i, y[i] * f[i]);
            if (on) {
                active.push_back(i);
                piece.push_back(on);
            } else if (g[i] != 0.0) {
                step[i] = -y[i] * g[i];
                add_row(h, i, step[i]);
            }
        }
        const int m = int(active.size());
        for (int c = 0; c < m; ++c) {
            const int64_t i = active[c];
            rhs.push_back(-(f[i] + h[i] + y[i] * (slope(i, piece[c]) + curvature(i, piece[c]) * g[i])));
        }
        if (!solve_free(active, [&](int c) { return curvature(active[c], piece[c]); }, rhs)) return false;
        for (int c = 0; c < m; ++c) {
            step[active[c]] = rhs[c];
            add_row(h, active[c], rhs[c]);
        }
        double linear = 0.0, quadratic = 0.0;
        for (int64_t i = 0; i < n; ++i) {
            linear += y[i] * g[i] * h[i];
            quadratic += step[i] * h[i];
        }
        bool settled = true;
        for (int64_t i = 0; i < n && settled; ++i)
            settled = piece_of_margin(i, y[i] * f[i]) == piece_of_margin(i, y[i] * (f[i] + h[i]));
        double t = 1.0;
        if (!settled && primal_slope(1.0, linear, quadratic, h) > 0.0) {
            double low = 0.0, high = 1.0;
            for (int k = 0; k < 40; ++k) {
                t = 0.5 * (low + high);
                (primal_slope(t, linear, quadratic, h) > 0.0 ? high : low) = t;
            }
        }
        for (int64_t i = 0; i < n; ++i) {
            // a whole step lands exactly on the kink
            g[i] = t == 1.0 && step[i] == -y[i] * g[i] ? 0.0 : g[i] + t * y[i] * step[i];
            f[i] += t * h[i];
        }
        return settled;
    }

    // Back into the box, which steps on the primal leave.
    void clip() {
        for (int64_t i = 0; i < n; ++i) {
            const double x = std::min(std::max(g[i], lower[i]), upper[i]);
            if (x != g[i]) add_row(f, i, y[i] * (x - g[i]));
            g[i] = x;
        }
    }

    // The same in single precision, half the time: enough for a step that is cut or searched along, where the curvature
    // keeps the matrix far from singular.
    template <class Curvature>
    bool solve_free_single(const std::vector<int64_t>& free, Curvature&& curvature, std::vector<double>& rhs) const {
        int m = int(free.size()), one = 1, info = 0;
        for (int c = 0; c < m; ++c)
            if (curvature(c) < least_curvature_single * p.gram[free[c] * n + free[c]]) return false;
        std::vector<float> h(size_t(m) * m);
        for (int c = 0; c < m; ++c) {
            const double* row = p.gram + free[c] * n;
            float* column = h.data() + size_t(c) * m;
            for (int r = c; r < m; ++r) column[r] = float(row[free[r]]);
            column[c] += float(curvature(c));
        }
        char uplo = 'L';
        lapack.spotrf(&uplo, &m, h.data(), &m, &info);
        if (info != 0) return false;
        std::vector<float> x(rhs.begin(), rhs.end());
        lapack.spotrs(&uplo, &m, &one, h.data(), &m, x.data(), &m, &info);
        for (float value : x)
            if (!std::isfinite(value)) return false;
        rhs.assign(x.begin(), x.end());
        return info == 0;
    }

    // (K + diag(curvature)) x = rhs on some rows, in place, for one or more right-hand sides. A matrix that is singular
    // to rounding gets a ridge.
    template <class Curvature>
    bool solve_free(const std::vector<int64_t>& free, Curvature&& curvature, std::vector<double>& rhs) const {
        int m = int(free.size()), info = 0;
        if (m == 0) return true;
        int columns = int(rhs.size()) / m;
        if (single && solve_free_single(free, curvature, rhs)) return true;
        std::vector<double> h(size_t(m) * m);
        char uplo = 'L';
        for (double ridge = smallest_ridge; ridge < 1.0; ridge *= 100) {
            for (int c = 0; c < m; ++c) {
                const double* row = p.gram + free[c] * n;
                double* column = h.data() + size_t(c) * m;
                for (int r = c; r < m; ++r) column[r] = row[free[r]];
                column[c] += std::max(curvature(c), ridge * column[c]);
            }
            lapack.dpotrf(&uplo, &m, h.data(), &m, &info);
            if (info != 0) continue;
            lapack.dpotrs(&uplo, &m, &columns, h.data(), &m, rhs.data(), &m, &info);
            return info == 0;
        }
        return false;
    }

    // -- Newton for losses with flat pieces and boxes (the hinge) --------------------------------------------------

    int piece_of(int64_t i) const { return g[i] > 0 ? 1 : -1; }

    // Of the dual objective in a free coordinate.
    double derivative(int64_t i) const {
        return y[i] * f[i] + slope(i, piece_of(i)) + curvature(i, piece_of(i)) * g[i];
    }

    bool is_free(int64_t i) const { return g[i] != 0.0 && g[i] > lower[i] && g[i] < upper[i]; }

    // Newton on the free coordinates inside their present pieces. Returns whether some of them came to an end of theirs.
    bool boxed_newton() {
        std::vector<int64_t> free;
        for (int64_t i = 0; i < n; ++i)
            if (is_free(i)) free.push_back(i);
        if (free.empty()) return false;
        std::vector<double> step;
        for (int64_t i : free) step.push_back(-y[i] * derivative(i));
        const auto bend = [&](int c) { return curvature(free[c], piece_of(free[c])); };
        const size_t m = free.size();
        if (p.intercept) step.resize(2 * m, 1.0);
        if (!solve_free(free, bend, step)) return false;
        if (p.intercept) {  // less the multiple of the second solution that keeps the sum
            double sum = 0.0, ones = 0.0;
            for (size_t c = 0; c < m; ++c) {
                sum += step[c];
                ones += step[m + c];
            }
            for (size_t c = 0; c < m; ++c) step[c] -= sum / ones * step[m + c];
            step.resize(m);
        }
        return follow(free, step);
    }

    // The first minimum of the dual objective along a direction, where a coordinate that comes to the end of its piece
    // stays there and the others go on (with an intercept all stop, for the sum): along the flat directions of a matrix
    // of low rank many do. Returns whether one did.
    bool follow(const std::vector<int64_t>& free, const std::vector<double>& step) {
        struct End {
            double at;
            int64_t row;
            double bound, step;
        };
        std::vector<End> ends;
        std::vector<double> product(n, 0.0);
        const std::vector<double> start = f, g_start = g;
        for (size_t c = 0; c < free.size(); ++c) {
            const int64_t i = free[c];
            const double forward = y[i] * step[c];
            const double bound = forward > 0 ? (g[i] > 0 ? upper[i] : 0.0) : (g[i] > 0 ? 0.0 : lower[i]);
            if (forward != 0.0) ends.push_back({(bound - g[i]) / forward, i, bound, step[c]});
            add_row(product, i, step[c]);
        }
        std::sort(ends.begin(), ends.end(), [](const End& a, const End& b) { return a.at < b.at; });
        double t = 0.0;
        size_t passed = 0;
        for (; passed < ends.size(); ++passed) {
            double descent = 0.0, bend = 0.0;
            for (size_t c = passed; c < ends.size(); ++c) {
                const int64_t i = ends[c].row;
                const double s = ends[c].step;
                descent -= y[i] * s * derivative(i);
                bend += s * product[i] + s * s * curvature(i, piece_of(i));
            }
            if (descent <= 0.0) break;
            // no bend and no end: rounding, and the step as it came is as good as any
            const double whole = bend > 0.0 ? descent / bend : std::max(1.0 - t, 0.0);
            const bool inside = t + whole < ends[passed].at;
            const double length = inside ? whole : ends[passed].at - t;
            for (size_t c = passed; c < ends.size(); ++c) g[ends[c].row] += length * y[ends[c].row] * ends[c].step;
            for (int64_t i = 0; i < n; ++i) f[i] += length * product[i];
            if (inside) break;
            t = ends[passed].at;
            g[ends[passed].row] = ends[passed].bound;
            if (p.intercept) {
                ++passed;
                break;
            }
            add_row(product, ends[passed].row, -ends[passed].step);
        }
        double drift = 0.0;
        for (const End& end : ends) {
            const int64_t i = end.row;
            const bool right = g_start[i] > 0;
            g[i] = std::min(std::max(g[i], right ? 0.0 : lower[i]), right ? upper[i] : 0.0);
            drift += y[i] * (g[i] - g_start[i]);
        }
        // large steps along flat directions cancel, and leave their rounding: in the sum, which any coordinate with room
        // takes back, and in f, which is computed afresh
        for (const End& end : ends) {
            const double to = g[end.row] - y[end.row] * drift;
            if (!p.intercept || to <= lower[end.row] || to >= upper[end.row]) continue;
            g[end.row] = to;
            break;
        }
        f = start;
        for (const End& end : ends) add_row(f, end.row, y[end.row] * (g[end.row] - g_start[end.row]));
        return passed > 0;
    }

    // Change of the dual objective from another state of the same block.
    double dual_change(const std::vector<double>& old_g, const std::vector<double>& old_f) const {
        double change = 0.0;
        for (int64_t i = 0; i < n; ++i)
            change += 0.5 * y[i] * (g[i] - old_g[i]) * (f[i] + old_f[i]) + phi(i, g[i]) - phi(i, old_g[i]);
        return change;
    }

    void finish() const {
        for (int64_t i = 0; i < n; ++i) {
            const int64_t at = p.index[i];
            p.change[i] = y[i] * (g[i] - p.dual[at]);
            p.dual[at] = g[i];
            p.margins[at] = y[i] * f[i];
        }
    }
};

// A whole number of vectors of the widest instruction set.
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

// Pair steps on signed coefficients `b` with decision values `f`, which stay as they are.
template <class T>
PairOutcome pair_steps(const BlockProblem<T>& p, SolvePairs<T> pairs, double* b, const double* f, double tolerance,
                       double absolute, int64_t max_steps) {
    const int64_t n = p.size, stride = padded<T>(n);
    auto gram = aligned<T>(n * stride), vectors = aligned<T>(5 * stride);
    T *diagonal = vectors.get(), *curvature = diagonal + stride, *score = curvature + stride;
    std::vector<double> lower(n), upper(n);
    std::fill_n(diagonal, stride, T(1));
    for (int64_t i = 0; i < n; ++i) {
        std::copy_n(p.gram + i * n, n, gram.get() + i * stride);
        const int64_t at = p.index[i];
        const double y = p.y[at], bend = p.pieces.curvature_right[at], end = p.pieces.upper[at];
        curvature[i] = T(bend);
        diagonal[i] = T(double(p.gram[i * n + i]) + bend);
        score[i] = T(-y * (y * f[i] + p.pieces.slope_right[at] + bend * y * b[i]));
        lower[i] = y > 0 ? 0.0 : -end;
        upper[i] = y > 0 ? end : 0.0;
    }
    const PairProblem<T> problem{n, stride, gram.get(), diagonal, curvature, score, score + stride, score + 2 * stride,
                                 b, lower.data(), upper.data(), p.intercept};
    return pairs(problem, tolerance, absolute, max_steps);
}

// Pair steps and Newton steps on the free coefficients, in turn: with an intercept, which both keep.
void solve_with_intercept(Block& block, SolvePairs<double> pairs, double goal, int max_steps) {
    const int64_t n = block.n;
    std::vector<double> b(n);
    for (int s = 0; s < max_steps; ++s) {
        for (int64_t i = 0; i < n; ++i) b[i] = block.y[i] * block.g[i];
        const std::vector<double> before = b;
        if (!pair_steps(block.p, pairs, b.data(), block.f.data(), 0.1, goal, pair_steps_a_row * n).steps) return;
        for (int64_t i = 0; i < n; ++i) {
            if (b[i] != before[i]) block.add_row(block.f, i, b[i] - before[i]);
            block.g[i] = block.y[i] * b[i] + 0.0;
        }
        for (int k = 0; k < most_ends && block.boxed_newton(); ++k) {
        }
    }
}

void solve_without_intercept(Block& block, double start, double goal, bool to_rounding, int max_steps) {
    const bool smooth = block.smooth();
    block.single = smooth && !to_rounding;
    const auto unfinished = [&] { return block.largest_violation() > goal; };
    for (int s = 0; s < max_steps && !(smooth && to_rounding) && unfinished(); ++s) {
        block.sweep();
        // to the optimum of the face before the next sweep leaves it (5 passes where one step a sweep took 80)
        while (block.boxed_newton() && !smooth) {
        }
    }
    // only where cut steps hardly moved: each primal step costs a factorisation (half the time of a fit otherwise)
    if (smooth && unfinished() && (to_rounding || block.largest_violation() > 0.5 * start)) {
        // Where many rows change pieces at once cut steps get nowhere. Steps on the primal end everywhere, but only
        // their end is sure to lower the dual objective.
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

void solve(Block& block, SolvePairs<double> pairs, double start, double goal, bool to_rounding, int max_steps) {
    if (block.p.intercept) solve_with_intercept(block, pairs, std::max(goal, rounding), max_steps);
    else solve_without_intercept(block, start, goal, to_rounding, max_steps);
    block.finish();
}

}  // namespace

void solve_block(const BlockProblem<double>& problem, SolvePairs<double> pairs, double tolerance, double absolute,
                 int max_steps) {
    Block block(problem);
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
    const PairOutcome outcome = pair_steps(p, pairs, b.data(), f.data(), tolerance, absolute, pair_steps_a_row * n);
    if (outcome.violation > outcome.goal) {
        // nearly singular: Newton steps where pairs creep
        const std::vector<double> gram(p.gram, p.gram + n * n);
        Block block({n, p.index, gram.data(), p.pieces, p.y, p.dual, p.margins, p.change, p.intercept});
        for (int64_t i = 0; i < n; ++i) {
            if (b[i] != before[i]) block.add_row(block.f, i, b[i] - before[i]);
            block.g[i] = block.y[i] * b[i] + 0.0;
        }
        return solve(block, precise, block.largest_violation(), outcome.goal, false, max_steps);
    }
    for (int64_t i = 0; i < n; ++i) {
        p.change[i] = b[i] - before[i];
        p.dual[p.index[i]] = p.y[p.index[i]] * b[i] + 0.0;  // no negative zero
    }
}

template void solve_pairs(const BlockProblem<float>&, SolvePairs<float>, SolvePairs<double>, double, double, int);
template void solve_pairs(const BlockProblem<double>&, SolvePairs<double>, SolvePairs<double>, double, double, int);

}  // namespace dimargin
