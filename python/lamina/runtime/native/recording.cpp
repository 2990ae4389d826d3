#include "recording.h"

#include <algorithm>
#include <nanobind/stl/string.h>
#include <numeric>

#include "context.h"
#include "graph_store.h"

namespace lamina {
namespace {

constexpr int64_t kWorkspace = 32 << 20; // cuBLAS's workspace for each stream

// Marks a recording as in use, so that it is not dropped.
class Busy {
public:
  explicit Busy(bool &flag) : flag_(flag) { flag_ = true; }
  ~Busy() { flag_ = false; }

private:
  bool &flag_;
};

bool is_called(const Plan &plan, int buffer) { return !plan.tensors_of[size_t(buffer)].empty(); }

// Whether a buffer of results has the same address in all replays.
bool is_kept(const Plan &plan, int buffer) { return is_called(plan, buffer) || plan.lent[size_t(buffer)]; }

// Memory that a recording keeps; as a loan if only a backward pass sees the results in it.
Memory as_loan(const Plan &plan, int buffer, Memory memory) {
  if (!plan.lent[size_t(buffer)] || !memory.handle) return memory;
  return {.loan = new Loan(memory.handle)};
}

Memory shared(const Memory &memory) {
  memory.loan->retain();
  return memory;
}

// The bytes of an argument or of a call's result.
Ref layout_of(const Plan &plan, int buffer) {
  if (plan.buffers[size_t(buffer)].kind == Kind::input) {
    const Input &input = plan.inputs[size_t(plan.buffers[size_t(buffer)].index)];
    return {buffer, 0, input.dtype, input.shape, input.strides};
  }
  for (const Ref &r : plan.tensors)
    if (r.buffer == buffer && r.offset == 0) return r;
  throw std::runtime_error("what a call returns has no layout");
}

} // namespace

int64_t Recording::bytes(const Plan &plan, const std::vector<int> &staged) {
  int64_t all = plan.arena_bytes + (plan.only_kernels ? 0 : kWorkspace);
  for (int b : staged) all += plan.buffers[size_t(b)].bytes;
  for (int b : plan.of_kind[int(Kind::owned)]) all += plan.buffers[size_t(b)].bytes;
  for (int b : plan.of_kind[int(Kind::output)]) all += is_kept(plan, b) ? plan.buffers[size_t(b)].bytes : 0;
  return all;
}

std::string Recording::record(Context &context, nb::handle recorder, const std::vector<int> &called, const std::vector<int> &staged,
                              const Steps &steps) {
  Busy busy(busy_);
  stream_ = context.stream;
  index_ = context.on.id;
  movable_.assign(plan_.n_slots, false);
  for (Kind kind : {Kind::input, Kind::output})
    for (int b : plan_.of_kind[int(kind)])
      if (kind == Kind::input ? !is_called(plan_, b) : !is_kept(plan_, b))
        for (const Fixup &f : plan_.fixups[size_t(b)]) movable_[f.slot] = true;
  std::vector<std::pair<int, void *>> given;
  for (int b : staged) given.emplace_back(b, context.base(b));
  std::vector<Memory> drawn; // held here, because steps may release them
  for (int b : plan_.drawn) drawn.push_back(std::exchange(context.owned(b), {}));
  std::string why;
  std::exception_ptr interrupt;
  try {
    driver_.check(driver_.current_context(&context_), "no current CUDA context");
    context.take_arena();
    stage(context, staged);
    for (int b : called)
      if (std::ranges::find(staged, b) == staged.end()) fixed_.emplace_back(b, context.base(b));
    why = make(context, recorder, steps, interrupt);
    if (exec_) keep(context);
  } catch (const std::exception &error) { // Python's errors too
    why = error.what();
    drop();
  }
  for (size_t i = 0; i < drawn.size(); ++i) context.owned(plan_.drawn[i]) = drawn[i];
  for (auto [buffer, base] : given) context.set_base(buffer, base);
  if (interrupt) std::rethrow_exception(interrupt);
  return why;
}

void Recording::stage(Context &context, const std::vector<int> &staged) {
  for (int b : staged) {
    void *data = nullptr;
    Memory memory = plan_.device->allocate(layout_of(plan_, b), plan_.buffers[size_t(b)].bytes, index_, &data);
    staged_.push_back({b, memory, data});
    // Fills the memory as in a run. The driver refuses an address that is not in the GPU's memory; a kernel would not.
    driver_.check(driver_.copy(reinterpret_cast<uintptr_t>(data), reinterpret_cast<uintptr_t>(context.base(b)),
                               size_t(plan_.buffers[size_t(b)].bytes), stream_),
                  "an argument of a graph cannot be copied");
    context.set_base(b, data);
    ++copies_.in;
    copies_.in_bytes += plan_.buffers[size_t(b)].bytes;
  }
}

std::string Recording::make(Context &context, nb::handle recorder, const Steps &steps, std::exception_ptr &interrupt) {
  nb::object begun = nb::none(); // a capture that has not ended
  std::string why;
  try {
    cuda::GraphHandle graph = plan_.only_kernels ? build(context, steps) : capture(context, recorder, steps, begun);
    cuda::Relaxed relaxed(driver_); // other threads may be capturing
    driver_.check(driver_.instantiate(&exec_, graph, 0), "the graph cannot be instantiated");
  } catch (const nb::python_error &error) {
    why = error.what();
    if (!error.matches(PyExc_Exception)) interrupt = std::current_exception(); // the user's, such as KeyboardInterrupt
  } catch (const std::exception &error) {
    why = error.what();
  }
  context.recording_now = nullptr;
  context.stream = stream_;
  if (!exec_) {
    recorder.attr("give_up")(plan_.name, why, begun);
    drop();
  }
  return why;
}

cuda::GraphHandle Recording::build(Context &context, const Steps &steps) {
  cuda::Relaxed relaxed(driver_);
  built_ = std::make_unique<cuda::KernelGraph>(driver_);
  context.recording_now = this;
  steps();
  return built_->handle();
}

cuda::GraphHandle Recording::capture(Context &context, nb::handle recorder, const Steps &steps, nb::object &begun) {
  captured_ = recorder.attr("begin")(index_);
  begun = captured_;
  if (driver_.current_stream(index_, &context.stream)) throw std::runtime_error("torch has no current stream");
  context.recording_now = this;
  steps();
  begun = nb::none();
  return reinterpret_cast<cuda::GraphHandle>(nb::cast<uintptr_t>(recorder.attr("end")(captured_)));
}

cuda::Result Recording::launch(const Launch &launch, const cuda::LaunchConfig &config, cuda::FunctionHandle function, void **parameters) {
  if (cuda::Result result = built_ ? built_->add(config, function, parameters) : driver_.launch(&config, function, parameters, nullptr))
    return result;
  Node node{built_ ? built_->last() : driver_.last_node(config.stream),
            {function, config.grid_x, config.grid_y, config.grid_z, config.block_x, config.block_y, config.block_z, launch.shared, nullptr,
             nullptr, nullptr, nullptr},
            {}};
  for (uint32_t slot = launch.slots; slot < launch.slots + launch.count; ++slot)
    if (movable_[slot]) node.movable.push_back(slot);
  node.params.parameters = reinterpret_cast<void **>(size_t(launch.slots)); // an index until `keep`
  if (!node.movable.empty()) nodes_.push_back(std::move(node));
  return 0;
}

void Recording::keep(Context &context) {
  slots_ = context.slots;
  parameters_ = parameters_of(plan_, slots_);
  for (Node &node : nodes_) node.params.parameters = &parameters_[reinterpret_cast<size_t>(node.params.parameters)];
  arena_ = context.give_arena();
  const auto &arena = plan_.of_kind[int(Kind::arena)];
  arena_data_ = arena.empty() ? nullptr : static_cast<char *>(context.base(arena[0])) - plan_.buffers[size_t(arena[0])].offset;
  for (int b : plan_.of_kind[int(Kind::output)])
    if (is_kept(plan_, b))
      outputs_.push_back({b, as_loan(plan_, b, std::exchange(context.outputs[size_t(plan_.buffers[size_t(b)].index)], {})), context.base(b)});
  for (int b : plan_.of_kind[int(Kind::owned)])
    if (context.owned(b).any()) owned_.push_back({b, as_loan(plan_, b, std::exchange(context.owned(b), {})), context.base(b)});
  for (const auto *kept : {&outputs_, &owned_})
    for (const Kept &k : *kept)
      if (k.memory.loan) {
        lends_ = true;
      } else {
        ++copies_.out;
        copies_.out_bytes += plan_.buffers[size_t(k.buffer)].bytes;
      }
  lend(context);
  context.take_outputs();
}

void Recording::drop() noexcept {
  if (exec_ || built_) {
    cuda::Relaxed relaxed(driver_); // other threads may be capturing
    cuda::ContextHandle gone = nullptr;
    bool pushed = !driver_.push_context(context_); // may run on any thread
    if (exec_) driver_.destroy_exec(exec_);        // takes effect after it has run; torch reuses its memory in stream order
    exec_ = nullptr;
    built_.reset();
    if (pushed) driver_.pop_context(&gone);
  }
  graph_store().remove(*this);
  arena_.release();
  for (auto *kept : {&staged_, &outputs_, &owned_}) {
    for (Kept &k : *kept) k.memory.release();
    kept->clear();
  }
  nodes_.clear();
  fixed_.clear();
  captured_ = nb::object();
}

bool Recording::fits(const Context &context) const {
  return exec_ && std::ranges::all_of(fixed_, [&](const auto &f) { return context.base(f.first) == f.second; });
}

void Recording::lend(Context &context) const {
  auto returned = [](const Kept &k) { return !k.memory.loan || k.memory.loan->returned(); };
  if (!exec_ || !std::ranges::all_of(outputs_, returned) || !std::ranges::all_of(owned_, returned)) return;
  for (const Kept &k : outputs_) {
    Memory &result = context.outputs[size_t(plan_.buffers[size_t(k.buffer)].index)];
    if (!k.memory.loan || result.any()) continue;
    result = shared(k.memory);
    context.set_base(k.buffer, k.data);
  }
  for (const Kept &k : owned_)
    if (k.memory.loan) context.own(k.buffer, shared(k.memory), k.data);
}

bool Recording::is_lent_to(const Context &context) const {
  auto has = [](const Kept &k, const Memory &m) { return !k.memory.loan || m.loan == k.memory.loan; };
  return std::ranges::all_of(outputs_, [&](const Kept &k) { return has(k, context.outputs[size_t(plan_.buffers[size_t(k.buffer)].index)]); }) &&
         std::ranges::all_of(owned_, [&](const Kept &k) { return has(k, context.owned(k.buffer)); });
}

void Recording::replay(Context &context) {
  Busy busy(busy_);
  graph_store().use(*this);
  for (const Kept &place : staged_) copy(place.data, context.base(place.buffer), place.buffer);
  copier_.run(context_, stream_);
  update(context);
  driver_.check(driver_.launch_graph(exec_, stream_), "the launch of " + plan_.name + " as a graph failed");
  copy_out(context);
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

void Recording::copy(void *to, const void *from, int buffer) {
  copier_.add(to, from, size_t(plan_.buffers[size_t(buffer)].bytes));
}

void Recording::copy_out(Context &context) {
  for (int b : plan_.of_kind[int(Kind::arena)]) context.set_base(b, arena_data_ + plan_.buffers[size_t(b)].offset);
  for (const Kept &kept : outputs_)
    if (!kept.memory.loan) copy(context.base(kept.buffer), kept.data, kept.buffer);
  for (const Kept &kept : owned_) {
    if (kept.memory.loan) continue;
    void *data = nullptr;
    Memory memory = plan_.device->allocate(layout_of(plan_, kept.buffer), plan_.buffers[size_t(kept.buffer)].bytes, index_, &data);
    context.own(kept.buffer, memory, data);
    copy(data, kept.data, kept.buffer);
  }
  copier_.run(context_, stream_);
}

} // namespace lamina
