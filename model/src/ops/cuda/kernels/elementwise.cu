// One value at a time.

// Whether a ReLU that gave v lets the gradient through. NaN does.
__device__ inline bool is_open(f32 v) { return !(v <= 0.0f); }

template <class T>
__device__ inline void set_bits(u8 *bits, const T *y, i64 n) {
  FOR_EACH(byte, (n + 7) / 8) {
    const i64 first = byte * 8;
    u32 set = 0;
    if (first + 8 <= n && aligned(y)) {
      const i32 V = Wide<T>::VALUES;
      for (i32 part = 0; part < 8; part += V) {
        f32 values[V];
        load(values, y + first + part);
        for (i32 k = 0; k < V; k++) set |= (u32)is_open(values[k]) << (part + k);
      }
    } else {
      for (i32 k = 0; k < 8 && first + k < n; k++) set |= (u32)is_open(widen(y[first + k])) << k;
    }
    bits[byte] = (u8)set;
  }
}

template <class T>
__device__ inline void masked(T *dx, const T *dy, const u8 *bits, i64 n) {
  const i32 V = Wide<T>::VALUES;
  const i64 packs = aligned(dx, dy) ? n / V : 0;
  FOR_EACH(i, packs) {
    f32 values[V];
    load(values, dy + i * V);
    // Groups of V values do not cross bytes.
    const u32 set = bits_of(bits, i * V);
    for (i32 k = 0; k < V; k++) values[k] = set >> k & 1 ? values[k] : 0.0f;
    store(dx + i * V, values);
  }
  FOR_EACH(i, n - packs * V) {
    const i64 at = packs * V + i;
    dx[at] = narrow<T>(bits_of(bits, at) & 1 ? widen(dy[at]) : 0.0f);
  }
}

template <class To, class From>
__device__ inline void cast(To *y, const From *x, i64 n) {
  const i64 packs = aligned(y, x) ? n / 4 : 0;
  FOR_EACH(i, packs) {
    f32 values[4];
    load(values, x + i * 4);
    store(y + i * 4, values);
  }
  FOR_EACH(i, n - packs * 4) y[packs * 4 + i] = narrow<To>(widen(x[packs * 4 + i]));
}

template <i32 V, class T, class From>
__device__ inline i32 normalise(T *y, const From *x, const f32 *subtract, const f32 *factor, const f32 *fill, i64 pixels, i32 c) {
  i32 absent = 0;
  f32 minus[V], by[V], instead[V];
  each_pixel<V, 4, Pack<From, V>>(
      pixels, c,
      [&](i32 channel) {
        load(minus, subtract + channel);
        load(by, factor + channel);
        load(instead, fill + channel);
      },
      [&](Pack<From, V> &v, i64 at) { v.fetch(x + at); },
      [&](const Pack<From, V> &v, i64 at) {
        f32 values[V];
        v.widen_to(values);
        for (i32 k = 0; k < V; k++) {
          values[k] = (values[k] - minus[k]) * by[k];
          if (values[k] != values[k]) {
            values[k] = instead[k];
            absent++;
          }
        }
        store(y + at, values);
      });
  return absent;
}

#define KERNELS(S, T)                                                                                             \
  GLOBAL relu_##S(T *y, const T *x, i64 n) {                                                  \
    map(y, x, n, [](f32 v, i64) { return rectified(v); });                                                        \
  }                                                                                                               \
  EXPORT_KERNEL(relu_##S)                                                                                         \
  GLOBAL relu_backward_##S(T *dx, const T *dy, const T *y, i64 n) {                           \
    zip(dx, dy, y, n, [](f32 g, f32 v) { return is_open(v) ? g : 0.0f; });                                        \
  }                                                                                                               \
  EXPORT_KERNEL(relu_backward_##S)                                                                                \
  GLOBAL leaky_relu_##S(T *y, const T *x, f32 slope, i64 n) {                                 \
    map(y, x, n, [slope](f32 v, i64) { return v > 0.0f ? v : slope * v; });                                       \
  }                                                                                                               \
  EXPORT_KERNEL(leaky_relu_##S)                                                                                   \
  GLOBAL leaky_relu_backward_##S(T *dx, const T *dy, const T *y, f32 slope, i64 n) {          \
    zip(dx, dy, y, n, [slope](f32 g, f32 v) { return v > 0.0f ? g : slope * g; });                                \
  }                                                                                                               \
  EXPORT_KERNEL(leaky_relu_backward_##S)                                                                          \
  GLOBAL positive_##S(u8 *bits, const T *y, i64 n) { set_bits(bits, y, n); }                  \
  EXPORT_KERNEL(positive_##S)                                                                                     \
  GLOBAL masked_##S(T *dx, const T *dy, const u8 *bits, i64 n) {                              \
    masked(dx, dy, bits, n);                                                                                      \
  }                                                                                                               \
  EXPORT_KERNEL(masked_##S)                                                                                       \
  GLOBAL add_##S(T *y, const T *a, const T *b, i64 n) {                                       \
    zip(y, a, b, n, [](f32 left, f32 right) { return left + right; });                                            \
  }                                                                                                               \
  EXPORT_KERNEL(add_##S)                                                                                          \
  GLOBAL scale_##S(T *y, const T *x, f32 factor, i64 n) {                                     \
    map(y, x, n, [factor](f32 v, i64) { return v * factor; });                                                    \
  }                                                                                                               \
  EXPORT_KERNEL(scale_##S)                                                                                        \
  GLOBAL fill_##S(T *y, f32 value, i64 n) {                                                   \
    const i32 V = Wide<T>::VALUES;                                                                                \
    const i64 packs = aligned(y) ? n / V : 0;                                                                     \
    f32 values[V];                                                                                                \
    for (i32 k = 0; k < V; k++) values[k] = value;                                                                \
    FOR_EACH(i, packs) store(y + i * V, values);                                                                  \
    FOR_EACH(i, n - packs * V) y[packs * V + i] = narrow<T>(value);                                               \
  }                                                                                                               \
  EXPORT_KERNEL(fill_##S)                                                                                         \
  GLOBAL dropout_##S(T *y, const T *x, u64 key, const u64 *more, u64 threshold, f32 keep, i64 n) {                \
    if (more) key += *more;                                                                                       \
    map(y, x, n, [key, threshold, keep](f32 v, i64 at) {                                                          \
      return mixed(key ^ ((u64)at * 0x9e3779b97f4a7c15ull)) >= threshold ? v * keep : 0.0f;                       \
    });                                                                                                           \
  }                                                                                                               \
  EXPORT_KERNEL(dropout_##S)
EACH_STORAGE(KERNELS)

#define NORMALISE(FROM, TO)                                                                                       \
  GLOBAL normalise_##FROM##_##TO(TO *y, u64 *missing, const FROM *x, const f32 *subtract, const f32 *factor,      \
                                 const f32 *fill, i64 pixels, i32 c) {                                            \
    const bool wide = c % 4 == 0 && aligned(y, x, subtract, factor) && aligned(fill);                             \
    const i32 absent = wide ? normalise<4>(y, x, subtract, factor, fill, pixels, c)                               \
                            : normalise<1>(y, x, subtract, factor, fill, pixels, c);                              \
    if (missing && absent > 0) atomicAdd(missing, (u64)absent);                                                   \
  }                                                                                                               \
  EXPORT_KERNEL(normalise_##FROM##_##TO)
NORMALISE(f32, f32)
NORMALISE(f32, bf16)
NORMALISE(f32, f16)
NORMALISE(f16, f32)
NORMALISE(f16, bf16)
NORMALISE(f16, f16)

#define CAST(FROM, TO)                                                                                 \
  GLOBAL cast_##FROM##_##TO(TO *y, const FROM *x, i64 n) { cast(y, x, n); } \
  EXPORT_KERNEL(cast_##FROM##_##TO)
CAST(f32, bf16)
CAST(f32, f16)
CAST(bf16, f32)
CAST(bf16, f16)
CAST(f16, f32)
CAST(f16, bf16)
