// One block of the dual, and the steps that lower its objective: sweeps over the coordinates and Newton steps.
#pragma once
#include <stdint.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <vector>

#include "block_solver.hpp"
#include "cholesky.hpp"

namespace dimargin {

// The entries of one block, gathered. The inner loop needs no labels, because it uses decision values f = K a and
// signed coefficients a = y * g.
struct Block {
    BlockProblem<double> p;
    int64_t n;
    bool single = false;  // Newton steps may be computed in single precision.
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

    // The exact minimiser in one coordinate, in its box (docs/algorithms.md#block-coordinate-descent).
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
        *p.operations += 2.0 * double(n);
        for (int64_t j = 0; j < n; ++j) t[j] += step * row[j];
    }

    template <class Curvature>
    bool newton_step(const std::vector<int64_t>& rows, Curvature&& bend, std::vector<double>& rhs) const {
        const double m = double(rows.size());
        *p.operations += m * m * m / 3.0;
        return solve_free(p.gram, n, rows, bend, rhs, single);
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

    // The piece on which the optimality condition g = phi'^{-1}(-m) puts a row: 1 right, -1 left, 0 at the kink.
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

    // Derivative of the primal  1/2 |u|^2 + sum loss_i(y_i (f_i + t h_i))  along a step, with loss'(m) = -phi'^{-1}(-m).
    double primal_slope(double t, double linear, double quadratic, const std::vector<double>& h) const {
        double s = linear + t * quadratic;
        for (int64_t i = 0; i < n; ++i) {
            const double m = y[i] * (f[i] + t * h[i]);
            const int piece = piece_of_margin(i, m);
            if (piece) s += y[i] * h[i] * (m + slope(i, piece)) / curvature(i, piece);
        }
        return s;
    }

    bool two_sided() const {
        return std::any_of(lower.begin(), lower.end(), [](double end) { return end < 0; });
    }

    // Adds the intercept to f that minimises the primal of the block. The coefficients keep their sum, so that constants
    // in f change no objective.
    void centre() {
        double total = 0.0, least = -INFINITY, most = INFINITY;
        for (int64_t i = 0; i < n; ++i) {
            total += y[i] * g[i];
            least = std::max(least, -f[i] - (y[i] > 0 ? slope_right[i] : -slope_left[i]));
            most = std::min(most, -f[i] - (y[i] > 0 ? slope_left[i] : -slope_right[i]));
        }
        // No row has a loss between them.
        const double shift = total == 0.0 && least <= most ? 0.5 * (least + most) : best_intercept(total);
        for (double& value : f) value += shift;
    }

    // The zero of the derivative of  sum loss_i(y_i (f_i + b)) + b total,  by Newton's method between bounds.
    double best_intercept(double total) const {
        double b = 0.0, low = -INFINITY, high = INFINITY;
        for (int k = 0; k < 100; ++k) {
            double rise = total, bend = 0.0;
            for (int64_t i = 0; i < n; ++i) {
                const double m = y[i] * (f[i] + b);
                const int piece = piece_of_margin(i, m);
                if (!piece) continue;
                rise += y[i] * (m + slope(i, piece)) / curvature(i, piece);
                bend += 1.0 / curvature(i, piece);
            }
            if (rise == 0.0) break;
            (rise > 0.0 ? high : low) = b;
            double next = b - (bend > 0.0 ? rise / bend : std::copysign(1.0 + std::fabs(b), rise));
            if (!(low < next && next < high)) next = 0.5 * (low + high);
            if (next == b || !std::isfinite(next)) break;
            b = next;
        }
        return b;
    }

    // Takes one generalised Newton step on the primal (docs/algorithms.md#newton-steps): rows whose margin puts them on
    // a piece are free, and all others go to the kink. With an intercept, which is part of f, the step keeps the sum of
    // the signed coefficients. The exact line search makes the steps converge from any start. Returns whether no row
    // changed its piece, so that the step reached the optimum.
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
        const auto bend = [&](int c) { return curvature(active[c], piece[c]); };
        const bool shifts = p.sums && m > 0;
        const double released = std::accumulate(step.begin(), step.end(), 0.0);
        if (p.sums && m == 0 && released != 0.0) {  // Their sum is not that of coefficients at the kink.
            centre();
            return false;
        }
        if (shifts) rhs.resize(2 * m, 1.0);
        if (!newton_step(active, bend, rhs)) return false;
        const double shift = shifts ? keep_sum(rhs, -released) : 0.0;
        if (!std::isfinite(shift)) return false;  // Rounding has left no curvature.
        for (int c = 0; c < m; ++c) {
            step[active[c]] = rhs[c];
            add_row(h, active[c], rhs[c]);
        }
        if (shifts)
            for (double& value : h) value += shift;
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
            // A full step to the kink must end at exactly zero.
            g[i] = t == 1.0 && step[i] == -y[i] * g[i] ? 0.0 : g[i] + t * y[i] * step[i];
            f[i] += t * h[i];
        }
        return settled;
    }

    // Clips coefficients to their boxes, which steps on the primal leave.
    void clip() {
        for (int64_t i = 0; i < n; ++i) {
            const double x = std::min(std::max(g[i], lower[i]), upper[i]);
            if (x != g[i]) add_row(f, i, y[i] * (x - g[i]));
            g[i] = x;
        }
    }

    // -- Newton for losses with flat pieces and boxes (the hinge) --------------------------------------------------

    int piece_of(int64_t i) const { return g[i] > 0 ? 1 : -1; }

    // Derivative of the dual objective in a free coordinate.
    double derivative(int64_t i) const {
        return y[i] * f[i] + slope(i, piece_of(i)) + curvature(i, piece_of(i)) * g[i];
    }

    bool is_free(int64_t i) const { return g[i] != 0.0 && g[i] > lower[i] && g[i] < upper[i]; }

    // Takes a Newton step on the free coordinates inside their present pieces. Returns whether some of them reached the
    // end of their piece.
    bool boxed_newton() {
        std::vector<int64_t> free;
        for (int64_t i = 0; i < n; ++i)
            if (is_free(i)) free.push_back(i);
        if (free.empty()) return false;
        std::vector<double> step;
        for (int64_t i : free) step.push_back(-y[i] * derivative(i));
        const auto bend = [&](int c) { return curvature(free[c], piece_of(free[c])); };
        const size_t m = free.size();
        const auto is_first = [&](size_t c) { return p.sums < 2 || y[free[c]] > 0; };
        size_t n_first = 0;
        for (size_t c = 0; c < m; ++c) n_first += is_first(c);
        const bool both = n_first > 0 && n_first < m;
        if (both) {
            step.resize(3 * m, 0.0);
            for (size_t c = 0; c < m; ++c) step[(is_first(c) ? m : 2 * m) + c] = 1.0;
        } else if (p.sums) {
            step.resize(2 * m, 1.0);
        }
        if (!newton_step(free, bend, step)) return false;
        if (both) keep_sums(step, is_first);
        else if (p.sums) keep_sum(step);
        return follow(free, step);
    }

    // The same as `keep_sum` for the sums of two groups, with solutions for their indicators.
    template <class IsFirst> static void keep_sums(std::vector<double>& step, IsFirst&& is_first) {
        const size_t m = step.size() / 3;
        const auto sums = [&](size_t from) {
            std::array<double, 2> s{};
            for (size_t c = 0; c < m; ++c) s[is_first(c) ? 0 : 1] += step[from + c];
            return s;
        };
        const auto of_first = sums(m), of_second = sums(2 * m);
        const double determinant = of_first[0] * of_second[1] - of_first[1] * of_second[0];
        for (int refinement = 0; refinement < 2; ++refinement) {
            const auto s = sums(0);
            const double first = (s[0] * of_second[1] - s[1] * of_second[0]) / determinant;
            const double second = (s[1] * of_first[0] - s[0] * of_first[1]) / determinant;
            for (size_t c = 0; c < m; ++c) step[c] -= first * step[m + c] + second * step[2 * m + c];
        }
        const auto left = sums(0);
        std::array<double, 2> count{};
        for (size_t c = 0; c < m; ++c) ++count[is_first(c) ? 0 : 1];
        for (size_t c = 0; c < m; ++c) step[c] -= left[is_first(c) ? 0 : 1] / count[is_first(c) ? 0 : 1];
        step.resize(m);
    }

    // Combines two solutions, for the gradient and for a vector of ones, into the step that changes the sum of the signed
    // coefficients by `total`: the first minus a multiple of the second, which is returned. If the matrix is nearly
    // singular, both are large along its flat directions, and their difference changes the sum only up to their
    // rounding. The remainder is subtracted equally from all entries.
    static double keep_sum(std::vector<double>& step, double total = 0.0) {
        const size_t m = step.size() / 2;
        const auto sum = [&](size_t from) { return std::accumulate(&step[from], &step[from] + m, 0.0); };
        const double ones = sum(m);
        double multiples = 0.0;
        for (int refinement = 0; refinement < 2; ++refinement) {
            const double multiple = (sum(0) - total) / ones;
            for (size_t c = 0; c < m; ++c) step[c] -= multiple * step[m + c];
            multiples += multiple;
        }
        const double left = (sum(0) - total) / double(m);
        for (size_t c = 0; c < m; ++c) step[c] -= left;
        step.resize(m);
        return multiples;
    }

    // Goes to the first minimum of the dual objective along a direction. A coordinate that reaches the end of its piece
    // stays there, and the others continue; along the flat directions of a matrix of low rank many coordinates reach
    // their ends. If sums must not change, all of them stop at the first end. Returns whether any reached it.
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
            *p.operations += 8.0 * double(n);
            for (size_t c = passed; c < ends.size(); ++c) {
                const int64_t i = ends[c].row;
                const double s = ends[c].step;
                descent -= y[i] * s * derivative(i);
                bend += s * product[i] + s * s * curvature(i, piece_of(i));
            }
            if (descent <= 0.0) break;
            // Without curvature and without an end there is only rounding, and any step, such as the given one, will do.
            const double whole = bend > 0.0 ? descent / bend : std::max(1.0 - t, 0.0);
            const bool inside = t + whole < ends[passed].at;
            const double length = inside ? whole : ends[passed].at - t;
            for (size_t c = passed; c < ends.size(); ++c) g[ends[c].row] += length * y[ends[c].row] * ends[c].step;
            for (int64_t i = 0; i < n; ++i) f[i] += length * product[i];
            if (inside) break;
            t = ends[passed].at;
            g[ends[passed].row] = ends[passed].bound;
            if (p.sums) {
                ++passed;
                break;
            }
            add_row(product, ends[passed].row, -ends[passed].step);
        }
        // Large steps along flat directions cancel, except for their rounding. Therefore f is recomputed from scratch, the
        // sum of the signed coefficients is restored, and the step is undone if the objective has risen.
        for (const End& end : ends) {
            const int64_t i = end.row;
            const bool right = g_start[i] > 0;
            g[i] = std::min(std::max(g[i], right ? 0.0 : lower[i]), right ? upper[i] : 0.0);
        }
        if (p.sums == 1) restore_sum(ends, g_start, [](int64_t) { return true; });
        for (const double label : {1.0, -1.0})
            if (p.sums == 2) restore_sum(ends, g_start, [&](int64_t i) { return y[i] == label; });
        f = start;
        for (const End& end : ends) add_row(f, end.row, y[end.row] * (g[end.row] - g_start[end.row]));
        if (dual_change(g_start, start) <= 0.0) return passed > 0;
        g = g_start;
        f = start;
        return false;
    }

    // Restores the sum of the signed coefficients of some rows by changing those that have moved: one coefficient, if it
    // can undo the whole drift and stay inside its box, otherwise as many as needed, none beyond its previous value.
    template <class Ends, class Takes> void restore_sum(const Ends& ends, const std::vector<double>& before, Takes&& takes) {
        double drift = 0.0;
        for (const auto& end : ends)
            if (takes(end.row)) drift += y[end.row] * (g[end.row] - before[end.row]);
        if (drift == 0.0) return;
        for (const auto& end : ends) {
            const double to = g[end.row] - y[end.row] * drift;
            if (!takes(end.row) || to <= lower[end.row] || to >= upper[end.row]) continue;
            g[end.row] = to;
            return;
        }
        for (const auto& end : ends) {
            const double moved = y[end.row] * (g[end.row] - before[end.row]);
            if (!takes(end.row) || moved * drift <= 0.0) continue;
            const double back = std::abs(moved) < std::abs(drift) ? moved : drift;
            g[end.row] = back == moved ? before[end.row] : g[end.row] - y[end.row] * back;
            drift -= back;
        }
    }

    // Difference of the dual objective to a previous state of this block.
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
        }
    }
};

}  // namespace dimargin
