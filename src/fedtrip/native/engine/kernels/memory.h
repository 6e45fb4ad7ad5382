// Memory of the kernels: zeroed, aligned to a cache line, with room for a vector that reaches beyond the end.
#pragma once
#include <cstdlib>
#include <cstring>
#include <new>

#include "lanes.h"

namespace fedtrip {
namespace {

INLINE int64_t round_up(int64_t n, int64_t k) { return (n + k - 1) / k * k; }

template <class T>
class Memory {
 public:
  Memory() = default;
  explicit Memory(int64_t count) {
    constexpr int64_t LINE = 64, SLACK = 4 * GROUP * sizeof(float);
    const int64_t bytes = round_up(count * static_cast<int64_t>(sizeof(T)) + SLACK, LINE);
    start_ = static_cast<T*>(std::aligned_alloc(LINE, bytes));
    if (!start_) throw std::bad_alloc();
    std::memset(start_, 0, bytes);
  }
  Memory(Memory&& other) noexcept : start_(other.start_) { other.start_ = nullptr; }
  Memory& operator=(Memory&& other) noexcept {
    T* mine = start_;
    start_ = other.start_;
    other.start_ = mine;
    return *this;
  }
  ~Memory() { std::free(start_); }
  operator T*() const { return start_; }

 private:
  T* start_ = nullptr;
};

using Floats = Memory<float>;

}  // namespace
}  // namespace fedtrip
