// A CUDA graph of kernels, one after the other, that is made without capturing a stream: while any stream of a context is captured,
// the driver refuses every thread what waits for the whole context, such as torch.cuda.synchronize.
#pragma once

#include "cuda_driver.h"

namespace lamina::cuda {

// Not thread-safe.
class KernelGraph {
public:
  explicit KernelGraph(Driver &driver); // throws std::runtime_error
  ~KernelGraph() { driver_.destroy_graph(graph_); }
  KernelGraph(const KernelGraph &) = delete;

  // Adds the launch that Driver::launch would make, after those added before. If it is `dependent` it may start before these have
  // ended, given a driver for CUDA 12.3 or newer. The context must be current.
  Result add(const LaunchConfig &config, FunctionHandle function, void **parameters);

  GraphHandle handle() const { return graph_; } // the graph to instantiate; it must live as long as nodes of the instance are changed
  NodeHandle last() const { return last_; }

private:
  Driver &driver_;
  GraphHandle graph_ = nullptr;
  NodeHandle last_ = nullptr;
};

} // namespace lamina::cuda
