#pragma once

#include <Python.h>

namespace lamina {

// The type lamina._native.Runner: Runner(spec), called with tensors, or with one list of tensors, which it empties.
PyObject *make_runner_type();

} // namespace lamina
