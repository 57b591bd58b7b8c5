//! One immutable generation of everything a reload can change, and the pointer that is swapped.
