// What lies between two stages of a chain, and what a stage is. All of it is made for one number of samples.
#pragma once
#include "../implementation.h"
#include "products.h"

namespace fedtrip {
namespace {

// The values between two stages, and their gradient.
//   An image lies as (channel, row, column, sample): vectors run over (column, sample), so that few channels cost
//   nothing. Around it may be a border of zeros, for the convolution that reads it.
//   Features lie as (sample, feature), or, where an image was flattened, as (feature, sample): the image as it is.
struct Value {
  Shape shape;
  int64_t n;
  float *x, *d;                  // the first number of the image itself; of its gradient (null: nobody asks for it)
  int64_t row, channel;          // how far the next row and channel of an image lie
  int64_t d_row, d_channel;      // the same in the gradient, which has no border
  int64_t sample, feature;       // how far the next sample and feature lie, in both
  Floats x_memory, d_memory;

  int64_t lanes() const { return shape.width * n; }
};

// An image with room for a border. `packed`: rows follow each other without a gap, so that it can be read as features.
Value image_value(const Shape& shape, int64_t n, int64_t pad_h, int64_t pad_w, bool packed, bool gradient) {
  Value v{};
  v.shape = shape;
  v.n = n;
  const int64_t width = (shape.width + 2 * pad_w) * n, height = shape.height + 2 * pad_h;
  v.row = packed ? width : round_up(width, GROUP);
  v.channel = height * v.row;
  v.d_row = packed ? shape.width * n : round_up(shape.width * n, GROUP);
  v.d_channel = shape.height * v.d_row;
  v.sample = 1;
  v.feature = n;
  v.x_memory = Floats(shape.channels * v.channel);
  v.x = v.x_memory + pad_h * v.row + pad_w * n;
  if (gradient) v.d = v.d_memory = Floats(shape.channels * v.d_channel);
  return v;
}

Value feature_value(const Shape& shape, int64_t n, bool gradient) {
  Value v{};
  v.shape = shape;
  v.n = n;
  v.sample = shape.size();
  v.feature = 1;
  v.x = v.x_memory = Floats(n * shape.size());
  if (gradient) v.d = v.d_memory = Floats(n * shape.size());
  return v;
}

// New memory that lies as another value does: for what works number by number.
Value value_like(const Value& other, const Shape& shape) {
  Value v = feature_value(shape, other.n, true);
  v.sample = other.sample;
  v.feature = other.feature;
  return v;
}

// The same memory, read as features.
Value flattened(const Value& image, const Shape& shape) {
  Value v{};
  v.shape = shape;
  v.n = image.n;
  v.x = image.x;
  v.d = image.d;
  v.sample = image.sample;
  v.feature = image.feature;
  return v;
}

// Where gradients go: into a vector, or straight into a step of SGD. Only what belongs to a parameter is touched: the
// vectors are the caller's, and end where they end.
struct Sink {
  const Gradient* gradient;  // null: the step
  Training training;

  // The gradient of `lanes` (at most VL count) parameters from `at` on is there.
  INLINE void take(int64_t at, V g, int64_t lanes) const {
    if (gradient) {
      if (gradient->accumulate) g = load_first(gradient->g + at, lanes) + g;
      return store_first(gradient->g + at, g, lanes);
    }
    const auto& [w, m, c, rule] = training;
    const V before = load_first(w + at, lanes);
    if (c) g = g + load_first(c + at, lanes);
    if (rule.a != 0) g = multiply_add(broadcast(rule.a), before, g);
    if (m) {
      g = multiply_add(broadcast(rule.beta), load_first(m + at, lanes), g);
      store_first(m + at, g, lanes);
    }
    store_first(w + at, multiply_add(broadcast(-rule.lr), g, before), lanes);
  }

  INLINE void take_all(int64_t at, const float* g, int64_t count) const {
    for (int64_t i = 0; i < count; i += VL) take(at + i, load(g + i), count - i);
  }
};

// What a pass forward is given.
struct Pass {
  const float* w;          // the caller's: nothing behind its end may be read
  const Dropout* dropout;  // null: off
  bool keep;               // whether backward may follow
};

class Stage {
 public:
  virtual ~Stage() = default;
  virtual void forward(const Pass& pass) = 0;
  // From the gradient of what comes out to that of what goes in (if that has room for one) and of the parameters.
  virtual void backward(const float* w, const Sink& sink) = 0;
};

}  // namespace
}  // namespace fedtrip
