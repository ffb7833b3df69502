/* One small C interface over oneDNN, the same for API v2 (Debian 12) and v3: convolutions on plain NHWC activations,
 * f32 or bf16, and plain f32 OIHW weights, and matrix products. Everything else of Squall is written without oneDNN. */
#define _GNU_SOURCE /* RTLD_DEFAULT */
#include <dlfcn.h>
#include <dnnl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define V3 (DNNL_VERSION_MAJOR >= 3)

enum { FORWARD = 0, BACKWARD_DATA = 1, BACKWARD_WEIGHTS = 2 };

typedef struct {
    int64_t kind, batch, channels_in, height_in, width_in, channels_out, height_out, width_out;
    int64_t kernel_h, kernel_w, stride, dilation, groups;
    int64_t pad_top, pad_bottom, pad_left, pad_right;
    int64_t bias, sum, relu;
    int64_t bf16; /* activations, and the kernels that meet them; bias and the kernels' gradient are f32 */
} squall_conv_desc;

#define LAYOUT_AXES 6

typedef struct {
    int64_t kind, rank, blocks; /* kind: of value */
    int64_t padded[LAYOUT_AXES], strides[LAYOUT_AXES], block_sizes[LAYOUT_AXES], block_axes[LAYOUT_AXES];
} squall_layout;

typedef struct {
    dnnl_primitive_t primitive, reorder;
    dnnl_memory_t src, weights_plain, weights, bias, dst, scratchpad;
    size_t weights_bytes, scratchpad_bytes;
    char implementation[64];
} squall_conv;

static dnnl_engine_t the_engine = NULL;
static pthread_once_t engine_once = PTHREAD_ONCE_INIT;

static void create_engine(void) { dnnl_engine_create(&the_engine, dnnl_cpu, 0); }

/* Ranks that are threads may ask for it at the same time. */
static dnnl_engine_t engine(void) {
    pthread_once(&engine_once, create_engine);
    return the_engine;
}

/* Primitives are made and dropped one at a time: when several threads make some at once, oneDNN 2.6 now and then returns one
 * that computes something else, and goes on doing so. */
static pthread_mutex_t making = PTHREAD_MUTEX_INITIALIZER;

static _Thread_local dnnl_stream_t thread_stream = NULL;

static dnnl_stream_t stream(void) {
    if (!thread_stream) dnnl_stream_create(&thread_stream, engine(), dnnl_stream_default_flags);
    return thread_stream;
}

#if V3
typedef dnnl_memory_desc_t descriptor;
static dnnl_status_t describe(descriptor *md, int rank, const int64_t *dims, dnnl_data_type_t type, dnnl_format_tag_t tag) {
    return dnnl_memory_desc_create_with_tag(md, rank, dims, type, tag);
}
static void release(descriptor md) { if (md) dnnl_memory_desc_destroy(md); }
typedef const_dnnl_memory_desc_t queried;
#define QUERIED(md) (md)
#define POINTER(md) (md)
static size_t bytes_of(queried md) { return dnnl_memory_desc_get_size(md); }
#else
typedef dnnl_memory_desc_t descriptor;
static dnnl_status_t describe(descriptor *md, int rank, const int64_t *dims, dnnl_data_type_t type, dnnl_format_tag_t tag) {
    return dnnl_memory_desc_init_by_tag(md, rank, dims, type, tag);
}
static void release(descriptor md) { (void)md; }
typedef const dnnl_memory_desc_t *queried;
#define POINTER(md) (&(md))
static size_t bytes_of(queried md) { return dnnl_memory_desc_get_size(md); }
#endif

#define TRY(call) do { status = (call); if (status != dnnl_success) goto done; } while (0)

static dnnl_status_t create_pd(dnnl_primitive_desc_t *pd, const squall_conv_desc *d, descriptor src, descriptor weights,
                               descriptor dweights, descriptor bias, descriptor dst, dnnl_primitive_attr_t attr) {
    dnnl_dims_t strides = {d->stride, d->stride}, dilates = {d->dilation - 1, d->dilation - 1};
    dnnl_dims_t low = {d->pad_top, d->pad_left}, high = {d->pad_bottom, d->pad_right};
    const dnnl_alg_kind_t algorithm = dnnl_convolution_direct;
    dnnl_status_t status;
    dnnl_primitive_desc_t hint = NULL;
#if V3
    queried with_bias = d->bias ? bias : NULL;
    if (d->kind == FORWARD)
        return dnnl_convolution_forward_primitive_desc_create(pd, engine(), dnnl_forward_training, algorithm, src, weights,
                                                              with_bias, dst, strides, dilates, low, high, attr);
    status = dnnl_convolution_forward_primitive_desc_create(&hint, engine(), dnnl_forward_training, algorithm, src,
                                                            weights, NULL, dst, strides, dilates, low, high, NULL);
    if (status != dnnl_success) return status;
    if (d->kind == BACKWARD_DATA)
        status = dnnl_convolution_backward_data_primitive_desc_create(pd, engine(), algorithm, src, weights, dst, strides,
                                                                      dilates, low, high, hint, attr);
    else
        status = dnnl_convolution_backward_weights_primitive_desc_create(pd, engine(), algorithm, src, dweights, NULL, dst,
                                                                         strides, dilates, low, high, hint, attr);
#else
    dnnl_convolution_desc_t op;
    status = dnnl_dilated_convolution_forward_desc_init(&op, dnnl_forward_training, algorithm, &src, &weights,
                                                        d->kind == FORWARD && d->bias ? &bias : NULL, &dst, strides,
                                                        dilates, low, high);
    if (status != dnnl_success) return status;
    if (d->kind == FORWARD) return dnnl_primitive_desc_create(pd, &op, attr, engine(), NULL);
    status = dnnl_primitive_desc_create(&hint, &op, NULL, engine(), NULL);
    if (status != dnnl_success) return status;
    if (d->kind == BACKWARD_DATA)
        status = dnnl_dilated_convolution_backward_data_desc_init(&op, algorithm, &src, &weights, &dst, strides, dilates,
                                                                  low, high);
    else
        status = dnnl_dilated_convolution_backward_weights_desc_init(&op, algorithm, &src, &dweights, NULL, &dst, strides,
                                                                     dilates, low, high);
    if (status == dnnl_success) status = dnnl_primitive_desc_create(pd, &op, attr, engine(), hint);
#endif
    dnnl_primitive_desc_destroy(hint);
    return status;
}

static dnnl_status_t post_ops(dnnl_primitive_attr_t attr, const squall_conv_desc *d) {
    dnnl_post_ops_t ops;
    dnnl_status_t status = dnnl_post_ops_create(&ops);
    if (status != dnnl_success) return status;
#if V3
    if (d->sum) status = dnnl_post_ops_append_sum(ops, 1.0f, 0, dnnl_data_type_undef);
    if (status == dnnl_success && d->relu) status = dnnl_post_ops_append_eltwise(ops, dnnl_eltwise_relu, 0.0f, 0.0f);
#else
    if (d->sum) status = dnnl_post_ops_append_sum(ops, 1.0f);
    if (status == dnnl_success && d->relu) status = dnnl_post_ops_append_eltwise(ops, 1.0f, dnnl_eltwise_relu, 0.0f, 0.0f);
#endif
    if (status == dnnl_success) status = dnnl_primitive_attr_set_post_ops(attr, ops);
    dnnl_post_ops_destroy(ops);
    return status;
}

static void destroy(squall_conv *conv) {
    if (conv->primitive) dnnl_primitive_destroy(conv->primitive);
    if (conv->reorder) dnnl_primitive_destroy(conv->reorder);
    if (conv->src) dnnl_memory_destroy(conv->src);
    if (conv->weights_plain) dnnl_memory_destroy(conv->weights_plain);
    if (conv->weights) dnnl_memory_destroy(conv->weights);
    if (conv->bias) dnnl_memory_destroy(conv->bias);
    if (conv->dst) dnnl_memory_destroy(conv->dst);
    if (conv->scratchpad) dnnl_memory_destroy(conv->scratchpad);
    free(conv);
}

void squall_conv_destroy(squall_conv *conv) {
    if (!conv) return;
    pthread_mutex_lock(&making);
    destroy(conv);
    pthread_mutex_unlock(&making);
}

/* Builds a convolution primitive; 0 and *out on success, else a dnnl_status_t. */
int squall_conv_create(squall_conv **out, const squall_conv_desc *d) {
    *out = NULL;
    squall_conv *conv = calloc(1, sizeof *conv);
    if (!conv) return dnnl_out_of_memory;
    const int grouped = d->groups > 1, rank = grouped ? 5 : 4;
    const dnnl_dims_t src_dims = {d->batch, d->channels_in, d->height_in, d->width_in};
    const dnnl_dims_t dst_dims = {d->batch, d->channels_out, d->height_out, d->width_out};
    const dnnl_dims_t bias_dims = {d->channels_out};
    const dnnl_dims_t grouped_dims = {d->groups, d->channels_out / d->groups, d->channels_in / d->groups, d->kernel_h, d->kernel_w};
    const dnnl_dims_t plain_dims = {d->channels_out, d->channels_in, d->kernel_h, d->kernel_w};
    const int64_t *weight_dims = grouped ? grouped_dims : plain_dims;
    const dnnl_data_type_t type = d->bf16 ? dnnl_bf16 : dnnl_f32;
    descriptor src, dst, bias, any, any_f32, plain;
    memset(&src, 0, sizeof src), memset(&dst, 0, sizeof dst), memset(&bias, 0, sizeof bias);
    memset(&any, 0, sizeof any), memset(&any_f32, 0, sizeof any_f32), memset(&plain, 0, sizeof plain);
    dnnl_primitive_attr_t attr = NULL, adding = NULL;
    dnnl_primitive_desc_t pd = NULL, reorder_pd = NULL;
    dnnl_status_t status;
    pthread_mutex_lock(&making);
    TRY(describe(&src, 4, src_dims, type, dnnl_nhwc));
    TRY(describe(&dst, 4, dst_dims, type, dnnl_nhwc));
    TRY(describe(&bias, 1, bias_dims, dnnl_f32, dnnl_x));
    TRY(describe(&any, rank, weight_dims, type, dnnl_format_tag_any));
    TRY(describe(&any_f32, rank, weight_dims, dnnl_f32, dnnl_format_tag_any));
    TRY(describe(&plain, rank, weight_dims, dnnl_f32, grouped ? dnnl_goihw : dnnl_oihw));
    TRY(dnnl_primitive_attr_create(&attr));
    /* Its own would live as long as the primitive, and there is one for every layer: hundreds of megabytes. */
    TRY(dnnl_primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user));
    if (d->kind == FORWARD) TRY(post_ops(attr, d));
    TRY(create_pd(&pd, d, src, any, any_f32, bias, dst, attr));
    TRY(dnnl_primitive_create(&conv->primitive, pd));
    const char *name = NULL;
    dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, &name);
    snprintf(conv->implementation, sizeof conv->implementation, "%s", name ? name : "?");
    queried chosen = dnnl_primitive_desc_query_md(pd, d->kind == BACKWARD_WEIGHTS ? dnnl_query_diff_weights_md : dnnl_query_weights_md, 0);
    conv->weights_bytes = bytes_of(chosen);
    queried room = dnnl_primitive_desc_query_md(pd, dnnl_query_scratchpad_md, 0);
    conv->scratchpad_bytes = bytes_of(room);
    if (conv->scratchpad_bytes) TRY(dnnl_memory_create(&conv->scratchpad, room, engine(), DNNL_MEMORY_NONE));
    TRY(dnnl_memory_create(&conv->src, POINTER(src), engine(), DNNL_MEMORY_NONE));
    TRY(dnnl_memory_create(&conv->dst, POINTER(dst), engine(), DNNL_MEMORY_NONE));
    TRY(dnnl_memory_create(&conv->bias, POINTER(bias), engine(), DNNL_MEMORY_NONE));
    TRY(dnnl_memory_create(&conv->weights_plain, POINTER(plain), engine(), DNNL_MEMORY_NONE));
    TRY(dnnl_memory_create(&conv->weights, chosen, engine(), DNNL_MEMORY_NONE));
    if (d->kind == BACKWARD_WEIGHTS) {
        /* The plain gradient is added to: it would otherwise go through memory twice more. */
        const squall_conv_desc sum = {.sum = 1};
        TRY(dnnl_primitive_attr_create(&adding));
        TRY(post_ops(adding, &sum));
        TRY(dnnl_reorder_primitive_desc_create(&reorder_pd, chosen, engine(), POINTER(plain), engine(), adding));
    } else
        TRY(dnnl_reorder_primitive_desc_create(&reorder_pd, POINTER(plain), engine(), chosen, engine(), NULL));
    TRY(dnnl_primitive_create(&conv->reorder, reorder_pd));
done:
    if (pd) dnnl_primitive_desc_destroy(pd);
    if (reorder_pd) dnnl_primitive_desc_destroy(reorder_pd);
    if (attr) dnnl_primitive_attr_destroy(attr);
    if (adding) dnnl_primitive_attr_destroy(adding);
    release(src), release(dst), release(bias), release(any), release(any_f32), release(plain);
    if (status == dnnl_success) *out = conv;
    else destroy(conv);
    pthread_mutex_unlock(&making);
    return status;
}

/* Bytes of the kernels as the primitive wants them. */
size_t squall_conv_packed_bytes(const squall_conv *conv) { return conv->weights_bytes; }

/* Where each of the kernels lies as the primitive wants them: equal for two primitives whose packed kernels are the same
 * bytes. 0 where oneDNN does not say. */
int squall_conv_layout(const squall_conv *conv, squall_layout *layout) {
    memset(layout, 0, sizeof *layout);
    queried md = NULL;
#if V3
    if (dnnl_memory_get_memory_desc(conv->weights, &md) != dnnl_success) return 0;
    dnnl_format_kind_t kind;
    dnnl_data_type_t type;
    int32_t rank = 0, blocks = 0;
    int64_t *padded = NULL, *strides = NULL, *sizes = NULL, *axes = NULL;
    if (dnnl_memory_desc_query(md, dnnl_query_format_kind, &kind) != dnnl_success || kind != dnnl_blocked) return 0;
    if (dnnl_memory_desc_query(md, dnnl_query_data_type, &type) != dnnl_success) return 0;
    if (dnnl_memory_desc_query(md, dnnl_query_ndims_s32, &rank) != dnnl_success) return 0;
    if (dnnl_memory_desc_query(md, dnnl_query_padded_dims, &padded) != dnnl_success) return 0;
    if (dnnl_memory_desc_query(md, dnnl_query_strides, &strides) != dnnl_success) return 0;
    if (dnnl_memory_desc_query(md, dnnl_query_inner_nblks_s32, &blocks) != dnnl_success) return 0;
    if (dnnl_memory_desc_query(md, dnnl_query_inner_blks, &sizes) != dnnl_success) return 0;
    if (dnnl_memory_desc_query(md, dnnl_query_inner_idxs, &axes) != dnnl_success) return 0;
#else
    if (dnnl_memory_get_memory_desc(conv->weights, &md) != dnnl_success || md->format_kind != dnnl_blocked) return 0;
    const dnnl_blocking_desc_t *blocking = &md->format_desc.blocking;
    const dnnl_data_type_t type = md->data_type;
    const int rank = md->ndims, blocks = blocking->inner_nblks;
    const int64_t *padded = md->padded_dims, *strides = blocking->strides;
    const int64_t *sizes = blocking->inner_blks, *axes = blocking->inner_idxs;
#endif
    if (rank > LAYOUT_AXES || blocks > LAYOUT_AXES) return 0;
    layout->kind = type, layout->rank = rank, layout->blocks = blocks;
    for (int i = 0; i < rank; ++i) layout->padded[i] = padded[i], layout->strides[i] = strides[i];
    for (int i = 0; i < blocks; ++i) layout->block_sizes[i] = sizes[i], layout->block_axes[i] = axes[i];
    return 1;
}

static int repack(squall_conv *conv, void *plain, void *packed, int unpack) {
    dnnl_status_t status;
    TRY(dnnl_memory_set_data_handle(conv->weights_plain, plain));
    TRY(dnnl_memory_set_data_handle(conv->weights, packed));
    dnnl_exec_arg_t args[] = {{unpack ? DNNL_ARG_TO : DNNL_ARG_FROM, conv->weights_plain},
                              {unpack ? DNNL_ARG_FROM : DNNL_ARG_TO, conv->weights}};
    TRY(dnnl_primitive_execute(conv->reorder, stream(), 2, args));
    TRY(dnnl_stream_wait(stream()));
done:
    return status;
}

/* Writes plain kernels as the primitive wants them, at 64 aligned bytes. Not for backward weights. */
int squall_conv_pack(squall_conv *conv, void *plain, void *packed) { return repack(conv, plain, packed, 0); }

/* Runs it. `src` and `dst` are the activations on the input's and the output's side, whichever of them is written;
 * `weights` has `squall_conv_packed_bytes`: read as `squall_conv_pack` wrote it, or written by backward weights, which add
 * it to the plain `gradient`. */
int squall_conv_execute(squall_conv *conv, int64_t kind, void *src, void *weights, void *bias, void *dst, void *gradient) {
    dnnl_status_t status;
    void *room = NULL;
    if (conv->scratchpad_bytes && posix_memalign(&room, 64, conv->scratchpad_bytes)) return dnnl_out_of_memory;
    TRY(dnnl_memory_set_data_handle(conv->src, src));
    TRY(dnnl_memory_set_data_handle(conv->dst, dst));
    TRY(dnnl_memory_set_data_handle(conv->weights, weights));
    if (bias) TRY(dnnl_memory_set_data_handle(conv->bias, bias));
    if (room) TRY(dnnl_memory_set_data_handle(conv->scratchpad, room));
    const int forward = kind == FORWARD, data = kind == BACKWARD_DATA;
    dnnl_exec_arg_t args[] = {{data ? DNNL_ARG_DIFF_SRC : DNNL_ARG_SRC, conv->src},
                              {forward || data ? DNNL_ARG_WEIGHTS : DNNL_ARG_DIFF_WEIGHTS, conv->weights},
                              {forward ? DNNL_ARG_DST : DNNL_ARG_DIFF_DST, conv->dst},
                              {0, NULL}, {0, NULL}};
    int count = 3;
    if (bias) args[count++] = (dnnl_exec_arg_t){DNNL_ARG_BIAS, conv->bias};
    if (room) args[count++] = (dnnl_exec_arg_t){DNNL_ARG_SCRATCHPAD, conv->scratchpad};
    TRY(dnnl_primitive_execute(conv->primitive, stream(), count, args));
    TRY(dnnl_stream_wait(stream()));
    if (kind == BACKWARD_WEIGHTS) TRY(repack(conv, gradient, weights, 1));
done:
    free(room);
    return status;
}

const char *squall_conv_implementation(const squall_conv *conv) { return conv->implementation; }

/* C (m x n) = op(A) B + beta C, row-major; op transposes if `transposed`. */
int squall_gemm(int transposed, int64_t m, int64_t n, int64_t k, const float *a, int64_t lda, const float *b, int64_t ldb,
                float beta, float *c, int64_t ldc) {
    return dnnl_sgemm(transposed ? 'T' : 'N', 'N', m, n, k, 1.0f, a, lda, b, ldb, beta, c, ldc);
}

/* C (m x n, f32) = A B + beta C for bf16 A and B, dense; beta is 0 or 1. C is row-major; A is too, unless `a_transposed`; so is B, unless its
   columns lie `b_column` values apart. */
int squall_gemm_bf16(int a_transposed, int64_t b_column, int64_t m, int64_t n, int64_t k, void *a, void *b, int beta, float *c) {
    const dnnl_dims_t a_dims = {m, k}, a_strides = {a_transposed ? 1 : k, a_transposed ? m : 1};
    const dnnl_dims_t b_dims = {k, n}, b_strides = {b_column ? 1 : n, b_column ? b_column : 1}, c_dims = {m, n};
    dnnl_primitive_t product = NULL;
    dnnl_primitive_desc_t pd = NULL;
    dnnl_primitive_attr_t attr = NULL;
    dnnl_memory_t memory[3] = {NULL, NULL, NULL};
    descriptor a_md, b_md, c_md;
    memset(&a_md, 0, sizeof a_md), memset(&b_md, 0, sizeof b_md), memset(&c_md, 0, sizeof c_md);
    const squall_conv_desc sum = {.sum = beta};
    dnnl_status_t status;
    pthread_mutex_lock(&making);
    TRY(describe(&c_md, 2, c_dims, dnnl_f32, dnnl_ab));
    TRY(dnnl_primitive_attr_create(&attr));
    TRY(post_ops(attr, &sum));
#if V3
    TRY(dnnl_memory_desc_create_with_strides(&a_md, 2, a_dims, dnnl_bf16, a_strides));
    TRY(dnnl_memory_desc_create_with_strides(&b_md, 2, b_dims, dnnl_bf16, b_strides));
    TRY(dnnl_matmul_primitive_desc_create(&pd, engine(), a_md, b_md, NULL, c_md, attr));
#else
    TRY(dnnl_memory_desc_init_by_strides(&a_md, 2, a_dims, dnnl_bf16, a_strides));
    TRY(dnnl_memory_desc_init_by_strides(&b_md, 2, b_dims, dnnl_bf16, b_strides));
    dnnl_matmul_desc_t op;
    TRY(dnnl_matmul_desc_init(&op, &a_md, &b_md, NULL, &c_md));
    TRY(dnnl_primitive_desc_create(&pd, &op, attr, engine(), NULL));
#endif
    TRY(dnnl_primitive_create(&product, pd));
    TRY(dnnl_memory_create(&memory[0], POINTER(a_md), engine(), a));
    TRY(dnnl_memory_create(&memory[1], POINTER(b_md), engine(), b));
    TRY(dnnl_memory_create(&memory[2], POINTER(c_md), engine(), c));
    dnnl_exec_arg_t args[] = {{DNNL_ARG_SRC, memory[0]}, {DNNL_ARG_WEIGHTS, memory[1]}, {DNNL_ARG_DST, memory[2]}};
    pthread_mutex_unlock(&making);
    status = dnnl_primitive_execute(product, stream(), 3, args);
    if (status == dnnl_success) status = dnnl_stream_wait(stream());
    pthread_mutex_lock(&making);
done:
    for (int i = 0; i < 3; ++i)
        if (memory[i]) dnnl_memory_destroy(memory[i]);
    if (product) dnnl_primitive_destroy(product);
    if (pd) dnnl_primitive_desc_destroy(pd);
    if (attr) dnnl_primitive_attr_destroy(attr);
    release(a_md), release(b_md), release(c_md);
    pthread_mutex_unlock(&making);
    return status;
}

/* Version as major * 10000 + minor * 100 + patch, and the instruction set in use (dnnl_cpu_isa_t). */
int squall_dnnl_version(void) {
    const dnnl_version_t *v = dnnl_version();
    return v->major * 10000 + v->minor * 100 + v->patch;
}
unsigned squall_dnnl_isa(void) { return (unsigned)dnnl_get_effective_cpu_isa(); }

/* Threads that OpenMP starts for oneDNN; 0 where there is no OpenMP. */
int squall_openmp_threads(void) {
    int (*most)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, "omp_get_max_threads");
    return most ? most() : 0;
}
