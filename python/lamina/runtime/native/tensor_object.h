// What a torch tensor is besides its memory, read without a call: whether it is an ordinary tensor, or one whose memory is not its
// values (a subclass, a conj or neg bit, a tensor of a functorch transform, no memory at all).
#pragma once

#include <Python.h>

#include <cstdint>

namespace lamina {

// Where things lie, in bytes: in the Python object the pointer to its TensorImpl, in that the key set (c10::DispatchKeySet) and the
// pointer to the StorageImpl, in that the address of the memory. They are found in tensors that are made for the purpose, since torch
// has no C function for them; zeros where they are not found, and no tensor is ordinary then.
struct TensorLayout {
  int64_t impl = 0, keys = 0, storage = 0, memory = 0;
  uint64_t ordinary = 0; // the keys that ordinary tensors have
};
TensorLayout find_tensor_layout(PyObject *torch); // throws nanobind::python_error

// Whether the memory of a tensor, if it has any, holds its values and all that is to be known of them. False is no verdict:
// lamina.runtime.inputs has to look at the tensor.
bool is_ordinary(PyObject *tensor);

// Whether an ordinary tensor's storage has any memory: what a tensor points to when its storage was resized to 0 tells nothing.
bool has_storage(PyObject *tensor);

// Whether torch.autograd.forward_ad computes tangents now.
bool computes_tangents();

} // namespace lamina
