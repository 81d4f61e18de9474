// What the compiled core knows of kernels: rows in, kernel values (or their products with coefficients) out.
//
// tile.cpp is compiled once for each instruction set, every time into a table of its own, and the table is chosen
// when the module is imported. Each kernel value is computed by one fixed sequence of operations over the features,
// whatever its place in a tile and whatever the number of threads: results are the same bit for bit.
#pragma once
#include <cstdint>

namespace dimargin {

// Dense rows are summed in parts of nearly equal size, which are added up then: rounding errors grow with the length
// of a chain of additions.
constexpr std::int64_t features_per_sum(std::int64_t n_features) {
    const std::int64_t parts = (n_features + 15) / 16;
    return parts ? (n_features + parts - 1) / parts : 1;
}
constexpr std::int64_t longest_sum(std::int64_t n_features) {
    const std::int64_t size = features_per_sum(n_features);
    return size + (n_features + size - 1) / size - 1;
}

// Sparse rows: one chain, but where both rows have more numbers than this; then in parts of as many columns.
constexpr std::int64_t longest_chain = 64;
constexpr int sparse_parts = 8;
constexpr std::int64_t columns_a_part(std::int64_t n_features) {
    return n_features > sparse_parts ? (n_features + sparse_parts - 1) / sparse_parts : 1;
}

constexpr std::int64_t panel_budget = 512 * 1024;  // bytes of packed columns: half a second-level cache; rows are read once a panel
constexpr std::int64_t chunk_columns = 512;  // columns whose kernel values wait in the first-level cache

// Additions one after the other in a sum of float64 kernel values times coefficients, at most, whatever the instruction
// set: those of a lane, of the lanes, and of the chunks of columns (dense) or the strips of at least eight (sparse).
constexpr std::int64_t longest_product(std::int64_t n_columns, std::int64_t n_features, bool sparse) {
    constexpr std::int64_t least_lanes = 2, most_lanes = 8, widest_panel = 2 * most_lanes;
    if (sparse) return 4 * least_lanes + (n_columns + 4 * least_lanes - 1) / (4 * least_lanes) + 1;
    const std::int64_t fitting = panel_budget / (8 * (n_features > 0 ? n_features : 1)) - widest_panel;
    const std::int64_t wide = fitting < chunk_columns ? fitting : chunk_columns;
    const std::int64_t chunk = wide > 2 * least_lanes ? wide : 2 * least_lanes, in_lane = chunk_columns / least_lanes;
    return (n_columns < in_lane ? n_columns : in_lane) + most_lanes + (n_columns + chunk - 1) / chunk;
}

// Products of stored kernel values with coefficients that are summed in the precision of the values.
constexpr std::int64_t longest_combination = 256;

// Additions one after the other in float32 in a sum of float32 kernel values times coefficients, at most: those of a lane
// of a chunk of columns or, of stored values, those of a combination. Longer sums are of float64.
constexpr std::int64_t longest_single_sum(bool stored, std::int64_t lanes) {
    return stored ? longest_combination : (chunk_columns + lanes - 1) / lanes;
}

enum class Family : int { linear = 0, polynomial = 1, rbf = 2, laplacian = 3 };

// gamma never appears here: rows arrive scaled, so that
//   polynomial (x.z + coef0)^degree,  rbf 2^(-|x - z|^2 / 2),  laplacian 2^(-|x - z|_1).
struct KernelSpec {
    Family family = Family::linear;
    double coef0 = 0.0;
    int degree = 1;
    bool difference = false;  // rbf: sum (x - z)^2 instead of norms and a product
    // rbf, laplacian: values below 2^lowest are zero, and those of rows in boxes far apart are not computed.
    // Minus infinity: every value is computed, and zero where it is no normal number.
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
    const std::int64_t* index;  // the rows of the storage that take part, in this order
    std::int64_t size;
    T constant = 0;  // what every stored number of sparse rows is, if they are all the same

    std::int64_t length(std::int64_t row) const { return offsets[row + 1] - offsets[row]; }  // of a sparse row
};

template <class T> struct TileTable {
    // out[q, i] += sum_j k(x_i, z_j) coefficients[q, j]; returns how many kernel values were computed, or a negative number
    // where there is no memory for that
    std::int64_t (*multiply)(const KernelSpec&, const RowsView<T>& x, const RowsView<T>& z, const double* coefficients,
                             std::int64_t n_outputs, double* out, int n_threads);
    // out[i, j] = k(x_i, z_j); the same
    std::int64_t (*block)(const KernelSpec&, const RowsView<T>& x, const RowsView<T>& z, T* out, int n_threads);
    // norms[i] = |x_i|^2 / 2 or |x_i|_1, summed in the order in which a tile sums its products
    void (*norms)(const RowsView<T>& x, bool absolute, T* norms);
    // out[q, c] += sum_j values[slots[j], c] coefficients[q, j], for stored kernel values
    void (*combine)(const T* values, std::int64_t width, const std::int64_t* slots, std::int64_t n_slots,
                    const double* coefficients, std::int64_t n_outputs, double* out, int n_threads);
    int lanes;  // numbers of a vector
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
