// The steps that are not Lamina's kernels: calls through torch's C shim, packed GEMM, and any Python callable.
#pragma once

#include "context.h"
#include "packed.h"

namespace lamina {

void run_library(const LibraryCall &call, const Plan &plan, Context &context);

// Builds a call from the description by lamina.runtime.dispatcher; `owned`: the step's own results. Needs the GIL.
DispatcherCall read_dispatcher(nb::handle description, const std::vector<int> &owned, const Plan &plan);

// inputs: the arguments of the run, some of which may be on another device. Throws CallFailed.
void run_dispatcher(const DispatcherCall &call, const Plan &plan, Context &context, PyObject *const *inputs);

// Makes a call's result the memory of Plan::tensors[tensor]; deletes it if tensor is -1. Copies the result if its layout is not the
// planned one, or if it is in the memory of one of `taken`, which the plan reuses. Takes ownership of the handle; throws CallFailed.
void own_handle(Handle result, int tensor, const Plan &plan, Context &context, const std::vector<int> &taken = {});

// Copies the bias (one row) to every row of a product's result. Does nothing without a bias.
void fill_with_bias(const Gemm &gemm, const Plan &plan, Context &context);

// Whether Lamina's own tiles computed the product. Throws std::bad_alloc.
bool run_by_tiles(const Gemm &gemm, const Plan &plan, Context &context);

// Whether oneDNN computed the product: it writes into the plan's memory, as at::mm_out does.
bool run_by_onednn(const Gemm &gemm, const Plan &plan, Context &context);

// A convolution through oneDNN with a weight in its own layout.
void run_packed_convolution(const LibraryCall &call, Handle weight, const Plan &plan, Context &context);

// Needs the GIL; throws nanobind::python_error.
void run_python(const PythonCall &call, const Plan &plan, Context &context, PyObject *const *inputs);

} // namespace lamina
