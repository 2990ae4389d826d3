// Decides whether a plan runs as a recorded CUDA graph. The first runs are observed: the addresses of arguments and, if asked for, the
// times that the host takes to issue the steps and the GPU to execute them. A graph is recorded if launches limit the plan, and kept if
// replays are measured to be faster.
#pragma once

#include <nanobind/nanobind.h>

#include "recording.h"
#include "stopwatch.h"

namespace lamina {

struct GraphOptions {
  nb::object recorder;  // lamina.runtime.recording.graphs.Recorder; None: nothing is recorded
  bool measured = true; // false: recorded without measuring
  size_t most = 64;     // limit of graphs in the process
};

// Belongs to one context. Every function needs the GIL.
class GraphChoice {
public:
  GraphChoice(cuda::Driver &driver, const Plan &plan, const GraphOptions &options);

  // Sets the results of a run to the memory that the recording lends, if it may be replayed.
  void lend(Context &context);
  bool lends() const { return recording_ && recording_->lends(); }

  // Runs the steps; returns false if the caller has to. Throws what they throw, and std::runtime_error.
  bool run(Context &context, const Steps &steps);

  // Returns the fields of lamina.runtime.recording.graph_status.Status.
  nb::dict status() const;

private:
  struct Argument {
    int buffer;
    void *base = nullptr;
    int moves = 0, still = 0; // consecutive runs at the same address
    bool settled = false;     // it was assumed to have stopped moving
    bool is_moving() const;
    bool may_settle() const; // whether it may have stopped moving
  };

  bool is_here(const Context &context);
  void observe(const Context &context);
  bool measure(Context &context, const Steps &steps);
  bool record(Context &context, const Steps &steps);
  bool replay(Context &context);
  bool is_bound_by_launches();
  bool pays();
  void forget();
  void give_up(std::string why);

  cuda::Driver &driver_;
  const Plan &plan_;
  const GraphOptions &options_;
  std::vector<Argument> called_; // arguments that library calls read, and buffers that draws of random numbers fill
  std::unique_ptr<Recording> recording_;
  Stopwatch watch_;
  Times steps_, replays_;
  int calm_ = 0, waited_ = 0, needed_, elsewhere_ = 0, recorded_ = 0;
  bool known_ = false, judged_ = false, given_up_ = false;
  void *stream_ = nullptr;
  int index_ = 0;
  Copies copies_;
  std::string why_;
};

} // namespace lamina
