// Passes over the rows for linear machines: arithmetic only.
#pragma once
#include <stdint.h>

#include "tile.hpp"

namespace dimargin {

// The conjugate of a loss, row by row: block_solver.hpp says what the six are; where one is the same for all rows its
// stride is zero.
struct StridedPieces {
    const double* value[6];
    int64_t stride[6];
};

// One output's inner loop of stochastic variance reduced gradient. With the weights w = anchor + change, the rows in
// turn:  w -= step ( w - anchor - scale (g(m) - g(m_anchor)) y x + gradient ),  where g is minus the derivative of the
// row's loss; the intercept likewise but for the regulariser.
template <class T> struct SvrgPass {
    RowsView<T> rows;        // in the order of the steps
    const int64_t* place;    // of these rows in labels and pieces
    const double* labels;
    StridedPieces pieces;
    double scale;            // rows of the whole problem: each stands for that many
    double step;
    const double *anchor, *gradient;  // [n_features], and the intercept's behind them
    double* change;                   // the same; updated
    double* scratch;                  // [n_features]
    bool intercept;
};

// Of margins [n_outputs][n]: the dual coefficients that answer them (minus the loss's derivative), the loss's second
// derivative, and the loss itself.
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
