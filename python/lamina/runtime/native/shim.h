// Routines of torch's C shim (aoti_torch_cpu_*, aoti_torch_cuda_*) by their operators' names, for calls that a schema describes.
#pragma once

#include <memory>
#include <utility>

#include "plan.h"
#include "torch_abi.h"

namespace lamina {

// A DispatcherCall as a call of a routine of the shim: everything is filled in except tensors and results.
struct ShimCall {
  void *routine;
  int32_t (*invoke)(void *routine, const uint64_t *words);
  std::vector<uint64_t> words;                    // one for each parameter; the last ones point to the results
  std::vector<std::pair<size_t, int>> tensors;    // (word, index into DispatcherCall::tensors)
  std::vector<std::unique_ptr<uint64_t[]>> lists; // memory that words point to
  // Throws CallFailed.
  void run(const std::vector<Handle> &tensors, std::vector<Handle> &results) const;
};

// Null if the table has no routine for the operator, if this torch's shim has none for this kind of device, or if the operator's
// schema has changed.
std::shared_ptr<const ShimCall> shim_call(const DispatcherCall &call, int32_t device);

} // namespace lamina
