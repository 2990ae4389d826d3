#include "gpu.h"

#include <algorithm>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <stdexcept>

#include "context.h"
#include "cuda_driver.h"
#include "graph_choice.h"
#include "tensors.h"

namespace lamina {
namespace {

// A program's code and constants on one GPU.
struct Loaded {
  int index;
  cuda::ContextHandle context = nullptr;
  std::vector<cuda::FunctionHandle> functions;
  std::vector<nb::object> constants; // tensors
  std::vector<void *> data;          // of the constants
  std::vector<void *> streams;       // streams that torch's allocator knows to use the constants
};

// Whether a cubin for an architecture such as "sm_90a" runs on a GPU of a compute capability: `a` means only that one, `f` its family.
bool runs_on(const std::string &architecture, int major, int minor) {
  int number = 0;
  size_t i = 0;
  for (; i < architecture.size() && isdigit(architecture[i]); ++i) number = number * 10 + (architecture[i] - '0');
  char suffix = i < architecture.size() ? architecture[i] : ' ';
  if (number / 10 != major) return false;
  return suffix == 'a' ? number % 10 == minor : number % 10 <= minor;
}

std::string architecture_of(const std::string &target) {
  size_t at = target.find("sm_");
  return at == std::string::npos ? "" : target.substr(at + 3);
}

class Gpu final : public Device {
public:
  explicit Gpu(GpuCode code)
      : Device(code.cuda ? dlpack::kCUDA : dlpack::kCPU, code.synchronous), code_(std::move(code)), driver_(cuda::Driver::at(code_.driver)) {}

  int current() override {
    if (!code_.cuda) return 0;
    return nb::cast<int>(nb::module_::import_("torch").attr("cuda").attr("current_device")());
  }

  void load(int index) override { loaded(index); }

  void enter(Context &context) override {
    Loaded &here = loaded(context.on.id);
    cuda::ContextHandle now = nullptr;
    driver_.check(driver_.current_context(&now), "no current CUDA context");
    if (now != here.context) {
      driver_.check(driver_.push_context(here.context), "the GPU's context cannot be used");
      context.entered = true;
    }
    if (driver_.current_stream(context.on.id, &context.stream)) throw std::runtime_error("torch has no current stream for this GPU");
    if (context.loaded != &here) {
      context.loaded = &here;
      for (int b : context.plan().of_kind[int(Kind::constant)]) context.set_base(b, here.data[size_t(context.plan().buffers[b].index)]);
    }
    if (!here.constants.empty()) use_constants(here, context.stream);
  }

  void leave(Context &context) noexcept override {
    cuda::ContextHandle gone = nullptr;
    if (context.entered) driver_.pop_context(&gone);
    context.entered = false;
  }

  Memory allocate(const Ref &layout, int64_t, int index, void **data) override {
    const TorchAbi &torch = torch_abi();
    Handle handle = nullptr;
    if (torch.has_shim() && code_.cuda)
      handle = torch.new_cuda_tensor(int64_t(layout.shape.size()), layout.shape.data(), layout.strides.data(), layout.dtype->scalar_type, index);
    else if (torch.has_shim() && torch.empty_strided(int64_t(layout.shape.size()), layout.shape.data(), layout.strides.data(),
                                                     layout.dtype->scalar_type, shim_device(type), index, &handle))
      handle = nullptr;
    if (handle) {
      torch.get_data_ptr(handle, data);
      return {.handle = handle};
    }
    PyGILState_STATE state = PyGILState_Ensure();
    try {
      nb::object tensor = allocate_in_python(layout, index);
      *data = memory_of(tensor.ptr()).data;
      PyGILState_Release(state);
      return {.object = tensor.release().ptr()};
    } catch (...) {
      PyGILState_Release(state);
      throw;
    }
  }

  bool keeps(int64_t) const override { return false; } // torch's allocator manages it, and captures need arenas of their own

  void launch(const Launch &launch, const std::string &name, Context &context) override {
    if (launch.grid == 0) return;
    const Loaded &here = *static_cast<const Loaded *>(context.loaded);
    cuda::LaunchAttribute attributes[2];
    cuda::LaunchConfig config{unsigned(launch.grid),    launch.grid_y,    launch.grid_z, unsigned(launch.threads), launch.threads_y,
                              launch.threads_z, launch.shared, context.stream, attributes,              0};
    auto add = [&](int id) -> cuda::LaunchAttribute & { return attributes[config.attribute_count++] = {id, {}, {}}; };
    if (launch.cluster > 1) add(cuda::kClusterDimension).value.cluster = {launch.cluster, 1, 1};
    if (launch.dependent) add(cuda::kDependentLaunch).value.allowed = 1;
    cuda::FunctionHandle function = here.functions[size_t(launch.function)];
    void **parameters = &context.parameters[launch.slots];
    cuda::Result result = 0;
    if (context.recording_now) [[unlikely]] result = context.recording_now->launch(launch, config, function, parameters);
    else result = driver_.launch(&config, function, parameters, nullptr);
    if (result) [[unlikely]] fail(result, launch, name);
  }

  // Not while torch captures a graph, whose replays would use freed memory, and not if hooks see saved tensors: they may pass these to
  // another stream, for which nothing here waits.
  void lend(Context &context) override {
    int capturing = 0;
    if (!context.graphs || !context.graphs->lends() || step_by_step) return;
    if (driver_.is_capturing(context.stream, &capturing) || capturing || hooked()) return;
    context.graphs->lend(context);
  }

  bool replay(Context &context, const std::function<void()> &steps) override {
    int capturing = 0;
    if (step_by_step || !driver_.has_graphs() || driver_.is_capturing(context.stream, &capturing) || capturing) return false;
    if (!context.graphs) context.graphs = std::make_unique<GraphChoice>(driver_, context.plan(), code_.graphs);
    return context.graphs->run(context, steps);
  }

  void wait(const std::string &name, Context &context) override {
    int capturing = 0;
    if (driver_.is_capturing(context.stream, &capturing) || capturing) return; // waiting would end the capture
    cuda::Result result = driver_.synchronize(context.stream);
    if (result == cuda::kAssert)
      throw nb::index_error(("after " + name + ": a check of the kernel failed, such as an index out of range; its message is above (" +
                             driver_.text(result) + ")").c_str());
    driver_.check(result, "after " + name);
  }

  void copy(const dlpack::Tensor &from, void *to, const Ref &want, Context &context) override {
    if (!want.numel()) return;
    Ref source = want;
    source.strides.assign(from.strides, from.strides + from.ndim);
    nb::object target = nb::steal(tensor_over(to, want, context.on, {})), given = nb::steal(tensor_over(from.data, source, context.on, {}));
    target.attr("copy_")(given);
  }

private:
  // Whether hooks see the tensors that autograd saves, and may keep them or pass them on.
  bool hooked() {
    if (!hooks_.is_valid()) hooks_ = nb::module_::import_("torch._C").attr("_autograd").attr("_top_saved_tensors_default_hooks");
    return !hooks_(true).is_none();
  }

  [[noreturn]] void fail(cuda::Result result, const Launch &launch, const std::string &name) const {
    int64_t blocks = launch.grid * launch.grid_y * launch.grid_z;
    std::string geometry = std::to_string(blocks) + " blocks of " + std::to_string(launch.threads * launch.threads_y * launch.threads_z) + " threads";
    if (launch.cluster > 1) geometry += " in clusters of " + std::to_string(launch.cluster);
    if (launch.shared) geometry += ", " + std::to_string(launch.shared) + " bytes of shared memory each";
    throw std::runtime_error("the launch of " + name + " (kernel " + code_.kernels[size_t(launch.function)].name + ", " + geometry +
                             ") failed: " + driver_.text(result) +
                             (step_by_step ? "" : "; the fault may be an earlier kernel's: LAMINA_SYNC=1 waits after each"));
  }

  nb::object allocate_in_python(const Ref &layout, int index) const {
    nb::object torch = nb::module_::import_("torch");
    nb::object device = code_.cuda ? nb::object(torch.attr("device")("cuda", index)) : nb::object(torch.attr("device")("cpu"));
    return torch.attr("empty_strided")(nb::cast(layout.shape), nb::cast(layout.strides),
                                       nb::arg("dtype") = torch.attr(layout.dtype->torch_name.c_str()), nb::arg("device") = device);
  }

  // torch's allocator may immediately reuse freed memory on the stream that it was allocated on; it must know of other streams.
  void use_constants(Loaded &here, void *stream) {
    if (std::find(here.streams.begin(), here.streams.end(), stream) != here.streams.end()) return;
    here.streams.push_back(stream);
    if (!code_.cuda) return;
    nb::object current = nb::module_::import_("torch").attr("cuda").attr("current_stream")(here.index);
    for (nb::object &constant : here.constants) constant.attr("record_stream")(current);
  }

  // Loading calls Python, which may release the GIL, so it is done without the lock. If two threads load at once, the first result is kept.
  Loaded &loaded(int index) {
    if (Loaded *found = find(index)) return *found;
    auto fresh = std::make_unique<Loaded>(make(index));
    std::lock_guard lock(mutex_);
    for (auto &other : loaded_)
      if (other->index == index) return *other;
    loaded_.push_back(std::move(fresh));
    return *loaded_.back();
  }

  Loaded *find(int index) {
    std::lock_guard lock(mutex_);
    for (auto &found : loaded_)
      if (found->index == index) return found.get();
    return nullptr;
  }

  Loaded make(int index) {
    Loaded made{index};
    cuda::DeviceId device = 0;
    int major = 0, minor = 0;
    char name[256] = "";
    std::string gpu = "GPU " + std::to_string(index);
    driver_.check(driver_.device_get(&device, index), gpu + " cannot be used");
    driver_.check(driver_.device_attribute(&major, cuda::kComputeMajor, device), gpu);
    driver_.check(driver_.device_attribute(&minor, cuda::kComputeMinor, device), gpu);
    driver_.device_name(name, sizeof name - 1, device);
    gpu += " (" + std::string(name) + ", sm_" + std::to_string(major) + std::to_string(minor) + ", driver for CUDA " + driver_.version() + ")";
    if (!runs_on(architecture_of(code_.target), major, minor))
      throw std::runtime_error("this program is for " + code_.target + ", which " + gpu + " does not run: compile it for this GPU");
    driver_.check(driver_.retain_primary_context(&made.context, device), gpu + " gives no context");
    cuda::Current current(driver_, made.context);
    std::vector<cuda::ModuleHandle> modules;
    if (!code_.kernels.empty())
      for (const std::string &cubin : code_.cubins)
        driver_.check(driver_.module(made.context, cubin, &modules.emplace_back()), gpu + " does not load code for " + code_.target);
    for (const GpuCode::Kernel &kernel : code_.kernels) {
      cuda::FunctionHandle function = nullptr;
      cuda::Result found = cuda::kNotFound;
      for (size_t i = 0; found == cuda::kNotFound && i < modules.size(); i++)
        found = driver_.get_function(&function, modules[i], kernel.name.c_str());
      driver_.check(found, "the code has no kernel " + kernel.name);
      if (kernel.shared) allow_shared(kernel, function, device);
      if (kernel.cluster > 8)
        driver_.check(driver_.set_attribute(function, cuda::kNonPortableCluster, 1), "kernel " + kernel.name + " in large clusters");
      made.functions.push_back(function);
    }
    upload(made);
    return made;
  }

  void allow_shared(const GpuCode::Kernel &kernel, cuda::FunctionHandle function, cuda::DeviceId device) const {
    int most = 0;
    driver_.device_attribute(&most, cuda::kSharedOptIn, device);
    driver_.check(driver_.set_attribute(function, cuda::kMaxDynamicShared, int(kernel.shared)),
                  "kernel " + kernel.name + " needs " + std::to_string(kernel.shared) + " bytes of shared memory of " + std::to_string(most));
  }

  // All constants are in one allocation, since each copy to the GPU waits.
  void upload(Loaded &made) const {
    if (code_.constants.empty()) return;
    constexpr size_t unit = 256; // as torch's allocator aligns memory
    std::vector<size_t> places;
    std::string whole;
    for (const nb::bytes &bytes : code_.constants) {
      places.push_back(whole.size());
      whole.append(bytes.c_str(), bytes.size());
      whole.resize((whole.size() + unit - 1) / unit * unit);
    }
    whole.resize(std::max(whole.size(), unit));
    nb::object torch = nb::module_::import_("torch");
    nb::object memory = nb::module_::import_("builtins").attr("bytearray")(nb::bytes(whole.data(), whole.size()));
    nb::object tensor = torch.attr("frombuffer")(memory, nb::arg("dtype") = torch.attr("uint8"));
    if (code_.cuda) tensor = tensor.attr("to")(torch.attr("device")("cuda", made.index));
    char *data = static_cast<char *>(memory_of(tensor.ptr()).data);
    for (size_t place : places) made.data.push_back(data + place);
    made.constants.push_back(std::move(tensor));
  }

  const GpuCode code_;
  cuda::Driver &driver_;
  nb::object hooks_;
  std::mutex mutex_; // never held while Python runs
  std::vector<std::unique_ptr<Loaded>> loaded_;
};

} // namespace

std::shared_ptr<Device> make_gpu(GpuCode code) { return std::make_shared<Gpu>(std::move(code)); }

} // namespace lamina
