// Bindings of the block solver and of the linear passes.
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <numeric>
#include <tuple>

#include "bindings.hpp"
#include "block_solver.hpp"
#include "tiled_cholesky.hpp"

namespace dimargin {
namespace {

// ---- block solver ----------------------------------------------------------------------------------------------

// The solves of one block for all outputs in parallel, which may begin in the background.
class BlockSolve {
public:
    BlockSolve(std::function<void(int64_t, double*)> solve, int64_t outputs, int n_threads)
        : solve(std::move(solve)), operations(size_t(outputs), 0.0), turns(outputs),
          n_threads(int(std::min<int64_t>(n_threads, outputs))) {
        if (n_threads > 1) post(errand);
    }
    ~BlockSolve() {
        nb::gil_scoped_release release;
        reclaim(errand);
    }
    BlockSolve(const BlockSolve&) = delete;

    double finish() {
        {
            nb::gil_scoped_release release;
            if (reclaim(errand) && !has_run) run();
        }
        if (failure) std::rethrow_exception(failure);
        return std::accumulate(operations.begin(), operations.end(), 0.0);
    }

private:
    void run() {
        has_run = true;
        in_parallel(n_threads, [this] {
            for (int64_t q; (q = turns.take()) >= 0;) {
                try {
                    solve(q, &operations[size_t(q)]);
                } catch (...) {
                    const std::lock_guard lock(failing);
                    failure = std::current_exception();
                }
            }
        });
    }

    const std::function<void(int64_t, double*)> solve;  // solves for one output, and counts its operations
    std::vector<double> operations;
    Turns turns;
    const int n_threads;
    bool has_run = false;
    std::exception_ptr failure;
    std::mutex failing;
    Errand errand{[](void* self) { static_cast<BlockSolve*>(self)->run(); }, this};
};

template <class T, class Argument, class Solve>
void bind_block_solver(nb::module_& m, const char* name, const Argument& gram_argument, Solve solve, const char* doc) {
    const auto begin = [solve](In<T, 2> gram, Index index, In<double, 2> pieces, In<double, 2> y, Out<double, 2> dual,
                               In<double, 2> margins, Out<double, 2> change, int sums, double tolerance,
                               double absolute, int max_steps, int n_threads) {
        const int64_t size = int64_t(index.shape(0)), n = int64_t(y.shape(1)), outputs = int64_t(y.shape(0));
        if (int64_t(gram.shape(0)) != size || int64_t(gram.shape(1)) != size || pieces.shape(0) != 6 ||
            int64_t(pieces.shape(1)) != n || int64_t(dual.shape(1)) != n || int64_t(margins.shape(1)) != n ||
            int64_t(change.shape(1)) != size || dual.shape(0) != y.shape(0) || margins.shape(0) != y.shape(0) ||
            change.shape(0) != y.shape(0))
            throw std::invalid_argument("arrays of a block do not fit together");
        for (int64_t i = 0; i < size; ++i)
            if (index.data()[i] < 0 || index.data()[i] >= n) throw nb::index_error("row index out of range");
        const auto solve_output = [=](int64_t q, double* operations) {  // The copies keep the arrays alive.
            const double* p = pieces.data();
            solve(BlockProblem<T>{size, index.data(), gram.data(),
                                  {p, p + n, p + 2 * n, p + 3 * n, p + 4 * n, p + 5 * n}, y.data() + q * n,
                                  dual.data() + q * n, margins.data() + q * n, change.data() + q * size, sums,
                                  operations},
                  tolerance, absolute, max_steps);
        };
        return std::make_unique<BlockSolve>(solve_output, outputs, n_threads);
    };
    m.def(name, begin, gram_argument, nb::arg("index"), nb::arg("pieces"), nb::arg("y"),
          nb::arg("dual").noconvert(), nb::arg("margins"), nb::arg("change").noconvert(), nb::arg("sums"),
          nb::arg("tolerance"), nb::arg("absolute"), nb::arg("max_steps"), nb::arg("n_threads"), doc);
}

template <class T> void bind_pairs(nb::module_& m, SolvePairs<T> PairTable::* pairs) {
    bind_block_solver<T>(
        m, "solve_pairs", nb::arg("gram").noconvert(),
        [pairs](const BlockProblem<T>& problem, double tolerance, double absolute, int max_steps) {
            solve_pairs(problem, chosen.pairs->*pairs, chosen.pairs->f64, tolerance, absolute, max_steps);
        },
        "Pair steps in one block for every output.");
}

// ---- many small problems ----------------------------------------------------------------------------------------

// Calls begin() on every thread, and then calls its result with the numbers of problems that the thread takes.
template <class Begin> void in_turns(int64_t problems, int n_threads, Begin begin) {
    Turns turns{problems};
    std::exception_ptr failure;
    std::mutex failing;
    in_parallel(int(std::min<int64_t>(n_threads, problems)), [&] {
        try {
            auto work = begin();
            for (int64_t k; (k = turns.take()) >= 0;) work(k);
        } catch (...) {
            const std::lock_guard lock(failing);
            failure = std::current_exception();
        }
    });
    if (failure) std::rethrow_exception(failure);
}

// Solves problems of one block each, whose rows are consecutive in every array.
void solve_blocks(In<double, 1> grams, Index bounds, In<double, 2> pieces, In<double, 1> y, Out<double, 1> dual,
                  In<double, 1> margins, bool intercept, int max_steps, int n_threads) {
    const int64_t n = int64_t(y.shape(0)), problems = int64_t(bounds.shape(0)) - 1, *const ends = bounds.data();
    bool fits = problems >= 0 && ends[0] == 0 && ends[problems] == n && pieces.shape(0) == 6 &&
                int64_t(pieces.shape(1)) == n && int64_t(dual.shape(0)) == n && int64_t(margins.shape(0)) == n;
    std::vector<int64_t> first{0};
    int64_t largest = 0;
    for (int64_t k = 0; fits && k < problems; ++k) {
        const int64_t size = ends[k + 1] - ends[k];
        fits = 0 <= size && size <= n;
        largest = std::max(largest, size);
        first.push_back(first.back() + size * size);
    }
    if (!fits || first.back() != int64_t(grams.shape(0)))
        throw std::invalid_argument("arrays of problems do not fit together");
    std::vector<int64_t> index(size_t(largest), 0);
    std::iota(index.begin(), index.end(), 0);
    const double* const p = pieces.data();
    nb::gil_scoped_release release;
    in_turns(problems, n_threads, [&] {
        return [&, change = std::vector<double>(size_t(largest)), operations = 0.0](int64_t k) mutable {
            const int64_t at = ends[k];
            const double* const own = p + at;
            operations = 0.0;  // The budget of operations is for one problem.
            solve_block({ends[k + 1] - at, index.data(), grams.data() + first[size_t(k)],
                         {own, own + n, own + 2 * n, own + 3 * n, own + 4 * n, own + 5 * n}, y.data() + at,
                         dual.data() + at, margins.data() + at, change.data(), intercept, &operations},
                        chosen.pairs->f64, 0.0, 0.0, max_steps);
        };
    });
}

// ---- pairs of classes -------------------------------------------------------------------------------------------

// A second thread pays off from so many kernel values of pairs, which take a millisecond of steps.
constexpr double values_per_thread = 2e6;

// Pairs of classes with stored kernel values, consecutive in every array. Threads take pair after pair.
class ClassPairs {
public:
    using Values = std::vector<In<float, 2>>;

    ClassPairs(const Values& first, const In<float, 1>& between, const Values& second, const In<double, 2>& pieces,
               const Out<double, 1>& dual, bool intercept) {
        bool fits = first.size() == second.size() && pieces.shape(0) == 6 && pieces.shape(1) == dual.shape(0);
        const int64_t n = int64_t(dual.shape(0));
        const double* const p = pieces.data();
        int64_t at = 0, values = 0;
        for (size_t k = 0; fits && k < first.size(); ++k) {
            const int64_t a = int64_t(first[k].shape(0)), b = int64_t(second[k].shape(0));
            fits = int64_t(first[k].shape(1)) == a && int64_t(second[k].shape(1)) == b && at + a + b <= n &&
                   values + a * b <= int64_t(between.shape(0));
            const double* const own = p + at;
            pairs.push_back({a, b, first[k].data(), between.data() + values, second[k].data(),
                             {own, own + n, own + 2 * n, own + 3 * n, own + 4 * n, own + 5 * n}, dual.data() + at,
                             intercept});
            at += a + b;
            values += a * b;
            largest = std::max(largest, a + b);
            total_values += double(a + b) * double(a + b);
        }
        if (!fits || at != n || values != int64_t(between.shape(0)))
            throw std::invalid_argument("arrays of pairs of classes do not fit together");
    }

    void solve(double goal, int64_t steps_a_row, int n_threads) {
        n_threads = int(std::min(double(n_threads), 1.0 + total_values / values_per_thread));
        in_turns(int64_t(pairs.size()), n_threads, [&] {
            return [&, scratch = std::unique_ptr<float[]>(new float[size_t(class_pair_scratch(largest))])](int64_t k) {
                const ClassPair& pair = pairs[size_t(k)];
                solve_class_pair(pair, chosen.pairs->f32, scratch.get(), goal,
                                 steps_a_row * (pair.first + pair.second));
            };
        });
    }

private:
    std::vector<ClassPair> pairs;
    int64_t largest = 0;
    double total_values = 0.0;
};

void bind_many(nb::module_& m) {
    m.def("solve_blocks", &solve_blocks, nb::arg("grams"), nb::arg("bounds"), nb::arg("pieces"), nb::arg("y"),
          nb::arg("dual").noconvert(), nb::arg("margins"), nb::arg("intercept"), nb::arg("max_steps"),
          nb::arg("n_threads"), "Solve problems of one block each, side by side.");
    m.def("class_pair_scratch", &class_pair_scratch, nb::arg("rows"), "Numbers of float32 that a pair needs as scratch.");
    m.def("solve_class_pairs",
          [](const ClassPairs::Values& first, In<float, 1> between, const ClassPairs::Values& second,
             In<double, 2> pieces, Out<double, 1> dual, bool intercept, double goal, int64_t steps_a_row,
             int n_threads) {
              ClassPairs pairs(first, between, second, pieces, dual, intercept);
              nb::gil_scoped_release release;
              pairs.solve(goal, steps_a_row, n_threads);
          },
          nb::arg("first"), nb::arg("between").noconvert(), nb::arg("second"), nb::arg("pieces"),
          nb::arg("dual").noconvert(), nb::arg("intercept"), nb::arg("goal"), nb::arg("steps_a_row"),
          nb::arg("n_threads"), "Solve pairs of classes whose kernel values are stored.");
}

// ---- large factorisations --------------------------------------------------------------------------------------

template <class T> void bind_cholesky(nb::module_& m) {
    m.def("factor_columns",
          [](Out<T, 2> matrix, int64_t begin, int64_t end, int n_threads) {
              const int64_t n = int64_t(matrix.shape(0));
              const auto whole = [n](int64_t column) { return column == n || column % tile_width == 0; };
              if (int64_t(matrix.shape(1)) != n || n > INT32_MAX || begin < 0 || begin > end || end > n ||
                  !whole(begin) || !whole(end))
                  throw std::invalid_argument("no columns of a square matrix, in whole tiles");
              nb::gil_scoped_release release;
              return factor_columns(matrix.data(), n, begin, end, n_threads);
          },
          nb::arg("matrix").noconvert(), nb::arg("begin"), nb::arg("end"), nb::arg("n_threads"),
          "Cholesky's method on some of the columns.");
    m.def("solve_triangle",
          [](In<T, 2> factor, Out<T, 2> right, bool transposed, int n_threads) {
              const int64_t n = int64_t(factor.shape(0));
              if (int64_t(factor.shape(1)) != n || int64_t(right.shape(1)) != n || n > INT32_MAX)
                  throw std::invalid_argument("right-hand sides do not fit the factor");
              nb::gil_scoped_release release;
              solve_triangle(factor.data(), n, right.data(), int64_t(right.shape(0)), transposed, n_threads);
          },
          nb::arg("factor").noconvert(), nb::arg("right").noconvert(), nb::arg("transposed"), nb::arg("n_threads"),
          "Solutions with a factor, or with its transpose.");
}

// ---- linear passes ---------------------------------------------------------------------------------------------

using Piece = nb::ndarray<const double, nb::ndim<1>, nb::device::cpu>;

StridedPieces strided(const std::vector<Piece>& pieces, int64_t n) {
    StridedPieces to{};
    if (pieces.size() != 6) throw std::invalid_argument("there are six pieces");
    for (size_t k = 0; k < 6; ++k) {
        if (int64_t(pieces[k].shape(0)) != n) throw std::invalid_argument("pieces do not fit the rows");
        to.value[k] = pieces[k].data();
        to.stride[k] = pieces[k].stride(0);
    }
    return to;
}

template <class T> void run(const SvrgPass<T>& pass);
template <> void run(const SvrgPass<float>& pass) { chosen.linear->svrg_f32(pass); }
template <> void run(const SvrgPass<double>& pass) { chosen.linear->svrg_f64(pass); }

void bind_respond(nb::module_& m) {
    m.def("respond",
          [](In<double, 2> margins, const std::vector<Piece>& pieces, Out<double, 2> dual,
             Out<double, 2> curvature, Out<double, 2> value) {
              const int64_t outputs = int64_t(margins.shape(0)), n = int64_t(margins.shape(1));
              for (const auto* out : {&dual, &curvature, &value})
                  if (int64_t(out->shape(0)) != outputs || int64_t(out->shape(1)) != n)
                      throw std::invalid_argument("an array does not fit the margins");
              const StridedPieces p = strided(pieces, n);
              nb::gil_scoped_release release;
              chosen.linear->respond(margins.data(), p, outputs, n, dual.data(), curvature.data(),
                                     value.data());
          },
          nb::arg("margins"), nb::arg("pieces"), nb::arg("dual").noconvert(), nb::arg("curvature").noconvert(),
          nb::arg("value").noconvert(), "Dual coefficients that answer margins, with curvature and loss.");
}

void run(CoordinatePass<float>& pass) { chosen.linear->descend_f32(pass); }
void run(CoordinatePass<double>& pass) { chosen.linear->descend_f64(pass); }

template <class T> void bind_descend(nb::module_& m) {
    m.def("descend",
          [](const Rows<T>& x, In<double, 2> labels, const std::vector<Piece>& pieces, In<double, 1> squares,
             double square_of_one, In<double, 2> slack, Index outputs, Index blocks, int64_t rows_per_block,
             Out<double, 2> weights, Out<double, 2> dual, Out<uint8_t, 2> active, Out<double, 2> sums, int n_threads) {
              const int64_t q = int64_t(labels.shape(0)), n = x.n_rows, width = x.n_features + 1;
              bool fits = int64_t(labels.shape(1)) == n && int64_t(squares.shape(0)) == n &&
                          rows_per_block > 0;
              for (const auto& [rows, columns, expected] :
                   {std::tuple(weights.shape(0), weights.shape(1), width), std::tuple(dual.shape(0), dual.shape(1), n),
                    std::tuple(active.shape(0), active.shape(1), n),
                    std::tuple(slack.shape(0), slack.shape(1), int64_t(2)),
                    std::tuple(sums.shape(0), sums.shape(1), int64_t(6))})
                  fits = fits && int64_t(rows) == q && int64_t(columns) == expected;
              for (int64_t k = 0; fits && k < int64_t(blocks.shape(0)); ++k)
                  fits = blocks.data()[k] >= 0 && blocks.data()[k] <= (n - 1) / rows_per_block;
              for (int64_t k = 0; fits && k < int64_t(outputs.shape(0)); ++k)
                  fits = outputs.data()[k] >= 0 && outputs.data()[k] < q;
              if (!fits) throw std::invalid_argument("arrays of a pass do not fit together");
              const StridedPieces p = strided(pieces, n);
              const RowsView<T> rows = x.view(nullptr, 0);
              nb::gil_scoped_release release;
              in_turns(int64_t(outputs.shape(0)), n_threads, [&] {
                  return [&](int64_t turn) {
                      const int64_t k = outputs.data()[turn];
                      CoordinatePass<T> pass{rows, labels.data() + k * n, p, squares.data(), square_of_one,
                                             slack.data()[2 * k], slack.data()[2 * k + 1], weights.data() + k * width, dual.data() + k * n,
                                             active.data() + k * n, blocks.data(), int64_t(blocks.shape(0)),
                                             rows_per_block, n, 0, 0.0, 0.0, 0.0, 0.0, 0.0};
                      run(pass);
                      double* const sum = sums.data() + 6 * k;
                      sum[0] = std::max(sum[0], pass.largest_rise);
                      sum[1] = std::max(sum[1], pass.largest_fall);
                      sum[2] += pass.gap;
                      sum[3] += pass.conjugate;
                      sum[4] += pass.balance;
                      sum[5] += double(pass.visited);
                  };
              });
          },
          nb::arg("x"), nb::arg("labels"), nb::arg("pieces"), nb::arg("squares"), nb::arg("square_of_one"),
          nb::arg("slack"), nb::arg("outputs"), nb::arg("blocks"), nb::arg("rows_per_block"),
          nb::arg("weights").noconvert(), nb::arg("dual").noconvert(), nb::arg("active").noconvert(),
          nb::arg("sums").noconvert(), nb::arg("n_threads"), "A pass of dual coordinate descent.");
}

void run(ClassPass<float>& pass) { chosen.linear->descend_classes_f32(pass); }
void run(ClassPass<double>& pass) { chosen.linear->descend_classes_f64(pass); }

template <class T> void bind_descend_classes(nb::module_& m) {
    m.def("descend_classes",
          [](const Rows<T>& x, Index classes, In<double, 1> prices, In<double, 1> squares, double slack, Index blocks,
             int64_t rows_per_block, Out<double, 2> weights, Out<double, 2> dual, Out<uint8_t, 1> active) {
              const int64_t n = x.n_rows, n_classes = int64_t(dual.shape(1));
              bool fits = rows_per_block > 0 && int64_t(weights.shape(0)) == x.n_features &&
                          int64_t(weights.shape(1)) == n_classes && n_classes > 1;
              for (const size_t length :
                   {classes.shape(0), prices.shape(0), squares.shape(0), dual.shape(0), active.shape(0)})
                  fits = fits && int64_t(length) == n;
              for (int64_t k = 0; fits && k < int64_t(blocks.shape(0)); ++k)
                  fits = blocks.data()[k] >= 0 && blocks.data()[k] <= (n - 1) / rows_per_block;
              for (int64_t i = 0; fits && i < n; ++i) fits = classes.data()[i] >= 0 && classes.data()[i] < n_classes;
              if (!fits) throw std::invalid_argument("arrays of a pass do not fit together");
              const RowsView<T> rows = x.view(nullptr, 0);
              nb::gil_scoped_release release;
              ClassPass<T> pass{rows, classes.data(), prices.data(), squares.data(), slack, weights.data(), dual.data(),
                                active.data(), blocks.data(), int64_t(blocks.shape(0)), rows_per_block, n, n_classes,
                                0, 0.0, 0.0};
              run(pass);
              return std::tuple(pass.visited, pass.largest, pass.gap);
          },
          nb::arg("x"), nb::arg("classes"), nb::arg("prices"), nb::arg("squares"), nb::arg("slack"), nb::arg("blocks"),
          nb::arg("rows_per_block"), nb::arg("weights").noconvert(), nb::arg("dual").noconvert(),
          nb::arg("active").noconvert(), "A pass of dual coordinate descent for the machine of Crammer and Singer.");
}

void run(const RowsView<float>& rows, const double* coefficients, int64_t n, bool intercept, double* matrix) {
    chosen.linear->add_squares_f32(rows, coefficients, n, intercept, matrix);
}
void run(const RowsView<double>& rows, const double* coefficients, int64_t n, bool intercept, double* matrix) {
    chosen.linear->add_squares_f64(rows, coefficients, n, intercept, matrix);
}

template <class T> void bind_add_squares(nb::module_& m) {
    m.def("add_squares",
          [](const Rows<T>& x, In<double, 1> coefficients, Out<double, 2> matrix) {
              const int64_t width = int64_t(matrix.shape(0));
              if (!x.offsets || int64_t(coefficients.shape(0)) != x.n_rows || int64_t(matrix.shape(1)) != width ||
                  (width != x.n_features && width != x.n_features + 1))
                  throw std::invalid_argument("arrays of a sum of squares do not fit together");
              nb::gil_scoped_release release;
              run(x.view(nullptr, 0), coefficients.data(), x.n_rows, width > x.n_features, matrix.data());
          },
          nb::arg("x"), nb::arg("coefficients"), nb::arg("matrix").noconvert(),
          "Add squares of sparse rows to a lower triangle.");
}

template <class T> void bind_svrg(nb::module_& m) {
    m.def("svrg_pass",
          [](const Rows<T>& x, const Index& rows, const Index& places, In<double, 2> labels,
             const std::vector<Piece>& pieces, double scale, In<double, 1> steps, In<double, 2> anchor,
             In<double, 2> gradient, Out<double, 2> change, bool intercept) {
              const RowsView<T> view = x.view(rows);
              const size_t outputs = labels.shape(0), width = size_t(x.n_features) + 1;
              const int64_t n = int64_t(labels.shape(1));
              bool fits = steps.shape(0) == outputs && places.shape(0) == rows.shape(0);
              for (const auto& shape : {std::pair(anchor.shape(0), anchor.shape(1)),
                                        std::pair(gradient.shape(0), gradient.shape(1)),
                                        std::pair(change.shape(0), change.shape(1))})
                  fits = fits && shape.first == outputs && shape.second == width;
              for (int64_t s = 0; fits && s < view.size; ++s) fits = places.data()[s] >= 0 && places.data()[s] < n;
              if (!fits) throw std::invalid_argument("arrays of a pass do not fit together");
              const StridedPieces p = strided(pieces, n);
              nb::gil_scoped_release release;
              std::vector<double> scratch(width);
              for (size_t q = 0; q < outputs; ++q)
                  run(SvrgPass<T>{view, places.data(), labels.data() + int64_t(q) * n, p, scale, steps.data()[q],
                                  anchor.data() + q * width, gradient.data() + q * width, change.data() + q * width,
                                  scratch.data(), intercept});
          },
          nb::arg("x"), nb::arg("rows"), nb::arg("places"), nb::arg("labels"), nb::arg("pieces"), nb::arg("scale"),
          nb::arg("steps"), nb::arg("anchor"), nb::arg("gradient"), nb::arg("change").noconvert(), nb::arg("intercept"),
          "Inner loop of stochastic variance reduced gradient.");
}

}  // namespace

void bind_solvers(nb::module_& m) {
    nb::class_<BlockSolve>(m, "BlockSolve", "A solve of one block, which has begun or will in the end.")
        .def("finish", &BlockSolve::finish, "Wait until it is done, and return its operations.");
    bind_block_solver<double>(
        m, "solve_block", nb::arg("gram"),
        [](const BlockProblem<double>& problem, double tolerance, double absolute, int max_steps) {
            solve_block(problem, chosen.pairs->f64, tolerance, absolute, max_steps);
        },
        "Solve one block for every output.");
    bind_pairs<float>(m, &PairTable::f32);
    bind_pairs<double>(m, &PairTable::f64);
    bind_many(m);
    bind_cholesky<float>(m);
    bind_cholesky<double>(m);
    m.attr("tile_width") = tile_width;
    bind_respond(m);
    bind_svrg<float>(m);
    bind_svrg<double>(m);
    bind_descend<float>(m);
    bind_descend<double>(m);
    bind_descend_classes<float>(m);
    bind_descend_classes<double>(m);
    bind_add_squares<float>(m);
    bind_add_squares<double>(m);
}

}  // namespace dimargin
