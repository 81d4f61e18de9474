#include "tiled_cholesky.hpp"

#include <algorithm>

#include "block_solver.hpp"
#include "threads.hpp"

namespace dimargin {

template <> Blas<float> blas<float>{};
template <> Blas<double> blas<double>{};

namespace {

constexpr int64_t right_sides_per_piece = 64;

void factor_tile(char* uplo, int* n, float* a, int* stride, int* info) { lapack.spotrf(uplo, n, a, stride, info); }
void factor_tile(char* uplo, int* n, double* a, int* stride, int* info) { lapack.dpotrf(uplo, n, a, stride, info); }

// Tiles are stored by rows, and BLAS reads matrices by columns. It sees the transposes, in which lower triangles are
// upper ones.
template <class T> struct Tiles {
    T* a;
    int64_t n;
    int stride;

    T* at(int64_t row, int64_t column) const { return a + row * tile_width * n + column * tile_width; }
    int width(int64_t tile) const { return int(std::min(tile_width, n - tile * tile_width)); }

    bool factor(int64_t k) const {
        char upper = 'U';
        int size = width(k), step = stride, info = 0;
        factor_tile(&upper, &size, at(k, k), &step, &info);
        return info == 0;
    }

    void solve(int64_t i, int64_t k) const {
        char left = 'L', upper = 'U', transposed = 'T', general = 'N';
        int rows = width(k), columns = width(i), step = stride;
        T one = 1;
        blas<T>.trsm(&left, &upper, &transposed, &general, &rows, &columns, &one, at(k, k), &step, at(i, k), &step);
    }

    void update(int64_t i, int64_t j, int64_t k) const {
        char upper = 'U', transposed = 'T', general = 'N';
        int rows = width(j), columns = width(i), depth = width(k), step = stride;
        T minus = -1, one = 1;
        if (i == j)
            blas<T>.syrk(&upper, &transposed, &columns, &depth, &minus, at(i, k), &step, &one, at(i, i), &step);
        else
            blas<T>.gemm(&transposed, &general, &rows, &columns, &depth, &minus, at(j, k), &step, at(i, k), &step, &one,
                         at(i, j), &step);
    }
};

}  // namespace

template <class T> bool factor_columns(T* a, int64_t n, int64_t begin, int64_t end, int n_threads) {
    const Tiles<T> tiles{a, n, int(n)};
    const int64_t count = (n + tile_width - 1) / tile_width;
    for (int64_t k = begin / tile_width; begin < end && k * tile_width < end; ++k) {
        if (!tiles.factor(k)) return false;
        Turns below(count - k - 1), rows(count - k - 1);
        in_parallel(n_threads, [&] {
            for (int64_t i; (i = below.take()) >= 0;) tiles.solve(k + 1 + i, k);
        });
        in_parallel(n_threads, [&] {
            for (int64_t i; (i = rows.take()) >= 0;)  // The longest rows are taken first.
                for (int64_t row = count - 1 - i, j = k + 1; j <= row; ++j) tiles.update(row, j, k);
        });
    }
    return true;
}

template <class T>
void solve_triangle(const T* factor, int64_t n, T* right, int64_t count, bool transposed, int n_threads) {
    const int64_t parts = (count + right_sides_per_piece - 1) / right_sides_per_piece;
    Turns turns(parts);
    in_parallel(int(std::min<int64_t>(n_threads, parts)), [&] {
        for (int64_t part; (part = turns.take()) >= 0;) {
            char left = 'L', upper = 'U', trans = transposed ? 'N' : 'T', general = 'N';
            int rows = int(n), columns = int(std::min(right_sides_per_piece, count - part * right_sides_per_piece));
            T one = 1;
            blas<T>.trsm(&left, &upper, &trans, &general, &rows, &columns, &one, const_cast<T*>(factor), &rows,
                         right + part * right_sides_per_piece * n, &rows);
        }
    });
}

template bool factor_columns(float*, int64_t, int64_t, int64_t, int);
template bool factor_columns(double*, int64_t, int64_t, int64_t, int);
template void solve_triangle(const float*, int64_t, float*, int64_t, bool, int);
template void solve_triangle(const double*, int64_t, double*, int64_t, bool, int);

}  // namespace dimargin
