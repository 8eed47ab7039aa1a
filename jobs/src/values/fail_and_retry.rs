//! What happens after a run that failed: the error that its handler returns, the policy that says when its job is
//! tried again, and the errors of its last attempts.
//!
//! Ground rules of retries:
//!
//! - The wait is a function of the policy, of the number of failures, and of a random number that is passed in.
//!   So a test pins the shortest and the longest waits of each policy.
//! - The jitter only adds: a retry is never sooner than the policy's wait.
//!
//! Ground rules of errors:
//!
//! - `?` converts every error that can be boxed to a [`Fail`]. So [`Fail`] itself is no `Error`, and does not
//!   convert to a boxed one: its own `From` would overlap with the reflexive `From<Fail> for Fail`, with which
//!   `?` passes on a `Fail`.
//! - The text of an error holds the chain of its sources, because the store keeps only the text.
//! - The type of an error is for the field `error.type` of a span, and is nothing without the feature `tracing`.
//!
//! Ground rules of the errors of the last attempts:
//!
//! - Every store keeps the same text: a JSON array of objects with `at` (milliseconds since 1970), `attempt`, `node`
//!   and `error`. So an operator reads it with any tool. A job that has not failed has an empty text.
//! - The newest error comes first, in full. Of earlier ones the first 800 bytes are kept; a script on a server that
//!   adds one keeps the others as they are. There are five at most.
//! - A text that is damaged holds no errors. Only people read it, so no job fails because of it.

use core::fmt;
use std::error::Error;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use super::time::Millis;

/// How often and when a job is retried after its handler failed.
///
/// The wait before the `n`-th retry of an [exponential](Retry::exponential) policy is `base * 2^(n - 1)`, at
/// most [`Retry::max_delay`], plus a random part of at most a quarter of that, so that jobs which failed
/// together are not retried together. A wait that leads past the year 9999 ends with that year.
///
/// | policy | first wait | waits in all, without and with the whole jitter |
/// | --- | --- | --- |
/// | `Retry::default()`: 1 s doubled, at most 1 h, 20 times | 1 s to 1.25 s | 9.14 h to 11.42 h |
/// | `exponential(1 s).max_delay(1 h).max_retries(12)` | 1 s to 1.25 s | 1.14 h to 1.42 h |
/// | `fixed(10 s).max_retries(3)` | 10 s | 30 s |
///
/// ```
/// use std::time::Duration;
/// use tickwheel_jobs::Retry;
/// let second = Duration::from_secs(1);
/// let policy = Retry::exponential(second).max_delay(60 * second).max_retries(10);
/// assert_eq!(policy.wait(1), Some((second, 1250 * second / 1000)));
/// assert_eq!(policy.wait(10), Some((60 * second, 75 * second)));
/// assert_eq!(policy.wait(11), None);
/// ```
#[doc(alias("backoff", "max_attempts", "attempts"))]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Retry {
    pub(super) base: Duration,
    pub(super) growth: Growth,
    pub(super) max_delay: Duration,
    pub(super) max_retries: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Growth {
    Doubled,
    Constant,
}

const HOUR: Duration = Duration::from_secs(3600);

impl Retry {
    /// Returns the policy whose waits begin with `base` and double. By default each wait is at most an hour
    /// ([`Retry::max_delay`]), and there are 20 retries ([`Retry::max_retries`]).
    #[must_use]
    pub const fn exponential(base: Duration) -> Retry {
        Retry { base, growth: Growth::Doubled, max_delay: HOUR, max_retries: 20 }
    }

    /// Returns the policy whose waits are all `delay`, without jitter. By default there are 20 retries
    /// ([`Retry::max_retries`]).
    #[must_use]
    pub const fn fixed(delay: Duration) -> Retry {
        Retry { base: delay, growth: Growth::Constant, max_delay: delay, max_retries: 20 }
    }

    /// Returns the policy without retries: the first failure makes the job dead.
    #[must_use]
    pub const fn never() -> Retry {
        Retry::fixed(Duration::ZERO).max_retries(0)
    }

    /// Limits each wait, before jitter.
    #[must_use]
    pub const fn max_delay(self, max_delay: Duration) -> Retry {
        Retry { max_delay, ..self }
    }

    /// Sets the number of retries. After `max_retries` retries the next failure makes the job dead: its handler
    /// has failed `max_retries + 1` times.
    #[must_use]
    pub const fn max_retries(self, max_retries: u32) -> Retry {
        Retry { max_retries, ..self }
    }

    /// Returns the shortest and the longest wait after the `failures`-th failure, counted from 1; or
    /// `None` if the job is dead then.
    #[must_use]
    pub fn wait(&self, failures: u32) -> Option<(Duration, Duration)> {
        if failures > self.max_retries {
            return None;
        }
        Some(match self.growth {
            Growth::Constant => (self.base.min(self.max_delay), self.base.min(self.max_delay)),
            Growth::Doubled => {
                let factor = 1_u128 << failures.saturating_sub(1).min(63);
                let nanos = self.base.as_nanos().saturating_mul(factor);
                let shortest = duration_from_nanos(nanos.min(self.max_delay.as_nanos()));
                (shortest, shortest.saturating_add(shortest / 4))
            }
        })
    }

    /// Returns how many retries there are at most.
    pub(crate) const fn most(&self) -> u32 {
        self.max_retries
    }

    /// Returns the wait after the `failures`-th failure, or `None` if the job is dead then. `draw` is a random
    /// number.
    pub(crate) fn draw_wait(&self, failures: u32, draw: u64) -> Option<Duration> {
        let (shortest, longest) = self.wait(failures)?;
        let choices = u64::try_from((longest - shortest).as_millis()).unwrap_or(u64::MAX);
        let choices = choices.saturating_add(1);
        Some(shortest.saturating_add(Duration::from_millis(draw % choices)))
    }
}

impl Default for Retry {
    /// A second, doubled up to an hour, 20 retries: 21 runs in about ten hours.
    fn default() -> Retry {
        Retry::exponential(Duration::from_secs(1))
    }
}

fn duration_from_nanos(nanos: u128) -> Duration {
    let seconds = u64::try_from(nanos / 1_000_000_000).unwrap_or(u64::MAX);
    let rest = u32::try_from(nanos % 1_000_000_000).unwrap_or(0);
    Duration::new(seconds, rest)
}

/// The name of the type of an error.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ErrorType(#[cfg(feature = "tracing")] &'static str);

impl ErrorType {
    /// The handler panicked.
    pub(crate) const PANIC: ErrorType = ErrorType::named("panic");
    /// The payload did not decode.
    pub(crate) const UNDECODABLE: ErrorType = ErrorType::named("undecodable");
    /// The run took longer than its time limit.
    pub(crate) const TIME_LIMIT: ErrorType = ErrorType::named("time_limit");
    /// The handler gave up, although its run was not cancelled.
    pub(crate) const INTERRUPTED: ErrorType = ErrorType::named("interrupted");
    /// The type is not known: OpenTelemetry's name for that.
    pub(crate) const OTHER: ErrorType = ErrorType::named("_OTHER");

    const fn named(_name: &'static str) -> ErrorType {
        ErrorType(
            #[cfg(feature = "tracing")]
            _name,
        )
    }

    /// Returns the type of an error that a handler returned. That of a text or of a box says nothing.
    pub(crate) fn of<E>() -> ErrorType {
        ErrorType::of_name(core::any::type_name::<E>())
    }

    #[cfg(not(feature = "tracing"))]
    fn of_name(_name: &'static str) -> ErrorType {
        ErrorType::OTHER
    }

    #[cfg(feature = "tracing")]
    fn of_name(name: &'static str) -> ErrorType {
        use core::any::type_name;
        use std::borrow::Cow;
        use std::error::Error;
        let says_nothing = [
            type_name::<&str>(),
            type_name::<String>(),
            type_name::<Cow<'_, str>>(),
            type_name::<Box<dyn Error + Send + Sync>>(),
        ];
        if says_nothing.contains(&name) { ErrorType::OTHER } else { ErrorType::named(name) }
    }

    #[cfg(feature = "tracing")]
    pub(crate) fn name(self) -> &'static str {
        self.0
    }
}

/// Why a run did not succeed, and what happens to its job next.
///
/// `?` converts every error that can be boxed: those of the standard library and of other crates, an
/// `anyhow::Error`, a `Box<dyn Error + Send + Sync>`, a text. The job is then retried by its
/// [`Retry`] policy, as with [`Fail::retry`].
///
/// | a handler returns | the run | the job |
/// | --- | --- | --- |
/// | `Err(error)?`, [`Fail::retry`] | failed | is retried by its policy, or is dead after its last retry |
/// | [`Fail::after`] | failed | is retried after this delay, or is dead after its last retry |
/// | [`Fail::dead`] | failed | is dead at once |
/// | [`Fail::snooze`] | did not fail | runs again after this delay, any number of times |
/// | [`Fail::interrupted`] | was cancelled | runs again, and the run does not count |
///
/// ```
/// use std::time::Duration;
/// use tickwheel_jobs::Fail;
/// fn handler(answer: u16) -> Result<(), Fail> {
///     match answer {
///         429 => Err(Fail::snooze(Duration::from_secs(30))), // not the job's fault: no failure is counted
///         503 => Err(Fail::after(Duration::from_secs(30), "busy")),
///         404 => Err(Fail::dead("no such account")),
///         200 => Ok(()),
///         0 => Err("no answer")?, // by the policy, as any error
///         _ => Err(Fail::retry(format!("status {answer}"))), // the same
///     }
/// }
/// assert!(handler(404).is_err());
/// ```
///
/// # Errors that do not convert
///
/// `?` refuses an error that is not `Send + Sync + 'static`. Convert it to text instead. Two such errors are
/// common: the `PoisonError` of a `lock()`, which holds the guard of the lock, and a `Box<dyn Error>` without
/// `Send + Sync`.
///
/// ```
/// use std::error::Error;
/// use std::sync::{Mutex, PoisonError};
/// use tickwheel_jobs::Fail;
/// fn handler(count: &Mutex<u64>) -> Result<(), Fail> {
///     *count.lock().map_err(|_| "a handler has panicked before")? += 1;
///     // Or go on with what is there:
///     *count.lock().unwrap_or_else(PoisonError::into_inner) += 1;
///     old_code().map_err(|error| error.to_string())?;
///     Ok(())
/// }
/// fn old_code() -> Result<(), Box<dyn Error>> {
///     Ok(())
/// }
/// assert!(handler(&Mutex::new(0)).is_ok());
/// ```
#[derive(Clone)]
pub struct Fail {
    pub(crate) fate: Fate,
    pub(crate) error: String,
    pub(crate) of_type: ErrorType,
}

/// The decision about a job whose run did not succeed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fate {
    /// Its retry policy decides: its own, or that of its kind.
    Policy,
    /// It is retried after this delay, if its policy allows another retry.
    After(Duration),
    /// It runs again after this delay, and the run is no failure.
    Snooze(Duration),
    /// It is dead.
    Dead,
    /// If the run was cancelled, its claim is given back, and the run does not count. Else the policy decides.
    Interrupted,
}

impl Fail {
    /// Fails the run: the job is retried by its [`Retry`] policy, or is dead after its last
    /// retry. `?` does the same; this function is for an error that the handler makes itself.
    pub fn retry(error: impl Into<Box<dyn Error + Send + Sync>>) -> Fail {
        Fail::of(Fate::Policy, error)
    }

    /// Fails the run: the job is retried after `delay`, or is dead after the last retry that its
    /// [`Retry`] policy allows. A delay that leads past the year 9999 ends with that year: an
    /// insert would refuse it, but here no caller waits for an error.
    ///
    /// A job that only has to wait, for a rate limiter or for another job, is better [snoozed](Fail::snooze).
    #[doc(alias("retry_in", "backoff"))]
    pub fn after(delay: Duration, error: impl Into<Box<dyn Error + Send + Sync>>) -> Fail {
        Fail::of(Fate::After(delay), error)
    }

    /// Ends the run without a failure: the job runs again after `delay`. No retry is used up, no
    /// [`Event::Failed`](crate::Event::Failed) is emitted, the job keeps its key, and
    /// [`Stats::snoozed`](crate::Stats::snoozed) counts the run. The next run has the same
    /// [`Run::attempt`](crate::Run::attempt) and a greater [`Run::fence`](crate::Run::fence).
    ///
    /// A job that was [cancelled](crate::Client::cancel) while it ran does not run again. A delay that leads
    /// past the year 9999 ends with that year.
    ///
    /// Nothing limits the number of snoozes. [`JobInfo::due`](crate::JobInfo::due) is the time of the next run, so it
    /// does not tell the age of the job. A job that must not wait for ever can expire
    /// ([`NewJob::expires`](crate::NewJob::expires)): the `cookbook` shows this.
    ///
    /// A snooze costs as much as a failed run: one claim, and one change of the job in the store. So choose a
    /// delay after which the next run may succeed. After a delay of zero the job runs again at once.
    #[doc(alias("defer", "delay", "postpone", "rate_limit", "reschedule"))]
    #[must_use]
    pub fn snooze(delay: Duration) -> Fail {
        Fail::by_jobs(Fate::Snooze(delay), "the job was put off".to_owned(), ErrorType::OTHER)
    }

    /// Fails the run, and makes the job dead at once.
    #[doc(alias("discard", "unrecoverable"))]
    pub fn dead(error: impl Into<Box<dyn Error + Send + Sync>>) -> Fail {
        Fail::of(Fate::Dead, error)
    }

    /// Ends a run that was cancelled ([`Run::is_cancelled`](crate::Run::is_cancelled)), without counting it:
    /// unless its job was cancelled or its lease was lost, the job runs again at once. If the run was not
    /// cancelled, or has reached its [time limit](crate::Builder::time_limit), this is the same as
    /// [`Fail::retry`].
    #[must_use]
    pub fn interrupted() -> Fail {
        let error = "the run was told to stop".to_owned();
        Fail::by_jobs(Fate::Interrupted, error, ErrorType::INTERRUPTED)
    }

    /// Says whether this is an error of the run: not a [snooze](Fail::snooze), and not an
    /// [interruption](Fail::interrupted). So a [middleware](crate::Builder::middleware) can report errors. `Display`
    /// has the text of the error. An interruption counts as a failure only if nothing had cancelled its run.
    #[must_use]
    pub fn is_error(&self) -> bool {
        !matches!(self.fate, Fate::Snooze(_) | Fate::Interrupted)
    }

    fn of<E: Into<Box<dyn Error + Send + Sync>>>(fate: Fate, error: E) -> Fail {
        Fail { fate, error: chain(&*error.into()), of_type: ErrorType::of::<E>() }
    }

    /// Makes a failure that the jobs have noticed, not the handler.
    pub(crate) fn by_jobs(fate: Fate, error: String, of_type: ErrorType) -> Fail {
        Fail { fate, error, of_type }
    }
}

/// Two failures are equal if they have the same text and the same effect on the job: a retry by the policy, a death, or
/// a delay of the same length. So a test compares the result of a handler in one line. The type of an error, which a
/// span records, is not compared.
///
/// ```
/// use std::time::Duration;
/// use tickwheel_jobs::Fail;
/// assert_eq!(Fail::from("no answer"), Fail::retry("no answer"));
/// assert_ne!(Fail::dead("no answer"), Fail::retry("no answer"));
/// assert_ne!(Fail::snooze(Duration::ZERO), Fail::snooze(Duration::from_secs(1)));
/// ```
impl PartialEq for Fail {
    fn eq(&self, other: &Fail) -> bool {
        (self.fate, &self.error) == (other.fate, &other.error)
    }
}

impl Eq for Fail {}

impl<E: Into<Box<dyn Error + Send + Sync>>> From<E> for Fail {
    fn from(error: E) -> Fail {
        Fail::retry(error)
    }
}

/// The longest text of an error that is kept with a job, in bytes.
pub(crate) const ERROR_BYTES: usize = 4096;

/// Returns the error and its sources, as one line of text of at most [`ERROR_BYTES`].
fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text.push_str(": ");
        text.push_str(&error.to_string());
        source = error.source();
        if text.len() > ERROR_BYTES {
            break;
        }
    }
    cut(&text, ERROR_BYTES)
}

impl fmt::Debug for Fail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fail").field("fate", &self.fate).field("error", &self.error).finish()
    }
}

impl fmt::Display for Fail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.error)
    }
}

/// How many errors are kept.
const KEPT: usize = 5;
/// How many bytes of an earlier error are kept.
const OLD_ERROR_BYTES: usize = 800;

/// A failed attempt of a job.
///
/// Its serialized form has the fields `at`, a time as in a [`JobInfo`](crate::JobInfo), `attempt`, `node` and
/// `error`.
#[derive(Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct AttemptError {
    /// When the attempt ended, by the clock of the store.
    #[serde(serialize_with = "super::time::rfc3339")]
    pub at: SystemTime,
    /// The number of the attempt, as [`Run::attempt`](crate::Run::attempt) counts.
    pub attempt: u32,
    /// The process that ran it: its host and its process id, `shop-3/4711`. Empty if the process ended during
    /// the attempt: another one noticed that, and does not know its name.
    pub node: String,
    /// The error: of the latest failure 4096 bytes at most, of earlier ones 800.
    pub error: String,
}

/// The errors of a job, as the stores keep them.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct AttemptErrors(String);

/// An error, as the stores keep it.
#[derive(Serialize, Deserialize)]
struct StoredError {
    at: i64,
    attempt: u32,
    node: String,
    error: String,
}

impl AttemptErrors {
    /// Takes the text that a store has kept.
    pub(crate) fn from_text(text: String) -> AttemptErrors {
        AttemptErrors(text)
    }

    /// Returns the text that a store keeps.
    pub(crate) fn as_text(&self) -> &str {
        &self.0
    }

    /// Returns these errors and a new one before them, without the oldest if there are too many.
    pub(crate) fn and(&self, at: Millis, attempt: u32, node: &str, error: &str) -> AttemptErrors {
        let (node, error) = (node.to_owned(), cut(error, ERROR_BYTES));
        let mut all = vec![StoredError { at: at.get(), attempt, node, error }];
        all.extend(self.stored());
        all.truncate(KEPT);
        for old in &mut all[1..] {
            old.error = cut(&old.error, OLD_ERROR_BYTES);
        }
        AttemptErrors(serde_json::to_string(&all).unwrap_or_default())
    }

    /// Returns the errors, the newest first.
    pub(crate) fn list(&self) -> Vec<AttemptError> {
        let error = |stored: StoredError| AttemptError {
            at: Millis::clamped(stored.at).to_system(),
            attempt: stored.attempt,
            node: stored.node,
            error: stored.error,
        };
        self.stored().into_iter().take(KEPT).map(error).collect()
    }

    /// Returns the text of the newest error.
    pub(crate) fn latest(&self) -> Option<String> {
        self.stored().into_iter().next().map(|stored| stored.error)
    }

    /// Returns the first line of the newest error.
    pub(crate) fn first_line(&self) -> String {
        let latest = self.latest().unwrap_or_default();
        latest.lines().next().unwrap_or_default().to_owned()
    }

    fn stored(&self) -> Vec<StoredError> {
        match self.0.is_empty() {
            true => Vec::new(),
            false => serde_json::from_str(&self.0).unwrap_or_default(),
        }
    }
}

/// Returns at most `bytes` bytes of a text, cut at a character's boundary.
pub(crate) fn cut(text: &str, bytes: usize) -> String {
    let end = (0..=bytes.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    text[..end.unwrap_or(0)].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the sum of all waits of a policy, without jitter and with all of it.
    fn window(policy: Retry) -> (Duration, Duration) {
        (1..)
            .map_while(|failures| policy.wait(failures))
            .fold((Duration::ZERO, Duration::ZERO), |(least, most), (shortest, longest)| {
                (least + shortest, most + longest)
            })
    }

    /// The waits of a policy add up to its window: 9.14 hours without jitter for the policy that is the default.
    #[test]
    fn retry_waits_add_up_to_the_window_of_their_policy() {
        let second = Duration::from_secs(1);
        // 1 + 2 + … + 2048 is 4095 seconds, and eight more waits of an hour.
        let least = Duration::from_secs(4095 + 8 * 3600);
        assert_eq!(window(Retry::default()), (least, least + least / 4));
        assert_eq!(least.as_secs(), 32_895); // 9.14 hours
        let twelve = Retry::exponential(second).max_delay(HOUR).max_retries(12);
        assert_eq!(window(twelve), (4095 * second, 4095 * second * 5 / 4));
        assert_eq!(window(Retry::fixed(10 * second).max_retries(3)), (30 * second, 30 * second));
        assert_eq!(window(Retry::never()), (Duration::ZERO, Duration::ZERO));
    }

    /// A drawn wait lies between the shortest and the longest wait, and may be either.
    #[test]
    fn retry_wait_lies_in_its_window_and_reaches_both_ends() {
        let policy = Retry::exponential(Duration::from_millis(4)).max_delay(HOUR).max_retries(3);
        let drawn = |draw| policy.draw_wait(1, draw).unwrap().as_millis();
        assert_eq!((drawn(0), drawn(1), drawn(2)), (4, 5, 4));
        assert_eq!(policy.draw_wait(4, 0), None);
    }

    /// A policy with extreme durations and counts saturates: no wait overflows.
    #[test]
    fn retry_policies_saturate_at_extremes() {
        let policy =
            Retry::exponential(Duration::MAX).max_delay(Duration::MAX).max_retries(u32::MAX);
        assert_eq!(policy.wait(u32::MAX), Some((Duration::MAX, Duration::MAX)));
        assert!(policy.draw_wait(80, 7).is_some());
        let longest = Retry::exponential(Duration::from_millis(u64::MAX) * 4);
        assert!(longest.max_delay(Duration::MAX).draw_wait(1, 7).is_some());
        assert_eq!(Retry::exponential(Duration::ZERO).draw_wait(5, 3), Some(Duration::ZERO));
    }

    /// A long error is cut between two characters: the newest later than the others.
    #[test]
    fn attempt_errors_cut_long_texts() {
        let long = "é".repeat(40_000);
        let errors = AttemptErrors::default().and(Millis::ZERO, 1, "a", &long);
        let list = errors.and(Millis::ZERO, 2, "", &long).list();
        assert_eq!((list[0].error.len(), list[1].error.len()), (4096, 800));
    }

    /// A damaged text has no errors, and causes no panic.
    #[test]
    fn attempt_errors_survive_damage() {
        let one = AttemptErrors::default().and(Millis::ZERO, 1, "a", "one");
        for end in 0..one.0.len() {
            assert!(AttemptErrors(one.0[..end].to_owned()).list().is_empty(), "{end}");
        }
    }
}
