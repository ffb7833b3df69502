// Streams of the stand-in GPU, which may run late: what is put on one is done when something waits for it, and no sooner, or at once. A GPU is free to do
// either, so numbers that are right both ways do not hang on luck.
//
// Environment: SQUALL_STAND_IN_LATE, which streams run late: "others" (all but the first that was created, which computes), "first", "all", "none".
#pragma once
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <functional>
#include <set>
#include <string>

namespace {

typedef std::function<int()> Work;

struct Stream {
  int number = 0;
  std::deque<Work> left;
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

int submit(void *handle, Work work) {
  Stream *stream = own(handle);
  if (!stream) return work();
  stream->left.push_back(std::move(work));
  stream->begun++;
  return is_late(*stream) ? 0 : run_until(*stream, stream->begun);
}

}  // namespace
