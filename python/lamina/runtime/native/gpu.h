// An NVIDIA GPU: memory from torch's allocator, kernels of cubins on torch's current stream.
//
// Kernels take one 64-bit pointer per argument, in order. There is no error slot yet: failed checks of indices do not end a run
// on a GPU. The slot would be in Context::slots, after the addresses of a launch.
#pragma once

#include <nanobind/nanobind.h>

#include "device.h"
#include "graph_choice.h"

namespace lamina {

struct GpuCode {
  std::string target;  // "nvvm:sm_90a"
  std::string driver;  // the driver's library
  bool cuda = true;    // whether tensors are on CUDA devices; false: on the CPU, for tests with a fake driver
  bool synchronous = false;
  std::vector<std::string> cubins; // each kernel is in one of them
  struct Kernel {
    std::string name;
    uint32_t shared, cluster; // maxima over the launches
  };
  std::vector<Kernel> kernels;
  std::vector<nb::bytes> constants;
  GraphOptions graphs;
};

// Throws std::runtime_error if there is no driver.
std::shared_ptr<Device> make_gpu(GpuCode code);

} // namespace lamina
