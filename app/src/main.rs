//! `squall`: finds extreme weather in climate-model output.
#![forbid(unsafe_code)]

fn main() {}
