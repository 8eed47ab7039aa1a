//! What a child reports, a line of JSON for each record, and what the parent adds to it.
//!
//! Ground rules:
//!
//! - A call is reported before it is made, its answer after it was given, the start of a run as the
//!   first act of its handler. So what is not in the log has not been answered, or has not begun.
//! - A line is one write to a pipe, shorter than what a pipe takes at once: a kill cuts none in two.
//! - `at` is the wall clock of the child, in microseconds since 1970; the stamp of an event is the
//!   parent's. Both processes read the same clock.

use std::ops::Range;

use serde::{Deserialize, Serialize};
use tickwheel_jobs::JobId;

/// The number of a job in the log: its payload has it, so a run tells which insert it comes from.
///
/// An occurrence of a repeated job has no insert. Its tag is made of its schedule and its time.
pub(crate) type Tag = u64;

/// A record, and when and from where the parent had it.
#[derive(Clone, Debug)]
pub(crate) struct Event {
    /// Microseconds since 1970.
    pub(crate) stamp: u64,
    /// Which child, counted from 1; or 0, the parent.
    pub(crate) life: u32,
    pub(crate) record: Record,
}

/// A report of a child or of the parent: a line of the log.
///
/// | record | what it says |
/// | --- | --- |
/// | `Born`, `Gone` | the parent has made the child; it has seen its end |
/// | `Ready` | the jobs of the child were started |
/// | `Dying` | the child kills itself at a named point of the code |
/// | `Failed` | something that must not happen |
/// | `Ending` | the child is about to shut down or to drop its jobs |
/// | `Closed` | a shutdown was answered, and no run is under way |
/// | `Dropped` | the jobs were dropped, or shut down while runs were under way: those run again |
/// | `Progress` | a run is about to set its progress; or the store has answered that the progress is stored |
/// | `Told` | a run was told that it is not to go on |
/// | `InsertsLost` | an event named jobs that were inserted without waiting, and are lost |
/// | `Unreadable` | an event named something that cannot be read |
/// | `Foreign` | the parent has written something by hand that cannot be read: what an event calls it |
/// | `SetAside` | what is set aside in the end, as an event would call it |
/// | `Rights` | the parent has taken a right from the user of some nodes, or given it back; without it a script may end in its midst, or not |
/// | `Looked` | the parent has looked at the place, while no child was there |
/// | `Stalled` | the child, or the way from it to the server, stood still for a moment |
/// | `Stopped` | the parent has stopped the child, or let it go on |
/// | `Server` | the store is a server, which several children share: it is up, or it was killed |
#[derive(Clone, Serialize, Deserialize, Debug)]
pub(crate) enum Record {
    Born,
    Ready { at: u64, level: Level },
    Call { n: u64, at: u64, verb: Verb },
    Answer { n: u64, at: u64, answer: Answer },
    Start(Start),
    End { at: u64, tag: Tag, fence: u64, how: How },
    Progress { at: u64, tag: Tag, fence: u64, n: u64, is_stored: bool },
    Dying { point: String },
    Failed { text: String },
    Ending { at: u64 },
    Closed,
    Dropped,
    Told { at: u64, tag: Tag, fence: u64 },
    InsertsLost { ids: Vec<JobId> },
    Unreadable { what: String },
    Foreign { what: String },
    SetAside { what: Vec<String> },
    Rights { is_denied: bool, half_done: bool },
    Gone { by: String },
    Looked(Look),
    Stalled { from: u64, to: u64 },
    Stopped { is_stopped: bool },
    Server { is_up: bool },
}

/// The durability of a child's answers.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub(crate) enum Level {
    Synced,
    Written,
    Buffered,
}

/// A call. Times are milliseconds since 1970. The tags of a batch follow each other, and the handler of a senseless job
/// cannot decode its payload. An expiring job must not start after `expires`.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub(crate) enum Verb {
    Insert { tag: Tag, due: u64 },
    WithId { tag: Tag, due: u64 },
    Senseless { tag: Tag, due: u64 },
    Expiring { tag: Tag, due: u64, expires: u64 },
    Batch { first: Tag, count: u64, due: u64 },
    Keyed { key: u32, tag: Tag, due: u64, mode: Mode },
    Cancel { tag: Tag },
    CancelKey { key: u32 },
    Reschedule { tag: Tag, due: u64 },
    Get { tag: Tag },
    Schedule { name: u32, period: u64 },
    Unschedule { name: u32 },
    Flush,
}

impl Verb {
    /// Returns the tags of the jobs that it inserts, and when they are due.
    pub(crate) fn inserts(&self) -> Option<(Range<Tag>, u64)> {
        match *self {
            Verb::Insert { tag, due }
            | Verb::WithId { tag, due }
            | Verb::Senseless { tag, due }
            | Verb::Expiring { tag, due, .. }
            | Verb::Keyed { tag, due, .. } => Some((tag..tag + 1, due)),
            Verb::Batch { first, count, due } => Some((first..first + count, due)),
            _ => None,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub(crate) enum Mode {
    Replace,
    KeepTime,
    Absent,
}

#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub(crate) enum Answer {
    Ids(Vec<JobId>),
    Occupied,
    /// The call failed, and left nothing behind.
    Refused(String),
    /// The call failed, and may have done what it was to do.
    Unknown,
    Cancelled,
    Running,
    /// A cancel found nothing, or a get did.
    Gone,
    Pending,
    Dead,
    Done(bool),
}

#[derive(Clone, Copy, Serialize, Deserialize, Debug)]
pub(crate) struct Start {
    pub(crate) at: u64,
    pub(crate) tag: Tag,
    pub(crate) id: JobId,
    pub(crate) fence: u64,
    pub(crate) attempt: u32,
    /// In milliseconds since 1970.
    pub(crate) due: u64,
    /// What `Run::late` says, in microseconds: the clock was read just before the run counted as
    /// started.
    pub(crate) late: u64,
    /// The progress that earlier runs have left.
    pub(crate) left: Option<u64>,
}

/// The progress of a run, as the checker keeps it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Progress {
    pub(crate) place: usize,
    pub(crate) fence: u64,
    pub(crate) n: u64,
    pub(crate) is_stored: bool,
}

impl Start {
    /// A time at which the run may not yet have counted as started. All answers from before that time hold for
    /// this run. A child's estimate of the server's clock may be ahead of that clock.
    pub(crate) fn since(&self) -> u64 {
        self.at.min(self.due * 1000 + self.late)
    }
}

/// The end of a run, as the checker keeps it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct End {
    pub(crate) at: u64,
    pub(crate) fence: u64,
    pub(crate) how: How,
}

/// How a handler ends.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub(crate) enum How {
    Done,
    /// The job is tried again after [`RETRY_MS`].
    Failed,
    /// The job is tried again after [`LATER_MS`].
    Later,
    /// The job runs again after [`LATER_MS`], and the attempt does not count.
    Snoozed,
    Dead,
}

pub(crate) const RETRY_MS: u64 = 20;
pub(crate) const LATER_MS: u64 = 30;
/// How long a claim on a server holds.
pub(crate) const LEASE_MS: u64 = 1500;
/// How often a job is tried again.
pub(crate) const RETRIES: u32 = 3;

/// What the parent sees in the file.
#[derive(Clone, Default, Serialize, Deserialize, Debug)]
pub(crate) struct Look {
    /// What `check` found.
    pub(crate) violation: Option<String>,
    /// The file was opened twice, and both times had the same contents.
    pub(crate) same: bool,
    pub(crate) jobs: Vec<Seen>,
}

#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub(crate) struct Seen {
    pub(crate) tag: Tag,
    pub(crate) id: JobId,
    /// In milliseconds since 1970.
    pub(crate) due: u64,
    pub(crate) dead: bool,
    pub(crate) key: Option<String>,
    pub(crate) failures: u32,
    pub(crate) interruptions: u32,
}

/// The file after everything has run, and after the dead and the remembered ids were purged.
#[derive(Clone, Default, Debug)]
pub(crate) struct FileEnd {
    /// Before the purge.
    pub(crate) jobs: Vec<Seen>,
    /// The rows of each table, but for those that stay.
    pub(crate) rows: Vec<(String, u64)>,
    pub(crate) bytes: u64,
    pub(crate) log_bytes: u64,
}

const NAME_SHIFT: u32 = 44;
const FOLLOW: u64 = 1 << 40;

/// Returns the tag of an occurrence.
pub(crate) fn occurrence(name: u32, time: u64) -> Tag {
    (u64::from(name) + 1) << NAME_SHIFT | time
}

/// Returns schedule and time of an occurrence's tag.
pub(crate) fn occurrence_of(tag: Tag) -> Option<(u32, u64)> {
    let name = (tag >> NAME_SHIFT).checked_sub(1)?;
    Some((name as u32, tag & ((1 << NAME_SHIFT) - 1)))
}

/// Returns the tag of the job that the handler of `tag` inserts under an id of its own.
pub(crate) fn follow_of(tag: Tag) -> Tag {
    tag | FOLLOW
}

/// Returns the first tag, and the first number of a call, of a child.
pub(crate) fn first_number(life: u32) -> u64 {
    u64::from(life) << 24
}
