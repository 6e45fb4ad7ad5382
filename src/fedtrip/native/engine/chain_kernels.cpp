// A chain on the processor's vectors. This file is compiled once for each kind of them, under the name FEDTRIP_KERNELS.
#include <algorithm>
#include <memory>
#include <vector>

#include "elementwise.h"
#include "implementation.h"
#include "kernels/convolution.h"
#include "kernels/dense.h"
#include "kernels/elementwise_stages.h"
#include "kernels/pooling.h"
#include "kernels/stage.h"

#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)

namespace fedtrip {
namespace {

constexpr int64_t LARGEST_FUSED_WINDOW = 11;  // 121 places: which one is the largest is kept in a byte

// The stages of a chain and the memory between them, for one number of samples.
class Program {
 public:
  Program(const Plan& plan, int64_t n) : plan_(plan), n_(n), values_(plan.layers.size() + 1), value_of_(plan.layers.size() + 1) {
    size_t layer = 0;
    values_[0] = make_value(0, false);
    while (layer < plan_.layers.size()) layer = add_stage(layer);
    if (stages_.empty()) first_layer_.push_back(static_cast<int64_t>(plan_.layers.size()));  // it only flattens
  }

  int64_t samples() const { return n_; }

  void forward(const Batch& batch, const Pass& pass) {
    read(batch);
    for (const auto& stage : stages_) stage->forward(pass);
  }

  void backward(const float* w, const float* d_outputs, const float* d_tap, const Sink& sink) {
    put_gradient(value(plan_.layers.size()), d_outputs, false);
    for (size_t s = stages_.size(); s-- > 0;) {
      // Behind the stage that reads the tapped values their gradient is whole but for what the tap adds.
      stages_[s]->backward(w, sink);
      if (d_tap && first_layer_[s] == plan_.tap) put_gradient(value(plan_.tap), d_tap, true);
    }
  }

  void copy(size_t layer, float* to) {
    const Value& v = value(layer);
    const int64_t size = v.shape.size();
    for_each_row(v, v.x, v.row, v.channel, [&](const float* row, int64_t first, int64_t places) {
      for (int64_t b = 0; b < n_; b++)
        for (int64_t i = 0; i < places; i++) to[b * size + first + i] = row[b * v.sample + i * v.feature];
    });
  }

 private:
  Value& value(size_t layer) { return values_[value_of_[layer]]; }
  int64_t kind(size_t layer) const { return layer < plan_.layers.size() ? plan_.layers[layer].kind : 0; }
  bool is_tapped(size_t layer) const { return static_cast<int64_t>(layer) == plan_.tap; }

  // What goes into layer i (what comes out of the chain for i = number of layers), with its gradient if asked for.
  Value make_value(size_t layer, bool gradient) const {
    const Shape& shape = plan_.shapes[layer];
    if (shape.flat || kind(0) == FEDTRIP_FLATTEN) return feature_value(plan_.shapes[layer], n_, gradient);
    const bool convolved = kind(layer) == FEDTRIP_CONVOLUTION;
    const fedtrip_layer* next = convolved ? &plan_.layers[layer] : nullptr;
    return image_value(shape, n_, next ? next->pad_h : 0, next ? next->pad_w : 0, !convolved, gradient);
  }

  // Makes the stage that begins with this layer; returns the first layer behind it.
  size_t add_stage(size_t layer) {
    const fedtrip_layer& l = plan_.layers[layer];
    size_t end = layer + 1;
    bool relu = false;
    int64_t pool = 1;
    if (l.kind == FEDTRIP_LINEAR || l.kind == FEDTRIP_CONVOLUTION) end = take_what_follows(layer, relu, pool);
    Value& in = value(layer);
    Value& out = values_[end];
    value_of_[end] = end;
    if (l.kind == FEDTRIP_FLATTEN) {
      out = flattened(in, plan_.shapes[end]);
      return end;
    }
    const bool by_number = l.kind == FEDTRIP_RELU || l.kind == FEDTRIP_TANH || l.kind == FEDTRIP_DROPOUT;
    out = by_number && plan_.shapes[end].flat ? value_like(in, plan_.shapes[end]) : make_value(end, true);
    first_layer_.push_back(static_cast<int64_t>(layer));
    switch (l.kind) {
      case FEDTRIP_CONVOLUTION: stages_.push_back(std::make_unique<Convolution>(l, relu, pool, in, out)); break;
      case FEDTRIP_LINEAR: stages_.push_back(std::make_unique<Dense>(l, plan_.parameters, relu, in, out)); break;
      case FEDTRIP_MAX_POOL: stages_.push_back(std::make_unique<MaxPooling>(l, in, out)); break;
      case FEDTRIP_AVERAGE_POOL: stages_.push_back(std::make_unique<AveragePooling>(l, in, out)); break;
      case FEDTRIP_RELU: stages_.push_back(std::make_unique<Relu>(in, out)); break;
      case FEDTRIP_TANH: stages_.push_back(std::make_unique<Tanh>(in, out)); break;
      default: stages_.push_back(std::make_unique<DropoutStage>(layer, l.probability, in, out));
    }
    return end;
  }

  // The ReLU and (of a convolution) the max-pooling behind a layer, in either order, which it does in passing: the
  // maximum of what ReLU leaves is what ReLU leaves of the maximum. Not where somebody looks at what is between.
  size_t take_what_follows(size_t layer, bool& relu, int64_t& pool) const {
    size_t end = layer + 1;
    while (end < plan_.layers.size() && !is_tapped(end)) {
      const fedtrip_layer& l = plan_.layers[end];
      if (l.kind == FEDTRIP_RELU && !relu) relu = true;
      else if (plan_.layers[layer].kind == FEDTRIP_CONVOLUTION && pool == 1 && fits_in_passing(end)) pool = l.kernel_h;
      else break;
      end++;
    }
    return end;
  }

  // Whether a layer is a max-pooling in whole squares, side by side.
  bool fits_in_passing(size_t layer) const {
    const fedtrip_layer& l = plan_.layers[layer];
    const Shape& in = plan_.shapes[layer];
    const int64_t k = l.kernel_h;
    return l.kind == FEDTRIP_MAX_POOL && k > 1 && k <= LARGEST_FUSED_WINDOW && l.kernel_w == k && l.stride_h == k &&
           l.stride_w == k && l.pad_h == 0 && l.pad_w == 0 && l.out_h * k <= in.height && l.out_w * k <= in.width;
  }

  // Puts the batch where the first stage reads it. A linear layer reads samples that follow each other where they are:
  // it takes their numbers one by one, and none behind the last.
  void read(const Batch& batch) {
    Value& v = values_[0];
    const Shape& s = v.shape;
    const int64_t size = s.size();
    if (v.sample == size) {
      const bool as_it_is = !batch.rows && kind(first_layer_[0]) == FEDTRIP_LINEAR;
      v.x = as_it_is ? const_cast<float*>(batch.x) : v.x_memory;
      for (int64_t layer = 0; layer < first_layer_[0]; layer++) values_[layer + 1].x = v.x;  // flattened: the same memory
      if (as_it_is) return;
      for (int64_t b = 0; b < n_; b++) std::memcpy(v.x + b * size, batch.x + batch.row(b) * size, size * sizeof(float));
      return;
    }
    for (int64_t c = 0; c < s.channels; c++)
      for (int64_t y = 0; y < s.height; y++)
        transpose([&](int64_t b) { return batch.x + batch.row(b) * size + (c * s.height + y) * s.width; },
                  v.x + c * v.channel + y * v.row, n_, n_, s.width);
  }

  // Calls with each row of an image (features: all of them): its start, the number of its first place, its places.
  template <class Each>
  static void for_each_row(const Value& v, float* start, int64_t row, int64_t channel, Each each) {
    if (v.shape.flat || v.row == 0) return each(start, 0, v.shape.size());
    for (int64_t c = 0; c < v.shape.channels; c++)
      for (int64_t y = 0; y < v.shape.height; y++)
        each(start + c * channel + y * row, (c * v.shape.height + y) * v.shape.width, v.shape.width);
  }

  void put_gradient(Value& v, const float* d, bool add) {
    if (!v.d) return;  // nothing before it has parameters
    const int64_t size = v.shape.size();
    for_each_row(v, v.d, v.d_row, v.d_channel, [&](float* row, int64_t first, int64_t places) {
      for (int64_t b = 0; b < n_; b++)
        for (int64_t i = 0; i < places; i++) {
          float& to = row[b * v.sample + i * v.feature];
          to = add ? to + d[b * size + first + i] : d[b * size + first + i];
        }
    });
  }

  const Plan& plan_;
  const int64_t n_;
  std::vector<Value> values_;      // [i]: what goes into layer i, where a stage begins there
  std::vector<size_t> value_of_;   // where the value of each layer's input is
  std::vector<std::unique_ptr<Stage>> stages_;
  std::vector<int64_t> first_layer_;  // of each stage
};

class KernelChain final : public Chain {
 public:
  explicit KernelChain(const Plan& plan) : plan_(plan) {}

  void use(const float* w) override { w_ = w; }

  void forward(const Batch& batch, const Dropout* dropout, bool keep) override {
    program(batch.n).forward(batch, {w_, dropout, keep});
  }

  void copy_outputs(float* outputs) override { now_->copy(plan_.layers.size(), outputs); }
  void copy_tap(float* tapped) override { now_->copy(plan_.tap, tapped); }

  void backward(const float* d_outputs, const float* d_tap, const Gradient& into) override {
    now_->backward(w_, d_outputs, d_tap, {&into, {}});
  }

  void step(const float* d_outputs, const Training& training) override {
    now_->backward(training.w, d_outputs, nullptr, {nullptr, training});
  }

  int64_t evaluation_batch() const override { return EVALUATION_BATCH; }

 private:
  static constexpr int64_t EVALUATION_BATCH = 64;
  static constexpr size_t KEPT_PROGRAMS = 3;  // for whole batches, the rest of an epoch, and an evaluation

  // The program for n samples; the one that was not used for longest makes room for a new one.
  Program& program(int64_t n) {
    const auto found = std::find_if(programs_.begin(), programs_.end(), [&](const auto& one) { return one->samples() == n; });
    if (found == programs_.end()) {
      if (programs_.size() == KEPT_PROGRAMS) programs_.pop_back();
      programs_.insert(programs_.begin(), std::make_unique<Program>(plan_, n));
    } else {
      std::rotate(programs_.begin(), found, found + 1);
    }
    now_ = programs_.front().get();
    return *now_;
  }

  const Plan plan_;
  const float* w_ = nullptr;
  std::vector<std::unique_ptr<Program>> programs_;
  Program* now_ = nullptr;
};

std::unique_ptr<Chain> make(const Plan& plan) { return std::make_unique<KernelChain>(plan); }

}  // namespace

const Implementation FEDTRIP_KERNELS = {TEXT(FEDTRIP_KERNELS), make,    softmax_gradient, softmax_sums,
                                        sgd_step,              exp_all, log_all};

}  // namespace fedtrip
