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

// A pass of dual coordinate descent, for one output, or a part of a pass. With the margin m = y (w.x + b) of a row, the
// coefficient g becomes the minimum of  square/2 (g' - g)^2 + m (g' - g) + phi(g'),  and the weights follow.
template <class T> struct CoordinatePass {
    RowsView<T> rows;
    const double* labels;
    StridedPieces pieces;
    const double* squares;  // |x_i|^2, and the square of the intercept's feature
    double square_of_one;   // square of the intercept's feature; zero without an intercept
    double rise, fall;      // a row at a bound or kink is left out of later passes if it stays there by more than these:
                            // the largest slopes of the last pass at which a coefficient could rise or fall
    double* weights;        // [n_features + 1], with the intercept last; updated
    double* dual;           // updated
    uint8_t* active;        // [n]: whether a row is visited; updated
    const int64_t* blocks;  // blocks of consecutive rows, in the order of the pass
    int64_t n_blocks, rows_per_block, n;
    int64_t visited;        // number of rows visited; updated
    double largest_rise, largest_fall;  // slopes of this pass; updated
    double gap, conjugate, balance;     // sum of the rows' gaps when visited, changes of the sums of phi(g) and y g; updated
};

// A pass of dual coordinate descent for the machine of Crammer and Singer, or a part of a pass. The coefficients a_k of a
// row i, one per class, sum to zero and are at most its price for its own class, and at most zero for the others. With its
// decision values f_k = w_k.x and  slope_k = f_k + (k is another class than its own),  they become the minimum of
// sum_k square/2 (a'_k - a_k)^2 + slope_k (a'_k - a_k),  and the weights  w_k = sum_i a_ik x_i  follow.
template <class T> struct ClassPass {
    RowsView<T> rows;
    const int64_t* classes;  // own class of every row
    const double* prices;    // [n]
    const double* squares;   // |x_i|^2
    double slack;            // a row whose coefficients stay is left out of later passes if they do by more than this
    double* weights;         // [n_features][n_classes]; updated
    double* dual;            // [n][n_classes]; updated
    uint8_t* active;         // [n]: whether a row is visited; updated
    const int64_t* blocks;   // blocks of consecutive rows, in the order of the pass
    int64_t n_blocks, rows_per_block, n, n_classes;
    int64_t visited;         // number of rows visited; updated
    double largest, gap;     // largest violation of this pass, and the sum of the rows' gaps when visited; updated
};

// Computes for margins [n_outputs][n] the dual coefficients (minus the derivative of the loss), the second derivative of
// the loss, and the loss itself.
using Respond = void (*)(const double* margins, const StridedPieces& pieces, int64_t n_outputs, int64_t n, double* dual,
                         double* curvature, double* value);

struct LinearTable {
    Respond respond;
    void (*svrg_f32)(const SvrgPass<float>&);
    void (*svrg_f64)(const SvrgPass<double>&);
    void (*descend_f32)(CoordinatePass<float>&);
    void (*descend_f64)(CoordinatePass<double>&);
    void (*descend_classes_f32)(ClassPass<float>&);
    void (*descend_classes_f64)(ClassPass<double>&);
    // Adds  sum_i coefficients[i] x_i x_i'  of n sparse rows, whose columns are sorted, to the lower triangle of a
    // matrix; with an intercept x_i ends with a one.
    void (*add_squares_f32)(const RowsView<float>&, const double* coefficients, int64_t n, bool intercept, double* matrix);
    void (*add_squares_f64)(const RowsView<double>&, const double* coefficients, int64_t n, bool intercept, double* matrix);
};

namespace baseline { extern const LinearTable linear; }
namespace avx2 { extern const LinearTable linear; }
namespace avx512 { extern const LinearTable linear; }

}  // namespace dimargin
