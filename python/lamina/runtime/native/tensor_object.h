// Tells without a call whether a torch tensor is an ordinary one, or one whose memory does not hold its
// values (a subclass, a conj or neg bit, a tensor of a functorch transform, a tensor without memory).
#pragma once

#include <Python.h>

#include <cstdint>

namespace lamina {

// Offsets in bytes: of the pointer to the TensorImpl in the Python object; of the key set (c10::DispatchKeySet) and of the
// pointer to the StorageImpl in the TensorImpl; of the memory's address in the StorageImpl. They are found by looking at tensors that
// are created for this purpose, as torch has no C function for them. They are 0 if they were not found; then no tensor is ordinary.
struct TensorLayout {
  int64_t impl = 0, keys = 0, storage = 0, memory = 0;
  uint64_t ordinary = 0; // the keys that ordinary tensors have
};
TensorLayout find_tensor_layout(PyObject *torch); // throws nanobind::python_error

// Whether a tensor's memory, if it has any, certainly holds its values. If this is false,
// lamina.runtime.inputs has to examine the tensor.
bool is_ordinary(PyObject *tensor);

// Whether an ordinary tensor's storage has memory: after a storage was resized to 0, the tensor's pointer is meaningless.
bool has_storage(PyObject *tensor);

// Whether torch.autograd.forward_ad computes tangents now.
bool computes_tangents();

} // namespace lamina
