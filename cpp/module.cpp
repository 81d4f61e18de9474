// Python bindings. Every call releases the interpreter lock for its arithmetic.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <omp.h>
#include <pthread.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

#include "block_solver.hpp"
#include "linear.hpp"
#include "tile.hpp"

namespace nb = nanobind;
using namespace dimargin;
using std::int64_t;

namespace {

template <class T, int N> using In = nb::ndarray<const T, nb::ndim<N>, nb::c_contig, nb::device::cpu>;
template <class T, int N> using Out = nb::ndarray<T, nb::ndim<N>, nb::c_contig, nb::device::cpu>;
using Index = In<int64_t, 1>;

// ---- instruction sets ------------------------------------------------------------------------------------------

struct InstructionSet {
    const char* name;
    const TileTable<float>* f32;
    const TileTable<double>* f64;
    const PairTable* pairs;
    const LinearTable* linear;
};

std::vector<InstructionSet> of_this_processor() {
    std::vector<InstructionSet> sets{{"baseline", &baseline::table_float, &baseline::table_double, &baseline::pairs,
                                     &baseline::linear}};
#ifdef DIMARGIN_X86
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        sets.push_back({"avx2", &avx2::table_float, &avx2::table_double, &avx2::pairs, &avx2::linear});
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw"))
        sets.push_back({"avx512", &avx512::table_float, &avx512::table_double, &avx512::pairs, &avx512::linear});
#endif
    return sets;
}

std::string names(const std::vector<InstructionSet>& sets) {
    std::string list;
    for (const auto& set : sets) list += (list.empty() ? "" : ", ") + std::string(set.name);
    return list;
}

auto find(const std::vector<InstructionSet>& sets, const std::string& name) {
    return std::find_if(sets.begin(), sets.end(), [&](const InstructionSet& set) { return name == set.name; });
}

constexpr const char* variable = "DIMARGIN_INSTRUCTION_SET";

// Up to the one that the environment names, so that a processor can be used as if it were a lesser one.
std::vector<InstructionSet> allowed() {
    auto sets = of_this_processor();
    const char* const best = std::getenv(variable);
    if (!best || !*best) return sets;
    const auto last = find(sets, best);
    if (last == sets.end())
        throw nb::import_error((std::string(variable) + "=" + best + ": expected one that this processor can run: " +
                                names(sets)).c_str());
    sets.erase(last + 1, sets.end());
    return sets;
}

std::vector<InstructionSet> available;  // set once at import, best last
InstructionSet chosen;
template <class T> const TileTable<T>& tile();
template <> const TileTable<float>& tile() { return *chosen.f32; }
template <> const TileTable<double>& tile() { return *chosen.f64; }

// ---- threads ---------------------------------------------------------------------------------------------------

// GNU libgomp keeps its team of threads in the thread that used it. A child made by fork inherits the record but not
// the threads, and would wait for them for ever; a new thread has no such record. So in a forked child parallel work
// starts from a new thread.
bool forked = false;

template <class F> void in_parallel(int n_threads, F&& work) {
    if (n_threads > 1 && forked) {
        std::thread(std::forward<F>(work)).join();
    } else {
        work();
    }
}

// A second thread pays from about a millisecond of work; below, its wake-up costs more, and on a machine that is busy
// with something else very much more (20 times, measured with one of two cores taken).
constexpr double operations_a_thread = 5e7;

template <class T> int useful_threads(int n_threads, const RowsView<T>& x, const RowsView<T>& z) {
    const double work = double(x.size) * double(z.size) * (double(x.n_features) + 16.0);
    return int(std::min(double(n_threads), 1.0 + work / operations_a_thread));
}

// ---- kernels ---------------------------------------------------------------------------------------------------

KernelSpec kernel_spec(const std::string& name, double coef0, int degree, bool difference, double lowest) {
    KernelSpec k;
    if (name == "linear") k.family = Family::linear;
    else if (name == "poly") k.family = Family::polynomial;
    else if (name == "rbf") k.family = Family::rbf;
    else if (name == "laplacian") k.family = Family::laplacian;
    else throw std::invalid_argument("kernel name " + name);
    k.coef0 = coef0;
    k.degree = degree;
    k.difference = difference;
    k.lowest = lowest;
    return k;
}

// Rows ready for the tile: scaled and centred by the caller, kept alive here.
template <class T> struct Rows {
    In<T, 2> dense;
    std::optional<In<T, 1>> data;
    std::optional<In<int64_t, 1>> offsets;
    std::optional<In<int32_t, 1>> columns;
    int64_t n_rows = 0, n_features = 0;
    std::vector<T> norms;

    RowsView<T> view(const int64_t* index, int64_t size) const {
        return {offsets ? data->data() : dense.data(), norms.empty() ? nullptr : norms.data(),
                offsets ? offsets->data() : nullptr,    columns ? columns->data() : nullptr,
                n_features, index, size};
    }
    RowsView<T> view(const Index& index) const {
        const int64_t size = int64_t(index.shape(0));
        for (int64_t i = 0; i < size; ++i)
            if (index.data()[i] < 0 || index.data()[i] >= n_rows) throw nb::index_error("row index out of range");
        return view(index.data(), size);
    }
    // A damaged CSR array must not make the tile read or write elsewhere.
    void check() const {
        const int64_t stored = std::min(int64_t(data->shape(0)), int64_t(columns->shape(0)));
        bool sound = n_rows >= 0 && offsets->data()[0] == 0 && offsets->data()[n_rows] <= stored;
        for (int64_t i = 0; sound && i < n_rows; ++i) sound = offsets->data()[i] <= offsets->data()[i + 1];
        for (int64_t p = 0; sound && p < offsets->data()[n_rows]; ++p)
            sound = columns->data()[p] >= 0 && columns->data()[p] < n_features;
        if (!sound) throw std::invalid_argument("offsets or columns of the sparse rows are out of range");
    }
    void compute_norms(bool absolute) {
        std::vector<int64_t> all(size_t(n_rows), 0);
        for (int64_t i = 0; i < n_rows; ++i) all[size_t(i)] = i;
        std::vector<T> to(size_t(n_rows), T(0));
        tile<T>().norms(view(all.data(), n_rows), absolute, to.data());
        norms.swap(to);
    }
};

// Every bit of the answer depends on all: the finaliser of splitmix64 (Steele, Lea and Flood, OOPSLA 2014).
inline uint64_t mixed(uint64_t x) {
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
}

// Sum over the features of a row that are not zero, so that dense and sparse rows agree.
template <class T> uint64_t row_hash(const RowsView<T>& x, int64_t i, const uint64_t* columns) {
    const int64_t first = x.offsets ? x.offsets[i] : i * x.n_features;
    const int64_t last = x.offsets ? x.offsets[i + 1] : first + x.n_features;
    uint64_t sum = 0;
    for (int64_t p = first; p < last; ++p) {
        const double value = double(x.values[p]);
        uint64_t bits;
        std::memcpy(&bits, &value, sizeof bits);
        if (value != 0) sum += mixed(bits ^ columns[x.columns ? int64_t(x.columns[p]) : p - first]);
    }
    return sum;
}

template <class T> void check_width(const Rows<T>& x, const Rows<T>& z) {
    if (x.n_features != z.n_features || bool(x.offsets) != bool(z.offsets))
        throw std::invalid_argument("rows of different width or storage");
}

template <class T> void bind_rows(nb::module_& m, const char* name) {
    nb::class_<Rows<T>>(m, name)
        .def("__init__",
             [](Rows<T>* self, In<T, 2> dense) {
                 new (self) Rows<T>();
                 self->dense = dense;
                 self->n_rows = int64_t(dense.shape(0));
                 self->n_features = int64_t(dense.shape(1));
             }, nb::arg("dense"))
        .def("__init__",
             [](Rows<T>* self, In<T, 1> data, In<int64_t, 1> offsets, In<int32_t, 1> columns, int64_t n_features) {
                 new (self) Rows<T>();
                 self->data = data;
                 self->offsets = offsets;
                 self->columns = columns;
                 self->n_rows = int64_t(offsets.shape(0)) - 1;
                 self->n_features = n_features;
                 self->check();
             }, nb::arg("data"), nb::arg("offsets"), nb::arg("columns"), nb::arg("n_features"))
        .def_ro("n_rows", &Rows<T>::n_rows)
        .def_ro("n_features", &Rows<T>::n_features)
        .def("compute_norms", &Rows<T>::compute_norms, nb::arg("absolute"), nb::call_guard<nb::gil_scoped_release>());

    m.def("multiply",
          [](const std::string& kernel, double coef0, int degree, bool difference, double lowest, const Rows<T>& x,
             const Index& xi, const Rows<T>& z, const Index& zi, In<double, 2> coefficients, Out<double, 2> out,
             int n_threads) {
              check_width(x, z);
              const auto xv = x.view(xi), zv = z.view(zi);
              if (coefficients.shape(0) != out.shape(0) || int64_t(coefficients.shape(1)) != zv.size ||
                  int64_t(out.shape(1)) != xv.size)
                  throw std::invalid_argument("coefficients and out do not fit the rows");
              const KernelSpec k = kernel_spec(kernel, coef0, degree, difference, lowest);
              nb::gil_scoped_release release;
              n_threads = useful_threads(n_threads, xv, zv);
              int64_t computed = 0;
              in_parallel(n_threads, [&] {
                  computed = tile<T>().multiply(k, xv, zv, coefficients.data(), int64_t(out.shape(0)), out.data(),
                                                n_threads);
              });
              if (computed < 0) throw std::bad_alloc();
              return computed;
          },
          nb::arg("kernel"), nb::arg("coef0"), nb::arg("degree"), nb::arg("difference"), nb::arg("lowest"), nb::arg("x"),
          nb::arg("x_index"), nb::arg("z"), nb::arg("z_index"), nb::arg("coefficients"), nb::arg("out").noconvert(),
          nb::arg("n_threads"),
          "out[q, i] += sum_j k(x_i, z_j) coefficients[q, j]; returns how many kernel values were computed");

    m.def("combine_rows",
          [](In<T, 2> values, const Index& slots, In<double, 2> coefficients, Out<double, 2> out, int n_threads) {
              const int64_t width = int64_t(values.shape(1)), n_slots = int64_t(slots.shape(0));
              if (int64_t(coefficients.shape(1)) != n_slots || coefficients.shape(0) != out.shape(0) ||
                  int64_t(out.shape(1)) != width)
                  throw std::invalid_argument("coefficients and out do not fit the stored rows");
              for (int64_t j = 0; j < n_slots; ++j)
                  if (slots.data()[j] < 0 || slots.data()[j] >= int64_t(values.shape(0)))
                      throw nb::index_error("stored row out of range");
              nb::gil_scoped_release release;
              const double work = 16.0 * double(n_slots) * double(width) * double(out.shape(0));
              n_threads = int(std::min(double(n_threads), 1.0 + work / operations_a_thread));
              in_parallel(n_threads, [&] {
                  tile<T>().combine(values.data(), width, slots.data(), n_slots, coefficients.data(),
                                    int64_t(out.shape(0)), out.data(), n_threads);
              });
          },
          nb::arg("values").noconvert(), nb::arg("slots"), nb::arg("coefficients"), nb::arg("out").noconvert(),
          nb::arg("n_threads"), "out[q, c] += sum_j values[slots[j], c] coefficients[q, j]");

    m.def("block",
          [](const std::string& kernel, double coef0, int degree, bool difference, double lowest, const Rows<T>& x,
             const Index& xi, const Rows<T>& z, const Index& zi, Out<T, 2> out, int n_threads) {
              check_width(x, z);
              const auto xv = x.view(xi), zv = z.view(zi);
              if (int64_t(out.shape(0)) != xv.size || int64_t(out.shape(1)) != zv.size)
                  throw std::invalid_argument("out does not fit the rows");
              const KernelSpec k = kernel_spec(kernel, coef0, degree, difference, lowest);
              nb::gil_scoped_release release;
              n_threads = useful_threads(n_threads, xv, zv);
              int64_t computed = 0;
              in_parallel(n_threads, [&] { computed = tile<T>().block(k, xv, zv, out.data(), n_threads); });
              if (computed < 0) throw std::bad_alloc();
              return computed;
          },
          nb::arg("kernel"), nb::arg("coef0"), nb::arg("degree"), nb::arg("difference"), nb::arg("lowest"), nb::arg("x"),
          nb::arg("x_index"), nb::arg("z"), nb::arg("z_index"), nb::arg("out").noconvert(), nb::arg("n_threads"),
          "out[i, j] = k(x_i, z_j); returns how many were computed");
}

// ---- block solver ----------------------------------------------------------------------------------------------

// Calls `solve` with the block's problem of every output, side by side.
template <class T, class F>
void for_every_output(In<T, 2> gram, const Index& index, In<double, 2> pieces, In<double, 2> y, Out<double, 2> dual,
                      Out<double, 2> margins, Out<double, 2> change, bool intercept, int n_threads, F&& solve) {
    const int64_t size = int64_t(index.shape(0)), n = int64_t(y.shape(1)), outputs = int64_t(y.shape(0));
    if (int64_t(gram.shape(0)) != size || int64_t(gram.shape(1)) != size || pieces.shape(0) != 6 ||
        int64_t(pieces.shape(1)) != n || int64_t(dual.shape(1)) != n || int64_t(margins.shape(1)) != n ||
        int64_t(change.shape(1)) != size || dual.shape(0) != y.shape(0) || margins.shape(0) != y.shape(0) ||
        change.shape(0) != y.shape(0))
        throw std::invalid_argument("arrays of a block do not fit together");
    for (int64_t i = 0; i < size; ++i)
        if (index.data()[i] < 0 || index.data()[i] >= n) throw nb::index_error("row index out of range");
    const double* p = pieces.data();
    std::exception_ptr failure;
    const int threads = int(std::min<int64_t>(n_threads, outputs));
    {
        nb::gil_scoped_release release;
        in_parallel(threads, [&] {
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads) if (threads > 1)
            for (int64_t q = 0; q < outputs; ++q) {
                try {
                    solve(BlockProblem<T>{size, index.data(), gram.data(),
                                          {p, p + n, p + 2 * n, p + 3 * n, p + 4 * n, p + 5 * n}, y.data() + q * n,
                                          dual.data() + q * n, margins.data() + q * n,
                                          change.data() + q * size, intercept});
                } catch (...) {
#pragma omp critical
                    failure = std::current_exception();
                }
            }
        });
    }
    if (failure) std::rethrow_exception(failure);
}

void bind_blocks(nb::module_& m) {
    m.def("solve_block",
          [](In<double, 2> gram, const Index& index, In<double, 2> pieces, In<double, 2> y, Out<double, 2> dual,
             Out<double, 2> margins, Out<double, 2> change, bool intercept, double tolerance, double absolute,
             int max_steps, int n_threads) {
              for_every_output<double>(gram, index, pieces, y, dual, margins, change, intercept, n_threads,
                                       [&](const BlockProblem<double>& problem) {
                                           solve_block(problem, chosen.pairs->f64, tolerance, absolute, max_steps);
                                       });
          },
          nb::arg("gram"), nb::arg("index"), nb::arg("pieces"), nb::arg("y"), nb::arg("dual").noconvert(),
          nb::arg("margins").noconvert(), nb::arg("change").noconvert(), nb::arg("intercept"), nb::arg("tolerance"),
          nb::arg("absolute"), nb::arg("max_steps"), nb::arg("n_threads"), "Solve one block for every output.");
}

template <class T> void bind_pairs(nb::module_& m, SolvePairs<T> PairTable::* pairs) {
    m.def("solve_pairs",
          [pairs](In<T, 2> gram, const Index& index, In<double, 2> pieces, In<double, 2> y, Out<double, 2> dual,
                  Out<double, 2> margins, Out<double, 2> change, bool intercept, double tolerance, double absolute,
                  int max_steps, int n_threads) {
              for_every_output<T>(gram, index, pieces, y, dual, margins, change, intercept, n_threads,
                                  [&](const BlockProblem<T>& problem) {
                                      solve_pairs(problem, chosen.pairs->*pairs, chosen.pairs->f64, tolerance, absolute,
                                                  max_steps);
                                  });
          },
          nb::arg("gram").noconvert(), nb::arg("index"), nb::arg("pieces"), nb::arg("y"), nb::arg("dual").noconvert(),
          nb::arg("margins").noconvert(), nb::arg("change").noconvert(), nb::arg("intercept"), nb::arg("tolerance"),
          nb::arg("absolute"), nb::arg("max_steps"), nb::arg("n_threads"), "Pair steps in one block for every output.");
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

void bind_mix(nb::module_& m) {
    m.def("mix",
          [](Out<uint64_t, 1> numbers) {
              nb::gil_scoped_release release;
              std::transform(numbers.data(), numbers.data() + numbers.shape(0), numbers.data(), mixed);
          },
          nb::arg("numbers").noconvert(), "Mix the bits of every number, in place.");
}

template <class T> void bind_hash(nb::module_& m) {
    m.def("hash_rows",
          [](const Rows<T>& x, In<uint64_t, 1> columns, Out<uint64_t, 1> out) {
              if (int64_t(columns.shape(0)) != x.n_features || int64_t(out.shape(0)) != x.n_rows)
                  throw std::invalid_argument("columns or out do not fit the rows");
              const RowsView<T> view = x.view(nullptr, 0);
              nb::gil_scoped_release release;
              for (int64_t i = 0; i < x.n_rows; ++i) out.data()[i] = row_hash(view, i, columns.data());
          },
          nb::arg("x"), nb::arg("columns"), nb::arg("out").noconvert(),
          "out[i] = sum of the mixed bits of row i's numbers that are not zero, each with those of its column.");
}

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

template <class F> void from_capsule(F& to, nb::handle api, const char* name) {
    PyObject* capsule = nb::object(api[name]).ptr();
    to = reinterpret_cast<F>(PyCapsule_GetPointer(capsule, PyCapsule_GetName(capsule)));
    if (!to) throw nb::python_error();
}

}  // namespace

NB_MODULE(_core, m) {
    m.doc() = "Compiled core of dimargin: kernel tiles, the block solver and linear passes.";
    available = allowed();
    chosen = available.back();
    pthread_atfork(nullptr, nullptr, [] { forked = true; });

    nb::object api = nb::module_::import_("scipy.linalg.cython_lapack").attr("__pyx_capi__");
    from_capsule(lapack.dpotrf, api, "dpotrf");
    from_capsule(lapack.dpotrs, api, "dpotrs");
    from_capsule(lapack.spotrf, api, "spotrf");
    from_capsule(lapack.spotrs, api, "spotrs");

    bind_rows<float>(m, "Rows32");
    bind_rows<double>(m, "Rows64");
    bind_blocks(m);
    bind_pairs<float>(m, &PairTable::f32);
    bind_pairs<double>(m, &PairTable::f64);
    bind_mix(m);
    bind_hash<float>(m);
    bind_hash<double>(m);
    bind_respond(m);
    bind_svrg<float>(m);
    bind_svrg<double>(m);
    m.def("longest_sum", &longest_sum, nb::arg("n_features"), "Additions one after the other, for dense rows.");
    m.def("longest_product", &longest_product, nb::arg("n_columns"), nb::arg("n_features"), nb::arg("sparse"),
          "Additions one after the other in a product with kernel values, at most.");
    m.def("max_threads", [] { return omp_get_max_threads(); }, "Threads that OpenMP (and threadpoolctl) allow.");
    m.def("instruction_sets", [] {
        std::vector<std::string> list;
        for (const auto& set : available) list.push_back(set.name);
        return list;
    }, "Instruction sets that this processor can run, and DIMARGIN_INSTRUCTION_SET allows, best last.");
    m.def("instruction_set", [] { return std::string(chosen.name); }, "The instruction set in use.");
    m.def("use_instruction_set", [](const std::string& name) {
        const auto set = find(available, name);
        if (set == available.end())
            throw std::invalid_argument("instruction set " + name + " is not available; those that are: " + names(available));
        chosen = *set;
    }, nb::arg("name"), "For tests and benchmarks.");
}
