#include "build.h"

#include <algorithm>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <tuple>

#include "calls.h"
#include "gpu.h"
#include "team.h"

namespace lamina {
namespace {

using Sizes = std::vector<int64_t>;

// On a GPU a launch takes a microsecond, unless the queue is full: plans with more steps release the GIL.
constexpr size_t kManySteps = 8;

// Plans with more work than this release the GIL: that costs a tenth of a microsecond, more if another thread takes it.
constexpr int64_t kHeavyBytes = 256 << 10, kHeavyFlops = 1 << 20;

template <typename T> T get(nb::handle dict, const char *key) { return nb::cast<T>(dict[key]); }

Ref read_ref(nb::handle h) {
  return {nb::cast<int>(h[0]), nb::cast<int64_t>(h[1]), &dtype_named(nb::cast<std::string>(h[2])), nb::cast<Sizes>(h[3]),
          nb::cast<Sizes>(h[4])};
}

std::vector<Ref> read_refs(nb::handle list) {
  std::vector<Ref> refs;
  for (nb::handle h : list) refs.push_back(read_ref(h));
  return refs;
}

Kind kind_named(const std::string &name) {
  const char *names[] = {"input", "arena", "output", "constant", "owned"};
  for (int k = 0; k < 5; ++k)
    if (name == names[k]) return Kind(k);
  throw nb::value_error(("unknown kind of buffer " + name).c_str());
}

// Arguments come as ("tensor", index), ("list", [...]) or ("value", object).
Arg read_arg(nb::handle h) {
  auto form = nb::cast<std::string>(h[0]);
  if (form == "tensor") return {.tensor = nb::cast<int>(h[1])};
  if (form == "value") return {.value = nb::borrow(h[1])};
  Arg arg{.sequence = true};
  for (nb::handle item : nb::borrow(h[1])) arg.items.push_back(read_arg(item));
  return arg;
}

Launch read_launch(nb::handle h, Plan &plan, Step &step) {
  auto refs = read_refs(h["args"]);
  Launch launch{.slots = plan.n_slots, .count = uint32_t(refs.size()), .grid = get<int64_t>(h, "grid")};
  nb::bytes sizes = nb::cast<nb::bytes>(h["sizes"]);
  launch.sizes.assign(sizes.c_str(), sizes.size());
  if (!plan.gpu) {
    launch.kernel = reinterpret_cast<Kernel>(get<uintptr_t>(h, "kernel"));
    auto bytes = get<int64_t>(h, "bytes"), flops = get<int64_t>(h, "flops");
    launch.threads = useful_threads(launch.grid, bytes, flops);
    plan.heavy |= bytes > kHeavyBytes || flops > kHeavyFlops;
  } else {
    launch.function = get<int>(h, "kernel");
    std::tie(launch.grid_y, launch.grid_z) = get<std::pair<uint32_t, uint32_t>>(h, "grid_yz");
    launch.threads = get<int64_t>(h, "threads");
    std::tie(launch.threads_y, launch.threads_z) = get<std::pair<uint32_t, uint32_t>>(h, "threads_yz");
    launch.cluster = get<uint32_t>(h, "cluster");
    launch.shared = get<uint32_t>(h, "shared");
    launch.dependent = get<bool>(h, "dependent");
  }
  for (uint32_t i = 0; i < launch.count; ++i) plan.fixups[refs[i].buffer].push_back({launch.slots + i, refs[i].offset});
  if (!launch.sizes.empty()) ++launch.count;
  plan.n_slots += launch.count + 1; // one more for the error slot
  step.name = get<std::string>(h, "name");
  return launch;
}

PythonCall read_call(nb::handle h) {
  PythonCall call{.name = get<std::string>(h, "name"), .callable = nb::borrow(h["callable"])};
  for (nb::handle a : nb::borrow(h["args"])) call.args.push_back(read_arg(a));
  for (nb::handle pair : nb::borrow(h["kwargs"])) call.kwargs.emplace_back(nb::cast<std::string>(pair[0]), read_arg(pair[1]));
  call.outs = get<std::vector<int>>(h, "outs");
  call.owned = get<std::vector<int>>(h, "owned");
  call.out_names = get<std::vector<std::string>>(h, "out_names");
  return call;
}

LibraryCall read_library(nb::handle h, const PythonCall &call) {
  const char *names[] = {"mm", "addmm", "bmm", "baddbmm", "convolution", "seeds", "attention", "flash", "efficient", "cudnn"};
  LibraryCall library{.tensors = get<std::vector<int>>(h, "tensors"), .outs = call.outs, .owned = call.owned};
  auto routine = get<std::string>(h, "routine");
  for (int r = 0; r < 10; ++r)
    if (routine == names[r]) library.routine = Routine(r);
  library.beta = get<double>(h, "beta");
  library.alpha = get<double>(h, "alpha");
  library.dropout = get<double>(h, "dropout");
  library.flag = get<bool>(h, "flag");
  library.log_sum_exp = get<bool>(h, "log_sum_exp");
  auto scale = get<std::optional<double>>(h, "scale");
  library.has_scale = scale.has_value();
  library.scale = scale.value_or(0);
  library.stride = get<Sizes>(h, "stride");
  library.padding = get<Sizes>(h, "padding");
  library.dilation = get<Sizes>(h, "dilation");
  library.output_padding = get<Sizes>(h, "output_padding");
  library.groups = get<int64_t>(h, "groups");
  return library;
}

// Index into Plan::weights of the argument that a tensor lies in.
int weight_of(int tensor, Plan &plan) {
  int input = plan.buffers[plan.tensors[tensor].buffer].index;
  auto found = std::find(plan.weights.begin(), plan.weights.end(), input);
  int index = int(found - plan.weights.begin());
  if (found == plan.weights.end()) plan.weights.push_back(input);
  return index;
}

Gemm read_gemm(nb::handle h, const LibraryCall &plain, Plan &plan) {
  Gemm gemm{.plain = plain};
  bool bias = get<bool>(h, "bias");
  gemm.bias = bias ? plain.tensors[0] : -1;
  gemm.a = plain.tensors[bias ? 1 : 0];
  gemm.b = plain.tensors[bias ? 2 : 1];
  auto sizes = get<std::vector<int>>(h, "sizes");
  gemm.m = sizes[0], gemm.n = sizes[1], gemm.k = sizes[2], gemm.lda = sizes[3], gemm.ldb = sizes[4], gemm.ldc = sizes[5];
  gemm.b_transposed = get<bool>(h, "transposed");
  gemm.tiles = get<bool>(h, "tiles");
  if (!get<bool>(h, "packed")) return gemm;
  gemm.pack = plan.n_packs++;
  if (plan.buffers[plan.tensors[gemm.b].buffer].kind == Kind::input) gemm.weight = weight_of(gemm.b, plan);
  return gemm;
}

GpuCode read_gpu(nb::handle h) {
  GpuCode code{get<std::string>(h, "target"), get<std::string>(h, "driver"), get<std::string>(h, "tensors") == "cuda",
               get<bool>(h, "synchronous")};
  code.graphs.recorder = nb::borrow(h["recorder"]);
  if (!code.graphs.recorder.is_none()) {
    code.graphs.measured = nb::cast<bool>(code.graphs.recorder.attr("measured"));
    code.graphs.most = nb::cast<size_t>(code.graphs.recorder.attr("limit"));
  }
  for (nb::handle c : nb::borrow(h["code"])) {
    auto cubin = nb::cast<nb::bytes>(c);
    code.cubins.emplace_back(cubin.c_str(), cubin.size());
  }
  for (nb::handle k : nb::borrow(h["kernels"]))
    code.kernels.push_back({nb::cast<std::string>(k[0]), nb::cast<uint32_t>(k[1]), nb::cast<uint32_t>(k[2])});
  for (nb::handle c : nb::borrow(h["constants"])) code.constants.push_back(nb::cast<nb::bytes>(c));
  return code;
}

Ref flat(const DType &dtype, int64_t bytes) { return {-1, 0, &dtype, {bytes / dtype.bytes}, {1}}; }

// The layout to allocate an output buffer in: that of a result that fills it, else one row of elements.
Ref layout_of(int buffer, const Plan &plan) {
  const DType *dtype = &dtype_named("u8");
  for (const Ref &r : plan.outputs) {
    if (r.buffer != buffer) continue;
    dtype = r.dtype;
    int64_t span = r.numel() ? 1 : 0;
    for (size_t i = 0; span && i < r.shape.size(); ++i) span += (r.shape[i] - 1) * r.strides[i];
    if (r.offset == 0 && span * dtype->bytes == plan.buffers[buffer].bytes) return r;
  }
  return flat(*dtype, plan.buffers[buffer].bytes);
}

Step read_step(nb::handle h, Plan &plan) {
  Step step;
  if (nb::cast<nb::dict>(h).contains("kernel")) {
    step.what = read_launch(h, plan, step);
    return step;
  }
  PythonCall call = read_call(h);
  step.name = call.name;
  step.fallback = int(plan.calls.size());
  plan.calls_torch = true;
  if (!h["library"].is_none()) {
    plan.heavy = true;
    LibraryCall library = read_library(h["library"], call);
    if (!h["gemm"].is_none()) step.what = read_gemm(h["gemm"], library, plan);
    else if (!h["reorder"].is_none())
      step.what = Convolution{library, nb::cast<nb::callable>(h["reorder"]), weight_of(library.tensors[1], plan), plan.n_packs++};
    else step.what = library;
  } else if (!h["dispatcher"].is_none()) {
    plan.heavy = true;
    step.what = read_dispatcher(h["dispatcher"], call.owned, plan);
  }
  plan.calls.push_back(std::move(call));
  return step;
}

} // namespace

int64_t Ref::numel() const {
  int64_t n = 1;
  for (int64_t s : shape) n *= s;
  return n;
}

bool Ref::same_layout(const int64_t *other_shape, const int64_t *other_strides, int64_t ndim) const {
  if (size_t(ndim) != shape.size()) return false;
  bool empty = numel() == 0;
  for (size_t i = 0; i < shape.size(); ++i)
    if (other_shape[i] != shape[i] || (!empty && shape[i] > 1 && other_strides[i] != strides[i])) return false;
  return true;
}

bool may_lie_anywhere(const Plan &plan, const Ref &r) {
  bool integer = r.dtype->name == "i64" || r.dtype->name == "u64";
  return plan.gpu && integer && r.numel() <= 2 && plan.fixups[r.buffer].empty();
}

const DType &dtype_named(const std::string &name) {
  // Numbers of c10::ScalarType are part of torch's serialized formats and do not change.
  static const DType types[] = {
      {{6, 8, 1}, 11, 1, "bool", "bool"},          {{1, 8, 1}, 0, 1, "u8", "uint8"},
      {{0, 8, 1}, 1, 1, "i8", "int8"},             {{0, 16, 1}, 2, 2, "i16", "int16"},
      {{0, 32, 1}, 3, 4, "i32", "int32"},          {{0, 64, 1}, 4, 8, "i64", "int64"},
      {{1, 64, 1}, 29, 8, "u64", "uint64"},
      {{2, 16, 1}, 5, 2, "f16", "float16"},        {{4, 16, 1}, 15, 2, "bf16", "bfloat16"},
      {{2, 32, 1}, 6, 4, "f32", "float32"},        {{2, 64, 1}, 7, 8, "f64", "float64"},
      {{5, 64, 1}, 9, 8, "c64", "complex64"},      {{5, 128, 1}, 10, 16, "c128", "complex128"},
      {{10, 8, 1}, 24, 1, "f8e4m3fn", "float8_e4m3fn"}, {{12, 8, 1}, 23, 1, "f8e5m2", "float8_e5m2"},
  };
  for (const DType &t : types)
    if (t.name == name) return t;
  throw nb::value_error(("unknown dtype " + name).c_str());
}

std::unique_ptr<Plan> build_plan(nb::dict spec) {
  auto plan = std::make_unique<Plan>();
  plan->name = get<std::string>(spec, "name");
  plan->gpu = !spec["gpu"].is_none();
  plan->device = plan->gpu ? make_gpu(read_gpu(spec["gpu"])) : make_host();
  plan->arena_bytes = get<int64_t>(spec, "arena_bytes");
  plan->messages = get<std::vector<std::string>>(spec, "messages");
  for (nb::handle i : nb::borrow(spec["inputs"]))
    plan->inputs.push_back({&dtype_named(nb::cast<std::string>(i[0])), nb::cast<Sizes>(i[1]), nb::cast<Sizes>(i[2]), nb::cast<size_t>(i[3]),
                            nb::cast<bool>(i[4])});
  for (nb::handle c : nb::borrow(spec["constants"])) plan->constants.push_back(nb::cast<nb::bytes>(c));
  for (nb::handle b : nb::borrow(spec["buffers"])) {
    Buffer buffer{kind_named(nb::cast<std::string>(b[0])), nb::cast<int>(b[1]), nb::cast<int64_t>(b[2]), nb::cast<int64_t>(b[3])};
    auto &same = plan->of_kind[int(buffer.kind)];
    if (buffer.kind != Kind::constant && buffer.kind != Kind::arena && buffer.index != int(same.size()))
      throw nb::value_error("buffers of a kind must be numbered in order");
    if (buffer.kind == Kind::output) plan->output_bytes += buffer.bytes;
    same.push_back(int(plan->buffers.size()));
    plan->buffers.push_back(buffer);
  }
  if (plan->of_kind[int(Kind::input)].size() != plan->inputs.size()) throw nb::value_error("every input must have one buffer");
  plan->arena = flat(dtype_named("u8"), plan->arena_bytes);
  plan->fixups.resize(plan->buffers.size());
  plan->tensors_of.resize(plan->buffers.size());
  plan->tensors = read_refs(spec["tensors"]);
  for (size_t t = 0; t < plan->tensors.size(); ++t) plan->tensors_of[plan->tensors[t].buffer].push_back(int(t));
  plan->outputs = read_refs(spec["outputs"]);
  for (nb::handle s : nb::borrow(spec["steps"])) plan->steps.push_back(read_step(s, *plan));
  if (plan->gpu) {
    plan->heavy = plan->steps.size() > kManySteps;
    plan->recordable = !spec["gpu"]["recorder"].is_none();
    plan->draws = get<size_t>(spec["gpu"], "draws");
    plan->drawn = get<std::vector<int>>(spec["gpu"], "drawn");
    plan->lent.resize(plan->buffers.size());
    auto saved = get<std::vector<int>>(spec["gpu"], "saved");
    for (int o : saved) plan->lent[size_t(plan->outputs[size_t(o)].buffer)] = true;
    for (size_t o = 0; o < plan->outputs.size(); ++o)
      if (std::ranges::find(saved, int(o)) == saved.end()) plan->lent[size_t(plan->outputs[o].buffer)] = false;
    auto is_kernel = [](const Step &step) { return std::holds_alternative<Launch>(step.what); };
    plan->only_kernels = std::all_of(plan->steps.begin() + ptrdiff_t(plan->draws), plan->steps.end(), is_kernel);
    for (size_t i = 0; i < plan->inputs.size(); ++i) {
      Input &input = plan->inputs[i];
      input.opaque = may_lie_anywhere(*plan, {plan->of_kind[int(Kind::input)][i], 0, input.dtype, input.shape, input.strides});
    }
  }
  for (const Ref &r : plan->outputs) {
    auto alike = [&](const Ref &other) { return other.buffer == r.buffer; };
    bool several = std::count_if(plan->outputs.begin(), plan->outputs.end(), alike) > 1;
    plan->shared.push_back(several && plan->buffers[size_t(r.buffer)].kind == Kind::output);
  }
  for (int output : plan->of_kind[int(Kind::output)]) plan->fresh.push_back(layout_of(output, *plan));
  int b = 0;
  for (nb::handle buffer : nb::borrow(spec["buffers"])) {
    int last = nb::cast<int>(buffer[4]);
    if (plan->buffers[b].kind == Kind::owned && last >= 0) plan->steps.at(size_t(last)).releases.push_back(b);
    ++b;
  }
  return plan;
}

} // namespace lamina
