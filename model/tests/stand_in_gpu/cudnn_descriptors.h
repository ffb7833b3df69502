// Descriptors of the stand-in's cuDNN: what can be set of each kind, in which type and how often, and what must be there at the end.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace {

enum Status {
  SUCCESS = 0,
  NOT_INITIALIZED = 1001,
  BAD_PARAM = 2000,
  NULL_POINTER = 2002,
  MISALIGNED = 2003,
  NOT_FINALIZED = 2004,
  SHAPE_MISMATCH = 2008,
  ATTRIBUTE_TYPE = 2010,
  DESCRIPTOR_TYPE = 2012,
  NOT_SUPPORTED = 3000,
  NOT_SUPPORTED_SHAPE = 3002,
  NOT_SUPPORTED_DATA_TYPE = 3003,
  EXECUTION_FAILED = 5000,
};

// What cudnnGetLastErrorString tells.
thread_local std::string last_error;
int refuse(int status, const std::string &why) {
  last_error = why;
  return status;
}

// Types of attributes, and kinds of descriptors, as the header counts them.
enum Values { OF_HANDLE = 0, OF_DATA_TYPE = 1, OF_BOOLEAN = 2, OF_INT64 = 3, OF_FLOAT = 4, OF_POINTER = 6, OF_MODE = 7, OF_HEURISTICS = 8, OF_NAN = 10, OF_NUMERICAL = 11, OF_POINTWISE = 14, OF_DESCRIPTOR = 15, OF_BEHAVIOR = 19 };
enum Kind {
  POINTWISE = 0,
  CONVOLUTION = 1,
  ENGINE = 2,
  CONFIG = 3,
  HEURISTICS = 4,
  PLAN = 5,
  OP_FORWARD = 10,
  OP_FILTER = 11,
  OP_DATA = 12,
  OP_POINTWISE = 13,
  GRAPH = 15,
  PACK = 16,
  TENSOR = 17,
};

struct Descriptor;
typedef std::shared_ptr<Descriptor> Shared;

// What was set: numbers of any type, pointers among them, or other descriptors, which live as long as this.
struct Value {
  std::vector<int64_t> numbers;
  std::vector<float> factors;
  std::vector<Shared> parts;
};

struct Descriptor {
  int kind;
  bool finalized = false;
  std::map<int, Value> values;
  // Of an engine, and of what has one.
  int engine = -1;

  explicit Descriptor(int kind) : kind(kind) {}
  bool has(int name) const { return values.count(name) != 0; }
  int64_t number(int name, size_t at = 0) const { return values.at(name).numbers.at(at); }
  const std::vector<int64_t> &numbers(int name) const { return values.at(name).numbers; }
  const Shared &part(int name) const { return values.at(name).parts.at(0); }
};

struct Attribute {
  int name, type;
  size_t least, most;
  // Of descriptors: their kind.
  int kind = -1;
  bool must_be = true;
};
const int ANY_OPERATION = 100;

// All that can be set, and what of it must be.
const std::vector<Attribute> &attributes(int kind) {
  const auto operation = [](int first) {
    return std::vector<Attribute>{{first, OF_FLOAT, 1, 1},
                                  {first + 1, OF_FLOAT, 1, 1},
                                  {first + 2, OF_DESCRIPTOR, 1, 1, CONVOLUTION},
                                  {first + 3, OF_DESCRIPTOR, 1, 1, TENSOR},
                                  {first + 4, OF_DESCRIPTOR, 1, 1, TENSOR},
                                  {first + 5, OF_DESCRIPTOR, 1, 1, TENSOR}};
  };
  static const std::map<int, std::vector<Attribute>> all = {
      {TENSOR, {{900, OF_INT64, 1, 1}, {901, OF_DATA_TYPE, 1, 1}, {902, OF_INT64, 4, 4}, {903, OF_INT64, 4, 4}, {906, OF_INT64, 1, 1}, {907, OF_BOOLEAN, 1, 1, -1, false}}},
      {POINTWISE, {{0, OF_POINTWISE, 1, 1}, {1, OF_DATA_TYPE, 1, 1}, {2, OF_NAN, 1, 1, -1, false}}},
      {OP_POINTWISE,
       {{750, OF_DESCRIPTOR, 1, 1, POINTWISE}, {751, OF_DESCRIPTOR, 1, 1, TENSOR}, {752, OF_DESCRIPTOR, 1, 1, TENSOR, false}, {753, OF_DESCRIPTOR, 1, 1, TENSOR},
        {754, OF_FLOAT, 1, 1, -1, false}, {755, OF_FLOAT, 1, 1, -1, false}}},
      {CONVOLUTION,
       {{100, OF_DATA_TYPE, 1, 1},
        {101, OF_MODE, 1, 1},
        {102, OF_INT64, 2, 2},
        {103, OF_INT64, 2, 2},
        {104, OF_INT64, 2, 2},
        {105, OF_INT64, 2, 2},
        {106, OF_INT64, 1, 1}}},
      {OP_FORWARD, operation(700)},
      {OP_DATA, operation(706)},
      {OP_FILTER, operation(712)},
      {GRAPH, {{800, OF_HANDLE, 1, 1}, {801, OF_DESCRIPTOR, 1, 8, ANY_OPERATION}}},
      {HEURISTICS, {{200, OF_HEURISTICS, 1, 1}, {201, OF_DESCRIPTOR, 1, 1, GRAPH}}},
      {ENGINE, {{1300, OF_DESCRIPTOR, 1, 1, GRAPH}, {1301, OF_INT64, 1, 1}}},
      {CONFIG, {{300, OF_DESCRIPTOR, 1, 1, ENGINE}}},
      {PLAN, {{400, OF_HANDLE, 1, 1}, {401, OF_DESCRIPTOR, 1, 1, CONFIG}}},
      {PACK, {{1000, OF_INT64, 1, 16}, {1001, OF_POINTER, 1, 16}, {1003, OF_POINTER, 1, 1}}},
  };
  static const std::vector<Attribute> none;
  const auto found = all.find(kind);
  return found == all.end() ? none : found->second;
}

// Descriptors that a program holds.
std::map<void *, Shared> held;
Shared holding(const void *pointer) {
  const auto found = held.find((void *)pointer);
  return found == held.end() ? nullptr : found->second;
}

bool is_operation(int kind) { return kind == OP_FORWARD || kind == OP_FILTER || kind == OP_DATA || kind == OP_POINTWISE; }

int set(Descriptor &descriptor, int name, int type, int64_t count, const void *from) {
  if (descriptor.finalized) return refuse(BAD_PARAM, "set after it was finalized");
  if (!from) return refuse(NULL_POINTER, "no values");
  for (const Attribute &attribute : attributes(descriptor.kind)) {
    if (attribute.name != name) continue;
    if (attribute.type != type) return refuse(ATTRIBUTE_TYPE, "values of another type");
    if (count < (int64_t)attribute.least || count > (int64_t)attribute.most) return refuse(BAD_PARAM, "not so many values");
    Value value;
    for (int64_t i = 0; i < count; i++) switch (type) {
        case OF_INT64: value.numbers.push_back(((const int64_t *)from)[i]); break;
        case OF_FLOAT: value.factors.push_back(((const float *)from)[i]); break;
        case OF_BOOLEAN: value.numbers.push_back(((const uint8_t *)from)[i] != 0); break;
        case OF_HANDLE:
        case OF_POINTER: value.numbers.push_back((int64_t)(intptr_t)((void *const *)from)[i]); break;
        case OF_DESCRIPTOR: {
          const Shared part = holding(((void *const *)from)[i]);
          if (!part) return refuse(NULL_POINTER, "no descriptor");
          if (attribute.kind == ANY_OPERATION ? !is_operation(part->kind) : part->kind != attribute.kind) return refuse(DESCRIPTOR_TYPE, "a descriptor of another kind");
          if (!part->finalized) return refuse(NOT_FINALIZED, "its part is not finalized");
          value.parts.push_back(part);
          break;
        }
        default: value.numbers.push_back(((const int32_t *)from)[i]);
      }
    descriptor.values[name] = value;
    return SUCCESS;
  }
  return refuse(BAD_PARAM, "it has no such attribute");
}

// Whether everything was set that must be.
int complete(const Descriptor &descriptor) {
  for (const Attribute &attribute : attributes(descriptor.kind))
    if (attribute.must_be && !descriptor.has(attribute.name)) return refuse(BAD_PARAM, "attribute " + std::to_string(attribute.name) + " is missing");
  return SUCCESS;
}

}  // namespace
