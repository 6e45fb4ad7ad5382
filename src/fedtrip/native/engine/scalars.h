// Functions of one number in a fixed order of operations, every multiply-add explicit: the same bits on every CPU.
// All are static: each implementation is compiled for other instructions, and must not share code with the others.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstring>

namespace fedtrip {

static inline float multiply_add(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
static inline double multiply_add(double a, double b, double c) { return __builtin_fma(a, b, c); }

// e^x: x = n*log 2 + r, a polynomial of r (Cephes), times 2^n in two steps, so that the largest numbers are reached. 0
// below the smallest normal number, infinity above the largest; NaN stays.
static inline float power_of_two(int32_t n) {
  const uint32_t bits = static_cast<uint32_t>(n + 127) << 23;
  float power;
  std::memcpy(&power, &bits, sizeof power);
  return power;
}

static inline float exp_fixed(float x) {
  const float bounded = x > 89.0f ? 89.0f : (x < -87.33654f ? -87.33654f : x);
  const float n = bounded == bounded ? __builtin_rintf(bounded * 1.44269504f) : 0.0f;
  float r = multiply_add(n, -0.693359375f, bounded);
  r = multiply_add(n, 2.12194440e-4f, r);
  float p = 1.9875691500e-4f;
  p = multiply_add(p, r, 1.3981999507e-3f);
  p = multiply_add(p, r, 8.3334519073e-3f);
  p = multiply_add(p, r, 4.1665795894e-2f);
  p = multiply_add(p, r, 1.6666665459e-1f);
  p = multiply_add(p, r, 0.5f);
  p = multiply_add(p, r * r, r + 1.0f);
  const int32_t whole = static_cast<int32_t>(n), half = whole / 2;
  const float result = p * power_of_two(half) * power_of_two(whole - half);
  return x < -87.33654f ? 0.0f : result;
}

// log x for a positive double: x = m*2^e with m in [sqrt(1/2), sqrt 2), s = (m-1)/(m+1), log m = 2 artanh s.
static inline double log_fixed(double x) {
  if (!(x > 0) || x == HUGE_VAL) return x == 0 ? -HUGE_VAL : (x == HUGE_VAL ? x : NAN);
  int exponent = 0;
  if (x < 2.2250738585072014e-308) x *= 18014398509481984.0, exponent = -54;  // 2^54: a subnormal number
  uint64_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  exponent += static_cast<int>(bits >> 52) - 1022;
  bits = (bits & 0x000fffffffffffffu) | 0x3fe0000000000000u;  // m in [1/2, 1)
  double m;
  std::memcpy(&m, &bits, sizeof m);
  if (m < 0.70710678118654752) m *= 2, exponent -= 1;
  const double s = (m - 1) / (m + 1), z = s * s;
  double p = 1.0 / 21;
  for (int k = 19; k >= 3; k -= 2) p = multiply_add(p, z, 1.0 / k);
  const double tail = 2 * s * (z * p);
  return multiply_add(static_cast<double>(exponent), 0.6931471805599453, 2 * s + tail);
}

static inline float log_fixed(float x) { return static_cast<float>(log_fixed(static_cast<double>(x))); }

// tanh x: near 0 a polynomial of x^2 (Cephes), else 1 - 2/(e^{2|x|} + 1) with the sign of x.
static inline float tanh_fixed(float x) {
  const float size = __builtin_fabsf(x), z = x * x;
  float p = -5.70498872745e-3f;
  p = multiply_add(p, z, 2.06390887954e-2f);
  p = multiply_add(p, z, -5.37397155531e-2f);
  p = multiply_add(p, z, 1.33314422036e-1f);
  p = multiply_add(p, z, -3.33332819422e-1f);
  const float near = multiply_add(p * z, x, x);
  const float far = __builtin_copysignf(1.0f - 2.0f / (exp_fixed(2.0f * size) + 1.0f), x);
  return size < 0.625f ? near : (x == x ? far : x);
}

// Philox4x32-10 (Salmon et al., 2011): four random words for a counter, under a key.
struct Words {
  uint32_t word[4];
};

static inline Words philox(const uint32_t (&counter)[4], uint64_t key) {
  uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
  uint32_t k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; round++, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u) {
    const uint64_t a = static_cast<uint64_t>(0xD2511F53u) * c0, b = static_cast<uint64_t>(0xCD9E8D57u) * c2;
    c0 = static_cast<uint32_t>(b >> 32) ^ c1 ^ k0;
    c1 = static_cast<uint32_t>(b);
    c2 = static_cast<uint32_t>(a >> 32) ^ c3 ^ k1;
    c3 = static_cast<uint32_t>(a);
  }
  return {{c0, c1, c2, c3}};
}

// What decides the masks of dropout in one step.
struct Dropout {
  uint64_t key, step;
};

// The random words of elements 4*four to 4*four + 3 of a batch, (sample, place) in that order.
static inline Words dropout_words(const Dropout& dropout, int64_t layer, uint64_t four) {
  const uint32_t counter[4] = {static_cast<uint32_t>(four),
                               static_cast<uint32_t>(four >> 32) ^ (static_cast<uint32_t>(layer) << 16),
                               static_cast<uint32_t>(dropout.step), static_cast<uint32_t>(dropout.step >> 32)};
  return philox(counter, dropout.key);
}

// What an element with this word is multiplied by: 0 with probability p, else 1/(1 - p).
static inline float dropout_factor(uint32_t word, double p) {
  return word < p * 4294967296.0 ? 0.0f : static_cast<float>(1 / (1 - p));
}

}  // namespace fedtrip
