// Whether a plan runs as a recorded graph. Runs are watched first: where arguments lie and, if asked for, how long the host takes to
// issue the steps and the GPU to do them. A graph is recorded where launches bound the plan, and kept where replays are measured to be
// faster.
#pragma once

#include <nanobind/nanobind.h>

#include "recording.h"
#include "stopwatch.h"

namespace lamina {

struct GraphOptions {
  nb::object recorder;  // lamina.runtime.recording.graphs.Recorder; None: nothing is recorded
  bool measured = true; // false: recorded in any case
  size_t most = 64;     // graphs of the process
};

// Of one context. Every function needs the GIL.
class GraphChoice {
public:
  GraphChoice(cuda::Driver &driver, const Plan &plan, const GraphOptions &options);

  // Gives a run the memory of results that the recording lends, where it may be replayed.
  void lend(Context &context);
  bool lends() const { return recording_ && recording_->lends(); }

  // Runs the steps; false where the caller has to. Throws what they throw, and std::runtime_error.
  bool run(Context &context, const Steps &steps);

  // What lamina.runtime.recording.graphs.Status is made of.
  nb::dict status() const;

private:
  struct Argument {
    int buffer;
    void *base = nullptr;
    int moves = 0, still = 0; // runs in a row in which it has not moved
    bool settled = false;     // it was taken to have stopped
    bool is_moving() const;
    bool may_settle() const; // it may have stopped
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
  std::vector<Argument> called_; // arguments that library calls read, and what draws fill
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
