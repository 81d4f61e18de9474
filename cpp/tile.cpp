// Fused kernel tiles. This file is compiled once per instruction set (DIMARGIN_ARCH). It may include only freestanding
// headers, because an inline library function compiled here for AVX-512 could replace the common one at link time.
// (Intrinsics are always inlined, and leave no copy.)
#include "tile.hpp"

#include "panels.hpp"
#include "sink.hpp"
#include "sparse_tile.hpp"
#include "threads.hpp"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

namespace dimargin {
namespace DIMARGIN_ARCH {
namespace {

// Computes sums over the features from `f` to `end`, for one panel.
template <Sum S, class T>
INLINE void partial_sums(const T* const* x, const T* z, int64_t f, int64_t end, Vec<T> (&sum)[tile_rows][panel_vectors]) {
    constexpr int V = panel_vectors;
#pragma GCC unroll 8
    for (int r = 0; r < tile_rows; ++r)
#pragma GCC unroll 4
        for (int v = 0; v < V; ++v) sum[r][v] = Vec<T>{};
    for (; f < end; ++f) {
        Vec<T> column[V];
#pragma GCC unroll 4
        for (int v = 0; v < V; ++v) column[v] = ((const Vec<T>*)(z + f * panel_width<T>()))[v];
#pragma GCC unroll 8
        for (int r = 0; r < tile_rows; ++r) {
            const T value = x[r][f];
#pragma GCC unroll 4
            for (int v = 0; v < V; ++v) sum[r][v] = accumulate<S, T>(sum[r][v], value, column[v]);
        }
    }
}

// Computes the kernel values of tile_rows rows with the columns of the panels of a strip, into buffer[tile_rows][padded].
template <Sum S, Family F, class T>
void fill(const KernelSpec& k, T lowest, const T* const* x, const T* x_norms, const Panels<T>& panels, const Strip& strip,
          int64_t d, T* buffer) {
    constexpr int L = lanes<T>(), R = tile_rows, V = panel_vectors;
    const int64_t step = features_per_sum(d);
    for (int panel = 0; panel < strip.n_panels; ++panel) {
        const int64_t c = strip.columns[panel];
        const T* z = panels.values + c * d;
        Vec<T> sum[R][V];
        partial_sums<S, T>(x, z, 0, step < d ? step : d, sum);
        for (int64_t f = step; f < d; f += step) {
            Vec<T> part[R][V];
            partial_sums<S, T>(x, z, f, f + step < d ? f + step : d, part);
#pragma GCC unroll 8
            for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
                for (int v = 0; v < V; ++v) sum[r][v] = sum[r][v] + part[r][v];
        }
        Vec<T> norms[V];
#pragma GCC unroll 4
        for (int v = 0; v < V; ++v) norms[v] = *(const Vec<T>*)(panels.norms + c + v * L);
        const auto at = [&](int r, int v) { return (Vec<T>*)(buffer + r * panels.padded + c + v * L); };
        if constexpr (neon && F != Family::linear) {
            // The values are computed row by row, because there are too few registers for all sums and the constants.
#pragma GCC unroll 8
            for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
                for (int v = 0; v < V; ++v) *at(r, v) = sum[r][v];
#pragma GCC unroll 1
            for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
                for (int v = 0; v < V; ++v) *at(r, v) = kernel_value<S, F, T>(k, lowest, *at(r, v), x_norms[r], norms[v]);
        } else {
#pragma GCC unroll 8
            for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
                for (int v = 0; v < V; ++v)
                    *at(r, v) = kernel_value<S, F, T>(k, lowest, sum[r][v], x_norms[r], norms[v]);
        }
    }
}

constexpr int64_t turns_per_thread = 8;  // With at least so many pieces, the last ones do not keep threads waiting.
constexpr int max_groups = 16;           // A piece has at most so many groups of tile_rows rows: half a millisecond.

// Columns packed for the tile, and the destination of their kernel values.
template <class T> struct Chunk {
    Panels<T> panels;
    Sink<T> sink;
};

// Memory for several consecutive chunks of columns.
template <class T> class Packing {
public:
    Packing(const RowsView<T>& z, const Sink<T>& whole, const double* coefficients, bool boxes, int64_t width, int64_t n)
        : z(z), whole(whole), coefficients(coefficients), width(width), panels{
              (T*)aligned<T>(n * width * z.n_features), (T*)aligned<T>(n * width),
              boxes ? (T*)aligned<T>(n * boxes_size()) : nullptr, 0, 0},
          packed((T*)aligned<T>(n * width * whole.n_outputs)), chunks((Chunk<T>*)malloc(size_t(n) * sizeof(Chunk<T>))),
          complete(panels.values && panels.norms && (panels.boxes || !boxes) && packed && chunks) {}
    Packing(const Packing&) = delete;
    ~Packing() {
        free(panels.values);
        free(panels.norms);
        free(panels.boxes);
        free(packed);
        free(chunks);
    }

    // Packs up to `n` chunks, and returns their number.
    int pack(int64_t first_chunk, int64_t n) {
        int count = 0;
        for (int64_t first = first_chunk * width; count < n && first < z.size; first += width, ++count) {
            Chunk<T>& chunk = chunks[count];
            chunk = {{panels.values + count * width * z.n_features, panels.norms + count * width,
                      panels.boxes ? panels.boxes + count * boxes_size() : nullptr, 0, 0}, whole};
            chunk.sink.first_column = first;
            chunk.sink.n_columns = z.size - first < width ? z.size - first : width;
            dimargin::DIMARGIN_ARCH::pack<T>(z, first, chunk.sink.n_columns, chunk.panels);
            if (coefficients) {
                T* const to = packed + count * width * whole.n_outputs;
                pack_coefficients<T>(coefficients, whole.n_outputs, z.size, first, chunk.sink.n_columns,
                                     chunk.panels.padded, to);
                chunk.sink.coefficients = to;
            }
        }
        return count;
    }

private:
    int64_t boxes_size() const { return width / panel_width<T>() * 2 * box_side<T>(z.n_features); }

    const RowsView<T>& z;
    const Sink<T>& whole;
    const double* coefficients;
    const int64_t width;
    Panels<T> panels;  // of all chunks
    T* packed;

public:
    Chunk<T>* const chunks;
    const bool complete;
};

// Computes the kernel values of the rows from `first` up to `end` with a chunk of columns. With boxes, panels that are too
// far from many rows are not checked again for the few rows of a tile.
template <Sum S, Family F, class T>
int64_t dense_rows(const KernelSpec& k, const RowsView<T>& x, int64_t first, int64_t end, const Chunk<T>& chunk, T* box) {
    constexpr int W = panel_width<T>(), many = max_groups * tile_rows;
    const Panels<T> panels = chunk.panels;  // Copies stay in registers.
    const Sink<T> sink = chunk.sink;
    const int64_t d = x.n_features;
    const T lowest = lowest_exponent<T>(k);
    alignas(64) T buffer[tile_rows * chunk_columns];
    Strip all, near_many, near_few;
    take_all(panels, all);
    const Strip& near = panels.boxes ? near_few : all;
    int64_t computed = 0;
    for (int64_t begin = first; begin < end; begin += many) {
        const int count = int(end - begin < many ? end - begin : many);
        const T* pointers[many];
        for (int r = 0; r < many; ++r) pointers[r] = x.values + x.index[begin + (r < count ? r : count - 1)] * d;
        if (panels.boxes) find_near<S, T>(pointers, count, panels, all, d, lowest, box, near_many);
        if (panels.boxes && !near_many.n_panels && !sink.values) continue;
        for (int group = 0; group < count; group += tile_rows) {
            const int rows = count - group < tile_rows ? count - group : tile_rows;
            const T* const* const few = pointers + group;
            T norms[tile_rows];
            for (int r = 0; r < tile_rows; ++r)
                norms[r] = x.norms ? x.norms[x.index[begin + group + (r < rows ? r : rows - 1)]] : T(0);
            if (panels.boxes) find_near<S, T>(few, rows, panels, near_many, d, lowest, box, near_few);
            if (sink.values && near.n_panels * W < panels.padded) memset(buffer, 0, sizeof buffer);
            if (!near.n_panels && !sink.values) continue;
            fill<S, F, T>(k, lowest, few, norms, panels, near, d, buffer);
            drain<tile_rows, W, T>(sink, buffer, panels.padded, near, begin + group, rows);
            const bool last = near.n_panels && near.columns[near.n_panels - 1] + W == panels.padded;
            computed += rows * (near.n_panels * W - (last ? panels.padded - panels.n_columns : 0));
        }
    }
    return computed;
}

template <Sum S, Family F, class T>
int64_t dense(const KernelSpec& k, const RowsView<T>& x, const RowsView<T>& z, const Sink<T>& whole,
              const double* coefficients, int n_threads) {
    constexpr int W = panel_width<T>();
    const int64_t d = z.n_features > 0 ? z.n_features : 1, fitting = panel_budget / (int64_t(sizeof(T)) * d) / W * W;
    const int64_t width = fitting < W ? W : (fitting > chunk_columns ? chunk_columns : fitting);
    const int64_t n_chunks = (z.size + width - 1) / width;
    if (!n_chunks) return 0;
    const bool boxes = (F == Family::rbf || F == Family::laplacian) && k.lowest > KernelSpec::none;
    int64_t computed = 0, failed = 0;
    const auto box = [&] { return boxes ? (T*)aligned<T>(2 * box_side<T>(d)) : nullptr; };

    // To store the values of few rows and many columns, threads take chunks of columns, and each packs its own.
    if (n_threads > 1 && !coefficients && x.size < z.size && n_chunks >= n_threads) {
        Turns turns(n_chunks);
        in_parallel(n_threads, [&] {
            Packing<T> packing(z, whole, coefficients, boxes, width, 1);
            T* const around = box();
            const bool complete = packing.complete && (around || !boxes);
            for (int64_t piece; complete && (piece = turns.take()) >= 0;) {
                packing.pack(piece, 1);
                add(computed, dense_rows<S, F, T>(k, x, 0, x.size, packing.chunks[0], around));
            }
            free(around);
            if (!complete) add(failed, 1);
        });
        return failed ? no_memory : computed;
    }

    // As many chunks as fit into the budget are packed together, because threads wait for each other before the next ones.
    const int64_t budgeted = panel_budget / (int64_t(sizeof(T)) * (d + whole.n_outputs) * width);
    const int64_t n_packed = budgeted < 1 ? 1 : (budgeted < n_chunks ? budgeted : n_chunks);
    Packing<T> packing(z, whole, coefficients, boxes, width, n_packed);
    if (!packing.complete) return no_memory;
    const int64_t groups = x.size / (turns_per_thread * n_threads * tile_rows);
    const int64_t height = tile_rows * (groups < 1 ? 1 : (groups > max_groups ? max_groups : groups));
    for (int64_t begin = 0; !failed && begin < n_chunks; begin += n_packed) {
        const int count = packing.pack(begin, n_packed);
        Turns turns((x.size + height - 1) / height);
        in_parallel(n_threads, [&] {
            T* const around = box();
            for (int64_t piece; (around || !boxes) && (piece = turns.take()) >= 0;) {
                const int64_t first = piece * height, end = x.size - first < height ? x.size : first + height;
                for (int chunk = 0; chunk < count; ++chunk)
                    add(computed, dense_rows<S, F, T>(k, x, first, end, packing.chunks[chunk], around));
            }
            if (boxes && !around) add(failed, 1);
            free(around);
        });
    }
    return failed ? no_memory : computed;
}

template <Family F, class T>
int64_t products(const KernelSpec& k, const RowsView<T>& x, const RowsView<T>& z, const Sink<T>& sink,
                 const double* coefficients, int n_threads) {
    if (x.offsets) return sparse<Sum::product, F, T>(k, x, z, sink, coefficients, n_threads);
    return dense<Sum::product, F, T>(k, x, z, sink, coefficients, n_threads);
}

template <class T>
int64_t run(const KernelSpec& k, const RowsView<T>& x, const RowsView<T>& z, const Sink<T>& sink,
            const double* coefficients, int n_threads) {
    switch (k.family) {
        case Family::rbf:
            if (k.difference && !x.offsets)
                return dense<Sum::squared_difference, Family::rbf, T>(k, x, z, sink, coefficients, n_threads);
            return products<Family::rbf, T>(k, x, z, sink, coefficients, n_threads);
        case Family::laplacian:
            if (x.offsets)
                return sparse<Sum::absolute_overlap, Family::laplacian, T>(k, x, z, sink, coefficients, n_threads);
            return dense<Sum::absolute_difference, Family::laplacian, T>(k, x, z, sink, coefficients, n_threads);
        case Family::polynomial: return products<Family::polynomial, T>(k, x, z, sink, coefficients, n_threads);
        default: return products<Family::linear, T>(k, x, z, sink, coefficients, n_threads);
    }
}

template <class T>
int64_t multiply(const KernelSpec& k, const RowsView<T>& x, const RowsView<T>& z, const double* coefficients,
                 int64_t n_outputs, double* out, int n_threads) {
    return run<T>(k, x, z, Sink<T>{nullptr, n_outputs, out, nullptr, 0, 0, x.size, z.size}, coefficients, n_threads);
}

template <class T>
int64_t block(const KernelSpec& k, const RowsView<T>& x, const RowsView<T>& z, T* out, int n_threads) {
    return run<T>(k, x, z, Sink<T>{nullptr, 0, nullptr, out, 0, 0, x.size, z.size}, nullptr, n_threads);
}

constexpr int64_t combined_columns = 2048;  // The sums of so many columns stay in the first-level cache.
constexpr int rows_at_once = 4;

// sums[c] += sum_r rows[r][c] coefficients[r], for whole vectors only
template <class T> void add_rows(const T* const* rows, const T* coefficients, int64_t count, T* sums) {
    typedef T loose __attribute__((vector_size(vector_bytes), aligned(sizeof(T)), may_alias));
    for (int64_t c = 0; c < count; c += lanes<T>()) {
        Vec<T> sum = *(const Vec<T>*)(sums + c);
#pragma GCC unroll 8
        for (int r = 0; r < rows_at_once; ++r) sum = sum + (Vec<T>)*(const loose*)(rows[r] + c) * coefficients[r];
        *(Vec<T>*)(sums + c) = sum;
    }
}

template <class T>
void combine_columns(const T* values, int64_t width, int64_t first, int64_t count, const int64_t* slots, int64_t n_slots,
                     const double* coefficients, double* out) {
    alignas(64) T sums[combined_columns];
    const int64_t whole = count / lanes<T>() * lanes<T>();
    for (int64_t begin = 0; begin < n_slots; begin += longest_combination) {
        const int64_t end = n_slots - begin > longest_combination ? begin + longest_combination : n_slots;
        memset(sums, 0, size_t(count) * sizeof(T));
        for (int64_t j = begin; j < end; j += rows_at_once) {
            const T* rows[rows_at_once];
            T factors[rows_at_once];
            for (int r = 0; r < rows_at_once; ++r) {
                const bool real = j + r < end;
                rows[r] = values + slots[real ? j + r : j] * width + first;
                factors[r] = real ? T(coefficients[j + r]) : T(0);
            }
            add_rows<T>(rows, factors, whole, sums);
            for (int64_t c = whole; c < count; ++c)
                for (int r = 0; r < rows_at_once; ++r) sums[c] += rows[r][c] * factors[r];
        }
        for (int64_t c = 0; c < count; ++c) out[first + c] += double(sums[c]);
    }
}

template <class T>
void combine(const T* values, int64_t width, const int64_t* slots, int64_t n_slots, const double* coefficients,
             int64_t n_outputs, double* out, int n_threads) {
    Turns turns((width + combined_columns - 1) / combined_columns);
    in_parallel(n_threads, [&] {
        for (int64_t piece; (piece = turns.take()) >= 0;) {
            const int64_t first = piece * combined_columns;
            const int64_t count = width - first < combined_columns ? width - first : combined_columns;
            for (int64_t q = 0; q < n_outputs; ++q)
                combine_columns<T>(values, width, first, count, slots, n_slots, coefficients + q * n_slots,
                                   out + q * width);
        }
    });
}

// The norm of a row, summed in the order in which a tile sums its products, so that k(x, x) is exactly one.
template <class T> T norm(const RowsView<T>& x, int64_t row, bool absolute) {
    const int64_t begin = x.offsets ? x.offsets[row] : row * x.n_features;
    const int64_t end = x.offsets ? x.offsets[row + 1] : begin + x.n_features, per_sum = features_per_sum(x.n_features);
    const bool chain = x.offsets && end - begin <= longest_chain;
    T sum = 0;
    int64_t part_end = 0;
    for (int64_t p = begin; p < end;) {
        if (!x.offsets) part_end += per_sum;
        else part_end = chain ? x.n_features : part_end + columns_per_part(x.n_features);
        T part = 0;
        for (; p < end && (x.offsets ? x.columns[p] : p - begin) < part_end; ++p) {
            const T size = x.values[p] < 0 ? -x.values[p] : x.values[p];
            part = absolute ? part + size : multiply_add(size, size, part);
        }
        sum = sum + part;
    }
    return absolute ? sum : sum * T(0.5);
}

template <class T> void norms(const RowsView<T>& x, bool absolute, T* out) {
    for (int64_t i = 0; i < x.size; ++i) out[i] = norm<T>(x, x.index[i], absolute);
}

}  // namespace

extern const TileTable<float> table_float = {multiply<float>, block<float>, norms<float>, combine<float>, lanes<float>()};
extern const TileTable<double> table_double = {multiply<double>, block<double>, norms<double>, combine<double>, lanes<double>()};

}  // namespace DIMARGIN_ARCH
}  // namespace dimargin
