// All recorded graphs of the process. Their number is limited, because each keeps an arena, and a workspace if it calls a library.
#pragma once

#include <cstdint>
#include <vector>

#include "recording.h"

namespace lamina {

// Every function needs the GIL.
class GraphStore {
public:
  // Makes room for one more graph of `bytes` on a GPU: drops the least recently used ones until there are fewer than `most`, and
  // theirs on that GPU and its bytes are at most `most_bytes`. False where that does not suffice.
  bool make_room(int index, int64_t bytes, int64_t most_bytes, size_t most);

  void add(Recording &recording, int64_t bytes);
  void remove(Recording &recording) noexcept;
  void use(Recording &recording) { recording.used_ = ++clock_; }

  size_t count() const { return all_.size(); }

private:
  std::vector<Recording *> all_;
  uint64_t clock_ = 0;
};

GraphStore &graph_store();

} // namespace lamina
