//! Launchers of quantised matrix products, which language models use and Squall does not: calling one ends the program.

use core::ffi::c_void;

macro_rules! absent {
    ($($name:ident)* => $arguments:tt) => {
        $(absent!(@one $name $arguments);)*
    };
    (@one $name:ident ($($argument:ty),*)) => {
        #[allow(missing_docs, clippy::missing_safety_doc, non_snake_case, clippy::too_many_arguments)]
        pub unsafe extern "C" fn $name($(_: $argument),*) {
            panic!(concat!("candle's `", stringify!($name), "` is not built in"))
        }
    };
}

absent!(
    moe_gemm_wmma => (
        *const c_void, *const c_void, *const i32, *const i32, *const f32, *mut c_void, *mut i32, *mut i32, i32, i32, i32, i32,
        i32, i32, bool, i64
    )
);
absent!(
    moe_gemm_gguf => (
        *const f32, *const c_void, *const i32, *const i32, *const f32, *mut c_void, i32, i32, i32, i32, i32, i32, i64
    )
);
absent!(
    moe_gemm_gguf_prefill => (
        *const c_void, *const u8, *const i32, *const i32, *const f32, *mut c_void, i32, i32, i32, i32, i32, i32, i32, i64
    )
);
absent!(
    launch_mmvq_gguf_q4_0_bf16_plain launch_mmvq_gguf_q4_1_bf16_plain launch_mmvq_gguf_q5_0_bf16_plain
    launch_mmvq_gguf_q5_1_bf16_plain launch_mmvq_gguf_q8_0_bf16_plain launch_mmvq_gguf_q2_k_bf16_plain
    launch_mmvq_gguf_q3_k_bf16_plain launch_mmvq_gguf_q4_k_bf16_plain launch_mmvq_gguf_q5_k_bf16_plain
    launch_mmvq_gguf_q6_k_bf16_plain
    launch_mmvq_gguf_q4_0_f32_plain launch_mmvq_gguf_q4_1_f32_plain launch_mmvq_gguf_q5_0_f32_plain
    launch_mmvq_gguf_q5_1_f32_plain launch_mmvq_gguf_q8_0_f32_plain launch_mmvq_gguf_q2_k_f32_plain
    launch_mmvq_gguf_q3_k_f32_plain launch_mmvq_gguf_q4_k_f32_plain launch_mmvq_gguf_q5_k_f32_plain
    launch_mmvq_gguf_q6_k_f32_plain
    launch_mmvq_gguf_q4_0_f16_plain launch_mmvq_gguf_q4_1_f16_plain launch_mmvq_gguf_q5_0_f16_plain
    launch_mmvq_gguf_q5_1_f16_plain launch_mmvq_gguf_q8_0_f16_plain launch_mmvq_gguf_q2_k_f16_plain
    launch_mmvq_gguf_q3_k_f16_plain launch_mmvq_gguf_q4_k_f16_plain launch_mmvq_gguf_q5_k_f16_plain
    launch_mmvq_gguf_q6_k_f16_plain
    => (*const c_void, *const c_void, *mut c_void, i32, i32, i32, i32, i32, *mut c_void)
);
absent!(
    launch_mmvq_gguf_quantize_q8_1_bf16 launch_mmvq_gguf_quantize_q8_1_f16 launch_mmvq_gguf_quantize_q8_1_f32
    => (*const c_void, *mut c_void, i32, i32, i32, *mut c_void)
);
absent!(
    launch_mmq_quantize_q8_1_D4 launch_mmq_quantize_q8_1_DS4 launch_mmq_quantize_q8_1_D2S6
    => (*const c_void, *const i32, *mut c_void, i32, i64, i64, i64, i64, i64, i64, i64, i64, *mut c_void)
);
absent!(
    launch_mmq_gguf_q4_0 launch_mmq_gguf_q4_1 launch_mmq_gguf_q5_0 launch_mmq_gguf_q5_1 launch_mmq_gguf_q8_0
    launch_mmq_gguf_q2_k launch_mmq_gguf_q3_k launch_mmq_gguf_q4_k launch_mmq_gguf_q5_k launch_mmq_gguf_q6_k
    => (
        *mut c_void, *const c_void, *const c_void, *mut c_void, i64, i64, i64, i64, i64, i32, i32, i64, i32, *mut c_void
    )
);
