// Sparse columns for the tile: a panel has a line for every feature that occurs in it, and a row gathers the lines of its
// own features. Like panels.hpp, this file is internal to tile.cpp's object files.
#pragma once
#include "panels.hpp"

namespace dimargin {
namespace DIMARGIN_ARCH {
namespace {

constexpr int sparse_vectors = 4;  // A panel is so many vectors wide, whose sums stay in registers.
template <class T> constexpr int sparse_width() { return sparse_vectors * lanes<T>(); }
// The panels of a batch are filled before rows are read. They take about so many bytes, and are at most so many.
constexpr int64_t batch_budget = 4 * 1024 * 1024;
constexpr int max_panels = 64;

// Adjacent columns.
template <class T> struct SparsePanel {
    T* values;      // [lines][width], first a line of zeros; bytes of 0 and 1 if all stored numbers are equal
    int32_t* line;  // [slots of the batch + 1]: start of each feature's line in `values`, the line of zeros if it is absent
    int64_t first, n_columns, lines;
    bool many;  // whether all of its columns have many features; otherwise none has
    alignas(64) T norms[sparse_width<T>()];
};

// As many panels as the budget allows. The features that occur in any of them are numbered from one; these numbers are the
// slots.
template <class T> class SparseBatch {
public:
    SparsePanel<T>* const panels;
    int n = 0;
    int32_t* const slot;  // [n_features], zero for features that do not occur

    SparseBatch(const RowsView<T>& z, bool ones)
        : panels((SparsePanel<T>*)aligned<SparsePanel<T>>(max_panels)),
          slot(zeros(z.n_features)), z(z), ones(ones), last_panel(zeros(max_slots() + 1)) {}
    SparseBatch(const SparseBatch&) = delete;
    ~SparseBatch() {
        free(panels);
        free(slot);
        free(last_panel);
        free(room);
    }

    // Takes the next columns, whose panels must then be filled. Returns whether there was enough memory.
    bool take() {
        constexpr int W = sparse_width<T>();
        if (!panels || !slot || !last_panel) return false;
        each(begun, next, [&](int64_t, int64_t p) { slot[z.columns[p]] = 0; });
        begun = next;
        n_slots = 0;
        n = 0;
        for (int64_t bytes = 0; n < max_panels && next < z.size && (!n || bytes < batch_budget); ++n) {
            SparsePanel<T>& panel = panels[n];
            panel.first = next;
            panel.many = is_many(next);
            while (next < z.size && next - panel.first < W && is_many(next) == panel.many) ++next;
            panel.n_columns = next - panel.first;
            panel.lines = 1;
            ++n_taken;
            each(panel.first, next, [&](int64_t, int64_t p) {
                int32_t& at = slot[z.columns[p]];
                if (!at) at = int32_t(++n_slots);
                panel.lines += last_panel[at] != n_taken;
                last_panel[at] = n_taken;
            });
            bytes += panel.lines * line_bytes();
        }
        return place();
    }

    // Fills a panel. Other threads may fill other panels at the same time.
    void fill(SparsePanel<T>& panel) const {
        constexpr int W = sparse_width<T>();
        const int64_t end = panel.first + panel.n_columns;
        memset(panel.line, 0, size_t(n_slots + 1) * sizeof(int32_t));
        int32_t used = 1;
        each(panel.first, end, [&](int64_t, int64_t p) {
            int32_t& at = panel.line[slot[z.columns[p]]];
            if (!at) at = W * used++;
        });
        memset(panel.values, 0, size_t(used) * size_t(line_bytes()));
        each(panel.first, end, [&](int64_t c, int64_t p) {
            const int64_t at = panel.line[slot[z.columns[p]]] + c;
            if (ones) ((uint8_t*)panel.values)[at] = 1;
            else panel.values[at] = z.values[p];
        });
        for (int64_t c = 0; c < W; ++c) {
            const int64_t row = c < panel.n_columns ? z.index[panel.first + c] : -1;
            panel.norms[c] = row < 0 || !z.norms ? T(0) : z.norms[row];
        }
    }

private:
    int64_t max_slots() const {
        int64_t stored = 0;
        each(0, z.size, [&](int64_t, int64_t) { ++stored; });
        return stored < z.n_features ? stored : z.n_features;
    }
    static int32_t* zeros(int64_t n) { return (int32_t*)calloc(size_t(n > 0 ? n : 1), sizeof(int32_t)); }

    int64_t line_bytes() const { return sparse_width<T>() * (ones ? 1 : int64_t(sizeof(T))); }

    bool is_many(int64_t column) const { return z.length(z.index[column]) > longest_chain; }

    template <class F> void each(int64_t first, int64_t end, F visit) const {
        for (int64_t c = first; c < end; ++c) {
            const int64_t row = z.index[c];
            for (int64_t p = z.offsets[row]; p < z.offsets[row + 1]; ++p) visit(c - first, p);
        }
    }

    // Assigns every panel its memory in `room`.
    bool place() {
        constexpr int64_t align = 64;
        const int64_t of_lines = (n_slots + 1 + 15) / 16 * 16;
        int64_t bytes = 0;
        for (int i = 0; i < n; ++i) bytes += (panels[i].lines * line_bytes() + align - 1) / align * align;
        const int64_t maps = bytes;
        bytes += n * of_lines * int64_t(sizeof(int32_t));
        if (bytes > capacity || !room) {
            free(room);
            room = (char*)aligned<char>(bytes);
            capacity = room ? bytes : 0;
            if (!room) return false;
        }
        bytes = 0;
        for (int i = 0; i < n; ++i) {
            panels[i].values = (T*)(room + bytes);
            panels[i].line = (int32_t*)(room + maps) + i * of_lines;
            bytes += (panels[i].lines * line_bytes() + align - 1) / align * align;
        }
        return true;
    }

    const RowsView<T>& z;
    const bool ones;
    int32_t* const last_panel;  // [slots + 1]: number of the last panel with the feature, counted over all batches
    int32_t n_taken = 0;
    char* room = nullptr;
    int64_t capacity = 0, n_slots = 0, begun = 0, next = 0;
};

// The features of a row that occur in a batch, with their values.
template <class T> struct Terms {
    T* values;
    int32_t* slots;
};

// Finds the features of a row that occur in a batch, and returns their number. For a row with many features, `ends` gets
// the ends of its parts.
template <class T>
int64_t common(const RowsView<T>& x, int64_t row, const SparseBatch<T>& batch, Terms<T> to, int64_t* ends) {
    const int64_t begin = x.offsets[row], end = x.offsets[row + 1], wide = columns_per_part(x.n_features);
    const int32_t* const slots = batch.slot;  // Copies stay in registers.
    const T* const values = x.values;
    const int32_t* const columns = x.columns;
    int64_t count = 0;
    const auto take = [&](int64_t p) {
        const int32_t slot = slots[columns[p]];
        to.values[count] = values[p];
        to.slots[count] = slot;
        count += slot != 0;
    };
    if (end - begin <= longest_chain) {
        for (int64_t p = begin; p < end; ++p) take(p);
        return count;
    }
    int64_t p = begin;
    for (int part = 0; part < sparse_parts; ++part) {
        for (; p < end && columns[p] < (part + 1) * wide; ++p) take(p);
        ends[part] = count;
    }
    return count;
}

template <int V, class T> INLINE void clear(T (&sum)[V]) {
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) sum[v] = T{};  // An initialiser of the array would call memset.
}

template <Sum S, int V, class T>
INLINE void gather(Terms<T> terms, int64_t begin, int64_t end, const SparsePanel<T>& panel,
                   Vec<T> (&sum)[V]) {
    const T* const values = panel.values;  // Copies stay in registers.
    const int32_t* const line = panel.line;
    for (int64_t t = begin; t < end; ++t) {
        const Vec<T>* column = (const Vec<T>*)(values + line[terms.slots[t]]);
#pragma GCC unroll 4
        for (int v = 0; v < V; ++v) sum[v] = accumulate<S, T>(sum[v], terms.values[t], column[v]);
    }
}

// Sums in parts if both rows have many features, so that a kernel value does not depend on which of them is the column.
template <Sum S, int V, class T>
void gather_parts(Terms<T> terms, const int64_t* ends, const SparsePanel<T>& panel, Vec<T> (&sum)[V]) {
    for (int part = 0; part < sparse_parts; ++part) {
        Vec<T> some[V];
        clear(some);
        gather<S, V, T>(terms, part ? ends[part - 1] : 0, ends[part], panel, some);
        for (int v = 0; v < V; ++v) sum[v] = sum[v] + some[v];
    }
}

// ---- Rows whose stored numbers are all equal: the common features of two rows are counted, in one byte per column, and
// ---- the sum of so many equal terms is looked up. It equals the sum that `gather` would compute. ----------------------

template <class T> constexpr bool can_count = sizeof(T) == sizeof(float) && vector_bytes >= 32;
constexpr int64_t looked_up = 32;  // So many sums are looked up in registers, longer tables in memory.

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
template <int V> INLINE void look_up(const float* sums, const uint8_t* counts, int64_t most, Vec<float> (&sum)[V]) {
    constexpr int L = lanes<float>();
    if (most >= looked_up) {
        for (int c = 0; c < V * L; ++c) ((float*)sum)[c] = sums[counts[c]];
        return;
    }
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) {
#if defined(__AVX512F__)
        const __m512i n = _mm512_cvtepu8_epi32(_mm_load_si128((const __m128i*)(counts + v * L)));
        sum[v] = (Vec<float>)_mm512_permutex2var_ps(_mm512_loadu_ps(sums), n, _mm512_loadu_ps(sums + 16));
#else
        const __m256i n = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i*)(counts + v * L)));
        const auto eight = [&](int from) { return _mm256_permutevar8x32_ps(_mm256_loadu_ps(sums + from), n); };
        const __m256 by_eight = _mm256_castsi256_ps(_mm256_slli_epi32(n, 28));  // A blend reads the sign.
        const __m256 by_sixteen = _mm256_castsi256_ps(_mm256_slli_epi32(n, 27));
        const __m256 low = _mm256_blendv_ps(eight(0), eight(8), by_eight);
        sum[v] = (Vec<float>)(most < 16 ? low : _mm256_blendv_ps(low, _mm256_blendv_ps(eight(16), eight(24), by_eight),
                                                                by_sixteen));
#endif
    }
}
#endif

template <int V, class T>
INLINE void count(Terms<T> terms, int64_t n, const SparsePanel<T>& panel, const T* sums, Vec<T> (&sum)[V]) {
#if defined(__AVX2__)
    if constexpr (can_count<T>) {
        const uint8_t* const values = (const uint8_t*)panel.values;
        const int32_t* const line = panel.line;
        Bytes counts = {};
        for (int64_t t = 0; t < n; ++t) counts = counts + *(const Bytes*)(values + line[terms.slots[t]]);
        asm("" : "+v"(counts));  // Without this, GCC 12 keeps the counts in memory during the loop.
        alignas(64) uint8_t stored[vector_bytes];
        memcpy(stored, &counts, sizeof counts);
        look_up<V>(sums, stored, n, sum);
    }
#endif
    (void)terms, (void)n, (void)panel, (void)sums, (void)sum;
}

}  // namespace
}  // namespace DIMARGIN_ARCH
}  // namespace dimargin
