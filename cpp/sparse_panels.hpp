// Sparse columns for the tile: a panel of them has a line for every feature that occurs in it, and a row gathers the lines of
// its own features. Internal to tile.cpp's object files, as panels.hpp is.
#pragma once
#include "panels.hpp"

namespace dimargin {
namespace DIMARGIN_ARCH {
namespace {

constexpr int sparse_vectors = 4;  // of a panel, whose sums stay in registers
template <class T> constexpr int sparse_width() { return sparse_vectors * lanes<T>(); }
constexpr int64_t sparse_rows_a_turn = 64;

// Some panels, one after the other.
template <class T> struct SparsePanels {
    int32_t* line;    // [n_features], zero for those that do not occur
    T* values;        // [n][lines][width]
    T *norms, *many;  // [n * width]; the latter is one for columns with many features, else zero
    int64_t lines, n, capacity;
    const bool ones;  // whether values are bytes, zeros and ones
    bool complete;

    SparsePanels(int64_t n_features, int64_t most, bool ones)
        : line((int32_t*)calloc(size_t(n_features > 0 ? n_features : 1), sizeof(int32_t))), values(nullptr),
          norms((T*)aligned<T>(most * sparse_width<T>())), many((T*)aligned<T>(most * sparse_width<T>())), lines(0), n(0),
          capacity(0), ones(ones), complete(line && norms && many) {}
    SparsePanels(const SparsePanels&) = delete;
    ~SparsePanels() {
        free(line);
        free(values);
        free(norms);
        free(many);
    }

    template <class F> void each(const RowsView<T>& z, int64_t first, int64_t count, F visit) {
        for (int64_t c = 0; c < count; ++c) {
            const int64_t row = z.index[first + c];
            for (int64_t p = z.offsets[row]; p < z.offsets[row + 1]; ++p) visit(c, p);
        }
    }

    // Returns whether there was memory.
    bool fill(const RowsView<T>& z, int64_t first, int64_t count) {
        constexpr int W = sparse_width<T>();
        n = (count + W - 1) / W;
        lines = 0;
        each(z, first, count, [&](int64_t, int64_t p) {
            int32_t& at = line[z.columns[p]];
            if (!at) at = int32_t(++lines);
        });
        const int64_t bytes = n * lines * W * (ones ? 1 : int64_t(sizeof(T)));
        if (bytes > capacity || !values) {
            free(values);
            capacity = bytes;
            values = (T*)aligned<char>(bytes);
            if (!values) complete = false;
            if (!values) return false;
        }
        memset(values, 0, size_t(bytes));
        each(z, first, count, [&](int64_t c, int64_t p) {
            const int64_t at = (c / W * lines + line[z.columns[p]] - 1) * W + c % W;
            if (ones) ((uint8_t*)values)[at] = 1;
            else values[at] = z.values[p];
        });
        for (int64_t c = 0; c < n * W; ++c) {
            const int64_t row = c < count ? z.index[first + c] : -1;
            norms[c] = row < 0 || !z.norms ? T(0) : z.norms[row];
            many[c] = T(row >= 0 && z.length(row) > longest_chain);
        }
        return true;
    }
    void clear(const RowsView<T>& z, int64_t first, int64_t count) {
        each(z, first, count, [&](int64_t, int64_t p) { line[z.columns[p]] = 0; });
    }
};

// What a row has in common with the columns of some panels.
template <class T> struct Term {
    T value;
    int32_t line;
};

// The features of a row that occur in panels; where the row has many, `ends` are the ends of its parts.
template <class T>
int64_t common(const RowsView<T>& x, int64_t row, const SparsePanels<T>& panels, Term<T>* terms, int64_t* ends) {
    const int64_t begin = x.offsets[row], end = x.offsets[row + 1], wide = columns_a_part(x.n_features);
    int64_t count = 0;
    const auto take = [&](int64_t p) {
        const int32_t line = panels.line[x.columns[p]];
        terms[count] = {x.values[p], line - 1};
        count += line != 0;
    };
    if (end - begin <= longest_chain) {
        for (int64_t p = begin; p < end; ++p) take(p);
        return count;
    }
    int64_t p = begin;
    for (int part = 0; part < sparse_parts; ++part) {
        for (; p < end && x.columns[p] < (part + 1) * wide; ++p) take(p);
        ends[part] = count;
    }
    return count;
}

template <class V> INLINE void clear(V (&sum)[sparse_vectors]) {
#pragma GCC unroll 4
    for (int v = 0; v < sparse_vectors; ++v) sum[v] = V{};  // an initialiser of the array would be a call of memset
}

template <Sum S, class T>
INLINE void gather(const Term<T>* terms, int64_t begin, int64_t end, const T* panel, Vec<T> (&sum)[sparse_vectors]) {
    for (int64_t t = begin; t < end; ++t) {
        const Vec<T>* column = (const Vec<T>*)(panel + int64_t(terms[t].line) * sparse_width<T>());
#pragma GCC unroll 4
        for (int v = 0; v < sparse_vectors; ++v) sum[v] = accumulate<S, T>(sum[v], terms[t].value, column[v]);
    }
}

// Sums in parts for the columns that have many features, too: of both rows, so that a kernel value is the same from
// either side.
template <Sum S, class T>
void gather_parts(const Term<T>* terms, const int64_t* ends, const T* panel, const T* many, Vec<T> (&sum)[sparse_vectors]) {
    Vec<T> total[sparse_vectors];
    clear(total);
    for (int part = 0; part < sparse_parts; ++part) {
        Vec<T> some[sparse_vectors];
        clear(some);
        gather<S, T>(terms, part ? ends[part - 1] : 0, ends[part], panel, some);
        for (int v = 0; v < sparse_vectors; ++v) total[v] = total[v] + some[v];
    }
    for (int v = 0; v < sparse_vectors; ++v)
        sum[v] = *(const Vec<T>*)(many + v * lanes<T>()) > Vec<T>{} ? total[v] : sum[v];
}

// ---- rows whose stored numbers are all the same: the features that two have in common are counted, a byte each, and
// ---- the sum of so many equal terms is looked up, which is the sum that `gather` would have come to --------------------

template <class T> constexpr bool can_count = sizeof(T) == sizeof(float) && vector_bytes >= 32;
constexpr int64_t looked_up = 32;  // sums that are looked up in registers

typedef uint8_t Bytes __attribute__((vector_size(vector_bytes), may_alias));
static_assert(sparse_width<float>() == vector_bytes, "the counts of a panel fill a vector");

// Sums of 0, 1, ... equal terms, as `gather` adds them.
template <Sum S, class T> void sums_of_equal(T constant, T* sums) {
    const T size = constant < 0 ? -constant : constant;
    T sum = 0;
    for (int64_t n = 0; n <= longest_chain; ++n) {
        sums[n] = sum;
        sum = S == Sum::product ? multiply_add(constant, constant, sum) : sum - (size + size);
    }
}

#if defined(__AVX2__)
INLINE void look_up(const float* sums, const uint8_t* counts, int64_t most, Vec<float> (&sum)[sparse_vectors]) {
    constexpr int L = lanes<float>();
    if (most >= looked_up) {
        for (int c = 0; c < sparse_vectors * L; ++c) ((float*)sum)[c] = sums[counts[c]];
        return;
    }
#pragma GCC unroll 4
    for (int v = 0; v < sparse_vectors; ++v) {
#if defined(__AVX512F__)
        const __m512i n = _mm512_cvtepu8_epi32(_mm_load_si128((const __m128i*)(counts + v * L)));
        sum[v] = (Vec<float>)_mm512_permutex2var_ps(_mm512_loadu_ps(sums), n, _mm512_loadu_ps(sums + 16));
#else
        const __m256i n = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i*)(counts + v * L)));
        const auto eight = [&](int from) { return _mm256_permutevar8x32_ps(_mm256_loadu_ps(sums + from), n); };
        const __m256 by_eight = _mm256_castsi256_ps(_mm256_slli_epi32(n, 28));  // a blend looks at the sign
        const __m256 by_sixteen = _mm256_castsi256_ps(_mm256_slli_epi32(n, 27));
        const __m256 low = _mm256_blendv_ps(eight(0), eight(8), by_eight);
        sum[v] = (Vec<float>)(most < 16 ? low : _mm256_blendv_ps(low, _mm256_blendv_ps(eight(16), eight(24), by_eight),
                                                                by_sixteen));
#endif
    }
}
#endif

template <class T>
INLINE void count(const Term<T>* terms, int64_t n, const uint8_t* panel, const T* sums, Vec<T> (&sum)[sparse_vectors]) {
#if defined(__AVX2__)
    if constexpr (can_count<T>) {
        Bytes counts = {};
        for (int64_t t = 0; t < n; ++t) counts = counts + *(const Bytes*)(panel + int64_t(terms[t].line) * vector_bytes);
        asm("" : "+v"(counts));  // GCC 12 would keep it in memory, where it goes next
        alignas(64) uint8_t stored[vector_bytes];
        memcpy(stored, &counts, sizeof counts);
        look_up(sums, stored, n, sum);
    }
#endif
    (void)terms, (void)n, (void)panel, (void)sums, (void)sum;
}

}  // namespace
}  // namespace DIMARGIN_ARCH
}  // namespace dimargin
