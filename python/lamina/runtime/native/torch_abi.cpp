#include "torch_abi.h"

#include <atomic>
#include <dlfcn.h>
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

namespace nb = nanobind;

namespace lamina {
namespace {

template <typename F> void find(void *lib, F &f, const char *name) { f = reinterpret_cast<F>(dlsym(lib, name)); }

dlpack::ExchangeAPI *exchange_of(nb::handle tensor_type) {
  nb::object capsule = nb::getattr(tensor_type, "__dlpack_c_exchange_api__", nb::none());
  if (capsule.is_none()) throw nb::import_error("this torch has no DLPack C exchange API; Lamina needs torch 2.11 or newer");
  auto *api = static_cast<dlpack::ExchangeAPI *>(PyCapsule_GetPointer(capsule.ptr(), "dlpack_exchange_api"));
  if (!api) throw nb::python_error();
  while (api && api->version.major != 1) api = api->previous;
  if (!api || !api->tensor_from_py) throw nb::import_error("torch's DLPack C exchange API is of another version than 1");
  return api;
}

// Returns a library of torch, which is loaded already; null if there is none.
void *library_of_torch(const std::string &folder, const std::string &name, std::string *path = nullptr) {
  for (const char *suffix : {".so", ".dylib"}) {
    std::string full = folder + "/lib/" + name + suffix;
    if (void *lib = dlopen(full.c_str(), RTLD_NOW | RTLD_NOLOAD)) {
      if (path) *path = full;
      return lib;
    }
  }
  return nullptr;
}

bool is_intel() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  return __builtin_cpu_is("intel");
#else
  return false;
#endif
}

void find_routines(void *lib, Routines &r, const std::string &device) {
  r.library = lib;
  auto name = [&](const char *routine) { return "aoti_torch_" + device + routine; };
  find(lib, r.mm_out, name("_mm_out").c_str());
  find(lib, r.bmm_out, name("_bmm_out").c_str());
  find(lib, r.addmm_out, name("_addmm_out").c_str());
  find(lib, r.baddbmm_out, name("_baddbmm_out").c_str());
  find(lib, r.convolution, name("_convolution").c_str());
  find(lib, r.randint, name("_randint_low").c_str());
  find(lib, r.flash, name("__scaled_dot_product_flash_attention").c_str());
  find(lib, r.efficient, name("__scaled_dot_product_efficient_attention").c_str());
  find(lib, r.cudnn, name("__scaled_dot_product_cudnn_attention").c_str());
}

TorchAbi look_up() {
  TorchAbi t;
  nb::object torch = nb::module_::import_("torch");
  nb::object tensor = torch.attr("Tensor");
  t.tensor_type = reinterpret_cast<PyTypeObject *>(tensor.ptr());
  t.parameter_type = reinterpret_cast<PyTypeObject *>(nb::object(torch.attr("nn").attr("Parameter")).ptr());
  t.exchange = exchange_of(tensor);
  t.layout = find_tensor_layout(torch.ptr());
  t.forward_ad = PyModule_GetDict(nb::module_::import_("torch.autograd.forward_ad").ptr()); // modules live as long as the process
  t.level_name = PyUnicode_InternFromString("_current_level");
  t.no_level = PyLong_FromLong(-1);

  // libtorch_cpu lies beside the package; its handle also reaches the OpenMP runtime it was linked with.
  auto folder = nb::cast<std::string>(torch.attr("__path__")[nb::int_(0)]);
  void *lib = library_of_torch(folder, "libtorch_cpu", &t.library);
  if (!lib) lib = RTLD_DEFAULT;

  find(lib, t.create_from_blob, "aoti_torch_create_tensor_from_blob");
  find(lib, t.delete_tensor, "aoti_torch_delete_tensor_object");
  find(lib, t.new_handle, "aoti_torch_new_tensor_handle");
  find(lib, t.get_data_ptr, "aoti_torch_get_data_ptr");
  find(lib, t.get_sizes, "aoti_torch_get_sizes");
  find(lib, t.get_strides, "aoti_torch_get_strides");
  find(lib, t.get_dim, "aoti_torch_get_dim");
  find(lib, t.grad_mode_enabled, "aoti_torch_grad_mode_is_enabled");
  find(lib, t.set_grad_mode, "aoti_torch_grad_mode_set_enabled");
  find(lib, t.get_dtype, "aoti_torch_get_dtype");
  find(lib, t.empty_strided, "aoti_torch_empty_strided");
  find(lib, t.reinterpret, "aoti_torch__reinterpret_tensor");
  // THPVariable_Wrap(const at::TensorBase &): a handle is the address of an at::Tensor
  if (void *python = library_of_torch(folder, "libtorch_python")) find(python, t.wrap, "_Z16THPVariable_WrapRKN2at10TensorBaseE");
  find_routines(lib, t.cpu, "cpu");
  if (void *cuda = library_of_torch(folder, "libtorch_cuda")) {
    find_routines(cuda, t.cuda, "cuda");
    find(cuda, t.current_cuda_stream, "aoti_torch_get_current_cuda_stream");
    find(cuda, t.empty_cuda, "_ZN2at6detail18empty_strided_cudaEN3c108ArrayRefIlEES3_NS1_10ScalarTypeESt8optionalINS1_6DeviceEE");
  }
  find(lib, t.flash_attention, "aoti_torch_cpu__scaled_dot_product_flash_attention_for_cpu");
  find(lib, t.copy, "aoti_torch_copy_");
  find(lib, t.call_dispatcher, "torch_call_dispatcher");
  find(lib, t.new_list, "torch_new_list_reserve_size");
  find(lib, t.push_back, "torch_list_push_back");
  find(lib, t.new_optional, "torch_new_stable_ivalue");
  find(lib, t.new_undefined, "aoti_torch_new_uninitialized_tensor");
  find(lib, t.get_device_type, "aoti_torch_get_device_type");
  find(lib, t.get_device_index, "aoti_torch_get_device_index");
  find(lib, t.packed_convolution, "aoti_torch_cpu_mkldnn__convolution_pointwise");
  find(lib, t.pack_size, "cblas_sgemm_pack_get_size");
  find(lib, t.pack, "cblas_sgemm_pack");
  find(lib, t.compute, "cblas_sgemm_compute");
  if (!is_intel()) find(lib, t.onednn_matmul, "_ZN2at6native13mkldnn_matmulERKNS_6TensorES3_S3_ff");
  find(lib, t.parallel, "GOMP_parallel");
  find(lib, t.thread_num, "omp_get_thread_num");
  find(lib, t.team_size, "omp_get_num_threads");
  find(lib, t.in_parallel, "omp_in_parallel");
  // at::get_num_threads also sets torch's default in a thread that has not run torch yet; OpenMP's own count is the next best.
  find(lib, t.num_threads, "_ZN2at15get_num_threadsEv");
  if (!t.num_threads) find(lib, t.num_threads, "omp_get_max_threads");
  find(lib, t.profiler_enabled, "_ZN2at12hasCallbacksEv"); // whether at::RecordFunction has callbacks
  find(lib, t.record_start, "aoti_record_function_start");
  find(lib, t.record_end, "aoti_record_function_end");
  return t;
}

} // namespace

Handle TorchAbi::new_cuda_tensor(int64_t ndim, const int64_t *shape, const int64_t *strides, int32_t scalar_type, int index) const {
  Handle handle = nullptr;
  if (!empty_cuda)
    return empty_strided(ndim, shape, strides, scalar_type, shim_device(dlpack::kCUDA), index, &handle) ? nullptr : handle;
  try {
    auto *tensor = new TensorBase(empty_cuda({shape, size_t(ndim)}, {strides, size_t(ndim)}, int8_t(scalar_type),
                                             DeviceOf{int8_t(shim_device(dlpack::kCUDA)), int8_t(index)}));
    return reinterpret_cast<Handle>(tensor); // an at::Tensor holds the same pointer
  } catch (const std::exception &) {
    return nullptr;
  }
}

const TorchAbi &torch_abi() {
  // Not a guarded static: importing torch may release the GIL while another thread that holds it would wait for the guard. Two
  // threads may look up at once; they find the same, and the first result is kept.
  static std::atomic<const TorchAbi *> kept{nullptr};
  if (const TorchAbi *abi = kept.load(std::memory_order_acquire)) return *abi;
  const TorchAbi *fresh = new TorchAbi(look_up()), *expected = nullptr;
  if (kept.compare_exchange_strong(expected, fresh)) return *fresh;
  delete fresh;
  return *expected;
}

} // namespace lamina
