// What differs between the CPU and a GPU: whose tensors are taken, where memory comes from, how a kernel is launched.
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

// A reference to memory of a run; at most one of them is set.
struct Memory {
  PyObject *object = nullptr; // a torch tensor
  Handle handle = nullptr;    // the same from the C shim
  Block *block = nullptr;     // of the pool
  Loan *loan = nullptr;       // of a recording, which has it back when nobody else refers to it
  void release();             // needs the GIL for an object
  bool any() const { return object || handle || block || loan; }
};

// Memory that a recording keeps and lends to results, with a count of users. Thread-safe; needs no GIL.
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

// A routine of the C shim failed. It has printed why; the caller repeats the step through Python, which raises the real error.
struct CallFailed {};

class Device {
public:
  Device(dlpack::DeviceType type, bool step_by_step) : type(type), step_by_step(step_by_step) {}
  virtual ~Device() = default; // needs the GIL

  const dlpack::DeviceType type; // of the arguments, the results and all memory
  const bool step_by_step;       // wait after each step, so that an error shows where it happened

  virtual int current() = 0; // torch's current one, for a program without arguments; needs the GIL

  // Around a run: `context.on` is known. All three need the GIL and throw what Runner::run does.
  virtual void load(int index) = 0;
  virtual void enter(Context &) = 0;
  virtual void leave(Context &) noexcept = 0;

  // Fresh memory for a tensor; `*data` is its first element. Throws std::bad_alloc or nanobind::python_error.
  virtual Memory allocate(const Ref &layout, int64_t bytes, int index, void **data) = 0;
  // Whether an arena of this size stays with its context between runs.
  virtual bool keeps(int64_t bytes) const = 0;

  // Neither needs the GIL; both throw std::runtime_error that names the step.
  virtual void launch(const Launch &, const std::string &name, Context &) = 0;
  virtual void wait(const std::string &name, Context &) = 0;

  // Before the results of a run are taken: gives those that a recording lends. Needs the GIL.
  virtual void lend(Context &) {}

  // All steps at once, where this run can do that instead of one after the other; the results have been taken, the arena has not.
  // Needs the GIL; throws what the steps throw, and std::runtime_error.
  virtual bool replay(Context &, const std::function<void()> &) { return false; }

  // Elements between two layouts of one shape and dtype, both on the device. Needs the GIL; throws nanobind::python_error.
  virtual void copy(const dlpack::Tensor &from, void *to, const Ref &want, Context &) = 0;
};

std::shared_ptr<Device> make_host();

} // namespace lamina
