// The C interface: chooses an implementation when the library is first used, and keeps exceptions inside.
#include <algorithm>
#include <cstdlib>
#include <exception>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#include "implementation.h"

namespace fedtrip {
namespace {

thread_local std::string problem;

bool runs_here(const Implementation& which) {
  if (&which == &avx512) {
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("fma");
  }
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");  // the reference is compiled with FMA too
}

// The implementation of this name, or (no name) the fastest; null if this processor cannot run it. AMD's Zen 3 and 4
// multiply no more numbers at a time with AVX-512 than with AVX2, and wide loads that cross a cache line cost them more:
// the paper's CNN trains 1.19 times as long with it. (Its MLP is 0.95 of the time: one choice for all chains.)
const Implementation* find(const char* name) {
  if ((!name || !*name) && __builtin_cpu_is("amdfam19h") && runs_here(avx2)) return &avx2;
  for (const Implementation* one : {&avx512, &avx2, &wide, &reference}) {
    if ((!name || !*name || std::string(name) == one->name) && runs_here(*one)) return one;
  }
  return nullptr;
}

const Implementation*& chosen() {
  static const Implementation* which = find(std::getenv("FEDTRIP_KERNELS"));
  return which;
}

// One chain and what its calls need between them.
struct Handle {
  Plan plan;
  const Implementation* with;
  std::unique_ptr<Chain> chain;
  std::vector<float> outputs, d_outputs;
  int64_t kept = 0;  // samples of the batch that backward may be asked about
};

Handle& handle(void* chain) { return *static_cast<Handle*>(chain); }

template <class Work>
int guarded(Work work) {
  try {
    work();
    return 0;
  } catch (const std::bad_alloc&) {
    problem = "out of memory";
    return 1;
  } catch (const std::exception& error) {
    problem = error.what();
    return 2;
  }
}

// Some of the samples that a caller names, from number `first` on.
Batch part_of(const Handle& h, const float* x, const int64_t* rows, int64_t first, int64_t count) {
  return {rows ? x : x + first * h.plan.shapes[0].size(), rows ? rows + first : nullptr, count};
}

void train_step(Handle& h, const Training& training, const Batch& batch, const int64_t* labels, const Dropout& dropout) {
  const int64_t classes = h.plan.outputs();
  h.outputs.resize(batch.n * classes);
  h.d_outputs.resize(batch.n * classes);
  h.chain->forward(batch, &dropout, true);
  h.chain->copy_outputs(h.outputs.data());
  h.with->softmax_gradient(h.outputs.data(), labels, batch, classes, 1.0f / static_cast<float>(batch.n),
                             h.d_outputs.data());
  h.chain->step(h.d_outputs.data(), training);
}

}  // namespace
}  // namespace fedtrip

using namespace fedtrip;

void* fedtrip_chain_new(const fedtrip_layer* layers, int64_t count, int64_t channels, int64_t height, int64_t width,
                        int64_t flat, int64_t parameters, int64_t tap) {
  Handle* made = nullptr;
  guarded([&] {
    if (!chosen()) throw std::runtime_error("this processor has not the instructions of the kernels asked for");
    const Plan plan = checked_plan(layers, count, {channels, height, width, flat != 0}, parameters, tap);
    made = new Handle{plan, chosen(), chosen()->make(plan), {}, {}, 0};
  });
  return made;
}

void fedtrip_chain_free(void* chain) { delete static_cast<Handle*>(chain); }
const char* fedtrip_problem(void) { return problem.c_str(); }
const char* fedtrip_kernels(void) { return chosen() ? chosen()->name : ""; }
int64_t fedtrip_interface(void) { return 1; }

int fedtrip_choose(const char* kernels) {
  return guarded([&] {
    const Implementation* found = find(kernels ? kernels : std::getenv("FEDTRIP_KERNELS"));
    if (!found) throw std::invalid_argument("this processor cannot run these kernels");
    chosen() = found;
  });
}

int fedtrip_chain_train(void* chain, float* w, float* m, const float* x, const int64_t* labels, const int64_t* order,
                        int64_t samples, int64_t epochs, int64_t batch, float lr, float beta, float a, const float* c,
                        uint64_t key) {
  return guarded([&] {
    Handle& h = handle(chain);
    h.kept = 0;
    h.chain->use(w);
    const Training training{w, beta != 0 ? m : nullptr, c, {lr, beta, a}};
    uint64_t steps = 0;
    for (int64_t epoch = 0; epoch < epochs; epoch++) {
      for (int64_t done = 0; done < samples; done += batch) {
        const Batch part{x, order + epoch * samples + done, std::min(batch, samples - done)};
        train_step(h, training, part, labels, Dropout{key, steps++});
      }
    }
  });
}

int fedtrip_chain_evaluate(void* chain, const float* w, const float* x, const int64_t* labels, const int64_t* rows,
                           int64_t n, double* loss, int64_t* hits) {
  return guarded([&] {
    Handle& h = handle(chain);
    const int64_t classes = h.plan.outputs(), most = h.chain->evaluation_batch();
    h.kept = 0;
    h.chain->use(w);
    *loss = 0;
    *hits = 0;
    for (int64_t done = 0; done < n; done += most) {
      const int64_t count = std::min(most, n - done);
      const Batch part = part_of(h, x, rows, done, count);
      h.outputs.resize(count * classes);
      h.chain->forward(part, nullptr, false);
      h.chain->copy_outputs(h.outputs.data());
      h.with->softmax_sums(h.outputs.data(), rows ? labels : labels + done, part, classes, loss, hits);
    }
  });
}

int fedtrip_chain_forward(void* chain, const float* w, const float* x, const int64_t* rows, int64_t n, int64_t mode,
                          uint64_t key, uint64_t step, float* outputs, float* tapped) {
  return guarded([&] {
    Handle& h = handle(chain);
    const Dropout dropout{key, step};
    if (tapped && h.plan.tap < 0) throw std::invalid_argument("the chain has no tap");
    h.kept = mode == FEDTRIP_OUTPUTS ? 0 : n;
    h.chain->use(w);
    // What is not kept need not be in memory at once.
    const int64_t most = mode == FEDTRIP_OUTPUTS ? h.chain->evaluation_batch() : n;
    for (int64_t done = 0; done < n; done += most) {
      const int64_t count = std::min(most, n - done);
      h.chain->forward(part_of(h, x, rows, done, count), mode == FEDTRIP_TRAINING ? &dropout : nullptr, h.kept > 0);
      h.chain->copy_outputs(outputs + done * h.plan.outputs());
      if (tapped) h.chain->copy_tap(tapped + done * h.plan.shapes[h.plan.tap].size());
    }
  });
}

int fedtrip_chain_backward(void* chain, int64_t n, const float* d_outputs, const float* d_tapped, float* g, int64_t accumulate) {
  return guarded([&] {
    if (n < 1 || handle(chain).kept != n) throw std::invalid_argument("no forward pass of this batch was kept");
    handle(chain).chain->backward(d_outputs, d_tapped, {g, accumulate != 0});
  });
}

void fedtrip_softmax_gradient(const float* z, const int64_t* labels, const int64_t* rows, int64_t n, int64_t classes,
                              float scale, float* d) {
  chosen()->softmax_gradient(z, labels, {nullptr, rows, n}, classes, scale, d);
}

void fedtrip_softmax_sums(const float* z, const int64_t* labels, const int64_t* rows, int64_t n, int64_t classes,
                          double* loss, int64_t* hits) {
  *loss = 0;
  *hits = 0;
  chosen()->softmax_sums(z, labels, {nullptr, rows, n}, classes, loss, hits);
}

void fedtrip_sgd_step(float* w, float* m, const float* g, const float* c, int64_t n, float lr, float beta, float a) {
  chosen()->sgd_step({lr, beta, a}, w, beta != 0 ? m : nullptr, c, g, n);
}

void fedtrip_exp(const float* x, int64_t n, float* y) { chosen()->exp(x, n, y); }
void fedtrip_log(const float* x, int64_t n, float* y) { chosen()->log(x, n, y); }
