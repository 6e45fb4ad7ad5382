// A linear layer, with the ReLU behind it.
#pragma once
#include <algorithm>

#include "stage.h"

namespace fedtrip {
namespace {

// Inputs of which the weights of one block of lanes stay in the first cache.
constexpr int64_t INPUTS_AT_ONCE = 192;

class Dense final : public Stage {
 public:
  // `parameters` is the length of the flat vector that the weights are a part of.
  Dense(const fedtrip_layer& layer, int64_t parameters, bool relu, Value& in, Value& out)
      : l_(layer), relu_(relu), in_(in), out_(out), turned_row_(round_up(in.n, VL)) {
    // Vectors of weights reach beyond the last output, into what follows in the flat vector. Where nothing follows, the
    // last inputs are read from a copy that has room behind its end.
    const int64_t O = l_.outputs, reach = round_up(O, VL);
    direct_ = std::min(l_.inputs, std::max<int64_t>(0, (parameters - l_.weight - reach) / O + 1));
    if (parameters - l_.weight < reach) direct_ = 0;
    if (direct_ < l_.inputs) last_inputs_ = Floats((l_.inputs - direct_) * O);
    if (in.d) turned_ = Floats(O * turned_row_);
    bias_gradient_ = Floats(O);
  }

  // y[sample][output ...] = bias + sum over the inputs of x[sample][input] * w[input][output ...]
  void forward(const Pass& pass) override {
    const float *w = pass.w + l_.weight, *bias = l_.bias >= 0 ? pass.w + l_.bias : nullptr;
    const int64_t copied = (l_.inputs - direct_) * l_.outputs;
    if (copied) std::memcpy(last_inputs_, w + direct_ * l_.outputs, copied * sizeof(float));
    for (int64_t i = 0; i < l_.inputs;) {
      const int64_t end = std::min(i + INPUTS_AT_ONCE, i < direct_ ? direct_ : l_.inputs);
      const float* weights = i < direct_ ? w + i * l_.outputs : last_inputs_ + (i - direct_) * l_.outputs;
      add_inputs(i, end - i, weights, bias);
      i = end;
    }
  }

  void backward(const float* w, const Sink& sink) override {
    if (relu_) {
      for (int64_t i = 0; i < in_.n * l_.outputs; i += VL)
        store(out_.d + i, where_alive(load(out_.x + i), load(out_.d + i)));
    }
    if (in_.d) input_gradient(w + l_.weight);
    weight_gradient(sink);
    if (l_.bias >= 0) bias_gradient(sink);
  }

 private:
  // Adds the products of some inputs to the sums that y holds; the first ones begin with the bias.
  void add_inputs(int64_t input, int64_t count, const float* w, const float* bias) {
    const int64_t O = l_.outputs;
    const bool first = input == 0, last = input + count == l_.inputs;
    const Split samples(in_.n, MOST_ROWS);
    for (int64_t lane = 0; lane < O; lane += MOST_VECTORS * VL) {
      int64_t sample = 0;
      for (int64_t b = 0; b < samples.blocks; sample += samples.size(b++)) {
        float* y = out_.x + sample * O + lane;
        const auto begin = [&](int r, int64_t at) {
          return first ? (bias ? load_first(bias + lane + at, O - lane - at) : V{}) : load(y + r * O + at);
        };
        const auto done = [&](int r, int64_t at, V sum) {
          store_first(y + r * O + at, last && relu_ ? rectified(sum) : sum, O - lane - at);
        };
        const float* x = in_.x + sample * in_.sample + input * in_.feature;
        multiply(samples.size(b), vectors_left(O - lane), w + lane, x, line(count, O, in_.feature), in_.sample, begin,
                 done);
      }
    }
  }

  // Scalars that are neighbours are read without a multiplication of their distance.
  template <class First, class Done>
  INLINE static void multiply(int rows, int vectors_wide, const float* vectors, const float* scalars, const Terms& t,
                              int64_t next, First first, Done done) {
    if (next == 1) block<true>(rows, vectors_wide, vectors, scalars, t, 1, first, done);
    else block<false>(rows, vectors_wide, vectors, scalars, t, next, first, done);
  }

  // dx[input][sample ...] = sum over the outputs of w[input][output] * dy[output][sample ...]; dy is turned for that.
  void input_gradient(const float* w) {
    const int64_t O = l_.outputs, n = in_.n;
    transpose([&](int64_t b) { return out_.d + b * O; }, turned_, turned_row_, n, O);
    const bool as_image = in_.sample == 1;
    if (!as_image && !gathered_) gathered_ = Floats(l_.inputs * turned_row_);
    float* dx = as_image ? in_.d : gathered_;
    const int64_t dx_row = as_image ? n : turned_row_;
    const Split inputs(l_.inputs, MOST_ROWS);
    int64_t input = 0;
    for (int64_t b = 0; b < inputs.blocks; input += inputs.size(b++)) {
      for (int64_t lane = 0; lane < n; lane += MOST_VECTORS * VL) {
        float* to = dx + input * dx_row + lane;
        const auto done = [&](int r, int64_t at, V sum) { store_first(to + r * dx_row + at, sum, n - lane - at); };
        block<false>(inputs.size(b), vectors_left(n - lane), turned_ + lane, w + input * O, line(O, turned_row_, 1), O,
                     zero, done);
      }
    }
    if (!as_image)
      transpose([&](int64_t i) { return gathered_ + i * turned_row_; }, in_.d, l_.inputs, l_.inputs, n);
  }

  // g[input][output ...] = sum over the samples of x[sample][input] * dy[sample][output ...]
  void weight_gradient(const Sink& sink) {
    const int64_t O = l_.outputs;
    const Split inputs(l_.inputs, MOST_ROWS);
    int64_t input = 0;
    for (int64_t b = 0; b < inputs.blocks; input += inputs.size(b++)) {
      for (int64_t lane = 0; lane < O; lane += MOST_VECTORS * VL) {
        const int64_t place = l_.weight + input * O + lane;
        const auto done = [&](int r, int64_t at, V sum) { sink.take(place + r * O + at, sum, O - lane - at); };
        multiply(inputs.size(b), vectors_left(O - lane), out_.d + lane, in_.x + input * in_.feature,
                 line(in_.n, O, in_.sample), in_.feature, zero, done);
      }
    }
  }

  void bias_gradient(const Sink& sink) {
    const int64_t O = l_.outputs;
    for (int64_t lane = 0; lane < O; lane += VL) {
      V sum{};
      for (int64_t b = 0; b < in_.n; b++) sum = sum + load(out_.d + b * O + lane);
      store(bias_gradient_ + lane, sum);
    }
    sink.take_all(l_.bias, bias_gradient_, O);
  }

  static V zero(int, int64_t) { return V{}; }

  const fedtrip_layer l_;
  const bool relu_;
  Value &in_, &out_;
  const int64_t turned_row_;
  int64_t direct_;        // how many inputs' weights are read where they lie
  Floats last_inputs_;    // the weights of the others
  Floats turned_;         // dy as (output, sample)
  Floats gathered_;       // dx as (input, sample), before it is turned back
  Floats bias_gradient_;
};

}  // namespace
}  // namespace fedtrip
