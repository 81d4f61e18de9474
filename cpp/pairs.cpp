// This file is compiled once per instruction set, under the rules of tile.cpp.
#include "pairs.hpp"

#include "simd.hpp"

namespace dimargin {
namespace DIMARGIN_ARCH {
namespace {

template <class T> using IVec = typename Simd<T>::ivec;
template <class T> constexpr T infinity() { return T(__builtin_inf()); }
constexpr double min_bend = 1e-6;  // Smallest curvature of a pair, relative to its diagonal; duplicate rows have none.

template <class T> INLINE Vec<T> load(const T* from) { return *(const Vec<T>*)from; }

// The largest of a stream of values and its position; the first one if several are equal.
template <class T> struct Largest {
    Vec<T> value = Vec<T>{} - infinity<T>();
    IVec<T> at = {}, place = {};
    inline __attribute__((always_inline)) Largest() {
        for (int k = 0; k < lanes<T>(); ++k) place[k] = k;
    }
    inline __attribute__((always_inline)) void see(Vec<T> v) {
        const IVec<T> larger = v > value;
        value = larger ? v : value;
        at = larger ? place : at;
        place += lanes<T>();
    }
    inline __attribute__((always_inline)) int64_t where() const {
        int best = 0;
        for (int k = 1; k < lanes<T>(); ++k)
            if (value[k] > value[best] || (value[k] == value[best] && at[k] < at[best])) best = k;
        return int64_t(at[best]);
    }
};

template <class T> INLINE T largest_of(Vec<T> v) {
    T best = v[0];
    for (int k = 1; k < lanes<T>(); ++k) best = v[k] > best ? v[k] : best;
    return best;
}

template <class T> struct Solver {
    const PairProblem<T>& p;
    int64_t i = -1, j = -1;
    double step_i = 0.0, step_j = 0.0;
    double score_i = 0.0, score_j = 0.0;  // of the pieces on which the two coefficients move
    bool up_i = true, up_j = true;        // the directions in which their scores say that they move
    double violation = 0.0;
    const T* group = nullptr;  // of the pair, if there are two groups

    const T* row(int64_t t) const {
        if (p.fill) p.fill(p.context, t);
        return p.gram + t * p.stride;
    }

    // The end of the piece of a coefficient to its right (`up`) or left is a bound or the kink at zero.
    bool above(int64_t t, bool up) const { return up ? p.coefficient[t] >= 0.0 : p.coefficient[t] > 0.0; }
    double lower(int64_t t, bool up) const { return p.above && above(t, up) ? 0.0 : p.lower[t]; }
    double upper(int64_t t, bool up) const { return p.above && !above(t, up) ? 0.0 : p.upper[t]; }

    // Adding rise or fall to a score makes it infinite, and never the largest, if its coefficient is at a bound.
    // Otherwise it makes it that of the coefficient's piece.
    T kink(int64_t t, bool up) const { return !p.above ? T(0) : above(t, up) ? p.above[t] : p.below[t]; }
    void mark(int64_t t) const {
        p.rise[t] = p.coefficient[t] < p.upper[t] ? kink(t, true) : -infinity<T>();
        p.fall[t] = p.coefficient[t] > p.lower[t] ? kink(t, false) : infinity<T>();
    }

    void begin() const {
        for (int64_t t = 0; t < p.stride; ++t) {
            p.rise[t] = -infinity<T>();
            p.fall[t] = infinity<T>();
            if (t < p.size) mark(t);
        }
    }

    // Updates the scores after the last step, and chooses the first coefficient of the next pair.
    void follow() {
        static constexpr T none[1] = {};
        const bool moved = i >= 0;
        const T *row_i = moved ? row(i) : none, *row_j = moved ? row(j) : none;
        const T di = T(step_i), dj = T(step_j);
        if (moved) {
            p.score[i] -= di * p.curvature[i];
            p.score[j] -= dj * p.curvature[j];
        }
        Largest<T> first, second;
        Vec<T> most = Vec<T>{} - infinity<T>(), most_of_second = most;
        for (int64_t t = 0; t < p.stride; t += lanes<T>()) {
            Vec<T> s = load(p.score + t);
            if (moved) {
                s = s - (di * load(row_i + t) + dj * load(row_j + t));
                *(Vec<T>*)(p.score + t) = s;
            }
            const Vec<T> up = s + load(p.rise + t), down = -(s + load(p.fall + t));
            if (p.first) {
                const Vec<T> in_first = load(p.first + t), in_second = load(p.second + t);
                const Vec<T> falls = down + in_first, falls_in_second = down + in_second;
                first.see(up + in_first);
                second.see(up + in_second);
                most = falls > most ? falls : most;
                most_of_second = falls_in_second > most_of_second ? falls_in_second : most_of_second;
            } else if (p.intercept) {
                first.see(up);
                most = down > most ? down : most;
            } else {
                const Vec<T> v = up > down ? up : down;
                const Vec<T> clipped = v > Vec<T>{} ? v : Vec<T>{};
                first.see(v > Vec<T>{} ? v * v / load(p.diagonal + t) : v);
                most = clipped > most ? clipped : most;
            }
        }
        violation = double(largest_of<T>(most)) + (p.intercept ? double(largest_of<T>(first.value)) : 0.0);
        i = first.where();
        group = p.first;
        const double of_second = double(largest_of<T>(most_of_second)) + double(largest_of<T>(second.value));
        if (p.first && of_second > violation) {
            violation = of_second;
            i = second.where();
            group = p.second;
        }
    }

    double clip(int64_t t, double step, bool up) const {
        const double low = lower(t, up) - p.coefficient[t], high = upper(t, up) - p.coefficient[t];
        return step < low ? low : step > high ? high : step;
    }

    void move(int64_t t, double step, bool up) const {
        // A step to the end of a piece must end exactly on it.
        const double to = p.coefficient[t] + step, low = lower(t, up), high = upper(t, up);
        p.coefficient[t] = step == high - p.coefficient[t] ? high : step == low - p.coefficient[t] ? low : to;
        mark(t);
    }

    // The partner has the largest gain of the pair's unconstrained step (Fan, Chen, Lin 2005, second order).
    void step_with_intercept() {
        const T si = p.score[i] + p.rise[i], dii = p.diagonal[i];
        const T* values = row(i);
        Largest<T> best;
        const Vec<T> least = Vec<T>{} + T(min_bend) * dii;
        for (int64_t t = 0; t < p.stride; t += lanes<T>()) {
            Vec<T> difference = si - (load(p.score + t) + load(p.fall + t));
            if (group) difference += load(group + t);
            Vec<T> bend = load(p.diagonal + t) + dii - T(2) * load(values + t);
            bend = bend > least ? bend : least;
            best.see(difference > Vec<T>{} ? difference * difference / bend : Vec<T>{} - infinity<T>());
        }
        j = best.where();
        double bend = double(p.diagonal[j]) + double(dii) - 2.0 * double(values[j]);
        bend = bend > min_bend * double(dii) ? bend : min_bend * double(dii);
        const double apart = double(si) - double(p.score[j] + p.fall[j]);
        const double step = -clip(j, -clip(i, apart / bend, true), false);
        step_i = step;
        step_j = -step;
        move(i, step_i, true);
        move(j, step_j, false);
    }

    // The direction in which a coefficient's score, in the form that it has there, is larger.
    bool is_up(T score, int64_t t) const { return score + p.rise[t] > -(score + p.fall[t]); }
    static double piece_score(T score, T kink) { return double(score) + (kink - kink == T(0) ? double(kink) : 0.0); }

    // The partner is the coefficient whose own step gains most after i has taken its step. Both then take the best pair of
    // steps on their pieces (Steinwart, Hush, Scovel 2011: without an intercept two coefficients move independently).
    void step_without_intercept() {
        up_i = is_up(p.score[i], i);
        score_i = piece_score(p.score[i], up_i ? p.rise[i] : p.fall[i]);
        const double kii = double(p.diagonal[i]), alone = clip(i, score_i / kii, up_i);
        const T* values = row(i);
        const T taken = T(alone), inverse = T(1.0 / kii);
        const T rise = p.rise[i], fall = p.fall[i];
        p.rise[i] = -infinity<T>();  // A coefficient is not its own partner.
        p.fall[i] = infinity<T>();
        Largest<T> best;
        for (int64_t t = 0; t < p.stride; t += lanes<T>()) {
            const Vec<T> k = load(values + t), d = load(p.diagonal + t), s = load(p.score + t) - taken * k;
            const Vec<T> up = s + load(p.rise + t), down = -(s + load(p.fall + t)), v = up > down ? up : down;
            const Vec<T> bend = d - k * k * inverse, least = T(min_bend) * d;
            best.see(v > Vec<T>{} ? v * v / (bend > least ? bend : least) : v);
        }
        p.rise[i] = rise;
        p.fall[i] = fall;
        j = best.where();
        step_i = alone;
        step_j = 0.0;
        if (j != i) {
            up_j = is_up(p.score[j] - taken * values[j], j);
            score_j = piece_score(p.score[j], up_j ? p.rise[j] : p.fall[j]);
            best_pair();
        }
        move(i, step_i, up_i);
        if (j != i) move(j, step_j, up_j);
    }

    // The gain of the objective by a pair of steps.
    double gain(double x, double z) const {
        const double kij = double(p.gram[i * p.stride + j]);
        return score_i * x + score_j * z - 0.5 * (double(p.diagonal[i]) * x * x + double(p.diagonal[j]) * z * z) -
               kij * x * z;
    }

    void best_pair() {
        const double kii = double(p.diagonal[i]), kjj = double(p.diagonal[j]);
        const double kij = double(p.gram[i * p.stride + j]), si = score_i, sj = score_j;
        double most = gain(step_i, 0.0);
        const auto consider = [&](double x, double z) {
            const double g = gain(x, z);
            if (g > most) {
                most = g;
                step_i = x;
                step_j = z;
            }
        };
        const double determinant = kii * kjj - kij * kij;
        if (determinant > min_bend * kii * kjj) {
            const double x = (si * kjj - sj * kij) / determinant, z = (sj * kii - si * kij) / determinant;
            if (clip(i, x, up_i) == x && clip(j, z, up_j) == z) return consider(x, z);
        }
        const double ends_i[2] = {lower(i, up_i) - p.coefficient[i], upper(i, up_i) - p.coefficient[i]};
        const double ends_j[2] = {lower(j, up_j) - p.coefficient[j], upper(j, up_j) - p.coefficient[j]};
        for (int e = 0; e < 2; ++e) {
            if (ends_i[e] - ends_i[e] == 0.0) consider(ends_i[e], clip(j, (sj - kij * ends_i[e]) / kjj, up_j));
            if (ends_j[e] - ends_j[e] == 0.0) consider(clip(i, (si - kij * ends_j[e]) / kii, up_i), ends_j[e]);
        }
    }
};

template <class T> PairOutcome solve(const PairProblem<T>& p, double tolerance, double absolute, int64_t max_steps) {
    Solver<T> solver{p};
    solver.begin();
    solver.follow();
    const double relative = tolerance * solver.violation, goal = relative > absolute ? relative : absolute;
    int64_t steps = 0;
    for (; steps < max_steps && solver.violation > goal; ++steps) {
        if (p.intercept) solver.step_with_intercept();
        else solver.step_without_intercept();
        if (solver.step_i == 0.0 && solver.step_j == 0.0) break;  // The step is too small for the precision.
        solver.follow();
    }
    return {steps, solver.violation, goal};
}

}  // namespace

extern const PairTable pairs = {solve<float>, solve<double>};

}  // namespace DIMARGIN_ARCH
}  // namespace dimargin
