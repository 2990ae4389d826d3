// The steps that leave our own code: torch's C shim, packed GEMM, and any Python callable.
#pragma once

#include "context.h"
#include "packed.h"

namespace lamina {

void run_library(const LibraryCall &call, const Plan &plan, Context &context);

// As lamina.runtime.dispatcher describes it; `owned`: of the step. Needs the GIL.
DispatcherCall read_dispatcher(nb::handle description, const std::vector<int> &owned, const Plan &plan);

// `inputs`: the arguments of the run, some of which may lie on another device. Throws CallFailed.
void run_dispatcher(const DispatcherCall &call, const Plan &plan, Context &context, PyObject *const *inputs);

// Makes a call's result the memory of Plan::tensors[tensor], or deletes it for -1; copies it where its layout is another one than
// the plan counts on, or it lies in one of the tensors `taken`, whose memory the plan uses again. Takes the handle; throws CallFailed.
void own_handle(Handle result, int tensor, const Plan &plan, Context &context, const std::vector<int> &taken = {});

// Copies the bias, a row, to every row of a product's result. Does nothing for a product without one.
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
