// All recorded graphs of the process, which are bounded: each keeps an arena, and a library's workspace where it calls one.
#pragma once

#include <cstdint>
#include <vector>

#include "recording.h"

namespace lamina {

// Every function needs the GIL.
class GraphStore {
public:
  // Makes room for one more graph on a GPU, of `bytes`: the least recently used ones are dropped until there are fewer than `most`, and
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
