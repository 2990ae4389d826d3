// Calls of Python callables, torch's dispatcher among them, on tensors over the plan's memory.
#include "calls.h"
#include "tensors.h"

namespace lamina {
namespace {

[[noreturn]] void fail(const std::string &name, const char *what) {
  PyErr_Format(PyExc_RuntimeError, "%s returned %s than when it was compiled", name.c_str(), what);
  throw nb::python_error();
}

void copy_result(const dlpack::Tensor &from, void *to, const Ref &want, Context &context, const std::string &name) {
  bool fits = from.device == context.on && from.dtype == want.dtype->dl && size_t(from.ndim) == want.shape.size();
  for (size_t i = 0; fits && i < want.shape.size(); ++i) fits = from.shape[i] == want.shape[i];
  if (!fits) fail(name, "a tensor of another dtype, shape or device");
  context.plan().device->copy(from, to, want, context);
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
  if (b.kind == Kind::input && plan.inputs[b.index].opaque) return nb::borrow(inputs[b.index]);
  // The result of a call may be a view of its argument; it must then keep the argument's memory alive.
  Memory owner;
  if (b.kind == Kind::input) owner.object = inputs[b.index];
  else if (b.kind == Kind::output) owner = context.outputs[b.index];
  else if (b.kind == Kind::owned) owner = context.owned(r.buffer);
  if (owner.object && b.kind == Kind::owned) return nb::steal(result_over(owner, r, context.address(r), context.on));
  if (owner.handle) return nb::steal(result_over(owner, r, context.address(r), context.on));
  return nb::steal(tensor_over(context.address(r), r, context.on, owner));
}

// Returns the results of a call; null for those that are not tensors.
std::vector<PyObject *> results_of(nb::handle result) {
  std::vector<PyObject *> found;
  auto add = [&](nb::handle item) { found.push_back(PyObject_TypeCheck(item.ptr(), torch_abi().tensor_type) ? item.ptr() : nullptr); };
  if (nb::isinstance<nb::tuple>(result) || nb::isinstance<nb::list>(result))
    for (nb::handle item : result) add(item);
  else add(result);
  return found;
}

// Whether memory belongs to the run, not to the result: it would be reused while the result is alive.
bool is_ours(const void *data, const Plan &plan, Context &context) {
  for (size_t b = 0; b < plan.buffers.size(); ++b) {
    auto *base = static_cast<const char *>(context.base(int(b)));
    Kind kind = plan.buffers[b].kind;
    bool borrowed = kind == Kind::arena || kind == Kind::constant || (kind == Kind::owned && context.owned(int(b)).handle);
    if (borrowed && base && data >= base && data < base + plan.buffers[b].bytes) return true;
  }
  return false;
}

// Returns a result whose memory holds its values: a copy if it has a conj or neg bit.
nb::object plain_result(PyObject *result, const std::string &name) {
  if (is_ordinary(result)) return nb::borrow(result);
  nb::object found = resolved(result);
  if (nb::isinstance<nb::str>(found)) {
    PyErr_Format(PyExc_TypeError, "%s returned a tensor that cannot be used: it %U", name.c_str(), found.ptr());
    throw nb::python_error();
  }
  return found;
}

void own_result(PyObject *result, const Ref &want, const Plan &plan, Context &context, const std::string &name) {
  dlpack::Tensor t = memory_of(result);
  bool stays = (t.device == context.on || may_lie_anywhere(plan, want)) && is_aligned(plan, want.buffer, t.data);
  if (stays && t.dtype == want.dtype->dl && want.same_layout(t.shape, t.strides, t.ndim) &&
      !is_ours(t.data, plan, context)) {
    Py_INCREF(result);
    context.own(want.buffer, {.object = result}, t.data);
    return;
  }
  void *data = nullptr;
  Memory memory = plan.device->allocate(want, plan.buffers[want.buffer].bytes, context.on.id, &data);
  context.own(want.buffer, memory, data);
  copy_result(t, data, want, context, name);
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
    nb::object plain = plain_result(results[i], c.name);
    if (c.outs.empty()) own_result(plain.ptr(), want, plan, context, c.name);
    else copy_result(memory_of(plain.ptr()), context.address(want), want, context, c.name);
  }
}

} // namespace lamina
