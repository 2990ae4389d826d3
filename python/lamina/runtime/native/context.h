// What one run of a plan needs besides the plan: an arena, the resolved addresses, the tensors that calls see, what calls returned.
// A run takes a context and gives it back, so a plan may run in several threads at once.
#pragma once

#include <Python.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "plan.h"
#include "pool.h"
#include "torch_abi.h"

namespace lamina {

// What a call returned; exactly one of them is set.
struct Owned {
  PyObject *object = nullptr; // a torch tensor
  Handle handle = nullptr;    // the same from the C shim
  Block *block = nullptr;     // a copy of it
};

class Context {
public:
  Context(const Plan &plan);
  ~Context(); // needs the GIL

  void set_base(int buffer, void *base); // moves a buffer, with every address and tensor in it
  void *base(int buffer) const { return base_[buffer]; }
  void *address(const Ref &ref) const { return static_cast<char *>(base_[ref.buffer]) + ref.offset; }
  Handle handle(int tensor); // of the C shim, for Plan::tensors[tensor]; throws CallFailed

  // A call's result becomes the memory of its buffer. The context owns it from here on.
  void own(int buffer, Owned what, void *data);
  void drop(int buffer); // may need the GIL: see needs_gil
  bool needs_gil(int buffer) const { return owned_[plan_.buffers[buffer].index].object != nullptr; }
  Owned &owned(int buffer) { return owned_[plan_.buffers[buffer].index]; }

  void begin(); // takes the arena and the outputs from the pool; throws std::bad_alloc
  void end();   // gives all memory back; needs the GIL

  std::vector<void *> slots;
  std::vector<Block *> outputs; // of this run, by number
  std::vector<int64_t> generations; // by weight: of which packed form it may be used, -1 for none
  int64_t error = 0;            // the kernels' error slot

private:
  const Plan &plan_;
  std::vector<void *> base_;
  std::vector<Handle> handles_;
  std::vector<Owned> owned_;
  Block *arena_ = nullptr;
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
