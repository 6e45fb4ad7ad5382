// Pooling on its own: any window, stride and padding, the maximum or the average.
#pragma once
#include <algorithm>

#include "stage.h"

namespace fedtrip {
namespace {

// The part of a window that lies in the image.
struct Window {
  int64_t top, bottom, left, right;
};

class Pooling : public Stage {
 public:
  Pooling(const fedtrip_layer& layer, Value& in, Value& out) : l_(layer), in_(in), out_(out), n_(in.n) {}

 protected:
  Window window(int64_t oy, int64_t ox) const {
    const int64_t top = oy * l_.stride_h - l_.pad_h, left = ox * l_.stride_w - l_.pad_w;
    return {std::max<int64_t>(0, top), std::min(in_.shape.height, top + l_.kernel_h), std::max<int64_t>(0, left),
            std::min(in_.shape.width, left + l_.kernel_w)};
  }

  // Calls with each channel, window and its first lane, in order.
  template <class Each>
  void for_each_place(Each each) const {
    for (int64_t c = 0; c < in_.shape.channels; c++)
      for (int64_t oy = 0; oy < l_.out_h; oy++)
        for (int64_t ox = 0; ox < l_.out_w; ox++) each(c, oy, ox, window(oy, ox));
  }

  void clear_gradient() {
    for (int64_t c = 0; c < in_.shape.channels; c++) std::memset(in_.d + c * in_.d_channel, 0, in_.d_channel * sizeof(float));
  }

  const fedtrip_layer l_;
  Value &in_, &out_;
  const int64_t n_;
};

class MaxPooling final : public Pooling {
 public:
  MaxPooling(const fedtrip_layer& layer, Value& in, Value& out)
      : Pooling(layer, in, out), largest_(Memory<int32_t>(out.shape.size() * in.n)) {}

  // Of equals the first; a NaN is the largest, of several the last.
  void forward(const Pass&) override {
    int32_t* largest = largest_;
    for_each_place([&](int64_t c, int64_t oy, int64_t ox, const Window& at) {
      const float* image = in_.x + c * in_.channel;
      float* to = out_.x + c * out_.channel + oy * out_.row + ox * n_;
      for (int64_t b = 0; b < n_; b += VL) {
        V best = load(image + at.top * in_.row + at.left * n_ + b);
        I place = I{} + static_cast<int32_t>(at.top * in_.shape.width + at.left);
        for (int64_t y = at.top; y < at.bottom; y++)
          for (int64_t x = at.left; x < at.right; x++) {
            const V value = load(image + y * in_.row + x * n_ + b);
            const I larger = (value > best) | (value != value);
            best = larger ? value : best;
            place = larger ? I{} + static_cast<int32_t>(y * in_.shape.width + x) : place;
          }
        store_first(to + b, best, n_ - b);
        *reinterpret_cast<UnalignedI*>(largest + b) = place;  // beyond n: written again, or in the slack
      }
      largest += n_;
    });
  }

  void backward(const float*, const Sink&) override {
    if (!in_.d) return;
    clear_gradient();
    const int32_t* largest = largest_;
    for_each_place([&](int64_t c, int64_t oy, int64_t ox, const Window&) {
      const float* d = out_.d + c * out_.d_channel + oy * out_.d_row + ox * n_;
      float* to = in_.d + c * in_.d_channel;
      for (int64_t b = 0; b < n_; b++) {
        const int64_t y = largest[b] / in_.shape.width, x = largest[b] % in_.shape.width;
        float& sum = to[y * in_.d_row + x * n_ + b];
        sum = sum + d[b];
      }
      largest += n_;
    });
  }

 private:
  Memory<int32_t> largest_;  // the place of the largest in its image, (channel, row, column, sample)
};

class AveragePooling final : public Pooling {
 public:
  using Pooling::Pooling;

  void forward(const Pass&) override {
    for_each_place([&](int64_t c, int64_t oy, int64_t ox, const Window& at) {
      const float* image = in_.x + c * in_.channel;
      float* to = out_.x + c * out_.channel + oy * out_.row + ox * n_;
      const V by = broadcast(divisor(oy, ox));
      for (int64_t b = 0; b < n_; b += VL) {
        V sum{};
        for (int64_t y = at.top; y < at.bottom; y++)
          for (int64_t x = at.left; x < at.right; x++) sum = sum + load(image + y * in_.row + x * n_ + b);
        store_first(to + b, sum / by, n_ - b);
      }
    });
  }

  void backward(const float*, const Sink&) override {
    if (!in_.d) return;
    clear_gradient();
    for_each_place([&](int64_t c, int64_t oy, int64_t ox, const Window& at) {
      const float* d = out_.d + c * out_.d_channel + oy * out_.d_row + ox * n_;
      float* to = in_.d + c * in_.d_channel;
      const V by = broadcast(divisor(oy, ox));
      for (int64_t b = 0; b < n_; b += VL) {
        const V share = load(d + b) / by;
        for (int64_t y = at.top; y < at.bottom; y++)
          for (int64_t x = at.left; x < at.right; x++) {
            float* sum = to + y * in_.d_row + x * n_ + b;
            store_first(sum, load(sum) + share, n_ - b);
          }
      }
    });
  }

 private:
  float divisor(int64_t oy, int64_t ox) const {
    if (l_.divisor > 0) return static_cast<float>(l_.divisor);
    const int64_t pad_h = l_.divisor ? l_.pad_h : 0, pad_w = l_.divisor ? l_.pad_w : 0;
    const int64_t top = oy * l_.stride_h - l_.pad_h, left = ox * l_.stride_w - l_.pad_w;
    const int64_t height = std::min(in_.shape.height + pad_h, top + l_.kernel_h) - std::max(-pad_h, top);
    const int64_t width = std::min(in_.shape.width + pad_w, left + l_.kernel_w) - std::max(-pad_w, left);
    return static_cast<float>(height * width);
  }
};

}  // namespace
}  // namespace fedtrip
