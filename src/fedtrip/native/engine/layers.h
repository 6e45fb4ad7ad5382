// A chain's layers and the shapes between them, checked once, for every implementation.
#pragma once
#include <cstdint>
#include <vector>

#include "chain.h"

namespace fedtrip {

// What one sample is between two layers: an image, or (flat) a row of features.
struct Shape {
  int64_t channels, height, width;
  bool flat;
  int64_t size() const { return channels * height * width; }
};

struct Plan {
  std::vector<fedtrip_layer> layers;
  std::vector<Shape> shapes;  // shapes[i] goes into layer i; the last one comes out of the last layer
  int64_t parameters;
  int64_t tap;  // the layer whose input is looked at, or -1

  int64_t outputs() const { return shapes.back().size(); }
};

// Throws std::invalid_argument, with a sentence, if the layers do not fit together.
Plan checked_plan(const fedtrip_layer* layers, int64_t count, Shape input, int64_t parameters, int64_t tap);

}  // namespace fedtrip
