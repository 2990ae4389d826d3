#pragma once

#include <Python.h>

namespace lamina {

// The type lamina._native.BySizes: BySizes(sources, bind, limit), called like a Runner, with ints among the tensors.
PyObject *make_by_sizes_type();

} // namespace lamina
