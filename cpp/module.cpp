// The Python module: it chooses the instruction set and registers the bindings. Every call releases the interpreter lock
// for its arithmetic.
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <omp.h>

#include <cstdlib>
#include <string>

#include "bindings.hpp"
#include "block_solver.hpp"
#include "tiled_cholesky.hpp"

namespace dimargin {

InstructionSet chosen;

}  // namespace dimargin

using namespace dimargin;

namespace {

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

// The instruction sets up to the one that the environment names, so that tests can emulate a lesser processor.
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

std::vector<InstructionSet> available;  // This is set once at import, best last.

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
    prepare_threads();

    nb::object api = nb::module_::import_("scipy.linalg.cython_lapack").attr("__pyx_capi__");
    from_capsule(lapack.dpotrf, api, "dpotrf");
    from_capsule(lapack.dpotrs, api, "dpotrs");
    from_capsule(lapack.spotrf, api, "spotrf");
    from_capsule(lapack.spotrs, api, "spotrs");
    api = nb::module_::import_("scipy.linalg.cython_blas").attr("__pyx_capi__");
    from_capsule(blas<float>.gemm, api, "sgemm");
    from_capsule(blas<float>.syrk, api, "ssyrk");
    from_capsule(blas<float>.trsm, api, "strsm");
    from_capsule(blas<double>.gemm, api, "dgemm");
    from_capsule(blas<double>.syrk, api, "dsyrk");
    from_capsule(blas<double>.trsm, api, "dtrsm");

    bind_kernels(m);
    bind_solvers(m);
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
