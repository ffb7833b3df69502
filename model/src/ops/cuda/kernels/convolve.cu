// Convolutions between channels as they are written down: for those that cuDNN has no deterministic algorithm for. Slow.
//
// Kernels are (o, kh, kw, c / groups), as cuDNN has them. Sums of a tap are f32, those of taps and pixels f64.

struct Extents {
  i32 b, h, w, c, p, q, o, kh, kw, pad_h, pad_w, stride, dilation, groups;
  __device__ i32 inner() const { return c / groups; }
  __device__ i32 outer() const { return o / groups; }
  // The output that sees input `at` by tap r, or -1.
  __device__ i32 output(i32 at, i32 r, i32 pad, i32 count) const {
    const i32 from = at + pad - r * dilation;
    return from >= 0 && from % stride == 0 && from / stride < count ? from / stride : -1;
  }
};

template <class T>
__device__ inline void forward(T *y, const T *x, const T *weights, Extents g) {
  const i32 inner = g.inner();
  FOR_EACH(i, (i64)g.b * g.p * g.q * g.o) {
    i32 o, q, p;
    const i64 pixel = divided(i, g.o, o), line = divided(pixel, g.q, q), sample = divided(line, g.p, p);
    f64 sum = 0;
    for (i32 r = 0; r < g.kh; r++) {
      const i32 h = p * g.stride + r * g.dilation - g.pad_h;
      if (h < 0 || h >= g.h) continue;
      for (i32 s = 0; s < g.kw; s++) {
        const i32 w = q * g.stride + s * g.dilation - g.pad_w;
        if (w < 0 || w >= g.w) continue;
        const T *values = x + ((sample * g.h + h) * g.w + w) * g.c + o / g.outer() * inner;
        const T *factors = weights + (((i64)o * g.kh + r) * g.kw + s) * inner;
        f32 tap = 0;
        for (i32 k = 0; k < inner; k++) tap += widen(values[k]) * widen(factors[k]);
        sum += tap;
      }
    }
    y[i] = narrow<T>((f32)sum);
  }
}

template <class T>
__device__ inline void backward_data(T *dx, const T *weights, const T *dy, Extents g) {
  const i32 inner = g.inner(), outer = g.outer();
  FOR_EACH(i, (i64)g.b * g.h * g.w * g.c) {
    i32 c, w, h;
    const i64 pixel = divided(i, g.c, c), line = divided(pixel, g.w, w), sample = divided(line, g.h, h);
    const i32 first = c / inner * outer;
    f64 sum = 0;
    for (i32 r = 0; r < g.kh; r++) {
      const i32 p = g.output(h, r, g.pad_h, g.p);
      if (p < 0) continue;
      for (i32 s = 0; s < g.kw; s++) {
        const i32 q = g.output(w, s, g.pad_w, g.q);
        if (q < 0) continue;
        const T *slopes = dy + ((sample * g.p + p) * g.q + q) * g.o;
        f32 tap = 0;
        for (i32 o = first; o < first + outer; o++)
          tap += widen(slopes[o]) * widen(weights[(((i64)o * g.kh + r) * g.kw + s) * inner + c % inner]);
        sum += tap;
      }
    }
    dx[i] = narrow<T>((f32)sum);
  }
}

template <class T>
__device__ inline void backward_filter(T *dw, const T *x, const T *dy, Extents g) {
  const i32 inner = g.inner();
  FOR_EACH(i, (i64)g.o * g.kh * g.kw * inner) {
    i32 k, s, r;
    const i64 tap = divided(i, inner, k), row = divided(tap, g.kw, s), o = divided(row, g.kh, r);
    const i32 c = (i32)(o / g.outer()) * inner + k;
    f64 sum = 0;
    for (i64 line = 0; line < (i64)g.b * g.p; line++) {
      i32 p;
      const i64 sample = divided(line, g.p, p);
      const i32 h = p * g.stride + r * g.dilation - g.pad_h;
      if (h < 0 || h >= g.h) continue;
      for (i32 q = 0; q < g.q; q++) {
        const i32 w = q * g.stride + s * g.dilation - g.pad_w;
        if (w < 0 || w >= g.w) continue;
        sum += widen(x[((sample * g.h + h) * g.w + w) * g.c + c]) * widen(dy[(line * g.q + q) * g.o + o]);
      }
    }
    dw[i] = narrow<T>((f32)sum);
  }
}

// What each output sees, side by side: (pixels, k) with k at least taps · channels and a multiple of V; what is beyond the field or them is 0.
template <class T>
__device__ inline void patches(T *y, const T *x, const Geometry &g, i32 k) {
  const i32 V = Wide<T>::VALUES, packs = k / V;
  FOR_EACH(i, (i64)g.b * g.p * g.q * packs) {
    i32 pack, column, row;
    const i64 pixel = divided(i, packs, pack), line = divided(pixel, g.q, column), sample = divided(line, g.p, row);
    f32 values[V];
    for (i32 j = 0; j < V; j++) {
      const i32 at = pack * V + j, tap = at / g.c, r = tap / g.kw;
      values[j] = 0.0f;
      if (r >= g.kh) continue;
      const i32 at_h = g.row(row, r), at_w = g.column(column, tap - r * g.kw);
      if (at_h >= 0 && at_w >= 0) values[j] = widen(x[((sample * g.h + at_h) * g.w + at_w) * g.c + (at - tap * g.c)]);
    }
    store(y + i * V, values);
  }
}

// What inputs of few channels get from the products of each output by the kernels that see them: parts is (b, p, q, o), of which the first taps · c
// are products.
__device__ inline void gather(f32 *dx, const f32 *parts, Extents g) {
  FOR_EACH(i, (i64)g.b * g.h * g.w * g.c) {
    i32 c, w, h;
    const i64 pixel = divided(i, g.c, c), line = divided(pixel, g.w, w), sample = divided(line, g.h, h);
    f32 sum = 0;
    for (i32 r = 0; r < g.kh; r++) {
      const i32 p = g.output(h, r, g.pad_h, g.p);
      if (p < 0) continue;
      for (i32 s = 0; s < g.kw; s++) {
        const i32 q = g.output(w, s, g.pad_w, g.q);
        if (q >= 0) sum += parts[((sample * g.p + p) * g.q + q) * g.o + (r * g.kw + s) * g.c + c];
      }
    }
    dx[i] = sum;
  }
}

#define EXTENTS i32 b, i32 h, i32 w, i32 c, i32 p, i32 q, i32 o, i32 kh, i32 kw, i32 pad_h, i32 pad_w, i32 stride, i32 dilation, i32 groups
#define GIVEN Extents{b, h, w, c, p, q, o, kh, kw, pad_h, pad_w, stride, dilation, groups}
#define KERNELS(S, T)                                                                                                   \
  GLOBAL convolve_##S(T *y, const T *x, const T *weights, EXTENTS) { forward(y, x, weights, GIVEN); }                \
  EXPORT_KERNEL(convolve_##S)                                                                                           \
  GLOBAL convolve_backward_data_##S(T *dx, const T *weights, const T *dy, EXTENTS) {                                    \
    backward_data(dx, weights, dy, GIVEN);                                                                           \
  }                                                                                                                     \
  EXPORT_KERNEL(convolve_backward_data_##S)                                                                             \
  GLOBAL convolve_backward_filter_##S(T *dw, const T *x, const T *dy, EXTENTS) {                                        \
    backward_filter(dw, x, dy, GIVEN);                                                                               \
  }                                                                                                                     \
  EXPORT_KERNEL(convolve_backward_filter_##S)                                                                              \
  GLOBAL patches_##S(T *y, const T *x, GEOMETRY, i32 k) {                                                                \
    patches(y, x, Geometry{b, h, w, c, p, q, kh, kw, stride, dilation, pad_h, pad_w, periodic}, k);                      \
  }                                                                                                                    \
  EXPORT_KERNEL(patches_##S)
EACH_STORAGE(KERNELS)

GLOBAL gather_f32(f32 *dx, const f32 *parts, EXTENTS) { gather(dx, parts, GIVEN); }
EXPORT_KERNEL(gather_f32)
