#include "layers.h"

#include <stdexcept>
#include <string>

namespace fedtrip {
namespace {

[[noreturn]] void refuse(int64_t layer, const std::string& why) {
  throw std::invalid_argument("layer " + std::to_string(layer) + " of the chain: " + why);
}

void check_span(int64_t layer, int64_t start, int64_t length, int64_t parameters, const char* what) {
  if (start < 0 || length < 1 || start > parameters - length) refuse(layer, std::string(what) + " outside the flat vector");
}

void check_parameters(int64_t at, const fedtrip_layer& l, int64_t weights, int64_t parameters) {
  check_span(at, l.weight, weights, parameters, "weights");
  if (l.bias != -1) check_span(at, l.bias, l.outputs, parameters, "biases");
}

// A window that moves over an image: every place of it begins inside the padded image and touches the image.
void check_window(int64_t at, const fedtrip_layer& l, const Shape& in) {
  if (in.flat) refuse(at, "it needs an image");
  if (l.kernel_h < 1 || l.kernel_w < 1 || l.stride_h < 1 || l.stride_w < 1) refuse(at, "kernel or stride below 1");
  if (l.pad_h < 0 || l.pad_w < 0 || l.pad_h >= l.kernel_h || l.pad_w >= l.kernel_w) refuse(at, "padding as wide as the kernel");
  if (l.out_h < 1 || l.out_w < 1) refuse(at, "no place in the image");
  if ((l.out_h - 1) * l.stride_h - l.pad_h >= in.height || (l.out_w - 1) * l.stride_w - l.pad_w >= in.width) {
    refuse(at, "a window that begins outside the image");
  }
}

void check_convolution(int64_t at, const fedtrip_layer& l, const Shape& in, int64_t parameters) {
  check_window(at, l, in);
  if (l.inputs != in.channels || l.outputs < 1) refuse(at, "another number of channels than it is given");
  if (l.out_h != (in.height + 2 * l.pad_h - l.kernel_h) / l.stride_h + 1 ||
      l.out_w != (in.width + 2 * l.pad_w - l.kernel_w) / l.stride_w + 1) {
    refuse(at, "an output of another size than the convolution has");
  }
  check_parameters(at, l, l.outputs * l.inputs * l.kernel_h * l.kernel_w, parameters);
}

Shape after(int64_t at, const fedtrip_layer& l, const Shape& in, int64_t parameters) {
  switch (l.kind) {
    case FEDTRIP_CONVOLUTION:
      check_convolution(at, l, in, parameters);
      return {l.outputs, l.out_h, l.out_w, false};
    case FEDTRIP_LINEAR:
      if (!in.flat || l.inputs != in.size() || l.outputs < 1) refuse(at, "another number of features than it is given");
      check_parameters(at, l, l.inputs * l.outputs, parameters);
      return {l.outputs, 1, 1, true};
    case FEDTRIP_MAX_POOL:
    case FEDTRIP_AVERAGE_POOL:
      check_window(at, l, in);
      return {in.channels, l.out_h, l.out_w, false};
    case FEDTRIP_RELU:
    case FEDTRIP_TANH:
      return in;
    case FEDTRIP_FLATTEN:
      return {in.size(), 1, 1, true};
    case FEDTRIP_DROPOUT:
      if (!(l.probability >= 0 && l.probability <= 1)) refuse(at, "a probability outside [0, 1]");
      return in;
    default:
      refuse(at, "an unknown kind");
  }
}

}  // namespace

Plan checked_plan(const fedtrip_layer* layers, int64_t count, Shape input, int64_t parameters, int64_t tap) {
  if (count < 1) throw std::invalid_argument("the chain has no layers");
  if (input.channels < 1 || input.height < 1 || input.width < 1) throw std::invalid_argument("the input has no size");
  if (tap < -1 || tap >= count) throw std::invalid_argument("the tap is at no layer of the chain");
  Plan plan{std::vector<fedtrip_layer>(layers, layers + count), {input}, parameters, tap};
  for (int64_t i = 0; i < count; i++) plan.shapes.push_back(after(i, layers[i], plan.shapes.back(), parameters));
  return plan;
}

}  // namespace fedtrip
