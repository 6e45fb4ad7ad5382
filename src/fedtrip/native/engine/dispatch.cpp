// A stand-in until the engine is there: chooses kernels, has none.
#include <cstdlib>
#include <cstring>
#include <initializer_list>

#include "chain.h"

extern "C" {
int64_t fedtrip_interface(void) { return 1; }

const char* fedtrip_kernels(void) {
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return "";
  const bool wide = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                    __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  const char* forced = std::getenv("FEDTRIP_KERNELS");
  for (const char* name : {"avx512", "avx2", "wide", "reference"})
    if (forced && !std::strcmp(forced, name) && (wide || std::strcmp(name, "avx512"))) return name;
  return wide ? "avx512" : "avx2";
}
}
