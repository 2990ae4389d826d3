// The interface of the CPU and a GPU: which tensors are accepted, where memory comes from, how a kernel is launched.
#pragma once

#include <Python.h>

#include <atomic>
#include <functional>
#include <string>

#include "dlpack.h"
#include "plan.h"
#include "pool.h"
#include "torch_abi.h"

namespace lamina {

class Context;

class Loan;

// A reference to memory of a run; at most one member is set.
struct Memory {
  PyObject *object = nullptr; // a torch tensor
  Handle handle = nullptr;    // the same from the C shim
  Block *block = nullptr;     // of the pool
  Loan *loan = nullptr;       // of a recording, which may reuse it when there is no other reference
  void release();             // needs the GIL for an object
  bool any() const { return object || handle || block || loan; }
};

// Memory that a recording owns and lends to results, with a reference count. Thread-safe; needs no GIL.
class Loan {
public:
  explicit Loan(Handle tensor) : tensor_(tensor) {}
  void retain() { users_.fetch_add(1, std::memory_order_relaxed); }
  void release();
  bool returned() const { return users_.load(std::memory_order_acquire) == 1; } // only the recording refers to it

private:
  Handle tensor_;
  std::atomic<int> users_{1};
};

// Thrown if a routine of the C shim failed. The routine has printed why; the caller repeats the step in Python, which raises the real
// error.
struct CallFailed {};

class Device {
public:
  Device(dlpack::DeviceType type, bool step_by_step) : type(type), step_by_step(step_by_step) {}
  virtual ~Device() = default; // needs the GIL

  const dlpack::DeviceType type; // of the arguments, the results and all memory
  const bool step_by_step;       // wait after each step, so that an error shows where it happened

  virtual int current() = 0; // torch's current device, for a program without arguments; needs the GIL

  // Called before and after a run, when `context.on` is set. All three need the GIL and throw what Runner::run throws.
  virtual void load(int index) = 0;
  virtual void enter(Context &) = 0;
  virtual void leave(Context &) noexcept = 0;

  // Allocates memory for a tensor and sets `*data` to its first element. Throws std::bad_alloc or nanobind::python_error.
  virtual Memory allocate(const Ref &layout, int64_t bytes, int index, void **data) = 0;
  // Returns whether a context keeps an arena of this size between runs.
  virtual bool keeps(int64_t bytes) const = 0;

  // Neither needs the GIL; both throw std::runtime_error that names the step.
  virtual void launch(const Launch &, const std::string &name, Context &) = 0;
  virtual void wait(const std::string &name, Context &) = 0;

  // Called before results are allocated: sets those that a recording lends. Needs the GIL.
  virtual void lend(Context &) {}

  // Runs all steps at once, if this run can; results are allocated, the arena is not.
  // Needs the GIL; throws what the steps throw, and std::runtime_error.
  virtual bool replay(Context &, const std::function<void()> &) { return false; }

  // Copies elements between two layouts of one shape and dtype, both on the device. Needs the GIL; throws nanobind::python_error.
  virtual void copy(const dlpack::Tensor &from, void *to, const Ref &want, Context &) = 0;
};

std::shared_ptr<Device> make_host();

} // namespace lamina
