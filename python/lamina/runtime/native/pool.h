// A pool of memory for results and arenas. Page faults of fresh memory take longer than a memory-bound kernel, so blocks return
// to the pool when their last user is gone, and are reused. The bytes of idle blocks are limited.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <unordered_map>
#include <vector>

namespace lamina {

class Pool;

// Memory with a reference count. `data` is aligned to 64 bytes, or to 2 MiB if it is at least that large.
struct Block {
  char *data;
  size_t bytes; // size of its class
  Pool *pool;
  std::atomic<int> users{1};
  int reused = 0;    // number of reuses before it moved to huge pages
  bool huge = false; // whether it is on huge pages
  Block *older = nullptr, *newer = nullptr; // neighbors among the idle blocks, by time of return

  void retain() { users.fetch_add(1, std::memory_order_relaxed); }
  void release();
};

// Thread-safe; needs no GIL. Lives until the process ends, since tensors may outlive everything else.
class Pool {
public:
  explicit Pool(size_t limit) : limit_(limit) {}
  Block *take(size_t bytes); // throws std::bad_alloc
  void give(Block *block);
  void set_limit(size_t bytes);
  void trim(); // frees everything idle

  struct Stats {
    size_t limit, idle_bytes, used_bytes, taken, reused;
  };
  Stats stats();

private:
  void shrink(size_t to, std::vector<Block *> &dead);
  void link(Block *block);
  void unlink(Block *block);

  std::mutex mutex_;
  size_t limit_, idle_bytes_ = 0, used_bytes_ = 0, taken_ = 0, reused_ = 0;
  std::unordered_map<size_t, std::vector<Block *>> free_; // by size class, the most recently used last
  Block *oldest_ = nullptr, *newest_ = nullptr;           // ends of the list of idle blocks
};

// The pool of this process. Its limit starts at a quarter of the machine's memory, 4 GiB at most.
Pool &pool();

inline void Block::release() {
  if (users.fetch_sub(1, std::memory_order_acq_rel) == 1) pool->give(this);
}

} // namespace lamina
