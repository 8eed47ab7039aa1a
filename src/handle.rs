//! What a user holds of a pending job.

use core::fmt;

use crate::identity::Generation;
use crate::table::{Key, Place};

/// Names one job of one [`Wheel`](crate::Wheel), for ever: a handle is never given twice in the
/// life of a process. Once its job has run, or was cancelled, it is stale, and a stale handle does
/// nothing, as does the handle of another wheel: every verb answers `false` or `None`.
///
/// 16 bytes, `Copy`; `Option<Handle>` is no larger. Dropping a handle does nothing to the job.
///
/// ```
/// use tickwheel::Handle;
/// assert_eq!(size_of::<Option<Handle>>(), 16);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Handle {
    generation: Generation,
    place: Place,
    shard: u32,
}

impl Handle {
    pub(crate) fn new(shard: u32, key: Key) -> Handle {
        Handle { generation: key.generation, place: key.place, shard }
    }

    pub(crate) fn key(self) -> Key {
        Key { generation: self.generation, place: self.place }
    }

    pub(crate) fn shard(self) -> u32 {
        self.shard
    }
}

impl fmt::Debug for Handle {
    /// The number alone tells one handle from any other.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Handle({})", self.generation)
    }
}
