// Creates the results of a call.
#include "tensors.h"

#include <unordered_map>

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

namespace lamina {
namespace {

// Returns a view of a tensor, with the same storage and version counter.
PyObject *strided_view(nb::handle tensor, const Ref &r) {
  int64_t start = nb::cast<int64_t>(tensor.attr("storage_offset")()) + r.offset / r.dtype->bytes;
  nb::list shape, strides;
  for (int64_t n : r.shape) shape.append(n);
  for (int64_t n : r.strides) strides.append(n);
  return tensor.attr("as_strided")(shape, strides, start).release().ptr();
}

// Returns the tensor itself if it has the layout already, else a view of it without a gradient.
PyObject *view_of(PyObject *tensor, const Ref &r, const dlpack::Tensor &whole) {
  if (r.offset == 0 && r.same_layout(whole.shape, whole.strides, whole.ndim)) {
    Py_INCREF(tensor);
    return tensor;
  }
  return strided_view(nb::object(nb::handle(tensor).attr("detach")()), r);
}

// Returns the tensor of a handle, or a view of it. It keeps the storage, and so what torch knows of that (its stream and other users).
// Null if this torch lacks a function for it, or if the dtypes differ.
PyObject *share(Handle handle, const Ref &r) {
  const TorchAbi &torch = torch_abi();
  int32_t scalar_type = 0;
  int64_t ndim = 0, *sizes = nullptr, *strides = nullptr;
  if (!torch.wrap || torch.get_dtype(handle, &scalar_type) || scalar_type != r.dtype->scalar_type) return nullptr;
  bool known = !torch.get_dim(handle, &ndim) && !torch.get_sizes(handle, &sizes) && !torch.get_strides(handle, &strides);
  if (known && r.offset == 0 && r.same_layout(sizes, strides, ndim)) return torch.wrap(handle);
  Handle view = nullptr;
  if (torch.reinterpret(handle, int64_t(r.shape.size()), r.shape.data(), r.strides.data(), r.offset / r.dtype->bytes, &view)) return nullptr;
  PyObject *tensor = torch.wrap(view);
  torch.delete_tensor(view);
  return tensor;
}

// Copies a result that must not share memory with the caller's tensors.
PyObject *copy_of(const Ref &r, Context &context) {
  void *data = nullptr;
  const Buffer &buffer = context.plan().buffers[r.buffer];
  Ref whole = r;
  whole.offset = 0;
  Memory memory = context.plan().device->allocate(whole, buffer.bytes, context.on.id, &data);
  PyObject *result = nullptr;
  try {
    std::vector<int64_t> shape = r.shape, strides = r.strides;
    dlpack::Tensor from{context.address(r), context.on, int32_t(shape.size()), r.dtype->dl, shape.data(), strides.data(), 0};
    context.plan().device->copy(from, data, whole, context);
    result = result_over(memory, whole, data, context.on);
  } catch (...) {
    memory.release();
    throw;
  }
  memory.release();
  return result;
}

// Creates results that share an output buffer, so that torch knows that they share memory: an in-place write to one of them
// counts as a write to the others, which autograd may have saved. If one result fills the buffer, the others are views of it, as in
// eager; otherwise they are views of a hidden tensor.
class SharedResults {
public:
  explicit SharedResults(Context &context) : context_(context) {}

  // Null if the dtypes differ.
  PyObject *result(const Ref &r, const Buffer &buffer) {
    const Ref &fills = context_.plan().fresh[size_t(buffer.index)];
    if (r.dtype != fills.dtype) return nullptr;
    Base &base = bases_[buffer.index];
    if (!base.tensor.is_valid())
      base.tensor = nb::steal(result_over(context_.outputs[size_t(buffer.index)], fills, context_.base(r.buffer), context_.on));
    if (r.offset || !r.same_layout(fills.shape.data(), fills.strides.data(), int64_t(fills.shape.size()))) return strided_view(base.tensor, r);
    nb::object same = base.given ? nb::object(base.tensor.attr("detach")()) : base.tensor;
    base.given = true;
    return same.release().ptr();
  }

private:
  struct Base {
    nb::object tensor;
    bool given = false; // whether the caller has it
  };
  Context &context_;
  std::unordered_map<int, Base> bases_;
};

} // namespace

PyObject *result_over(const Memory &memory, const Ref &r, void *data, dlpack::Device on) {
  dlpack::Tensor whole = memory.object ? memory_of(memory.object) : dlpack::Tensor{};
  if (memory.object && whole.dtype == r.dtype->dl) return view_of(memory.object, r, whole);
  PyObject *tensor = memory.handle ? share(memory.handle, r) : nullptr;
  if (tensor || PyErr_Occurred()) {
    if (!tensor) throw nb::python_error();
    return tensor;
  }
  return tensor_over(data, r, on, memory);
}

PyObject *wrap_outputs(const Plan &plan, PyObject *const *inputs, Context &context) {
  nb::object results = nb::steal(PyTuple_New(Py_ssize_t(plan.outputs.size())));
  if (!results.is_valid()) throw nb::python_error();
  SharedResults shared(context);
  for (size_t i = 0; i < plan.outputs.size(); ++i) {
    const Ref &r = plan.outputs[i];
    const Buffer &buffer = plan.buffers[r.buffer];
    PyObject *result = plan.shared[i] ? shared.result(r, buffer) : nullptr;
    if (!result) switch (buffer.kind) {
    case Kind::output: result = result_over(context.outputs[buffer.index], r, context.address(r), context.on); break;
    case Kind::input: {
      dlpack::Tensor given = memory_of(inputs[buffer.index]);
      bool elsewhere = plan.inputs[size_t(buffer.index)].updated && context.base(r.buffer) != static_cast<char *>(given.data) + given.byte_offset;
      result = elsewhere ? copy_of(r, context) : view_of(inputs[buffer.index], r, given);
      break;
    }
    case Kind::owned: result = result_over(context.owned(r.buffer), r, context.address(r), context.on); break;
    case Kind::arena:
    case Kind::constant: result = copy_of(r, context); break;
    }
    PyTuple_SetItem(results.ptr(), Py_ssize_t(i), result);
  }
  return results.release().ptr();
}

} // namespace lamina
