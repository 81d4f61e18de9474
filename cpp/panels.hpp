// Sums over the features, columns packed for the tile, and bounding boxes of rows, which show without computing kernel
// values that they are zero. Like simd.hpp, this file is internal to tile.cpp's object files.
#pragma once
#include "simd.hpp"
#include "tile.hpp"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

namespace dimargin {
namespace DIMARGIN_ARCH {
namespace {

enum class Sum { product, squared_difference, absolute_difference, absolute_overlap };

template <Sum S, class T> INLINE Vec<T> accumulate(Vec<T> sum, T x, Vec<T> z) {
    if constexpr (S == Sum::product) return sum + x * z;
    const Vec<T> zero = {}, difference = x - z;
    if constexpr (S == Sum::squared_difference) return sum + difference * difference;
    const Vec<T> distance = difference < zero ? -difference : difference;
    if constexpr (S == Sum::absolute_difference) return sum + distance;
    // Sparse rows sum |x - z| - (|x| + |z|), which is zero if x or z is zero.
    const Vec<T> size = (z < zero ? -z : z) + (x < T(0) ? -x : x);
    return sum + (distance - size);
}

// The sums of a tile of rows and columns stay in registers. With NEON there are 16 sums, because some processors need that
// many to add products without a pause. Tiles are wide rather than tall, because these read fewer numbers per product.
constexpr int tile_rows = vector_bytes == 64 ? 8 : 4;
constexpr int panel_vectors = neon ? 4 : 2;
template <class T> constexpr int panel_width() { return panel_vectors * lanes<T>(); }

// The bounding box of some rows has the smallest values of all features and then the largest, each padded to whole vectors.
template <class T> constexpr int64_t box_side(int64_t d) { return (d + lanes<T>() - 1) / lanes<T>() * lanes<T>(); }

template <class T> void box_around(const T* const* rows, int count, int64_t d, T* box) {
    for (int64_t f = 0; f < d; f += lanes<T>()) {
        const FirstLanes<T> first(d - f);
        Vec<T> least = first.load(rows[0] + f), greatest = least;
        for (int r = 1; r < count; ++r) {
            const Vec<T> row = first.load(rows[r] + f);
            least = row < least ? row : least;
            greatest = row > greatest ? row : greatest;
        }
        *(Vec<T>*)(box + f) = least;
        *(Vec<T>*)(box + box_side<T>(d) + f) = greatest;
    }
}

// Whether the kernel of every row in one box with every row in the other is certainly zero.
template <Sum S, class T> INLINE bool apart(const T* a, const T* b, int64_t d, T lowest) {
    const int64_t side = box_side<T>(d);
    const Vec<T> zero = {};
    Vec<T> sum = {};
    for (int64_t f = 0; f < side; f += lanes<T>()) {
        const Vec<T> above = *(const Vec<T>*)(a + f) - *(const Vec<T>*)(b + side + f);
        const Vec<T> below = *(const Vec<T>*)(b + f) - *(const Vec<T>*)(a + side + f);
        Vec<T> gap = above > below ? above : below;
        gap = gap > zero ? gap : zero;
        sum = S == Sum::absolute_difference ? sum + gap : sum + gap * gap;
    }
    const double distance = S == Sum::absolute_difference ? horizontal(sum) : 0.5 * horizontal(sum);
    return distance > 0.01 - 1.001 * double(lowest);  // These allowances exceed the rounding of both sums.
}

// Columns packed for the tile, panel after panel, feature-major inside a panel, padded with zeros.
template <class T> struct Panels {
    T* values;
    T* norms;
    T* boxes;  // bounding boxes of the columns of every panel, or nullptr
    int64_t n_columns, padded;
};

// The panels of a strip.
struct Strip {
    int64_t columns[chunk_columns];  // first column of every panel
    int n_panels;
};

template <class T> void* aligned(int64_t count) {
    void* p = nullptr;
    if (posix_memalign(&p, 64, size_t(count > 0 ? count : 1) * sizeof(T))) return nullptr;
    return p;
}

template <class T> void pack(const RowsView<T>& z, int64_t first, int64_t count, Panels<T>& panels) {
    constexpr int W = panel_width<T>();
    const int64_t d = z.n_features;
    panels.n_columns = count;
    panels.padded = (count + W - 1) / W * W;
    for (int64_t c = 0; c < panels.padded; ++c) {
        T* to = panels.values + (c / W) * d * W + c % W;
        const int64_t row = c < count ? z.index[first + c] : -1;
        const T* from = z.values + row * d;
        for (int64_t k = 0; k < d; ++k) to[k * W] = row < 0 ? T(0) : from[k];
        panels.norms[c] = row < 0 || !z.norms ? T(0) : z.norms[row];
    }
    for (int64_t c = 0; panels.boxes && c < count; c += W) {
        const T* rows[W];
        const int n = int(count - c < W ? count - c : W);
        for (int r = 0; r < n; ++r) rows[r] = z.values + z.index[first + c + r] * d;
        box_around<T>(rows, n, d, panels.boxes + c / W * 2 * box_side<T>(d));
    }
}

template <class T> void take_all(const Panels<T>& panels, Strip& strip) {
    strip.n_panels = 0;
    for (int64_t c = 0; c < panels.padded; c += panel_width<T>()) strip.columns[strip.n_panels++] = c;
}

// Selects the panels of `among` that are not too far from the given rows, whose box is written to `box`.
template <Sum S, class T>
void find_near(const T* const* x, int count, const Panels<T>& panels, const Strip& among, int64_t d, T lowest, T* box,
               Strip& near) {
    near.n_panels = 0;
    if (!among.n_panels) return;
    box_around<T>(x, count, d, box);
    for (int panel = 0; panel < among.n_panels; ++panel) {
        const int64_t c = among.columns[panel];
        const T* other = panels.boxes + c / panel_width<T>() * 2 * box_side<T>(d);
        if (!apart<S, T>(box, other, d, lowest)) near.columns[near.n_panels++] = c;
    }
}

}  // namespace
}  // namespace DIMARGIN_ARCH
}  // namespace dimargin
