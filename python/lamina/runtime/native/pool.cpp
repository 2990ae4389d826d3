#include "pool.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <new>
#include <sys/mman.h>
#include <unistd.h>

namespace lamina {
namespace {

constexpr size_t kAlign = 64, kHuge = size_t{2} << 20;
constexpr int kHugeAfter = 2;

// Size classes are an eighth of a power of two apart: at most 12.5% is wasted, and nearby sizes share blocks.
size_t size_class(size_t bytes) {
  bytes = std::max(bytes, kAlign);
  size_t step = std::max(kAlign, std::bit_floor(bytes) / 8);
  return (bytes + step - 1) / step * step;
}

char *allocate(size_t bytes, bool huge) {
  void *data = nullptr;
  if (posix_memalign(&data, bytes >= kHuge ? kHuge : kAlign, bytes)) throw std::bad_alloc();
#ifdef MADV_HUGEPAGE
  if (huge) madvise(data, bytes, MADV_HUGEPAGE);
#endif
  return static_cast<char *>(data);
}

// Huge pages make kernels on large blocks up to a third faster, but each takes the kernel milliseconds to find, and a first
// result should not wait for that: a block gets them when it is reused.
void move_to_huge_pages(Block &block) {
  if (block.huge || block.bytes < kHuge || ++block.reused < kHugeAfter) return;
  block.huge = true;
  try {
    char *data = allocate(block.bytes, true);
    std::free(block.data);
    block.data = data;
  } catch (const std::bad_alloc &) {
    // keeps the pages that it has
  }
}

void destroy(const std::vector<Block *> &dead) {
  for (Block *block : dead) {
    std::free(block->data);
    delete block;
  }
}

} // namespace

Block *Pool::take(size_t bytes) {
  size_t size = size_class(bytes);
  {
    std::lock_guard lock(mutex_);
    ++taken_;
    used_bytes_ += size;
    auto it = free_.find(size);
    if (it != free_.end() && !it->second.empty()) {
      Block *block = it->second.back();
      it->second.pop_back();
      unlink(block);
      ++reused_;
      block->users.store(1, std::memory_order_relaxed);
      move_to_huge_pages(*block);
      return block;
    }
  }
  try {
    return new Block{allocate(size, false), size, this};
  } catch (const std::bad_alloc &) {
    trim(); // idle blocks of other sizes may hold the missing memory
  }
  try {
    return new Block{allocate(size, false), size, this};
  } catch (const std::bad_alloc &) {
    std::lock_guard lock(mutex_);
    used_bytes_ -= size;
    throw;
  }
}

void Pool::give(Block *block) {
  std::vector<Block *> dead;
  {
    std::lock_guard lock(mutex_);
    used_bytes_ -= block->bytes;
    if (block->bytes > limit_) {
      dead.push_back(block);
    } else {
      shrink(limit_ - block->bytes, dead);
      link(block);
      free_[block->bytes].push_back(block);
    }
  }
  destroy(dead);
}

void Pool::shrink(size_t to, std::vector<Block *> &dead) {
  while (idle_bytes_ > to) {
    Block *oldest = oldest_;
    unlink(oldest);
    auto &same = free_[oldest->bytes];
    same.erase(std::find(same.begin(), same.end(), oldest));
    dead.push_back(oldest);
  }
}

void Pool::link(Block *block) {
  block->older = newest_;
  block->newer = nullptr;
  (newest_ ? newest_->newer : oldest_) = block;
  newest_ = block;
  idle_bytes_ += block->bytes;
}

void Pool::unlink(Block *block) {
  (block->older ? block->older->newer : oldest_) = block->newer;
  (block->newer ? block->newer->older : newest_) = block->older;
  idle_bytes_ -= block->bytes;
}

void Pool::set_limit(size_t bytes) {
  std::vector<Block *> dead;
  {
    std::lock_guard lock(mutex_);
    limit_ = bytes;
    shrink(bytes, dead);
  }
  destroy(dead);
}

void Pool::trim() {
  std::vector<Block *> dead;
  {
    std::lock_guard lock(mutex_);
    shrink(0, dead);
  }
  destroy(dead);
}

Pool::Stats Pool::stats() {
  std::lock_guard lock(mutex_);
  return {limit_, idle_bytes_, used_bytes_, taken_, reused_};
}

Pool &pool() {
  static Pool *shared = new Pool(
      std::min(static_cast<size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<size_t>(sysconf(_SC_PAGE_SIZE)) / 4, size_t{4} << 30));
  return *shared;
}

} // namespace lamina
