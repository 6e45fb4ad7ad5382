// ReLU, tanh and dropout on their own: what is not done in passing by the layer before.
#pragma once
#include "stage.h"

namespace fedtrip {
namespace {

class Elementwise : public Stage {
 public:
  Elementwise(Value& in, Value& out) : in_(in), out_(out) {}

 protected:
  // Calls with runs of neighbours that lie in both values: each(numbers, x, y, dx, dy); dx may be null.
  template <class Each>
  void for_each_run(Each each) const {
    if (in_.shape.flat) return each(in_.n * in_.shape.size(), in_.x, out_.x, in_.d, out_.d);
    for (int64_t c = 0; c < in_.shape.channels; c++)
      for (int64_t y = 0; y < in_.shape.height; y++) {
        float* dx = in_.d ? in_.d + c * in_.d_channel + y * in_.d_row : nullptr;
        each(in_.lanes(), in_.x + c * in_.channel + y * in_.row, out_.x + c * out_.channel + y * out_.row, dx,
             out_.d + c * out_.d_channel + y * out_.d_row);
      }
  }

  Value &in_, &out_;
};

class Relu final : public Elementwise {
 public:
  using Elementwise::Elementwise;
  void forward(const Pass&) override {
    for_each_run([](int64_t count, const float* x, float* y, float*, float*) {
      for (int64_t i = 0; i < count; i += VL) store_first(y + i, rectified(load(x + i)), count - i);
    });
  }
  void backward(const float*, const Sink&) override {
    if (!in_.d) return;
    for_each_run([](int64_t count, const float*, const float* y, float* dx, const float* dy) {
      for (int64_t i = 0; i < count; i += VL) store_first(dx + i, where_alive(load(y + i), load(dy + i)), count - i);
    });
  }
};

class Tanh final : public Elementwise {
 public:
  using Elementwise::Elementwise;
  void forward(const Pass&) override {
    for_each_run([](int64_t count, const float* x, float* y, float*, float*) {
      for (int64_t i = 0; i < count; i++) y[i] = tanh_fixed(x[i]);
    });
  }
  void backward(const float*, const Sink&) override {
    if (!in_.d) return;
    for_each_run([](int64_t count, const float*, const float* y, float* dx, const float* dy) {
      for (int64_t i = 0; i < count; i++) dx[i] = dy[i] * fedtrip::multiply_add(-y[i], y[i], 1.0f);
    });
  }
};

// Multiplies by 0 or 1/(1 - p). The mask is drawn for (sample, place) in that order, however the values lie.
class DropoutStage final : public Elementwise {
 public:
  DropoutStage(int64_t layer, double p, Value& in, Value& out)
      : Elementwise(in, out), layer_(layer), p_(p), factors_(Floats(in.n * in.shape.size())) {}

  void forward(const Pass& pass) override {
    on_ = pass.dropout != nullptr;
    if (on_) draw(*pass.dropout);
    int64_t done = 0;
    for_each_run([&](int64_t count, const float* x, float* y, float*, float*) {
      for (int64_t i = 0; i < count; i++) y[i] = on_ ? x[i] * factors_[done + i] : x[i];
      done += count;
    });
  }

  void backward(const float*, const Sink&) override {
    if (!in_.d) return;
    int64_t done = 0;
    for_each_run([&](int64_t count, const float*, const float*, float* dx, const float* dy) {
      for (int64_t i = 0; i < count; i++) dx[i] = on_ ? dy[i] * factors_[done + i] : dy[i];
      done += count;
    });
  }

 private:
  // The factors in the order in which the values lie: (sample, feature), or (place, sample).
  void draw(const Dropout& dropout) {
    const int64_t size = in_.shape.size(), count = in_.n * size;
    for (int64_t i = 0; i < count; i += 4) {
      const Words words = dropout_words(dropout, layer_, static_cast<uint64_t>(i / 4));
      for (int64_t j = i; j < i + 4 && j < count; j++)
        factors_[j / size * in_.sample + j % size * in_.feature] = dropout_factor(words.word[j - i], p_);
    }
  }

  const int64_t layer_;
  const double p_;
  bool on_ = false;
  Floats factors_;
};

}  // namespace
}  // namespace fedtrip
