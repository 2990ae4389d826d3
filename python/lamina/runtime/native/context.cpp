#include "context.h"

#include <utility>

#include "calls.h"
#include "graph_choice.h"

namespace lamina {

std::vector<void *> parameters_of(const Plan &plan, std::vector<void *> &slots) {
  std::vector<void *> parameters;
  for (void *&slot : slots) parameters.push_back(&slot);
  for (const Step &step : plan.steps)
    if (auto *launch = std::get_if<Launch>(&step.what); launch && !launch->sizes.empty())
      parameters[launch->slots + launch->count - 1] = const_cast<char *>(launch->sizes.data());
  return parameters;
}

Context::Context(const Plan &plan)
    : on{plan.device->type, 0}, slots(plan.n_slots), outputs(plan.of_kind[int(Kind::output)].size()), generations(plan.weights.size(), -1), plan_(plan), base_(plan.buffers.size()),
      handles_(plan.tensors.size()), owned_(plan.of_kind[int(Kind::owned)].size()) {
  for (const Step &step : plan.steps)
    if (auto *launch = std::get_if<Launch>(&step.what)) slots[launch->slots + launch->count] = &error;
  if (plan.gpu) { // the addresses of constants are known only when the device is
    parameters = parameters_of(plan, slots);
    return;
  }
  for (int b : plan.of_kind[int(Kind::constant)])
    set_base(b, const_cast<char *>(plan.constants[plan.buffers[b].index].c_str()));
}

Context::~Context() {
  end();
  arena_.release();
  for (Handles &h : handles_) h.clear();
}

void Context::Handles::clear() {
  for (Place &place : places)
    if (place.handle) torch_abi().delete_tensor(place.handle);
  places = {};
}

void Context::set_base(int buffer, void *base) {
  if (base_[buffer] == base) return;
  base_[buffer] = base;
  for (const Fixup &f : plan_.fixups[buffer]) slots[f.slot] = static_cast<char *>(base) + f.offset;
}

Handle Context::handle(int tensor) {
  if (tensor < 0) return nullptr;
  const Ref &r = plan_.tensors[tensor];
  Handles &known = handles_[tensor];
  void *data = address(r);
  for (const auto &place : known.places)
    if (place.handle && place.data == data) return place.handle;
  Handle fresh = nullptr;
  if (torch_abi().create_from_blob(data, int64_t(r.shape.size()), r.shape.data(), r.strides.data(), 0, r.dtype->scalar_type,
                                   shim_device(on.type), on.id, &fresh))
    throw CallFailed();
  auto &place = known.places[known.next++ % known.places.size()];
  if (place.handle) torch_abi().delete_tensor(place.handle);
  place = {data, fresh};
  return fresh;
}

void Context::own(int buffer, Memory what, void *data) {
  drop(buffer); // the result of a call that failed midway and is repeated
  owned(buffer) = what;
  set_base(buffer, data);
}

void Context::drop(int buffer) { owned(buffer).release(); }

void Context::move_to(int index) {
  if (on.id == index) return;
  on.id = index;
  for (Handles &h : handles_) h.clear();
}

void Context::begin() { error = 0; }

void Context::take_arena() {
  if (!plan_.arena_bytes || has_arena_) return;
  void *data = nullptr;
  arena_ = plan_.device->allocate(plan_.arena, plan_.arena_bytes, on.id, &data);
  has_arena_ = true;
  for (int b : plan_.of_kind[int(Kind::arena)]) set_base(b, static_cast<char *>(data) + plan_.buffers[b].offset);
}

Memory Context::give_arena() {
  has_arena_ = false;
  return std::exchange(arena_, {});
}

void Context::take_outputs() {
  void *data = nullptr;
  for (int b : plan_.of_kind[int(Kind::output)]) {
    const Buffer &buffer = plan_.buffers[b];
    if (outputs[buffer.index].any()) continue;
    outputs[buffer.index] = plan_.device->allocate(plan_.fresh[buffer.index], buffer.bytes, on.id, &data);
    set_base(b, data);
  }
}

PyObject *Context::replace(size_t input, nb::object tensor) {
  replacements_.emplace_back(input, std::move(tensor));
  return replacements_.back().second.ptr();
}

PyObject *const *Context::replaced(PyObject *const *inputs, size_t count) {
  if (replacements_.empty()) return inputs;
  inputs_.assign(inputs, inputs + count);
  for (auto &[input, tensor] : replacements_) inputs_[input] = tensor.ptr();
  return inputs_.data();
}

void Context::align() {
  for (int index : misaligned) {
    const Input &input = plan_.inputs[size_t(index)];
    int buffer = plan_.of_kind[int(Kind::input)][size_t(index)];
    Ref layout{buffer, 0, input.dtype, input.shape, input.strides};
    dlpack::Tensor from{base_[buffer], on, int32_t(layout.shape.size()), input.dtype->dl, layout.shape.data(), layout.strides.data(), 0};
    void *data = nullptr;
    copies_.push_back(plan_.device->allocate(layout, plan_.buffers[buffer].bytes, on.id, &data));
    plan_.device->copy(from, data, layout, *this);
    set_base(buffer, data);
  }
  misaligned.clear();
}

void Context::end() {
  for (Memory &memory : outputs) memory.release();
  for (Memory &memory : copies_) memory.release();
  aligned = int(copies_.size());
  copies_.clear();
  replacements_.clear();
  misaligned.clear();
  for (int b : plan_.of_kind[int(Kind::owned)]) drop(b);
  if (has_arena_ && !plan_.device->keeps(plan_.arena_bytes)) {
    arena_.release();
    has_arena_ = false;
  }
  plan_.device->leave(*this);
}

Contexts::~Contexts() { delete hot_.load(); }

std::unique_ptr<Context> Contexts::take() {
  if (Context *hot = hot_.exchange(nullptr, std::memory_order_acquire)) return std::unique_ptr<Context>(hot);
  {
    std::lock_guard lock(mutex_);
    if (!more_.empty()) {
      auto context = std::move(more_.back());
      more_.pop_back();
      return context;
    }
  }
  return std::make_unique<Context>(plan_);
}

void Contexts::give(std::unique_ptr<Context> context) {
  Context *expected = nullptr;
  if (hot_.compare_exchange_strong(expected, context.get(), std::memory_order_release)) {
    context.release();
    return;
  }
  std::lock_guard lock(mutex_);
  more_.push_back(std::move(context));
}

} // namespace lamina
