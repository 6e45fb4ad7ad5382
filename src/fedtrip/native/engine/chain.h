// The C interface of the chain engine: a chain of layers on flat float32 vectors, one thread.
//
// Every function that may fail returns 0, or a code that `fedtrip_problem()` explains. No exception leaves the library.
//
// What a result is, to the last bit, is written down in reference.cpp: a plain scalar program. The fast kernels must
// equal it, whatever the processor's vectors are.
#pragma once
#include <cstdint>

#ifdef __cplusplus
extern "C" {
#endif
#define FEDTRIP_EXPORT __attribute__((visibility("default")))

enum fedtrip_kind {
  FEDTRIP_CONVOLUTION = 1,  // (inputs, h, w) -> (outputs, oh, ow); weights (output, input, row, column)
  FEDTRIP_LINEAR = 2,       // inputs -> outputs; weights (input, output): the transpose of torch's
  FEDTRIP_MAX_POOL = 3,     // a window of kernel_h x kernel_w; places outside the image count as minus infinity
  FEDTRIP_AVERAGE_POOL = 4, // the same window; `divisor` says by what a sum is divided
  FEDTRIP_RELU = 5,
  FEDTRIP_TANH = 6,
  FEDTRIP_FLATTEN = 7,      // (c, h, w) -> c*h*w features
  FEDTRIP_DROPOUT = 8,      // in training: zero with probability p, else divided by 1 - p
};

// One layer. What a kind does not use is 0. The input of a layer is the output of the one before it.
struct fedtrip_layer {
  int64_t kind;
  int64_t inputs, outputs;     // channels of a convolution, features of a linear layer
  int64_t kernel_h, kernel_w;  // convolution and pooling
  int64_t stride_h, stride_w;
  int64_t pad_h, pad_w;        // zeros (convolution, average) or nothing (maximum) around the image
  int64_t out_h, out_w;        // rows and columns of the output (convolution, pooling): torch's, ceil_mode included
  int64_t weight, bias;        // where they begin in the flat vector; bias -1: there is none
  int64_t divisor;             // average pooling: 0 counts what is inside the image, -1 also the padding, else itself
  double probability;          // dropout's p
};

// The chain of `count` layers on inputs of shape (channels, height, width); features alone are (n, 1, 1) with flat = 1.
// `parameters` is the length of the flat vector. `tap` is the number of a layer (0 to count - 1) whose INPUT is
// looked at (MOON's representation), or -1. Null if the layers do not fit together: `fedtrip_problem()` says why.
FEDTRIP_EXPORT void* fedtrip_chain_new(const struct fedtrip_layer* layers, int64_t count, int64_t channels,
                                       int64_t height, int64_t width, int64_t flat, int64_t parameters, int64_t tap);
FEDTRIP_EXPORT void fedtrip_chain_free(void* chain);
FEDTRIP_EXPORT const char* fedtrip_problem(void);

// The implementation of the chains that are made from now on: avx512, avx2, wide or reference. At first it is what the
// environment variable FEDTRIP_KERNELS names, or the best that this processor can run; null chooses that again.
FEDTRIP_EXPORT const char* fedtrip_kernels(void);  // empty: this processor has none
FEDTRIP_EXPORT int fedtrip_choose(const char* kernels);
FEDTRIP_EXPORT int64_t fedtrip_interface(void);    // the version of this interface: the loader refuses another

// Where a batch comes from, here and below: sample i of the batch is row rows[i] of `x` (samples x input size,
// contiguous), or row i where rows is null; labels likewise.

// A client's epochs of SGD on the cross entropy, in place on w and m (both of length `parameters`; m null if beta = 0):
//   h = g + c (if c is not null) + a*w;  m = beta*m + h;  w = w - lr*m
// `order` has epochs*samples rows, epoch after epoch; the last batch of an epoch may be smaller. `key` and the number
// of the step (from 0) decide the dropout masks.
FEDTRIP_EXPORT int fedtrip_chain_train(void* chain, float* w, float* m, const float* x, const int64_t* labels,
                                       const int64_t* order, int64_t samples, int64_t epochs, int64_t batch, float lr,
                                       float beta, float a, const float* c, uint64_t key);

// Sums over n samples of the cross entropy and of how many have the label as their first largest output.
FEDTRIP_EXPORT int fedtrip_chain_evaluate(void* chain, const float* w, const float* x, const int64_t* labels,
                                          const int64_t* rows, int64_t n, double* loss, int64_t* hits);

enum fedtrip_mode {
  FEDTRIP_OUTPUTS = 0,   // dropout off, nothing kept
  FEDTRIP_TRAINING = 1,  // dropout on, as `key` and `step` say; what `backward` needs is kept until the next call
  FEDTRIP_KEPT = 2,      // dropout off, and what `backward` needs is kept: a full gradient of the model as it is
};

// Outputs (n x outputs of the last layer) and, if `tapped` is not null, the tap's values (n x their size).
FEDTRIP_EXPORT int fedtrip_chain_forward(void* chain, const float* w, const float* x, const int64_t* rows, int64_t n,
                                         int64_t mode, uint64_t key, uint64_t step, float* outputs, float* tapped);

// Of the batch of n samples that `forward` last kept, whose w and x must be where and as they were: g gets the gradient
// of every parameter, from that of the outputs and, if not null, of the tap's values. With accumulate = 1 it is added to what g holds.
FEDTRIP_EXPORT int fedtrip_chain_backward(void* chain, int64_t n, const float* d_outputs, const float* d_tapped,
                                          float* g, int64_t accumulate);

// d = scale*(softmax(z) - onehot(label)) for n rows of `classes` numbers.
FEDTRIP_EXPORT void fedtrip_softmax_gradient(const float* z, const int64_t* labels, const int64_t* rows, int64_t n,
                                             int64_t classes, float scale, float* d);
// The sums that `fedtrip_chain_evaluate` makes, of given outputs.
FEDTRIP_EXPORT void fedtrip_softmax_sums(const float* z, const int64_t* labels, const int64_t* rows, int64_t n,
                                         int64_t classes, double* loss, int64_t* hits);

// One step of SGD on whole vectors, the same bits as in `train`: h = g + c + a*w; m = beta*m + h; w = w - lr*m.
FEDTRIP_EXPORT void fedtrip_sgd_step(float* w, float* m, const float* g, const float* c, int64_t n, float lr, float beta,
                                     float a);

// exp and log in the engine's own arithmetic, for losses outside the chain.
FEDTRIP_EXPORT void fedtrip_exp(const float* x, int64_t n, float* y);
FEDTRIP_EXPORT void fedtrip_log(const float* x, int64_t n, float* y);

#ifdef __cplusplus
}
#endif
