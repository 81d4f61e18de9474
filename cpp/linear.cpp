// This file is compiled once per instruction set, like tile.cpp. Its loops are plain: the compiler vectorises them, and
// may reorder their sums.
#include "linear.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <vector>

#ifndef DIMARGIN_ARCH
#error "DIMARGIN_ARCH names the instruction set"
#endif

namespace dimargin {
namespace DIMARGIN_ARCH {
namespace {

constexpr double min_factor = 1e-100;  // Below this the factor is multiplied into the vector, long before it underflows.
constexpr double nearly = 1 - 1e-12;  // A coefficient is at its bound from this share of it on.
constexpr int64_t rows_ahead = 8;  // The rows of later steps are prefetched.

struct Answer {
    double dual, curvature, value;
};

// There are no branches, so that the compiler can vectorise the loop over rows below.
inline Answer answer(double margin, double slope_right, double curvature_right, double slope_left,
                     double curvature_left, double lower, double upper) {
    const double rise = -(margin + slope_right), fall = -(margin + slope_left);
    const bool up = rise > 0, down = fall < 0 && lower < 0;
    const double bend = up ? curvature_right : down ? curvature_left : 1, steep = 1 / bend;
    double g = (up ? rise : down ? fall : 0) * steep;
    g = g < lower ? lower : g > upper ? upper : g;
    const bool inside = g != 0 && g > lower && g < upper;
    // This g attains the maximum in loss(m) = max_g -(g m + phi(g)).
    return {g, inside ? steep : 0, g * ((up ? rise : fall) - 0.5 * bend * g)};
}

// `known` has the strides of the pieces that are compile-time constants, and -1 for the others.
template <int... known> void respond_known(const double* margins, const StridedPieces& p, int64_t n, double* dual,
                                           double* curvature, double* value) {
    constexpr int strides[6] = {known...};
    int64_t stride[6];
    for (int k = 0; k < 6; ++k) stride[k] = strides[k] < 0 ? p.stride[k] : strides[k];
    for (int64_t i = 0; i < n; ++i) {
        const Answer a = answer(margins[i], p.value[0][i * stride[0]], p.value[1][i * stride[1]],
                                p.value[2][i * stride[2]], p.value[3][i * stride[3]], p.value[4][i * stride[4]],
                                p.value[5][i * stride[5]]);
        dual[i] = a.dual;
        curvature[i] = a.curvature;
        value[i] = a.value;
    }
}

bool strides_are(const StridedPieces& p, int64_t a, int64_t b, int64_t c, int64_t d, int64_t e, int64_t f) {
    return p.stride[0] == a && p.stride[1] == b && p.stride[2] == c && p.stride[3] == d && p.stride[4] == e &&
           p.stride[5] == f;
}

void respond(const double* margins, const StridedPieces& pieces, int64_t n_outputs, int64_t n, double* dual,
             double* curvature, double* value) {
    auto* run = strides_are(pieces, 0, 1, 0, 1, 0, 0)   ? respond_known<0, 1, 0, 1, 0, 0>
                : strides_are(pieces, 0, 1, 0, 0, 0, 0) ? respond_known<0, 1, 0, 0, 0, 0>
                                                        : respond_known<-1, -1, -1, -1, -1, -1>;
    for (int64_t q = 0; q < n_outputs; ++q, margins += n, dual += n, curvature += n, value += n)
        run(margins, pieces, n, dual, curvature, value);
}

// Rows are scattered in memory.
template <class T> inline void prefetch(const RowsView<T>& rows, int64_t row) {
    const int64_t first = rows.offsets ? rows.offsets[row] : row * rows.n_features;
    const int64_t length = rows.offsets ? rows.offsets[row + 1] - first : rows.n_features;
    for (int64_t k = 0; k < length * int64_t(sizeof(T)); k += 64)
        __builtin_prefetch(reinterpret_cast<const char*>(rows.values + first) + k);
    if (rows.offsets)
        for (int64_t k = 0; k < length * int64_t(sizeof(int32_t)); k += 64)
            __builtin_prefetch(reinterpret_cast<const char*>(rows.columns + first) + k);
}

// Products of a row with three vectors.
struct Products {
    double anchor = 0, scratch = 0, gradient = 0;
};

// The regulariser and the gradient change all features in every step. Because of  change = factor * scratch - pull *
// gradient  only the two numbers are updated for this, and the cost of a step is proportional to the length of its row.
template <class T> struct Descent {
    const SvrgPass<T>& pass;
    const RowsView<T>& rows = pass.rows;
    const int64_t d = rows.n_features;
    double factor = 1, pull = 0;

    Products products(int64_t i) const {
        Products sum;
        const auto add = [&](double x, int64_t k) {
            sum.anchor += x * pass.anchor[k];
            sum.scratch += x * pass.scratch[k];
            sum.gradient += x * pass.gradient[k];
        };
        if (rows.offsets) {
            for (int64_t p = rows.offsets[i]; p < rows.offsets[i + 1]; ++p) add(double(rows.values[p]), rows.columns[p]);
        } else {
            for (int64_t k = 0; k < d; ++k) add(double(rows.values[i * d + k]), k);
        }
        return sum;
    }

    void add_to_scratch(int64_t i, double times) const {
        double* scratch = pass.scratch;
        if (rows.offsets) {
            for (int64_t p = rows.offsets[i]; p < rows.offsets[i + 1]; ++p)
                scratch[rows.columns[p]] += times * double(rows.values[p]);
        } else {
            for (int64_t k = 0; k < d; ++k) scratch[k] += times * double(rows.values[i * d + k]);
        }
    }

    double dual(int64_t step, double margin) const {
        const StridedPieces& p = pass.pieces;
        const int64_t i = pass.place[step];
        return answer(margin, p.value[0][i * p.stride[0]], p.value[1][i * p.stride[1]], p.value[2][i * p.stride[2]],
                      p.value[3][i * p.stride[3]], p.value[4][i * p.stride[4]], p.value[5][i * p.stride[5]])
            .dual;
    }

    void shrink() {
        factor *= 1 - pass.step;
        pull = (1 - pass.step) * pull + pass.step;
        if (factor >= min_factor) return;
        for (int64_t k = 0; k < d; ++k) pass.scratch[k] *= factor;
        factor = 1;
    }

    void run() {
        double& shift = pass.change[d];
        for (int64_t k = 0; k < d; ++k) pass.scratch[k] = pass.change[k];
        for (int64_t s = 0; s < rows.size; ++s) {
            if (s + rows_ahead < rows.size) prefetch(rows, rows.index[s + rows_ahead]);
            const Products x = products(rows.index[s]);
            const double y = pass.labels[pass.place[s]], at_anchor = x.anchor + pass.anchor[d];
            const double now = at_anchor + factor * x.scratch - pull * x.gradient + shift;
            const double by = pass.step * pass.scale * y * (dual(s, y * now) - dual(s, y * at_anchor));
            shrink();
            if (by != 0) add_to_scratch(rows.index[s], by / factor);
            if (pass.intercept) shift += by - pass.step * pass.gradient[d];
        }
        for (int64_t k = 0; k < d; ++k) pass.change[k] = factor * pass.scratch[k] - pull * pass.gradient[k];
    }
};

template <class T> void svrg(const SvrgPass<T>& pass) { Descent<T>{pass}.run(); }

// The product of a row with the weights, without the intercept, in chains that the processor can overlap.
template <class T> double product(const RowsView<T>& rows, int64_t i, const double* weights) {
    double sums[4] = {0, 0, 0, 0};
    if (!rows.offsets) {
        const T* const x = rows.values + i * rows.n_features;
        double sum = 0;
        for (int64_t k = 0; k < rows.n_features; ++k) sum += double(x[k]) * weights[k];
        return sum;
    }
    int64_t p = rows.offsets[i];
    const int64_t end = rows.offsets[i + 1];
    for (; p + 4 <= end; p += 4)
        for (int c = 0; c < 4; ++c) sums[c] += double(rows.values[p + c]) * weights[rows.columns[p + c]];
    for (; p < end; ++p) sums[0] += double(rows.values[p]) * weights[rows.columns[p]];
    return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

template <class T> void add_row(const RowsView<T>& rows, int64_t i, double times, double* weights) {
    if (rows.offsets) {
        for (int64_t p = rows.offsets[i]; p < rows.offsets[i + 1]; ++p)
            weights[rows.columns[p]] += times * double(rows.values[p]);
    } else {
        const T* const x = rows.values + i * rows.n_features;
        for (int64_t k = 0; k < rows.n_features; ++k) weights[k] += times * double(x[k]);
    }
}

// The coefficient of one row, its conjugate (PiecewiseConjugate) and its margin.
struct Coordinate {
    double slope_right, curvature_right, slope_left, curvature_left, lower, upper, dual, margin;

    // Derivative of the dual objective to the right and to the left; infinite beyond a bound.
    double right() const {
        const double inside = dual >= 0 ? slope_right + curvature_right * dual : slope_left + curvature_left * dual;
        return dual < upper ? margin + inside : infinity;
    }
    double left() const {
        const double inside = dual > 0 ? slope_right + curvature_right * dual : slope_left + curvature_left * dual;
        return dual > lower ? margin + inside : -infinity;
    }
    double minimum(double square) const {
        const double start = square * dual - margin, up = start - slope_right, down = start - slope_left;
        const double to = up > 0 ? up / (square + curvature_right) : down < 0 ? down / (square + curvature_left) : 0;
        return to < lower ? lower : to > upper ? upper : to;
    }
    double conjugate(double at) const {
        return at >= 0 ? (slope_right + 0.5 * curvature_right * at) * at : (slope_left + 0.5 * curvature_left * at) * at;
    }
    static constexpr double infinity = std::numeric_limits<double>::infinity();
};

template <class T> void visit(CoordinatePass<T>& pass, int64_t i) {
    const RowsView<T>& rows = pass.rows;
    const StridedPieces& p = pass.pieces;
    double& intercept = pass.weights[rows.n_features];
    const double y = pass.labels[i], margin = y * (product(rows, i, pass.weights) + intercept);
    const Coordinate c{p.value[0][i * p.stride[0]], p.value[1][i * p.stride[1]], p.value[2][i * p.stride[2]],
                       p.value[3][i * p.stride[3]], p.value[4][i * p.stride[4]], p.value[5][i * p.stride[5]],
                       pass.dual[i], margin};
    const double right = c.right(), left = c.left();  // At the optimum the objective falls in neither direction.
    ++pass.visited;
    if (right > pass.fall && -left > pass.rise) {
        pass.active[i] = 0;
        return;
    }
    pass.largest_rise = std::max(pass.largest_rise, -right);
    pass.largest_fall = std::max(pass.largest_fall, left);
    const double loss = answer(margin, c.slope_right, c.curvature_right, c.slope_left, c.curvature_left, c.lower,
                               c.upper).value;
    const double before = c.conjugate(c.dual);
    pass.gap += std::max(loss + before + c.dual * margin, 0.0);
    if (right >= 0 && left <= 0) return;
    const double to = c.minimum(pass.squares[i]), by = y * (to - c.dual);
    pass.dual[i] = to;
    pass.conjugate += c.conjugate(to) - before;
    pass.balance += by;
    add_row(rows, i, by, pass.weights);
    intercept += by * pass.square_of_one;
}

template <class T> void descend(CoordinatePass<T>& pass) {
    for (int64_t b = 0; b < pass.n_blocks; ++b) {
        // Rows of a block are consecutive in memory, where the processor reads ahead.
        if (b + 1 < pass.n_blocks) prefetch(pass.rows, pass.blocks[b + 1] * pass.rows_per_block);
        const int64_t first = pass.blocks[b] * pass.rows_per_block, last = std::min(first + pass.rows_per_block, pass.n);
        for (int64_t i = first; i < last; ++i)
            if (pass.active[i]) visit(pass, i);
    }
}

// The work of a visit of a row, for all classes.
struct ClassScratch {
    std::vector<double> slopes, ends, to;
    explicit ClassScratch(int64_t n_classes) : slopes(n_classes), ends(n_classes), to(n_classes) {}
};

// Sets `to` to the minimum: a'_k = min(bound_k, (level - slope_k) / square + a_k), where the level makes their sum zero. A
// coefficient is at its bound if the level exceeds  end_k = slope_k + square (bound_k - a_k).
inline void minimise_classes(ClassScratch& scratch, const double* dual, double square, double price, int64_t own) {
    const int64_t n_classes = int64_t(scratch.slopes.size());
    const auto bound = [&](int64_t k) { return k == own ? price : 0.0; };
    for (int64_t k = 0; k < n_classes; ++k) scratch.to[k] = scratch.slopes[k] + square * (bound(k) - dual[k]);
    scratch.ends = scratch.to;
    std::sort(scratch.ends.begin(), scratch.ends.end(), std::greater<double>());
    double level = scratch.ends[0] - square * price, sum = scratch.ends[0];
    for (int64_t r = 1; r < n_classes && level < scratch.ends[r]; ++r) {
        sum += scratch.ends[r];
        level = (sum - square * price) / double(r + 1);
    }
    double others = 0;
    for (int64_t k = 0; k < n_classes; ++k) {
        if (k == own) continue;
        scratch.to[k] = std::min(0.0, (level - scratch.to[k]) / square);
        others += scratch.to[k];
    }
    scratch.to[own] = -others;  // The sum is exactly zero.
}

template <class T> void visit_classes(ClassPass<T>& pass, int64_t i, ClassScratch& scratch) {
    const RowsView<T>& rows = pass.rows;
    const int64_t n_classes = pass.n_classes, own = pass.classes[i];
    const int64_t first = rows.offsets ? rows.offsets[i] : i * rows.n_features;
    const int64_t last = rows.offsets ? rows.offsets[i + 1] : first + rows.n_features;
    const auto at = [&](int64_t p) { return pass.weights + (rows.offsets ? rows.columns[p] : p - first) * n_classes; };
    double* const slopes = scratch.slopes.data();
    double* const dual = pass.dual + i * n_classes;
    const double price = pass.prices[i], square = pass.squares[i];
    ++pass.visited;
    for (int64_t k = 0; k < n_classes; ++k) slopes[k] = k == own ? 0 : 1;
    for (int64_t p = first; p < last; ++p) {
        const double x = double(rows.values[p]);
        const double* const w = at(p);
        for (int64_t k = 0; k < n_classes; ++k) slopes[k] += x * w[k];
    }
    double highest = -std::numeric_limits<double>::infinity(), second = highest, lowest = -highest, product = 0;
    int64_t top = 0, n_free = 0;
    for (int64_t k = 0; k < n_classes; ++k) {
        if (slopes[k] > highest) {
            second = highest;
            highest = slopes[k];
            top = k;
        } else {
            second = std::max(second, slopes[k]);
        }
        if (dual[k] < (k == own ? nearly * price : 0.0)) lowest = std::min(lowest, slopes[k]);
        n_free += dual[k] != 0;
        product += dual[k] * slopes[k];
    }
    // At the optimum no slope exceeds one of a coefficient that can rise. All of the price is the highest's, or nothing.
    const bool whole = top == own ? n_free == 0 : n_free == 2 && dual[top] <= -nearly * price;
    if (whole && highest - second > pass.slack) {
        pass.active[i] = 0;
        return;
    }
    pass.gap += std::max(price * (highest - slopes[own]) + product, 0.0);
    if (highest <= lowest) return;
    pass.largest = std::max(pass.largest, highest - lowest);
    if (square == 0) {  // No step changes a slope: all of the price is the highest's.
        for (int64_t k = 0; k < n_classes; ++k) dual[k] = k == own ? price : k == top ? -price : 0;
        return;
    }
    minimise_classes(scratch, dual, square, price, own);
    for (int64_t k = 0; k < n_classes; ++k) std::swap(scratch.to[k], dual[k]), scratch.to[k] = dual[k] - scratch.to[k];
    for (int64_t p = first; p < last; ++p) {
        const double x = double(rows.values[p]);
        double* const w = at(p);
        for (int64_t k = 0; k < n_classes; ++k) w[k] += x * scratch.to[k];
    }
}

template <class T> void descend_classes(ClassPass<T>& pass) {
    ClassScratch scratch(pass.n_classes);
    for (int64_t b = 0; b < pass.n_blocks; ++b) {
        const int64_t first = pass.blocks[b] * pass.rows_per_block, last = std::min(first + pass.rows_per_block, pass.n);
        for (int64_t i = first; i < last; ++i)
            if (pass.active[i]) visit_classes(pass, i, scratch);
    }
}

template <class T>
void add_squares(const RowsView<T>& rows, const double* coefficients, int64_t n, bool intercept, double* matrix) {
    const int64_t d = rows.n_features, width = d + intercept;
    for (int64_t i = 0; i < n; ++i) {
        if (coefficients[i] == 0) continue;
        const int64_t first = rows.offsets[i], last = rows.offsets[i + 1];
        for (int64_t p = first; p < last; ++p) {
            const double times = coefficients[i] * double(rows.values[p]);
            double* const to = matrix + int64_t(rows.columns[p]) * width;
            for (int64_t r = first; r <= p; ++r) to[rows.columns[r]] += times * double(rows.values[r]);
            if (intercept) matrix[d * width + rows.columns[p]] += times;
        }
        if (intercept) matrix[d * width + d] += coefficients[i];
    }
}

}  // namespace

extern const LinearTable linear = {respond,         svrg<float>,        svrg<double>,       descend<float>,
                                   descend<double>, descend_classes<float>, descend_classes<double>,
                                   add_squares<float>, add_squares<double>};

}  // namespace DIMARGIN_ARCH
}  // namespace dimargin
