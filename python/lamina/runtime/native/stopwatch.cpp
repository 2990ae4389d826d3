#include "stopwatch.h"

#include <algorithm>

namespace lamina {

void Stopwatch::start(void *stream) {
  if (!last_) {
    cuda::Relaxed relaxed(driver_); // other threads may be capturing
    driver_.check(driver_.current_context(&context_), "no current CUDA context");
    if (!first_) driver_.check(driver_.create_event(&first_, 0), "no event to measure with");
    driver_.check(driver_.create_event(&last_, 0), "no event to measure with");
  }
  {
    cuda::Relaxed relaxed(driver_);
    waited_ = driver_.stream_idle && !driver_.stream_idle(stream);
  }
  driver_.check(driver_.record_event(first_, stream), "the time cannot be taken");
  begun_ = Clock::now();
}

void Stopwatch::stop(void *stream) {
  host_ = std::chrono::duration<double>(Clock::now() - begun_).count();
  driver_.check(driver_.record_event(last_, stream), "the time cannot be taken");
  pending_ = true;
}

bool Stopwatch::idle(Times &times) {
  if (!pending_) return true;
  float milliseconds = 0;
  cuda::Relaxed relaxed(driver_);
  cuda::Result result = driver_.elapsed(&milliseconds, first_, last_);
  if (result == cuda::kNotReady) return false;
  driver_.check(result, "the time cannot be read");
  pending_ = false;
  ++times.count;
  times.waits &= waited_;
  times.host = std::min(times.host, host_);
  times.device = std::min(times.device, double(milliseconds) * 1e-3);
  return true;
}

void Stopwatch::reset() noexcept {
  pending_ = false;
  if (!first_) return;
  cuda::Relaxed relaxed(driver_);
  cuda::ContextHandle gone = nullptr;
  bool pushed = !driver_.push_context(context_); // may run on any thread
  driver_.destroy_event(first_);
  if (last_) driver_.destroy_event(last_);
  if (pushed) driver_.pop_context(&gone);
  first_ = last_ = nullptr;
}

} // namespace lamina
