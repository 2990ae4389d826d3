// Measures how long the host takes to issue work to the GPU, and the GPU to execute it. Nothing waits: a measurement is read when the
// GPU is done.
#pragma once

#include <chrono>
#include <limits>

#include "cuda_driver.h"

namespace lamina {

// The minima of some measurements, in seconds. waits: whether the GPU was idle when each of them began.
struct Times {
  int count = 0;
  bool waits = true;
  double host = std::numeric_limits<double>::infinity(), device = host;
};

class Stopwatch {
public:
  explicit Stopwatch(cuda::Driver &driver) : driver_(driver) {}
  ~Stopwatch() { reset(); }
  Stopwatch(const Stopwatch &) = delete;

  // Called before and after work on a stream of the current context. Both throw std::runtime_error.
  void start(void *stream);
  void stop(void *stream);

  // Returns whether nothing is being measured; adds a finished measurement to `times`.
  bool idle(Times &times);

  void reset() noexcept;

private:
  using Clock = std::chrono::steady_clock;

  cuda::Driver &driver_;
  cuda::ContextHandle context_ = nullptr; // of the events
  cuda::EventHandle first_ = nullptr, last_ = nullptr;
  Clock::time_point begun_;
  double host_ = 0;
  bool pending_ = false, waited_ = false;
};

} // namespace lamina
