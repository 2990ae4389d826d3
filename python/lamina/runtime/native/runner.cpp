#include "runner.h"

#include "graph_choice.h"
#include "tensors.h"

namespace lamina {
namespace {

// Releases the GIL while native steps of a heavy plan run, and takes it back when a step needs it.
class Gil {
public:
  explicit Gil(bool generous) : generous_(generous) {}
  ~Gil() { take(); }
  void give() {
    if (generous_ && !state_) state_ = PyEval_SaveThread();
  }
  void take() {
    if (!state_) return;
    PyEval_RestoreThread(state_);
    state_ = nullptr;
  }

private:
  bool generous_;
  PyThreadState *state_ = nullptr;
};

// Disables gradient recording in torch's calls: gradients are computed by another plan.
class NoGrad {
public:
  explicit NoGrad(bool wanted) : was_(wanted && torch_abi().set_grad_mode && torch_abi().grad_mode_enabled()) {
    if (was_) torch_abi().set_grad_mode(false);
  }
  ~NoGrad() {
    if (was_) torch_abi().set_grad_mode(true);
  }

private:
  bool was_;
};

// Reports a step's name to torch.profiler while it records.
class Record {
public:
  Record(bool wanted, const std::string &name) {
    if (wanted && torch_abi().record_start(name.c_str(), nullptr, nullptr, 0, &handle_)) handle_ = nullptr;
  }
  ~Record() {
    if (handle_) torch_abi().record_end(handle_);
  }

private:
  RecordHandle handle_ = nullptr;
};

// Ends the run in any case: returns memory to the pool, and the context to its owner.
class Lent {
public:
  explicit Lent(Contexts &contexts) : contexts_(contexts), context_(contexts.take()) {}
  ~Lent() {
    context_->end();
    contexts_.give(std::move(context_));
  }
  Context &operator*() { return *context_; }

private:
  Contexts &contexts_;
  std::unique_ptr<Context> context_;
};

[[noreturn]] void fail(const Plan &plan, int64_t code) {
  bool known = code > 0 && size_t(code) <= plan.messages.size();
  std::string message = known ? plan.messages[size_t(code - 1)] : "index out of range";
  const std::string runtime_error = "RuntimeError: ";
  bool arithmetic = message.rfind(runtime_error, 0) == 0;
  PyErr_SetString(arithmetic ? PyExc_RuntimeError : PyExc_IndexError,
                  message.c_str() + (arithmetic ? runtime_error.size() : 0));
  throw nb::python_error();
}

} // namespace

void Runner::run_steps(PyObject *const *inputs, Context &context, size_t first, size_t end) {
  const Plan &plan = *plan_;
  bool record = torch_abi().has_profiler() && torch_abi().profiler_enabled();
  NoGrad no_grad(plan.calls_torch);
  Gil gil(plan.heavy);

  auto python = [&](const PythonCall &call) {
    gil.take();
    run_python(call, plan, context, inputs);
  };
  auto native = [&](int fallback, auto &&run) {
    gil.give();
    try {
      run();
    } catch (const CallFailed &) {
      gil.take();
      PyErr_Clear(); // an error of a Python dispatch mode that torch has called
      python(plan.calls[size_t(fallback)]);
    }
  };
  auto library = [&](const LibraryCall &call, int fallback) { native(fallback, [&] { run_library(call, plan, context); }); };

  for (size_t i = first; i < end; ++i) {
    const Step &step = plan.steps[i];
    Record name(record, step.name);
    if (auto *launch = std::get_if<Launch>(&step.what)) {
      gil.give();
      plan.device->launch(*launch, step.name, context);
      if (context.error) [[unlikely]] {
        gil.take();
        fail(plan, context.error);
      }
    } else if (auto *gemm = std::get_if<Gemm>(&step.what)) {
      gil.give();
      if (!packs_.run(*gemm, context) && !run_by_tiles(*gemm, plan, context) && !run_by_onednn(*gemm, plan, context))
        library(gemm->plain, step.fallback);
    } else if (auto *convolution = std::get_if<Convolution>(&step.what)) {
      gil.give();
      bool packed = false;
      try {
        packed = packs_.run(*convolution, context);
      } catch (const CallFailed &) { // the repeated call in Python raises the error
      }
      if (!packed) library(convolution->plain, step.fallback);
    } else if (auto *call = std::get_if<LibraryCall>(&step.what)) {
      library(*call, step.fallback);
    } else if (auto *other = std::get_if<DispatcherCall>(&step.what)) {
      native(step.fallback, [&] { run_dispatcher(*other, plan, context, inputs); });
    } else {
      python(plan.calls[size_t(step.fallback)]);
    }
    if (plan.device->step_by_step) [[unlikely]] plan.device->wait(step.name, context);
    for (int buffer : step.releases) {
      if (context.needs_gil(buffer)) gil.take();
      context.drop(buffer);
    }
  }
}

nb::object Runner::graphs() {
  if (!plan_->gpu) return nb::none();
  std::unique_ptr<Context> context = contexts_.take();
  nb::dict found;
  if (context->graphs) found = context->graphs->status();
  found["aligned"] = context->aligned;
  contexts_.give(std::move(context));
  return found;
}

PyObject *Runner::run(PyObject *const *given, size_t count) {
  Lent lent(contexts_);
  Context &context = *lent;
  read_inputs(*plan_, given, count, context);
  PyObject *const *inputs = context.replaced(given, count);
  plan_->device->enter(context);
  if (!context.misaligned.empty()) context.align();
  if (!plan_->weights.empty()) packs_.observe(inputs, context);
  context.begin();
  if (plan_->recordable) plan_->device->lend(context);
  context.take_outputs();
  if (plan_->draws) run_steps(inputs, context, 0, plan_->draws);
  auto rest = [&] { run_steps(inputs, context, plan_->draws, plan_->steps.size()); };
  if (!plan_->recordable || !plan_->device->replay(context, rest)) {
    context.take_arena();
    context.take_outputs(); // a failed recording may have taken them
    rest();
  }
  return wrap_outputs(*plan_, given, context);
}

} // namespace lamina
