//! What runs for hours: staging, training and inference, resumable at any point.

#![forbid(unsafe_code)]
