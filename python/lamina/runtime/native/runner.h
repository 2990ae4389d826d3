// Runs a plan.
#pragma once

#include "calls.h"
#include "context.h"
#include "packed.h"

namespace lamina {

class Runner {
public:
  explicit Runner(std::unique_ptr<Plan> plan) : plan_(std::move(plan)), contexts_(*plan_), packs_(*plan_) {}

  // A tuple of tensors. Needs the GIL; throws nanobind::python_error and std::bad_alloc.
  PyObject *run(PyObject *const *inputs, size_t count);

  const Plan &plan() const { return *plan_; }
  Packs &packs() { return packs_; }
  nb::object graphs(); // graph status of the context that ran last; needs the GIL

private:
  void run_steps(PyObject *const *inputs, Context &context, size_t first, size_t end);

  std::unique_ptr<Plan> plan_;
  Contexts contexts_;
  Packs packs_;
};

} // namespace lamina
