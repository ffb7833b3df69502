// A stand-in for the graphs of libcudnn.so.9 on the CPU: convolutions by plain loops (cudnn_loops.h), by engines of which some are not what a program may
// take (cudnn_engines.h). What cuDNN refuses is refused: descriptors that are set in another type or number or too late, or are not complete, tensors that do not belong
// together, addresses that are not aligned as was said, no working memory where it is needed.
//
// It computes at once, after what its stream has left.
//
// Environment: SQUALL_STAND_IN_CUDNN (version, 91900); SQUALL_STAND_IN_ATOMIC.
#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <mutex>

#include "cudnn_engines.h"

namespace {

struct Handle {
  void *stream = nullptr;
};

std::recursive_mutex lock;
typedef std::lock_guard<std::recursive_mutex> Guard;

// Does what was put on the handle's stream before.
int settle(const Handle *handle) {
  typedef int (*Settle)(void *);
  static const Settle driver = (Settle)dlsym(RTLD_DEFAULT, "squallStandInSettle");
  return driver && handle->stream && driver(handle->stream) ? EXECUTION_FAILED : SUCCESS;
}

// Does it, or writes it down where the handle's stream does.
int act(const Handle *handle, std::function<int()> work) {
  typedef int (*Captures)(void *);
  typedef int (*Write)(void *, std::function<int()> *);
  static const Captures captures = (Captures)dlsym(RTLD_DEFAULT, "squallStandInCaptures");
  static const Write write_down = (Write)dlsym(RTLD_DEFAULT, "squallStandInWriteDown");
  if (!captures || !write_down || !handle->stream || !captures(handle->stream)) return work();
  return write_down(handle->stream, &work) ? EXECUTION_FAILED : SUCCESS;
}

// Copies values of an attribute, as many as there is room for; with no place, counts them.
template <class T, class From>
int give(const std::vector<From> &from, int64_t most, int64_t *count, void *to) {
  const int64_t given = to ? std::min<int64_t>(most, (int64_t)from.size()) : (int64_t)from.size();
  for (int64_t i = 0; to && i < given; i++) ((T *)to)[i] = (T)from[(size_t)i];
  if (count) *count = given;
  return SUCCESS;
}

// Fills descriptors that the program has made.
int fill(const std::vector<Shared> &from, int64_t most, int64_t *count, void *to) {
  const int64_t given = to ? std::min<int64_t>(most, (int64_t)from.size()) : (int64_t)from.size();
  for (int64_t i = 0; to && i < given; i++) {
    void *const pointer = ((void **)to)[i];
    const auto found = held.find(pointer);
    if (found == held.end()) return refuse(NULL_POINTER, "no descriptor to be filled");
    if (found->second->kind != from[(size_t)i]->kind) return refuse(DESCRIPTOR_TYPE, "a descriptor of another kind is to be filled");
    found->second = from[(size_t)i];
  }
  if (count) *count = given;
  return SUCCESS;
}

int get(const Descriptor &d, int name, int type, int64_t most, int64_t *count, void *to) {
  if (!d.finalized) return refuse(NOT_FINALIZED, "it is not finalized");
  const auto is = [&](int kind, int attribute, int values) { return d.kind == kind && name == attribute && type == values; };
  if (is(GRAPH, 802, OF_INT64)) return give<int64_t>(std::vector<int64_t>{(int64_t)engines().size()}, most, count, to);
  if (is(HEURISTICS, 202, OF_DESCRIPTOR)) {
    const Shared &graph = d.part(201);
    std::vector<Shared> found;
    for (const int number : guess(d.number(200), problem(*graph))) {
      found.push_back(std::make_shared<Descriptor>(CONFIG));
      found.back()->values[300].parts = {engine_of(graph, number)};
      found.back()->engine = number, found.back()->finalized = true;
    }
    const int status = fill(found, most, count, to);
    // As cuDNN 9.19 does, more are told than come.
    if (!to && count && *count) *count += 2;
    return status;
  }
  if (is(CONFIG, 300, OF_DESCRIPTOR)) return fill({d.part(300)}, most, count, to);
  if (is(ENGINE, 1301, OF_INT64)) return give<int64_t>(d.numbers(1301), most, count, to);
  if (is(ENGINE, 1303, OF_NUMERICAL)) return give<int32_t>(notes(engines()[d.engine]), most, count, to);
  if (is(ENGINE, 1305, OF_BEHAVIOR)) return give<int32_t>(engines()[d.engine].behavior, most, count, to);
  if (is(PLAN, 402, OF_INT64)) return give<int64_t>(std::vector<int64_t>{engines()[d.engine].workspace}, most, count, to);
  return refuse(BAD_PARAM, "it tells no such attribute");
}

}  // namespace

#define API extern "C" __attribute__((visibility("default"))) int

extern "C" __attribute__((visibility("default"))) size_t cudnnGetVersion() {
  const char *text = getenv("SQUALL_STAND_IN_CUDNN");
  return text && *text ? strtoul(text, nullptr, 10) : 91900;
}
extern "C" __attribute__((visibility("default"))) const char *cudnnGetErrorString(int status) {
  switch (status) {
    case SUCCESS: return "CUDNN_STATUS_SUCCESS";
    case NOT_INITIALIZED: return "CUDNN_STATUS_NOT_INITIALIZED";
    case BAD_PARAM: return "CUDNN_STATUS_BAD_PARAM";
    case NULL_POINTER: return "CUDNN_STATUS_BAD_PARAM_NULL_POINTER";
    case MISALIGNED: return "CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER";
    case NOT_FINALIZED: return "CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED";
    case SHAPE_MISMATCH: return "CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH";
    case ATTRIBUTE_TYPE: return "CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE";
    case DESCRIPTOR_TYPE: return "CUDNN_STATUS_BAD_PARAM_DESCRIPTOR_TYPE";
    case NOT_SUPPORTED: return "CUDNN_STATUS_NOT_SUPPORTED";
    case NOT_SUPPORTED_SHAPE: return "CUDNN_STATUS_NOT_SUPPORTED_SHAPE";
    case NOT_SUPPORTED_DATA_TYPE: return "CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE";
    case EXECUTION_FAILED: return "CUDNN_STATUS_EXECUTION_FAILED";
    default: return "CUDNN_STATUS unknown";
  }
}
extern "C" __attribute__((visibility("default"))) void cudnnGetLastErrorString(char *message, size_t most) {
  snprintf(message, most, "%s", last_error.c_str());
  last_error.clear();
}

API cudnnCreate(Handle **handle) {
  *handle = new Handle;
  return SUCCESS;
}
API cudnnDestroy(Handle *handle) {
  delete handle;
  return SUCCESS;
}
API cudnnSetStream(Handle *handle, void *stream) {
  if (!handle) return NULL_POINTER;
  handle->stream = stream;
  return SUCCESS;
}

API cudnnBackendCreateDescriptor(int kind, void **descriptor) {
  Guard guard(lock);
  if (!descriptor) return refuse(NULL_POINTER, "no place for a descriptor");
  if (attributes(kind).empty()) return refuse(NOT_SUPPORTED, "no such descriptor");
  // Its address is its name; what it holds may change.
  *descriptor = new char;
  held[*descriptor] = std::make_shared<Descriptor>(kind);
  return SUCCESS;
}
API cudnnBackendDestroyDescriptor(void *descriptor) {
  Guard guard(lock);
  if (!held.erase(descriptor)) return refuse(BAD_PARAM, "destroyed twice");
  delete (char *)descriptor;
  return SUCCESS;
}
API cudnnBackendSetAttribute(void *descriptor, int name, int type, int64_t count, const void *values) {
  Guard guard(lock);
  const Shared found = holding(descriptor);
  return found ? set(*found, name, type, count, values) : refuse(NULL_POINTER, "no descriptor");
}
API cudnnBackendGetAttribute(void *descriptor, int name, int type, int64_t most, int64_t *count, void *values) {
  Guard guard(lock);
  const Shared found = holding(descriptor);
  return found ? get(*found, name, type, most, count, values) : refuse(NULL_POINTER, "no descriptor");
}
API cudnnBackendFinalize(void *descriptor) {
  Guard guard(lock);
  const Shared found = holding(descriptor);
  return found ? finalize(*found) : refuse(NULL_POINTER, "no descriptor");
}
API cudnnBackendExecute(Handle *handle, void *execution_plan, void *variant_pack) {
  Guard guard(lock);
  const Shared plan = holding(execution_plan), pack = holding(variant_pack);
  if (!handle || !plan || !pack) return refuse(NULL_POINTER, "no handle, plan or pack");
  if (plan->kind != PLAN || pack->kind != PACK) return refuse(DESCRIPTOR_TYPE, "no plan, or no pack");
  if (!plan->finalized || !pack->finalized) return refuse(NOT_FINALIZED, "the plan or the pack is not finalized");
  if (plan->number(400) != (int64_t)(intptr_t)handle) return refuse(BAD_PARAM, "the plan is of another handle");
  const Engine engine = engines()[plan->engine];
  const Problem p = problem(*plan->part(401)->part(300)->part(1300));
  std::vector<void *> places;
  for (const Tensor *const t : p.tensors()) {
    const auto &ids = pack->numbers(1000);
    const auto id = std::find(ids.begin(), ids.end(), t->id);
    if (id == ids.end()) return refuse(BAD_PARAM, "the pack lacks a tensor");
    const int64_t address = pack->number(1001, (size_t)(id - ids.begin()));
    if (!address) return refuse(NULL_POINTER, "a tensor has no address");
    // What the engine reads at once, whatever was said.
    if (address % t->alignment || (p.has_bias && address % engine.alignment)) return refuse(MISALIGNED, "an address is not aligned as was said");
    places.push_back((void *)(intptr_t)address);
  }
  void *const memory = (void *)(intptr_t)pack->number(1003);
  if (engine.workspace && !memory) return refuse(NULL_POINTER, "no working memory");
  if (const int status = settle(handle)) return status;
  return act(handle, [=]() -> int {
    if (engine.workspace) memset(memory, 0x5a, (size_t)engine.workspace);
    solve(p, engine.bits, places);
    return SUCCESS;
  });
}
