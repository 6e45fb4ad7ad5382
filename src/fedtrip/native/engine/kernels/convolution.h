// A convolution, with the ReLU and the k x k max-pooling behind it.
#pragma once
#include <algorithm>
#include <vector>

#include "stage.h"

namespace fedtrip {
namespace {

// Lanes of one row that share the columns of the kernel they use.
struct Span {
  int64_t to;         // the first lane that is written
  int64_t from;       // the lane that its first term reads
  int64_t lanes;      // how many are written
  int vectors;
  int64_t column;     // the first column of the (packed) kernel
  int64_t columns;    // how many terms there are in a row of the kernel
};

// The spans of a row of `width` columns and n samples, of which the first `needed` lanes are written. With step 1 they
// are whole groups of 16 lanes: column k of the kernel looks at lane + (k - before)*n of a row of `limit` columns, and a
// group leaves out the columns that are outside for all its lanes. MOST_VECTORS may hold several groups: only such as
// leave out the same ones are done together, since otherwise a result would depend on how wide vectors are.
std::vector<Span> spans_of_groups(int64_t width, int64_t n, int64_t needed, int64_t before, int64_t kernel, int64_t limit) {
  std::vector<Span> spans;
  for (int64_t first = 0; first < needed; first += GROUP) {
    const int64_t last = std::min(first + GROUP, width * n) - 1;
    const int64_t column = std::max<int64_t>(0, before - last / n), end = std::min(kernel, limit + before - first / n);
    const int64_t lanes = std::min<int64_t>(GROUP, needed - first), from = first + (column - before) * n;
    if (!spans.empty()) {
      Span& open = spans.back();
      if (open.column == column && open.columns == end - column && open.lanes + GROUP <= MOST_VECTORS * VL) {
        open.lanes += lanes;
        open.vectors = vectors_left(open.lanes);
        continue;
      }
    }
    spans.push_back({first, from, lanes, vectors_left(lanes), column, end - column});
  }
  return spans;
}

// With another stride each column is on its own, and uses exactly what is inside.
std::vector<Span> spans_of_columns(int64_t width, int64_t n, int64_t stride, int64_t pad, int64_t kernel, int64_t limit) {
  std::vector<Span> spans;
  for (int64_t x = 0; x < width; x++) {
    const int64_t start = x * stride - pad, column = std::max<int64_t>(0, -start), end = std::min(kernel, limit - start);
    for (int64_t b = 0; b < n; b += MOST_VECTORS * VL) {
      const int64_t lanes = std::min<int64_t>(n - b, MOST_VECTORS * VL);
      spans.push_back({x * n + b, (start + column) * n + b, lanes, vectors_left(lanes), column, end - column});
    }
  }
  return spans;
}

// Places of the output that looked at place x of the input, of `out` there are: the first one, how many, and the
// column of the turned kernel that belongs to the first one. The next place has the column `stride` further.
struct Looking {
  int64_t first, count, column;
};

Looking looking_at(int64_t x, int64_t stride, int64_t pad, int64_t kernel, int64_t out) {
  const int64_t low = x + pad - kernel + 1;
  const int64_t first = low > 0 ? (low + stride - 1) / stride : 0, last = std::min(out - 1, (x + pad) / stride);
  return {first, std::max<int64_t>(0, last - first + 1), first * stride - low};
}

std::vector<Span> spans_looking(int64_t width, int64_t n, int64_t stride, int64_t pad, int64_t kernel, int64_t out) {
  std::vector<Span> spans;
  for (int64_t x = 0; x < width; x++) {
    const Looking at = looking_at(x, stride, pad, kernel, out);
    for (int64_t b = 0; b < n; b += MOST_VECTORS * VL) {
      const int64_t lanes = std::min<int64_t>(n - b, MOST_VECTORS * VL);
      spans.push_back({x * n + b, at.first * n + b, lanes, vectors_left(lanes), at.column, at.count});
    }
  }
  return spans;
}

class Convolution final : public Stage {
 public:
  // `pool` is 1, or the side of the max-pooling's windows.
  Convolution(const fedtrip_layer& layer, bool relu, int64_t pool, Value& in, Value& out)
      : l_(layer), relu_(relu), pool_(pool), in_(in), out_(out), n_(in.n), area_(l_.kernel_h * l_.kernel_w),
        taps_count_(l_.inputs * area_), rows_(out.shape.height * pool), lanes_(out.shape.width * pool * n_),
        before_(l_.kernel_w - 1 - l_.pad_w) {
    make_spans();
    make_buffers();
    for (int64_t c = 0; c < l_.inputs; c++)
      for (int64_t y = 0; y < l_.kernel_h; y++)
        for (int64_t x = 0; x < l_.kernel_w; x++)
          taps_.push_back(c * in.channel + (y - l_.pad_h) * in.row + (x - l_.pad_w) * n_);
  }

  void forward(const Pass& pass) override {
    pack(pass.w + l_.weight);
    for (int64_t p = 0; p < out_.shape.height; p++) {
      if (pool_ == 1) {
        convolve_row(p, pass, out_.x + p * out_.row, out_.channel, relu_);
        continue;
      }
      for (int64_t k = 0; k < pool_; k++) convolve_row(p * pool_ + k, pass, y_ + k * y_row_, pool_ * y_row_, false);
      if (pool_ == 2) pool_row<2>(p, pass.keep);
      else pool_row<0>(p, pass.keep);
    }
  }

  void backward(const float* w, const Sink& sink) override {
    std::memset(sums_, 0, l_.outputs * taps_count_ * GROUP * sizeof(float));
    std::memset(bias_sums_, 0, l_.outputs * GROUP * sizeof(float));
    int64_t summed = 0;
    for (int64_t p = 0; p < out_.shape.height; p++) {
      output_gradient(p);
      const int64_t there = (p + 1) * pool_;
      while (summed < there && (there - summed >= chunk_ || p + 1 == out_.shape.height)) {
        const int64_t count = std::min(chunk_, there - summed);
        sum_weight_gradient(summed, count);
        summed += count;
      }
    }
    if (in_.d) input_gradient(w + l_.weight);
    finish(sink);
  }

 private:
  void make_spans() {
    const bool neighbours = l_.stride_w == 1;
    spans_ = neighbours ? spans_of_groups(l_.out_w, n_, lanes_, l_.pad_w, l_.kernel_w, in_.shape.width)
                        : spans_of_columns(out_.shape.width * pool_, n_, l_.stride_w, l_.pad_w, l_.kernel_w, in_.shape.width);
    if (!in_.d) return;
    d_spans_ = neighbours ? spans_of_groups(in_.shape.width, n_, in_.lanes(), before_, l_.kernel_w, l_.out_w)
                          : spans_looking(in_.shape.width, n_, l_.stride_w, l_.pad_w, l_.kernel_w, l_.out_w);
  }

  void make_buffers() {
    y_row_ = round_up(lanes_, GROUP) + MOST_VECTORS * VL;
    if (pool_ > 1) {
      y_ = Floats(l_.outputs * pool_ * y_row_);
      largest_ = Memory<int8_t>(out_.shape.size() * n_);
    }
    // The gradient of the convolution's own output, between borders of zeros. Where nobody asks for that of the input
    // its rows are needed for a moment only, and take turns in the memory of a few.
    const int64_t border = in_.d && l_.stride_w == 1 ? before_ : 0;
    const int64_t most = std::max<int64_t>(1, 4096 / (MOST_OUTPUTS * round_up(lanes_, GROUP)));
    chunk_ = std::min(rows_, most);
    if (chunk_ > pool_) chunk_ -= chunk_ % pool_;
    if (!in_.d) chunk_ = std::min(chunk_, pool_);
    d_rows_ = in_.d ? l_.out_h : pool_;
    d_row_ = round_up((l_.out_w + 2 * border) * n_ + GROUP, GROUP);
    d_channel_ = d_rows_ * d_row_;
    d_memory_ = Floats(l_.outputs * d_channel_);
    d_ = d_memory_ + border * n_;
    packed_ = Floats(taps_count_ * l_.outputs);
    sums_ = Floats(l_.outputs * taps_count_ * GROUP);
    bias_sums_ = Floats(l_.outputs * GROUP);
    gradient_ = Floats(l_.outputs * taps_count_);
  }

  // Kernels in the order in which they are read: block of outputs, tap, output.
  void pack(const float* w) {
    const Split outputs(l_.outputs, MOST_ROWS);
    float* to = packed_;
    int64_t o = 0;
    for (int64_t b = 0; b < outputs.blocks; o += outputs.size(b++))
      for (int64_t t = 0; t < taps_count_; t++)
        for (int r = 0; r < outputs.size(b); r++) *to++ = w[(o + r) * taps_count_ + t];
  }

  // The same for the gradient of the input: block of inputs, output, tap of the turned kernel, input.
  void pack_turned(const float* w) {
    const Split inputs(l_.inputs, MOST_ROWS);
    float* to = packed_;
    int64_t c = 0;
    for (int64_t b = 0; b < inputs.blocks; c += inputs.size(b++))
      for (int64_t o = 0; o < l_.outputs; o++)
        for (int64_t t = area_ - 1; t >= 0; t--)
          for (int r = 0; r < inputs.size(b); r++) *to++ = w[(o * l_.inputs + c + r) * area_ + t];
  }

  // How many channels of a span stay in the first cache while all blocks of rows pass over them.
  int64_t channels_at_once() const {
    return std::max<int64_t>(1, 20480 / (area_ * MOST_VECTORS * VL * static_cast<int64_t>(sizeof(float))));
  }

  // One row of a convolution or of its gradient: to[r][lanes] (+)= sum over channels and taps. `in` is the place that
  // row tap 0, lane 0 reads; the kernel's rows begin at `kernel_row`, `rows` of them, `row_step` apart.
  struct Row {
    const float* in;
    int64_t in_channel, in_row;
    int64_t channels, kernel_row, rows, row_step, column_step;
    float* to;
    int64_t to_channel, outputs;
  };

  template <class First, class Done>
  INLINE void multiply_row(const Row& row, const std::vector<Span>& spans, First first, Done done) const {
    const int64_t group = channels_at_once();
    const Split outputs(row.outputs, MOST_ROWS);
    for (const Span& span : spans)
      for (int64_t c = 0; c < row.channels; c += group) {
        const int64_t channels = std::min(group, row.channels - c);
        const float* packed = packed_;
        int64_t o = 0;
        for (int64_t b = 0; b < outputs.blocks; b++) {
          const int size = outputs.size(b);
          const Terms terms{channels, row.rows, span.columns, row.in_channel, row.in_row, n_,
                            area_ * size, row.row_step * l_.kernel_w * size, row.column_step * size};
          const float* kernel = packed + (c * area_ + row.kernel_row * l_.kernel_w + span.column) * size;
          float* to = row.to + o * row.to_channel + span.to;
          block<true>(size, span.vectors, row.in + c * row.in_channel + span.from, kernel, terms, 1,
                      [&](int r, int64_t at) { return c ? load(to + r * row.to_channel + at) : first(o + r); },
                      [&](int r, int64_t at, V sum) {
                        store_first(to + r * row.to_channel + at, c + channels == row.channels ? done(sum) : sum,
                                    span.lanes - at);
                      });
          packed += row.channels * area_ * size;
          o += size;
        }
      }
  }

  void convolve_row(int64_t oy, const Pass& pass, float* to, int64_t to_channel, bool relu) const {
    const float* bias = l_.bias >= 0 ? pass.w + l_.bias : nullptr;
    const int64_t top = oy * l_.stride_h - l_.pad_h, skipped = std::max<int64_t>(0, -top);
    const Row row{in_.x + (top + skipped) * in_.row, in_.channel, in_.row, l_.inputs, skipped,
                  std::min(l_.kernel_h, in_.shape.height - top) - skipped, 1, 1, to, to_channel, l_.outputs};
    const auto first = [&](int64_t o) { return bias ? broadcast(bias[o]) : V{}; };
    if (relu) multiply_row(row, spans_, first, [](V sum) { return rectified(sum); });
    else multiply_row(row, spans_, first, [](V sum) { return sum; });
  }

  // K is the side of a window, 0 if it is only known when the program runs. Of equals the first counts; a NaN is the
  // largest. What ReLU makes 0 has no largest place (-1): no gradient passes.
  template <int K>
  void pool_row(int64_t p, bool keep) {
    const int64_t k = K ? K : pool_, columns = out_.shape.width;
    for (int64_t o = 0; o < l_.outputs; o++) {
      const float* y = y_ + o * k * y_row_;
      float* to = out_.x + o * out_.channel + p * out_.row;
      int8_t* largest = largest_ + (p * l_.outputs + o) * columns * n_;
      for (int64_t x = 0; x < columns; x++)
        for (int64_t b = 0; b < n_; b += VL) {
          const float* window = y + x * k * n_ + b;
          V best = load(window);
          I at{};
          for (int64_t u = 0; u < k; u++)
            for (int64_t v = 0; v < k; v++) {
              if (u + v == 0) continue;
              const V value = load(window + u * y_row_ + v * n_);
              const I larger = (value > best) | (value != value);
              best = larger ? value : best;
              at = larger ? I{} + static_cast<int32_t>(u * k + v) : at;
            }
          if (relu_) {
            const I dead = best <= 0;
            best = dead ? V{} : best;
            at = at | dead;
          }
          store_first(to + x * n_ + b, best, n_ - b);
          if (keep) store_bytes(largest + x * n_ + b, at);  // what reaches beyond n is written again, or in the slack
        }
    }
  }

  // The rows of the gradient of the convolution's own output that belong to row p of what comes out.
  void output_gradient(int64_t p) {
    if (pool_ == 2) unpool_row<2>(p);
    else if (pool_ > 1) unpool_row<0>(p);
    else rectify_row(p);
  }

  float* gradient_row(int64_t y) { return d_ + (in_.d ? y : y % pool_) * d_row_; }

  void rectify_row(int64_t p) {
    for (int64_t o = 0; o < l_.outputs; o++) {
      float* to = gradient_row(p) + o * d_channel_;
      const float *d = out_.d + o * out_.d_channel + p * out_.d_row, *y = out_.x + o * out_.channel + p * out_.row;
      for (int64_t l = 0; l < lanes_; l += VL) {
        const V g = load(d + l);
        store_first(to + l, relu_ ? where_alive(load(y + l), g) : g, lanes_ - l);
      }
    }
  }

  template <int K>
  void unpool_row(int64_t p) {
    const int64_t k = K ? K : pool_, columns = out_.shape.width;
    for (int64_t o = 0; o < l_.outputs; o++) {
      float* to = gradient_row(p * k) + o * d_channel_;
      const float* d = out_.d + o * out_.d_channel + p * out_.d_row;
      const int8_t* largest = largest_ + (p * l_.outputs + o) * columns * n_;
      for (int64_t x = 0; x < columns; x++)
        for (int64_t b = 0; b < n_; b += VL) {
          const V g = load(d + x * n_ + b);
          const I at = load_bytes(largest + x * n_ + b);
          float* window = to + x * k * n_ + b;
          for (int64_t u = 0; u < k; u++)
            for (int64_t v = 0; v < k; v++)
              store_first(window + u * d_row_ + v * n_, at == static_cast<int32_t>(u * k + v) ? g : V{}, n_ - b);
        }
    }
  }

  Runs runs(int64_t count) const {
    const int64_t x_row = l_.stride_h * in_.row;
    if (l_.stride_w == 1) return {count, 1, lanes_, d_row_, 0, x_row, 0};
    return {count, lanes_ / n_, n_, d_row_, n_, x_row, l_.stride_w * n_};
  }

  void sum_weight_gradient(int64_t y, int64_t count) {
    const Runs over = runs(count);
    const Split outputs(l_.outputs, MOST_OUTPUTS);
    const float* x = in_.x + y * l_.stride_h * in_.row;
    int64_t o = 0;
    for (int64_t b = 0; b < outputs.blocks; o += outputs.size(b++)) {
      float *sums = sums_ + o * taps_count_ * GROUP, *d = gradient_row(y) + o * d_channel_;
      const int64_t next = taps_count_ * GROUP;
      switch (outputs.size(b)) {
        case 1: weight_tiles<1>(sums, next, d, d_channel_, x, taps_.data(), taps_count_, over); break;
        case 2: weight_tiles<2>(sums, next, d, d_channel_, x, taps_.data(), taps_count_, over); break;
        case 3: weight_tiles<3>(sums, next, d, d_channel_, x, taps_.data(), taps_count_, over); break;
        default: weight_tiles<4>(sums, next, d, d_channel_, x, taps_.data(), taps_count_, over);
      }
    }
    if (l_.bias >= 0) sum_bias_gradient(y, over);
  }

  void sum_bias_gradient(int64_t y, const Runs& over) {
    for (int64_t o = 0; o < l_.outputs; o++)
      for (int half = 0; half < GROUP; half += VL) {
        V sum = load(bias_sums_ + o * GROUP + half);
        for (int64_t row = 0; row < over.rows; row++)
          for (int64_t run = 0; run < over.runs; run++) {
            const float* d = gradient_row(y) + o * d_channel_ + row * over.d_row + run * over.d_run + half;
            for (int64_t l = 0; l + half < over.lanes; l += GROUP) sum = sum + load_first(d + l, over.lanes - half - l);
          }
        store(bias_sums_ + o * GROUP + half, sum);
      }
  }

  // The same product as forward, with the kernel turned round and the gradient of the output as its image.
  void input_gradient(const float* w) {
    pack_turned(w);
    const auto first = [](int64_t) { return V{}; };
    for (int64_t y = 0; y < in_.shape.height; y++) {
      const Looking at = looking_at(y, l_.stride_h, l_.pad_h, l_.kernel_h, rows_);
      const Row row{d_ + at.first * d_row_, d_channel_, d_row_, l_.outputs, at.column, at.count, l_.stride_h, l_.stride_w,
                    in_.d + y * in_.d_row, in_.d_channel, l_.inputs};
      multiply_row(row, d_spans_, first, [](V sum) { return sum; });
    }
  }

  void finish(const Sink& sink) {
    for (int64_t i = 0; i < l_.outputs * taps_count_; i++) gradient_[i] = sum_of_group(sums_ + i * GROUP);
    sink.take_all(l_.weight, gradient_, l_.outputs * taps_count_);
    if (l_.bias < 0) return;
    for (int64_t o = 0; o < l_.outputs; o++) gradient_[o] = sum_of_group(bias_sums_ + o * GROUP);
    sink.take_all(l_.bias, gradient_, l_.outputs);
  }

  const fedtrip_layer l_;
  const bool relu_;
  const int64_t pool_;
  Value &in_, &out_;
  const int64_t n_, area_, taps_count_;
  const int64_t rows_, lanes_;  // of the convolution's own output, as far as anybody looks at it
  const int64_t before_;        // columns of the turned kernel before its middle
  std::vector<Span> spans_, d_spans_;
  std::vector<int64_t> taps_;  // where each tap of the kernel lies from the place it belongs to
  int64_t y_row_ = 0, chunk_ = 0, d_rows_ = 0, d_row_ = 0, d_channel_ = 0;
  Floats y_;                   // the rows under one row of windows, (output, row, lane)
  Memory<int8_t> largest_;     // which place of its window is the largest: (row, channel, column, sample)
  Floats d_memory_;
  float* d_ = nullptr;         // the gradient of the convolution's own output, (output, row, lane)
  Floats packed_;
  Floats sums_, bias_sums_;    // 16 lanes for each weight and each bias
  Floats gradient_;
};

}  // namespace
}  // namespace fedtrip
