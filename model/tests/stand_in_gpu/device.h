// What the stand-in GPU is while a process uses it: contexts, memory with its guards, events, modules, and what a driver's functions share.
#pragma once
#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "streams.h"

typedef int CUresult;
typedef int CUdevice;
typedef uint64_t CUdeviceptr;
typedef void *Handle;

enum {
  SUCCESS = 0,
  INVALID_VALUE = 1,
  OUT_OF_MEMORY = 2,
  NOT_INITIALIZED = 3,
  NO_DEVICE = 100,
  INVALID_DEVICE = 101,
  INVALID_IMAGE = 200,
  INVALID_CONTEXT = 201,
  INVALID_HANDLE = 400,
  NOT_FOUND = 500,
  NOT_READY = 600,
  ILLEGAL_ADDRESS = 700,
  LAUNCH_FAILED = 719,
  NOT_SUPPORTED = 801,
  CAPTURE_UNSUPPORTED = UNSUPPORTED,
  CAPTURE_INVALIDATED = INVALIDATED,
  CAPTURE_ISOLATION = 905,
};

namespace {

std::recursive_mutex lock;
typedef std::lock_guard<std::recursive_mutex> Guard;

uint64_t number(const char *name, uint64_t otherwise) {
  const char *text = getenv(name);
  return text && *text ? strtoull(text, nullptr, 10) : otherwise;
}

CUresult fail(CUresult code, const char *format, ...) {
  va_list rest;
  va_start(rest, format);
  fprintf(stderr, "stand-in GPU: ");
  vfprintf(stderr, format, rest);
  fprintf(stderr, "\n");
  va_end(rest);
  return code;
}

int devices() { return (int)number("SQUALL_STAND_IN_DEVICES", 1); }
uint64_t total_memory() { return number("SQUALL_STAND_IN_MEMORY", 4ull << 30); }

bool started;
struct Context {
  CUdevice device;
};
Context contexts[64];
thread_local Context *bound;

CUdevice device() { return bound ? bound->device : 0; }

// Memory lies between two guards; its first bytes are no numbers, so that what is read before it is written shows.
const size_t GUARD = 256;
const unsigned char CANARY = 0xc5, FRESH = 0xff;
struct Allocation {
  size_t size;
  CUdevice device;
  bool whole;
};
std::map<CUdeviceptr, Allocation> allocations;
uint64_t used[64], used_high[64];

// What graphs have taken: it stays theirs until it is trimmed.
uint64_t graph_used, graph_used_high, graph_reserved;
size_t in_pieces(size_t size) { return (size + 511) / 512 * 512; }

CUresult allocate(CUdeviceptr *out, size_t size, bool of_graph = false) {
  Guard guard(lock);
  if (!bound) return INVALID_CONTEXT;
  if (size == 0) return INVALID_VALUE;
  const CUdevice at = device();
  // As a driver does, in pieces.
  const size_t taken = in_pieces(size);
  if (!of_graph && used[at] + graph_reserved + taken > total_memory()) return OUT_OF_MEMORY;
  unsigned char *raw = (unsigned char *)aligned_alloc(GUARD, taken + 2 * GUARD);
  if (!raw) return OUT_OF_MEMORY;
  memset(raw, CANARY, GUARD);
  memset(raw + GUARD, FRESH, size);
  memset(raw + GUARD + size, CANARY, taken - size + GUARD);
  // That of a graph is taken by launches.
  if (!of_graph) used[at] += taken;
  used_high[at] = std::max(used_high[at], used[at]);
  *out = (CUdeviceptr)(uintptr_t)(raw + GUARD);
  allocations[*out] = {size, at, true};
  return SUCCESS;
}

bool is_whole(CUdeviceptr pointer, const Allocation &allocation) {
  const unsigned char *raw = (const unsigned char *)(uintptr_t)pointer;
  const size_t taken = in_pieces(allocation.size);
  for (size_t i = 0; i < GUARD; i++)
    if (raw[-1 - (ptrdiff_t)i] != CANARY) return false;
  for (size_t i = allocation.size; i < taken + GUARD; i++)
    if (raw[i] != CANARY) return false;
  return true;
}

// Tells of an allocation's guards once.
CUresult checked(CUdeviceptr pointer, Allocation &allocation, const char *when) {
  if (!allocation.whole || is_whole(pointer, allocation)) return SUCCESS;
  allocation.whole = false;
  return fail(ILLEGAL_ADDRESS, "%s: something wrote beyond an allocation of %zu bytes", when, allocation.size);
}

CUresult release(CUdeviceptr pointer) {
  Guard guard(lock);
  if (pointer == 0) return SUCCESS;
  auto found = allocations.find(pointer);
  if (found == allocations.end()) return fail(INVALID_VALUE, "freed memory that is not allocated");
  const CUresult whole = checked(pointer, found->second, "free");
  used[found->second.device] -= in_pieces(found->second.size);
  memset((void *)(uintptr_t)pointer, FRESH, found->second.size);
  free((void *)(uintptr_t)(pointer - GUARD));
  allocations.erase(found);
  return whole;
}

CUresult check_all(const char *when) {
  Guard guard(lock);
  CUresult worst = SUCCESS;
  for (auto &entry : allocations)
    if (CUresult code = checked(entry.first, entry.second, when)) worst = code;
  return worst;
}

// Memory of graphs: it has its address from the time when it is written down, and is in use from the launch on that takes it to the work that gives
// it back, in the same graph, in another one or outside.
std::set<Graph *> graphs;
Graph *owner(CUdeviceptr pointer) {
  for (Graph *graph : graphs)
    if (graph->memory.count(pointer)) return graph;
  return nullptr;
}
CUresult take_of_graph(Graph *graph, CUdeviceptr pointer) {
  Allocation &allocation = allocations[pointer];
  bool &in_use = graph->memory[pointer];
  if (in_use) return fail(INVALID_VALUE, "a graph takes memory that is still in use");
  const size_t taken = in_pieces(allocation.size);
  const uint64_t reserved = std::max(graph_reserved, graph_used + taken);
  if (used[allocation.device] + reserved > total_memory()) return OUT_OF_MEMORY;
  in_use = true;
  graph_used += taken;
  graph_reserved = reserved;
  graph_used_high = std::max(graph_used_high, graph_used);
  memset((void *)(uintptr_t)pointer, FRESH, allocation.size);
  return SUCCESS;
}
CUresult give_to_graph(Graph *graph, CUdeviceptr pointer) {
  Allocation &allocation = allocations[pointer];
  bool &in_use = graph->memory[pointer];
  if (!in_use) return fail(INVALID_VALUE, "freed memory of a graph that is not in use");
  in_use = false;
  graph_used -= in_pieces(allocation.size);
  const CUresult whole = checked(pointer, allocation, "free");
  memset((void *)(uintptr_t)pointer, FRESH, allocation.size);
  return whole;
}

// Whether these bytes lie in one allocation.
bool within(CUdeviceptr pointer, size_t size) {
  auto after = allocations.upper_bound(pointer);
  if (after == allocations.begin()) return false;
  --after;
  return pointer + size <= after->first + after->second.size;
}

CUresult copy(void *to, const void *from, size_t size, bool to_device, bool from_device) {
  Guard guard(lock);
  if (size == 0) return SUCCESS;
  if (!bound) return INVALID_CONTEXT;
  if (to_device && !within((CUdeviceptr)(uintptr_t)to, size)) return fail(INVALID_VALUE, "a copy of %zu bytes ends beyond its allocation", size);
  if (from_device && !within((CUdeviceptr)(uintptr_t)from, size)) return fail(INVALID_VALUE, "a copy of %zu bytes begins beyond its allocation", size);
  memmove(to, from, size);
  return SUCCESS;
}

template <class T>
CUresult set(CUdeviceptr to, T value, size_t count) {
  Guard guard(lock);
  if (count == 0) return SUCCESS;
  if (!bound) return INVALID_CONTEXT;
  if (!within(to, count * sizeof(T))) return fail(INVALID_VALUE, "a fill of %zu bytes ends beyond its allocation", count * sizeof(T));
  T *values = (T *)(uintptr_t)to;
  for (size_t i = 0; i < count; i++) values[i] = value;
  return SUCCESS;
}

std::set<Handle> events;
struct Event {
  bool recorded = false;
  std::chrono::steady_clock::time_point at;
  // What it stands for: this much of a stream.
  Stream *stream = nullptr;
  uint64_t count = 0;
};

// What does not wait although it was told to, so that tests can see what waiting is for: 1 streams for events, 2 the host for events.
int deaf;

// Page-locked memory of the host, which a GPU reads when it comes to it; the driver reads other memory during the call.
std::map<uintptr_t, size_t> locked;
bool is_locked(const void *pointer) {
  auto after = locked.upper_bound((uintptr_t)pointer);
  if (after == locked.begin()) return false;
  --after;
  return (uintptr_t)pointer < after->first + after->second;
}

struct Function {
  int (*launch)(const unsigned *, void **);
  int shared_limit;
  // One letter for each argument, which says how long it is.
  std::string letters;
};
struct Module {
  void *library;
  std::map<std::string, Function> functions;
};
std::set<Handle> modules;

// What a thread that writes down its work must not do: the work is lost.
CUresult illegal(const char *what) {
  spoil(written_by_this_thread);
  return fail(CAPTURE_UNSUPPORTED, "%s while work is written down", what);
}

}  // namespace

#define API extern "C" __attribute__((visibility("default"))) CUresult
