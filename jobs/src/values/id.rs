//! What names a job and a run of it: the id of the job, and the fence, a number that orders the runs of a job.
//!
//! An id has 128 bits. The process that inserts the job makes it, before the store sees it.
//!
//! Ground rules:
//!
//! - Ids that a process makes are unique, and ascend in the order in which it makes them.
//! - An id made here has a hint to the first place of its job in the store: the kind, as a few bits of a hash,
//!   and the due time, as a distance from the id's own time. So a store finds the job by its id without an
//!   index of ids. Only a job that has moved since needs a row with its place.
//! - The hint of an id from elsewhere (a name, another program) is arbitrary. So a store never trusts a hint:
//!   it reads the job there, and compares the whole id.
//!
//! | bits | hold |
//! | --- | --- |
//! | 127 to 84 | milliseconds since 1970 when the id was made |
//! | 83 to 72 | a count within the millisecond; it carries into the time above |
//! | 71 to 66 | a hash of the kind |
//! | 65 to 34 | the due time, as milliseconds since (the id's time less an hour); all ones: no hint |
//! | 33 to 0 | random bits, drawn once in each process |
//!
//! The time is random and before 1998 if no id of the process has a time yet, or if the clock reads an earlier one.

use core::fmt;
use core::str::FromStr;
use core::sync::atomic::{AtomicU64, Ordering};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Mutex;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use siphasher::sip128::{Hasher128, SipHasher13};

use super::invalid_input::InvalidInput;
use super::panics::locked;
use super::time::Millis;

/// The id of a durable job: 128 bits, made by the process that inserts the job. It stays the same through
/// retries, reschedules and restarts, so it can serve as the idempotency key of the job's calls to other
/// systems.
///
/// An insert makes an id that is unique everywhere. Three ids are hashes instead, so that the store takes their job
/// once:
///
/// - The id of an occurrence, of the queue's name, the schedule's name and the due time, and the id of a
///   [throttled](crate::Keyed::throttle) job, of the queue's name, kind, key and period. Each is unique over the queues
///   of a file or a server. Two files, or two servers, make the same ids if these names are the same. If both call one
///   system, give their queues different names, or put a name of the store in front of the id.
/// - The id of [`JobId::named`], of its name alone. It is the same in every queue.
///
/// Ids made by one process ascend in the order in which they were made. An id is written as 32
/// hexadecimal digits, and read back with [`str::parse`].
///
/// ```
/// use tickwheel_jobs::JobId;
/// let id = JobId::named("close order 1001"); // always the same id for the same name
/// assert_eq!(id.to_string().parse::<JobId>()?, id);
/// assert!(JobId::new() < JobId::new());
/// # Ok::<(), tickwheel_jobs::InvalidInput>(())
/// ```
///
/// The default is the id of no job: all of its digits are zero.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct JobId(u128);

/// Milliseconds and count of the last id of this process.
static LAST: AtomicU64 = AtomicU64::new(0);

/// The id of the process that drew the random bits, and these bits. A forked process draws its own.
static PROCESS: Mutex<Option<(u32, u64)>> = Mutex::new(None);

const COUNT_BITS: u32 = 12;
const HASH_BITS: u32 = 6;
const DELTA_BITS: u32 = 32;
const RANDOM_BITS: u32 = 34;
const NO_HINT: u64 = (1 << DELTA_BITS) - 1;
/// How far a due time may lie before the id's own time and still fit into the hint, in milliseconds.
const BEFORE: i64 = 3_600_000;
/// An earlier time is taken for that of an id of a name: the beginning of 2026.
const FIRST: i64 = 1_767_225_600_000;
const FIRST_STAMP: u64 = (FIRST as u64) << COUNT_BITS;
/// The latest time that an id takes from a clock: 2^34 ms below the end of the field, which leaves
/// the count room to carry.
const LATEST: u64 = (1 << 44) - (1 << 34);

impl JobId {
    /// Returns an id that no other call has returned, here or elsewhere.
    ///
    /// Use it with [`NewJob::id`](crate::NewJob::id) to store the id before the job is
    /// inserted.
    #[must_use]
    pub fn new() -> JobId {
        let ids = JobIds::of_this_process();
        if LAST.load(Ordering::Relaxed) == 0 {
            // No id of this process has a time yet. Its random bits alone are too few to keep the ids of many processes
            // apart, so the count begins at random, below those of times.
            let begin = RandomState::new().hash_one(ids.random) % (FIRST_STAMP / 2);
            let _ = LAST.compare_exchange(0, begin, Ordering::Relaxed, Ordering::Relaxed);
        }
        ids.next(Millis::ZERO, None)
    }

    /// Returns the id that belongs to this name: the same in every process, on every machine and in
    /// every version. Two names have the same id with a chance of one in 2^64 among 2^32 names.
    ///
    /// The hash is SipHash-1-3 with 128 bits and a key of zeros (Aumasson and Bernstein, 2012). It
    /// does not resist an attacker who chooses names to collide.
    #[must_use]
    pub fn named(name: &str) -> JobId {
        let mut hasher = SipHasher13::new();
        hasher.write(name.as_bytes());
        JobId(hasher.finish128().as_u128())
    }

    /// Returns the id with these 128 bits, as [`JobId::to_u128`] returned them or another program
    /// made them.
    #[must_use]
    pub const fn from_u128(bits: u128) -> JobId {
        JobId(bits)
    }

    /// Returns the 128 bits.
    #[must_use]
    pub const fn to_u128(self) -> u128 {
        self.0
    }

    /// Returns the due time under which the job was stored first, if the id has a hint.
    #[cfg(any(feature = "sqlite-unbundled", test))]
    pub(crate) fn due_hint(self) -> Option<Millis> {
        let delta = (self.0 >> RANDOM_BITS) as u64 & NO_HINT;
        (delta != NO_HINT).then(|| Millis::clamped(self.made_at() - BEFORE + delta as i64))
    }

    /// Says whether the job may have been stored under this kind first.
    pub(crate) fn may_be_of(self, kind: &str) -> bool {
        (self.0 >> (RANDOM_BITS + DELTA_BITS)) as u64 & ((1 << HASH_BITS) - 1) == kind_bits(kind)
    }

    /// Says whether the hint leads to a job of this kind with this due time.
    #[cfg(any(feature = "sqlite-unbundled", test))]
    pub(crate) fn hints_at(self, kind: &str, due: Millis) -> bool {
        self.due_hint() == Some(due) && self.may_be_of(kind)
    }

    /// Returns when a job of this kind that is due then was inserted, if the id was made for its insert. The id of a
    /// name passes with a chance below one in 10,000.
    pub(crate) fn inserted(self, kind: &str, due: Millis) -> Option<Millis> {
        let made_at = self.made_at();
        let is_plausible = (FIRST..=due.get() + BEFORE).contains(&made_at);
        let has_hint = (self.0 >> RANDOM_BITS) as u64 & NO_HINT != NO_HINT;
        (is_plausible && has_hint && self.may_be_of(kind)).then(|| Millis::clamped(made_at))
    }

    fn made_at(self) -> i64 {
        (self.0 >> 84) as i64
    }
}

/// Makes ids. It holds the random bits of this process.
pub(crate) struct JobIds {
    random: u64,
}

impl JobIds {
    pub(crate) fn of_this_process() -> JobIds {
        let pid = std::process::id();
        let mut process = locked(&PROCESS);
        let random = match *process {
            Some((owner, random)) if owner == pid => random,
            _ => {
                let random = RandomState::new().hash_one(pid) & ((1 << RANDOM_BITS) - 1);
                *process = Some((pid, random));
                // A forked process begins its count anew, unless its ids have a time.
                let begins = |last: u64| (last < FIRST_STAMP / 2).then_some(0);
                let _ = LAST.fetch_update(Ordering::Relaxed, Ordering::Relaxed, begins);
                random
            }
        };
        JobIds { random }
    }

    /// Returns a new id. `job` has the kind and the due time for the hint.
    pub(crate) fn next(&self, now: Millis, job: Option<(&str, Millis)>) -> JobId {
        let time = (now.get() as u64).min(LATEST) << COUNT_BITS;
        let last = |last: u64| Some(time.max(last + 1));
        let before = LAST.fetch_update(Ordering::Relaxed, Ordering::Relaxed, last);
        let stamp = time.max(before.unwrap_or(0) + 1);
        let made_at = (stamp >> COUNT_BITS) as i64;
        let (hash, delta) = match job {
            None => (0, NO_HINT),
            Some((kind, due)) => {
                let delta = u64::try_from(due.get() - made_at + BEFORE).unwrap_or(NO_HINT);
                (kind_bits(kind), delta.min(NO_HINT))
            }
        };
        let low = u128::from(hash) << (RANDOM_BITS + DELTA_BITS)
            | u128::from(delta) << RANDOM_BITS
            | u128::from(self.random);
        JobId(u128::from(stamp) << 72 | low)
    }
}

/// A few bits of a hash. They only have to tell kinds apart most of the time.
fn kind_bits(kind: &str) -> u64 {
    let mut hasher = SipHasher13::new();
    hasher.write(kind.as_bytes());
    hasher.finish() & ((1 << HASH_BITS) - 1)
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "JobId({self})")
    }
}

impl FromStr for JobId {
    type Err = InvalidInput;

    fn from_str(text: &str) -> Result<JobId, InvalidInput> {
        if text.len() != 32 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(InvalidInput::Id(text.chars().take(64).collect()));
        }
        let bits = u128::from_str_radix(text, 16);
        bits.map(JobId).map_err(|_| InvalidInput::Id(text.to_owned()))
    }
}

impl Serialize for JobId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for JobId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<JobId, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(de::Error::custom)
    }
}

/// The claim of a job. Several jobs that a server gives out together have the same fence.
pub(crate) type Claim = (JobId, Fence);

/// A number that orders the runs of a job: of two runs of one job, the later has the greater fence.
///
/// A handler can send it with each write to another system. That system then refuses a write whose fence is
/// lower than one that it has seen for the same job.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Fence {
    number: u64,
    /// Distinguishes claims with the same number: after a failover that loses a claim, the next one may get its number
    /// again.
    nonce: u64,
}

impl Fence {
    pub(crate) const fn new(number: u64, nonce: u64) -> Fence {
        Fence { number, nonce }
    }

    #[cfg(feature = "redis")]
    pub(crate) const fn nonce(self) -> u64 {
        self.nonce
    }

    /// Returns the fence as a number.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.number
    }
}

impl core::fmt::Display for Fence {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        self.number.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    /// An id has the time of its insert. The id of a name, one without a job, and one of another kind have none.
    #[test]
    fn id_knows_when_its_job_was_inserted() {
        let now = Millis::clamped(FIRST + 1_000_000);
        let due = Millis::clamped(now.get() + 5_000);
        // By hand: another test may have made the clock of this process jump.
        let delta = (5_000 + BEFORE) as u128;
        let id =
            JobId((now.get() as u128) << 84 | u128::from(kind_bits("push")) << 66 | delta << 34);
        assert_eq!(id.due_hint(), Some(due));
        assert_eq!(id.inserted("push", due), Some(now));
        let other = ["mail", "charge", "report"].into_iter().find(|kind| !id.may_be_of(kind));
        assert_eq!(id.inserted(other.expect("64 hashes"), due), None);
        let before = Millis::clamped(now.get() - BEFORE - 1);
        assert_eq!(id.inserted("push", before), None, "made after it was due");
        assert_eq!(JobId::new().inserted("push", due), None);
        let many = 10_000;
        let wrong = (0..many)
            .filter(|n| JobId::named(&format!("order {n}")).inserted("push", due).is_some());
        assert!(wrong.count() < 5);
    }

    #[test]
    #[ignore = "for `first_ids_of_two_processes_lie_far_apart`, in a process of its own"]
    fn first_id_of_a_process() {
        println!("first {}", JobId::new());
    }

    /// The first ids of two processes that have made none with a time differ in more than the random bits of the
    /// process.
    #[test]
    fn first_ids_of_two_processes_lie_far_apart() {
        let first = || {
            let mut child = std::process::Command::new(std::env::current_exe().unwrap());
            child.args(["--exact", "values::id::tests::first_id_of_a_process"]);
            let said = child.args(["--ignored", "--nocapture"]).output().unwrap().stdout;
            let said = String::from_utf8(said).unwrap();
            let id = said.lines().find_map(|line| line.split("first ").nth(1)).expect("an id");
            id.trim().parse::<JobId>().unwrap()
        };
        let (one, two) = (first(), first());
        assert_ne!(one.0 >> 72, two.0 >> 72);
        assert!(one.made_at() < FIRST && two.made_at() < FIRST);
    }

    /// An id contains a hash of its kind and its due time, if that lies from an hour before the id's own time to
    /// 49 days after it.
    #[test]
    fn id_knows_its_kind_and_due_time() {
        let ids = JobIds::of_this_process();
        let now = Millis::clamped(1_790_000_000_000);
        for (delta, known) in [
            (0, true),
            (-3_600_000, true),
            (-3_600_001, false),
            (72 * 3_600_000, true),
            (4_291_367_294, true),
            (4_291_367_295, false),
            (100_000_000_000, false),
        ] {
            // Ids of other tests may have advanced the time of this one; the due time follows it.
            let probe = ids.next(now, Some(("close-order", now)));
            let due = Millis::clamped(probe.made_at() + delta);
            let id = ids.next(Millis::clamped(probe.made_at() + 1), Some(("close-order", due)));
            let due = Millis::clamped(id.made_at() + delta);
            let id = JobId(id.0 & !(u128::from(NO_HINT) << RANDOM_BITS));
            let delta = u64::try_from(due.get() - id.made_at() + BEFORE).unwrap_or(NO_HINT);
            let id = JobId(id.0 | u128::from(delta.min(NO_HINT)) << RANDOM_BITS);
            assert_eq!(id.hints_at("close-order", due), known, "{delta}");
            assert!(id.may_be_of("close-order"));
        }
    }

    /// Ids of a process ascend and differ, also while the clock stands still or jumps.
    #[test]
    fn ids_ascend_and_never_repeat_when_the_clock_stands_or_jumps() {
        let ids = JobIds::of_this_process();
        let mut last = JobId(0);
        let mut seen = HashSet::new();
        for now in [5, 5, 0, i64::MAX, 0, 7].into_iter().cycle().take(50_000) {
            let id = ids.next(Millis::clamped(now), Some(("x", Millis::MAX)));
            assert!(id > last);
            assert!(seen.insert(id));
            last = id;
        }
    }

    /// The text of an id has 32 hexadecimal digits. Other text is refused.
    #[test]
    fn id_is_32_digits_and_nothing_else() {
        for wrong in ["", "1", "+0000000000000000000000000000001", &"0".repeat(33), "g"] {
            assert!(wrong.parse::<JobId>().is_err(), "{wrong}");
        }
        assert_eq!(JobId::named("a").to_string().len(), 32);
        assert_eq!(JobId::named("order"), JobId::named("order"));
    }
}
