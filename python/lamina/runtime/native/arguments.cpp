// Reading and checking the arguments of a call.
#include "tensors.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

namespace lamina {
namespace {

bool is_tensor(PyObject *object) {
  const TorchAbi &torch = torch_abi();
  PyTypeObject *type = Py_TYPE(object);
  return type == torch.tensor_type || type == torch.parameter_type || PyType_IsSubtype(type, torch.tensor_type);
}

std::string text(nb::handle value) { return nb::cast<std::string>(nb::str(value)); }

std::string list(const std::vector<int64_t> &sizes) {
  std::string out = "[";
  for (size_t i = 0; i < sizes.size(); ++i) out += (i ? ", " : "") + std::to_string(sizes[i]);
  return out + "]";
}

std::string list(nb::handle sizes) {
  std::vector<int64_t> plain;
  for (nb::handle n : sizes) plain.push_back(nb::cast<int64_t>(n));
  return list(plain);
}

[[noreturn]] void fail(PyObject *type, const Plan &plan, size_t index, const std::string &what) {
  PyErr_SetString(type, (plan.name + ": argument " + std::to_string(index) + " " + what).c_str());
  throw nb::python_error();
}

bool strides_match(const Input &want, const dlpack::Tensor &given) {
  for (size_t i = 0; i < want.shape.size(); ++i)
    if (want.shape[i] > 1 && given.strides[i] != want.strides[i]) return false;
  return true;
}

bool is_empty(const Input &input) {
  for (int64_t n : input.shape)
    if (n == 0) return true;
  return false;
}

// Raises the error for an argument that does not fit. `tensor` is a torch tensor.
[[noreturn]] void explain(const Plan &plan, size_t index, PyObject *object) {
  const Input &want = plan.inputs[index];
  nb::handle tensor(object);
  nb::object torch = nb::module_::import_("torch");
  std::string kind = text(tensor.attr("device").attr("type")), device = text(tensor.attr("device"));
  std::string wanted = plan.device->type == dlpack::kCUDA ? "cuda" : "cpu";
  if (kind != wanted)
    fail(PyExc_ValueError, plan, index, "must be on the " + wanted + ", the device this was compiled for; it is on " + device);
  std::string layout = text(tensor.attr("layout"));
  if (layout != "torch.strided") fail(PyExc_TypeError, plan, index, "must be a dense tensor; its layout is " + layout);
  std::string dtype = text(tensor.attr("dtype")), expected = "torch." + want.dtype->torch_name;
  if (dtype != expected) fail(PyExc_TypeError, plan, index, "must have dtype " + expected + "; it has " + dtype);
  std::string shape = list(tensor.attr("shape"));
  if (shape != list(want.shape)) fail(PyExc_ValueError, plan, index, "must have shape " + list(want.shape) + "; it has " + shape);
  std::string strides = list(tensor.attr("stride")());
  if (strides != list(want.strides))
    fail(PyExc_ValueError, plan, index, "of shape " + shape + " must have strides " + list(want.strides) + "; it has " + strides);
  if (kind == "cuda") fail(PyExc_ValueError, plan, index, "must be on one GPU with the arguments before it; it is on " + device);
  fail(PyExc_ValueError, plan, index, "is a tensor without readable memory");
}

// Returns the tensor that lamina.runtime.inputs makes of an argument that is not an ordinary tensor: its memory holds its values.
nb::object resolved_input(const Plan &plan, size_t index, PyObject *tensor) {
  nb::object found = resolved(tensor);
  if (nb::isinstance<nb::str>(found)) fail(PyExc_TypeError, plan, index, text(found));
  return found;
}

void refuse_tangent(const Plan &plan, size_t index, PyObject *tensor) {
  nb::object problem = nb::module_::import_("lamina.runtime.inputs").attr("tangent_of")(nb::handle(tensor));
  if (!problem.is_none()) fail(PyExc_TypeError, plan, index, text(problem));
}

} // namespace

nb::object resolved(PyObject *tensor) { return nb::module_::import_("lamina.runtime.inputs").attr("resolved")(nb::handle(tensor)); }

void read_inputs(const Plan &plan, PyObject *const *inputs, size_t count, Context &context) {
  if (count != plan.inputs.size()) {
    PyErr_Format(PyExc_ValueError, "%s: takes %zu tensors, %zu given", plan.name.c_str(), plan.inputs.size(), count);
    throw nb::python_error();
  }
  bool tangents = computes_tangents();
  int on = -1;
  for (size_t i = 0; i < count; ++i) {
    const Input &want = plan.inputs[i];
    if (!is_tensor(inputs[i]))
      fail(PyExc_TypeError, plan, i, std::string("must be a torch.Tensor; it is a ") + text(nb::handle((PyObject *)Py_TYPE(inputs[i])).attr("__name__")));
    PyObject *tensor = inputs[i];
    if (tangents) refuse_tangent(plan, i, tensor);
    if (!is_ordinary(tensor) || (!is_empty(want) && !has_storage(tensor))) tensor = context.replace(i, resolved_input(plan, i, tensor));
    dlpack::Tensor given;
    if (torch_abi().exchange->tensor_from_py(tensor, &given)) {
      PyErr_Clear();
      explain(plan, i, tensor);
    }
    bool here = given.device.type == plan.device->type && (on < 0 || given.device.id == on);
    if (here) on = given.device.id;
    bool fits = (here || want.opaque) && given.dtype == want.dtype->dl && size_t(given.ndim) == want.shape.size();
    for (size_t d = 0; fits && d < want.shape.size(); ++d) fits = given.shape[d] == want.shape[d];
    if (!fits || (!strides_match(want, given) && !is_empty(want))) explain(plan, i, inputs[i]);
    int buffer = plan.of_kind[int(Kind::input)][i];
    void *data = static_cast<char *>(given.data) + given.byte_offset;
    context.set_base(buffer, data);
    if (!is_aligned(plan, buffer, data)) context.misaligned.push_back(int(i));
  }
  context.move_to(on >= 0 ? on : plan.device->current());
}

} // namespace lamina
