#include "packed.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <unistd.h>

#include "calls.h"

namespace lamina {
namespace {

// Constants of cblas.h.
constexpr int kRowMajor = 101, kNoTrans = 111, kTrans = 112, kPacked = 151, kBMatrix = 162;

} // namespace

PackMemory &pack_memory() {
  static PackMemory memory{
      std::min(size_t(sysconf(_SC_PHYS_PAGES)) * size_t(sysconf(_SC_PAGE_SIZE)) / 4, size_t{4} << 30), size_t{0}};
  return memory;
}

// A packed weight: memory of the pool for MKL, a tensor for oneDNN. `bytes` is the size of the weight itself; MKL also asks for work space
// that it never touches, so it takes no physical memory.
struct Packs::Pack {
  int64_t generation;
  size_t bytes;
  float *data = nullptr;
  Handle tensor = nullptr;

  Pack(int64_t gen, int64_t elements) : generation(gen), bytes(size_t(elements) * sizeof(float)) { pack_memory().used += bytes; }
  ~Pack() {
    std::free(data);
    if (tensor) torch_abi().delete_tensor(tensor);
    pack_memory().used -= bytes;
  }
};

Packs::Packs(const Plan &plan) : plan_(plan), weights_(plan.weights.size()), packs_(plan.n_packs) {}

Packs::~Packs() {
  for (Weight &w : weights_) Py_XDECREF(w.seen);
}

// Returns which packed form to use for this weight: a new one if it is another tensor than at the last call.
int64_t Packs::generation(Weight &w, PyObject *tensor, void *data, int64_t version) {
  if (w.seen && PyWeakref_GetObject(w.seen) == tensor && w.data == data && w.version == version) return w.generation;
  nb::object seen = nb::steal(PyWeakref_NewRef(tensor, nullptr));
  if (!seen.is_valid()) throw nb::python_error();
  Py_XDECREF(w.seen);
  w.seen = seen.release().ptr();
  w.data = data;
  w.version = version;
  return ++w.generation;
}

void Packs::observe(PyObject *const *inputs, Context &context) {
  static PyObject *version_name = PyUnicode_InternFromString("_version");
  for (size_t i = 0; i < weights_.size(); ++i) {
    int input = plan_.weights[i];
    nb::object number = nb::steal(PyObject_GetAttr(inputs[input], version_name));
    if (!number.is_valid()) PyErr_Clear(); // tensors made under inference_mode count no versions
    int64_t version = number.is_valid() ? PyLong_AsLongLong(number.ptr()) : 0;
    std::lock_guard lock(mutex_);
    context.generations[i] = generation(weights_[i], inputs[input], context.base(plan_.of_kind[int(Kind::input)][input]), version);
  }
  for (const Step &step : plan_.steps)
    if (auto *convolution = std::get_if<Convolution>(&step.what))
      pack_convolution(*convolution, inputs[plan_.weights[convolution->weight]], context);
}

void Packs::pack_convolution(const Convolution &c, PyObject *weight, Context &context) {
  int64_t generation = context.generations[c.weight];
  if (find(c.pack, generation)) return;
  const Ref &r = plan_.tensors[c.plain.tensors[1]];
  if (pack_memory().used + size_t(r.numel()) * sizeof(float) > pack_memory().limit) return;
  nb::object capsule = c.reorder(nb::handle(weight));
  auto made = std::make_shared<Pack>(generation, r.numel());
  made->tensor = static_cast<Handle>(PyCapsule_GetPointer(capsule.ptr(), nullptr));
  if (!made->tensor) throw nb::python_error();
  keep(c.pack, std::move(made));
}

void Packs::keep(int pack, PackPtr made) {
  std::lock_guard lock(mutex_);
  packs_[pack].swap(made);
} // the old form is freed after the lock, since its tensor may need the GIL

// Returns the packed form of this call's weight; null if there is none.
Packs::PackPtr Packs::find(int pack, int64_t generation) {
  std::lock_guard lock(mutex_);
  const PackPtr &found = packs_[pack];
  return found && found->generation == generation ? found : nullptr;
}

Packs::PackPtr Packs::make(const Gemm &g, int64_t generation, const float *b) {
  const TorchAbi &torch = torch_abi();
  int64_t rows = g.b_transposed ? g.n : g.k, row = g.b_transposed ? g.k : g.n, elements = (rows - 1) * g.ldb + row;
  if (pack_memory().used + size_t(elements) * sizeof(float) > pack_memory().limit) return nullptr;
  void *data = nullptr;
  if (posix_memalign(&data, 4096, torch.pack_size(kBMatrix, g.m, g.n, g.k))) return nullptr;
  auto made = std::make_shared<Pack>(generation, elements);
  made->data = static_cast<float *>(data);
  torch.pack(kRowMajor, kBMatrix, g.b_transposed ? kTrans : kNoTrans, g.m, g.n, g.k, 1.0f, b, g.ldb, made->data);
  return made;
}

bool Packs::run(const Gemm &g, Context &context) {
  if (g.pack < 0) return false;
  int64_t generation = g.weight < 0 ? 0 : context.generations[g.weight];
  PackPtr pack = find(g.pack, generation);
  if (!pack) {
    if (!(pack = make(g, generation, static_cast<const float *>(context.address(plan_.tensors[g.b]))))) return false;
    keep(g.pack, pack);
  }
  const float *a = static_cast<const float *>(context.address(plan_.tensors[g.a]));
  float *out = static_cast<float *>(context.address(plan_.tensors[g.plain.outs[0]]));
  fill_with_bias(g, plan_, context);
  torch_abi().compute(kRowMajor, kNoTrans, kPacked, g.m, g.n, g.k, a, g.lda, pack->data, g.n, g.bias >= 0 ? 1.0f : 0.0f, out, g.ldc);
  return true;
}

bool Packs::run(const Convolution &c, Context &context) {
  PackPtr pack = find(c.pack, context.generations[c.weight]);
  if (!pack) return false;
  run_packed_convolution(c.plain, pack->tensor, plan_, context);
  return true;
}

int Packs::packed() {
  std::lock_guard lock(mutex_);
  return int(std::count_if(packs_.begin(), packs_.end(), [](const PackPtr &p) { return bool(p); }));
}

} // namespace lamina
