// The few features of CUDA C++ that our kernels use, on a CPU: a kernel's blocks run one after the other, and so do the threads of a block. Where a kernel
// has barriers its threads are fibers, and every barrier is checked: all threads of the block must reach it. Between two
// barriers threads run in ascending order, then in descending, so that a missing barrier shows.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>
#if !defined(__x86_64__)
#include <ucontext.h>
#endif

#define __global__
#define __device__
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))
// One block at a time, so a function's static memory is the block's.
#define __shared__ static

struct Dim3 {
  unsigned x = 1, y = 1, z = 1;
};
static Dim3 gridDim, blockDim, blockIdx, threadIdx;

struct uint2 {
  unsigned x, y;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
static inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
static inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
static inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }

static inline float __uint_as_float(unsigned bits) {
  float value;
  std::memcpy(&value, &bits, 4);
  return value;
}
static inline unsigned __float_as_uint(float value) {
  unsigned bits;
  std::memcpy(&bits, &value, 4);
  return bits;
}
template <class T>
static inline T min(T a, std::common_type_t<T> b) {
  return b < a ? b : a;
}
template <class T>
static inline T max(T a, std::common_type_t<T> b) {
  return a < b ? b : a;
}
template <class T>
static inline T atomicAdd(T *to, std::common_type_t<T> value) {
  const T before = *to;
  *to += value;
  return before;
}

namespace emu {

// Half types by their bits, to nearest with ties to even; NaN stays NaN.
static inline uint16_t narrow_bf16(float value) {
  const unsigned bits = __float_as_uint(value);
  if (value != value) return 0x7fff;
  return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
static inline float widen_f16(uint16_t half) {
  const unsigned sign = (half & 0x8000u) << 16, exponent = half >> 10 & 31, fraction = half & 1023;
  if (exponent == 31) return __uint_as_float(sign | 0x7f800000u | fraction << 13);
  if (exponent == 0) return (sign ? -1.0f : 1.0f) * (float)fraction * 5.9604644775390625e-8f;
  return __uint_as_float(sign | (exponent + 112) << 23 | fraction << 13);
}
static inline uint16_t narrow_f16(float value) {
  const unsigned bits = __float_as_uint(value), magnitude = bits & 0x7fffffffu;
  const uint16_t sign = (uint16_t)(bits >> 16 & 0x8000u);
  if (value != value) return 0x7fff;
  if (magnitude >= 0x477ff000u) return sign | 0x7c00u;
  if (magnitude < 0x38800000u) {
    // Below the normal numbers: in units of 2^-24, rounded by the default mode of the processor.
    return sign | (uint16_t)std::nearbyint(std::fabs(value) * 16777216.0f);
  }
  const unsigned rounded = magnitude + 0xfff + (magnitude >> 13 & 1) - 0x38000000u;
  return sign | (uint16_t)(rounded >> 13);
}

static const size_t STACK = 64 << 10;
static std::vector<char> stacks;
static std::vector<char> finished;
static unsigned current;
static bool fibers_run;
static const void *body;
static void (*call_body)(const void *);

#if defined(__x86_64__)
// Keeps what a function call must keep and changes the stack.
extern "C" __attribute__((visibility("hidden"))) void squall_emu_switch(void **from, void *to);
asm(R"(
.text
.hidden squall_emu_switch
.globl squall_emu_switch
.type squall_emu_switch,@function
squall_emu_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size squall_emu_switch,.-squall_emu_switch
)");
static std::vector<void *> fibers;
static void *home;
static void leave() { squall_emu_switch(&fibers[current], home); }
static void enter() { squall_emu_switch(&home, fibers[current]); }
static void thread_main() {
  call_body(body);
  finished[current] = 1;
  leave();
}
static void prepare(unsigned thread) {
  void **top = (void **)(((uintptr_t)&stacks[(thread + 1) * STACK - 1]) & ~(uintptr_t)15);
  *--top = nullptr;
  *--top = (void *)thread_main;
  for (int kept = 0; kept < 6; kept++) *--top = nullptr;
  fibers[thread] = top;
}
#else
static std::vector<ucontext_t> fibers;
static ucontext_t home;
static void leave() { swapcontext(&fibers[current], &home); }
static void enter() { swapcontext(&home, &fibers[current]); }
static void thread_main() {
  call_body(body);
  finished[current] = 1;
  leave();
}
static void prepare(unsigned thread) {
  getcontext(&fibers[thread]);
  fibers[thread].uc_stack.ss_sp = &stacks[thread * STACK];
  fibers[thread].uc_stack.ss_size = STACK;
  fibers[thread].uc_link = nullptr;
  makecontext(&fibers[thread], thread_main, 0);
}
#endif

static void at_thread(unsigned thread) {
  threadIdx = {thread % blockDim.x, thread / blockDim.x % blockDim.y, thread / blockDim.x / blockDim.y};
}

// One block with barriers; false if some of its threads ended where others wait.
static bool run_fibers(unsigned threads) {
  stacks.resize(threads * STACK);
  fibers.resize(threads);
  finished.assign(threads, 0);
  for (unsigned thread = 0; thread < threads; thread++) prepare(thread);
  for (bool ascending = true;; ascending = !ascending) {
    unsigned ended = 0;
    for (unsigned turn = 0; turn < threads; turn++) {
      current = ascending ? turn : threads - 1 - turn;
      at_thread(current);
      enter();
      ended += finished[current];
    }
    if (ended == threads) return true;
    if (ended > 0) return false;
  }
}

template <class Body>
static int launch(const unsigned *dims, bool barriers, const Body &run) {
  gridDim = {dims[0], dims[1], dims[2]};
  blockDim = {dims[3], dims[4], dims[5]};
  const unsigned threads = blockDim.x * blockDim.y * blockDim.z;
  body = &run;
  call_body = [](const void *run) { (*(const Body *)run)(); };
  fibers_run = barriers;
  for (unsigned z = 0; z < gridDim.z; z++)
    for (unsigned y = 0; y < gridDim.y; y++)
      for (unsigned x = 0; x < gridDim.x; x++) {
        blockIdx = {x, y, z};
        if (barriers) {
          if (!run_fibers(threads)) {
            std::fprintf(stderr, "stand-in GPU: threads of block (%u, %u, %u) ended where others wait at a barrier\n", x, y, z);
            return 1;
          }
        } else {
          for (unsigned thread = 0; thread < threads; thread++) {
            at_thread(thread);
            run();
          }
        }
      }
  return 0;
}

template <class... A, size_t... I>
static void call(void (*kernel)(A...), void **args, std::index_sequence<I...>) {
  kernel(*(A *)args[I]...);
}
template <class... A>
static void call(void (*kernel)(A...), void **args) {
  call(kernel, args, std::index_sequence_for<A...>());
}
// One letter for each argument: p pointer, i and l whole numbers of 32 and 64 bits, f and d floating point of 32 and 64 bits.
template <class A>
constexpr char letter() {
  if (std::is_pointer<A>::value) return 'p';
  if (std::is_floating_point<A>::value) return sizeof(A) == 4 ? 'f' : 'd';
  return sizeof(A) == 4 ? 'i' : 'l';
}
template <class... A>
struct Letters {
  char text[sizeof...(A) + 1];
};
template <class... A>
constexpr Letters<A...> letters(void (*)(A...)) {
  return {{letter<A>()..., 0}};
}

}  // namespace emu

static inline void __syncthreads() {
  if (!emu::fibers_run) {
    std::fprintf(stderr, "stand-in GPU: a barrier in a kernel that is not exported with barriers\n");
    std::abort();
  }
  const Dim3 me = threadIdx;
  emu::leave();
  threadIdx = me;
}

// dims: grid x, y, z, block x, y, z. Gives 0, or 1 if a barrier was missed.
#define EXPORT_KERNEL_AS(NAME, BARRIERS)                                               \
  extern "C" int NAME##__launch(const unsigned *dims, void **args) {                   \
    return emu::launch(dims, BARRIERS, [args] { emu::call(&NAME, args); });            \
  }                                                                                    \
  extern "C" const auto NAME##__arguments = emu::letters(&NAME);
#define EXPORT_KERNEL(NAME) EXPORT_KERNEL_AS(NAME, false)
#define EXPORT_KERNEL_WITH_BARRIERS(NAME) EXPORT_KERNEL_AS(NAME, true)
