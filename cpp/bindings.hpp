// Common declarations of the bindings: arrays, rows, the instruction set in use, and threads.
#pragma once
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include "linear.hpp"
#include "pairs.hpp"
#include "threads.hpp"
#include "tile.hpp"

namespace dimargin {

namespace nb = nanobind;
using std::int64_t;

template <class T, int N> using In = nb::ndarray<const T, nb::ndim<N>, nb::c_contig, nb::device::cpu>;
template <class T, int N> using Out = nb::ndarray<T, nb::ndim<N>, nb::c_contig, nb::device::cpu>;
using Index = In<int64_t, 1>;

struct InstructionSet {
    const char* name;
    const TileTable<float>* f32;
    const TileTable<double>* f64;
    const PairTable* pairs;
    const LinearTable* linear;
};
extern InstructionSet chosen;  // This is set at import.
template <class T> const TileTable<T>& tile();
template <> inline const TileTable<float>& tile() { return *chosen.f32; }
template <> inline const TileTable<double>& tile() { return *chosen.f64; }

void prepare_threads();  // This is called once, at import.

// Rows that are ready for the tile, scaled and centred by the caller. The object keeps their arrays alive.
template <class T> struct Rows {
    In<T, 2> dense;
    std::optional<In<T, 1>> data;
    std::optional<In<int64_t, 1>> offsets;
    std::optional<In<int32_t, 1>> columns;
    int64_t n_rows = 0, n_features = 0;
    std::vector<T> norms;
    T constant = 0;

    RowsView<T> view(const int64_t* index, int64_t size) const {
        return {offsets ? data->data() : dense.data(), norms.empty() ? nullptr : norms.data(),
                offsets ? offsets->data() : nullptr,    columns ? columns->data() : nullptr,
                n_features, index, size, constant};
    }
    RowsView<T> view(const Index& index) const {
        const int64_t size = int64_t(index.shape(0));
        for (int64_t i = 0; i < size; ++i)
            if (index.data()[i] < 0 || index.data()[i] >= n_rows) throw nb::index_error("row index out of range");
        return view(index.data(), size);
    }
    // A damaged CSR array must not make the tile read or write elsewhere.
    void check() const {
        const int64_t stored = std::min(int64_t(data->shape(0)), int64_t(columns->shape(0)));
        bool sound = n_rows >= 0 && offsets->data()[0] == 0 && offsets->data()[n_rows] <= stored;
        for (int64_t i = 0; sound && i < n_rows; ++i) sound = offsets->data()[i] <= offsets->data()[i + 1];
        for (int64_t p = 0; sound && p < offsets->data()[n_rows]; ++p)
            sound = columns->data()[p] >= 0 && columns->data()[p] < n_features;
        if (!sound) throw std::invalid_argument("offsets or columns of the sparse rows are out of range");
    }
    double numbers_per_row() const {
        return offsets && n_rows ? double(offsets->data()[n_rows]) / double(n_rows) : double(n_features);
    }
    void find_constant() {
        const int64_t stored = offsets->data()[n_rows];
        const T* const numbers = data->data();
        if (stored && std::all_of(numbers, numbers + stored, [&](T number) { return number == numbers[0]; }))
            constant = numbers[0];
    }
    void compute_norms(bool absolute) {
        std::vector<int64_t> all(size_t(n_rows), 0);
        for (int64_t i = 0; i < n_rows; ++i) all[size_t(i)] = i;
        std::vector<T> to(size_t(n_rows), T(0));
        tile<T>().norms(view(all.data(), n_rows), absolute, to.data());
        norms.swap(to);
    }
};

void bind_kernels(nb::module_& m);
void bind_solvers(nb::module_& m);

}  // namespace dimargin
