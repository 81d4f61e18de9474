// Bindings of kernel values, and of the hashes of rows.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <cstring>
#include <new>
#include <string>

#include "bindings.hpp"

namespace dimargin {
namespace {

// A second thread pays off from about a millisecond of work. With less work its wake-up costs more than it gains, and far
// more on a busy computer (20 times, measured with one of two cores taken).
constexpr double operations_per_thread = 5e7;

template <class T> int useful_threads(int n_threads, const RowsView<T>& x, const RowsView<T>& z, double numbers_per_row) {
    const double work = double(x.size) * double(z.size) * (numbers_per_row + 16.0);
    return int(std::min(double(n_threads), 1.0 + work / operations_per_thread));
}

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

// The finaliser of splitmix64 (Steele, Lea and Flood, OOPSLA 2014): every bit of the result depends on all bits.
inline uint64_t mixed(uint64_t x) {
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
}

// The hash of a row sums over its nonzero features, so that dense and sparse rows have equal hashes.
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

// Looks up a block of a symmetric matrix of which some rows are stored. Each stored row is read once, sequentially.
template <class T>
void look_up_rows(const T* values, int64_t width, const int64_t* slots, const int64_t* columns, int64_t n, T* out) {
    for (int64_t i = 0; i < n; ++i) {
        if (slots[i] < 0) continue;
        const T* const row = values + slots[i] * width;
        for (int64_t j = 0; j < n; ++j) out[i * n + j] = row[columns[j]];
        for (int64_t j = 0; j < n; ++j)
            if (slots[j] < 0) out[j * n + i] = out[i * n + j];
    }
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
                 self->find_constant();
             }, nb::arg("data"), nb::arg("offsets"), nb::arg("columns"), nb::arg("n_features"))
        .def_ro("n_rows", &Rows<T>::n_rows)
        .def_ro("n_features", &Rows<T>::n_features)
        .def_prop_ro("is_constant", [](const Rows<T>& self) { return self.constant != 0; })
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
              n_threads = useful_threads(n_threads, xv, zv, x.numbers_per_row());
              const int64_t computed = tile<T>().multiply(k, xv, zv, coefficients.data(), int64_t(out.shape(0)),
                                                          out.data(), n_threads);
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
              n_threads = int(std::min(double(n_threads), 1.0 + work / operations_per_thread));
              tile<T>().combine(values.data(), width, slots.data(), n_slots, coefficients.data(), int64_t(out.shape(0)),
                                out.data(), n_threads);
          },
          nb::arg("values").noconvert(), nb::arg("slots"), nb::arg("coefficients"), nb::arg("out").noconvert(),
          nb::arg("n_threads"), "out[q, c] += sum_j values[slots[j], c] coefficients[q, j]");

    m.def("look_up_rows",
          [](In<T, 2> values, const Index& slots, const Index& columns, Out<T, 2> out) {
              const int64_t n = int64_t(slots.shape(0)), width = int64_t(values.shape(1));
              if (int64_t(columns.shape(0)) != n || int64_t(out.shape(0)) != n || int64_t(out.shape(1)) != n)
                  throw std::invalid_argument("columns and out do not fit the stored rows");
              for (int64_t i = 0; i < n; ++i)
                  if (slots.data()[i] >= int64_t(values.shape(0)) || columns.data()[i] < 0 || columns.data()[i] >= width)
                      throw nb::index_error("stored row or column out of range");
              nb::gil_scoped_release release;
              look_up_rows<T>(values.data(), width, slots.data(), columns.data(), n, out.data());
          },
          nb::arg("values").noconvert(), nb::arg("slots"), nb::arg("columns"), nb::arg("out").noconvert(),
          "out[i, j] = values[slots[i], columns[j]], or by symmetry values[slots[j], columns[i]], if a slot is not negative");

    m.def("block",
          [](const std::string& kernel, double coef0, int degree, bool difference, double lowest, const Rows<T>& x,
             const Index& xi, const Rows<T>& z, const Index& zi, Out<T, 2> out, int n_threads) {
              check_width(x, z);
              const auto xv = x.view(xi), zv = z.view(zi);
              if (int64_t(out.shape(0)) != xv.size || int64_t(out.shape(1)) != zv.size)
                  throw std::invalid_argument("out does not fit the rows");
              const KernelSpec k = kernel_spec(kernel, coef0, degree, difference, lowest);
              nb::gil_scoped_release release;
              n_threads = useful_threads(n_threads, xv, zv, x.numbers_per_row());
              const int64_t computed = tile<T>().block(k, xv, zv, out.data(), n_threads);
              if (computed < 0) throw std::bad_alloc();
              return computed;
          },
          nb::arg("kernel"), nb::arg("coef0"), nb::arg("degree"), nb::arg("difference"), nb::arg("lowest"), nb::arg("x"),
          nb::arg("x_index"), nb::arg("z"), nb::arg("z_index"), nb::arg("out").noconvert(), nb::arg("n_threads"),
          "out[i, j] = k(x_i, z_j); returns how many were computed");
}

// Parts of a kernel matrix. Each part has some rows and some columns, which are consecutive in the two index arrays.
template <class T> class Parts {
public:
    Parts(const Rows<T>& x, const Index& xi, const Index& x_bounds, const Rows<T>& z, const Index& zi,
          const Index& z_bounds)
        : x(x.view(xi)), z(z.view(zi)), x_bounds(x_bounds.data()), z_bounds(z_bounds.data()),
          count(int64_t(x_bounds.shape(0)) - 1) {
        check_width(x, z);
        if (count < 0 || z_bounds.shape(0) != x_bounds.shape(0) || !bounds(this->x_bounds, this->x.size) ||
            !bounds(this->z_bounds, this->z.size))
            throw std::invalid_argument("bounds do not fit the indices");
        for (int64_t part = 0; part < count; ++part)
            before.push_back(before.back() + size(this->x_bounds, part) * size(this->z_bounds, part));
    }
    int64_t values() const { return before.back(); }

    // Threads call work(part, its rows, its columns, kernel values of the previous parts) for part after part. Returns the
    // sum of the results.
    template <class Work> int64_t share(int n_threads, Work work) const {
        const double operations = double(values()) * (double(x.n_features) + 16.0) * double(sizeof(T) / sizeof(float));
        Turns turns(count);
        int64_t sum = 0, failed = 0;
        in_parallel(int(std::min(double(n_threads), 1.0 + operations / operations_per_thread)), [&] {
            for (int64_t part; (part = turns.take()) >= 0;) {
                RowsView<T> rows = x, columns = z;
                rows.index += x_bounds[part];
                rows.size = size(x_bounds, part);
                columns.index += z_bounds[part];
                columns.size = size(z_bounds, part);
                if (!rows.size || !columns.size) continue;
                const int64_t computed = work(part, rows, columns, before[size_t(part)]);
                if (computed < 0) add(failed, 1);
                else add(sum, computed);
            }
        });
        if (failed) throw std::bad_alloc();
        return sum;
    }

private:
    static int64_t size(const int64_t* bounds, int64_t part) { return bounds[part + 1] - bounds[part]; }
    bool bounds(const int64_t* of, int64_t whole) const {
        return of[0] == 0 && of[count] == whole && std::is_sorted(of, of + count + 1);
    }

    const RowsView<T> x, z;
    const int64_t *const x_bounds, *const z_bounds;
    const int64_t count;
    std::vector<int64_t> before{0};  // number of kernel values in the parts before each part
};

template <class T> void bind_parts(nb::module_& m) {
    m.def("multiply_parts",
          [](const std::string& kernel, double coef0, int degree, bool difference, double lowest, const Rows<T>& x,
             const Index& xi, const Index& x_bounds, const Rows<T>& z, const Index& zi, const Index& z_bounds,
             In<double, 1> coefficients, Out<double, 1> out, int n_threads) {
              const Parts<T> parts(x, xi, x_bounds, z, zi, z_bounds);
              if (coefficients.shape(0) != zi.shape(0) || out.shape(0) != xi.shape(0))
                  throw std::invalid_argument("coefficients and out do not fit the rows");
              const KernelSpec k = kernel_spec(kernel, coef0, degree, difference, lowest);
              nb::gil_scoped_release release;
              return parts.share(n_threads, [&](int64_t part, const auto& rows, const auto& columns, int64_t) {
                  return tile<T>().multiply(k, rows, columns, coefficients.data() + z_bounds.data()[part], 1,
                                            out.data() + x_bounds.data()[part], 1);
              });
          },
          nb::arg("kernel"), nb::arg("coef0"), nb::arg("degree"), nb::arg("difference"), nb::arg("lowest"), nb::arg("x"),
          nb::arg("x_index"), nb::arg("x_bounds"), nb::arg("z"), nb::arg("z_index"), nb::arg("z_bounds"),
          nb::arg("coefficients"), nb::arg("out").noconvert(), nb::arg("n_threads"),
          "As `multiply` for one output, part by part; returns how many kernel values were computed");

    m.def("block_parts",
          [](const std::string& kernel, double coef0, int degree, bool difference, double lowest, const Rows<T>& x,
             const Index& xi, const Index& x_bounds, const Rows<T>& z, const Index& zi, const Index& z_bounds,
             Out<T, 1> out, int n_threads) {
              const Parts<T> parts(x, xi, x_bounds, z, zi, z_bounds);
              if (int64_t(out.shape(0)) != parts.values()) throw std::invalid_argument("out does not fit the rows");
              const KernelSpec k = kernel_spec(kernel, coef0, degree, difference, lowest);
              nb::gil_scoped_release release;
              return parts.share(n_threads, [&](int64_t, const auto& rows, const auto& columns, int64_t before) {
                  return tile<T>().block(k, rows, columns, out.data() + before, 1);
              });
          },
          nb::arg("kernel"), nb::arg("coef0"), nb::arg("degree"), nb::arg("difference"), nb::arg("lowest"), nb::arg("x"),
          nb::arg("x_index"), nb::arg("x_bounds"), nb::arg("z"), nb::arg("z_index"), nb::arg("z_bounds"),
          nb::arg("out").noconvert(), nb::arg("n_threads"),
          "As `block`, part by part, one after the other in `out`; returns how many kernel values were computed");
}

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

}  // namespace

void bind_kernels(nb::module_& m) {
    bind_rows<float>(m, "Rows32");
    bind_rows<double>(m, "Rows64");
    bind_parts<float>(m);
    bind_parts<double>(m);
    bind_mix(m);
    bind_hash<float>(m);
    bind_hash<double>(m);
    m.def("longest_sum", &longest_sum, nb::arg("n_features"), "Additions one after the other, for dense rows.");
    m.attr("LONGEST_CHAIN") = longest_chain;
    m.attr("SPARSE_PARTS") = sparse_parts;
    m.def("columns_a_part", &columns_per_part, nb::arg("n_features"), "Columns that a part of a sparse row's sum has.");
    m.def("longest_product", &longest_product, nb::arg("n_columns"), nb::arg("n_features"), nb::arg("sparse"),
          "Additions one after the other in a product with kernel values, at most.");
    m.def("longest_single_sum", [](bool stored) { return longest_single_sum(stored, tile<float>().lanes); },
          nb::arg("stored"), "Additions one after the other in float32 in a product with float32 kernel values, at most.");
}

}  // namespace dimargin
