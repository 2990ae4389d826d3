// Builds a plan from what lamina/runtime/spec.py makes of a program.
#pragma once

#include <memory>

#include "plan.h"

namespace lamina {

std::unique_ptr<Plan> build_plan(nb::dict spec); // throws nanobind::python_error and nanobind's cast errors

} // namespace lamina
