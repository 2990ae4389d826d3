// torch tensors and memory, by DLPack's C exchange functions.
#pragma once

#include "context.h"

namespace lamina {

// A new torch tensor over memory that `owner` keeps alive (references of what it holds are taken; it may hold nothing, for memory
// that outlives the tensor). Needs the GIL; throws nanobind::python_error.
PyObject *tensor_over(void *data, const Ref &layout, dlpack::Device on, const Memory &owner);

// A result: layout.offset bytes into `memory`, at `data`. It shares the storage where the memory is a tensor. Needs the GIL; throws
// nanobind::python_error.
PyObject *result_over(const Memory &memory, const Ref &layout, void *data, dlpack::Device on);

// The tensor itself, or a copy, or a text that says what is wrong with it: lamina.runtime.inputs.resolved. Throws
// nanobind::python_error.
nb::object resolved(PyObject *tensor);

// The memory of a torch tensor, borrowed. Throws nanobind::python_error.
dlpack::Tensor memory_of(PyObject *tensor);

// Checks the arguments of a call and notes where they lie, on which device too; those that are no ordinary tensors are replaced (see
// Context::replace). Throws nanobind::python_error with a TypeError or ValueError that names the argument, what was expected and what
// was given.
void read_inputs(const Plan &plan, PyObject *const *inputs, size_t count, Context &context);

// The results of a call, in order. Throws nanobind::python_error.
PyObject *wrap_outputs(const Plan &plan, PyObject *const *inputs, Context &context);

} // namespace lamina
