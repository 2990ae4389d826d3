// The steps of a plan as a CUDA graph, replayed by one call of the driver. One of kernels alone is made node by node (see
// kernel_graph.h); where a library is called, its launches have to be captured.
//
// Kernels of ours follow where arguments and results lie: the parameters of their nodes are changed. A library's nodes cannot be: an
// argument that a library call reads has to lie where it was when it was recorded, or is `staged`: copied to a place of the
// recording's own. What a library call writes or returns as a result of the program is copied out, but for what only a backward pass
// sees: that is lent, and nothing is replayed until its last user is gone. The arena and everything else between the steps stays with
// the recording.
#pragma once

#include <functional>
#include <nanobind/nanobind.h>
#include <vector>

#include "copier.h"
#include "cuda_driver.h"
#include "device.h"
#include "kernel_graph.h"

namespace lamina {

using Steps = std::function<void()>;

// What every replay copies: arguments for library calls, and results of those.
struct Copies {
  int in = 0, out = 0;
  int64_t in_bytes = 0, out_bytes = 0;
};

// All functions need the GIL.
class Recording {
public:
  Recording(cuda::Driver &driver, const Plan &plan) : driver_(driver), plan_(plan), copier_(driver) {}
  ~Recording() { drop(); }
  Recording(const Recording &) = delete;

  // Bytes that a recording keeps as long as it lives.
  static int64_t bytes(const Plan &plan, const std::vector<int> &staged);

  // Records `steps`, which run on torch's current stream; captures go through `recorder` (lamina.runtime.recording.graphs.Recorder). `called`: the
  // arguments (buffers) that library calls read and what draws fill, `staged`: those of them that are copied. Says why where it fails,
  // else nothing.
  std::string record(Context &context, nb::handle recorder, const std::vector<int> &called, const std::vector<int> &staged,
                     const Steps &steps);

  // Instead of each launch while recording.
  cuda::Result launch(const Launch &launch, const cuda::LaunchConfig &config, cuda::FunctionHandle function, void **parameters);

  // Whether it can do this run: nothing has moved that must not, and the store has not dropped it.
  bool fits(const Context &context) const;

  // Gives a run the memory of the results that are lent, unless somebody still has them; and whether a run has it.
  bool lends() const { return lends_; }
  void lend(Context &context) const;
  bool is_lent_to(const Context &context) const;

  void replay(Context &context); // throws std::runtime_error

  bool ready() const { return exec_; }
  void drop() noexcept; // gives everything back

  const Copies &copies() const { return copies_; }

private:
  friend class GraphStore;

  struct Node {
    cuda::NodeHandle node;
    cuda::KernelNodeParams params;
    std::vector<uint32_t> movable; // slots that follow arguments and results
  };
  struct Kept {
    int buffer;
    Memory memory; // a loan where it is lent
    void *data;
  };

  std::string make(Context &context, nb::handle recorder, const Steps &steps, std::exception_ptr &interrupt);
  cuda::GraphHandle build(Context &context, const Steps &steps);
  cuda::GraphHandle capture(Context &context, nb::handle recorder, const Steps &steps, nb::object &begun);
  void stage(Context &context, const std::vector<int> &staged);
  void keep(Context &context);
  void update(Context &context);
  void copy(void *to, const void *from, int buffer); // with the next run of `copier_`
  void copy_out(Context &context);

  cuda::Driver &driver_;
  const Plan &plan_;
  cuda::Copier copier_;
  std::unique_ptr<cuda::KernelGraph> built_; // of kernels alone; it stays, as its nodes say which of `exec_` are to be changed
  nb::object captured_;                      // otherwise: what `recorder` keeps for the same
  cuda::GraphExecHandle exec_ = nullptr;
  std::vector<bool> movable_;                 // by slot
  std::vector<std::pair<int, void *>> fixed_; // arguments that libraries read where they lie
  std::vector<Node> nodes_;
  std::vector<void *> slots_, parameters_;
  Memory arena_;
  char *arena_data_ = nullptr;
  std::vector<Kept> staged_, outputs_, owned_;
  Copies copies_;
  bool lends_ = false;
  cuda::ContextHandle context_ = nullptr;
  void *stream_ = nullptr;
  int index_ = 0;

  // of the store
  int64_t bytes_ = 0;
  uint64_t used_ = 0; // when
  bool busy_ = false;
};

} // namespace lamina
