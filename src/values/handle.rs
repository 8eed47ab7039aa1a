//! What a user holds of a pending job.
//!
//! Ground rules:
//!
//! - A one-shot job's handle is the key under which it lies in its shard's hierarchy, and the
//!   shard's number.
//! - A *re-armable* job comes into the hierarchy several times, each time under another key. Its
//!   handle is its registration on the shard's registry. The number of its shard is marked, and so matches no
//!   shard: the verbs for one-shot jobs cannot take one for the other, and pay nothing for it.

use core::fmt;

use crate::values::generation::Generation;

/// Names one job of one [`Wheel`](crate::Wheel), for ever: a handle is never given twice in the
/// life of a process. Once its job has run (a repeating one: for the last time), or was cancelled,
/// it is stale, and a stale handle does nothing, as does the handle of another wheel: every verb
/// answers `false` or `None`.
///
/// 16 bytes, `Copy`; `Option<Handle>` is no larger. Dropping a handle does nothing to the job; a
/// [`Guard`](crate::Guard) cancels it.
///
/// ```
/// use tickwheel::Handle;
/// assert_eq!(size_of::<Option<Handle>>(), 16);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Handle {
    generation: Generation,
    index: u32,
    /// With [`REARMABLE`] for a re-armable job.
    shard: u32,
}

/// More than there are shards.
const REARMABLE: u32 = 1 << 31;

impl Handle {
    /// The handle of a one-shot job.
    pub(crate) fn new(shard: u32, generation: Generation, index: u32) -> Handle {
        Handle { generation, index, shard }
    }

    /// The handle of a re-armable job.
    pub(crate) fn rearmable(shard: u32, generation: Generation, index: u32) -> Handle {
        Handle { generation, index, shard: shard | REARMABLE }
    }

    pub(crate) fn generation(self) -> Generation {
        self.generation
    }

    pub(crate) fn index(self) -> u32 {
        self.index
    }

    /// The number of the shard; no shard's number if this is the handle of a re-armable job.
    pub(crate) fn shard(self) -> u32 {
        self.shard
    }

    /// The number of the shard whose registry a re-armable job is on.
    pub(crate) fn rearmable_shard(self) -> Option<u32> {
        (self.shard & REARMABLE != 0).then_some(self.shard & !REARMABLE)
    }
}

impl fmt::Debug for Handle {
    /// The number alone tells one handle from any other.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Handle({})", self.generation)
    }
}
