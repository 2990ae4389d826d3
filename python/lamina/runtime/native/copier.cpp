#include "copier.h"

#include <algorithm>
#include <cstring>

namespace lamina::cuda {
namespace {

constexpr size_t kMost = 128;      // copies per launch: the table is a kernel parameter, which is limited to 4 KiB
constexpr unsigned kThreads = 256; // threads of a block
constexpr size_t kVector = 16;     // bytes that a thread copies at once
constexpr size_t kEach = 4;        // vectors per thread
constexpr unsigned kBlocks = 1024; // most blocks for one copy

// Block (x, y) copies part x of copy y: in vectors of 16 bytes if both addresses are aligned to that, and the rest byte by byte. The
// driver compiles this PTX for the GPU, so it is not part of any program's code.
constexpr char kPtx[] = R"(.version 7.0
.target sm_80
.address_size 64
.visible .entry lamina_copy(.param .align 8 .b8 table[3072]) {
  .reg .pred odd, q, s;
  .reg .b16 byte;
  .reg .b32 x, y, threads, thread, blocks, a<4>, b<4>, c<4>, d<4>;
  .reg .b64 entry, to, from, bytes, first, step, misplaced, vectors, i, last, offset, stride, place, p<4>;
  mov.u32 y, %ctaid.y;
  mul.wide.u32 entry, y, 24;
  mov.b64 place, table;
  add.s64 entry, entry, place;
  ld.param.u64 to, [entry];
  ld.param.u64 from, [entry+8];
  ld.param.u64 bytes, [entry+16];
  cvta.to.global.u64 to, to;
  cvta.to.global.u64 from, from;
  mov.u32 x, %ctaid.x;
  mov.u32 threads, %ntid.x;
  mov.u32 thread, %tid.x;
  mov.u32 blocks, %nctaid.x;
  cvt.u64.u32 i, thread;
  mad.wide.u32 first, x, threads, i;
  mul.wide.u32 step, blocks, threads;
  or.b64 misplaced, to, from;
  and.b64 misplaced, misplaced, 15;
  setp.ne.u64 odd, misplaced, 0;
  shr.u64 vectors, bytes, 4;
  selp.b64 vectors, 0, vectors, odd;
  mov.b64 i, first;
  shl.b64 stride, step, 4;
FOUR:
  mad.lo.s64 last, step, 3, i;
  setp.ge.u64 q, last, vectors;
  @q bra ONE;
  shl.b64 offset, i, 4;
  add.s64 p0, from, offset;
  add.s64 p1, p0, stride;
  add.s64 p2, p1, stride;
  add.s64 p3, p2, stride;
  ld.global.v4.u32 {a0, a1, a2, a3}, [p0];
  ld.global.v4.u32 {b0, b1, b2, b3}, [p1];
  ld.global.v4.u32 {c0, c1, c2, c3}, [p2];
  ld.global.v4.u32 {d0, d1, d2, d3}, [p3];
  add.s64 p0, to, offset;
  add.s64 p1, p0, stride;
  add.s64 p2, p1, stride;
  add.s64 p3, p2, stride;
  st.global.v4.u32 [p0], {a0, a1, a2, a3};
  st.global.v4.u32 [p1], {b0, b1, b2, b3};
  st.global.v4.u32 [p2], {c0, c1, c2, c3};
  st.global.v4.u32 [p3], {d0, d1, d2, d3};
  add.s64 i, last, step;
  bra FOUR;
ONE:
  setp.ge.u64 q, i, vectors;
  @q bra REST;
  shl.b64 offset, i, 4;
  add.s64 place, from, offset;
  ld.global.v4.u32 {a0, a1, a2, a3}, [place];
  add.s64 place, to, offset;
  st.global.v4.u32 [place], {a0, a1, a2, a3};
  add.s64 i, i, step;
  bra ONE;
REST:
  shl.b64 offset, vectors, 4;
  add.s64 i, offset, first;
BYTES:
  setp.ge.u64 s, i, bytes;
  @s ret;
  add.s64 place, from, i;
  ld.global.u8 byte, [place];
  add.s64 place, to, i;
  st.global.u8 [place], byte;
  add.s64 i, i, step;
  bra BYTES;
}
)";

} // namespace

void Copier::add(void *to, const void *from, size_t bytes) {
  if (bytes) copies_.push_back({reinterpret_cast<uintptr_t>(to), reinterpret_cast<uintptr_t>(from), bytes});
}

void Copier::run(ContextHandle context, StreamHandle stream) {
  FunctionHandle function = copies_.size() > 1 ? kernel(context) : nullptr;
  if (function) {
    std::ranges::sort(copies_, std::greater(), &Copy::bytes); // a launch has as many blocks for each as the longest needs
    for (size_t first = 0; first < copies_.size(); first += kMost)
      launch(function, first, std::min(kMost, copies_.size() - first), stream);
  } else {
    for (const Copy &c : copies_) driver_.check(driver_.copy(c.to, c.from, c.bytes, stream), "an argument or a result of a graph cannot be copied");
  }
  copies_.clear();
}

FunctionHandle Copier::kernel(ContextHandle context) {
  if (loaded_in_ != context) {
    ModuleHandle module = nullptr;
    bool loaded = !driver_.module(context, kPtx, &module) && !driver_.get_function(&kernel_, module, "lamina_copy");
    if (!loaded) kernel_ = nullptr;
    loaded_in_ = context;
  }
  return kernel_;
}

void Copier::launch(FunctionHandle function, size_t first, size_t count, StreamHandle stream) {
  Copy table[kMost] = {};
  std::memcpy(table, &copies_[first], count * sizeof(Copy));
  size_t threads = (copies_[first].bytes + kVector * kEach - 1) / (kVector * kEach);
  unsigned blocks = unsigned(std::clamp<size_t>((threads + kThreads - 1) / kThreads, 1, kBlocks));
  LaunchConfig config{blocks, unsigned(count), 1, kThreads, 1, 1, 0, stream, nullptr, 0};
  void *parameters[] = {table};
  driver_.check(driver_.launch(&config, function, parameters, nullptr), "arguments or results of a graph cannot be copied");
}

} // namespace lamina::cuda
