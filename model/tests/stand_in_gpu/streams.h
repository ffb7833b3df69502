// Streams of the stand-in GPU, which may run late: what is put on one is done when something waits for it, and no sooner, or at once. A GPU is free to do
// either, so numbers that are right both ways do not hang on luck.
//
// Environment: SQUALL_STAND_IN_LATE, which streams run late: "others" (all but the first that was created, which computes), "first", "all", "none".
#pragma once
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace {

typedef std::function<int()> Work;

// Work that was written down instead of done.
struct Graph {
  std::vector<Work> works;
  // Its own memory, which is there as long as the graph; by address, whether it is in use.
  std::map<uint64_t, bool> memory;
  // Bytes of it that are in use after what was written down so far, and at most.
  uint64_t held = 0, most = 0;
};

struct Stream {
  int number = 0;
  std::deque<Work> left;
  // What is put on it now is written down here.
  Graph *graph = nullptr;
  // Something was put on it that cannot be written down: nothing more is, and what was is lost.
  bool invalid = false;
  // How much was put on it, and how much of that is done.
  uint64_t begun = 0, done = 0;
  // The first error of what ran late; told to who waits next.
  int failed = 0;
};

// Never deleted, so that events may point to them.
std::set<void *> streams;
int streams_created;
std::string late_streams;

bool is_late(const Stream &stream) {
  if (late_streams.empty()) {
    const char *chosen = getenv("SQUALL_STAND_IN_LATE");
    late_streams = chosen && *chosen ? chosen : "others";
  }
  if (late_streams == "all") return true;
  if (late_streams == "first") return stream.number == 0;
  return late_streams == "others" && stream.number > 0;
}

// The driver's own streams, 0 to 2, do everything at once.
bool is_stream(void *stream) { return (uintptr_t)stream <= 2 || streams.count(stream); }
Stream *own(void *stream) { return (uintptr_t)stream <= 2 ? nullptr : (Stream *)stream; }

// Does what was put on a stream, up to this many; gives the first error. Work may wait for another stream and so come here again.
int run_until(Stream &stream, uint64_t count) {
  while (stream.done < count && !stream.left.empty()) {
    const Work work = std::move(stream.left.front());
    stream.left.pop_front();
    const int code = work();
    stream.done++;
    if (code && !stream.failed) stream.failed = code;
  }
  const int failed = stream.failed;
  stream.failed = 0;
  return failed;
}

int settle(void *handle) {
  Stream *stream = own(handle);
  return stream ? run_until(*stream, stream->begun) : 0;
}

int settle_all() {
  int failed = 0;
  for (void *stream : std::set<void *>(streams))
    if (const int code = settle(stream)) failed = code;
  return failed;
}

enum { UNSUPPORTED = 900, INVALIDATED = 901 };
// What this thread writes down, if it does.
thread_local Stream *written_by_this_thread;
// After so many more works that are written down one cannot be; 0 is never. For tests.
int works_until_broken;

int spoil(Stream *stream) {
  stream->invalid = true;
  return UNSUPPORTED;
}

Graph *captures(void *handle) {
  Stream *stream = own(handle);
  return stream ? stream->graph : nullptr;
}

int submit(void *handle, Work work) {
  Stream *stream = own(handle);
  if (!stream) return work();
  if (stream->graph) {
    if (stream->invalid) return INVALIDATED;
    if (works_until_broken > 0 && --works_until_broken == 0) return spoil(stream);
    stream->graph->works.push_back(std::move(work));
    return 0;
  }
  stream->left.push_back(std::move(work));
  stream->begun++;
  return is_late(*stream) ? 0 : run_until(*stream, stream->begun);
}

}  // namespace
