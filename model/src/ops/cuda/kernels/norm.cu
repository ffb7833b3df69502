// Batch norm: statistics, application, and the backward pass with statistics of their own, so that ranks can share them.

// Pixels that a thread has on their way at once, where fields are normalised.
enum { APPLY_BATCH = 4, BACKWARD_BATCH = 2 };

// d = x − k and its square, with k the first value of the thread: no digits are lost where the mean is large.
template <class T, i32 V>
struct MomentTerm {
  const T *x;
  i32 c;
  f32 shift[V];
  __device__ void begin(i32 channel, i64 first) { load(shift, x + first * c + channel); }
  enum { BATCH = 8 };
  typedef Pack<T, V> Values;
  __device__ void read(Values &v, i64 pixel, i32 channel) { v.fetch(x + pixel * c + channel); }
  __device__ void add(const Values &v, i64, i32, f32 (&part)[2][V]) {
    f32 value[V];
    v.widen_to(value);
    for (i32 k = 0; k < V; k++) {
      const f32 d = value[k] - shift[k];
      part[0][k] += d;
      part[1][k] += d * d;
    }
  }
  __device__ void end(f64 (&sums)[2][V], i64 count) {
    for (i32 k = 0; k < V; k++) {
      const f64 by = shift[k];
      sums[1][k] += 2.0 * by * sums[0][k] + (f64)count * by * by;
      sums[0][k] += (f64)count * by;
    }
  }
};

// What of dy a ReLU lets through; where its result is NaN, all.
enum Gate { OPEN = 0, RECOMPUTED = 1, FROM_OUTPUT = 2, FROM_BITS = 3 };

template <class T>
struct Gated {
  const T *dy, *x, *y;
  const u8 *bits;
  i32 gate, c;
  template <i32 V>
  struct Values {
    Pack<T, V> g, value, out;
    u32 set;
  };
  // What is needed of V values from number `at` on.
  template <i32 V>
  __device__ void fetch(Values<V> &v, i64 at) const {
    v.g.fetch(dy + at);
    v.value.fetch(x + at);
    if (gate == FROM_OUTPUT) v.out.fetch(y + at);
    // Groups of V values do not cross bytes.
    if (gate == FROM_BITS) v.set = bits_of(bits, at);
  }
  // g and x of them.
  template <i32 V>
  __device__ void open(const Values<V> &v, f32 (&g)[V], f32 (&value)[V], const f32 (&scale)[V], const f32 (&shift)[V]) const {
    v.g.widen_to(g);
    v.value.widen_to(value);
    if (gate == RECOMPUTED) {
      for (i32 k = 0; k < V; k++)
        if (fmaf(value[k], scale[k], shift[k]) <= 0.0f) g[k] = 0.0f;
    } else if (gate == FROM_OUTPUT) {
      f32 out[V];
      v.out.widen_to(out);
      for (i32 k = 0; k < V; k++)
        if (out[k] <= 0.0f) g[k] = 0.0f;
    } else if (gate == FROM_BITS) {
      for (i32 k = 0; k < V; k++)
        if (!(v.set >> k & 1)) g[k] = 0.0f;
    }
  }
};

template <class T, i32 V>
struct BackwardTerm {
  Gated<T> from;
  T *masked;
  // mean, inv_std, variance, scale, shift of each channel.
  const f32 *saved;
  f32 mean[V], scale[V], shift[V];
  i32 at;
  __device__ void begin(i32 channel, i64) {
    const i64 c = from.c;
    at = channel;
    load(mean, saved + channel);
    load(scale, saved + 3 * c + channel);
    load(shift, saved + 4 * c + channel);
  }
  enum { BATCH = sizeof(T) == 4 ? 4 : 8 };
  typedef typename Gated<T>::template Values<V> Values;
  __device__ void read(Values &v, i64 pixel, i32 channel) { from.fetch(v, pixel * from.c + channel); }
  __device__ void add(const Values &v, i64 pixel, i32 channel, f32 (&part)[2][V]) {
    f32 g[V], value[V];
    from.open(v, g, value, scale, shift);
    for (i32 k = 0; k < V; k++) {
      part[0][k] += g[k];
      part[1][k] += g[k] * (value[k] - mean[k]);
    }
    if (masked) store(masked + pixel * from.c + channel, g);
  }
  __device__ void end(f64 (&sums)[2][V], i64) {
    for (i32 k = 0; k < V; k++) sums[1][k] *= (f64)saved[from.c + at + k];
  }
};

template <i32 V, class T>
__device__ inline void apply(T *y, const T *x, const f32 *scale, const f32 *shift, const T *residual, bool relu, i64 pixels, i32 c) {
  struct Values {
    Pack<T, V> value, more;
  };
  f32 by[V], plus[V];
  for (i32 k = 0; k < V; k++) by[k] = 1.0f, plus[k] = 0.0f;
  each_pixel<V, APPLY_BATCH, Values>(
      pixels, c,
      [&](i32 channel) {
        if (scale) load(by, scale + channel);
        if (shift) load(plus, shift + channel);
      },
      [&](Values &v, i64 at) {
        v.value.fetch(x + at);
        if (residual) v.more.fetch(residual + at);
      },
      [&](const Values &v, i64 at) {
        f32 values[V], more[V];
        v.value.widen_to(values);
        if (residual) v.more.widen_to(more);
        for (i32 k = 0; k < V; k++) {
          values[k] = fmaf(values[k], by[k], plus[k]);
          if (residual) values[k] += more[k];
          if (relu) values[k] = rectified(values[k]);
        }
        store(y + at, values);
      });
}

template <i32 V, class T>
__device__ inline void backward_apply(T *dx, Gated<T> from, const f32 *factors, const f32 *saved, i64 pixels) {
  typedef typename Gated<T>::template Values<V> Values;
  const i64 c = from.c;
  f32 scale[V], shift[V], by_g[V], by_x[V], plus[V];
  each_pixel<V, BACKWARD_BATCH, Values>(
      pixels, from.c,
      [&](i32 channel) {
        load(scale, saved + 3 * c + channel);
        load(shift, saved + 4 * c + channel);
        load(by_g, factors + channel);
        load(by_x, factors + c + channel);
        load(plus, factors + 2 * c + channel);
      },
      [&](Values &values, i64 at) { from.fetch(values, at); },
      [&](const Values &values, i64 at) {
        f32 g[V], value[V];
        from.open(values, g, value, scale, shift);
        for (i32 k = 0; k < V; k++) g[k] = fmaf(by_g[k], g[k], fmaf(by_x[k], value[k], plus[k]));
        store(dx + at, g);
      });
}

// Sums are of four channels a thread: more threads, with more pixels of each on their way.
#define KERNELS(S, T)                                                                                                 \
  SUMMING norm_moments_##S(f64 *partial, const T *x, i64 pixels, i32 c) {   \
    const i32 V = 4;                                                                                                   \
    if (c % V == 0 && aligned(x))                                                                                     \
      sum_channels<V, 2>(partial, pixels, c, MomentTerm<T, V>{x, c});                                                 \
    else                                                                                                              \
      sum_channels<1, 2>(partial, pixels, c, MomentTerm<T, 1>{x, c});                                                 \
  }                                                                                                                   \
  EXPORT_KERNEL_WITH_BARRIERS(norm_moments_##S)                                                                       \
  GLOBAL norm_apply_##S(T *y, const T *x, const f32 *scale, const f32 *shift, const T *residual,  \
                                            i32 relu, i64 pixels, i32 c) {                                            \
    const i32 V = Wide<T>::VALUES;                                                                                    \
    if (c % V == 0 && aligned(y, x, residual) && aligned(scale, shift))                                               \
      apply<V>(y, x, scale, shift, residual, relu, pixels, c);                                                        \
    else                                                                                                              \
      apply<1>(y, x, scale, shift, residual, relu, pixels, c);                                                        \
  }                                                                                                                   \
  EXPORT_KERNEL(norm_apply_##S)                                                                                       \
  SUMMING                                                                   \
      norm_backward_sums_##S(f64 *partial, T *masked, const T *dy, const T *x, const f32 *saved, i32 gate,            \
                             const T *y, const u8 *bits, i64 pixels, i32 c) {                                         \
    const i32 V = 4;                                                                                                   \
    const Gated<T> from = {dy, x, y, bits, gate, c};                                                                  \
    if (c % V == 0 && aligned(masked, dy, x, y) && aligned(saved))                                                    \
      sum_channels<V, 2>(partial, pixels, c, BackwardTerm<T, V>{from, masked, saved});                                \
    else                                                                                                              \
      sum_channels<1, 2>(partial, pixels, c, BackwardTerm<T, 1>{from, masked, saved});                                \
  }                                                                                                                   \
  EXPORT_KERNEL_WITH_BARRIERS(norm_backward_sums_##S)                                                                 \
  SUMMING norm_backward_apply_##S(T *dx, const T *dy, const T *x, const f32 *factors,              \
                                                     const f32 *saved, i32 gate, const T *y, const u8 *bits,          \
                                                     i64 pixels, i32 c) {                                             \
    const i32 V = Wide<T>::VALUES;                                                                                    \
    const Gated<T> from = {dy, x, y, bits, gate, c};                                                                  \
    if (c % V == 0 && aligned(dx, dy, x, y) && aligned(factors, saved))                                               \
      backward_apply<V>(dx, from, factors, saved, pixels);                                                            \
    else                                                                                                              \
      backward_apply<1>(dx, from, factors, saved, pixels);                                                            \
  }                                                                                                                   \
  EXPORT_KERNEL(norm_backward_apply_##S)
EACH_STORAGE(KERNELS)

GLOBAL norm_collect(f64 *sums, const f64 *partial, i32 chunks, i32 c, i64 pixels) {
  f64 both[2];
  i32 channel;
  if (add_chunks(both, partial, chunks, c, channel)) {
    if (channel == 0) sums[0] = (f64)pixels;
    sums[1 + channel] = both[0];
    sums[1 + (i64)c + channel] = both[1];
  }
}
EXPORT_KERNEL_WITH_BARRIERS(norm_collect)

// What a channel is normalised by, from the sums over `pixels`.
__device__ inline void finish_channel(
    f32 *saved, f64 sum, f64 squares, f64 pixels, const f32 *gamma, const f32 *beta, f32 eps, i64 i, i64 c
) {
  const f64 mean = sum / pixels;
  f64 variance = squares / pixels - mean * mean;
  // Rounding may leave less than nothing of a constant channel; NaN stays.
  if (variance < 0.0) variance = 0.0;
  const f32 inv_std = (f32)(1.0 / sqrt(variance + (f64)eps)), scale = gamma[i] * inv_std;
  saved[i] = (f32)mean;
  saved[c + i] = inv_std;
  saved[2 * c + i] = (f32)variance;
  saved[3 * c + i] = scale;
  saved[4 * c + i] = beta[i] - (f32)mean * scale;
}

GLOBAL norm_finish(f32 *saved, const f64 *sums, const f32 *gamma, const f32 *beta, f32 eps, i32 c) {
  FOR_EACH(i, c) finish_channel(saved, sums[1 + i], sums[1 + c + i], sums[0], gamma, beta, eps, i, c);
}
EXPORT_KERNEL(norm_finish)

// `norm_collect` and `norm_finish` in one, where no rank adds to the sums.
GLOBAL norm_collect_finish(
    f32 *saved, const f64 *partial, const f32 *gamma, const f32 *beta, f32 eps, i32 chunks, i32 c, i64 pixels
) {
  f64 both[2];
  i32 channel;
  if (add_chunks(both, partial, chunks, c, channel))
    finish_channel(saved, both[0], both[1], (f64)pixels, gamma, beta, eps, channel, c);
}
EXPORT_KERNEL_WITH_BARRIERS(norm_collect_finish)

GLOBAL norm_backward_collect(f64 *sums, f32 *dgamma, f32 *dbeta, const f64 *partial, i32 chunks, i32 c) {
  f64 both[2];
  i32 channel;
  if (add_chunks(both, partial, chunks, c, channel)) {
    sums[channel] = both[0];
    sums[c + channel] = both[1];
    dbeta[channel] += (f32)both[0];
    dgamma[channel] += (f32)both[1];
  }
}
EXPORT_KERNEL_WITH_BARRIERS(norm_backward_collect)

// a, b, c of dx = a g + b x + c of a channel, from Σ g and Σ g x̂.
__device__ inline void channel_factors(
    f32 *factors, f64 sum, f64 product, const f32 *saved, const f32 *gamma, f64 pixels, i64 i, i64 c
) {
  const f64 mean = saved[i], inv_std = saved[c + i], lead = (f64)gamma[i] * inv_std;
  factors[i] = (f32)lead;
  factors[c + i] = (f32)(-lead * inv_std * product / pixels);
  factors[2 * c + i] = (f32)(-lead * sum / pixels + lead * inv_std * mean * product / pixels);
}

GLOBAL norm_backward_factors(f32 *factors, const f64 *sums, const f32 *saved, const f32 *gamma, f64 pixels, i32 c) {
  FOR_EACH(i, c) channel_factors(factors, sums[i], sums[c + i], saved, gamma, pixels, i, c);
}
EXPORT_KERNEL(norm_backward_factors)

// `norm_backward_collect` and `norm_backward_factors` in one, where no rank adds to the sums.
GLOBAL norm_backward_finish(
    f32 *factors, f32 *dgamma, f32 *dbeta, const f64 *partial, const f32 *saved, const f32 *gamma, f64 pixels, i32 chunks, i32 c
) {
  f64 both[2];
  i32 channel;
  if (add_chunks(both, partial, chunks, c, channel)) {
    dbeta[channel] += (f32)both[0];
    dgamma[channel] += (f32)both[1];
    channel_factors(factors, both[0], both[1], saved, gamma, pixels, channel, c);
  }
}
EXPORT_KERNEL_WITH_BARRIERS(norm_backward_finish)
