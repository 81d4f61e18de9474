// Kernel values of sparse rows. Like panels.hpp, this file is internal to tile.cpp's object files.
#pragma once
#include "sink.hpp"
#include "sparse_panels.hpp"
#include "threads.hpp"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

namespace dimargin {
namespace DIMARGIN_ARCH {
namespace {

constexpr int sparse_group = 16;               // The kernel values of so many rows with a panel go to the sink together.
constexpr int64_t sparse_rows_per_turn = 512;  // A turn has at most so many rows.
constexpr int64_t sparse_turns_per_thread = 8;

// The rows of a turn, and their features that occur in a batch. `common` may write one term behind the last.
template <class T> struct SparseTurn {
    const Terms<T> terms;
    int64_t first, end, ends[sparse_rows_per_turn][sparse_parts], begins[sparse_rows_per_turn + 1];

    explicit SparseTurn(int64_t max_terms)
        : terms{(T*)aligned<T>(max_terms + 1), (int32_t*)aligned<int32_t>(max_terms + 1)} {}
    SparseTurn(const SparseTurn&) = delete;
    ~SparseTurn() {
        free(terms.values);
        free(terms.slots);
    }
    bool complete() const { return terms.values && terms.slots; }

    void take(const RowsView<T>& x, int64_t first_row, int64_t end_row, const SparseBatch<T>& batch) {
        first = first_row;
        end = end_row;
        begins[0] = 0;
        for (int64_t i = 0; i < end - first; ++i)
            begins[i + 1] = begins[i] + common<T>(x, x.index[first + i], batch, of(i), ends[i]);
    }
    Terms<T> of(int64_t i) const { return {terms.values + begins[i], terms.slots + begins[i]}; }
};

// The destination of kernel values of sparse rows.
template <class T> struct SparseSink {
    Sink<T> products;
    T* values;                          // nullptr if products are computed
    const int64_t* places;              // positions of the tile's columns, which may be rows of the output
    int64_t column_stride, row_stride;  // strides of the tile's columns and rows in the output
};

template <class T>
void store(const T* buffer, const SparseSink<T>& to, const SparsePanel<T>& panel, int64_t first_row, int rows) {
    constexpr int W = sparse_width<T>();
    for (int64_t c = 0; c < panel.n_columns; ++c) {
        T* const column = to.values + to.places[panel.first + c] * to.column_stride + first_row * to.row_stride;
        for (int r = 0; r < rows; ++r) column[r * to.row_stride] = buffer[r * W + c];
    }
}

// Computes the kernel values of the rows of a turn with the columns of a panel, which fill at most V vectors.
template <Sum S, Family F, int V, class T>
void sparse_rows(const KernelSpec& k, const RowsView<T>& x, const SparseTurn<T>& turn, const SparsePanel<T>& panel,
                 const SparseSink<T>& sink, const T* coefficients, const T* sums) {
    constexpr int W = sparse_width<T>(), L = lanes<T>(), R = 4;
    const T lowest = lowest_exponent<T>(k);
    const Strip only{{0}, 1};
    const Sink<T> products = sink.products;
    for (int64_t group = turn.first; group < turn.end; group += sparse_group) {
        alignas(64) T buffer[sparse_group * W];
        const int rows = int(turn.end - group < sparse_group ? turn.end - group : sparse_group);
        for (int r = 0; r < rows; ++r) {
            const int64_t i = group + r - turn.first, row = x.index[group + r];
            const Terms<T> terms = turn.of(i);
            const int64_t n_terms = turn.begins[i + 1] - turn.begins[i];
            Vec<T> sum[V];
            clear(sum);
            if (sums) count<V, T>(terms, n_terms, panel, sums, sum);
            else if (panel.many && x.length(row) > longest_chain) gather_parts<S, V, T>(terms, turn.ends[i], panel, sum);
            else gather<S, V, T>(terms, 0, n_terms, panel, sum);
            const T norm = x.norms ? x.norms[row] : T(0);
#pragma GCC unroll 4
            for (int v = 0; v < V; ++v)
                *(Vec<T>*)(buffer + r * W + v * L) =
                    kernel_value<S, F, T>(k, lowest, sum[v], norm, *(const Vec<T>*)(panel.norms + v * L));
        }
        if (sink.values) {
            store<T>(buffer, sink, panel, group, rows);
            continue;
        }
        for (int r = rows; r % R; ++r) memset(buffer + r * W, 0, V * L * sizeof(T));
        for (int r = 0; r < rows; r += R)
            multiply_strip<R, V * L, T>(buffer + r * W, W, only, coefficients, products.n_outputs, rows - r < R ? rows - r : R,
                                        products.products + group + r, products.x_size);
    }
}

template <Sum S, Family F, class T>
void sparse_rows(const KernelSpec& k, const RowsView<T>& x, const SparseTurn<T>& turn, const SparsePanel<T>& panel,
                 const SparseSink<T>& sink, const T* coefficients, const T* sums) {
    if (panel.n_columns <= lanes<T>()) sparse_rows<S, F, 1, T>(k, x, turn, panel, sink, coefficients, sums);
    else if (panel.n_columns <= 2 * lanes<T>()) sparse_rows<S, F, 2, T>(k, x, turn, panel, sink, coefficients, sums);
    else sparse_rows<S, F, sparse_vectors, T>(k, x, turn, panel, sink, coefficients, sums);
}

// The distribution of rows to threads, on which the result does not depend.
template <class T> struct SparseTurns {
    int64_t height, count, max_terms = 1;

    SparseTurns(const RowsView<T>& x, int n_threads) {
        const int64_t wanted = x.size / (sparse_turns_per_thread * n_threads), most = sparse_rows_per_turn;
        height = (wanted < 64 ? 64 : (wanted > most ? most : wanted)) / sparse_group * sparse_group;
        count = (x.size + height - 1) / height;
        for (int64_t turn = 0; turn < count; ++turn) {
            int64_t terms = 0;
            for (int64_t i = turn * height; i < end(turn, x); ++i) terms += x.length(x.index[i]);
            max_terms = terms > max_terms ? terms : max_terms;
        }
    }
    int64_t end(int64_t turn, const RowsView<T>& x) const {
        return x.size - turn * height < height ? x.size : (turn + 1) * height;
    }
};

template <class T> int64_t longest(const RowsView<T>& rows) {
    int64_t most = 0;
    for (int64_t i = 0; i < rows.size; ++i) most = rows.length(rows.index[i]) > most ? rows.length(rows.index[i]) : most;
    return most;
}

// Processes the columns batch by batch: threads fill the panels of a batch, and then take rows.
template <Sum S, Family F, class T>
int64_t sparse_panels(const KernelSpec& k, const RowsView<T>& x, const RowsView<T>& z, const SparseSink<T>& sink,
                      const double* coefficients, int n_threads) {
    constexpr int W = sparse_width<T>();
    const bool ones = can_count<T> && x.constant != 0 && x.constant == z.constant &&
                      (longest(x) <= longest_chain || longest(z) <= longest_chain);
    T sums[longest_chain + 1];
    sums_of_equal<S, T>(x.constant, sums);

    const SparseTurns<T> turns(x, n_threads);
    SparseBatch<T> batch(z, ones);
    const int64_t n_outputs = sink.products.n_outputs, n_panels = (z.size + W - 1) / W + 1;
    T* const packed = (T*)aligned<T>((n_panels < max_panels ? n_panels : max_panels) * W * n_outputs);
    int64_t failed = !packed;
    for (int64_t first = 0; !failed && first < z.size;) {
        if (!batch.take()) {
            failed = 1;
            break;
        }
        Turns to_fill(batch.n), to_take(turns.count);
        in_parallel(n_threads < batch.n ? n_threads : batch.n, [&] {
            for (int64_t i; (i = to_fill.take()) >= 0;) {
                const SparsePanel<T>& panel = batch.panels[i];
                batch.fill(batch.panels[i]);
                if (coefficients)
                    pack_coefficients<T>(coefficients, n_outputs, z.size, panel.first, panel.n_columns, W,
                                         packed + i * W * n_outputs);
            }
        });
        in_parallel(n_threads, [&] {
            SparseTurn<T> turn(turns.max_terms);
            for (int64_t i; turn.complete() && (i = to_take.take()) >= 0;) {
                turn.take(x, i * turns.height, turns.end(i, x), batch);
                for (int p = 0; p < batch.n; ++p)
                    sparse_rows<S, F, T>(k, x, turn, batch.panels[p], sink,
                                         coefficients ? packed + p * W * n_outputs : nullptr, ones ? sums : nullptr);
            }
            if (!turn.complete()) add(failed, 1);
        });
        const SparsePanel<T>& last = batch.panels[batch.n - 1];
        first = last.first + last.n_columns;
    }
    free(packed);
    return failed ? no_memory : x.size * z.size;
}

// A reordered view of rows, in which rows with many features come last, with their positions in the original.
template <class T> class Sorted {
public:
    explicit Sorted(const RowsView<T>& rows)
        : rows(rows), places((int64_t*)malloc(size_t(rows.size) * sizeof(int64_t))),
          index((int64_t*)malloc(size_t(rows.size) * sizeof(int64_t))) {
        if (!complete()) return;
        int64_t to = 0;
        for (int many = 0; many < 2; ++many)
            for (int64_t i = 0; i < rows.size; ++i)
                if ((rows.length(rows.index[i]) > longest_chain) == bool(many)) places[to++] = i;
        for (int64_t i = 0; i < rows.size; ++i) index[i] = rows.index[places[i]];
        this->rows.index = index;
    }
    Sorted(const Sorted&) = delete;
    ~Sorted() {
        free(places);
        free(index);
    }
    bool complete() const { return places && index; }

    RowsView<T> rows;
    int64_t* const places;

private:
    int64_t* const index;
};

// Columns with many features come last. If kernel values are stored, the smaller side makes the panels, because filling
// panels costs more than reading rows.
template <Sum S, Family F, class T>
int64_t sparse(const KernelSpec& k, const RowsView<T>& x, const RowsView<T>& z, const Sink<T>& whole,
               const double* coefficients, int n_threads) {
    if (!x.size || !z.size) return 0;
    const bool swapped = !coefficients && x.size <= z.size;
    const Sorted<T> sorted(swapped ? x : z);
    if (!sorted.complete()) return no_memory;
    const SparseSink<T> sink = {whole, whole.values, sorted.places, swapped ? z.size : 1, swapped ? 1 : z.size};
    if (!coefficients) return sparse_panels<S, F, T>(k, swapped ? z : x, sorted.rows, sink, nullptr, n_threads);
    double* const moved = (double*)malloc(size_t(z.size * whole.n_outputs) * sizeof(double));
    if (!moved) return no_memory;
    for (int64_t q = 0; q < whole.n_outputs; ++q)
        for (int64_t c = 0; c < z.size; ++c) moved[q * z.size + c] = coefficients[q * z.size + sorted.places[c]];
    const int64_t computed = sparse_panels<S, F, T>(k, x, sorted.rows, sink, moved, n_threads);
    free(moved);
    return computed;
}

}  // namespace
}  // namespace DIMARGIN_ARCH
}  // namespace dimargin
