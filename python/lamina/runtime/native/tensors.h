// torch tensors and memory, by DLPack's C exchange functions.
#pragma once

#include "context.h"

namespace lamina {

// Creates a torch tensor over memory that `owner` keeps alive (it takes references; `owner` may be empty for memory
// that outlives the tensor). Needs the GIL; throws nanobind::python_error.
PyObject *tensor_over(void *data, const Ref &layout, dlpack::Device on, const Memory &owner);

// Creates a result at `data`, which is layout.offset bytes into `memory`. It shares the storage if the memory is a tensor. Needs the
// GIL; throws nanobind::python_error.
PyObject *result_over(const Memory &memory, const Ref &layout, void *data, dlpack::Device on);

// Returns the tensor itself, a copy, or a text that says what is wrong with it, by lamina.runtime.inputs.resolved. Throws
// nanobind::python_error.
nb::object resolved(PyObject *tensor);

// Returns the memory of a torch tensor, borrowed. Throws nanobind::python_error.
dlpack::Tensor memory_of(PyObject *tensor);

// Checks the arguments of a call and records their addresses and device; replaces those that are not ordinary tensors (see
// Context::replace). Throws nanobind::python_error with a TypeError or ValueError that names the argument, what was expected and what
// was given.
void read_inputs(const Plan &plan, PyObject *const *inputs, size_t count, Context &context);

// Returns the results of a call, in order. Throws nanobind::python_error.
PyObject *wrap_outputs(const Plan &plan, PyObject *const *inputs, Context &context);

} // namespace lamina
