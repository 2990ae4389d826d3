// The steps of a plan as a CUDA graph, replayed by one call of the driver. A graph of kernels alone is built node by node (see
// kernel_graph.h); the launches of library calls have to be captured.
//
// Arguments and results may move between replays. Lamina's kernels get new addresses as node parameters. A library's nodes cannot be
// changed: an argument of a library call has to keep its address, or is `staged`: copied to memory of the
// recording. Results of library calls are copied out, unless only a backward pass sees them:
// these are lent, and there is no replay while one of them has a user. The recording keeps the arena and all
// intermediates.
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

// The copies of every replay: arguments for library calls, and their results.
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

  // Bytes that a recording keeps during its lifetime.
  static int64_t bytes(const Plan &plan, const std::vector<int> &staged);

  // Records `steps`, which run on torch's current stream; captures go through `recorder` (lamina.runtime.recording.graphs.Recorder).
  // `called`: the arguments (buffers) that library calls read and what draws fill, `staged`: those of them that are copied. Says why
  // where it fails, else nothing.
  std::string record(Context &context, nb::handle recorder, const std::vector<int> &called, const std::vector<int> &staged,
                     const Steps &steps);

  // Called instead of each launch while recording.
  cuda::Result launch(const Launch &launch, const cuda::LaunchConfig &config, cuda::FunctionHandle function, void **parameters);

  // Whether it can be replayed for this run: no fixed argument has moved, and the store has not dropped it.
  bool fits(const Context &context) const;

  // Sets a run's lent results, unless they still have users; and returns whether a run has them.
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
  void copy(void *to, const void *from, int buffer); // copied by the next run of `copier_`
  void copy_out(Context &context);

  cuda::Driver &driver_;
  const Plan &plan_;
  cuda::Copier copier_;
  std::unique_ptr<cuda::KernelGraph> built_; // a graph of kernels alone; kept, because its nodes identify those of `exec_` to change
  nb::object captured_;                      // otherwise: the graph that `recorder` captured
  cuda::GraphExecHandle exec_ = nullptr;
  std::vector<bool> movable_;                 // by slot
  std::vector<std::pair<int, void *>> fixed_; // arguments that libraries read at their own address
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

  // for the store
  int64_t bytes_ = 0;
  uint64_t used_ = 0; // time of last use
  bool busy_ = false;
};

} // namespace lamina
