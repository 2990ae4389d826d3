#include "context.h"

#include "calls.h"

namespace lamina {
namespace {

// An arena up to this size stays with its context; a larger one goes back to the pool after every run, where other programs find it.
constexpr int64_t kKeepArena = 1 << 20;

} // namespace

Context::Context(const Plan &plan)
    : slots(plan.n_slots), outputs(plan.of_kind[int(Kind::output)].size()), generations(plan.weights.size(), -1), plan_(plan), base_(plan.buffers.size()),
      handles_(plan.tensors.size()), owned_(plan.of_kind[int(Kind::owned)].size()) {
  for (const Step &step : plan.steps)
    if (auto *launch = std::get_if<Launch>(&step.what)) slots[launch->slots + launch->count] = &error;
  for (int b : plan.of_kind[int(Kind::constant)])
    set_base(b, const_cast<char *>(plan.constants[plan.buffers[b].index].c_str()));
}

Context::~Context() {
  end();
  if (arena_) arena_->release();
  for (Handle h : handles_)
    if (h) torch_abi().delete_tensor(h);
}

void Context::set_base(int buffer, void *base) {
  if (base_[buffer] == base) return;
  base_[buffer] = base;
  for (const Fixup &f : plan_.fixups[buffer]) slots[f.slot] = static_cast<char *>(base) + f.offset;
  for (int t : plan_.tensors_of[buffer]) {
    if (!handles_[t]) continue;
    torch_abi().delete_tensor(handles_[t]);
    handles_[t] = nullptr;
  }
}

Handle Context::handle(int tensor) {
  if (tensor < 0 || handles_[tensor]) return tensor < 0 ? nullptr : handles_[tensor];
  const Ref &r = plan_.tensors[tensor];
  if (torch_abi().create_from_blob(address(r), int64_t(r.shape.size()), r.shape.data(), r.strides.data(), 0, r.dtype->scalar_type, 0, 0,
                                   &handles_[tensor]))
    throw CallFailed();
  return handles_[tensor];
}

void Context::own(int buffer, Owned what, void *data) {
  drop(buffer); // of a call that failed half-way and is repeated
  owned(buffer) = what;
  set_base(buffer, data);
}

void Context::drop(int buffer) {
  Owned &o = owned(buffer);
  if (o.object) Py_DECREF(o.object);
  if (o.handle) torch_abi().delete_tensor(o.handle);
  if (o.block) o.block->release();
  o = {};
}

void Context::begin() {
  error = 0;
  if (plan_.arena_bytes && !arena_) {
    arena_ = pool().take(size_t(plan_.arena_bytes));
    for (int b : plan_.of_kind[int(Kind::arena)]) set_base(b, arena_->data + plan_.buffers[b].offset);
  }
  for (int b : plan_.of_kind[int(Kind::output)]) {
    const Buffer &buffer = plan_.buffers[b];
    outputs[buffer.index] = pool().take(size_t(buffer.bytes));
    set_base(b, outputs[buffer.index]->data);
  }
}

void Context::end() {
  for (Block *&block : outputs) {
    if (block) block->release();
    block = nullptr;
  }
  for (int b : plan_.of_kind[int(Kind::owned)]) drop(b);
  if (arena_ && plan_.arena_bytes > kKeepArena) {
    arena_->release();
    arena_ = nullptr;
  }
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
