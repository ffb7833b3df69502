// A stand-in for libcuda.so.1 that computes on the CPU: memory is the host's, streams run at once or as late as they may (`streams.h`), a module is a
// shared library of kernels that the stand-in for NVRTC compiled. What a driver leaves undefined is an error here: copies beyond an allocation, writes
// beyond one (found when it is freed), handles that do not exist, grids that a GPU refuses.
//
// Environment: SQUALL_STAND_IN_DEVICES (1), SQUALL_STAND_IN_MIG (if it is set they are instances of one card), SQUALL_STAND_IN_MEMORY (bytes of each
// device, 4 GiB), SQUALL_STAND_IN_CAPABILITY (90), SQUALL_STAND_IN_DRIVER (13000), SQUALL_STAND_IN_LATE (`streams.h`), SQUALL_STAND_IN_UNTIMED (events tell
// no times).
#include "device.h"
#include "graphs.h"
#include "modules.h"

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
// The card's, whose devices may be instances of it.
API cuDeviceGetUuid(unsigned char *uuid, CUdevice device) { return cuDeviceGetUuid_v2(uuid, getenv("SQUALL_STAND_IN_MIG") ? 63 : device); }
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
  graph->held += in_pieces(size);
  graph->most = std::max(graph->most, graph->held);
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
  if (graph && graph == captures(stream)) graph->held -= in_pieces(allocations[pointer].size);
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
  if (!first->recorded || !last->recorded || getenv("SQUALL_STAND_IN_UNTIMED")) return INVALID_HANDLE;
  *milliseconds = std::chrono::duration<float, std::milli>(last->at - first->at).count();
  return SUCCESS;
}
API cuEventElapsedTime_v2(float *milliseconds, Handle from, Handle to) { return cuEventElapsedTime(milliseconds, from, to); }
