// torch tensors and memory, by DLPack's C exchange functions.
#pragma once

#include "context.h"

namespace lamina {

// A new torch tensor over memory that `block` or `owner` keeps alive (a reference of each is taken; both may be null for memory that
// outlives the tensor). Needs the GIL; throws nanobind::python_error.
PyObject *tensor_over(void *data, const Ref &layout, Block *block, PyObject *owner);
PyObject *tensor_over(void *data, const Ref &layout, Handle owner); // takes the handle

// The memory of a torch tensor, borrowed. Throws nanobind::python_error.
dlpack::Tensor memory_of(PyObject *tensor);

// Checks the arguments of a call and notes where they lie. Throws nanobind::python_error with a TypeError or ValueError that names the
// argument, what was expected and what was given.
void read_inputs(const Plan &plan, PyObject *const *inputs, size_t count, Context &context);

// The results of a call, in order. Throws nanobind::python_error.
PyObject *wrap_outputs(const Plan &plan, PyObject *const *inputs, Context &context);

} // namespace lamina
