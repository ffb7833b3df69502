// A stand-in for the convolutions of libcudnn.so.9 on the CPU: plain loops over the descriptors, f32 sums whatever tensors are stored as. What cuDNN refuses is
// refused: shapes that do not follow from each other, other compute types than f32, a workspace that is too small.
//
// Unless a convolution asks for plain multiplications (CUDNN_FMA_MATH), f32 operands are rounded to TF32, as on a GPU since Ampere.
//
// It computes at once, after what its stream has left.
//
// Environment: SQUALL_STAND_IN_CUDNN (version, 91900).
#include <dlfcn.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <vector>

namespace {

enum Status { SUCCESS = 0, NOT_INITIALIZED = 1, BAD_PARAM = 3, EXECUTION_FAILED = 8, NOT_SUPPORTED = 9 };
enum Type { FLOAT = 0, HALF = 2, BFLOAT16 = 9 };
enum Format { NCHW = 0, NHWC = 1 };

struct Handle {
  void *stream = nullptr;
};
// dims and strides are of n, c, h, w whatever the format.
struct Tensor {
  int type = -1;
  int dims[4] = {0, 0, 0, 0};
  int64_t strides[4] = {0, 0, 0, 0};
  bool set = false;
  int64_t count() const { return (int64_t)dims[0] * dims[1] * dims[2] * dims[3]; }
};
struct Convolution {
  int pad[2] = {0, 0}, stride[2] = {1, 1}, dilation[2] = {1, 1}, groups = 1, math = 0, mode = 1, compute = FLOAT;
  bool set = false;
};

int pack(Tensor *tensor, int format, int type, int n, int c, int h, int w) {
  if (!tensor || n < 1 || c < 1 || h < 1 || w < 1) return BAD_PARAM;
  if (type != FLOAT && type != HALF && type != BFLOAT16) return NOT_SUPPORTED;
  // Values are counted in 32 bits.
  if ((int64_t)n * c * h * w >= (int64_t)1 << 31) return NOT_SUPPORTED;
  const int64_t nchw[4] = {(int64_t)c * h * w, (int64_t)h * w, w, 1}, nhwc[4] = {(int64_t)h * w * c, 1, (int64_t)w * c, c};
  if (format != NCHW && format != NHWC) return BAD_PARAM;
  tensor->type = type;
  const int dims[4] = {n, c, h, w};
  memcpy(tensor->dims, dims, sizeof dims);
  memcpy(tensor->strides, format == NCHW ? nchw : nhwc, sizeof nchw);
  tensor->set = true;
  return SUCCESS;
}

float of_bits(uint32_t bits) {
  float value;
  memcpy(&value, &bits, 4);
  return value;
}
uint32_t to_bits(float value) {
  uint32_t bits;
  memcpy(&bits, &value, 4);
  return bits;
}
float read(const void *values, int type, int64_t at) {
  if (type == FLOAT) return ((const float *)values)[at];
  const uint32_t half = ((const uint16_t *)values)[at];
  if (type == BFLOAT16) return of_bits(half << 16);
  const uint32_t sign = (half & 0x8000u) << 16, exponent = half >> 10 & 31, fraction = half & 1023;
  if (exponent == 31) return of_bits(sign | 0x7f800000u | fraction << 13);
  if (exponent == 0) return (sign ? -1.0f : 1.0f) * std::ldexp((float)fraction, -24);
  return of_bits(sign | (exponent + 112) << 23 | fraction << 13);
}
void write(void *values, int type, int64_t at, float value) {
  if (type == FLOAT) {
    ((float *)values)[at] = value;
    return;
  }
  const uint32_t bits = to_bits(value), magnitude = bits & 0x7fffffffu, sign = bits >> 16 & 0x8000u;
  uint32_t half;
  if (value != value)
    half = 0x7fff;
  else if (type == BFLOAT16)
    half = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
  else if (magnitude >= 0x477ff000u)
    half = sign | 0x7c00u;
  else if (magnitude < 0x38800000u)
    half = sign | (uint32_t)std::nearbyint(std::fabs(value) * 16777216.0f);
  else
    half = sign | (magnitude + 0xfff + (magnitude >> 13 & 1) - 0x38000000u) >> 13;
  ((uint16_t *)values)[at] = (uint16_t)half;
}

// Packed as n, h, w, c in f32.
std::vector<float> gather(const Tensor &t, const void *values) {
  std::vector<float> out((size_t)t.count());
  size_t at = 0;
  for (int n = 0; n < t.dims[0]; n++)
    for (int h = 0; h < t.dims[2]; h++)
      for (int w = 0; w < t.dims[3]; w++)
        for (int c = 0; c < t.dims[1]; c++) out[at++] = read(values, t.type, n * t.strides[0] + c * t.strides[1] + h * t.strides[2] + w * t.strides[3]);
  return out;
}
void scatter(const Tensor &t, void *values, const std::vector<float> &from, float alpha, float beta) {
  size_t at = 0;
  for (int n = 0; n < t.dims[0]; n++)
    for (int h = 0; h < t.dims[2]; h++)
      for (int w = 0; w < t.dims[3]; w++)
        for (int c = 0; c < t.dims[1]; c++) {
          const int64_t place = n * t.strides[0] + c * t.strides[1] + h * t.strides[2] + w * t.strides[3];
          // With beta 0 the old values are not read.
          const float old = beta == 0.0f ? 0.0f : beta * read(values, t.type, place);
          write(values, t.type, place, alpha * from[at++] + old);
        }
}

// To eleven bits of fraction, ties away from zero; half types have no more.
enum { FMA_MATH = 3 };
std::vector<float> operand(const Convolution &c, const Tensor &t, const void *from) {
  std::vector<float> values = gather(t, from);
  if (t.type == FLOAT && c.math != FMA_MATH)
    for (float &value : values)
      if (std::isfinite(value)) value = of_bits((to_bits(value) + 0x1000u) & ~0x1fffu);
  return values;
}

int out_size(const Convolution &c, int axis, int input, int kernel) {
  return (input + 2 * c.pad[axis] - (c.dilation[axis] * (kernel - 1) + 1)) / c.stride[axis] + 1;
}

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

// Whether input, filter and output belong together.
int check(const Handle *handle, const Tensor *x, const Tensor *w, const Convolution *c, const Tensor *y) {
  if (!handle || !x || !w || !c || !y || !x->set || !w->set || !c->set || !y->set) return BAD_PARAM;
  if (c->compute != FLOAT || c->mode != 1) return NOT_SUPPORTED;
  if (x->type != w->type || x->type != y->type) return BAD_PARAM;
  const bool fits = x->dims[1] == w->dims[1] * c->groups && w->dims[0] % c->groups == 0 && y->dims[0] == x->dims[0] && y->dims[1] == w->dims[0] &&
                    y->dims[2] == out_size(*c, 0, x->dims[2], w->dims[2]) && y->dims[3] == out_size(*c, 1, x->dims[3], w->dims[3]);
  return fits ? settle(handle) : BAD_PARAM;
}

// Calls visit(input pixel, output pixel, tap) for every tap inside the field.
template <class Visit>
void taps(const Tensor &x, const Tensor &w, const Convolution &c, const Tensor &y, Visit visit) {
  const int kh = w.dims[2], kw = w.dims[3];
  for (int n = 0; n < y.dims[0]; n++)
    for (int p = 0; p < y.dims[2]; p++)
      for (int q = 0; q < y.dims[3]; q++)
        for (int r = 0; r < kh; r++) {
          const int h = p * c.stride[0] + r * c.dilation[0] - c.pad[0];
          if (h < 0 || h >= x.dims[2]) continue;
          for (int s = 0; s < kw; s++) {
            const int at = q * c.stride[1] + s * c.dilation[1] - c.pad[1];
            if (at < 0 || at >= x.dims[3]) continue;
            visit(((int64_t)n * x.dims[2] + h) * x.dims[3] + at, ((int64_t)n * y.dims[2] + p) * y.dims[3] + q, r * kw + s);
          }
        }
}

// The filter with the order of its last two axes chosen for the inner loop: (tap, in, out of the group) or back.
std::vector<float> by_tap(const Tensor &w, const std::vector<float> &filter, bool back) {
  const int64_t out = w.dims[0], in = w.dims[1], count = (int64_t)w.dims[2] * w.dims[3];
  std::vector<float> turned(filter.size());
  for (int64_t o = 0; o < out; o++)
    for (int64_t t = 0; t < count; t++)
      for (int64_t i = 0; i < in; i++) {
        const int64_t ours = (t * in + i) * out + o, theirs = (o * count + t) * in + i;
        if (back)
          turned[theirs] = filter[ours];
        else
          turned[ours] = filter[theirs];
      }
  return turned;
}

// An algorithm's number decides its workspace, so that a caller that mixes them up is found.
size_t workspace(int algorithm) { return algorithm == 0 ? 0 : 4096 * (size_t)algorithm; }

int use_workspace(void *memory, size_t size, int algorithm) {
  const size_t wanted = workspace(algorithm);
  if (wanted == 0) return SUCCESS;
  if (!memory || size < wanted) return BAD_PARAM;
  memset(memory, 0x5a, wanted);
  return SUCCESS;
}

struct Performance {
  int algorithm, status;
  float time;
  size_t memory;
  int determinism, math, reserved[3];
};

// What algorithms there are, the fastest first; `atomic` are those that are not deterministic.
int list(int wanted, int *returned, Performance *results, const std::vector<int> &algorithms, const std::vector<bool> &atomic, size_t most) {
  if (wanted < 1 || !returned || !results) return BAD_PARAM;
  int count = 0;
  const bool none = getenv("SQUALL_STAND_IN_ATOMIC") != nullptr;
  // As cuDNN 9.19 does, each with several kinds of multiplication, of which the first needs no memory although the others do.
  for (size_t i = 0; i < 2 * algorithms.size() && count < wanted; i++) {
    Performance &result = results[count++];
    const int algorithm = algorithms[i / 2], math = (int)(i % 2);
    memset(&result, 0, sizeof result);
    result.algorithm = algorithm;
    result.memory = math ? workspace(algorithm) : 0;
    result.status = result.memory <= most ? SUCCESS : 2;
    result.time = 0.01f * (float)(i + 1);
    result.determinism = none || atomic[i / 2] ? 0 : 1;
    result.math = math;
  }
  *returned = count;
  return SUCCESS;
}
int list_forward(int wanted, int *returned, Performance *results, size_t most) { return list(wanted, returned, results, {1, 0}, {false, false}, most); }
int list_backward(int wanted, int *returned, Performance *results, size_t most) { return list(wanted, returned, results, {3, 1, 0}, {true, false, true}, most); }
int list_backward_data(int wanted, int *returned, Performance *results, size_t most) { return list(wanted, returned, results, {0, 1}, {true, false}, most); }

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
    case NOT_SUPPORTED: return "CUDNN_STATUS_NOT_SUPPORTED";
    default: return "CUDNN_STATUS unknown";
  }
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
  if (!handle) return BAD_PARAM;
  handle->stream = stream;
  return SUCCESS;
}
API cudnnGetStream(Handle *handle, void **stream) {
  *stream = handle->stream;
  return SUCCESS;
}

API cudnnCreateTensorDescriptor(Tensor **tensor) {
  *tensor = new Tensor;
  return SUCCESS;
}
API cudnnDestroyTensorDescriptor(Tensor *tensor) {
  delete tensor;
  return SUCCESS;
}
API cudnnSetTensor4dDescriptor(Tensor *tensor, int format, int type, int n, int c, int h, int w) { return pack(tensor, format, type, n, c, h, w); }
API cudnnSetTensor4dDescriptorEx(Tensor *tensor, int type, int n, int c, int h, int w, int by_n, int by_c, int by_h, int by_w) {
  const int status = pack(tensor, NCHW, type, n, c, h, w);
  if (status != SUCCESS) return status;
  const int64_t strides[4] = {by_n, by_c, by_h, by_w};
  memcpy(tensor->strides, strides, sizeof strides);
  return SUCCESS;
}
API cudnnCreateFilterDescriptor(Tensor **filter) { return cudnnCreateTensorDescriptor(filter); }
API cudnnDestroyFilterDescriptor(Tensor *filter) { return cudnnDestroyTensorDescriptor(filter); }
API cudnnSetFilter4dDescriptor(Tensor *filter, int type, int format, int k, int c, int h, int w) { return pack(filter, format, type, k, c, h, w); }
API cudnnCreateConvolutionDescriptor(Convolution **convolution) {
  *convolution = new Convolution;
  return SUCCESS;
}
API cudnnDestroyConvolutionDescriptor(Convolution *convolution) {
  delete convolution;
  return SUCCESS;
}
API cudnnSetConvolution2dDescriptor(Convolution *convolution, int pad_h, int pad_w, int stride_h, int stride_w, int dilation_h, int dilation_w, int mode, int compute) {
  if (!convolution || pad_h < 0 || pad_w < 0 || stride_h < 1 || stride_w < 1 || dilation_h < 1 || dilation_w < 1) return BAD_PARAM;
  convolution->pad[0] = pad_h, convolution->pad[1] = pad_w;
  convolution->stride[0] = stride_h, convolution->stride[1] = stride_w;
  convolution->dilation[0] = dilation_h, convolution->dilation[1] = dilation_w;
  convolution->mode = mode;
  convolution->compute = compute;
  convolution->set = true;
  return SUCCESS;
}
API cudnnSetConvolutionGroupCount(Convolution *convolution, int groups) {
  if (!convolution || groups < 1) return BAD_PARAM;
  convolution->groups = groups;
  return SUCCESS;
}
API cudnnSetConvolutionMathType(Convolution *convolution, int math) {
  if (!convolution || math < 0 || math > 3) return BAD_PARAM;
  convolution->math = math;
  return SUCCESS;
}
API cudnnGetConvolution2dForwardOutputDim(Convolution *c, Tensor *x, Tensor *w, int *n, int *k, int *h, int *wide) {
  if (!c || !x || !w) return BAD_PARAM;
  *n = x->dims[0], *k = w->dims[0];
  *h = out_size(*c, 0, x->dims[2], w->dims[2]), *wide = out_size(*c, 1, x->dims[3], w->dims[3]);
  return SUCCESS;
}

API cudnnGetConvolutionForwardWorkspaceSize(Handle *handle, Tensor *x, Tensor *w, Convolution *c, Tensor *y, int algorithm, size_t *size) {
  *size = workspace(algorithm);
  return check(handle, x, w, c, y);
}
API cudnnGetConvolutionBackwardDataWorkspaceSize(Handle *handle, Tensor *w, Tensor *dy, Convolution *c, Tensor *dx, int algorithm, size_t *size) {
  *size = workspace(algorithm);
  return check(handle, dx, w, c, dy);
}
API cudnnGetConvolutionBackwardFilterWorkspaceSize(Handle *handle, Tensor *x, Tensor *dy, Convolution *c, Tensor *dw, int algorithm, size_t *size) {
  *size = workspace(algorithm);
  return check(handle, x, dw, c, dy);
}

API cudnnGetConvolutionForwardAlgorithm_v7(Handle *handle, Tensor *x, Tensor *w, Convolution *c, Tensor *y, int wanted, int *returned, Performance *results) {
  const int status = check(handle, x, w, c, y);
  return status == SUCCESS ? list_forward(wanted, returned, results, SIZE_MAX) : status;
}
API cudnnGetConvolutionBackwardDataAlgorithm_v7(Handle *handle, Tensor *w, Tensor *dy, Convolution *c, Tensor *dx, int wanted, int *returned, Performance *results) {
  const int status = check(handle, dx, w, c, dy);
  return status == SUCCESS ? list_backward_data(wanted, returned, results, SIZE_MAX) : status;
}
API cudnnGetConvolutionBackwardFilterAlgorithm_v7(Handle *handle, Tensor *x, Tensor *dy, Convolution *c, Tensor *dw, int wanted, int *returned, Performance *results) {
  const int status = check(handle, x, dw, c, dy);
  return status == SUCCESS ? list_backward(wanted, returned, results, SIZE_MAX) : status;
}
// Trying algorithms overwrites the output, as cuDNN's does.
API cudnnFindConvolutionForwardAlgorithmEx(Handle *handle, Tensor *x, const void *, Tensor *w, const void *, Convolution *c, Tensor *y, void *out, int wanted, int *returned,
                                           Performance *results, void *, size_t size) {
  const int status = check(handle, x, w, c, y);
  if (status != SUCCESS) return status;
  scatter(*y, out, std::vector<float>((size_t)y->count(), NAN), 1.0f, 0.0f);
  return list_forward(wanted, returned, results, size);
}
API cudnnFindConvolutionBackwardDataAlgorithmEx(Handle *handle, Tensor *w, const void *, Tensor *dy, const void *, Convolution *c, Tensor *dx, void *out, int wanted, int *returned,
                                                Performance *results, void *, size_t size) {
  const int status = check(handle, dx, w, c, dy);
  if (status != SUCCESS) return status;
  scatter(*dx, out, std::vector<float>((size_t)dx->count(), NAN), 1.0f, 0.0f);
  return list_backward_data(wanted, returned, results, size);
}
API cudnnFindConvolutionBackwardFilterAlgorithmEx(Handle *handle, Tensor *x, const void *, Tensor *dy, const void *, Convolution *c, Tensor *dw, void *out, int wanted, int *returned,
                                                  Performance *results, void *, size_t size) {
  const int status = check(handle, x, dw, c, dy);
  if (status != SUCCESS) return status;
  scatter(*dw, out, std::vector<float>((size_t)dw->count(), NAN), 1.0f, 0.0f);
  return list_backward(wanted, returned, results, size);
}

API cudnnConvolutionForward(Handle *handle, const float *alpha, Tensor *x, const void *in, Tensor *w, const void *filter, Convolution *c, int algorithm, void *memory, size_t size,
                            const float *beta, Tensor *y, void *out) {
  const int status = check(handle, x, w, c, y);
  if (status != SUCCESS) return status;
  // What is read now: descriptors and factors.
  return act(handle, [=, x = *x, w = *w, y = *y, c = *c, a = *alpha, b = *beta]() -> int {
    if (const int status = use_workspace(memory, size, algorithm)) return status;
    const std::vector<float> values = operand(c, x, in), kernel = by_tap(w, operand(c, w, filter), false);
    std::vector<float> sums((size_t)y.count());
    const int64_t cin = x.dims[1], cout = y.dims[1], in_group = w.dims[1], out_group = cout / c.groups;
    taps(x, w, c, y, [&](int64_t from, int64_t to, int tap) {
      for (int64_t g = 0; g < c.groups; g++) {
        float *sum = &sums[to * cout + g * out_group];
        for (int64_t i = 0; i < in_group; i++) {
          const float value = values[from * cin + g * in_group + i];
          const float *weights = &kernel[(tap * in_group + i) * cout + g * out_group];
          for (int64_t o = 0; o < out_group; o++) sum[o] += value * weights[o];
        }
      }
    });
    scatter(y, out, sums, a, b);
    return SUCCESS;
  });
}
API cudnnConvolutionBackwardData(Handle *handle, const float *alpha, Tensor *w, const void *filter, Tensor *dy, const void *in, Convolution *c, int algorithm, void *memory, size_t size,
                                 const float *beta, Tensor *dx, void *out) {
  const int status = check(handle, dx, w, c, dy);
  if (status != SUCCESS) return status;
  // What is read now: descriptors and factors.
  return act(handle, [=, w = *w, dy = *dy, dx = *dx, c = *c, a = *alpha, b = *beta]() -> int {
    if (const int status = use_workspace(memory, size, algorithm)) return status;
    // As (out, tap, in), the inner loop runs over inputs.
    const std::vector<float> grads = operand(c, dy, in), kernel = operand(c, w, filter);
    std::vector<float> sums((size_t)dx.count());
    const int64_t cin = dx.dims[1], cout = dy.dims[1], in_group = w.dims[1], out_group = cout / c.groups, count = (int64_t)w.dims[2] * w.dims[3];
    taps(dx, w, c, dy, [&](int64_t to, int64_t from, int tap) {
      for (int64_t o = 0; o < cout; o++) {
        float *sum = &sums[to * cin + o / out_group * in_group];
        const float grad = grads[from * cout + o];
        const float *weights = &kernel[(o * count + tap) * in_group];
        for (int64_t i = 0; i < in_group; i++) sum[i] += grad * weights[i];
      }
    });
    scatter(dx, out, sums, a, b);
    return SUCCESS;
  });
}
API cudnnConvolutionBackwardFilter(Handle *handle, const float *alpha, Tensor *x, const void *in, Tensor *dy, const void *grad, Convolution *c, int algorithm, void *memory, size_t size,
                                   const float *beta, Tensor *dw, void *out) {
  const int status = check(handle, x, dw, c, dy);
  if (status != SUCCESS) return status;
  // What is read now: descriptors and factors.
  return act(handle, [=, x = *x, dy = *dy, dw = *dw, c = *c, a = *alpha, b = *beta]() -> int {
    if (const int status = use_workspace(memory, size, algorithm)) return status;
    const std::vector<float> values = operand(c, x, in), grads = operand(c, dy, grad);
    std::vector<float> sums((size_t)dw.count());
    const int64_t cin = x.dims[1], cout = dy.dims[1], in_group = dw.dims[1], out_group = cout / c.groups;
    taps(x, dw, c, dy, [&](int64_t from, int64_t to, int tap) {
      for (int64_t g = 0; g < c.groups; g++) {
        const float *slope = &grads[to * cout + g * out_group];
        for (int64_t i = 0; i < in_group; i++) {
          float *sum = &sums[(tap * in_group + i) * cout + g * out_group];
          const float value = values[from * cin + g * in_group + i];
          for (int64_t o = 0; o < out_group; o++) sum[o] += value * slope[o];
        }
      }
    });
    scatter(dw, out, by_tap(dw, sums, true), a, b);
    return SUCCESS;
  });
}
