// Cholesky factorisation of large matrices, tile by tile on all threads.
#pragma once
#include <cstdint>

namespace dimargin {

// BLAS of scipy, set once at import.
template <class T> struct Blas {
    void (*gemm)(char* transa, char* transb, int* m, int* n, int* k, T* alpha, T* a, int* lda, T* b, int* ldb, T* beta,
                 T* c, int* ldc);
    void (*syrk)(char* uplo, char* trans, int* n, int* k, T* alpha, T* a, int* lda, T* beta, T* c, int* ldc);
    void (*trsm)(char* side, char* uplo, char* transa, char* diag, int* m, int* n, T* alpha, T* a, int* lda, T* b,
                 int* ldb);
};
template <class T> extern Blas<T> blas;

// Continues the factorisation of a matrix [n, n], whose lower triangle, by rows, becomes L of A = L L'. Columns up to
// `begin` are done; this call factors the columns up to `end` and updates the others. Both are n or multiples of the
// width of a tile. Returns false, with the matrix overwritten, if it is not positive definite. The operations on a tile
// and their order do not depend on the number of threads.
template <class T> bool factor_columns(T* a, std::int64_t n, std::int64_t begin, std::int64_t end, int n_threads);

// Solves L x = b, or L' x = b, for `count` right-hand sides [count, n], in place.
template <class T>
void solve_triangle(const T* factor, std::int64_t n, T* right, std::int64_t count, bool transposed, int n_threads);

constexpr std::int64_t tile_width = 256;

}  // namespace dimargin
