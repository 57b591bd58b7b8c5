//! Memory that validating needs, reused from message to message so that steady traffic allocates nothing.

use crate::parameter::Pairs;
use crate::schema::Run;

/// Room for validating one message. One per message in flight; give it back to a pool afterwards.
#[derive(Default)]
pub struct Scratch {
    pub(super) query: Pairs,
    pub(super) fields: Pairs,
    pub(super) cookies: Pairs,
    pub(super) path: Pairs,
    pub(crate) rooms: Rooms,
    /// A body that is validated as a whole.
    pub(super) body: Vec<u8>,
    /// A body before its content coding is undone.
    pub(super) encoded: Vec<u8>,
}

/// Room for one value.
#[derive(Default)]
pub(crate) struct Rooms {
    pub(crate) text: Vec<u8>,
    pub(crate) json: Vec<u8>,
    pub(crate) run: Run,
    /// For the second validate that looks for undeclared fields.
    pub(crate) shadow_run: Run,
    /// Steps that are left for what is validated at once.
    pub(crate) steps: u64,
}

impl Scratch {
    /// Empty room.
    pub fn new() -> Scratch {
        Scratch::default()
    }

    /// Frees what an unusually large message has left behind. Call it before keeping the scratch.
    pub fn shrink(&mut self, keep_bytes: usize) {
        for buffer in [&mut self.body, &mut self.encoded, &mut self.rooms.text, &mut self.rooms.json] {
            buffer.clear();
            buffer.shrink_to(keep_bytes);
        }
        self.rooms.run.shrink(keep_bytes);
        self.rooms.shadow_run.shrink(keep_bytes);
    }
}
