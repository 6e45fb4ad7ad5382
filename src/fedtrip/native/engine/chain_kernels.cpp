// Stub: the kernels are not written yet.
#include "implementation.h"
#define NAME_OF(x) #x
#define NAME(x) NAME_OF(x)
namespace fedtrip {
const Implementation FEDTRIP_KERNELS = {NAME(FEDTRIP_KERNELS), nullptr, nullptr, nullptr, nullptr, nullptr, nullptr};
}
