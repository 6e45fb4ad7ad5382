// The scalar reference: what every result is, to the last bit. Slow and plain on purpose.
//
// The order of every sum is fixed:
//   linear      z = bias; over the inputs in order            dx over the outputs, dw over the samples
//   convolution z = bias; over channel, row, column of the kernel; rows of the kernel outside the image are left out
//   dw, and the biases of a convolution: 16 sums side by side, added as a tree at the end (see `Lanes`)
// Convolutions keep the samples innermost: the places of one row are (column, sample), `lane` = column*n + sample. With
// column stride 1 the lanes of a row go through the arithmetic in groups of 16, and a group leaves out the columns of
// the kernel that lie outside the image for all of its lanes. With another stride each column is on its own.
#include <algorithm>
#include <vector>

#include "elementwise.h"
#include "implementation.h"

namespace fedtrip {
namespace {

constexpr int64_t LANES = 16;

// Sixteen sums that take turns, and their sum as a tree: 8 + 8, 4 + 4, 2 + 2, 1 + 1.
struct Lanes {
  float sum[LANES] = {};
  float total() const {
    float t[LANES];
    std::copy(sum, sum + LANES, t);
    for (int64_t half = LANES / 2; half; half /= 2)
      for (int64_t i = 0; i < half; i++) t[i] += t[i + half];
    return t[0];
  }
};

struct Range {
  int64_t first, end;
};

struct Columns {
  int64_t first, last;
};

// The columns of a kernel that a group of lanes uses: those inside [0, limit) for some column of the group, where column c of the kernel at place x looks at x + c - before.
Range used_columns(Columns at, int64_t before, int64_t kernel, int64_t limit) {
  return {std::max<int64_t>(0, before - at.last), std::min(kernel, limit + before - at.first)};
}

// The columns of the group of 16 lanes that column x, sample b is in, of a row of `width` columns and n samples.
Columns columns_of_group(int64_t x, int64_t b, int64_t width, int64_t n) {
  const int64_t first = (x * n + b) / LANES * LANES, last = std::min(first + LANES, width * n) - 1;
  return {first / n, last / n};
}

class ReferenceChain final : public Chain {
 public:
  explicit ReferenceChain(const Plan& plan) : plan_(plan), values_(plan.shapes.size()), largest_(plan.layers.size()) {}

  void use(const float* w) override { w_ = w; }

  void forward(const Batch& batch, const Dropout* dropout, bool) override {
    const float* w = w_;
    n_ = batch.n;
    dropout_on_ = dropout != nullptr;
    if (dropout) dropout_ = *dropout;
    const int64_t size = plan_.shapes[0].size();
    values_[0].resize(n_ * size);
    for (int64_t i = 0; i < n_; i++) std::copy_n(batch.x + batch.row(i) * size, size, &values_[0][i * size]);
    for (size_t i = 0; i < plan_.layers.size(); i++) {
      values_[i + 1].assign(n_ * plan_.shapes[i + 1].size(), 0.0f);
      layer_forward(i, w);
    }
  }

  void copy_outputs(float* outputs) override { std::copy(values_.back().begin(), values_.back().end(), outputs); }
  void copy_tap(float* tapped) override { std::copy(values_[plan_.tap].begin(), values_[plan_.tap].end(), tapped); }
  int64_t evaluation_batch() const override { return 16; }

  void backward(const float* d_outputs, const float* d_tap, const Gradient& into) override {
    const std::vector<float> g = gradient(w_, d_outputs, d_tap);
    for (int64_t i = 0; i < plan_.parameters; i++)
      if (used_[i]) into.g[i] = into.accumulate ? into.g[i] + g[i] : g[i];
  }

  void step(const float* d_outputs, const Training& training) override {
    const std::vector<float> g = gradient(training.w, d_outputs, nullptr);
    sgd_step(training.rule, training.w, training.m, training.c, g.data(), plan_.parameters);
  }

 private:
  std::vector<float> gradient(const float* w, const float* d_outputs, const float* d_tap) {
    std::vector<float> g(plan_.parameters, 0.0f), d(d_outputs, d_outputs + values_.back().size());
    used_.assign(plan_.parameters, false);
    for (size_t i = plan_.layers.size(); i-- > 0;) {
      d = layer_backward(i, w, d, g);
      if (d_tap && static_cast<int64_t>(i) == plan_.tap)
        for (size_t j = 0; j < d.size(); j++) d[j] = d[j] + d_tap[j];
    }
    return g;
  }

  void layer_forward(size_t i, const float* w) {
    const fedtrip_layer& l = plan_.layers[i];
    const std::vector<float>& x = values_[i];
    std::vector<float>& y = values_[i + 1];
    switch (l.kind) {
      case FEDTRIP_CONVOLUTION: return convolve(l, plan_.shapes[i], w, x, y);
      case FEDTRIP_LINEAR: return multiply(l, w, x, y);
      case FEDTRIP_MAX_POOL: return max_pool(i, x, y);
      case FEDTRIP_AVERAGE_POOL: return average_pool(l, plan_.shapes[i], x, y);
      case FEDTRIP_RELU:
        for (size_t j = 0; j < x.size(); j++) y[j] = x[j] <= 0 ? 0.0f : x[j];  // NaN stays
        return;
      case FEDTRIP_TANH:
        for (size_t j = 0; j < x.size(); j++) y[j] = tanh_fixed(x[j]);
        return;
      case FEDTRIP_DROPOUT:
        for (size_t j = 0; j < x.size(); j++) y[j] = dropout_on_ ? x[j] * factor(i, j) : x[j];
        return;
      default: y = x;
    }
  }

  std::vector<float> layer_backward(size_t i, const float* w, const std::vector<float>& dy, std::vector<float>& g) {
    const fedtrip_layer& l = plan_.layers[i];
    const std::vector<float>&x = values_[i], &y = values_[i + 1];
    std::vector<float> dx(x.size(), 0.0f);
    switch (l.kind) {
      case FEDTRIP_CONVOLUTION: convolve_backward(l, plan_.shapes[i], w, x, dy, dx, g); break;
      case FEDTRIP_LINEAR: multiply_backward(l, w, x, dy, dx, g); break;
      case FEDTRIP_MAX_POOL:
        for (size_t j = 0; j < dy.size(); j++) dx[largest_[i][j]] += dy[j];
        break;
      case FEDTRIP_AVERAGE_POOL: average_pool_backward(l, plan_.shapes[i], dy, dx); break;
      case FEDTRIP_RELU:
        for (size_t j = 0; j < x.size(); j++) dx[j] = y[j] <= 0 ? 0.0f : dy[j];
        break;
      case FEDTRIP_TANH:
        for (size_t j = 0; j < x.size(); j++) dx[j] = dy[j] * multiply_add(-y[j], y[j], 1.0f);
        break;
      case FEDTRIP_DROPOUT:
        for (size_t j = 0; j < x.size(); j++) dx[j] = dropout_on_ ? dy[j] * factor(i, j) : dy[j];
        break;
      default: dx = dy;
    }
    return dx;
  }

  // What dropout layer i multiplies element j of the batch by.
  float factor(size_t i, size_t j) const {
    return dropout_factor(dropout_words(dropout_, i, j / 4).word[j % 4], plan_.layers[i].probability);
  }

  void multiply(const fedtrip_layer& l, const float* w, const std::vector<float>& x, std::vector<float>& y) const {
    for (int64_t b = 0; b < n_; b++)
      for (int64_t o = 0; o < l.outputs; o++) {
        float sum = l.bias >= 0 ? w[l.bias + o] : 0.0f;
        for (int64_t i = 0; i < l.inputs; i++)
          sum = multiply_add(x[b * l.inputs + i], w[l.weight + i * l.outputs + o], sum);
        y[b * l.outputs + o] = sum;
      }
  }

  void multiply_backward(const fedtrip_layer& l, const float* w, const std::vector<float>& x,
                         const std::vector<float>& dy, std::vector<float>& dx, std::vector<float>& g) {
    for (int64_t b = 0; b < n_; b++)
      for (int64_t i = 0; i < l.inputs; i++) {
        float sum = 0.0f;
        for (int64_t o = 0; o < l.outputs; o++)
          sum = multiply_add(w[l.weight + i * l.outputs + o], dy[b * l.outputs + o], sum);
        dx[b * l.inputs + i] = sum;
      }
    for (int64_t i = 0; i < l.inputs; i++)
      for (int64_t o = 0; o < l.outputs; o++) {
        float sum = 0.0f;
        for (int64_t b = 0; b < n_; b++) sum = multiply_add(x[b * l.inputs + i], dy[b * l.outputs + o], sum);
        put(g, l.weight + i * l.outputs + o, sum);
      }
    for (int64_t o = 0; l.bias >= 0 && o < l.outputs; o++) {
      float sum = 0.0f;
      for (int64_t b = 0; b < n_; b++) sum = sum + dy[b * l.outputs + o];
      put(g, l.bias + o, sum);
    }
  }

  void put(std::vector<float>& g, int64_t at, float value) {
    g[at] = value;
    used_[at] = true;
  }

  // Where a value lies in (sample, channel, row, column); outside the image it is 0.
  struct Image {
    const std::vector<float>& values;
    int64_t channels, height, width;
    float at(int64_t b, int64_t c, int64_t y, int64_t x) const {
      if (y < 0 || y >= height || x < 0 || x >= width) return 0.0f;
      return values[((b * channels + c) * height + y) * width + x];
    }
  };

  void convolve(const fedtrip_layer& l, const Shape& s, const float* w, const std::vector<float>& x,
                std::vector<float>& y) const {
    const Image in{x, s.channels, s.height, s.width};
    for (int64_t b = 0; b < n_; b++)
      for (int64_t o = 0; o < l.outputs; o++)
        for (int64_t oy = 0; oy < l.out_h; oy++)
          for (int64_t ox = 0; ox < l.out_w; ox++) {
            const Columns at =
                l.stride_w == 1 ? columns_of_group(ox, b, l.out_w, n_) : Columns{ox * l.stride_w, ox * l.stride_w};
            const Range columns = used_columns(at, l.pad_w, l.kernel_w, s.width);
            float sum = l.bias >= 0 ? w[l.bias + o] : 0.0f;
            for (int64_t c = 0; c < l.inputs; c++)
              for (int64_t ky = 0; ky < l.kernel_h; ky++) {
                const int64_t iy = oy * l.stride_h + ky - l.pad_h;
                if (iy < 0 || iy >= s.height) continue;
                for (int64_t kx = columns.first; kx < columns.end; kx++)
                  sum = multiply_add(w[l.weight + ((o * l.inputs + c) * l.kernel_h + ky) * l.kernel_w + kx],
                                     in.at(b, c, iy, ox * l.stride_w + kx - l.pad_w), sum);
              }
            y[((b * l.outputs + o) * l.out_h + oy) * l.out_w + ox] = sum;
          }
  }

  // dx over output channel, then the places that looked at it, row by row; dw and the biases in 16 lanes.
  void convolve_backward(const fedtrip_layer& l, const Shape& s, const float* w, const std::vector<float>& x,
                         const std::vector<float>& dy, std::vector<float>& dx, std::vector<float>& g) {
    const Image in{x, s.channels, s.height, s.width}, out{dy, l.outputs, l.out_h, l.out_w};
    for (int64_t b = 0; b < n_; b++)
      for (int64_t c = 0; c < l.inputs; c++)
        for (int64_t iy = 0; iy < s.height; iy++)
          for (int64_t ix = 0; ix < s.width; ix++)
            dx[((b * s.channels + c) * s.height + iy) * s.width + ix] = input_gradient(l, s, w, out, b, c, iy, ix);
    for (int64_t o = 0; o < l.outputs; o++) {
      for (int64_t c = 0; c < l.inputs; c++)
        for (int64_t ky = 0; ky < l.kernel_h; ky++)
          for (int64_t kx = 0; kx < l.kernel_w; kx++)
            put(g, l.weight + ((o * l.inputs + c) * l.kernel_h + ky) * l.kernel_w + kx,
                weight_gradient(l, in, out, o, c, ky, kx));
      if (l.bias >= 0) put(g, l.bias + o, bias_gradient(l, out, o));
    }
  }

  float input_gradient(const fedtrip_layer& l, const Shape& s, const float* w, const Image& out, int64_t b, int64_t c,
                       int64_t iy, int64_t ix) const {
    const int64_t before = l.kernel_w - 1 - l.pad_w;  // column k of the turned kernel looks at output ix + k - before
    const Columns at = columns_of_group(ix, b, s.width, n_);
    const Range columns = used_columns(at, before, l.kernel_w, l.out_w);
    float sum = 0.0f;
    for (int64_t o = 0; o < l.outputs; o++)
      for (int64_t ky = l.kernel_h - 1; ky >= 0; ky--) {
        const int64_t oy = iy + l.pad_h - ky;
        if (oy < 0 || oy % l.stride_h || oy / l.stride_h >= l.out_h) continue;
        for (int64_t k = 0; k < l.kernel_w; k++) {
          const int64_t kx = l.kernel_w - 1 - k, ox = ix + l.pad_w - kx;
          const bool used = l.stride_w == 1 ? k >= columns.first && k < columns.end
                                            : ox >= 0 && ox % l.stride_w == 0 && ox / l.stride_w < l.out_w;
          if (!used) continue;
          sum = multiply_add(w[l.weight + ((o * l.inputs + c) * l.kernel_h + ky) * l.kernel_w + kx],
                             out.at(b, o, oy / l.stride_h, l.stride_w == 1 ? ox : ox / l.stride_w), sum);
        }
      }
    return sum;
  }

  // The lane of a place: its number within the row, or (other strides) within its column.
  int64_t lane(const fedtrip_layer& l, int64_t ox, int64_t b) const {
    return (l.stride_w == 1 ? ox * n_ + b : b) % LANES;
  }

  float weight_gradient(const fedtrip_layer& l, const Image& in, const Image& out, int64_t o, int64_t c, int64_t ky,
                        int64_t kx) const {
    Lanes lanes;
    for (int64_t oy = 0; oy < l.out_h; oy++)
      for (int64_t ox = 0; ox < l.out_w; ox++)
        for (int64_t b = 0; b < n_; b++) {
          float& sum = lanes.sum[lane(l, ox, b)];
          const float value = in.at(b, c, oy * l.stride_h + ky - l.pad_h, ox * l.stride_w + kx - l.pad_w);
          sum = multiply_add(out.at(b, o, oy, ox), value, sum);
        }
    return lanes.total();
  }

  float bias_gradient(const fedtrip_layer& l, const Image& out, int64_t o) const {
    Lanes lanes;
    for (int64_t oy = 0; oy < l.out_h; oy++)
      for (int64_t ox = 0; ox < l.out_w; ox++)
        for (int64_t b = 0; b < n_; b++) lanes.sum[lane(l, ox, b)] += out.at(b, o, oy, ox);
    return lanes.total();
  }

  // The part of a window that lies in the image.
  static Range inside(int64_t place, int64_t stride, int64_t pad, int64_t kernel, int64_t limit) {
    const int64_t start = place * stride - pad;
    return {std::max<int64_t>(0, start), std::min(limit, start + kernel)};
  }

  // The largest of a window, of equals the first; a NaN is the largest, of several the last, as in torch.
  void max_pool(size_t i, const std::vector<float>& x, std::vector<float>& y) {
    const fedtrip_layer& l = plan_.layers[i];
    const Shape& s = plan_.shapes[i];
    largest_[i].resize(y.size());
    size_t j = 0;
    for (int64_t image = 0; image < n_ * s.channels; image++)
      for (int64_t oy = 0; oy < l.out_h; oy++)
        for (int64_t ox = 0; ox < l.out_w; ox++, j++) {
          const Range rows = inside(oy, l.stride_h, l.pad_h, l.kernel_h, s.height);
          const Range columns = inside(ox, l.stride_w, l.pad_w, l.kernel_w, s.width);
          int64_t best = (image * s.height + rows.first) * s.width + columns.first;
          for (int64_t iy = rows.first; iy < rows.end; iy++)
            for (int64_t ix = columns.first; ix < columns.end; ix++) {
              const int64_t at = (image * s.height + iy) * s.width + ix;
              if (x[at] > x[best] || x[at] != x[at]) best = at;
            }
          largest_[i][j] = best;
          y[j] = x[best];
        }
  }

  // What an average divides by: all places of the window, those inside the padded image, or a given number.
  static float divisor(const fedtrip_layer& l, const Shape& s, int64_t oy, int64_t ox) {
    if (l.divisor > 0) return static_cast<float>(l.divisor);
    const int64_t pad_h = l.divisor ? l.pad_h : 0, pad_w = l.divisor ? l.pad_w : 0;
    const int64_t top = oy * l.stride_h - l.pad_h, left = ox * l.stride_w - l.pad_w;
    const int64_t height = std::min(s.height + pad_h, top + l.kernel_h) - std::max(-pad_h, top);
    const int64_t width = std::min(s.width + pad_w, left + l.kernel_w) - std::max(-pad_w, left);
    return static_cast<float>(height * width);
  }

  void average_pool(const fedtrip_layer& l, const Shape& s, const std::vector<float>& x, std::vector<float>& y) const {
    size_t j = 0;
    for (int64_t image = 0; image < n_ * s.channels; image++)
      for (int64_t oy = 0; oy < l.out_h; oy++)
        for (int64_t ox = 0; ox < l.out_w; ox++, j++) {
          const Range rows = inside(oy, l.stride_h, l.pad_h, l.kernel_h, s.height);
          const Range columns = inside(ox, l.stride_w, l.pad_w, l.kernel_w, s.width);
          float sum = 0.0f;
          for (int64_t iy = rows.first; iy < rows.end; iy++)
            for (int64_t ix = columns.first; ix < columns.end; ix++) sum = sum + x[(image * s.height + iy) * s.width + ix];
          y[j] = sum / divisor(l, s, oy, ox);
        }
  }

  void average_pool_backward(const fedtrip_layer& l, const Shape& s, const std::vector<float>& dy,
                             std::vector<float>& dx) const {
    size_t j = 0;
    for (int64_t image = 0; image < n_ * s.channels; image++)
      for (int64_t oy = 0; oy < l.out_h; oy++)
        for (int64_t ox = 0; ox < l.out_w; ox++, j++) {
          const Range rows = inside(oy, l.stride_h, l.pad_h, l.kernel_h, s.height);
          const Range columns = inside(ox, l.stride_w, l.pad_w, l.kernel_w, s.width);
          const float share = dy[j] / divisor(l, s, oy, ox);
          for (int64_t iy = rows.first; iy < rows.end; iy++)
            for (int64_t ix = columns.first; ix < columns.end; ix++) {
              float& d = dx[(image * s.height + iy) * s.width + ix];
              d = d + share;
            }
        }
  }

  Plan plan_;
  const float* w_ = nullptr;
  int64_t n_ = 0;
  bool dropout_on_ = false;
  Dropout dropout_{};
  std::vector<std::vector<float>> values_;  // what goes into each layer, (sample, channel, row, column); last: outputs
  std::vector<std::vector<int64_t>> largest_;  // of a max-pool's outputs: where the largest lies in its input
  std::vector<bool> used_;                     // which places of the flat vector have a gradient
};

std::unique_ptr<Chain> make(const Plan& plan) { return std::make_unique<ReferenceChain>(plan); }

}  // namespace

const Implementation reference = {"reference", make, softmax_gradient, softmax_sums, sgd_step, exp_all, log_all};

}  // namespace fedtrip
