//! Load generator, test upstream and the side-by-side runs.
#![forbid(unsafe_code)]

fn main() {}
