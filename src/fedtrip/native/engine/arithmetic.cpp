// Arithmetic on vectors in one order: see arithmetic.h. To be compiled without fused multiply-adds
// (-ffp-contract=off) and without -ffast-math: src/fedtrip/native/plain.py must have the same bits.
#include "arithmetic.h"

#include <cstring>

namespace {

constexpr int64_t lanes = 16;

// The sum of term(0), ..., term(n - 1) in float64, in the order of 16 lanes.
template <typename Term>
inline double lane_sum(int64_t n, Term term) {
  double lane[lanes] = {};
  const int64_t whole = n - n % lanes;
  for (int64_t start = 0; start < whole; start += lanes)
    for (int64_t i = 0; i < lanes; ++i) lane[i] += term(start + i);
  for (int64_t i = 0; whole + i < n; ++i) lane[i] += term(whole + i);
  for (int64_t half = lanes / 2; half > 0; half /= 2)
    for (int64_t i = 0; i < half; ++i) lane[i] += lane[i + half];
  return lane[0];
}

inline double dot(const float* x, const float* y, int64_t n) {
  return lane_sum(n, [=](int64_t i) { return static_cast<double>(x[i]) * static_cast<double>(y[i]); });
}

// exp(x) = 2^k * exp(r) with k the integer nearest to x/ln 2 and r = x - k*ln 2, |r| <= 0.35; exp(r) is its Taylor
// polynomial of degree 13. ln 2 is split so that k times its larger part is exact.
inline double exponential(double x) {
  constexpr double to_integer = 6755399441055744.0;  // 1.5*2^52: what is added to it is rounded to an integer
  constexpr double log2_e = 0x1.71547652b82fep+0, ln2_large = 0x1.62e42fee00000p-1, ln2_small = 0x1.a39ef35793c76p-33;
  constexpr double inverse_factorial[] = {
      1.0 / 6227020800.0, 1.0 / 479001600.0, 1.0 / 39916800.0, 1.0 / 3628800.0, 1.0 / 362880.0, 1.0 / 40320.0,
      1.0 / 5040.0,       1.0 / 720.0,       1.0 / 120.0,      1.0 / 24.0,      1.0 / 6.0,      1.0 / 2.0,
      1.0,                1.0};
  const bool inside = x >= -708.0 && x <= 709.0;
  const double bounded = inside ? x : 0.0;
  const double k = (bounded * log2_e + to_integer) - to_integer;
  const double r = (bounded - k * ln2_large) - k * ln2_small;
  double power = inverse_factorial[0];
  for (int i = 1; i < 14; ++i) power = power * r + inverse_factorial[i];
  const int64_t bits = (static_cast<int64_t>(k) + 1023) << 52;
  double scale;
  std::memcpy(&scale, &bits, sizeof scale);
  if (inside) return power * scale;
  return x < 0 ? 0.0 : x > 0 ? __builtin_inf() : x;  // what is not a number stays so
}

void softmax_row(const float* z, int64_t columns, double temperature, double* softmax) {
  for (int64_t j = 0; j < columns; ++j) softmax[j] = static_cast<double>(z[j]) / temperature;
  double largest = softmax[0];
  for (int64_t j = 1; j < columns; ++j) largest = softmax[j] > largest ? softmax[j] : largest;
  for (int64_t j = 0; j < columns; ++j) softmax[j] = exponential(softmax[j] - largest);
  const double total = lane_sum(columns, [=](int64_t j) { return softmax[j]; });
  for (int64_t j = 0; j < columns; ++j) softmax[j] /= total;
}

}  // namespace

extern "C" {

void fedtrip_axpy(float* y, float a, const float* x, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] += a * x[i];
}

void fedtrip_add_weighted(double* sum, const float* x, int64_t n, double weight) {
  for (int64_t i = 0; i < n; ++i) sum[i] += weight * static_cast<double>(x[i]);
}

double fedtrip_total(const float* x, int64_t n) {
  return lane_sum(n, [=](int64_t i) { return static_cast<double>(x[i]); });
}

double fedtrip_total_double(const double* x, int64_t n) {
  return lane_sum(n, [=](int64_t i) { return x[i]; });
}

double fedtrip_dot(const float* x, const float* y, int64_t n) { return dot(x, y, n); }

void fedtrip_row_dots(const float* x, const float* y, int64_t rows, int64_t columns, double* dots) {
  for (int64_t i = 0; i < rows; ++i) dots[i] = dot(x + i * columns, y + i * columns, columns);
}

void fedtrip_softmax_rows(const float* z, int64_t rows, int64_t columns, double temperature, double* softmax) {
  for (int64_t i = 0; i < rows; ++i) softmax_row(z + i * columns, columns, temperature, softmax + i * columns);
}

void fedtrip_exp_double(const double* x, int64_t n, double* y) {
  for (int64_t i = 0; i < n; ++i) y[i] = exponential(x[i]);
}
}
