// Does many device-to-device copies in one launch: each call of the driver takes microseconds of the host's time, in which the GPU
// copies several megabytes.
#pragma once

#include <vector>

#include "cuda_driver.h"

namespace lamina::cuda {

// Not thread-safe.
class Copier {
public:
  explicit Copier(Driver &driver) : driver_(driver) {}

  void add(void *to, const void *from, size_t bytes);

  // Does the added copies on a stream, in any order, and clears the list. The context must be current. Throws std::runtime_error.
  void run(ContextHandle context, StreamHandle stream);

private:
  struct Copy {
    uintptr_t to, from;
    uint64_t bytes;
  };

  FunctionHandle kernel(ContextHandle context); // null if the driver cannot compile it; copies are then done one by one
  void launch(FunctionHandle function, size_t first, size_t count, StreamHandle stream);

  Driver &driver_;
  std::vector<Copy> copies_;
  FunctionHandle kernel_ = nullptr;
  ContextHandle loaded_in_ = nullptr;
};

} // namespace lamina::cuda
