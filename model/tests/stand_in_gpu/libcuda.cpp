// A stand-in for libcuda.so.1 that computes on the CPU: memory is the host's, streams run at once or as late as they may (`streams.h`), a module is a
// shared library of kernels that the stand-in for NVRTC compiled. What a driver leaves undefined is an error here: copies beyond an allocation, writes
// beyond one (found when it is freed), handles that do not exist, grids that a GPU refuses.
//
// Environment: SQUALL_STAND_IN_DEVICES (1), SQUALL_STAND_IN_MEMORY (bytes of each device, 4 GiB), SQUALL_STAND_IN_CAPABILITY (90),
// SQUALL_STAND_IN_DRIVER (13000), SQUALL_STAND_IN_LATE (`streams.h`).
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

API cuInit(unsigned flags) {
  if (flags != 0) return INVALID_VALUE;
  if (devices() < 1) return NO_DEVICE;
  started = true;
  return SUCCESS;
}
API cuDriverGetVersion(int *version) {
  *version = (int)number("SQUALL_STAND_IN_DRIVER", 13000);
  return SUCCESS;
}
API cuDeviceGetCount(int *count) {
  if (!started) return NOT_INITIALIZED;
  *count = devices();
  return SUCCESS;
}
API cuDeviceGet(CUdevice *out, int ordinal) {
  if (!started) return NOT_INITIALIZED;
  if (ordinal < 0 || ordinal >= devices() || ordinal >= 64) return INVALID_DEVICE;
  *out = ordinal;
  return SUCCESS;
}
API cuDeviceGetName(char *name, int size, CUdevice) {
  snprintf(name, (size_t)size, "Squall stand-in GPU");
  return SUCCESS;
}
API cuDeviceGetUuid_v2(unsigned char *uuid, CUdevice device) {
  memset(uuid, 0, 16);
  memcpy(uuid, "squall", 6);
  uuid[15] = (unsigned char)device;
  return SUCCESS;
}
API cuDeviceGetUuid(unsigned char *uuid, CUdevice device) { return cuDeviceGetUuid_v2(uuid, device); }
API cuDeviceGetPCIBusId(char *id, int size, CUdevice device) {
  snprintf(id, (size_t)size, "0000:%02x:00.0", device);
  return SUCCESS;
}
API cuDeviceTotalMem_v2(size_t *bytes, CUdevice) {
  *bytes = total_memory();
  return SUCCESS;
}
API cuDeviceGetAttribute(int *value, int attribute, CUdevice) {
  const int capability = (int)number("SQUALL_STAND_IN_CAPABILITY", 90);
  switch (attribute) {
    case 1: *value = 1024; return SUCCESS;              // threads per block
    case 2: case 3: *value = 1024; return SUCCESS;      // block x, y
    case 4: *value = 64; return SUCCESS;                // block z
    case 5: *value = 2147483647; return SUCCESS;        // grid x
    case 6: case 7: *value = 65535; return SUCCESS;     // grid y, z
    case 8: *value = 49152; return SUCCESS;             // shared memory per block
    case 10: *value = 32; return SUCCESS;               // warp
    case 16: *value = 4; return SUCCESS;                // multiprocessors
    case 75: *value = capability / 10; return SUCCESS;
    case 76: *value = capability % 10; return SUCCESS;
    case 97: *value = 232448; return SUCCESS;           // shared memory per block, opted in
    case 115: *value = 1; return SUCCESS;               // memory pools
    default: *value = 0; return SUCCESS;
  }
}
API cuDeviceCanAccessPeer(int *can, CUdevice, CUdevice) {
  *can = 0;
  return SUCCESS;
}

API cuDevicePrimaryCtxRetain(Handle *context, CUdevice device) {
  if (!started) return NOT_INITIALIZED;
  if (device < 0 || device >= devices()) return INVALID_DEVICE;
  contexts[device].device = device;
  *context = &contexts[device];
  return SUCCESS;
}
API cuDevicePrimaryCtxRelease_v2(CUdevice) {
  Guard guard(lock);
  const CUresult failed = settle_all();
  return failed ? failed : check_all("release of the context");
}
API cuCtxSetCurrent(Handle context) {
  bound = (Context *)context;
  return SUCCESS;
}
API cuCtxGetCurrent(Handle *context) {
  *context = bound;
  return SUCCESS;
}
API cuCtxPushCurrent_v2(Handle context) { return cuCtxSetCurrent(context); }
API cuCtxPopCurrent_v2(Handle *context) {
  if (context) *context = bound;
  return SUCCESS;
}
API cuCtxGetDevice(CUdevice *out) {
  if (!bound) return INVALID_CONTEXT;
  *out = bound->device;
  return SUCCESS;
}
API cuCtxSynchronize() {
  Guard guard(lock);
  const CUresult failed = settle_all();
  return failed ? failed : check_all("synchronisation");
}
API cuCtxSetFlags(unsigned) { return SUCCESS; }
API cuCtxGetStreamPriorityRange(int *least, int *greatest) {
  *least = 0;
  *greatest = -5;
  return SUCCESS;
}

API cuDeviceGetDefaultMemPool(Handle *pool, CUdevice device) {
  *pool = &used[device];
  return SUCCESS;
}
API cuDeviceGetMemPool(Handle *pool, CUdevice device) { return cuDeviceGetDefaultMemPool(pool, device); }
enum { POOL_USED_HIGH = 8 };
API cuMemPoolSetAttribute(Handle pool, int attribute, void *value) {
  Guard guard(lock);
  if (attribute != POOL_USED_HIGH) return SUCCESS;
  // The high mark can be set to what is used now only.
  if (*(uint64_t *)value != 0) return INVALID_VALUE;
  const size_t at = (uint64_t *)pool - used;
  used_high[at] = used[at];
  return SUCCESS;
}
API cuMemPoolGetAttribute(Handle pool, int attribute, uint64_t *value) {
  Guard guard(lock);
  const size_t at = (uint64_t *)pool - used;
  *value = attribute == POOL_USED_HIGH ? used_high[at] : used[at];
  return SUCCESS;
}
API cuMemPoolTrimTo(Handle, size_t) { return SUCCESS; }

API cuDeviceGraphMemTrim(CUdevice) {
  Guard guard(lock);
  graph_reserved = graph_used;
  return SUCCESS;
}

API cuMemAlloc_v2(CUdeviceptr *out, size_t size) { return written_by_this_thread ? illegal("cuMemAlloc") : allocate(out, size); }
API cuMemAllocAsync(CUdeviceptr *out, size_t size, Handle stream) {
  Guard guard(lock);
  if (!is_stream(stream)) return INVALID_HANDLE;
  Graph *graph = captures(stream);
  if (graph && own(stream)->invalid) return CAPTURE_INVALIDATED;
  const CUresult made = allocate(out, size, graph != nullptr);
  if (made || !graph) return made;
  const CUdeviceptr pointer = *out;
  graph->memory[pointer] = false;
  return submit(stream, [=] { return take_of_graph(graph, pointer); });
}
API cuMemAllocFromPoolAsync(CUdeviceptr *out, size_t size, Handle, Handle stream) { return cuMemAllocAsync(out, size, stream); }
API cuMemFree_v2(CUdeviceptr pointer) {
  Guard guard(lock);
  const CUresult failed = settle_all();
  const CUresult freed = release(pointer);
  return failed ? failed : freed;
}
API cuMemFreeAsync(CUdeviceptr pointer, Handle stream) {
  Guard guard(lock);
  if (!is_stream(stream)) return INVALID_HANDLE;
  Graph *graph = owner(pointer);
  if (captures(stream) && own(stream)->invalid) return CAPTURE_INVALIDATED;
  // What a graph frees must be a graph's: other memory would be freed at every launch.
  if (!graph && captures(stream) && pointer) {
    spoil(own(stream));
    return fail(INVALID_VALUE, "a graph would free memory that is none of a graph");
  }
  if (graph) return submit(stream, [=] { return give_to_graph(graph, pointer); });
  return submit(stream, [=] { return release(pointer); });
}
API cuMemGetInfo_v2(size_t *left, size_t *total) {
  if (!bound) return INVALID_CONTEXT;
  Guard guard(lock);
  *total = total_memory();
  *left = *total - used[device()] - graph_reserved;
  return SUCCESS;
}
API cuMemHostAlloc(void **out, size_t size, unsigned) {
  Guard guard(lock);
  if (written_by_this_thread) return illegal("cuMemHostAlloc");
  *out = aligned_alloc(4096, (size + 4095) / 4096 * 4096);
  if (!*out) return OUT_OF_MEMORY;
  memset(*out, FRESH, size);
  locked[(uintptr_t)*out] = size;
  return SUCCESS;
}
API cuMemAllocHost_v2(void **out, size_t size) { return cuMemHostAlloc(out, size, 0); }
API cuMemFreeHost(void *pointer) {
  Guard guard(lock);
  const CUresult failed = settle_all();
  if (!locked.erase((uintptr_t)pointer)) return INVALID_VALUE;
  free(pointer);
  return failed;
}
API cuMemHostRegister_v2(void *, size_t, unsigned) { return SUCCESS; }
API cuMemHostUnregister(void *) { return SUCCESS; }

API cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t size) { return copy((void *)(uintptr_t)to, from, size, true, false); }
// For tests: what came back from the GPU so far.
std::atomic<uint64_t> copied_back;
extern "C" __attribute__((visibility("default"))) uint64_t squall_copied_back() { return copied_back; }
API cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t size) {
  copied_back += size;
  return copy(to, (void *)(uintptr_t)from, size, false, true);
}
API cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t size) { return copy((void *)(uintptr_t)to, (void *)(uintptr_t)from, size, true, true); }
API cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t size, Handle stream) {
  Guard guard(lock);
  if (!bound) return INVALID_CONTEXT;
  if (!is_stream(stream)) return INVALID_HANDLE;
  if (captures(stream)) {
    spoil(own(stream));
    return fail(CAPTURE_UNSUPPORTED, "a copy from the host would be written down with its address");
  }
  if (is_locked(from)) return submit(stream, [=] { return cuMemcpyHtoD_v2(to, from, size); });
  // Ordinary memory is read before the call returns.
  const std::vector<char> bytes((const char *)from, (const char *)from + size);
  return submit(stream, [=] { return cuMemcpyHtoD_v2(to, bytes.data(), size); });
}
API cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t size, Handle stream) {
  Guard guard(lock);
  if (!bound) return INVALID_CONTEXT;
  if (!is_stream(stream)) return INVALID_HANDLE;
  if (captures(stream)) {
    spoil(own(stream));
    return fail(CAPTURE_UNSUPPORTED, "a copy to the host would be written down with its address");
  }
  const CUresult begun = submit(stream, [=] { return cuMemcpyDtoH_v2(to, from, size); });
  // Ordinary memory is written before the call returns.
  return begun || is_locked(to) ? begun : settle(stream);
}
API cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t size, Handle stream) {
  Guard guard(lock);
  return is_stream(stream) ? submit(stream, [=] { return cuMemcpyDtoD_v2(to, from, size); }) : INVALID_HANDLE;
}
API cuMemsetD8_v2(CUdeviceptr to, unsigned char value, size_t count) { return set(to, value, count); }
API cuMemsetD32_v2(CUdeviceptr to, unsigned value, size_t count) { return set(to, value, count); }
API cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t count, Handle stream) {
  Guard guard(lock);
  return is_stream(stream) ? submit(stream, [=] { return set(to, value, count); }) : INVALID_HANDLE;
}
API cuMemsetD32Async(CUdeviceptr to, unsigned value, size_t count, Handle stream) {
  Guard guard(lock);
  return is_stream(stream) ? submit(stream, [=] { return set(to, value, count); }) : INVALID_HANDLE;
}

API cuStreamCreate(Handle *stream, unsigned) {
  Guard guard(lock);
  if (!bound) return INVALID_CONTEXT;
  Stream *made = new Stream;
  made->number = streams_created++;
  streams.insert(made);
  *stream = made;
  return SUCCESS;
}
API cuStreamCreateWithPriority(Handle *stream, unsigned flags, int) { return cuStreamCreate(stream, flags); }
API cuStreamDestroy_v2(Handle stream) {
  Guard guard(lock);
  if (!streams.count(stream)) return INVALID_HANDLE;
  const CUresult failed = settle(stream);
  streams.erase(stream);
  return failed;
}
API cuStreamSynchronize(Handle stream) {
  Guard guard(lock);
  if (!is_stream(stream)) return INVALID_HANDLE;
  if (captures(stream)) {
    spoil(own(stream));
    return fail(CAPTURE_UNSUPPORTED, "what is written down cannot be waited for");
  }
  const CUresult failed = settle(stream);
  return failed ? failed : check_all("synchronisation");
}
// Who asks again and again is answered yes at last.
API cuStreamQuery(Handle stream) {
  Guard guard(lock);
  if (!is_stream(stream)) return INVALID_HANDLE;
  Stream *asked = own(stream);
  if (!asked || asked->done == asked->begun) return SUCCESS;
  const CUresult failed = run_until(*asked, asked->done + 1);
  return failed ? failed : NOT_READY;
}
API cuStreamWaitEvent(Handle stream, Handle event, unsigned) {
  Guard guard(lock);
  if (!is_stream(stream) || !events.count(event)) return INVALID_HANDLE;
  // What the event stands for now, whatever it is recorded for later.
  Stream *other = ((Event *)event)->stream;
  const uint64_t count = ((Event *)event)->count;
  if (captures(stream) && other != own(stream)) {
    spoil(own(stream));
    return fail(CAPTURE_ISOLATION, "what is written down would wait for what is not");
  }
  if (!other || deaf & 1) return SUCCESS;
  return submit(stream, [=] { return run_until(*other, count); });
}
API cuStreamIsCapturing(Handle stream, int *status) {
  Guard guard(lock);
  if (!is_stream(stream)) return INVALID_HANDLE;
  *status = captures(stream) ? 1 : 0;
  return SUCCESS;
}
API cuStreamBeginCapture_v2(Handle stream, int) {
  Guard guard(lock);
  Stream *own_stream = is_stream(stream) ? own(stream) : nullptr;
  if (!own_stream || own_stream->graph) return CAPTURE_UNSUPPORTED;
  own_stream->graph = new Graph;
  own_stream->invalid = false;
  written_by_this_thread = own_stream;
  graphs.insert(own_stream->graph);
  return SUCCESS;
}
API cuStreamEndCapture(Handle stream, Handle *graph) {
  Guard guard(lock);
  if (!is_stream(stream) || !captures(stream)) return INVALID_HANDLE;
  *graph = captures(stream);
  own(stream)->graph = nullptr;
  written_by_this_thread = nullptr;
  if (!own(stream)->invalid) return SUCCESS;
  *graph = nullptr;
  return CAPTURE_INVALIDATED;
}
// A graph and what it becomes are one here: what is ready to be launched bears how it was made.
struct Ready {
  Graph *graph;
  bool frees;
};
std::set<Handle> ready_graphs;
API cuGraphInstantiateWithFlags(Handle *out, Handle graph, unsigned long long flags) {
  Guard guard(lock);
  if (!graphs.count((Graph *)graph)) return INVALID_HANDLE;
  *out = new Ready{(Graph *)graph, (flags & 1) != 0};
  ready_graphs.insert(*out);
  return SUCCESS;
}
API cuGraphUpload(Handle ready, Handle stream) { return ready_graphs.count(ready) && is_stream(stream) ? SUCCESS : INVALID_HANDLE; }
API cuGraphLaunch(Handle handle, Handle stream) {
  Guard guard(lock);
  if (!ready_graphs.count(handle) || !is_stream(stream)) return INVALID_HANDLE;
  const Ready ready = *(Ready *)handle;
  return submit(stream, [=] {
    // Memory that an earlier launch took and nobody gave back.
    if (ready.frees)
      for (auto &entry : ready.graph->memory)
        if (entry.second)
          if (const CUresult code = give_to_graph(ready.graph, entry.first)) return (int)code;
    for (const Work &work : ready.graph->works)
      if (const int code = work()) return code;
    return (int)SUCCESS;
  });
}
API cuGraphExecDestroy(Handle handle) {
  Guard guard(lock);
  if (!ready_graphs.erase(handle)) return INVALID_HANDLE;
  const CUresult failed = settle_all();
  delete (Ready *)handle;
  return failed;
}
// Its memory stays: who holds an address of it may give it back later.
API cuGraphDestroy(Handle graph) { return graphs.count((Graph *)graph) ? SUCCESS : INVALID_HANDLE; }
API cuDeviceGetGraphMemAttribute(CUdevice, int attribute, uint64_t *value) {
  Guard guard(lock);
  // Used and reserved, now and at most.
  const uint64_t values[4] = {graph_used, graph_used_high, graph_reserved, graph_reserved};
  *value = values[attribute & 3];
  return SUCCESS;
}
API cuDeviceSetGraphMemAttribute(CUdevice, int attribute, uint64_t *value) {
  Guard guard(lock);
  if (*value != 0) return INVALID_VALUE;
  if (attribute == 1) graph_used_high = graph_used;
  return SUCCESS;
}
// For tests: the so-many-th work that is written down from now on cannot be; none for 0.
API squallStandInBreak(int after) {
  Guard guard(lock);
  works_until_broken = after;
  return SUCCESS;
}
// For tests: bytes that launches have taken and nobody gave back.
extern "C" __attribute__((visibility("default"))) uint64_t squall_graph_memory() { return graph_used; }
// For the other stand-ins: whether a stream writes down what is put on it, and how they have it do so.
API squallStandInCaptures(Handle stream) {
  Guard guard(lock);
  return is_stream(stream) && captures(stream);
}
API squallStandInWriteDown(Handle stream, Work *work) {
  Guard guard(lock);
  return submit(stream, *work);
}
API cuLaunchHostFunc(Handle stream, void (*run)(void *), void *data) {
  Guard guard(lock);
  if (!is_stream(stream)) return INVALID_HANDLE;
  return submit(stream, [=] {
    run(data);
    return SUCCESS;
  });
}
// For the other stand-ins, which work at once: does what a stream has left.
API squallStandInSettle(Handle stream) {
  Guard guard(lock);
  return is_stream(stream) ? settle(stream) : INVALID_HANDLE;
}
// Whether these bytes lie in one allocation.
API squallStandInHolds(CUdeviceptr pointer, size_t size) {
  Guard guard(lock);
  return within(pointer, size);
}
// Which streams run late from now on, in the words of SQUALL_STAND_IN_LATE, and what does not wait for events; what is left is done first.
API squallStandInLate(const char *which, int without) {
  Guard guard(lock);
  const CUresult failed = settle_all();
  late_streams = which;
  deaf = without;
  return failed;
}

API cuEventCreate(Handle *event, unsigned) {
  Guard guard(lock);
  *event = new Event;
  events.insert(*event);
  return SUCCESS;
}
API cuEventDestroy_v2(Handle event) {
  Guard guard(lock);
  if (!events.erase(event)) return INVALID_HANDLE;
  delete (Event *)event;
  return SUCCESS;
}
API cuEventRecord(Handle handle, Handle stream) {
  Guard guard(lock);
  if (!events.count(handle) || !is_stream(stream)) return INVALID_HANDLE;
  Event *event = (Event *)handle;
  event->recorded = true;
  event->at = std::chrono::steady_clock::now();
  event->stream = own(stream);
  event->count = event->stream ? event->stream->begun : 0;
  return SUCCESS;
}
API cuEventQuery(Handle handle) {
  Guard guard(lock);
  if (!events.count(handle)) return INVALID_HANDLE;
  const Event *event = (Event *)handle;
  if (!event->stream || event->stream->done >= event->count) return SUCCESS;
  const CUresult failed = run_until(*event->stream, event->stream->done + 1);
  return failed ? failed : NOT_READY;
}
API cuEventSynchronize(Handle handle) {
  Guard guard(lock);
  if (!events.count(handle)) return INVALID_HANDLE;
  const Event *event = (Event *)handle;
  if (written_by_this_thread && event->stream == written_by_this_thread) return illegal("cuEventSynchronize");
  return event->stream && !(deaf & 2) ? run_until(*event->stream, event->count) : SUCCESS;
}
API cuEventElapsedTime(float *milliseconds, Handle from, Handle to) {
  Guard guard(lock);
  if (!events.count(from) || !events.count(to)) return INVALID_HANDLE;
  const Event *first = (Event *)from, *last = (Event *)to;
  if (!first->recorded || !last->recorded) return INVALID_HANDLE;
  *milliseconds = std::chrono::duration<float, std::milli>(last->at - first->at).count();
  return SUCCESS;
}
API cuEventElapsedTime_v2(float *milliseconds, Handle from, Handle to) { return cuEventElapsedTime(milliseconds, from, to); }

API cuModuleLoadData(Handle *module, const void *image) {
  Guard guard(lock);
  if (!bound) return INVALID_CONTEXT;
  if (written_by_this_thread) return illegal("cuModuleLoadData");
  const char *path = (const char *)image;
  if (!path || path[0] != '/') return INVALID_IMAGE;
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!library) return fail(INVALID_IMAGE, "%s", dlerror());
  Module *made = new Module{library, {}};
  modules.insert(made);
  *module = made;
  return SUCCESS;
}
API cuModuleLoadDataEx(Handle *module, const void *image, unsigned, int *, void **) { return cuModuleLoadData(module, image); }
API cuModuleUnload(Handle module) {
  Guard guard(lock);
  if (!modules.erase(module)) return INVALID_HANDLE;
  const CUresult failed = settle_all();
  // The library stays: its kernels may be another module's too.
  delete (Module *)module;
  return failed;
}
API cuModuleGetFunction(Handle *function, Handle module, const char *name) {
  Guard guard(lock);
  if (!modules.count(module)) return INVALID_HANDLE;
  Module *of = (Module *)module;
  void *symbol = dlsym(of->library, (std::string(name) + "__launch").c_str());
  if (!symbol) return NOT_FOUND;
  Function &made = of->functions[name];
  const char *letters = (const char *)dlsym(of->library, (std::string(name) + "__arguments").c_str());
  made = {(int (*)(const unsigned *, void **))symbol, 49152, letters ? letters : ""};
  *function = &made;
  return SUCCESS;
}
API cuFuncSetAttribute(Handle function, int attribute, int value) {
  if (attribute == 8) ((Function *)function)->shared_limit = value;
  return SUCCESS;
}
API cuFuncGetAttribute(int *value, int attribute, Handle) {
  *value = attribute == 0 ? 1024 : 0;
  return SUCCESS;
}
API cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, Handle, int, size_t) {
  *blocks = 2;
  return SUCCESS;
}
API cuLaunchKernel(Handle function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y, unsigned block_z,
                   unsigned shared, Handle stream, void **args, void **extra) {
  Guard guard(lock);
  if (!bound) return INVALID_CONTEXT;
  if (!is_stream(stream)) return INVALID_HANDLE;
  if (extra) return NOT_SUPPORTED;
  const Function *run = (const Function *)function;
  const uint64_t threads = (uint64_t)block_x * block_y * block_z;
  const bool fits = grid_x >= 1 && grid_y >= 1 && grid_z >= 1 && threads >= 1 && grid_x <= 2147483647u && grid_y <= 65535 && grid_z <= 65535 &&
                    block_x <= 1024 && block_y <= 1024 && block_z <= 64 && threads <= 1024 && (int)shared <= run->shared_limit;
  if (!fits) return fail(INVALID_VALUE, "no GPU runs the grid (%u, %u, %u) of blocks (%u, %u, %u)", grid_x, grid_y, grid_z, block_x, block_y, block_z);
  // Arguments are read before the call returns.
  std::vector<uint64_t> words(run->letters.size());
  for (size_t i = 0; i < words.size(); i++) memcpy(&words[i], args[i], run->letters[i] == 'i' || run->letters[i] == 'f' ? 4 : 8);
  const auto launch = run->launch;
  return submit(stream, [=] {
    const unsigned dims[6] = {grid_x, grid_y, grid_z, block_x, block_y, block_z};
    std::vector<uint64_t> values = words;
    std::vector<void *> places(values.size());
    for (size_t i = 0; i < places.size(); i++) places[i] = &values[i];
    return launch(dims, places.data()) ? LAUNCH_FAILED : SUCCESS;
  });
}

API cuGetErrorName(CUresult code, const char **name) {
  switch (code) {
    case SUCCESS: *name = "CUDA_SUCCESS"; break;
    case INVALID_VALUE: *name = "CUDA_ERROR_INVALID_VALUE"; break;
    case OUT_OF_MEMORY: *name = "CUDA_ERROR_OUT_OF_MEMORY"; break;
    case NOT_INITIALIZED: *name = "CUDA_ERROR_NOT_INITIALIZED"; break;
    case NO_DEVICE: *name = "CUDA_ERROR_NO_DEVICE"; break;
    case INVALID_DEVICE: *name = "CUDA_ERROR_INVALID_DEVICE"; break;
    case INVALID_IMAGE: *name = "CUDA_ERROR_INVALID_IMAGE"; break;
    case INVALID_CONTEXT: *name = "CUDA_ERROR_INVALID_CONTEXT"; break;
    case INVALID_HANDLE: *name = "CUDA_ERROR_INVALID_HANDLE"; break;
    case NOT_FOUND: *name = "CUDA_ERROR_NOT_FOUND"; break;
    case NOT_READY: *name = "CUDA_ERROR_NOT_READY"; break;
    case ILLEGAL_ADDRESS: *name = "CUDA_ERROR_ILLEGAL_ADDRESS"; break;
    case LAUNCH_FAILED: *name = "CUDA_ERROR_LAUNCH_FAILED"; break;
    case NOT_SUPPORTED: *name = "CUDA_ERROR_NOT_SUPPORTED"; break;
    case CAPTURE_UNSUPPORTED: *name = "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"; break;
    case CAPTURE_INVALIDATED: *name = "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED"; break;
    case CAPTURE_ISOLATION: *name = "CUDA_ERROR_STREAM_CAPTURE_ISOLATION"; break;
    default: *name = "CUDA_ERROR_UNKNOWN"; return INVALID_VALUE;
  }
  return SUCCESS;
}
API cuGetErrorString(CUresult code, const char **text) { return cuGetErrorName(code, text); }
