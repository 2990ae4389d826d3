// An NVIDIA GPU: memory from torch's allocator, kernels of cubins on torch's current stream.
//
// What a kernel may count on: one 64-bit pointer per argument, in order. There is no error slot yet: checks of indices do not fail
// on a GPU. Its place is Context::slots, after the addresses of a launch.
#pragma once

#include <nanobind/nanobind.h>

#include "device.h"
#include "graph_choice.h"

namespace lamina {

struct GpuCode {
  std::string target;  // "nvvm:sm_90a"
  std::string driver;  // the driver's library
  bool cuda = true;    // tensors are on CUDA devices; false: on the CPU, for tests with a driver of their own
  bool synchronous = false;
  std::vector<std::string> cubins; // each kernel is in one of them
  struct Kernel {
    std::string name;
    uint32_t shared, cluster; // the most that a launch asks for
  };
  std::vector<Kernel> kernels;
  std::vector<nb::bytes> constants;
  GraphOptions graphs;
};

// Throws std::runtime_error where there is no driver.
std::shared_ptr<Device> make_gpu(GpuCode code);

} // namespace lamina
