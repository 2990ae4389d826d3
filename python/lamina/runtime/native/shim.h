// Routines of torch's C shim (aoti_torch_cpu_*, aoti_torch_cuda_*) by their operators' names, for calls that a schema describes.
#pragma once

#include <memory>
#include <utility>

#include "plan.h"
#include "torch_abi.h"

namespace lamina {

// A DispatcherCall as a call of a routine of the shim: what it takes is known but for the tensors and the results.
struct ShimCall {
  void *routine;
  int32_t (*invoke)(void *routine, const uint64_t *words);
  std::vector<uint64_t> words;                    // one for each parameter; the last ones point to the results
  std::vector<std::pair<size_t, int>> tensors;    // (word, index into DispatcherCall::tensors)
  std::vector<std::unique_ptr<uint64_t[]>> lists; // what words point to
  // Throws CallFailed.
  void run(const std::vector<Handle> &tensors, std::vector<Handle> &results) const;
};

// Null where the table has no routine for the operator, or this torch's shim has none on this kind of device, or the operator has
// other arguments by now.
std::shared_ptr<const ShimCall> shim_call(const DispatcherCall &call, int32_t device);

} // namespace lamina
