// The state of one run of a plan: its arena, the resolved addresses, the tensors that calls take, and the results of calls.
// A run takes a context from a pool and returns it, so several threads may run a plan at once.
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

// The parameters of a plan's launches as the driver wants them, by slot: the address of each address, or that of the sizes.
std::vector<void *> parameters_of(const Plan &plan, std::vector<void *> &slots);

class Context {
public:
  Context(const Plan &plan);
  ~Context(); // needs the GIL

  void set_base(int buffer, void *base); // sets the address of a buffer, and all addresses derived from it
  void *base(int buffer) const { return base_[buffer]; }
  void *address(const Ref &ref) const { return static_cast<char *>(base_[ref.buffer]) + ref.offset; }
  Handle handle(int tensor); // the C shim's handle of Plan::tensors[tensor]; throws CallFailed

  // Makes a call's result the memory of its buffer. The context takes ownership.
  void own(int buffer, Memory what, void *data);
  void drop(int buffer); // may need the GIL: see needs_gil
  bool needs_gil(int buffer) const { return owned_[plan_.buffers[buffer].index].object != nullptr; }
  Memory &owned(int buffer) { return owned_[plan_.buffers[buffer].index]; }
  const Memory &owned(int buffer) const { return owned_[plan_.buffers[buffer].index]; }

  void move_to(int index); // sets the number of the device that the run uses
  void begin();            // starts a run
  void take_outputs();     // allocates the missing results; throws as Device::allocate does
  void take_arena();       // allocates the arena; throws likewise
  Memory give_arena();     // hands the arena over to the caller
  PyObject *replace(size_t input, nb::object tensor); // makes the run read `tensor` instead of an argument
  PyObject *const *replaced(PyObject *const *inputs, size_t count); // the arguments, with these replacements
  void align();            // copies the misaligned arguments; needs the GIL, throws as Device::copy does
  void end();              // releases all memory; needs the GIL

  const Plan &plan() const { return plan_; }

  dlpack::Device on;          // device of this run
  void *stream = nullptr;     // stream of this run, on a GPU
  const void *loaded = nullptr; // the loaded program whose constants are bound
  bool entered = false;       // whether `leave` has to be called on the device
  std::vector<int> misaligned; // arguments of this run that kernels cannot take as they are
  std::unique_ptr<GraphChoice> graphs;  // whether the steps are recorded, on a GPU
  Recording *recording_now = nullptr;   // set while they are being recorded
  int aligned = 0;                      // arguments that were copied because kernels could not take them, in the last run
  std::vector<void *> slots;
  std::vector<void *> parameters; // on a GPU, by slot: pointer to the slot, or to sizes that are passed by value
  std::vector<Memory> outputs; // results of this run, by number
  std::vector<int64_t> generations; // by weight: which packed form of it serves this run
  int64_t error = 0;            // the kernels' error slot

private:
  // Handles of a tensor at its most recent addresses: the allocator places results and arenas at a few addresses in turn.
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
  std::atomic<Context *> hot_{nullptr}; // the context that was returned last, available without a lock
  std::mutex mutex_;
  std::vector<std::unique_ptr<Context>> more_;
};

} // namespace lamina
