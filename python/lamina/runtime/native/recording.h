// The steps of a plan as a CUDA graph, replayed by one call of the driver.
//
// Kernels of ours follow where arguments and results lie: the parameters of their nodes are changed. A library's nodes cannot be: an
// argument that a library call reads has to stay where it was when it was recorded, else the recording is dropped; what a library
// call writes or returns as a result of the program is copied out. The arena and everything else between the steps stays with the
// recording.
#pragma once

#include <functional>
#include <nanobind/nanobind.h>
#include <vector>

#include "cuda_driver.h"
#include "device.h"

namespace lamina {

class Recording {
public:
  Recording(cuda::Driver &driver, const Plan &plan);
  ~Recording() { drop(); } // needs the GIL
  Recording(const Recording &) = delete;

  bool ready() const { return exec_; }

  // Whether it is time to record: the arguments that libraries read have been in their place for some runs.
  bool wants(const Context &context);

  // Records `steps`, which run on torch's current stream, through `recorder` (lamina.runtime.graphs.Recorder). False where that fails,
  // which is for good. Needs the GIL.
  bool record(Context &context, nb::handle recorder, const std::function<void()> &steps);

  // After each launch while recording.
  void note(const Launch &launch, cuda::FunctionHandle function, void *stream);

  // Runs the steps. False where this run differs in what cannot be changed. Needs the GIL; throws std::runtime_error.
  bool replay(Context &context);

private:
  struct Node {
    cuda::NodeHandle node;
    cuda::KernelNodeParams params;
    std::vector<uint32_t> movable; // slots that follow arguments and results
  };
  struct Kept {
    int buffer;
    Memory memory;
    void *data;
  };

  void keep(Context &context);
  void drop() noexcept;
  void update(Context &context);
  void copy_out(Context &context);

  cuda::Driver &driver_;
  const Plan &plan_;
  std::vector<bool> movable_; // by slot
  std::vector<std::pair<int, void *>> fixed_; // arguments that libraries read, and where they were
  int same_ = 0, needed_ = 3;
  bool failed_ = false;

  // of the recording
  nb::object graph_;
  cuda::GraphExecHandle exec_ = nullptr;
  std::vector<Node> nodes_;
  std::vector<void *> slots_, parameters_;
  Memory arena_;
  char *arena_data_ = nullptr;
  std::vector<Kept> outputs_, owned_;
  cuda::ContextHandle context_ = nullptr;
  void *stream_ = nullptr;
  int index_ = 0;
};

} // namespace lamina
