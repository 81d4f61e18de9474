// The widest vectors of an instruction set (DIMARGIN_ARCH), and functions on them for tile.cpp and pairs.cpp: 2^u,
// horizontal sums, and single values computed like vectors. Everything is internal to the object file, and only
// freestanding headers may be included (tile.cpp says why).
#pragma once
#include <stdint.h>
#include <string.h>
#if defined(__AVX2__)
#include <immintrin.h>
#endif

#ifndef DIMARGIN_ARCH
#error "DIMARGIN_ARCH names the instruction set"
#endif

#define INLINE static inline __attribute__((always_inline))

namespace dimargin {
namespace DIMARGIN_ARCH {
namespace {

#if defined(__AVX512F__)
constexpr int vector_bytes = 64;
#elif defined(__AVX2__)
constexpr int vector_bytes = 32;
#else
constexpr int vector_bytes = 16;
#endif
#if defined(__aarch64__)  // NEON has vectors as short as those of SSE2, but twice as many registers.
constexpr bool neon = true;
#else
constexpr bool neon = false;
#endif

template <class T> struct Simd;
template <> struct Simd<float> {
    typedef float vec __attribute__((vector_size(vector_bytes), may_alias));
    typedef int32_t ivec __attribute__((vector_size(vector_bytes), may_alias));
    typedef uint32_t bits __attribute__((vector_size(vector_bytes), may_alias));  // Unsigned lanes may overflow.
    static constexpr float magic = 12582912.0f;  // Adding 1.5 * 2^23 rounds to an integer in the low bits.
    static constexpr float lowest = -126.0f;
    static constexpr int mantissa = 23;
    // The polynomial approximates (2^f - 1) / f on [-1/2, 1/2]; the relative error of 2^f is at most 1.1e-7.
    static constexpr int terms = 5;
    static constexpr float exp2[terms] = {0.6931470036506653f, 0.24022242426872253f, 0.05550733581185341f,
                                          0.009671512991189957f, 0.001326472731307149f};
};
template <> struct Simd<double> {
    typedef double vec __attribute__((vector_size(vector_bytes), may_alias));
    typedef int64_t ivec __attribute__((vector_size(vector_bytes), may_alias));
    typedef uint64_t bits __attribute__((vector_size(vector_bytes), may_alias));
    static constexpr double magic = 6755399441055744.0;  // 1.5 * 2^52
    static constexpr double lowest = -1022.0;
    static constexpr int mantissa = 52;
    static constexpr int terms = 11;  // The error is 1e-17.
    static constexpr double exp2[terms] = {
        0.69314718055994530942,    0.2402265069591009822,     0.055504108664821594339,   0.0096181291076088685273,
        0.001333355814641693531,   0.00015403530441736050155, 0.000015252733829836118394, 1.3215442587921689653e-6,
        1.0178062445845773521e-7,  7.0725859492692236999e-9,  4.4549605981865183938e-10};
};

template <class T> using Vec = typename Simd<T>::vec;
template <class T> constexpr int lanes() { return vector_bytes / int(sizeof(T)); }

// Loads up to a vector of numbers, padded with zeros.
template <class T> class FirstLanes {
public:
    explicit FirstLanes(int64_t n) : count(n < lanes<T>() ? int(n) : lanes<T>()) {
#if defined(__AVX2__) && !defined(__AVX512F__)
        for (int i = 0; i < lanes<T>(); ++i) mask[i] = i < count ? -1 : 0;
#endif
    }
    Vec<T> load(const T* from) const {
#if defined(__AVX512F__)
        if constexpr (sizeof(T) == sizeof(float)) return (Vec<T>)_mm512_maskz_loadu_ps(__mmask16((1u << count) - 1), from);
        else return (Vec<T>)_mm512_maskz_loadu_pd(__mmask8((1u << count) - 1), from);
#elif defined(__AVX2__)
        if constexpr (sizeof(T) == sizeof(float)) return (Vec<T>)_mm256_maskload_ps(from, (__m256i)mask);
        else return (Vec<T>)_mm256_maskload_pd(from, (__m256i)mask);
#else
        Vec<T> values = {};
        if (count == lanes<T>()) memcpy(&values, from, sizeof values);
        else for (int i = 0; i < count; ++i) values[i] = from[i];
        return values;
#endif
    }

private:
    const int count;
#if defined(__AVX2__) && !defined(__AVX512F__)
    typename Simd<T>::ivec mask;
#endif
};

// 2^f for f in [-1/2, 1/2].
template <class T> INLINE Vec<T> exp2_fraction(Vec<T> f) {
    typedef Simd<T> S;
    Vec<T> p = f * S::exp2[S::terms - 1] + S::exp2[S::terms - 2];
#pragma GCC unroll 16
    for (int t = S::terms - 3; t >= 0; --t) p = p * f + S::exp2[t];
    return p * f + T(1);
}

// 2^u for u <= 0, and zero for u < least. `least` is at least the exponent of the smallest normal number, because
// subnormal products would be slow, and are negligible in a margin.
template <class T> INLINE Vec<T> exp2_nonpositive(Vec<T> u, T least) {
    typedef Simd<T> S;
    typedef typename S::bits Bits;
#if defined(__AVX512F__)  // AVX-512 needs two instructions instead of six.
    if constexpr (sizeof(T) == sizeof(float)) {
        const __m512 v = (__m512)u, whole = _mm512_maskz_roundscale_ps(0xffff, v, 0);
        const __m512 p = (__m512)exp2_fraction<T>((Vec<T>)_mm512_sub_ps(v, whole));
        const __mmask16 normal = _mm512_cmp_ps_mask(v, _mm512_set1_ps(least), _CMP_NLT_UQ);
        return (Vec<T>)_mm512_maskz_scalef_ps(normal, p, whole);
    }
#endif
    const Vec<T> zero = {}, lowest = zero + least;
    u = u < zero ? u : zero;
    const Vec<T> shifted = u + S::magic;  // Below `lowest` this is meaningless, and the result does not use it.
    const Vec<T> fraction = u - (shifted - S::magic);
    const Vec<T> p = exp2_fraction<T>(fraction);
    const Vec<T> scaled = (Vec<T>)((Bits)p + ((Bits)shifted << S::mantissa));
    // u is never NaN. The compiler does not know this, and the other form would check for NaN in four instructions of NEON.
    if constexpr (neon) return u >= lowest ? scaled : zero;
    return u < lowest ? zero : scaled;
}

// Horizontal sums add halves. Element by element they took as long as the products of a short panel.
template <int N> struct Doubles { typedef double vec __attribute__((vector_size(8 * N))); };
template <int N> struct Floats { typedef float vec __attribute__((vector_size(4 * N))); };

template <int N> INLINE double total(typename Doubles<N>::vec v) {
    if constexpr (N == 2) {
        return v[0] + v[1];
    } else {
        typename Doubles<N / 2>::vec half[2];
        memcpy(half, &v, sizeof v);
        return total<N / 2>(half[0] + half[1]);
    }
}

INLINE double horizontal(Vec<double> v) { return total<lanes<double>()>(v); }
INLINE double horizontal(Vec<float> v) {
    constexpr int N = lanes<double>();
    typedef typename Doubles<N>::vec Wide;
    typename Floats<N>::vec half[2];
    memcpy(half, &v, sizeof v);
    return total<N>(__builtin_convertvector(half[0], Wide) + __builtin_convertvector(half[1], Wide));
}

// x * y + z as on vectors, fused if the instruction set has this. Plain expressions on single values are not safe, because
// compilers fuse them differently from vectors.
INLINE float multiply_add(float x, float y, float z) {
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
    return __builtin_fmaf(x, y, z);
#else
    return x * y + z;
#endif
}
INLINE double multiply_add(double x, double y, double z) {
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
    return __builtin_fma(x, y, z);
#else
    return x * y + z;
#endif
}

}  // namespace
}  // namespace DIMARGIN_ARCH
}  // namespace dimargin
