// The processor's vectors, and what the kernels do with them. The only file that knows how wide they are.
//
// Reductions always have 16 logical lanes (GROUP), whatever VL is: with 8 they are made in two halves. Every
// multiply-add is explicit. That is why all builds give the same bits. The `wide` build has 16 lanes on AVX2: it is
// slow, and there to show on any machine that 8 and 16 lanes agree.
#pragma once
#include <immintrin.h>

#include <cstdint>
#include <cstring>

#define INLINE inline __attribute__((always_inline))

namespace fedtrip {
namespace {

constexpr int GROUP = 16;
#if defined(__AVX512F__) || defined(FEDTRIP_WIDE)
constexpr int VL = 16, MOST_VECTORS = 4, MOST_ROWS = 6, MOST_TAPS = 6;
#else
constexpr int VL = 8, MOST_VECTORS = 2, MOST_ROWS = 6, MOST_TAPS = 3;
#endif
constexpr int MOST_OUTPUTS = 4;  // of a tile of weight gradients

typedef float V __attribute__((vector_size(VL * 4)));
typedef float UnalignedV __attribute__((vector_size(VL * 4), aligned(4), may_alias));
typedef int32_t I __attribute__((vector_size(VL * 4)));
typedef int32_t UnalignedI __attribute__((vector_size(VL * 4), aligned(4), may_alias));

INLINE V load(const float* p) { return *reinterpret_cast<const UnalignedV*>(p); }
INLINE void store(float* p, V v) { *reinterpret_cast<UnalignedV*>(p) = v; }
INLINE V broadcast(float value) { return value - V{}; }

#if defined(FEDTRIP_WIDE)

INLINE V multiply_add(V a, V b, V c) {
  __m256 x[2], y[2], z[2];
  std::memcpy(x, &a, 64);
  std::memcpy(y, &b, 64);
  std::memcpy(z, &c, 64);
  for (int i = 0; i < 2; i++) z[i] = _mm256_fmadd_ps(x[i], y[i], z[i]);
  std::memcpy(&c, z, 64);
  return c;
}
INLINE V load_first(const float* p, int64_t n) {
  V v{};
  for (int i = 0; i < VL && i < n; i++) v[i] = p[i];
  return v;
}
INLINE void store_first(float* p, V v, int64_t n) {
  for (int i = 0; i < VL && i < n; i++) p[i] = v[i];
}
INLINE I load_bytes(const int8_t* p) {
  I v;
  for (int i = 0; i < VL; i++) v[i] = p[i];
  return v;
}
INLINE void store_bytes(int8_t* p, I v) {
  for (int i = 0; i < VL; i++) p[i] = static_cast<int8_t>(v[i]);
}

#elif defined(__AVX512F__)

INLINE V multiply_add(V a, V b, V c) { return _mm512_fmadd_ps(a, b, c); }
INLINE __mmask16 first(int64_t n) { return n >= VL ? 0xffff : n <= 0 ? 0 : static_cast<__mmask16>((1u << n) - 1); }
INLINE V load_first(const float* p, int64_t n) { return _mm512_maskz_loadu_ps(first(n), p); }
INLINE void store_first(float* p, V v, int64_t n) { _mm512_mask_storeu_ps(p, first(n), v); }
INLINE I load_bytes(const int8_t* p) {
  return reinterpret_cast<I>(_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
}
INLINE void store_bytes(int8_t* p, I v) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtepi32_epi8(reinterpret_cast<__m512i>(v)));
}

#else

INLINE V multiply_add(V a, V b, V c) { return _mm256_fmadd_ps(a, b, c); }
INLINE __m256i first(int64_t n) {
  const I lane = {0, 1, 2, 3, 4, 5, 6, 7};
  return reinterpret_cast<__m256i>(lane < static_cast<int32_t>(n < 8 ? n : 8));
}
INLINE V load_first(const float* p, int64_t n) { return n >= VL ? load(p) : _mm256_maskload_ps(p, first(n)); }
INLINE void store_first(float* p, V v, int64_t n) {
  if (n >= VL) store(p, v);
  else _mm256_maskstore_ps(p, first(n), v);
}
INLINE I load_bytes(const int8_t* p) {
  return reinterpret_cast<I>(_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
}
INLINE void store_bytes(int8_t* p, I v) {
  const __m256i all = reinterpret_cast<__m256i>(v);
  const __m128i words = _mm_packs_epi32(_mm256_castsi256_si128(all), _mm256_extracti128_si256(all, 1));
  _mm_storel_epi64(reinterpret_cast<__m128i*>(p), _mm_packs_epi16(words, words));
}

#endif

INLINE V rectified(V v) { return v <= 0 ? V{} : v; }  // NaN stays
INLINE V where_alive(V y, V d) { return y <= 0 ? V{} : d; }

// The sum of 16 lanes as a tree: 8 + 8, 4 + 4, 2 + 2, 1 + 1.
INLINE float sum_of_group(const float* lanes) {
  float t[GROUP];
  std::memcpy(t, lanes, sizeof t);
  for (int half = GROUP / 2; half; half /= 2)
    for (int i = 0; i < half; i++) t[i] += t[i + half];
  return t[0];
}

// b[j][i] = a[i][j] for i, j < 8.
INLINE void transpose8(const float* const* a, float* b, int64_t b_row) {
  __m256 r[8], u[8];
  for (int i = 0; i < 8; i++) r[i] = _mm256_loadu_ps(a[i]);
  for (int i = 0; i < 8; i += 2) {
    u[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
    u[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
  }
  for (int i = 0; i < 8; i += 4)
    for (int j = 0; j < 2; j++) {
      r[i + 2 * j] = _mm256_shuffle_ps(u[i + j], u[i + 2 + j], 0x44);
      r[i + 2 * j + 1] = _mm256_shuffle_ps(u[i + j], u[i + 2 + j], 0xee);
    }
  for (int i = 0; i < 4; i++) {
    _mm256_storeu_ps(b + i * b_row, _mm256_permute2f128_ps(r[i], r[i + 4], 0x20));
    _mm256_storeu_ps(b + (i + 4) * b_row, _mm256_permute2f128_ps(r[i], r[i + 4], 0x31));
  }
}

// b[column][r] = row(r)[column], in squares of 8; the last square of a side reaches back, not beyond.
template <class Row>
INLINE void transpose(Row row, float* b, int64_t b_row, int64_t rows, int64_t columns) {
  if (rows < 8 || columns < 8) {
    for (int64_t r = 0; r < rows; r++)
      for (int64_t c = 0; c < columns; c++) b[c * b_row + r] = row(r)[c];
    return;
  }
  for (int64_t r0 = 0; r0 < rows; r0 += 8) {
    const int64_t r = r0 + 8 > rows ? rows - 8 : r0;
    for (int64_t c0 = 0; c0 < columns; c0 += 8) {
      const int64_t c = c0 + 8 > columns ? columns - 8 : c0;
      const float* a[8];
      for (int i = 0; i < 8; i++) a[i] = row(r + i) + c;
      transpose8(a, b + c * b_row + r, b_row);
    }
  }
}

}  // namespace
}  // namespace fedtrip
