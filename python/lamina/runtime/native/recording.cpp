#include "recording.h"

#include <algorithm>
#include <atomic>
#include <nanobind/stl/string.h>

#include "context.h"

namespace lamina {
namespace {

constexpr int kMostRecordings = 64, kMostRuns = 1 << 20;
std::atomic<int> recordings{0};

} // namespace

Recording::Recording(cuda::Driver &driver, const Plan &plan) : driver_(driver), plan_(plan), movable_(plan.n_slots) {
  for (size_t b = 0; b < plan.buffers.size(); ++b) {
    Kind kind = plan.buffers[b].kind;
    bool called = !plan.tensors_of[b].empty();
    if (kind == Kind::input && called) fixed_.push_back({int(b), nullptr});
    if ((kind == Kind::input || kind == Kind::output) && !called)
      for (const Fixup &f : plan.fixups[b]) movable_[f.slot] = true;
  }
}

bool Recording::wants(const Context &context) {
  if (failed_) return false;
  bool same = true;
  for (auto &[buffer, base] : fixed_) {
    same &= base == context.base(buffer);
    base = context.base(buffer);
  }
  same_ = same ? same_ + 1 : 1;
  return same_ >= needed_ && recordings < kMostRecordings;
}

bool Recording::record(Context &context, nb::handle recorder, const std::function<void()> &steps) {
  stream_ = context.stream;
  index_ = context.on.id;
  driver_.check(driver_.current_context(&context_), "no current CUDA context");
  context.take_arena();
  bool begun = false;
  std::string why;
  try {
    graph_ = recorder.attr("begin")(index_);
    begun = true;
    if (driver_.current_stream(index_, &context.stream)) throw std::runtime_error("torch has no current stream");
    context.recording_now = this;
    steps();
    begun = false;
    auto raw = reinterpret_cast<cuda::GraphHandle>(nb::cast<uintptr_t>(recorder.attr("end")(graph_)));
    driver_.check(driver_.instantiate(&exec_, raw, 0), "the graph cannot be instantiated");
  } catch (const std::exception &error) { // Python's errors too
    why = error.what();
  }
  context.recording_now = nullptr;
  context.stream = stream_;
  if (exec_) {
    ++recordings;
    keep(context);
    return true;
  }
  failed_ = true;
  recorder.attr("give_up")(plan_.name, why, begun ? graph_ : nb::none());
  nodes_.clear();
  graph_ = nb::object();
  return false;
}

void Recording::note(const Launch &launch, cuda::FunctionHandle function, void *stream) {
  int status = 0;
  uint64_t id = 0;
  cuda::GraphHandle graph = nullptr;
  const cuda::NodeHandle *last = nullptr;
  size_t count = 0;
  driver_.check(driver_.capture_info(stream, &status, &id, &graph, &last, &count), "the graph being recorded cannot be seen");
  if (count != 1) throw std::runtime_error("the graph being recorded has several ends");
  Node node{last[0], {function, unsigned(launch.grid), 1, 1, unsigned(launch.threads), 1, 1, launch.shared, nullptr, nullptr, nullptr, nullptr}, {}};
  for (uint32_t slot = launch.slots; slot < launch.slots + launch.count; ++slot)
    if (movable_[slot]) node.movable.push_back(slot);
  node.params.parameters = reinterpret_cast<void **>(size_t(launch.slots)); // an index until `keep`
  if (!node.movable.empty()) nodes_.push_back(std::move(node));
}

void Recording::keep(Context &context) {
  slots_ = context.slots;
  parameters_.clear();
  for (void *&slot : slots_) parameters_.push_back(&slot);
  for (Node &node : nodes_) node.params.parameters = &parameters_[reinterpret_cast<size_t>(node.params.parameters)];
  for (auto &[buffer, base] : fixed_) base = context.base(buffer);
  arena_ = context.give_arena();
  const auto &arena = plan_.of_kind[int(Kind::arena)];
  arena_data_ = arena.empty() ? nullptr : static_cast<char *>(context.base(arena[0])) - plan_.buffers[size_t(arena[0])].offset;
  for (int b : plan_.of_kind[int(Kind::output)]) {
    if (plan_.tensors_of[size_t(b)].empty()) continue;
    outputs_.push_back({b, std::exchange(context.outputs[size_t(plan_.buffers[size_t(b)].index)], {}), context.base(b)});
  }
  for (int b : plan_.of_kind[int(Kind::owned)])
    if (context.owned(b).any()) owned_.push_back({b, std::exchange(context.owned(b), {}), context.base(b)});
  context.take_outputs();
}

void Recording::drop() noexcept {
  if (!exec_) return;
  int mode = cuda::kCaptureRelaxed; // others may be recording
  driver_.exchange_capture_mode(&mode);
  cuda::ContextHandle gone = nullptr;
  bool pushed = !driver_.push_context(context_); // the thread may be any
  driver_.synchronize(stream_);                  // its memory goes back to torch, for any stream
  driver_.destroy_exec(exec_);
  if (pushed) driver_.pop_context(&gone);
  driver_.exchange_capture_mode(&mode);
  exec_ = nullptr;
  --recordings;
  arena_.release();
  for (auto *kept : {&outputs_, &owned_}) {
    for (Kept &k : *kept) k.memory.release();
    kept->clear();
  }
  nodes_.clear();
  graph_ = nb::object();
  same_ = 0;
  needed_ = std::min(needed_ * 2, kMostRuns);
}

bool Recording::replay(Context &context) {
  if (context.stream != stream_ || context.on.id != index_) return false;
  for (const auto &[buffer, base] : fixed_) {
    if (context.base(buffer) == base) continue;
    drop();
    return false;
  }
  update(context);
  driver_.check(driver_.launch_graph(exec_, stream_), "the launch of " + plan_.name + " as a graph failed");
  copy_out(context);
  return true;
}

void Recording::update(Context &context) {
  for (Node &node : nodes_) {
    bool moved = false;
    for (uint32_t slot : node.movable) {
      moved |= slots_[slot] != context.slots[slot];
      slots_[slot] = context.slots[slot];
    }
    if (moved) driver_.check(driver_.set_node(exec_, node.node, &node.params), "a kernel of a graph cannot be changed");
  }
}

void Recording::copy_out(Context &context) {
  auto copy = [&](void *to, const Kept &from) {
    size_t bytes = size_t(plan_.buffers[size_t(from.buffer)].bytes);
    if (bytes)
      driver_.check(driver_.copy(reinterpret_cast<uintptr_t>(to), reinterpret_cast<uintptr_t>(from.data), bytes, stream_),
                    "a result of a graph cannot be copied");
  };
  for (int b : plan_.of_kind[int(Kind::arena)]) context.set_base(b, arena_data_ + plan_.buffers[size_t(b)].offset);
  for (const Kept &kept : outputs_) copy(context.base(kept.buffer), kept);
  for (const Kept &kept : owned_) {
    void *data = nullptr;
    const Ref *layout = nullptr;
    for (const Ref &r : plan_.tensors)
      if (r.buffer == kept.buffer && r.offset == 0) layout = &r;
    Memory memory = plan_.device->allocate(*layout, plan_.buffers[size_t(kept.buffer)].bytes, index_, &data);
    context.own(kept.buffer, memory, data);
    copy(data, kept);
  }
}

} // namespace lamina
