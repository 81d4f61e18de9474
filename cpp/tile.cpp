// Fused kernel tiles. Compiled once per instruction set (DIMARGIN_ARCH); only freestanding headers may be included,
// because an inline library function compiled here for AVX-512 could replace the common one at link time (intrinsics are
// always inlined, and leave no copy behind).
#include "tile.hpp"

#include "panels.hpp"
#include "sparse_panels.hpp"
#include "threads.hpp"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

namespace dimargin {
namespace DIMARGIN_ARCH {
namespace {

// The family is known when this is compiled: a choice among registers that are in use is slow.
template <Sum S, Family F, class T>
INLINE Vec<T> kernel_value(const KernelSpec& k, T lowest, Vec<T> sum, T x_norm, Vec<T> z_norm) {
    if constexpr (F == Family::rbf && S == Sum::squared_difference) return exp2_nonpositive<T>(sum * T(-0.5), lowest);
    if constexpr (F == Family::rbf) return exp2_nonpositive<T>(sum - (z_norm + x_norm), lowest);
    if constexpr (S == Sum::absolute_overlap) return exp2_nonpositive<T>(-((z_norm + x_norm) + sum), lowest);
    if constexpr (F == Family::laplacian) return exp2_nonpositive<T>(-sum, lowest);
    if constexpr (F == Family::linear) return sum;
    const Vec<T> base = sum + T(k.coef0);
    Vec<T> power = base;
    for (int i = 1; i < k.degree; ++i) power = power * base;
    return power;
}

// Kernel values below two to this are zero.
template <class T> T lowest_exponent(const KernelSpec& k) {
    return k.lowest > double(Simd<T>::lowest) ? T(k.lowest) : Simd<T>::lowest;
}

// Sums over the features from `f` to `end`, for one panel.
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

// Kernel values of tile_rows rows with the columns of the panels of a strip, into buffer[tile_rows][padded].
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
        if constexpr (neon && F != Family::linear) {  // row by row: all sums beside constants are too many for the registers
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

// out[q * stride + r] += buffer[r] . coefficients[q]
template <int R, int W, class T>
void multiply_strip(const T* buffer, int64_t padded, const Strip& strip, const T* coefficients, int64_t n_outputs, int rows,
                    double* out, int64_t stride) {
    for (int64_t q = 0; q < n_outputs; ++q) {
        const T* c = coefficients + q * padded;
        Vec<T> sum[R];
#pragma GCC unroll 8
        for (int r = 0; r < R; ++r) sum[r] = Vec<T>{};
        for (int panel = 0; panel < strip.n_panels; ++panel)
            for (int64_t j = strip.columns[panel]; j < strip.columns[panel] + W; j += lanes<T>()) {
                const Vec<T> cj = *(const Vec<T>*)(c + j);
#pragma GCC unroll 8
                for (int r = 0; r < R; ++r) sum[r] = sum[r] + *(const Vec<T>*)(buffer + r * padded + j) * cj;
            }
        double totals[R];
#pragma GCC unroll 8
        for (int r = 0; r < R; ++r) totals[r] = horizontal(sum[r]);
        for (int r = 0; r < rows; ++r) out[q * stride + r] += totals[r];
    }
}

// Where the kernel values of a strip go.
template <class T> struct Sink {
    const T* coefficients;  // [n_outputs][padded], or nullptr: store
    int64_t n_outputs;
    double* products;  // [n_outputs][x.size]
    T* values;         // [x.size][z.size]
    int64_t first_column, n_columns, x_size, z_size;
};

template <int R, int W, class T>
void drain(const Sink<T>& sink, const T* buffer, int64_t padded, const Strip& strip, int64_t first_row, int rows) {
    if (sink.coefficients) {
        multiply_strip<R, W, T>(buffer, padded, strip, sink.coefficients, sink.n_outputs, rows,
                                sink.products + first_row, sink.x_size);
        return;
    }
    for (int r = 0; r < rows; ++r)
        memcpy(sink.values + (first_row + r) * sink.z_size + sink.first_column, buffer + r * padded,
               size_t(sink.n_columns) * sizeof(T));
}

// The next functions return how many kernel values were computed, or this.
constexpr int64_t no_memory = -1;

constexpr int64_t turns_a_thread = 8;  // at least, so that none is waited for long
constexpr int most_groups = 16;        // of tile_rows rows in one: half a millisecond

// Coefficients in the panel's precision and padding; the caller takes out powers of two that would not fit.
template <class T>
void pack_coefficients(const double* coefficients, int64_t n_outputs, int64_t stride, int64_t first, int64_t count,
                       int64_t padded, T* out) {
    for (int64_t q = 0; q < n_outputs; ++q)
        for (int64_t c = 0; c < padded; ++c) out[q * padded + c] = c < count ? T(coefficients[q * stride + first + c]) : T(0);
}

// Columns packed for the tile, and where their kernel values go.
template <class T> struct Chunk {
    Panels<T> panels;
    Sink<T> sink;
};

// Room for some chunks of columns, one after the other.
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

    // Packs some chunks of all; returns how many that are.
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

// Kernel values of the rows from `first` up to `end` with a chunk of columns. Where boxes are wanted, panels that are too far
// from many rows are not looked at again for the few of a tile.
template <Sum S, Family F, class T>
int64_t dense_rows(const KernelSpec& k, const RowsView<T>& x, int64_t first, int64_t end, const Chunk<T>& chunk, T* box) {
    constexpr int W = panel_width<T>(), many = most_groups * tile_rows;
    const Panels<T> panels = chunk.panels;  // copies stay in registers
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

    // few rows and many columns to store: threads take chunks of columns, and each packs its own
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

    // as many chunks as fit into the budget are packed at once, because threads wait for each other before the next ones
    const int64_t budgeted = panel_budget / (int64_t(sizeof(T)) * (d + whole.n_outputs) * width);
    const int64_t at_once = budgeted < 1 ? 1 : (budgeted < n_chunks ? budgeted : n_chunks);
    Packing<T> packing(z, whole, coefficients, boxes, width, at_once);
    if (!packing.complete) return no_memory;
    const int64_t groups = x.size / (turns_a_thread * n_threads * tile_rows);
    const int64_t height = tile_rows * (groups < 1 ? 1 : (groups > most_groups ? most_groups : groups));
    for (int64_t begin = 0; !failed && begin < n_chunks; begin += at_once) {
        const int count = packing.pack(begin, at_once);
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

template <class T> struct SparseScratch {
    Term<T>* terms;
    int64_t ends[sparse_rows_a_turn][sparse_parts], first[sparse_rows_a_turn + 1];
};

// Kernel values of the rows from `first` up to `end`, no more than a turn has, with the columns of some panels.
template <Sum S, Family F, class T>
void sparse_rows(const KernelSpec& k, const RowsView<T>& x, int64_t first, int64_t end, const SparsePanels<T>& panels,
                 const Sink<T>& sink, const T* sums, SparseScratch<T>& scratch) {
    constexpr int W = sparse_width<T>(), V = sparse_vectors, L = lanes<T>(), R = 4;
    const T lowest = lowest_exponent<T>(k);
    const Strip only{{0}, 1};
    scratch.first[0] = 0;
    for (int64_t i = first; i < end; ++i)
        scratch.first[i - first + 1] = scratch.first[i - first] + common<T>(x, x.index[i], panels,
                                                                            scratch.terms + scratch.first[i - first],
                                                                            scratch.ends[i - first]);
    for (int64_t panel = 0; panel < panels.n; ++panel) {
        const T *values = panels.values + panel * panels.lines * W, *many = panels.many + panel * W;
        bool any_many = false, any_few = false;
        for (int c = 0; c < W; ++c) (many[c] > 0 ? any_many : any_few) = true;
        Sink<T> to = sink;
        to.first_column += panel * W;
        to.n_columns = sink.n_columns - panel * W < W ? sink.n_columns - panel * W : W;
        if (to.coefficients) to.coefficients += panel * W * sink.n_outputs;
        for (int64_t group = first; group < end; group += R) {
            alignas(64) T buffer[R * W];
            const int rows = int(end - group < R ? end - group : R);
            for (int r = 0; r < rows; ++r) {
                const int64_t i = group + r, row = x.index[i];
                const Term<T>* terms = scratch.terms + scratch.first[i - first];
                Vec<T> sum[V];
                clear(sum);
                const bool in_parts = any_many && x.length(row) > longest_chain;
                const int64_t n_terms = scratch.first[i - first + 1] - scratch.first[i - first];
                if (panels.ones)
                    count<T>(terms, n_terms, (const uint8_t*)panels.values + panel * panels.lines * W, sums, sum);
                else if (any_few || !in_parts) gather<S, T>(terms, 0, n_terms, values, sum);
                if (in_parts && !panels.ones) gather_parts<S, T>(terms, scratch.ends[i - first], values, many, sum);
                const T norm = x.norms ? x.norms[row] : T(0);
#pragma GCC unroll 4
                for (int v = 0; v < V; ++v)
                    *(Vec<T>*)(buffer + r * W + v * L) = kernel_value<S, F, T>(
                        k, lowest, sum[v], norm, *(const Vec<T>*)(panels.norms + panel * W + v * L));
            }
            for (int r = rows; r < R; ++r) memset(buffer + r * W, 0, W * sizeof(T));
            drain<R, W, T>(to, buffer, W, only, group, rows);
        }
    }
}

template <Sum S, Family F, class T>
int64_t sparse_panels(const KernelSpec& k, const RowsView<T>& x, const RowsView<T>& z, const Sink<T>& whole,
                      const double* coefficients, int n_threads) {
    constexpr int W = sparse_width<T>();
    if (!z.size) return 0;
    const int64_t n_turns = (x.size + sparse_rows_a_turn - 1) / sparse_rows_a_turn;
    const auto end_of = [&](int64_t turn) {
        return x.size - turn * sparse_rows_a_turn < sparse_rows_a_turn ? x.size : (turn + 1) * sparse_rows_a_turn;
    };
    const auto larger = [](int64_t a, int64_t b) { return a > b ? a : b; };
    int64_t most_terms = 1, longest_x = 0, longest_z = 0, failed = 0;
    for (int64_t turn = 0; turn < n_turns; ++turn) {
        int64_t terms = 0;
        for (int64_t i = turn * sparse_rows_a_turn; i < end_of(turn); ++i) {
            terms += x.length(x.index[i]);
            longest_x = larger(longest_x, x.length(x.index[i]));
        }
        most_terms = larger(most_terms, terms);
    }
    for (int64_t c = 0; c < z.size; ++c) longest_z = larger(longest_z, z.length(z.index[c]));
    const bool ones = can_count<T> && x.constant != 0 && x.constant == z.constant &&
                      (longest_x <= longest_chain || longest_z <= longest_chain);
    T sums[longest_chain + 1];
    sums_of_equal<S, T>(x.constant, sums);

    // as many panels at once as the budget has room for, whatever features their columns have
    const int64_t n_panels = (z.size + W - 1) / W, most = longest_z * W;
    int64_t at_once = 1;
    const auto bytes = [&](int64_t n) { return (ones ? 1 : int64_t(sizeof(T))) * n * W * (most * n < z.n_features ? most * n : z.n_features); };
    while (at_once < n_panels && bytes(at_once + 1) <= panel_budget) ++at_once;

    const auto pack = [&](int64_t first, int64_t count, T* packed, Sink<T>& sink) {
        sink.first_column = first;
        sink.n_columns = count;
        if (!coefficients) return;
        for (int64_t c = 0; c < count; c += W)
            pack_coefficients<T>(coefficients, sink.n_outputs, z.size, first + c, count - c < W ? count - c : W, W,
                                 packed + c * sink.n_outputs);
        sink.coefficients = packed;
    };
    const auto counted = [&](int64_t first) { return z.size - first < at_once * W ? z.size - first : at_once * W; };

    // few rows and many columns to store: threads take panels, and each fills its own
    if (n_threads > 1 && !coefficients && x.size < z.size && n_panels >= n_threads) {
        at_once = 1;
        Turns turns(n_panels);
        in_parallel(n_threads, [&] {
            SparsePanels<T> panels(z.n_features, 1, ones);
            SparseScratch<T> scratch;
            scratch.terms = (Term<T>*)malloc(size_t(most_terms) * sizeof(Term<T>));
            bool complete = panels.complete && scratch.terms;
            Sink<T> sink = whole;
            for (int64_t panel; complete && (panel = turns.take()) >= 0;) {
                const int64_t first = panel * W, count = counted(first);
                complete = panels.fill(z, first, count);
                if (!complete) break;
                pack(first, count, nullptr, sink);
                for (int64_t turn = 0; turn < n_turns; ++turn)
                    sparse_rows<S, F, T>(k, x, turn * sparse_rows_a_turn, end_of(turn), panels, sink, sums, scratch);
                panels.clear(z, first, count);
            }
            free(scratch.terms);
            if (!complete) add(failed, 1);
        });
        return failed ? no_memory : x.size * z.size;
    }

    SparsePanels<T> panels(z.n_features, at_once, ones);
    T* const packed = (T*)aligned<T>(at_once * W * whole.n_outputs);
    failed = !panels.complete || !packed;
    for (int64_t first = 0; !failed && first < z.size; first += at_once * W) {
        const int64_t count = counted(first);
        if (!panels.fill(z, first, count)) {
            failed = 1;
            break;
        }
        Sink<T> sink = whole;
        pack(first, count, packed, sink);
        Turns turns(n_turns);
        in_parallel(n_threads, [&] {
            SparseScratch<T> scratch;
            scratch.terms = (Term<T>*)malloc(size_t(most_terms) * sizeof(Term<T>));
            for (int64_t turn; scratch.terms && (turn = turns.take()) >= 0;)
                sparse_rows<S, F, T>(k, x, turn * sparse_rows_a_turn, end_of(turn), panels, sink, sums, scratch);
            if (!scratch.terms) add(failed, 1);
            free(scratch.terms);
        });
        panels.clear(z, first, count);
    }
    free(packed);
    return failed ? no_memory : x.size * z.size;
}

// Columns with many features come last in products, so that few panels have both sorts.
template <Sum S, Family F, class T>
int64_t sparse(const KernelSpec& k, const RowsView<T>& x, const RowsView<T>& z, const Sink<T>& whole,
               const double* coefficients, int n_threads) {
    int64_t n_many = 0;
    const auto many = [&](int64_t c) { return z.length(z.index[c]) > longest_chain; };
    for (int64_t c = 0; c < z.size; ++c) n_many += many(c);
    if (!coefficients || !n_many || n_many == z.size)
        return sparse_panels<S, F, T>(k, x, z, whole, coefficients, n_threads);
    int64_t* const index = (int64_t*)malloc(size_t(z.size) * sizeof(int64_t));
    double* const sorted = (double*)malloc(size_t(z.size * whole.n_outputs) * sizeof(double));
    int64_t computed = no_memory;
    if (index && sorted) {
        int64_t few_to = 0, many_to = z.size - n_many;
        for (int64_t c = 0; c < z.size; ++c) {
            const int64_t to = many(c) ? many_to++ : few_to++;
            index[to] = z.index[c];
            for (int64_t q = 0; q < whole.n_outputs; ++q) sorted[q * z.size + to] = coefficients[q * z.size + c];
        }
        RowsView<T> other = z;
        other.index = index;
        computed = sparse_panels<S, F, T>(k, x, other, whole, sorted, n_threads);
    }
    free(index);
    free(sorted);
    return computed;
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

constexpr int64_t combined_columns = 2048;  // as long a run of a stored row as keeps the sums in the first-level cache
constexpr int rows_at_once = 4;
constexpr int64_t longest_combination = 256;  // terms of a sum in the precision of the values

// sums[c] += sum_r rows[r][c] coefficients[r], whole vectors
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

// In the order in which a tile sums its products, so that k(x, x) comes out as exactly one.
template <class T> T norm(const RowsView<T>& x, int64_t row, bool absolute) {
    const int64_t begin = x.offsets ? x.offsets[row] : row * x.n_features;
    const int64_t end = x.offsets ? x.offsets[row + 1] : begin + x.n_features, per_sum = features_per_sum(x.n_features);
    const bool chain = x.offsets && end - begin <= longest_chain;
    T sum = 0;
    int64_t part_end = 0;
    for (int64_t p = begin; p < end;) {
        if (!x.offsets) part_end += per_sum;
        else part_end = chain ? x.n_features : part_end + columns_a_part(x.n_features);
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

extern const TileTable<float> table_float = {multiply<float>, block<float>, norms<float>, combine<float>};
extern const TileTable<double> table_double = {multiply<double>, block<double>, norms<double>, combine<double>};

}  // namespace DIMARGIN_ARCH
}  // namespace dimargin
