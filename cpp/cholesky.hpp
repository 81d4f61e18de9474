// Linear systems of the Newton steps of a block: (K + diag(curvature)) x = rhs on its free rows, in place, by Cholesky
// factorisation.
#pragma once
#include <stdint.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "block_solver.hpp"

namespace dimargin {

// Single precision needs at least this curvature, relative to the diagonal of the kernel matrix.
constexpr double min_curvature_single = 1e-3;
// The first ridge, relative to the diagonal. The hinge has no curvature, and duplicate rows make the matrix singular.
constexpr double min_ridge = 1e-12;

// Solves in single precision, in half the time. This suffices for a step that is cut or followed by a line search, if the
// curvature keeps the matrix far from singular. Otherwise returns false, with `rhs` unchanged.
template <class Curvature>
bool solve_free_single(const double* gram, int64_t n, const std::vector<int64_t>& free, Curvature&& curvature,
                       std::vector<double>& rhs) {
    int m = int(free.size()), columns = int(rhs.size()) / m, info = 0;
    for (int c = 0; c < m; ++c)
        if (curvature(c) < min_curvature_single * gram[free[c] * n + free[c]]) return false;
    std::vector<float> h(size_t(m) * m);
    for (int c = 0; c < m; ++c) {
        const double* row = gram + free[c] * n;
        float* column = h.data() + size_t(c) * m;
        for (int r = c; r < m; ++r) column[r] = float(row[free[r]]);
        column[c] += float(curvature(c));
    }
    char uplo = 'L';
    lapack.spotrf(&uplo, &m, h.data(), &m, &info);
    if (info != 0) return false;
    std::vector<float> x(rhs.begin(), rhs.end());
    lapack.spotrs(&uplo, &m, &columns, h.data(), &m, x.data(), &m, &info);
    for (float value : x)
        if (!std::isfinite(value)) return false;
    rhs.assign(x.begin(), x.end());
    return info == 0;
}

// Solves for one or more right-hand sides, in double precision unless `single` is allowed and suffices. A matrix that is
// numerically singular gets a ridge.
template <class Curvature>
bool solve_free(const double* gram, int64_t n, const std::vector<int64_t>& free, Curvature&& curvature,
                std::vector<double>& rhs, bool single) {
    int m = int(free.size()), info = 0;
    if (m == 0) return true;
    int columns = int(rhs.size()) / m;
    if (single && solve_free_single(gram, n, free, curvature, rhs)) return true;
    std::vector<double> h(size_t(m) * m);
    char uplo = 'L';
    for (double ridge = min_ridge; ridge < 1.0; ridge *= 100) {
        for (int c = 0; c < m; ++c) {
            const double* row = gram + free[c] * n;
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

}  // namespace dimargin
