//! What `traceparent` must keep to whatever it is.

use wire::trace_context::{Parent, state};

/// What is read is written the same, but for flags that are not ours; states are bounded and clean.
pub fn trace_context(value: &[u8]) {
    if let Some(parent) = Parent::read(value) {
        assert!(parent.trace_id != 0 && parent.span_id != 0);
        let written = parent.value();
        assert_eq!(written[2..53], value[2..53]);
        assert_eq!(Parent::read(&written), Some(parent));
    }
    if let Some(state) = state(value.split(|byte| *byte == b'\n')) {
        assert!(!state.is_empty() && state.len() <= 512);
        assert!(state.iter().all(|byte| matches!(byte, b' '..=b'~' | b'\t')));
    }
}
