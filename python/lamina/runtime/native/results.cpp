// What a call returns.
#include "tensors.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstring>

namespace lamina {
namespace {

// A view of a tensor that shares its storage and its version count, without a gradient.
PyObject *view_of(PyObject *tensor, const Ref &r, const dlpack::Tensor &whole) {
  if (r.offset == 0 && r.same_layout(whole.shape, whole.strides, whole.ndim)) {
    Py_INCREF(tensor);
    return tensor;
  }
  nb::object detached = nb::handle(tensor).attr("detach")();
  int64_t start = nb::cast<int64_t>(detached.attr("storage_offset")()) + r.offset / r.dtype->bytes;
  nb::list shape, strides;
  for (int64_t n : r.shape) shape.append(n);
  for (int64_t n : r.strides) strides.append(n);
  return detached.attr("as_strided")(shape, strides, start).release().ptr();
}

PyObject *owned_result(const Ref &r, Context &context) {
  const Owned &o = context.owned(r.buffer);
  if (o.object) return view_of(o.object, r, memory_of(o.object));
  if (o.block) return tensor_over(context.address(r), r, o.block, nullptr);
  Handle another = nullptr;
  if (torch_abi().new_handle(o.handle, &another)) throw nb::builtin_exception(nb::exception_type::runtime_error, "torch gave no tensor handle");
  return tensor_over(context.address(r), r, another);
}

} // namespace

PyObject *wrap_outputs(const Plan &plan, PyObject *const *inputs, Context &context) {
  nb::object results = nb::steal(PyTuple_New(Py_ssize_t(plan.outputs.size())));
  if (!results.is_valid()) throw nb::python_error();
  for (size_t i = 0; i < plan.outputs.size(); ++i) {
    const Ref &r = plan.outputs[i];
    const Buffer &buffer = plan.buffers[r.buffer];
    PyObject *result = nullptr;
    switch (buffer.kind) {
    case Kind::output: result = tensor_over(context.address(r), r, context.outputs[buffer.index], nullptr); break;
    case Kind::input: result = view_of(inputs[buffer.index], r, memory_of(inputs[buffer.index])); break;
    case Kind::owned: result = owned_result(r, context); break;
    case Kind::arena:
    case Kind::constant: { // memory that the caller must not keep
      Block *copy = pool().take(size_t(buffer.bytes));
      std::memcpy(copy->data, context.base(r.buffer), size_t(buffer.bytes));
      try {
        result = tensor_over(copy->data + r.offset, r, copy, nullptr);
      } catch (...) {
        copy->release();
        throw;
      }
      copy->release();
      break;
    }
    }
    PyTuple_SetItem(results.ptr(), Py_ssize_t(i), result);
  }
  return results.release().ptr();
}

} // namespace lamina
