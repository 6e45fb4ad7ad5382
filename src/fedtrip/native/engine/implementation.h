// What an implementation of the chain does: the scalar reference, and the kernels for each kind of vectors.
#pragma once
#include <memory>

#include "layers.h"
#include "scalars.h"

namespace fedtrip {

// Some samples of x: sample i is row rows[i], or row i where there are no rows.
struct Batch {
  const float* x;
  const int64_t* rows;
  int64_t n;
  int64_t row(int64_t i) const { return rows ? rows[i] : i; }
};

// One step of SGD: h = g + c + a*w; m = beta*m + h; w = w - lr*m.
struct Sgd {
  float lr, beta, a;
};

// A training under way: the caller's vectors. m and c are null where there is no momentum and no constant.
struct Training {
  float *w, *m;
  const float* c;
  Sgd rule;
};

// What becomes of a gradient: it is written to g, or added to it.
struct Gradient {
  float* g;
  bool accumulate;
};

class Chain {
 public:
  virtual ~Chain() = default;
  // The parameters of the calls that follow: not a copy, the caller's vector stays where and as it is.
  virtual void use(const float* w) = 0;
  // The outputs of a batch stay in the chain until the next call; with `keep` also what backward needs. Without
  // `dropout` such layers do nothing.
  virtual void forward(const Batch& batch, const Dropout* dropout, bool keep) = 0;
  virtual void copy_outputs(float* outputs) = 0;  // (sample, output)
  virtual void copy_tap(float* tapped) = 0;       // (sample, place)
  // From the gradient of the outputs (and of the tap's values, or null) of the last batch.
  virtual void backward(const float* d_outputs, const float* d_tap, const Gradient& into) = 0;
  // The same, and each parameter of the training moves as soon as its gradient is there.
  virtual void step(const float* d_outputs, const Training& training) = 0;
  // How many samples are evaluated at once: the most that fit the caches.
  virtual int64_t evaluation_batch() const = 0;
};

// The functions of one implementation.
struct Implementation {
  const char* name;
  std::unique_ptr<Chain> (*make)(const Plan& plan);
  void (*softmax_gradient)(const float* z, const int64_t* labels, const Batch& batch, int64_t classes, float scale,
                           float* d);
  // Adds to loss and hits, sample by sample.
  void (*softmax_sums)(const float* z, const int64_t* labels, const Batch& batch, int64_t classes, double* loss,
                       int64_t* hits);
  void (*sgd_step)(const Sgd& rule, float* w, float* m, const float* c, const float* g, int64_t n);
  void (*exp)(const float* x, int64_t n, float* y);
  void (*log)(const float* x, int64_t n, float* y);
};

extern const Implementation reference, avx2, wide, avx512;

}  // namespace fedtrip
