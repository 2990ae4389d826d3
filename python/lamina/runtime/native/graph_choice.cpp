#include "graph_choice.h"

#include <algorithm>
#include <nanobind/stl/string.h>

#include "context.h"
#include "graph_store.h"

namespace lamina {
namespace {

constexpr int kCalm = 3;             // runs in which nothing moves before the plan is measured or recorded
constexpr int kMostCalm = 1 << 20;   // each lost recording doubles them, up to this
constexpr int kMoves = 2;            // an argument that has moved this often is copied
constexpr int kForGood = 1 << 20;    // the count for buffers of draws, and for arguments that moved after they were assumed to have stopped
constexpr int kStill = 4;            // runs after which it is assumed to have stopped: the graph that produces it is recorded by then
constexpr int kMostWait = 16;        // most runs to wait for that
constexpr int kElsewhere = 16;       // runs in a row on another stream before a recording is made there
constexpr int kSamples = 3;          // measured runs
constexpr double kBound = 0.25;      // the host's time divided by the GPU's, from which on a graph is tried (below 1, as the caller takes time, too)
constexpr double kLossWhileWaiting = 1.25; // the most that a caller which waits for each result may lose
constexpr int64_t kMemoryShare = 16; // graphs take at most this part of a GPU's memory

} // namespace

bool GraphChoice::Argument::is_moving() const { return moves >= kForGood || (moves >= kMoves && still < kStill); }

bool GraphChoice::Argument::may_settle() const { return is_moving() && moves < kForGood && still; }

GraphChoice::GraphChoice(cuda::Driver &driver, const Plan &plan, const GraphOptions &options)
    : driver_(driver), plan_(plan), options_(options), watch_(driver), needed_(kCalm) {
  for (int b : plan.of_kind[int(Kind::input)])
    if (!plan.tensors_of[size_t(b)].empty()) called_.push_back({b});
  for (int b : plan.drawn) called_.push_back({b, nullptr, kForGood});
}

void GraphChoice::lend(Context &context) {
  if (recording_ && !given_up_ && context.stream == stream_ && context.on.id == index_) recording_->lend(context);
}

bool GraphChoice::run(Context &context, const Steps &steps) {
  if (given_up_ || !is_here(context)) return false;
  observe(context);
  if (recording_ && !recording_->fits(context)) {
    forget();
    return false;
  }
  if (recording_) return recording_->is_lent_to(context) && replay(context);
  if (calm_ < needed_ || (std::ranges::any_of(called_, &Argument::may_settle) && ++waited_ < kMostWait)) return false;
  waited_ = 0;
  if (options_.measured && !judged_ && (!watch_.idle(steps_) || steps_.count < kSamples)) return measure(context, steps);
  return is_bound_by_launches() && record(context, steps) && replay(context);
}

// A graph belongs to a stream, because every replay uses the same arena.
bool GraphChoice::is_here(const Context &context) {
  if (known_ && context.stream == stream_ && context.on.id == index_) {
    elsewhere_ = 0;
    return true;
  }
  if (recording_ && ++elsewhere_ < kElsewhere) return false;
  if (recording_) forget();
  watch_.reset();
  if (known_ && context.on.id != index_) {
    steps_ = replays_ = {};
    judged_ = false;
  }
  known_ = true;
  stream_ = context.stream;
  index_ = context.on.id;
  elsewhere_ = calm_ = 0;
  return true;
}

void GraphChoice::observe(const Context &context) {
  bool moved = false;
  for (Argument &a : called_) {
    if (a.base == context.base(a.buffer)) {
      ++a.still;
      continue;
    }
    bool first = !a.base;
    a.base = context.base(a.buffer);
    a.still = 0;
    if (a.settled) a.moves = kForGood;
    if (!first && a.moves < kMoves) moved |= ++a.moves < kMoves;
  }
  calm_ = moved ? 1 : calm_ + 1;
}

bool GraphChoice::measure(Context &context, const Steps &steps) {
  if (!watch_.idle(steps_)) return false;
  context.take_arena();
  watch_.start(context.stream);
  steps();
  watch_.stop(context.stream);
  return true;
}

bool GraphChoice::is_bound_by_launches() {
  if (!options_.measured || judged_ || steps_.host >= kBound * steps_.device) return true;
  give_up("the GPU takes longer for the steps than the host to issue them");
  return false;
}

bool GraphChoice::record(Context &context, const Steps &steps) {
  std::vector<int> called, staged;
  for (Argument &a : called_) {
    called.push_back(a.buffer);
    a.settled |= a.moves >= kMoves && !a.is_moving();
    const Buffer &buffer = plan_.buffers[size_t(a.buffer)];
    bool updated = buffer.kind == Kind::input && plan_.inputs[size_t(buffer.index)].updated; // its address
    if (a.is_moving() && !updated) staged.push_back(a.buffer);
  }
  size_t memory = 0;
  cuda::DeviceId device = 0;
  driver_.check(driver_.device_get(&device, index_), "the GPU cannot be used");
  driver_.check(driver_.device_memory(&memory, device), "the GPU does not tell its memory");
  int64_t bytes = Recording::bytes(plan_, staged), most = int64_t(memory) / kMemoryShare;
  if (bytes > most) {
    give_up("it would keep " + std::to_string(bytes) + " bytes, of " + std::to_string(most) + " that graphs may take");
    return false;
  }
  if (!graph_store().make_room(index_, bytes, most, options_.most)) return false;
  auto fresh = std::make_unique<Recording>(driver_, plan_);
  std::string why = fresh->record(context, options_.recorder, called, staged, steps);
  if (!fresh->ready()) {
    give_up("it could not be recorded: " + why);
    return false;
  }
  recording_ = std::move(fresh);
  graph_store().add(*recording_, bytes);
  copies_ = recording_->copies();
  ++recorded_;
  return true;
}

bool GraphChoice::replay(Context &context) {
  bool timed = options_.measured && !judged_ && watch_.idle(replays_);
  if (timed && replays_.count >= kSamples) {
    timed = false;
    judged_ = true;
    if (!pays()) {
      recording_.reset();
      give_up("replays were not faster");
      return false;
    }
  }
  if (timed) watch_.start(stream_);
  recording_->replay(context);
  if (timed) watch_.stop(stream_);
  return true;
}

// Whether the GPU finishes sooner, or the host has less to do and the GPU is no slower (or little slower, if it waits for the host before
// each run anyway).
bool GraphChoice::pays() {
  double loss = steps_.waits && replays_.waits ? kLossWhileWaiting : 1.03;
  return replays_.device <= 0.97 * steps_.device || (replays_.host <= 0.8 * steps_.host && replays_.device <= loss * steps_.device);
}

void GraphChoice::forget() {
  recording_.reset();
  watch_.reset();
  replays_ = {}; // the next recording may copy more
  judged_ = false;
  calm_ = 0;
  needed_ = std::min(needed_ * 2, kMostCalm);
}

void GraphChoice::give_up(std::string why) {
  given_up_ = true;
  why_ = std::move(why);
  watch_.reset();
}

nb::dict GraphChoice::status() const {
  bool ready = recording_ && recording_->ready();
  nb::dict found;
  auto times = [](const Times &t) -> nb::object { return t.count ? nb::object(nb::make_tuple(t.host, t.device)) : nb::none(); };
  found["state"] = given_up_ ? "given up" : ready ? (options_.measured && !judged_ ? "trying" : "recorded") : "watching";
  found["why"] = why_;
  found["steps"] = times(steps_);
  found["replays"] = times(replays_);
  found["recorded"] = recorded_;
  found["copied_in"] = ready ? copies_.in : 0;
  found["copied_in_bytes"] = ready ? copies_.in_bytes : 0;
  found["copied_out"] = ready ? copies_.out : 0;
  found["copied_out_bytes"] = ready ? copies_.out_bytes : 0;
  return found;
}

} // namespace lamina
