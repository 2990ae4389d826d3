#include "packed.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <unistd.h>

#include "calls.h"

namespace lamina {
namespace {

// Of cblas.h.
constexpr int kRowMajor = 101, kNoTrans = 111, kTrans = 112, kPacked = 151, kBMatrix = 162;
constexpr int kSamples = 16, kMostCalls = 1 << 20;

} // namespace

PackMemory &pack_memory() {
  static PackMemory memory{
      std::min(size_t(sysconf(_SC_PHYS_PAGES)) * size_t(sysconf(_SC_PAGE_SIZE)) / 4, size_t{4} << 30), size_t{0}};
  return memory;
}

// A packed weight: for MKL memory of ours, for oneDNN a tensor. `bytes` are those of the weight itself; MKL also asks for work space
// that it leaves untouched, so that it takes no memory.
struct Packs::Pack {
  int64_t generation;
  const float *memory; // of the weight
  int64_t step;        // elements from one sample to the next
  size_t bytes;
  float samples[kSamples];
  float *data = nullptr;
  Handle tensor = nullptr;

  Pack(int64_t gen, const float *weight, int64_t elements) : generation(gen), memory(weight), bytes(size_t(elements) * sizeof(float)) {
    step = (elements - 1) / (kSamples - 1);
    read(samples);
    pack_memory().used += bytes;
  }
  ~Pack() {
    std::free(data);
    if (tensor) torch_abi().delete_tensor(tensor);
    pack_memory().used -= bytes;
  }
  void read(float *to) const {
    for (int i = 0; i < kSamples; ++i) to[i] = memory[i * step];
  }
  bool stale() const {
    float now[kSamples];
    read(now);
    return std::memcmp(now, samples, sizeof now) != 0;
  }
};

Packs::Packs(const Plan &plan) : plan_(plan), weights_(plan.weights.size()), packs_(plan.n_packs) {}

Packs::~Packs() {
  for (Weight &w : weights_) Py_XDECREF(w.seen);
}

bool Packs::same(Weight &w, PyObject *tensor, void *data, int64_t version) {
  if (w.seen && PyWeakref_GetObject(w.seen) == tensor && w.data == data && w.version == version) {
    w.same = std::min(w.same + 1, w.needed);
  } else {
    nb::object seen = nb::steal(PyWeakref_NewRef(tensor, nullptr));
    if (!seen.is_valid()) throw nb::python_error();
    Py_XDECREF(w.seen);
    w.seen = seen.release().ptr();
    w.data = data;
    w.version = version;
    w.same = 1;
    ++w.generation;
    if (w.packed) w.needed = std::min(w.needed * 2, kMostCalls);
    w.packed = false;
  }
  return w.same >= w.needed;
}

void Packs::observe(PyObject *const *inputs, Context &context) {
  static PyObject *version_name = PyUnicode_InternFromString("_version");
  for (size_t i = 0; i < weights_.size(); ++i) {
    int input = plan_.weights[i];
    nb::object number = nb::steal(PyObject_GetAttr(inputs[input], version_name));
    context.generations[i] = -1;
    if (!number.is_valid()) { // tensors made under inference_mode count no versions
      PyErr_Clear();
      continue;
    }
    int64_t version = PyLong_AsLongLong(number.ptr());
    std::lock_guard lock(mutex_);
    if (same(weights_[i], inputs[input], context.base(plan_.of_kind[int(Kind::input)][input]), version))
      context.generations[i] = weights_[i].generation;
  }
  for (const Step &step : plan_.steps)
    if (auto *convolution = std::get_if<Convolution>(&step.what); convolution && context.generations[convolution->weight] >= 0)
      pack_convolution(*convolution, inputs[plan_.weights[convolution->weight]], context);
}

void Packs::pack_convolution(const Convolution &c, PyObject *weight, Context &context) {
  int64_t generation = context.generations[c.weight];
  {
    std::lock_guard lock(mutex_);
    if (packs_[c.pack] && packs_[c.pack]->generation == generation) return;
  }
  const Ref &r = plan_.tensors[c.plain.tensors[1]];
  if (pack_memory().used + size_t(r.numel()) * sizeof(float) > pack_memory().limit) return;
  nb::object capsule = c.reorder(nb::handle(weight));
  auto made = std::make_shared<Pack>(generation, static_cast<const float *>(context.address(r)), r.numel());
  made->tensor = static_cast<Handle>(PyCapsule_GetPointer(capsule.ptr(), nullptr));
  if (!made->tensor) throw nb::python_error();
  keep(c.pack, c.weight, std::move(made));
}

void Packs::keep(int pack, int weight, PackPtr made) {
  std::lock_guard lock(mutex_);
  weights_[weight].packed = true;
  packs_[pack].swap(made);
} // the old one dies after the lock, as its tensor may ask for the GIL

// The packed form of this call's weight, null when there is none or the memory has changed under it.
Packs::PackPtr Packs::find(int pack, int weight, Context &context, const void *memory) {
  PackPtr found;
  std::lock_guard lock(mutex_);
  found = packs_[pack];
  if (!found || found->generation != context.generations[weight] || found->memory != memory) return nullptr;
  if (!found->stale()) return found;
  packs_[pack].reset(); // `found` still holds it
  context.generations[weight] = -1;
  weights_[weight].needed = std::min(weights_[weight].needed * 2, kMostCalls);
  weights_[weight].same = 0;
  ++weights_[weight].generation;
  return nullptr;
}

Packs::PackPtr Packs::make(const Gemm &g, int64_t generation, const float *b) {
  const TorchAbi &torch = torch_abi();
  int64_t rows = g.b_transposed ? g.n : g.k, row = g.b_transposed ? g.k : g.n, elements = (rows - 1) * g.ldb + row;
  if (pack_memory().used + size_t(elements) * sizeof(float) > pack_memory().limit) return nullptr;
  void *data = nullptr;
  if (posix_memalign(&data, 4096, torch.pack_size(kBMatrix, g.m, g.n, g.k))) return nullptr;
  auto made = std::make_shared<Pack>(generation, b, elements);
  made->data = static_cast<float *>(data);
  torch.pack(kRowMajor, kBMatrix, g.b_transposed ? kTrans : kNoTrans, g.m, g.n, g.k, 1.0f, b, g.ldb, made->data);
  return made;
}

bool Packs::run(const Gemm &g, Context &context) {
  int64_t generation = context.generations[g.weight];
  if (generation < 0) return false;
  const float *b = static_cast<const float *>(context.address(plan_.tensors[g.b]));
  PackPtr pack = find(g.pack, g.weight, context, b);
  if (!pack) {
    if (context.generations[g.weight] < 0 || !(pack = make(g, generation, b))) return false;
    keep(g.pack, g.weight, pack);
  }
  const float *a = static_cast<const float *>(context.address(plan_.tensors[g.a]));
  float *out = static_cast<float *>(context.address(plan_.tensors[g.plain.outs[0]]));
  if (g.bias >= 0) {
    const void *row = context.address(plan_.tensors[g.bias]);
    for (int i = 0; i < g.m; ++i) std::memcpy(out + int64_t(i) * g.ldc, row, sizeof(float) * size_t(g.n));
  }
  torch_abi().compute(kRowMajor, kNoTrans, kPacked, g.m, g.n, g.k, a, g.lda, pack->data, g.n, g.bias >= 0 ? 1.0f : 0.0f, out, g.ldc);
  return true;
}

bool Packs::run(const Convolution &c, Context &context) {
  if (context.generations[c.weight] < 0) return false;
  PackPtr pack = find(c.pack, c.weight, context, context.address(plan_.tensors[c.plain.tensors[1]]));
  if (!pack) return false;
  run_packed_convolution(c.plain, pack->tensor, plan_, context);
  return true;
}

int Packs::packed() {
  std::lock_guard lock(mutex_);
  return int(std::count_if(packs_.begin(), packs_.end(), [](const PackPtr &p) { return bool(p); }));
}

} // namespace lamina
