// The C interface of arithmetic on vectors: the few operations of methods, server and scores whose speed matters.
//
// Every multiplication and every addition is rounded on its own, and sums have one order, whatever the processor:
// src/fedtrip/native/plain.py computes the same bits without this library.
//
// A sum of n numbers is made in float64 in 16 lanes. Lane i starts at 0 and takes the numbers i, i+16, i+32, ... one
// after the other; then lane i adds lane i+8 (i < 8), i+4 (i < 4), i+2 (i < 2), i+1 (i = 0): lane 0 is the sum.
#pragma once
#include <cstdint>

#include "chain.h"

#ifdef __cplusplus
extern "C" {
#endif

// y = y + a*x, in float32.
FEDTRIP_EXPORT void fedtrip_axpy(float* y, float a, const float* x, int64_t n);
// sum = sum + weight*x, in float64.
FEDTRIP_EXPORT void fedtrip_add_weighted(double* sum, const float* x, int64_t n, double weight);

// Sums in 16 lanes: of x, of x*y.
FEDTRIP_EXPORT double fedtrip_total(const float* x, int64_t n);
FEDTRIP_EXPORT double fedtrip_total_double(const double* x, int64_t n);
FEDTRIP_EXPORT double fedtrip_dot(const float* x, const float* y, int64_t n);
// The dot product of each pair of rows of two matrices (rows x columns, contiguous).
FEDTRIP_EXPORT void fedtrip_row_dots(const float* x, const float* y, int64_t rows, int64_t columns, double* dots);

// softmax(z/temperature) of each row: e_j = exp(z_j/temperature - largest), divided by their sum in 16 lanes.
FEDTRIP_EXPORT void fedtrip_softmax_rows(const float* z, int64_t rows, int64_t columns, double temperature,
                                         double* softmax);
// exp in float64, within 2 units in the last place; below -708 it is 0, above 709 infinite.
FEDTRIP_EXPORT void fedtrip_exp_double(const double* x, int64_t n, double* y);

#ifdef __cplusplus
}
#endif
