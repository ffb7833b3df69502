// What all kernels share: storage types, wide accesses, loops over values, sums per channel. Put in front of every file.
//
// Half types are plain 16 bits here, converted by one instruction each, so that no header of the toolkit is needed.
#ifdef CUDA_EMU
#include "cuda_emu.h"
#else
#define EXPORT_KERNEL(NAME)
#define EXPORT_KERNEL_WITH_BARRIERS(NAME)
#endif

typedef unsigned char u8;
typedef unsigned short u16;
typedef int i32;
typedef unsigned int u32;
typedef long long i64;
typedef unsigned long long u64;
typedef float f32;
typedef double f64;

struct bf16 {
  u16 bits;
};
struct f16 {
  u16 bits;
};

// Blocks have THREADS threads; N of those of a kernel that waits for memory are to fit on a multiprocessor.
#define GLOBAL extern "C" __global__ void __launch_bounds__(THREADS)
#define RESIDENT(N) extern "C" __global__ void __launch_bounds__(THREADS, N)
#define SUMMING RESIDENT(2)

// Defines a kernel for each storage: M(suffix, type).
#define EACH_STORAGE(M) M(f32, f32) M(bf16, bf16) M(f16, f16)

// Of every block.
enum { THREADS = 256 };

__device__ inline f32 widen(f32 v) { return v; }
__device__ inline f32 widen(bf16 v) { return __uint_as_float((u32)v.bits << 16); }
__device__ inline f32 widen(f16 v) {
#ifdef CUDA_EMU
  return emu::widen_f16(v.bits);
#else
  f32 wide;
  asm("cvt.f32.f16 %0, %1;" : "=f"(wide) : "h"(v.bits));
  return wide;
#endif
}

// To nearest, ties to even.
template <class T>
__device__ inline T narrow(f32 v);
template <>
__device__ inline f32 narrow<f32>(f32 v) {
  return v;
}
template <>
__device__ inline bf16 narrow<bf16>(f32 v) {
  bf16 half;
#ifdef CUDA_EMU
  half.bits = emu::narrow_bf16(v);
#else
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(half.bits) : "f"(v));
#endif
  return half;
}
template <>
__device__ inline f16 narrow<f16>(f32 v) {
  f16 half;
#ifdef CUDA_EMU
  half.bits = emu::narrow_f16(v);
#else
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half.bits) : "f"(v));
#endif
  return half;
}

// Values of one storage that 16 bytes hold.
template <class T>
struct Wide {
  static const i32 VALUES = 16 / sizeof(T);
};

__device__ inline bool aligned(const void *a, const void *b = 0, const void *c = 0, const void *d = 0) {
  return (((u64)a | (u64)b | (u64)c | (u64)d) & 15) == 0;
}

// Two values in one word: one instruction on a GPU.
template <class T>
__device__ inline u32 narrow_both(f32 low, f32 high) {
  return (u32)narrow<T>(low).bits | (u32)narrow<T>(high).bits << 16;
}
#ifndef CUDA_EMU
template <>
__device__ inline u32 narrow_both<bf16>(f32 low, f32 high) {
  u32 both;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
  return both;
}
template <>
__device__ inline u32 narrow_both<f16>(f32 low, f32 high) {
  u32 both;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
  return both;
}
#endif

// V values as f32 and back: one access of 16 or 8 bytes, or one value.
template <i32 V>
struct Access {
  static const i32 WORDS = V / 2;
  template <class T>
  __device__ static inline void unpack(f32 (&to)[V], const u32 *words) {
    for (i32 k = 0; k < WORDS; k++) {
      T low, high;
      low.bits = (u16)words[k];
      high.bits = (u16)(words[k] >> 16);
      to[2 * k] = widen(low);
      to[2 * k + 1] = widen(high);
    }
  }
  template <class T>
  __device__ static inline void load(f32 (&to)[V], const T *from) {
    if (V == 8) {
      uint4 raw = *(const uint4 *)from;
      const u32 words[4] = {raw.x, raw.y, raw.z, raw.w};
      unpack<T>(to, words);
    } else {
      uint2 raw = *(const uint2 *)from;
      const u32 words[4] = {raw.x, raw.y, 0, 0};
      unpack<T>(to, words);
    }
  }
  template <class T>
  __device__ static inline void store(T *to, const f32 (&from)[V]) {
    u32 words[4];
    for (i32 k = 0; k < WORDS; k++) words[k] = narrow_both<T>(from[2 * k], from[2 * k + 1]);
    if (V == 8) {
      *(uint4 *)to = make_uint4(words[0], words[1], words[2], words[3]);
    } else {
      *(uint2 *)to = make_uint2(words[0], words[1]);
    }
  }
  // f32 is four at a time.
  __device__ static inline void load(f32 (&to)[V], const f32 *from) {
    for (i32 k = 0; k < V; k += 4) {
      float4 raw = *(const float4 *)(from + k);
      to[k] = raw.x, to[k + 1] = raw.y, to[k + 2] = raw.z, to[k + 3] = raw.w;
    }
  }
  __device__ static inline void store(f32 *to, const f32 (&from)[V]) {
    for (i32 k = 0; k < V; k += 4) *(float4 *)(to + k) = make_float4(from[k], from[k + 1], from[k + 2], from[k + 3]);
  }
  __device__ static inline void load(u32 (&to)[V], const u8 *from) {
    for (i32 k = 0; k < V; k += 4) {
      const u32 word = *(const u32 *)(from + k);
      for (i32 byte = 0; byte < 4; byte++) to[k + byte] = word >> (8 * byte) & 255;
    }
  }
  __device__ static inline void store(u8 *to, const u32 (&from)[V]) {
    for (i32 k = 0; k < V; k += 4)
      *(u32 *)(to + k) = from[k] | from[k + 1] << 8 | from[k + 2] << 16 | from[k + 3] << 24;
  }
};
template <>
struct Access<1> {
  template <class T>
  __device__ static inline void load(f32 (&to)[1], const T *from) {
    to[0] = widen(*from);
  }
  template <class T>
  __device__ static inline void store(T *to, const f32 (&from)[1]) {
    *to = narrow<T>(from[0]);
  }
  __device__ static inline void load(u32 (&to)[1], const u8 *from) { to[0] = *from; }
  __device__ static inline void store(u8 *to, const u32 (&from)[1]) { *to = (u8)from[0]; }
};

template <i32 V, class T>
__device__ inline void load(f32 (&to)[V], const T *from) {
  Access<V>::load(to, from);
}
template <i32 V, class T>
__device__ inline void store(T *to, const f32 (&from)[V]) {
  Access<V>::store(to, from);
}

// V values as they lie in memory (16 or 8 bytes, or one value): what is on its way takes no more registers than that.
template <class T, i32 V>
struct Pack {
  enum { WORDS = V * sizeof(T) / 4 };
  u32 words[WORDS];
  __device__ void clear() {
    for (i32 k = 0; k < WORDS; k++) words[k] = 0;
  }
  __device__ void fetch(const T *from) {
    if constexpr (WORDS == 4) {
      const uint4 raw = *(const uint4 *)from;
      words[0] = raw.x, words[1] = raw.y, words[2] = raw.z, words[3] = raw.w;
    } else {
      const uint2 raw = *(const uint2 *)from;
      words[0] = raw.x, words[1] = raw.y;
    }
  }
  __device__ void widen_to(f32 (&to)[V]) const {
    if constexpr (sizeof(T) == 4)
      for (i32 k = 0; k < V; k++) to[k] = __uint_as_float(words[k]);
    else
      Access<V>::template unpack<T>(to, words);
  }
};
template <class T>
struct Pack<T, 1> {
  T raw;
  __device__ void fetch(const T *from) { raw = *from; }
  __device__ void widen_to(f32 (&to)[1]) const { to[0] = widen(raw); }
};

// i = 0 .. n over all threads of the grid.
#define FOR_EACH(i, n)                                                                         \
  for (i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x, i##_end = (n); i < i##_end; \
       i += (i64)gridDim.x * blockDim.x)

// i = first * count + rest; the division is of 32 bits where it can be.
__device__ inline i64 divided(i64 i, i32 count, i32 &rest) {
  if (i <= 0xffffffffll) {
    const u32 first = (u32)i / (u32)count;
    rest = (i32)((u32)i - first * (u32)count);
    return first;
  }
  const i64 first = i / count;
  rest = (i32)(i - first * count);
  return first;
}

__device__ inline bool finite(f32 v) { return (__float_as_uint(v) & 0x7f800000u) != 0x7f800000u; }

__device__ inline i64 divided(i64 i, i64 count, i64 &rest) {
  if (count <= 0x7fffffffll) {
    i32 small;
    const i64 first = divided(i, (i32)count, small);
    rest = small;
    return first;
  }
  const i64 first = i / count;
  rest = i - first * count;
  return first;
}

// The bits of values `at`, `at` + 1, ... of their byte; one for each value.
__device__ inline u32 bits_of(const u8 *bits, i64 at) { return (u32)bits[(u64)at >> 3] >> ((u32)at & 7); }

// NaN stays NaN: what is no number must not look like one.
__device__ inline f32 rectified(f32 v) { return v <= 0.0f ? 0.0f : v; }

__device__ inline f32 sigmoid(f32 z) { return 1.0f / (1.0f + expf(-z)); }

// y[i] = f(a[i], i).
template <class T, class F>
__device__ inline void map(T *y, const T *a, i64 n, F f) {
  const i32 V = Wide<T>::VALUES;
  const i64 packs = aligned(y, a) ? n / V : 0;
  FOR_EACH(i, packs) {
    f32 values[V];
    load(values, a + i * V);
    for (i32 k = 0; k < V; k++) values[k] = f(values[k], i * V + k);
    store(y + i * V, values);
  }
  FOR_EACH(i, n - packs * V) {
    const i64 at = packs * V + i;
    y[at] = narrow<T>(f(widen(a[at]), at));
  }
}

// y[i] = f(a[i], b[i]).
template <class T, class F>
__device__ inline void zip(T *y, const T *a, const T *b, i64 n, F f) {
  const i32 V = Wide<T>::VALUES;
  const i64 packs = aligned(y, a, b) ? n / V : 0;
  FOR_EACH(i, packs) {
    f32 left[V], right[V];
    load(left, a + i * V);
    load(right, b + i * V);
    for (i32 k = 0; k < V; k++) left[k] = f(left[k], right[k]);
    store(y + i * V, left);
  }
  FOR_EACH(i, n - packs * V) {
    const i64 at = packs * V + i;
    y[at] = narrow<T>(f(widen(a[at]), widen(b[at])));
  }
}

// 16 kB of the block: one function, so that a kernel with several forms has it once. Some store 16 bytes at once, which f64 alone would not promise.
enum { SCRATCH = 8 * THREADS };
__device__ inline f64 *scratch() {
  __shared__ __align__(16) f64 memory[SCRATCH];
  return memory;
}

// For each V channels that this thread has: start(channel) once, then read(values, place) and finish(values, place) for its pixels, where `place` is the
// number of the first of the V values. What belongs to a channel is read once a thread, and not once a pixel; BATCH pixels are read before the first is
// finished: so many accesses are on their way at once, and y may be x.
template <i32 V, i32 BATCH, class Values, class Start, class Read, class Finish>
__device__ inline void each_pixel(i64 pixels, i32 c, Start start, Read read, Finish finish) {
  const i64 threads = (i64)gridDim.x * THREADS, thread = (i64)blockIdx.x * THREADS + threadIdx.x;
  const i32 lanes = c / V;
  // Threads stand side by side in a pixel; where they are too few for one, each has several places in it.
  const bool few = threads < lanes;
  i32 lane = (i32)thread;
  const i64 down = few ? 1 : threads / lanes, row = few ? 0 : divided(thread, lanes, lane);
  if (row >= down) return;
  for (; lane < lanes; lane += few ? (i32)threads : lanes) {
    start(lane * V);
    const i64 first = lane * V, step = down * c;
    i64 place = row * c + first;
    for (i64 pixel = row; pixel < pixels; pixel += BATCH * down, place += BATCH * step) {
      Values values[BATCH];
#pragma unroll
      for (i32 k = 0; k < BATCH; k++)
        if (pixel + k * down < pixels) read(values[k], place + k * step);
#pragma unroll
      for (i32 k = 0; k < BATCH; k++)
        if (pixel + k * down < pixels) finish(values[k], place + k * step);
    }
  }
}

// Terms that are added in f32 before they are added to an f64 sum.
enum { TERMS = 32 };

// Sums per channel over the pixels of this block's chunk (block y of the grid: every gridDim.y-th row of threads) and sample (block z). `Term` has Q sums
// of V channels: begin(channel, pixel) once, with the first pixel, read(values, pixel, channel) and add(values, pixel, channel, part) for each, and
// end(sums, count), after which `sums` are those of its pixels. BATCH pixels are read before the first is added: so many accesses are on their way at
// once. From the last pixel to the first: what was written last may still be in the GPU's cache, and what is read last here is read first by what follows.
// partial is (sample, chunk, Q, c).
template <i32 V, i32 Q, class Term>
__device__ inline void sum_channels(f64 *partial, i64 pixels, i32 c, Term term) {
  const i32 BATCH = Term::BATCH;
  f64 *shared = scratch();
  const i32 lanes = c / V, thread = threadIdx.x;
  i32 across = 1;
  while (across < lanes && across < 32) across *= 2;
  const i32 down = THREADS / across, lane = thread % across, row = thread / across;
  const i64 step = (i64)gridDim.y * down, first = pixels - 1 - ((i64)blockIdx.y * down + row);
  partial += ((i64)blockIdx.z * gridDim.y + blockIdx.y) * Q * c;
  for (i32 tile = blockIdx.x * across; tile < lanes; tile += gridDim.x * across) {
    const i32 channel = (tile + lane) * V;
    const bool real = tile + lane < lanes;
    f64 sums[Q][V] = {};
    if (real && first >= 0) {
      term.begin(channel, first);
      for (i64 pixel = first; pixel >= 0;) {
        f32 part[Q][V] = {};
        const i64 last = max((i64)-1, pixel - TERMS * step);
        for (; pixel > last; pixel -= BATCH * step) {
          typename Term::Values values[BATCH];
#pragma unroll
          for (i32 k = 0; k < BATCH; k++)
            if (pixel - k * step > last) term.read(values[k], pixel - k * step, channel);
#pragma unroll
          for (i32 k = 0; k < BATCH; k++)
            if (pixel - k * step > last) term.add(values[k], pixel - k * step, channel, part);
        }
        for (i32 q = 0; q < Q; q++)
          for (i32 k = 0; k < V; k++) sums[q][k] += (f64)part[q][k];
      }
      term.end(sums, first / step + 1);
    }
    for (i32 q = 0; q < Q; q++) {
      __syncthreads();
      for (i32 k = 0; k < V; k++) shared[k * THREADS + thread] = sums[q][k];
      for (i32 half = down / 2; half > 0; half /= 2) {
        __syncthreads();
        if (row < half)
          for (i32 k = 0; k < V; k++) shared[k * THREADS + thread] += shared[k * THREADS + thread + half * across];
      }
      if (row == 0 && real)
        for (i32 k = 0; k < V; k++) partial[(i64)q * c + channel + k] = shared[k * THREADS + thread];
    }
  }
}

// The Q sums over chunks of channel 32 · block x + thread % 32 of sample block y: true in the one thread that has them.
template <i32 Q>
__device__ inline bool add_chunks(f64 (&sums)[Q], const f64 *partial, i32 chunks, i32 c, i32 &channel) {
  __shared__ f64 shared[Q][THREADS];
  const i32 lane = threadIdx.x % 32, row = threadIdx.x / 32;
  channel = blockIdx.x * 32 + lane;
  partial += (i64)blockIdx.y * chunks * Q * c;
  for (i32 q = 0; q < Q; q++) {
    f64 sum = 0.0;
    if (channel < c)
#pragma unroll 8
      for (i32 chunk = row; chunk < chunks; chunk += THREADS / 32) sum += partial[((i64)chunk * Q + q) * c + channel];
    shared[q][threadIdx.x] = sum;
  }
  __syncthreads();
  if (row > 0 || channel >= c) return false;
  for (i32 q = 0; q < Q; q++) {
    sums[q] = 0.0;
    for (i32 r = 0; r < THREADS / 32; r++) sums[q] += shared[q][r * 32 + lane];
  }
  return true;
}

// Where a window's cell reads along one axis, or -1 outside; as conv_spec::source.
__device__ inline i32 source(i32 output, i32 stride, i32 offset, i32 padding, i32 extent, bool wraps) {
  const i32 at = output * stride + offset - padding;
  // Hardly any position leaves the field: the division is worth a branch.
  if (at >= 0 && at < extent) return at;
  if (!wraps) return -1;
  const i32 rest = at % extent;
  return rest < 0 ? rest + extent : rest;
}

// The outputs whose cell with this offset reads position `at`: calls visit(output) for each. The inverse of `source`.
template <class Visit>
__device__ inline void readers(i32 at, i32 stride, i32 offset, i32 padding, i32 extent, i32 outputs, bool wraps, Visit visit) {
  i32 target = at + padding - offset;
  if (!wraps) {
    if (target < 0) return;
    // Divisions are slow, and most strides are 1.
    const i32 output = stride == 1 ? target : target / stride;
    if (output < outputs && output * stride == target) visit(output);
    return;
  }
  if (target < 0 || target >= extent) {
    target %= extent;
    if (target < 0) target += extent;
  }
  for (; target <= (outputs - 1) * stride; target += extent)
    if (target % stride == 0) visit(target / stride);
}

// How a kernel goes over fields: (b, h, w, c) to (b, p, q, c), or back.
struct Geometry {
  i32 b, h, w, c, p, q, kh, kw, stride, dilation, pad_h, pad_w, periodic;
  __device__ i32 row(i32 output, i32 r) const { return source(output, stride, r * dilation, pad_h, h, false); }
  __device__ i32 column(i32 output, i32 s) const { return source(output, stride, s * dilation, pad_w, w, periodic); }
  template <class Visit>
  __device__ void rows_reading(i32 at, i32 r, Visit visit) const {
    readers(at, stride, r * dilation, pad_h, h, p, false, visit);
  }
  template <class Visit>
  __device__ void columns_reading(i32 at, i32 s, Visit visit) const {
    readers(at, stride, s * dilation, pad_w, w, q, periodic, visit);
  }
};

#define GEOMETRY                                                                                                 \
  i32 b, i32 h, i32 w, i32 c, i32 p, i32 q, i32 kh, i32 kw, i32 stride, i32 dilation, i32 pad_h, i32 pad_w, \
      i32 periodic

// The sum of one value of each thread of the block, in all of them.
__device__ inline f64 block_sum(f64 value) {
  __shared__ f64 shared[THREADS];
  __syncthreads();
  shared[threadIdx.x] = value;
  for (i32 half = THREADS / 2; half > 0; half /= 2) {
    __syncthreads();
    if ((i32)threadIdx.x < half) shared[threadIdx.x] += shared[threadIdx.x + half];
  }
  __syncthreads();
  return shared[0];
}

// The mixing step of SplitMix64: a bijection of 64 bits that passes as random.
__device__ inline u64 mixed(u64 z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}
