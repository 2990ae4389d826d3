// Library routines through torch's C shim, which calls at::cpu::mm_out and the like on tensors over the plan's memory.
#include <algorithm>
#include <cstring>
#include <exception>

#include "calls.h"
#include "product.h"

namespace lamina {
namespace {

// Copies a result to the planned layout.
Memory copied(Handle result, const Ref &want, const Plan &plan, dlpack::Device on, void **data) {
  const TorchAbi &torch = torch_abi();
  Memory copy = plan.device->allocate(want, plan.buffers[want.buffer].bytes, on.id, data);
  Handle target = nullptr;
  bool failed = torch.create_from_blob(*data, int64_t(want.shape.size()), want.shape.data(), want.strides.data(), 0,
                                       want.dtype->scalar_type, shim_device(on.type), on.id, &target) ||
                torch.copy(target, result, 0);
  if (target) torch.delete_tensor(target);
  if (!failed) return copy;
  copy.release();
  throw CallFailed();
}

bool lies_in(const void *data, const std::vector<int> &tensors, const Plan &plan, const Context &context) {
  return std::ranges::any_of(tensors, [&](int t) {
    int buffer = plan.tensors[size_t(t)].buffer;
    auto *base = static_cast<const char *>(context.base(buffer));
    return base && data >= base && data < base + plan.buffers[size_t(buffer)].bytes;
  });
}

} // namespace

void own_handle(Handle result, int tensor, const Plan &plan, Context &context, const std::vector<int> &taken) {
  const TorchAbi &torch = torch_abi();
  if (tensor < 0) { // nobody uses it
    torch.delete_tensor(result);
    return;
  }
  const Ref &want = plan.tensors[tensor];
  int64_t ndim = 0, *sizes = nullptr, *strides = nullptr;
  void *data = nullptr;
  bool known = !torch.get_dim(result, &ndim) && !torch.get_sizes(result, &sizes) && !torch.get_strides(result, &strides) &&
               !torch.get_data_ptr(result, &data);
  if (known && want.same_layout(sizes, strides, ndim) && is_aligned(plan, want.buffer, data) && !lies_in(data, taken, plan, context))
    return context.own(want.buffer, {.handle = result}, data);
  try {
    Memory copy = copied(result, want, plan, context.on, &data);
    torch.delete_tensor(result);
    context.own(want.buffer, copy, data);
  } catch (...) {
    torch.delete_tensor(result);
    throw;
  }
}

namespace {

// Takes ownership of all handles, some of which may be null.
void own_handles(Handle *results, size_t count, const LibraryCall &c, const Plan &plan, Context &context) {
  for (size_t i = 0; i < count; ++i) {
    try {
      if (results[i]) own_handle(results[i], i < c.owned.size() ? c.owned[i] : -1, plan, context);
    } catch (...) {
      for (size_t rest = i + 1; rest < count; ++rest)
        if (results[rest]) torch_abi().delete_tensor(results[rest]);
      throw;
    }
  }
}

int64_t n(const std::vector<int64_t> &v) { return int64_t(v.size()); }

void convolution(const LibraryCall &c, const Plan &plan, Context &context) {
  Handle bias = context.handle(c.tensors[2]), result = nullptr;
  if (torch_abi().routines(context.on.type).convolution(context.handle(c.tensors[0]), context.handle(c.tensors[1]), bias ? &bias : nullptr, c.stride.data(),
                              n(c.stride), c.padding.data(), n(c.padding), c.dilation.data(), n(c.dilation), c.flag,
                              c.output_padding.data(), n(c.output_padding), c.groups, &result))
    throw CallFailed();
  own_handle(result, c.owned[0], plan, context);
}

// Draws numbers from torch's generator of the plan's device.
void seeds(const LibraryCall &c, const Plan &plan, Context &context) {
  const Ref &want = plan.tensors[c.owned[0]];
  int32_t dtype = want.dtype->scalar_type, device = shim_device(context.on.type);
  Handle result = nullptr;
  if (torch_abi().routines(context.on.type).randint(INT64_MIN, INT64_MAX, want.shape.data(), n(want.shape), &dtype, nullptr, &device,
                                                    context.on.id, nullptr, &result))
    throw CallFailed();
  own_handle(result, c.owned[0], plan, context);
}

void attention(const LibraryCall &c, const Plan &plan, Context &context) {
  Handle mask = context.handle(c.tensors[3]), out = nullptr, logsumexp = nullptr;
  double scale = c.scale;
  if (torch_abi().flash_attention(context.handle(c.tensors[0]), context.handle(c.tensors[1]), context.handle(c.tensors[2]), c.dropout,
                                  c.flag, mask ? &mask : nullptr, c.has_scale ? &scale : nullptr, &out, &logsumexp))
    throw CallFailed();
  Handle results[] = {out, logsumexp};
  own_handles(results, 2, c, plan, context);
}

// The three kinds of attention on GPUs, without dropout. `results` are tensors, except 4 and 5, which are numbers.
void gpu_attention(const LibraryCall &c, const Plan &plan, Context &context) {
  const Routines &torch = torch_abi().routines(context.on.type);
  Handle q = context.handle(c.tensors[0]), k = context.handle(c.tensors[1]), v = context.handle(c.tensors[2]);
  Handle bias = c.tensors.size() > 3 ? context.handle(c.tensors[3]) : nullptr, *given = bias ? &bias : nullptr;
  double factor = c.scale, *scale = c.has_scale ? &factor : nullptr;
  Handle r[9] = {};
  int64_t longest[2];
  int32_t failed = 0;
  if (c.routine == Routine::flash)
    failed = torch.flash(q, k, v, 0, c.flag, 0, scale, &r[0], &r[1], &r[2], &r[3], &longest[0], &longest[1], &r[6], &r[7], &r[8]);
  else if (c.routine == Routine::efficient)
    failed = torch.efficient(q, k, v, given, c.log_sum_exp, 0, c.flag, scale, &r[0], &r[1], &r[2], &r[3]);
  else
    failed = torch.cudnn(q, k, v, given, c.log_sum_exp, 0, c.flag, 0, scale, &r[0], &r[1], &r[2], &r[3], &longest[0], &longest[1], &r[6],
                         &r[7], &r[8]);
  if (failed) throw CallFailed();
  own_handles(r, 9, c, plan, context);
}

} // namespace

void run_packed_convolution(const LibraryCall &c, Handle weight, const Plan &plan, Context &context) {
  Handle bias = context.handle(c.tensors[2]), result = nullptr;
  if (torch_abi().packed_convolution(context.handle(c.tensors[0]), weight, bias ? &bias : nullptr, c.padding.data(), n(c.padding),
                                     c.stride.data(), n(c.stride), c.dilation.data(), n(c.dilation), c.groups, "none", nullptr, 0,
                                     nullptr, &result))
    throw CallFailed();
  own_handle(result, c.owned[0], plan, context);
}

void fill_with_bias(const Gemm &g, const Plan &plan, Context &context) {
  if (g.bias < 0) return;
  auto *out = static_cast<float *>(context.address(plan.tensors[g.plain.outs[0]]));
  const void *row = context.address(plan.tensors[g.bias]);
  for (int i = 0; i < g.m; ++i) std::memcpy(out + int64_t(i) * g.ldc, row, sizeof(float) * size_t(g.n));
}

bool run_by_tiles(const Gemm &g, const Plan &plan, Context &context) {
  if (!g.tiles) return false;
  auto at = [&](int tensor) { return static_cast<float *>(context.address(plan.tensors[tensor])); };
  multiply({g.m, g.n, g.k, at(g.a), g.lda, at(g.b), g.ldb, g.b_transposed, g.bias < 0 ? nullptr : at(g.bias), at(g.plain.outs[0]), g.ldc});
  return true;
}

bool run_by_onednn(const Gemm &g, const Plan &plan, Context &context) {
  const TorchAbi &torch = torch_abi();
  if (!torch.onednn_matmul) return false;
  Handle a = context.handle(g.a), b = context.handle(g.b), out = context.handle(g.plain.outs[0]);
  fill_with_bias(g, plan, context);
  try {
    torch.onednn_matmul(a, b, out, g.bias >= 0 ? 1.0f : 0.0f, 1.0f);
  } catch (const std::exception &) { // the repeated call in Python raises the error
    return false;
  }
  return true;
}

void run_library(const LibraryCall &c, const Plan &plan, Context &context) {
  const Routines &torch = torch_abi().routines(context.on.type);
  auto in = [&](size_t i) { return context.handle(c.tensors[i]); };
  auto out = [&] { return context.handle(c.outs[0]); };
  int32_t failed = 0;
  switch (c.routine) {
  case Routine::mm: failed = torch.mm_out(out(), in(0), in(1)); break;
  case Routine::bmm: failed = torch.bmm_out(out(), in(0), in(1)); break;
  case Routine::addmm: failed = torch.addmm_out(out(), in(0), in(1), in(2), c.beta, c.alpha); break;
  case Routine::baddbmm: failed = torch.baddbmm_out(out(), in(0), in(1), in(2), c.beta, c.alpha); break;
  case Routine::convolution: convolution(c, plan, context); break;
  case Routine::seeds: seeds(c, plan, context); break;
  case Routine::attention: attention(c, plan, context); break;
  default: gpu_attention(c, plan, context);
  }
  if (failed) throw CallFailed();
}

} // namespace lamina
