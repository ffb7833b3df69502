// Kernels of convolutions between the order of parameters, (outer, inner, taps), and cuDNN's, (outer, taps, inner).

template <class T>
__device__ inline void to_taps(T *y, const f32 *w, const f32 *scale, bool scale_inner, i32 outer, i32 inner, i32 taps) {
  FOR_EACH(i, (i64)outer * inner * taps) {
    i32 in, tap;
    const i64 line = divided(i, inner, in), out = divided(line, taps, tap);
    const f32 by = scale ? scale[scale_inner ? in : out] : 1.0f;
    y[i] = narrow<T>(w[(out * inner + in) * taps + tap] * by);
  }
}

template <class T>
__device__ inline void add_from_taps(f32 *dw, const T *dk, i32 outer, i32 inner, i32 taps) {
  FOR_EACH(i, (i64)outer * inner * taps) {
    i32 in, tap;
    const i64 line = divided(i, taps, tap), out = divided(line, inner, in);
    dw[i] += widen(dk[(out * taps + tap) * inner + in]);
  }
}

#define KERNELS(S, T)                                                                                             \
  GLOBAL filter_to_taps_##S(T *y, const f32 *w, const f32 *scale, i32 scale_inner, i32 outer, i32 inner, i32 taps) { \
    to_taps(y, w, scale, scale_inner, outer, inner, taps);                                                        \
  }                                                                                                               \
  EXPORT_KERNEL(filter_to_taps_##S)                                                                               \
  GLOBAL filter_add_from_taps_##S(f32 *dw, const T *dk, i32 outer, i32 inner, i32 taps) {                         \
    add_from_taps(dw, dk, outer, inner, taps);                                                                    \
  }                                                                                                               \
  EXPORT_KERNEL(filter_add_from_taps_##S)
EACH_STORAGE(KERNELS)
