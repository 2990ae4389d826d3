// The Python module of the runtime: the Runner type, the limits of the pool and of packed weights, and the parts of torch that were found.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include "build.h"
#include "by_sizes.h"
#include "product_tiles.h"
#include "runner.h"
#include "runner_type.h"
#include "seen_sizes.h"
#include "watch.h"

namespace lamina {
namespace {

nb::dict info() {
  const TorchAbi &t = torch_abi();
  nb::dict d;
  d["libtorch"] = t.library;
  d["c_shim"] = t.has_shim();
  d["dispatcher"] = t.has_dispatcher();
  d["threads"] = t.has_team() ? "torch's OpenMP team" : "none: this torch's OpenMP runtime has no GOMP_parallel, kernels run serially";
  d["packed_gemm"] = t.has_packed_gemm();
  d["products"] = runs_product_tiles() ? "Lamina" : t.onednn_matmul ? "oneDNN" : "torch's BLAS";
  d["profiler"] = t.has_profiler();
  return d;
}

bool has_routine(const std::string &name, const std::string &device) {
  const TorchAbi &t = torch_abi();
  if (!t.has_shim()) return false;
  if (name == "dispatcher") return t.has_dispatcher();
  const Routines &r = device == "cuda" ? t.cuda : t.cpu;
  if (name == "mm") return r.mm_out;
  if (name == "addmm") return r.addmm_out;
  if (name == "bmm") return r.bmm_out;
  if (name == "baddbmm") return r.baddbmm_out;
  if (name == "convolution") return r.convolution;
  if (name == "seeds") return r.randint;
  if (name == "flash") return r.flash;
  if (name == "efficient") return r.efficient;
  if (name == "cudnn") return r.cudnn;
  if (device != "cpu") return false;
  if (name == "attention") return t.flash_attention;
  if (name == "packed_convolution") return t.packed_convolution;
  if (name == "packed_gemm") return t.has_packed_gemm();
  if (name == "product_tiles") return runs_product_tiles();
  if (name == "onednn_matmul") return t.onednn_matmul;
  return false;
}

nb::dict pool_stats() {
  Pool::Stats s = pool().stats();
  nb::dict d;
  d["limit"] = s.limit;
  d["idle"] = s.idle_bytes;
  d["used"] = s.used_bytes;
  d["taken"] = s.taken;
  d["reused"] = s.reused;
  return d;
}

} // namespace
} // namespace lamina

NB_MODULE(_native, m) {
  using namespace lamina;
  m.doc() = "Lamina's native runtime: runs compiled programs on torch tensors.";
  m.def("info", &info, "What of torch the runtime found and uses.");
  m.def("has_routine", &has_routine, nb::arg("name"), nb::arg("device") = "cpu", "Whether a library routine can be called without Python.");
  m.def("pool_stats", &pool_stats, "Bytes of the pool of results and arenas: limit, idle, used; blocks taken and reused.");
  m.def("set_pool_limit", [](size_t bytes) { pool().set_limit(bytes); }, nb::arg("bytes"), "Bytes that may lie idle in the pool.");
  m.def("trim_pool", [] { pool().trim(); }, "Frees what lies idle in the pool.");
  m.def("set_pack_limit", [](size_t bytes) { pack_memory().limit = bytes; }, nb::arg("bytes"), "Bytes that packed weights may take.");
  m.def("pack_bytes", [] { return pack_memory().used.load(); }, "Bytes that packed weights take.");
  add_watch(m);
  add_seen_sizes(m);
  m.attr("Runner") = nb::steal(make_runner_type());
  m.attr("BySizes") = nb::steal(make_by_sizes_type());
}
