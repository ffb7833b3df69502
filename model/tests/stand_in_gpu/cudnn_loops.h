// The convolutions of the stand-in's cuDNN: plain loops with sums in f32, whatever tensors are stored as.
#pragma once
#include "cudnn_values.h"

namespace {

enum Direction { FORWARD, BACKWARD_DATA, BACKWARD_FILTER };

struct Convolution {
  // Before the first value, and after the last.
  int64_t pad[2] = {0, 0}, after[2] = {0, 0}, stride[2] = {1, 1}, dilation[2] = {1, 1};
};

// A convolution between tensors; one of them is the result. Forward it may end with a residual and a bias that are added, and ReLU.
struct Problem {
  Direction direction = FORWARD;
  Tensor x, w, y;
  Convolution convolution;
  bool has_bias = false, has_residual = false, relu = false, keeps_nan = false;
  Tensor bias, residual;
  int64_t groups() const { return x.dims[1] / w.dims[1]; }
  // With an address, in the order of a caller's places.
  std::vector<const Tensor *> tensors() const {
    std::vector<const Tensor *> all = {&x, &w, &y};
    if (has_bias) all.push_back(&bias);
    if (has_residual) all.push_back(&residual);
    return all;
  }
};

int64_t out_size(const Convolution &c, int axis, int64_t input, int64_t kernel) {
  return (input + c.pad[axis] + c.after[axis] - (c.dilation[axis] * (kernel - 1) + 1)) / c.stride[axis] + 1;
}

// Whether input, filter and output belong together.
bool fits(const Problem &p) {
  const Tensor &x = p.x, &w = p.w, &y = p.y;
  if (w.dims[1] < 1 || x.dims[1] % w.dims[1] || w.dims[0] % p.groups()) return false;
  return y.dims[0] == x.dims[0] && y.dims[1] == w.dims[0] && y.dims[2] == out_size(p.convolution, 0, x.dims[2], w.dims[2]) &&
         y.dims[3] == out_size(p.convolution, 1, x.dims[3], w.dims[3]);
}

// Calls visit(input pixel, output pixel, tap) for every tap inside the field.
template <class Visit>
void taps(const Tensor &x, const Tensor &w, const Convolution &c, const Tensor &y, Visit visit) {
  const int64_t kh = w.dims[2], kw = w.dims[3];
  for (int64_t n = 0; n < y.dims[0]; n++)
    for (int64_t p = 0; p < y.dims[2]; p++)
      for (int64_t q = 0; q < y.dims[3]; q++)
        for (int64_t r = 0; r < kh; r++) {
          const int64_t h = p * c.stride[0] + r * c.dilation[0] - c.pad[0];
          if (h < 0 || h >= x.dims[2]) continue;
          for (int64_t s = 0; s < kw; s++) {
            const int64_t at = q * c.stride[1] + s * c.dilation[1] - c.pad[1];
            if (at < 0 || at >= x.dims[3]) continue;
            visit((n * x.dims[2] + h) * x.dims[3] + at, (n * y.dims[2] + p) * y.dims[3] + q, r * kw + s);
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

// What an operand's values are to the engine: rounded to so many bits of fraction, of f32; half types have no more.
std::vector<float> operand(const Tensor &t, const void *from, int bits) {
  std::vector<float> values = gather(t, from);
  return t.type == FLOAT && bits < 24 ? rounded(std::move(values), bits) : values;
}

std::vector<float> forward(const Problem &p, const std::vector<float> &values, const std::vector<float> &filter) {
  const std::vector<float> kernel = by_tap(p.w, filter, false);
  std::vector<float> sums((size_t)p.y.count());
  const int64_t groups = p.groups(), cin = p.x.dims[1], cout = p.y.dims[1], in_group = p.w.dims[1], out_group = cout / groups;
  taps(p.x, p.w, p.convolution, p.y, [&](int64_t from, int64_t to, int64_t tap) {
    for (int64_t g = 0; g < groups; g++) {
      float *sum = &sums[to * cout + g * out_group];
      for (int64_t i = 0; i < in_group; i++) {
        const float value = values[from * cin + g * in_group + i];
        const float *weights = &kernel[(tap * in_group + i) * cout + g * out_group];
        for (int64_t o = 0; o < out_group; o++) sum[o] += value * weights[o];
      }
    }
  });
  return sums;
}

std::vector<float> backward_data(const Problem &p, const std::vector<float> &kernel, const std::vector<float> &grads) {
  // As (out, tap, in), the inner loop runs over inputs.
  std::vector<float> sums((size_t)p.x.count());
  const int64_t cin = p.x.dims[1], cout = p.y.dims[1], in_group = p.w.dims[1], out_group = cout / p.groups(), count = p.w.dims[2] * p.w.dims[3];
  taps(p.x, p.w, p.convolution, p.y, [&](int64_t to, int64_t from, int64_t tap) {
    for (int64_t o = 0; o < cout; o++) {
      float *sum = &sums[to * cin + o / out_group * in_group];
      const float grad = grads[from * cout + o];
      const float *weights = &kernel[(o * count + tap) * in_group];
      for (int64_t i = 0; i < in_group; i++) sum[i] += grad * weights[i];
    }
  });
  return sums;
}

std::vector<float> backward_filter(const Problem &p, const std::vector<float> &values, const std::vector<float> &grads) {
  std::vector<float> sums((size_t)p.w.count());
  const int64_t groups = p.groups(), cin = p.x.dims[1], cout = p.y.dims[1], in_group = p.w.dims[1], out_group = cout / groups;
  taps(p.x, p.w, p.convolution, p.y, [&](int64_t from, int64_t to, int64_t tap) {
    for (int64_t g = 0; g < groups; g++) {
      const float *slope = &grads[to * cout + g * out_group];
      for (int64_t i = 0; i < in_group; i++) {
        float *sum = &sums[(tap * in_group + i) * cout + g * out_group];
        const float value = values[from * cin + g * in_group + i];
        for (int64_t o = 0; o < out_group; o++) sum[o] += value * slope[o];
      }
    }
  });
  return by_tap(p.w, sums, true);
}

// What follows sums of y, in f32; addresses as tensors() has them.
std::vector<float> ended(const Problem &p, std::vector<float> sums, const std::vector<void *> &places) {
  const size_t channels = (size_t)p.y.dims[1];
  const std::vector<float> bias = p.has_bias ? gather(p.bias, places[3]) : std::vector<float>(channels);
  const std::vector<float> residual = p.has_residual ? gather(p.residual, places[4]) : std::vector<float>(sums.size());
  for (size_t i = 0; i < sums.size(); i++) {
    const float sum = sums[i] + residual[i] + bias[i % channels];
    sums[i] = p.relu && (sum < 0 || (std::isnan(sum) && !p.keeps_nan)) ? 0 : sum;
  }
  return sums;
}

// Solves it, with operands rounded to so many bits of fraction; addresses as tensors() has them.
void solve(const Problem &p, int bits, const std::vector<void *> &places) {
  void *const x = places[0], *const w = places[1], *const y = places[2];
  switch (p.direction) {
    case FORWARD: return scatter(p.y, y, ended(p, forward(p, operand(p.x, x, bits), operand(p.w, w, bits)), places));
    case BACKWARD_DATA: return scatter(p.x, x, backward_data(p, operand(p.w, w, bits), operand(p.y, y, bits)));
    case BACKWARD_FILTER: return scatter(p.w, w, backward_filter(p, operand(p.x, x, bits), operand(p.y, y, bits)));
  }
}

}  // namespace
