// Tensors as the stand-in's cuDNN sees them: values of any type and order in memory, and what engines round them to.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

namespace {

enum Type { FLOAT = 0, HALF = 2, BFLOAT16 = 9 };

// dims and strides are of n, c, h, w whatever the order in memory.
struct Tensor {
  int type = -1;
  int64_t dims[4] = {0, 0, 0, 0}, strides[4] = {0, 0, 0, 0}, id = 0, alignment = 0;
  int64_t count() const { return dims[0] * dims[1] * dims[2] * dims[3]; }
};

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
  for (int64_t n = 0; n < t.dims[0]; n++)
    for (int64_t h = 0; h < t.dims[2]; h++)
      for (int64_t w = 0; w < t.dims[3]; w++)
        for (int64_t c = 0; c < t.dims[1]; c++) out[at++] = read(values, t.type, n * t.strides[0] + c * t.strides[1] + h * t.strides[2] + w * t.strides[3]);
  return out;
}
void scatter(const Tensor &t, void *values, const std::vector<float> &from) {
  size_t at = 0;
  for (int64_t n = 0; n < t.dims[0]; n++)
    for (int64_t h = 0; h < t.dims[2]; h++)
      for (int64_t w = 0; w < t.dims[3]; w++)
        for (int64_t c = 0; c < t.dims[1]; c++) {
          const int64_t place = n * t.strides[0] + c * t.strides[1] + h * t.strides[2] + w * t.strides[3];
          write(values, t.type, place, from[at++]);
        }
}

// To so many bits of fraction, ties away from zero.
std::vector<float> rounded(std::vector<float> values, int bits) {
  const uint32_t dropped = 24 - bits, half = 1u << (dropped - 1), mask = ~((1u << dropped) - 1);
  for (float &value : values)
    if (std::isfinite(value)) value = of_bits((to_bits(value) + half) & mask);
  return values;
}

}  // namespace
