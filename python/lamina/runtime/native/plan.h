// The runner's form of a program: built once from lamina.core.program.Program by `build.cpp`, and immutable.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "dlpack.h"

namespace lamina {

namespace nb = nanobind;

using Kernel = void (*)(void *const *bufs, int64_t lo, int64_t hi);

// An element type, in the three forms in which it is named.
struct DType {
  dlpack::DataType dl;
  int32_t scalar_type; // its c10::ScalarType, for the C shim
  int64_t bytes;
  std::string name;       // "f32"
  std::string torch_name; // "float32"
};
const DType &dtype_named(const std::string &name); // throws nb::value_error

enum class Kind { input, arena, output, constant, owned };

struct Buffer {
  Kind kind;
  int index;
  int64_t offset, bytes;
};

// A tensor as a step sees it: `offset` in bytes past the start of a buffer, strides in elements.
struct Ref {
  int buffer;
  int64_t offset;
  const DType *dtype;
  std::vector<int64_t> shape, strides;
  int64_t numel() const;
  bool same_layout(const int64_t *other_shape, const int64_t *other_strides, int64_t ndim) const;
};

// opaque: see may_lie_anywhere
struct Input {
  const DType *dtype;
  std::vector<int64_t> shape, strides;
  size_t align; // alignment in bytes that kernels of a GPU require
  bool updated; // calls write to it: if the argument had to be copied, the new value is copied back
  bool opaque = false;
};

class Device;

struct Launch {
  Kernel kernel;
  int function;          // on a GPU, instead of `kernel`: index of the entry point
  uint32_t slots, count; // the launch's addresses are slots[slots .. slots+count), followed by the address of the error slot
  std::string sizes = {};  // on a GPU: the last parameter before that slot, which is passed by value; its slot has no address
  int64_t grid;
  int64_t threads;         // threads worth using, before torch's own limit; on a GPU the threads of a block
  uint32_t grid_y = 1, grid_z = 1;       // on a GPU: blocks in further dimensions
  uint32_t threads_y = 1, threads_z = 1; // on a GPU: threads of a block in further dimensions
  uint32_t cluster, shared; // on a GPU: blocks of a cluster, bytes of dynamic shared memory
  bool dependent;           // on a GPU: the kernel itself waits for earlier work (programmatic dependent launch)
};

// An argument of a Python call: a constant, a tensor, or a list of arguments.
struct Arg {
  nb::object value;
  int tensor = -1; // index into Plan::tensors
  bool sequence = false;
  std::vector<Arg> items;
};

struct PythonCall {
  std::string name;
  nb::object callable;
  std::vector<Arg> args;
  std::vector<std::pair<std::string, Arg>> kwargs;
  std::vector<int> outs, owned;       // tensors: results that are written in place; results with memory of their own
  std::vector<std::string> out_names; // the callable's names for the outs; empty: its result is copied there
};

// seeds: drawn from all i64 numbers. attention: on the CPU; the last three: on GPUs.
enum class Routine { mm, addmm, bmm, baddbmm, convolution, seeds, attention, flash, efficient, cudnn };

// A call through torch's C shim. `python` is the same call through torch's dispatcher; it is repeated for the error message if the shim
// fails.
struct LibraryCall {
  Routine routine;
  std::vector<int> tensors; // operands in the shim's order; -1 for an absent one
  std::vector<int> outs, owned;
  double beta = 1, alpha = 1, scale = 0, dropout = 0;
  bool has_scale = false, flag = false; // is_causal, transposed
  bool log_sum_exp = false;
  std::vector<int64_t> stride, padding, dilation, output_padding;
  int64_t groups = 1;
};

// An argument of a DispatcherCall, in the form of the operator's schema.
struct Value {
  enum class Form { word, tensor, none, some, list } form = Form::word; // none, some: of an optional
  uint64_t word = 0;        // an int, a bool, the bits of a double
  bool flag = false;        // a bool
  bool of_list = false;     // an optional list that is absent
  int tensor = -1;          // index into DispatcherCall::tensors; -1 for an undefined one
  std::vector<Value> items; // of a list; one of an optional
};

struct ShimCall;

// A call of any operator of torch through its dispatcher, without Python. All its results are tensors of its own.
struct DispatcherCall {
  std::string op, overload; // "aten::convolution_backward", ""
  std::vector<Value> args;  // all arguments of the schema, in order
  std::vector<int> tensors; // that it takes: indices into Plan::tensors
  std::vector<int> owned;   // by result; -1 for one that nobody uses
  std::shared_ptr<const ShimCall> shim; // the same call through the C shim, which is faster; may be null
};

// out = a @ b (+ bias, one row) in f32. `plain` is the same product through the C shim.
struct Gemm {
  LibraryCall plain; // tensors: (bias,) a, b
  int a, b, bias;    // tensors; bias is -1 if there is none
  int m, n, k, lda, ldb, ldc;
  bool b_transposed, tiles; // tiles: computed by Lamina's own tiles (see product.h)
  int pack = -1;   // index of its packed weight b, which is frozen (see packed.h); -1 for a product that packs nothing
  int weight = -1; // index into Plan::weights of the argument that b lies in; -1 for a constant
};

// A convolution whose weight is frozen and a whole argument: oneDNN packs it into a layout of its own.
struct Convolution {
  LibraryCall plain;   // tensors: source, weight, bias
  nb::callable reorder; // returns the packed weight of a tensor, as a capsule of a Handle that the caller then owns
  int weight, pack;    // as in Gemm
};

struct Step {
  // monostate: there is only the Python call
  std::variant<std::monostate, Launch, LibraryCall, DispatcherCall, Gemm, Convolution> what;
  std::string name;
  std::vector<int> releases; // owned buffers whose last use this step is
  int fallback = -1;         // index into Plan::calls: the step as a Python call
};

// slots[slot] = base of its buffer + offset
struct Fixup {
  uint32_t slot;
  int64_t offset;
};

struct Plan {
  std::string name;
  std::shared_ptr<Device> device;
  bool gpu = false;
  int64_t arena_bytes = 0, output_bytes = 0;
  std::vector<Input> inputs;
  std::vector<Buffer> buffers;
  std::vector<nb::bytes> constants;
  std::vector<std::string> messages; // code k > 0 in the error slot means messages[k - 1]
  std::vector<Step> steps;
  std::vector<PythonCall> calls;
  std::vector<Ref> tensors;                // all tensors of calls
  std::vector<std::vector<int>> tensors_of; // by buffer: the tensors in it
  std::vector<std::vector<Fixup>> fixups;  // by buffer: the slots that point into it
  std::vector<Ref> outputs;
  std::vector<bool> shared; // by output: whether another output is in the same buffer
  Ref arena;              // the arena as one tensor
  std::vector<Ref> fresh; // by output buffer: the layout to allocate (that of a result that fills it, if any)
  std::vector<int> of_kind[5]; // buffers by kind
  std::vector<int> weights;    // arguments that are packed for a Gemm or Convolution
  uint32_t n_slots = 0;
  int n_packs = 0;
  bool heavy = false;     // whether there is enough work to release the GIL
  bool calls_torch = false;
  bool recordable = false; // whether it can be a CUDA graph
  size_t draws = 0;        // number of leading steps that draw random numbers, and run before the graph
  std::vector<int> drawn;  // the buffers that these steps fill
  std::vector<bool> lent;    // by buffer: whether only a backward pass sees its results, so that a recording may lend its memory
  bool only_kernels = false; // on a GPU: whether all steps after the draws are launches of Lamina's kernels
};

// Whether a tensor is a small integer tensor that no kernel reads, such as the seeds of attention: torch keeps these on the CPU or on
// the GPU, and they are passed from call to call unchanged.
bool may_lie_anywhere(const Plan &plan, const Ref &r);

// Whether a buffer at `data` is aligned as kernels require: on a GPU to 16 bytes, unless the argument declares
// less.
inline bool is_aligned(const Plan &plan, int buffer, const void *data) {
  if (!plan.gpu || plan.fixups[size_t(buffer)].empty()) return true;
  const Buffer &b = plan.buffers[size_t(buffer)];
  return reinterpret_cast<uintptr_t>(data) % (b.kind == Kind::input ? plan.inputs[size_t(b.index)].align : 16) == 0;
}

} // namespace lamina
