// The two micro-kernels. Everything that multiplies is one of them.
#pragma once
#include "memory.h"

namespace fedtrip {
namespace {

// The terms of a sum: three nested loops, and how far both factors move in each of them.
struct Terms {
  int64_t channels, rows, columns;
  int64_t vector_channel, vector_row, vector_column;  // the factor that is read as vectors
  int64_t scalar_channel, scalar_row, scalar_column;  // the factor that is read as single numbers
};

// One loop only.
INLINE Terms line(int64_t count, int64_t vector_step, int64_t scalar_step) {
  return {1, 1, count, 0, 0, vector_step, 0, 0, scalar_step};
}

// sum[r][v] += over the terms, in order, of scalars[term + r*next] * vectors[term + v*VL ...]. NEXT_IS_1: next = 1.
template <int R, int N, bool NEXT_IS_1>
INLINE void add_terms(V (&sum)[R][N], const float* vectors, const float* scalars, const Terms& t, int64_t next) {
  const int64_t columns = t.columns, vector_column = t.vector_column, scalar_column = t.scalar_column;
  for (int64_t c = 0; c < t.channels; c++)
    for (int64_t y = 0; y < t.rows; y++) {
      const float* x = vectors + c * t.vector_channel + y * t.vector_row;
      const float* s = scalars + c * t.scalar_channel + y * t.scalar_row;
      for (int64_t i = 0; i < columns; i++, x += vector_column, s += scalar_column) {
        V v[N];
        for (int n = 0; n < N; n++) v[n] = load(x + n * VL);
#pragma GCC unroll 8
        for (int r = 0; r < R; r++) {
          const V b = broadcast(s[NEXT_IS_1 ? r : r * next]);
          for (int n = 0; n < N; n++) sum[r][n] = multiply_add(b, v[n], sum[r][n]);
        }
      }
    }
}

// A tile of R x N sums: begins with first(row, lane), ends in done(row, lane, sum).
template <int R, int N, bool NEXT_IS_1, class First, class Done>
INLINE void tile(const float* vectors, const float* scalars, const Terms& t, int64_t next, First first, Done done) {
  V sum[R][N];
  for (int r = 0; r < R; r++)
    for (int n = 0; n < N; n++) sum[r][n] = first(r, n * VL);
  add_terms<R, N, NEXT_IS_1>(sum, vectors, scalars, t, next);
  for (int r = 0; r < R; r++)
    for (int n = 0; n < N; n++) done(r, n * VL, sum[r][n]);
}

template <int N, bool NEXT_IS_1, class First, class Done>
INLINE void tile_of_rows(int rows, const float* vectors, const float* scalars, const Terms& t, int64_t next, First first,
                         Done done) {
  switch (rows) {
    case 1: return tile<1, N, NEXT_IS_1>(vectors, scalars, t, next, first, done);
    case 2: return tile<2, N, NEXT_IS_1>(vectors, scalars, t, next, first, done);
    case 3: return tile<3, N, NEXT_IS_1>(vectors, scalars, t, next, first, done);
    case 4: return tile<4, N, NEXT_IS_1>(vectors, scalars, t, next, first, done);
    case 5: return tile<5, N, NEXT_IS_1>(vectors, scalars, t, next, first, done);
    default: return tile<6, N, NEXT_IS_1>(vectors, scalars, t, next, first, done);
  }
}

// A tile of so many rows and vectors.
template <bool NEXT_IS_1, class First, class Done>
INLINE void block(int rows, int vectors_wide, const float* vectors, const float* scalars, const Terms& t, int64_t next,
                  First first, Done done) {
  switch (vectors_wide) {
    case 1: return tile_of_rows<1, NEXT_IS_1>(rows, vectors, scalars, t, next, first, done);
    case 2: return tile_of_rows<2, NEXT_IS_1>(rows, vectors, scalars, t, next, first, done);
    default:
      if constexpr (MOST_VECTORS > 2) {
        if (vectors_wide == 3) return tile_of_rows<3, NEXT_IS_1>(rows, vectors, scalars, t, next, first, done);
        return tile_of_rows<4, NEXT_IS_1>(rows, vectors, scalars, t, next, first, done);
      }
  }
}

// Rows in blocks of at most `most`, as even as can be: 16 in blocks of 6 are 6, 5 and 5.
struct Split {
  int64_t rows, blocks;
  Split(int64_t rows, int64_t most) : rows(rows), blocks((rows + most - 1) / most) {}
  int size(int64_t block) const { return static_cast<int>(rows / blocks + (block < rows % blocks)); }
};

INLINE int vectors_left(int64_t lanes) {
  const int64_t vectors = (lanes + VL - 1) / VL;
  return static_cast<int>(vectors < MOST_VECTORS ? vectors : MOST_VECTORS);
}

// Lanes that are summed over run by run: a run is `lanes` neighbours, the next run (of `runs` in a row) lies `d_run`
// and `x_run` further, the next row `d_row` and `x_row`.
struct Runs {
  int64_t rows, runs, lanes;
  int64_t d_row, d_run, x_row, x_run;
};

// sums[o][k][16 lanes] += over all runs of d[o][lane] * x[taps[k] + lane]. What lies beyond a run is not touched.
template <int O, int K>
INLINE void weight_tile(float* sums, int64_t sums_output, const float* d, int64_t d_output, const float* x,
                        const int64_t* taps, const Runs& runs) {
  for (int half = 0; half < GROUP; half += VL) {
    V sum[O][K];
    for (int o = 0; o < O; o++)
      for (int k = 0; k < K; k++) sum[o][k] = load(sums + o * sums_output + k * GROUP + half);
    const int64_t whole = runs.lanes / GROUP * GROUP, rest = runs.lanes - whole - half;
    for (int64_t row = 0; row < runs.rows; row++)
      for (int64_t run = 0; run < runs.runs; run++) {
        const float *from = d + row * runs.d_row + run * runs.d_run + half, *at[K];
        for (int k = 0; k < K; k++) at[k] = x + taps[k] + row * runs.x_row + run * runs.x_run + half;
        for (int64_t l = 0; l < whole; l += GROUP) {
          V g[O];
          for (int o = 0; o < O; o++) g[o] = load(from + o * d_output + l);
#pragma GCC unroll 8
          for (int k = 0; k < K; k++) {
            const V v = load(at[k] + l);
            for (int o = 0; o < O; o++) sum[o][k] = multiply_add(g[o], v, sum[o][k]);
          }
        }
        if (rest > 0) {
          for (int k = 0; k < K; k++) {
            const V v = load_first(at[k] + whole, rest);
            for (int o = 0; o < O; o++)
              sum[o][k] = multiply_add(load_first(from + o * d_output + whole, rest), v, sum[o][k]);
          }
        }
      }
    for (int o = 0; o < O; o++)
      for (int k = 0; k < K; k++) store(sums + o * sums_output + k * GROUP + half, sum[o][k]);
  }
}

template <int O>
inline void weight_tiles(float* sums, int64_t sums_output, const float* d, int64_t d_output, const float* x,
                         const int64_t* taps, int64_t count, const Runs& runs) {
  int64_t k = 0;
  for (; k + MOST_TAPS <= count && count - k != MOST_TAPS + 1; k += MOST_TAPS)
    weight_tile<O, MOST_TAPS>(sums + k * GROUP, sums_output, d, d_output, x, taps + k, runs);
  for (; k + 2 <= count; k += 2) weight_tile<O, 2>(sums + k * GROUP, sums_output, d, d_output, x, taps + k, runs);
  for (; k < count; k++) weight_tile<O, 1>(sums + k * GROUP, sums_output, d, d_output, x, taps + k, runs);
}

}  // namespace
}  // namespace fedtrip
