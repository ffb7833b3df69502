// Work that is written down instead of done: CUDA graphs, their memory, and what tests ask of them.
#pragma once
#include "device.h"

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
namespace {

// A graph and what it becomes are one here: what is ready to be launched bears how it was made.
struct Ready {
  Graph *graph;
  bool frees;
};
std::set<Handle> ready_graphs;

}  // namespace

API cuGraphInstantiateWithFlags(Handle *out, Handle graph, unsigned long long flags) {
  Guard guard(lock);
  if (!graphs.count((Graph *)graph)) return INVALID_HANDLE;
  *out = new Ready{(Graph *)graph, (flags & 1) != 0};
  ready_graphs.insert(*out);
  return SUCCESS;
}
// Takes the memory that a launch needs; a launch finds it unless it was trimmed meanwhile.
API cuGraphUpload(Handle ready, Handle stream) {
  Guard guard(lock);
  if (!ready_graphs.count(ready) || !is_stream(stream)) return INVALID_HANDLE;
  const uint64_t reserved = graph_reserved + ((Ready *)ready)->graph->most;
  if (used[device()] + reserved > total_memory()) return OUT_OF_MEMORY;
  graph_reserved = reserved;
  return SUCCESS;
}
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
// For tests: bytes that graphs have, in use or not.
extern "C" __attribute__((visibility("default"))) uint64_t squall_graph_memory_reserved() { return graph_reserved; }
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
