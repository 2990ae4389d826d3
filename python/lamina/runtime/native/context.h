// What one run of a plan needs besides the plan: an arena, the resolved addresses, the tensors that calls see, what calls returned.
// A run takes a context and gives it back, so a plan may run in several threads at once.
#pragma once

#include <Python.h>

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "device.h"

namespace lamina {

class GraphChoice;
class Recording;

class Context {
public:
  Context(const Plan &plan);
  ~Context(); // needs the GIL

  void set_base(int buffer, void *base); // moves a buffer, with every address in it
  void *base(int buffer) const { return base_[buffer]; }
  void *address(const Ref &ref) const { return static_cast<char *>(base_[ref.buffer]) + ref.offset; }
  Handle handle(int tensor); // of the C shim, for Plan::tensors[tensor]; throws CallFailed

  // A call's result becomes the memory of its buffer. The context owns it from here on.
  void own(int buffer, Memory what, void *data);
  void drop(int buffer); // may need the GIL: see needs_gil
  bool needs_gil(int buffer) const { return owned_[plan_.buffers[buffer].index].object != nullptr; }
  Memory &owned(int buffer) { return owned_[plan_.buffers[buffer].index]; }
  const Memory &owned(int buffer) const { return owned_[plan_.buffers[buffer].index]; }

  void move_to(int index); // the run is on this one of the devices of its kind
  void begin();            // of a run
  void take_outputs();     // those that it lacks; throws as Device::allocate does
  void take_arena();       // likewise
  Memory give_arena();     // to somebody else
  PyObject *replace(size_t input, nb::object tensor); // in the place of an argument, which the run reads instead of it
  PyObject *const *replaced(PyObject *const *inputs, size_t count); // the arguments, with those
  void align();            // copies the misaligned arguments; needs the GIL, throws as Device::copy does
  void end();              // gives all memory back; needs the GIL

  const Plan &plan() const { return plan_; }

  dlpack::Device on;          // of this run
  void *stream = nullptr;     // of this run, on a GPU
  const void *loaded = nullptr; // what the device has bound the constants of
  bool entered = false;       // the device has to be left
  std::vector<int> misaligned; // arguments of this run that kernels cannot take as they are
  std::unique_ptr<GraphChoice> graphs;  // whether the steps are recorded, on a GPU
  Recording *recording_now = nullptr;   // while they are
  int aligned = 0;                      // arguments that were copied because kernels could not take them, in the last run
  std::vector<void *> slots;
  std::vector<void *> parameters; // on a GPU, by slot: its address, as the driver wants parameters
  std::vector<Memory> outputs; // of this run, by number
  std::vector<int64_t> generations; // by weight: which packed form of it serves this run
  int64_t error = 0;            // the kernels' error slot

private:
  // A tensor's handles at the places where it lay last: results and arenas alternate between a few, as the allocator has them.
  struct Handles {
    struct Place {
      const void *data;
      Handle handle;
    };
    std::array<Place, 4> places = {};
    unsigned next = 0;
    void clear();
  };

  const Plan &plan_;
  std::vector<void *> base_;
  std::vector<Handles> handles_; // by tensor
  std::vector<Memory> owned_, copies_;
  std::vector<std::pair<size_t, nb::object>> replacements_; // of this run, by argument
  std::vector<PyObject *> inputs_;
  Memory arena_;
  bool has_arena_ = false;
};

// Idle contexts of one plan.
class Contexts {
public:
  explicit Contexts(const Plan &plan) : plan_(plan) {}
  ~Contexts(); // needs the GIL
  std::unique_ptr<Context> take();
  void give(std::unique_ptr<Context> context);

private:
  const Plan &plan_;
  std::atomic<Context *> hot_{nullptr}; // the last one given back, without a lock
  std::mutex mutex_;
  std::vector<std::unique_ptr<Context>> more_;
};

} // namespace lamina
