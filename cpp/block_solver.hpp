// The (nearly) exact solve of one block of the single-variable dual: arithmetic only, no policy.
#pragma once
#include <cstdint>

#include "pairs.hpp"

namespace dimargin {

// The conjugate of a loss, with one entry per row of the whole problem: phi_i(g) = slope_right g + curvature_right g^2/2
// for g >= 0, with slope_left and curvature_left for g < 0, on [lower, upper]. To the solver a loss is data, not a class.
struct Pieces {
    const double *slope_right, *curvature_right, *slope_left, *curvature_left, *lower, *upper;
};

template <class T> struct BlockProblem {
    std::int64_t size;          // number of rows in the block
    const std::int64_t* index;  // rows of the whole problem
    const T* gram;              // [size, size] kernel values, without labels
    Pieces pieces;
    const double* y;            // labels +-1; y, dual and margins have one entry per row of the whole problem
    double* dual;               // coefficients, updated at the rows of the block
    const double* margins;      // margins of the old coefficients
    double* change;             // [size] y * (new dual - old dual)
    int sums;                   // of y * dual that must not change: none, one, or two, those of either label
    double* operations;         // counter of floating-point operations (approximate)
};

// LAPACK of scipy, set once at import.
struct Lapack {
    void (*dpotrf)(char* uplo, int* n, double* a, int* lda, int* info);
    void (*dpotrs)(char* uplo, int* n, int* nrhs, double* a, int* lda, double* b, int* ldb, int* info);
    void (*spotrf)(char* uplo, int* n, float* a, int* lda, int* info);
    void (*spotrs)(char* uplo, int* n, int* nrhs, float* a, int* lda, float* b, int* ldb, int* info);
};
extern Lapack lapack;

// Solves a block by sweeps of coordinate descent, each followed by a Newton step, until no coordinate violates its
// optimality condition by more than `tolerance` times the largest violation at the start (or by more than `absolute`),
// or `max_steps` are done. The dual objective does not rise. With tolerance 0 the block is solved to rounding, for
// losses with curvature by primal Newton steps alone. If sums must not change, primal Newton steps replace the sweeps for losses
// with curvature whose coefficients have either sign, and pair steps for others.
void solve_block(const BlockProblem<double>& problem, SolvePairs<double> pairs, double tolerance, double absolute,
                 int max_steps);

// Solves a block by pair steps in the precision of the Gram matrix, for losses whose conjugates have the same curvature on
// either side of zero. If they do not reach the tolerance, the block is finished in double precision as by `solve_block`.
template <class T>
void solve_pairs(const BlockProblem<T>& problem, SolvePairs<T> pairs, SolvePairs<double> precise, double tolerance,
                 double absolute, int max_steps);

// The problem of two classes with stored kernel values, for losses whose coefficients are never negative. The first
// class has the label -1, the second +1; the entries of rows are in the order of the classes.
struct ClassPair {
    std::int64_t first, second;           // numbers of rows of the classes
    const float *within_first, *between, *within_second;  // [first][first], [first][second], [second][second]
    Pieces pieces;
    double* dual;                         // starting point, and then the solution
    bool intercept;
};

// Size of the scratch of `solve_class_pair`, in floats.
std::int64_t class_pair_scratch(std::int64_t rows);

// Takes pair steps until the relative duality gap, from single-precision scores, is at most `goal`, or `max_steps` are
// done, or the precision does not suffice. Returns the gap.
double solve_class_pair(const ClassPair& problem, SolvePairs<float> pairs, float* scratch, double goal,
                        std::int64_t max_steps);

}  // namespace dimargin
