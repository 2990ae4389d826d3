// Calls of Python callables, torch's dispatcher among them, on tensors over the plan's memory.
#include "calls.h"
#include "tensors.h"

#include <cstring>

namespace lamina {
namespace {

// Elements between two layouts of one shape. Strides in elements.
void copy(char *to, const int64_t *to_strides, const char *from, const int64_t *from_strides, const int64_t *shape, int64_t ndim,
          int64_t item) {
  if (ndim == 0) {
    std::memcpy(to, from, size_t(item));
    return;
  }
  if (ndim == 1 && to_strides[0] == 1 && from_strides[0] == 1) {
    std::memcpy(to, from, size_t(item * shape[0]));
    return;
  }
  for (int64_t i = 0; i < shape[0]; ++i)
    copy(to + i * to_strides[0] * item, to_strides + 1, from + i * from_strides[0] * item, from_strides + 1, shape + 1, ndim - 1, item);
}

[[noreturn]] void fail(const std::string &name, const char *what) {
  PyErr_Format(PyExc_RuntimeError, "%s returned %s than when it was compiled", name.c_str(), what);
  throw nb::python_error();
}

void copy_result(const dlpack::Tensor &from, void *to, const Ref &want, const std::string &name) {
  bool fits = from.device.type == dlpack::kCPU && from.dtype == want.dtype->dl && size_t(from.ndim) == want.shape.size();
  for (size_t i = 0; fits && i < want.shape.size(); ++i) fits = from.shape[i] == want.shape[i];
  if (!fits) fail(name, "a tensor of another dtype, shape or device");
  if (want.numel())
    copy(static_cast<char *>(to), want.strides.data(), static_cast<const char *>(from.data), from.strides, from.shape, from.ndim,
         want.dtype->bytes);
}

nb::object build(const Arg &arg, const Plan &plan, Context &context, PyObject *const *inputs) {
  if (arg.sequence) {
    nb::list items;
    for (const Arg &item : arg.items) items.append(build(item, plan, context, inputs));
    return items;
  }
  if (arg.tensor < 0) return arg.value;
  const Ref &r = plan.tensors[arg.tensor];
  const Buffer &b = plan.buffers[r.buffer];
  // What a call returns may be a view of its argument, and must then keep the argument's memory alive.
  PyObject *owner = b.kind == Kind::input ? inputs[b.index] : b.kind == Kind::owned ? context.owned(r.buffer).object : nullptr;
  Block *block = b.kind == Kind::output ? context.outputs[b.index] : b.kind == Kind::owned ? context.owned(r.buffer).block : nullptr;
  return nb::steal(tensor_over(context.address(r), r, block, owner));
}

// The results of a call, null for those that are not tensors.
std::vector<PyObject *> results_of(nb::handle result) {
  std::vector<PyObject *> found;
  auto add = [&](nb::handle item) { found.push_back(PyObject_TypeCheck(item.ptr(), torch_abi().tensor_type) ? item.ptr() : nullptr); };
  if (nb::isinstance<nb::tuple>(result) || nb::isinstance<nb::list>(result))
    for (nb::handle item : result) add(item);
  else add(result);
  return found;
}

// Whether memory belongs to the run rather than to the result: it would be reused under the result's feet.
bool is_ours(const void *data, const Plan &plan, Context &context) {
  for (size_t b = 0; b < plan.buffers.size(); ++b) {
    auto *base = static_cast<const char *>(context.base(int(b)));
    Kind kind = plan.buffers[b].kind;
    bool borrowed = kind == Kind::arena || kind == Kind::constant || (kind == Kind::owned && context.owned(int(b)).handle);
    if (borrowed && base && data >= base && data < base + plan.buffers[b].bytes) return true;
  }
  return false;
}

void own_result(PyObject *result, const Ref &want, const Plan &plan, Context &context, const std::string &name) {
  dlpack::Tensor t = memory_of(result);
  if (t.device.type == dlpack::kCPU && t.dtype == want.dtype->dl && want.same_layout(t.shape, t.strides, t.ndim) &&
      !is_ours(t.data, plan, context)) {
    Py_INCREF(result);
    context.own(want.buffer, {.object = result}, t.data);
    return;
  }
  Block *block = pool().take(size_t(plan.buffers[want.buffer].bytes));
  context.own(want.buffer, {.block = block}, block->data);
  copy_result(t, block->data, want, name);
}

} // namespace

void run_python(const PythonCall &c, const Plan &plan, Context &context, PyObject *const *inputs) {
  nb::list args;
  for (const Arg &a : c.args) args.append(build(a, plan, context, inputs));
  nb::dict kwargs;
  for (const auto &[name, a] : c.kwargs) kwargs[name.c_str()] = build(a, plan, context, inputs);
  if (!c.out_names.empty())
    for (size_t i = 0; i < c.outs.size(); ++i)
      kwargs[c.out_names[i].c_str()] = build(Arg{.tensor = c.outs[i]}, plan, context, inputs);

  nb::object result = nb::steal(PyObject_Call(c.callable.ptr(), nb::tuple(args).ptr(), kwargs.ptr()));
  if (!result.is_valid()) throw nb::python_error();
  if (!c.out_names.empty()) return;

  std::vector<PyObject *> results = results_of(result);
  const std::vector<int> &wanted = c.outs.empty() ? c.owned : c.outs;
  if (results.size() != wanted.size()) fail(c.name, "another number of results");
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (wanted[i] < 0) continue;
    if (!results[i]) fail(c.name, "something else");
    const Ref &want = plan.tensors[wanted[i]];
    if (c.outs.empty()) own_result(results[i], want, plan, context, c.name);
    else copy_result(memory_of(results[i]), context.address(want), want, c.name);
  }
}

} // namespace lamina
