// Calls of torch's operators without Python, through its dispatcher or shim.cpp, on tensors over the plan's memory.
//
// torch_call_dispatcher takes a stack of words, one for each argument of the operator's schema, and leaves the results there. It is
// torch's stable interface for extensions (torch/csrc/stable/c/shim.h): a tensor is a handle, an optional null or a word on the
// heap, a list a handle of words. It takes ownership of everything that the words refer to.
#include <algorithm>
#include <bit>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "calls.h"
#include "shim.h"

namespace lamina {
namespace {

// The version of that interface that this file is written for, that of torch 2.11. A newer torch brings the arguments up to date.
constexpr uint64_t kVersion = uint64_t(2) << 56 | uint64_t(11) << 48;

void check(bool failed) {
  if (failed) throw CallFailed();
}

bool has_layout(Handle tensor, const Ref &r) {
  const TorchAbi &torch = torch_abi();
  int64_t ndim = 0, *sizes = nullptr, *strides = nullptr;
  check(torch.get_dim(tensor, &ndim) || torch.get_sizes(tensor, &sizes) || torch.get_strides(tensor, &strides));
  return r.offset == 0 && r.same_layout(sizes, strides, ndim);
}

// Returns a tensor of Plan::tensors, borrowed. For one that may be on another device, this is the original Python object.
Handle borrow(int tensor, const Plan &plan, Context &context, PyObject *const *inputs) {
  const Ref &r = plan.tensors[size_t(tensor)];
  const Buffer &b = plan.buffers[size_t(r.buffer)];
  bool given = b.kind == Kind::input && plan.inputs[size_t(b.index)].opaque;
  if (!given && !(b.kind == Kind::owned && may_lie_anywhere(plan, r))) return context.handle(tensor);
  PyObject *object = given ? inputs[b.index] : context.owned(r.buffer).object;
  Handle found = given ? nullptr : context.owned(r.buffer).handle;
  if (object) { // its pointer to a TensorImpl is an at::Tensor
    check(!torch_abi().layout.impl);
    found = reinterpret_cast<Handle>(reinterpret_cast<char *>(object) + torch_abi().layout.impl);
  }
  check(!found || !has_layout(found, r));
  return found;
}

// Returns the word of an argument. Fails only if memory runs out.
uint64_t word_of(const Value &value, const std::vector<Handle> &tensors) {
  const TorchAbi &torch = torch_abi();
  switch (value.form) {
  case Value::Form::word: return value.word;
  case Value::Form::none: return 0;
  case Value::Form::tensor: {
    Handle owned = nullptr;
    check(value.tensor < 0 ? torch.new_undefined(&owned) : torch.new_handle(tensors[size_t(value.tensor)], &owned));
    return reinterpret_cast<uint64_t>(owned);
  }
  case Value::Form::some: {
    uint64_t *place = nullptr;
    if (!torch.new_optional) place = new uint64_t;
    else check(torch.new_optional(&place));
    *place = word_of(value.items[0], tensors);
    return reinterpret_cast<uint64_t>(place);
  }
  case Value::Form::list: {
    ListHandle list = nullptr;
    check(torch.new_list(value.items.size(), &list));
    for (const Value &item : value.items) check(torch.push_back(list, word_of(item, tensors)));
    return reinterpret_cast<uint64_t>(list);
  }
  }
  throw CallFailed();
}

Value read_value(nb::handle h) {
  auto form = nb::cast<std::string>(h[0]);
  nb::object given = nb::borrow(h[1]);
  if (form == "tensor") return {.form = Value::Form::tensor, .tensor = nb::cast<int>(given)};
  if (form == "some") return {.form = Value::Form::some, .items = {read_value(given)}};
  if (form == "list") {
    Value list{.form = Value::Form::list};
    for (nb::handle item : given) list.items.push_back(read_value(item));
    return list;
  }
  if (form == "none") return {.form = Value::Form::none, .of_list = nb::cast<bool>(given)};
  if (nb::isinstance<nb::float_>(given)) return {.word = std::bit_cast<uint64_t>(nb::cast<double>(given))};
  return {.word = uint64_t(nb::cast<int64_t>(given)), .flag = nb::isinstance<nb::bool_>(given)};
}

// Whether a result has the expected dtype, shape and device; its strides may differ. An undefined result has no dtype.
bool fits(Handle result, const Ref &want, const Plan &plan, const Context &context) {
  const TorchAbi &torch = torch_abi();
  int32_t dtype = 0, type = 0, index = 0;
  int64_t ndim = 0, *sizes = nullptr;
  if (torch.get_dtype(result, &dtype) || dtype != want.dtype->scalar_type) return false;
  if (torch.get_dim(result, &ndim) || torch.get_sizes(result, &sizes) || torch.get_device_type(result, &type)) return false;
  bool here = type == shim_device(context.on.type);
  if (here && type) here = !torch.get_device_index(result, &index) && index == context.on.id;
  return (here || may_lie_anywhere(plan, want)) && std::equal(want.shape.begin(), want.shape.end(), sizes, sizes + ndim);
}

void dispatch(const DispatcherCall &c, const std::vector<Handle> &tensors, std::vector<Handle> &results) {
  std::vector<uint64_t> stack(std::max(c.args.size(), results.size()));
  std::ranges::transform(c.args, stack.begin(), [&](const Value &value) { return word_of(value, tensors); });
  check(torch_abi().call_dispatcher(c.op.c_str(), c.overload.c_str(), stack.data(), kVersion));
  for (size_t i = 0; i < results.size(); ++i) results[i] = reinterpret_cast<Handle>(stack[i]);
}

} // namespace

DispatcherCall read_dispatcher(nb::handle h, const std::vector<int> &owned, const Plan &plan) {
  DispatcherCall found{nb::cast<std::string>(h["op"]), nb::cast<std::string>(h["overload"]), {}, {}, owned, nullptr};
  found.tensors = nb::cast<std::vector<int>>(h["tensors"]);
  for (nb::handle a : nb::borrow(h["args"])) found.args.push_back(read_value(a));
  found.shim = shim_call(found, plan.device->type);
  return found;
}

void run_dispatcher(const DispatcherCall &c, const Plan &plan, Context &context, PyObject *const *inputs) {
  std::vector<Handle> tensors;
  for (int t : c.tensors) tensors.push_back(borrow(t, plan, context, inputs));
  std::vector<Handle> results(c.owned.size());
  if (c.shim) c.shim->run(tensors, results);
  else dispatch(c, tensors, results);

  size_t next = 0;
  auto take = [&] { return results[next++]; };
  try {
    for (int tensor : c.owned) {
      Handle result = take();
      if (tensor >= 0 && !fits(result, plan.tensors[size_t(tensor)], plan, context)) {
        torch_abi().delete_tensor(result);
        throw CallFailed(); // the repeated call in Python raises the error
      }
      own_handle(result, tensor, plan, context, c.tensors);
    }
  } catch (...) {
    while (next < c.owned.size()) torch_abi().delete_tensor(take());
    throw;
  }
}

} // namespace lamina
