// The (nearly) exact solve of one block of the single-variable dual: arithmetic only, no policy.
#pragma once
#include <cstdint>

#include "pairs.hpp"

namespace dimargin {

// phi_i(g) = slope_right g + curvature_right g^2/2 for g >= 0, likewise left for g < 0, on [lower, upper], one entry
// a row of the whole problem (design: a loss is data to the solver, not a class).
struct Pieces {
    const double *slope_right, *curvature_right, *slope_left, *curvature_left, *lower, *upper;
};

template <class T> struct BlockProblem {
    std::int64_t size;          // rows in the block
    const std::int64_t* index;  // their places in the whole problem
    const T* gram;              // [size, size] kernel values, without labels
    Pieces pieces;
    const double* y;            // the rest: one entry a row of the whole problem, labels +-1
    double* dual;               // updated at the block's places
    const double* margins;      // those of the dual as it was
    double* change;             // [size] y * (new dual - old dual)
    bool intercept;             // whether the sum of y * dual stays as it is
    double* operations;         // floating-point operations, about, are added to it
};

// LAPACK, as scipy ships it: set once at import.
struct Lapack {
    void (*dpotrf)(char* uplo, int* n, double* a, int* lda, int* info);
    void (*dpotrs)(char* uplo, int* n, int* nrhs, double* a, int* lda, double* b, int* ldb, int* info);
    void (*spotrf)(char* uplo, int* n, float* a, int* lda, int* info);
    void (*spotrs)(char* uplo, int* n, int* nrhs, float* a, int* lda, float* b, int* ldb, int* info);
};
extern Lapack lapack;

// Sweeps of coordinate descent, each followed by a Newton step, until no coordinate of the block violates its
// optimality condition by more than `tolerance` times the largest violation at the start (or by more than `absolute`),
// or `max_steps` are done. The dual objective does not rise. With tolerance 0 the block is solved to rounding: losses
// with curvature by primal Newton steps alone. With an intercept (for losses whose coefficients are never negative)
// pairs move instead of single coordinates.
void solve_block(const BlockProblem<double>& problem, SolvePairs<double> pairs, double tolerance, double absolute,
                 int max_steps);

// Pair steps in the precision of the Gram matrix, for losses whose coefficients are never negative; what they leave
// undone is finished as by `solve_block`.
template <class T>
void solve_pairs(const BlockProblem<T>& problem, SolvePairs<T> pairs, SolvePairs<double> precise, double tolerance,
                 double absolute, int max_steps);

// Two classes whose kernel values are stored, for losses whose coefficients are never negative. The first class has the
// label -1, the second +1; entries of a row are in the order of the classes.
struct ClassPair {
    std::int64_t first, second;           // rows of the classes
    const float *within_first, *between, *within_second;  // [first][first], [first][second], [second][second]
    Pieces pieces;
    double* dual;                         // where to start, and what was found
    bool intercept;
};

// Numbers of type float that `solve_class_pair` needs as scratch.
std::int64_t class_pair_scratch(std::int64_t rows);

// Pair steps until the relative duality gap, by single-precision scores, is at most `goal`, or `max_steps` are done, or
// the precision allows no more. Returns that gap.
double solve_class_pair(const ClassPair& problem, SolvePairs<float> pairs, float* scratch, double goal,
                        std::int64_t max_steps);

}  // namespace dimargin
