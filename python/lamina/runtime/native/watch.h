// Adds the Watch type to the module.
#pragma once

#include <nanobind/nanobind.h>

namespace nb = nanobind;

namespace lamina {

void add_watch(nb::module_ &m);

} // namespace lamina
