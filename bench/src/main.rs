//! Load generator, test upstream and the side-by-side runs.
fn main() {}
