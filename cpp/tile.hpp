// Kernels in the compiled core: from rows to kernel values, or to their products with coefficients.
//
// tile.cpp is compiled once per instruction set, each time into a separate table, and the table is chosen when the module
// is imported. Each kernel value is computed by one fixed sequence of operations over the features. It does not depend on
// its position in a tile or on the number of threads, so results are equal bit for bit.
#pragma once
#include <cstdint>

namespace dimargin {

// Dense rows are summed in parts of nearly equal size, and the parts are then added, because rounding errors grow with
// the length of a chain of additions.
constexpr std::int64_t features_per_sum(std::int64_t n_features) {
    const std::int64_t parts = (n_features + 15) / 16;
    return parts ? (n_features + parts - 1) / parts : 1;
}
constexpr std::int64_t longest_sum(std::int64_t n_features) {
    const std::int64_t size = features_per_sum(n_features);
    return size + (n_features + size - 1) / size - 1;
}

// Products of sparse rows are summed in one chain, unless both rows have more numbers than `longest_chain`. Then they are
// summed in `sparse_parts` parts of equally many columns.
constexpr std::int64_t longest_chain = 64;
constexpr int sparse_parts = 8;
constexpr std::int64_t columns_per_part(std::int64_t n_features) {
    return n_features > sparse_parts ? (n_features + sparse_parts - 1) / sparse_parts : 1;
}

constexpr std::int64_t panel_budget = 512 * 1024;  // Packed columns take at most half a second-level cache, in bytes.
constexpr std::int64_t chunk_columns = 512;  // The kernel values of a chunk of columns fit into the first-level cache.

// The longest chain of additions in a sum of float64 kernel values times coefficients, for any instruction set: those in
// a lane, over the lanes, and over the chunks of columns (dense) or the strips of at least eight (sparse).
constexpr std::int64_t longest_product(std::int64_t n_columns, std::int64_t n_features, bool sparse) {
    constexpr std::int64_t min_lanes = 2, max_lanes = 8, widest_panel = 2 * max_lanes;
    if (sparse) return 4 * min_lanes + (n_columns + 4 * min_lanes - 1) / (4 * min_lanes) + 1;
    const std::int64_t fitting = panel_budget / (8 * (n_features > 0 ? n_features : 1)) - widest_panel;
    const std::int64_t wide = fitting < chunk_columns ? fitting : chunk_columns;
    const std::int64_t chunk = wide > 2 * min_lanes ? wide : 2 * min_lanes, in_lane = chunk_columns / min_lanes;
    return (n_columns < in_lane ? n_columns : in_lane) + max_lanes + (n_columns + chunk - 1) / chunk;
}

// So many products of stored kernel values with coefficients are summed in the precision of the values.
constexpr std::int64_t longest_combination = 256;

// The longest chain of float32 additions in a sum of float32 kernel values times coefficients: those in a lane of a chunk
// of columns or, for stored values, those of a combination. Longer sums are in float64.
constexpr std::int64_t longest_single_sum(bool stored, std::int64_t lanes) {
    return stored ? longest_combination : (chunk_columns + lanes - 1) / lanes;
}

enum class Family : int { linear = 0, polynomial = 1, rbf = 2, laplacian = 3 };

// There is no gamma, because the caller scales the rows so that the kernels are
//   polynomial (x.z + coef0)^degree,  rbf 2^(-|x - z|^2 / 2),  laplacian 2^(-|x - z|_1).
struct KernelSpec {
    Family family = Family::linear;
    double coef0 = 0.0;
    int degree = 1;
    bool difference = false;  // rbf: sums (x - z)^2 instead of using norms and a product
    // rbf, laplacian: values below 2^lowest are zero, and those of rows in boxes far apart are not computed.
    // With `none` every value is computed, and zero only if it is not a normal number.
    double lowest = none;
    static constexpr double none = -1e300;
};

// Dense rows are row-major; sparse rows are CSR with sorted columns (offsets != nullptr).
template <class T> struct RowsView {
    const T* values;
    const T* norms;  // rbf: |x|^2 / 2; laplacian: |x|_1; else unused
    const std::int64_t* offsets;
    const std::int32_t* columns;
    std::int64_t n_features;
    const std::int64_t* index;  // the rows of the view, as indices into the storage
    std::int64_t size;
    T constant = 0;  // the value of all stored numbers of sparse rows if they are equal, otherwise zero

    // Stored numbers of a sparse row.
    std::int64_t length(std::int64_t row) const { return offsets[row + 1] - offsets[row]; }
};

template <class T> struct TileTable {
    // out[q, i] += sum_j k(x_i, z_j) coefficients[q, j]; returns the number of computed kernel values, or a negative number
    // if memory is exhausted
    std::int64_t (*multiply)(const KernelSpec&, const RowsView<T>& x, const RowsView<T>& z, const double* coefficients,
                             std::int64_t n_outputs, double* out, int n_threads);
    // out[i, j] = k(x_i, z_j); returns the number of computed kernel values, or a negative number if memory is exhausted
    std::int64_t (*block)(const KernelSpec&, const RowsView<T>& x, const RowsView<T>& z, T* out, int n_threads);
    // norms[i] = |x_i|^2 / 2 or |x_i|_1, summed in the order in which a tile sums its products
    void (*norms)(const RowsView<T>& x, bool absolute, T* norms);
    // out[q, c] += sum_j values[slots[j], c] coefficients[q, j], for stored kernel values
    void (*combine)(const T* values, std::int64_t width, const std::int64_t* slots, std::int64_t n_slots,
                    const double* coefficients, std::int64_t n_outputs, double* out, int n_threads);
    int lanes;  // numbers per vector
};

#define DIMARGIN_DECLARE_TABLES(ARCH)            \
    namespace ARCH {                             \
    extern const TileTable<float> table_float;   \
    extern const TileTable<double> table_double; \
    }
DIMARGIN_DECLARE_TABLES(baseline)
DIMARGIN_DECLARE_TABLES(avx2)
DIMARGIN_DECLARE_TABLES(avx512)

}  // namespace dimargin
