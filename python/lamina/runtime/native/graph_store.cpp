#include "graph_store.h"

#include <algorithm>

namespace lamina {

bool GraphStore::make_room(int index, int64_t bytes, int64_t most_bytes, size_t most) {
  if (bytes > most_bytes || most == 0) return false;
  while (true) {
    int64_t used = bytes;
    for (const Recording *r : all_)
      if (r->index_ == index) used += r->bytes_;
    bool too_large = used > most_bytes;
    if (!too_large && all_.size() < most) return true;
    Recording *oldest = nullptr;
    for (Recording *r : all_)
      if (!r->busy_ && (!too_large || r->index_ == index) && (!oldest || r->used_ < oldest->used_)) oldest = r;
    if (!oldest) return false;
    oldest->drop();
  }
}

void GraphStore::add(Recording &recording, int64_t bytes) {
  recording.bytes_ = bytes;
  all_.push_back(&recording);
  use(recording);
}

void GraphStore::remove(Recording &recording) noexcept { std::erase(all_, &recording); }

GraphStore &graph_store() {
  static auto *store = new GraphStore; // outlives every recording
  return *store;
}

} // namespace lamina
