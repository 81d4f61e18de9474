// Kernel values of sums, and the destination of the values of a strip, for dense and sparse tiles. Like panels.hpp, this
// file is internal to tile.cpp's object files.
#pragma once
#include "panels.hpp"

namespace dimargin {
namespace DIMARGIN_ARCH {
namespace {

// The family is a template parameter, because branches in the inner loop are slow.
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

// Kernel values below two to the power of this are zero.
template <class T> T lowest_exponent(const KernelSpec& k) {
    return k.lowest > double(Simd<T>::lowest) ? T(k.lowest) : Simd<T>::lowest;
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

// The destination of the kernel values of a strip.
template <class T> struct Sink {
    const T* coefficients;  // [n_outputs][padded], or nullptr to store the values
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

// Functions that return the number of computed kernel values return this if memory is exhausted.
constexpr int64_t no_memory = -1;

// Converts coefficients to the panel's precision and padding. The caller divides them by a power of two that would
// overflow.
template <class T>
void pack_coefficients(const double* coefficients, int64_t n_outputs, int64_t stride, int64_t first, int64_t count,
                       int64_t padded, T* out) {
    for (int64_t q = 0; q < n_outputs; ++q)
        for (int64_t c = 0; c < padded; ++c) out[q * padded + c] = c < count ? T(coefficients[q * stride + first + c]) : T(0);
}

}  // namespace
}  // namespace DIMARGIN_ARCH
}  // namespace dimargin
