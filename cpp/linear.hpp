// Passes over the rows for linear machines. This is arithmetic only.
#pragma once
#include <stdint.h>

#include "tile.hpp"

namespace dimargin {

// The conjugate of a loss, row by row, as the six arrays of `Pieces` in block_solver.hpp. An array with one value for all
// rows has the stride zero.
struct StridedPieces {
    const double* value[6];
    int64_t stride[6];
};

// The inner loop of stochastic variance reduced gradient, for one output. With the weights w = anchor + change, each row
// makes the step  w -= step ( w - anchor - scale (g(m) - g(m_anchor)) y x + gradient ),  where g is minus the derivative
// of the row's loss. The step of the intercept has no regulariser.
template <class T> struct SvrgPass {
    RowsView<T> rows;        // in the order of the steps
    const int64_t* place;    // positions of these rows in labels and pieces
    const double* labels;
    StridedPieces pieces;
    double scale;            // number of rows of the whole problem, which each row represents
    double step;
    const double *anchor, *gradient;  // [n_features + 1], with the intercept last
    double* change;                   // [n_features + 1], with the intercept last; updated
    double* scratch;                  // [n_features]
    bool intercept;
};

// Computes for margins [n_outputs][n] the dual coefficients (minus the derivative of the loss), the second derivative of
// the loss, and the loss itself.
using Respond = void (*)(const double* margins, const StridedPieces& pieces, int64_t n_outputs, int64_t n, double* dual,
                         double* curvature, double* value);

struct LinearTable {
    Respond respond;
    void (*svrg_f32)(const SvrgPass<float>&);
    void (*svrg_f64)(const SvrgPass<double>&);
};

namespace baseline { extern const LinearTable linear; }
namespace avx2 { extern const LinearTable linear; }
namespace avx512 { extern const LinearTable linear; }

}  // namespace dimargin
