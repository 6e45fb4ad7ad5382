// Losses and steps that are no products of matrices: plain loops, which the compiler makes vectors of where that cannot
// change a bit. Included by every implementation, and compiled for its instructions.
#pragma once
#include "implementation.h"

namespace fedtrip {

// softmax(z) = exp(z - max z) / sum; every probability is exp times 1/(sum) times the scale.
static void softmax_gradient(const float* z, const int64_t* labels, const Batch& batch, int64_t classes, float scale, float* d) {
  for (int64_t b = 0; b < batch.n; b++, z += classes, d += classes) {
    float largest = z[0], sum = 0.0f;
    for (int64_t o = 1; o < classes; o++) largest = z[o] > largest ? z[o] : largest;
    for (int64_t o = 0; o < classes; o++) d[o] = exp_fixed(z[o] - largest);
    for (int64_t o = 0; o < classes; o++) sum = sum + d[o];
    const float factor = scale / sum;
    for (int64_t o = 0; o < classes; o++) d[o] = d[o] * factor;
    d[labels[batch.row(b)]] -= scale;
  }
}

static void softmax_sums(const float* z, const int64_t* labels, const Batch& batch, int64_t classes, double* loss,
                  int64_t* hits) {
  for (int64_t b = 0; b < batch.n; b++, z += classes) {
    int64_t largest = 0;
    float sum = 0.0f;
    for (int64_t o = 1; o < classes; o++)
      if (z[o] > z[largest] || (z[o] != z[o] && z[largest] == z[largest])) largest = o;
    for (int64_t o = 0; o < classes; o++) sum = sum + exp_fixed(z[o] - z[largest]);
    const int64_t label = labels[batch.row(b)];
    *hits += largest == label;
    *loss += log_fixed(static_cast<double>(sum)) + (static_cast<double>(z[largest]) - static_cast<double>(z[label]));
  }
}

// h = g + c + a*w; m = beta*m + h; w = w - lr*m, where c and m may be missing.
static void sgd_step(const Sgd& rule, float* w, float* m, const float* c, const float* g, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    float h = c ? g[i] + c[i] : g[i];
    if (rule.a != 0) h = multiply_add(rule.a, w[i], h);
    if (m) h = m[i] = multiply_add(rule.beta, m[i], h);
    w[i] = multiply_add(-rule.lr, h, w[i]);
  }
}

static void exp_all(const float* x, int64_t n, float* y) {
  for (int64_t i = 0; i < n; i++) y[i] = exp_fixed(x[i]);
}

static void log_all(const float* x, int64_t n, float* y) {
  for (int64_t i = 0; i < n; i++) y[i] = log_fixed(x[i]);
}

}  // namespace fedtrip
