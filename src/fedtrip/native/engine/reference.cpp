// A stand-in until the engine is there: every function fails or does nothing.
#include "chain.h"

extern "C" {
void* fedtrip_chain_new(const fedtrip_layer*, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t) {
  return nullptr;
}
void fedtrip_chain_free(void*) {}
const char* fedtrip_problem(void) { return "the engine is not written yet"; }
int fedtrip_chain_train(void*, float*, float*, const float*, const int64_t*, const int64_t*, int64_t, int64_t, int64_t,
                        float, float, float, const float*, uint64_t) {
  return 1;
}
int fedtrip_chain_evaluate(void*, const float*, const float*, const int64_t*, const int64_t*, int64_t, double*,
                           int64_t*) {
  return 1;
}
int fedtrip_chain_forward(void*, const float*, const float*, const int64_t*, int64_t, int64_t, uint64_t, uint64_t,
                          float*, float*) {
  return 1;
}
int fedtrip_chain_backward(void*, const float*, int64_t, const float*, const float*, float*, int64_t) { return 1; }
void fedtrip_softmax_gradient(const float*, const int64_t*, const int64_t*, int64_t, int64_t, float, float*) {}
void fedtrip_softmax_sums(const float*, const int64_t*, const int64_t*, int64_t, int64_t, double*, int64_t*) {}
void fedtrip_sgd_step(float*, float*, const float*, const float*, int64_t, float, float, float) {}
void fedtrip_exp(const float*, int64_t, float*) {}
void fedtrip_log(const float*, int64_t, float*) {}
}
