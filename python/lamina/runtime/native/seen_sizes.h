// Adds the SeenSizes type to the module.
#pragma once

#include <nanobind/nanobind.h>

namespace nb = nanobind;

namespace lamina {

void add_seen_sizes(nb::module_ &m);

} // namespace lamina
