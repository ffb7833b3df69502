// The engines of the stand-in's cuDNN: which there are for a problem, what is said of them, and what each does with operands.
//
// Environment: SQUALL_STAND_IN_ATOMIC (set: no engine is deterministic).
#pragma once
#include <cstdlib>

#include "cudnn_descriptors.h"
#include "cudnn_loops.h"

namespace {

enum Note { TENSOR_CORE = 0, DOWN_CONVERT = 1, REDUCED_PRECISION = 2, NONDETERMINISTIC = 4, STRICT_NAN = 9 };
enum Behavior { COMPILED = 0 };
enum Mode { ADD = 0, RELU = 100 };

struct Engine {
  std::vector<int> notes, behavior;
  // So that a caller that takes one's for another's is found.
  int64_t workspace;
  // Bits of fraction that it keeps of f32.
  int bits;
  // What most engines want of addresses.
  int64_t alignment;
  // What its plan answers.
  int plan = SUCCESS;
};

const std::vector<Engine> &engines() {
  static const std::vector<Engine> all = {
      {{STRICT_NAN}, {}, 0, 24, 1},
      {{}, {}, 4096, 24, 1},
      {{TENSOR_CORE}, {}, 0, 11, 16},
      {{NONDETERMINISTIC}, {}, 0, 24, 1},
      {{}, {}, 128, 24, 1, NOT_SUPPORTED},
      {{}, {}, (int64_t)1 << 40, 24, 1},
      {{TENSOR_CORE}, {COMPILED}, 512, 11, 16},
      {{TENSOR_CORE, DOWN_CONVERT}, {}, 0, 8, 1},
      {{TENSOR_CORE}, {}, 12288, 11, 16},
      {{TENSOR_CORE, REDUCED_PRECISION}, {}, 0, 11, 1},
      // It breaks when it is made ready.
      {{}, {}, 0, 24, 1, 4001},
  };
  return all;
}

bool none_is_deterministic() { return getenv("SQUALL_STAND_IN_ATOMIC") != nullptr; }

std::vector<int> notes(const Engine &engine) {
  std::vector<int> all = engine.notes;
  if (none_is_deterministic() && all != std::vector<int>{NONDETERMINISTIC}) all.push_back(NONDETERMINISTIC);
  return all;
}

// What the descriptors of an operation say.
Tensor tensor(const Descriptor &d) {
  Tensor t;
  t.type = (int)d.number(901), t.id = d.number(906), t.alignment = d.number(900);
  for (size_t i = 0; i < 4; i++) t.dims[i] = d.number(902, i), t.strides[i] = d.number(903, i);
  return t;
}
const Descriptor &convolution_of(const Descriptor &graph) { return *graph.part(801); }
Problem problem(const Descriptor &graph) {
  const Descriptor &operation = convolution_of(graph);
  const int first = operation.kind == OP_FORWARD ? 700 : operation.kind == OP_DATA ? 706 : 712;
  const Descriptor &c = *operation.part(first + 2);
  Problem p;
  p.direction = operation.kind == OP_FORWARD ? FORWARD : operation.kind == OP_DATA ? BACKWARD_DATA : BACKWARD_FILTER;
  p.w = tensor(*operation.part(first + 3)), p.x = tensor(*operation.part(first + 4)), p.y = tensor(*operation.part(first + 5));
  for (size_t i = 0; i < 2; i++) p.convolution.dilation[i] = c.number(102, i), p.convolution.stride[i] = c.number(103, i), p.convolution.pad[i] = c.number(105, i), p.convolution.after[i] = c.number(104, i);
  const std::vector<Shared> &operations = graph.values.at(801).parts;
  for (size_t i = 1; i < operations.size(); i++) {
    const Descriptor &one = *operations[i];
    if (one.part(750)->number(0) == RELU) {
      p.relu = true, p.keeps_nan = one.part(750)->has(2) && one.part(750)->number(2) == 1;
    } else {
      const Tensor second = tensor(*one.part(752));
      const bool of_channels = second.count() == second.dims[1];
      (of_channels ? p.bias : p.residual) = second, (of_channels ? p.has_bias : p.has_residual) = true;
    }
    p.y = tensor(*one.part(753));
  }
  return p;
}

// Whether operations follow each other by tensors without an address, in the order that cuDNN 9.19 has engines for: a residual, a bias, ReLU.
int chained(const Descriptor &graph) {
  const std::vector<Shared> &operations = graph.values.at(801).parts;
  const int first = operations[0]->kind == OP_FORWARD ? 700 : operations[0]->kind == OP_DATA ? 706 : 712;
  Shared last = operations[0]->part(first + 5);
  int before = 0;
  for (size_t i = 1; i < operations.size(); i++) {
    const Descriptor &one = *operations[i];
    if (one.kind != OP_POINTWISE || operations[0]->kind != OP_FORWARD) return refuse(NOT_SUPPORTED, "no such operation after that");
    if (one.part(751)->number(906) != last->number(906)) return refuse(BAD_PARAM, "operations that do not follow each other");
    if (!last->has(907) || !last->number(907) || last->number(901) != FLOAT) return refuse(NOT_SUPPORTED, "what is between operations is f32 without an address");
    const bool relu = one.part(750)->number(0) == RELU;
    for (const int factor : {754, 755})
      if (one.has(factor) && one.values.at(factor).factors[0] != 1.0f) return refuse(NOT_SUPPORTED, "factors");
    if (relu == one.has(752)) return refuse(BAD_PARAM, "a second operand too many, or none");
    const int place = relu ? 3 : tensor(*one.part(752)).count() == tensor(*one.part(752)).dims[1] ? 2 : 1;
    if (place <= before) return refuse(NOT_SUPPORTED, "an order that no engine has");
    before = place, last = one.part(753);
  }
  if (last->has(907) && last->number(907)) return refuse(BAD_PARAM, "a result without an address");
  return SUCCESS;
}

// Gradients of kernels in f32 of half operands.
bool is_wide(const Problem &p) { return p.direction == BACKWARD_FILTER && p.w.type != p.x.type; }

bool supports(int number, const Problem &p) {
  const Engine &engine = engines()[number];
  // With an ending cuDNN 9.19 does not look at what is said of it.
  for (const Tensor *t : p.tensors())
    if (!p.has_bias && t->alignment % engine.alignment) return false;
  // As cuDNN 9.19: nothing is ready for an ending without a bias, nor for a bias of f32 beside half types.
  if ((p.has_residual || p.relu) && !p.has_bias) return false;
  if (p.has_bias && p.bias.type != p.x.type) return false;
  // As cuDNN 9.19's that have them.
  if (is_wide(p)) return p.groups() == 1 && p.x.dims[1] % 8 == 0 && p.y.dims[1] % 8 == 0 && engine.alignment > 1;
  return true;
}

// What cuDNN guesses (3), and what it falls back to (2).
std::vector<int> guess(int64_t mode, const Problem &p) {
  std::vector<int> all = mode == 3 ? std::vector<int>{3, 4, 5, 7, 6, 2, 9, 8, 1} : std::vector<int>{1, 3, 0};
  // As cuDNN 9.19 for gradients of kernels of some dilated convolutions.
  if (mode == 3 && p.direction == BACKWARD_FILTER && p.convolution.dilation[0] > 2) all.clear();
  std::vector<int> found;
  for (const int number : all)
    if (supports(number, p)) found.push_back(number);
  return found;
}

int finalize_tensor(const Descriptor &d) {
  const Tensor t = tensor(d);
  if (t.type != FLOAT && t.type != HALF && t.type != BFLOAT16) return refuse(NOT_SUPPORTED_DATA_TYPE, "no such type");
  for (size_t i = 0; i < 4; i++)
    if (t.dims[i] < 1 || t.strides[i] < 1) return refuse(BAD_PARAM, "no extent, or no stride");
  const int64_t size = t.type == FLOAT ? 4 : 2;
  if (t.alignment < size || t.alignment & (t.alignment - 1)) return refuse(BAD_PARAM, "no alignment of such values");
  return SUCCESS;
}

int finalize_convolution(const Descriptor &d) {
  if (d.number(100) != FLOAT || d.number(101) != 1) return refuse(NOT_SUPPORTED, "other sums, or mirrored kernels");
  if (d.number(106) != 2) return refuse(BAD_PARAM, "two extents are set");
  for (size_t i = 0; i < 2; i++) {
    if (d.number(102, i) < 1 || d.number(103, i) < 1 || d.number(104, i) < 0 || d.number(105, i) < 0)
      return refuse(BAD_PARAM, "no dilation, no stride, or less than no padding");
  }
  return SUCCESS;
}

int finalize_pointwise(const Descriptor &d) {
  const int64_t mode = d.number(0);
  if (mode != ADD && mode != RELU) return refuse(NOT_SUPPORTED, "no such operation");
  return d.number(1) == FLOAT ? SUCCESS : refuse(NOT_SUPPORTED, "computed in another type");
}

int finalize_graph(const Descriptor &d) {
  const Descriptor &operation = convolution_of(d);
  if (operation.kind == OP_POINTWISE) return refuse(NOT_SUPPORTED, "no convolution first");
  if (const int status = chained(d)) return status;
  const Problem p = problem(d);
  const int first = operation.kind == OP_FORWARD ? 700 : operation.kind == OP_DATA ? 706 : 712;
  if (operation.values.at(first).factors[0] != 1.0f || operation.values.at(first + 1).factors[0] != 0.0f) return refuse(NOT_SUPPORTED, "factors");
  if (!fits(p)) return refuse(SHAPE_MISMATCH, "shapes that do not follow from each other");
  if (p.x.type != p.y.type || (p.w.type != p.x.type && !(is_wide(p) && p.w.type == FLOAT))) return refuse(BAD_PARAM, "types that do not belong together");
  if (p.x.id == p.y.id || p.x.id == p.w.id || p.y.id == p.w.id) return refuse(BAD_PARAM, "one name for two tensors");
  if (p.has_bias && p.bias.dims[1] != p.y.dims[1]) return refuse(SHAPE_MISMATCH, "a bias of other channels");
  for (size_t i = 0; i < 4; i++)
    if (p.has_residual && p.residual.dims[i] != p.y.dims[i]) return refuse(SHAPE_MISMATCH, "a residual of other extents");
  for (const Tensor *t : p.tensors())
    // Values are counted in 32 bits.
    if (t->count() >= (int64_t)1 << 31) return refuse(NOT_SUPPORTED_SHAPE, "more than 2^31 values");
  return SUCCESS;
}

// An engine of a problem, as it is ready.
Shared engine_of(const Shared &graph, int number) {
  const Shared engine = std::make_shared<Descriptor>(ENGINE);
  engine->values[1300].parts = {graph}, engine->values[1301].numbers = {number};
  engine->engine = number, engine->finalized = true;
  return engine;
}

int finalize(Descriptor &d) {
  if (d.finalized) return refuse(BAD_PARAM, "finalized twice");
  if (const int status = complete(d)) return status;
  int status = SUCCESS;
  switch (d.kind) {
    case TENSOR: status = finalize_tensor(d); break;
    case CONVOLUTION: status = finalize_convolution(d); break;
    case POINTWISE: status = finalize_pointwise(d); break;
    case GRAPH: status = finalize_graph(d); break;
    case HEURISTICS:
      if (d.number(200) != 2 && d.number(200) != 3) status = refuse(NOT_SUPPORTED, "no such guess");
      break;
    case ENGINE: {
      const int64_t number = d.number(1301);
      if (number < 0 || number >= (int64_t)engines().size())
        status = refuse(BAD_PARAM, "no such engine");
      else if (!supports((int)number, problem(*d.part(1300))))
        status = refuse(NOT_SUPPORTED, "not this engine");
      d.engine = (int)number;
      break;
    }
    case CONFIG: d.engine = d.part(300)->engine; break;
    case PLAN:
      d.engine = d.part(401)->engine;
      if (engines()[d.engine].plan) status = refuse(engines()[d.engine].plan, "no plan of this engine");
      break;
    case PACK:
      if (d.numbers(1000).size() != d.numbers(1001).size()) status = refuse(BAD_PARAM, "not as many names as addresses");
      break;
    default: break;
  }
  d.finalized = status == SUCCESS;
  return status;
}

}  // namespace
