//! The key server end to end: the real program against an independent client in Python, against itself, and under reload and drain.
//!
//! Checks what peers see, what is logged, and what the kernel says of the process. Measures nothing.

mod enrolment;
mod front_door;
mod interop;
mod life;
mod places;
mod server;
mod wycheproof;
