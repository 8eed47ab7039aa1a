//! The reasons for which calls refuse an argument. `StoreError` and `InsertErrorKind` carry them.

use core::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Why a call refuses one of its arguments. The call has changed nothing, and a repeat is refused too.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum InvalidInput {
    /// The job does not encode: the error of [`Job::encode`](crate::Job::encode).
    Encode(String),
    /// The payload does not decode, with the error of [`Job::decode`](crate::Job::decode); or the job is of another
    /// kind.
    Decode(String),
    /// A key, a name, a partition, headers, a payload, a result or a progress is too long. Or a key, a name or a
    /// partition is empty.
    TooLong {
        /// Which of them: `key`, `kind's name`, `payload` and so on. A payload has 64 MiB at most.
        what: &'static str,
        /// Its length in bytes.
        bytes: usize,
        /// The longest length that the store takes.
        most: usize,
    },
    /// The text is no [`JobId`](crate::JobId) or [`GroupId`](crate::GroupId): these have 32 hexadecimal digits.
    Id(String),
    /// The wall-clock time lies before 1970.
    Before1970(SystemTime),
    /// The wall-clock time lies after the year 9999.
    After9999(SystemTime),
    /// The delay, the window of a [`When`](tickwheel::When) or a hold ends after the year 9999. Or a head start is
    /// longer than ten years ([`Kind::head_start`](crate::Kind::head_start)).
    DelayTooLong(Duration),
    /// The job would expire before its due time, or at it: see [`NewJob::expires`](crate::NewJob::expires).
    ExpiresBeforeDue {
        /// When it would expire.
        expires: SystemTime,
        /// Its latest due time.
        due: SystemTime,
    },
    /// The period of a schedule is zero.
    ZeroPeriod,
    /// The cron expression is wrong.
    Cron {
        /// The expression.
        expression: String,
        /// The column of the first character of the wrong field, counted from 1.
        column: usize,
        /// The reason.
        reason: String,
    },
    /// No time zone has this name.
    Zone(String),
    /// The schedule has no further occurrence: a period leads past the year 9999, or a cron expression has none before
    /// the year 5000.
    NeverOccurs(String),
    /// This program does not know the rule of the schedule, so it cannot say when the next occurrence is: a rule that
    /// begins with `cron` needs the feature `cron`.
    UnknownRule(String),
    /// The limit is zero, so no job of the scope would ever run. For that, use [`Kind::pause`](crate::Kind::pause).
    ZeroLimit,
    /// The weight of a limit is not from 1 to 1000.
    Weight(u32),
    /// The limit has a weight, which only a partition has: each partition of a kind, or one.
    WeightWithoutPartition,
    /// The period of a rate is not from one millisecond to 366 days.
    RatePeriod(Duration),
    /// The burst is below 1 or above 1,000,000. Or the rate would need more than a thousand years to start as many
    /// jobs.
    Burst(u32),
    /// A burst belongs to a rate, and this limit has none.
    BurstWithoutRate,
    /// A bulk verb does not apply to the jobs of its list, as [`retry_all`](crate::Pages::retry_all) to pending jobs.
    NotApplicable {
        /// The verb.
        verb: &'static str,
        /// The state of the jobs.
        listed: &'static str,
    },
    /// The run would have more than 255 follow-ups. Those that it has stay.
    TooManyFollowUps,
    /// The follow-ups of the run would have payloads of more than 1 MiB. Those that it has stay.
    FollowUpsTooLarge,
    /// A run cannot end in a transaction, because the jobs are not on a file: they are in memory or on a server.
    NoFile,
    /// A run cannot end in a transaction that is on another file than the jobs.
    OtherFile {
        /// The file of the transaction, or "no file" for a database in memory.
        path: String,
    },
}

impl fmt::Display for InvalidInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            InvalidInput::Encode(error) => write!(f, "the job does not encode: {error}"),
            InvalidInput::Decode(error) => write!(f, "the payload does not decode: {error}"),
            InvalidInput::TooLong { what, bytes: 0, .. } => write!(f, "a {what} cannot be empty"),
            InvalidInput::TooLong { what, bytes, most } => {
                write!(f, "a {what} of {bytes} bytes is too long: the store takes {most}")
            }
            InvalidInput::Id(text) => {
                write!(f, "{text:?} is no id: that is 32 hexadecimal digits")
            }
            InvalidInput::Before1970(time) => {
                let before = UNIX_EPOCH.duration_since(*time).unwrap_or_default();
                write!(f, "a job cannot be due {before:?} before 1970")
            }
            InvalidInput::After9999(time) => {
                let after = time.duration_since(UNIX_EPOCH).unwrap_or_default();
                write!(f, "a job cannot be due {after:?} after 1970, which is past the year 9999")
            }
            InvalidInput::DelayTooLong(delay) => write!(
                f,
                "{delay:?} is too long: it leads past the year 9999, or is a head start of more than ten years"
            ),
            InvalidInput::ExpiresBeforeDue { expires, due } => {
                let early = due.duration_since(*expires).unwrap_or_default();
                if early.is_zero() {
                    return f.write_str("the job would expire when it is due, and never run");
                }
                write!(f, "the job would expire {early:?} before it is due, and never run")
            }
            InvalidInput::ZeroPeriod => f.write_str("a schedule needs a period above zero"),
            InvalidInput::Cron { expression, column, reason } => {
                write!(f, "cron expression {expression:?}, column {column}: {reason}")
            }
            InvalidInput::Zone(zone) => write!(f, "there is no time zone {zone:?}"),
            InvalidInput::NeverOccurs(rule) => write!(f, "{rule} never occurs again"),
            InvalidInput::UnknownRule(rule) => write!(
                f,
                "this program does not know the rule {rule:?} (cron needs the feature `cron`)"
            ),
            InvalidInput::ZeroLimit => {
                f.write_str("a limit of zero jobs: no job would run; use a pause")
            }
            InvalidInput::Weight(weight) => {
                write!(f, "a weight of {weight}: a partition has between 1 and 1000")
            }
            InvalidInput::WeightWithoutPartition => {
                f.write_str("a weight: only a partition has one")
            }
            InvalidInput::RatePeriod(per) => {
                write!(f, "a rate for {per:?}: a period has between 1 ms and 366 days")
            }
            InvalidInput::Burst(burst) => write!(
                f,
                "a burst of {burst}: it has between 1 and 1000000, and less than the starts of a thousand years"
            ),
            InvalidInput::BurstWithoutRate => f.write_str("a burst without a rate"),
            InvalidInput::NotApplicable { verb, listed } => {
                write!(f, "{verb} does not apply to {listed} jobs")
            }
            InvalidInput::TooManyFollowUps => f.write_str("a run has at most 255 follow-ups"),
            InvalidInput::FollowUpsTooLarge => {
                f.write_str("the payloads of a run's follow-ups have at most 1 MiB")
            }
            InvalidInput::NoFile => f.write_str("the jobs are not on a file"),
            InvalidInput::OtherFile { path } => {
                write!(f, "the transaction is on {path}, and not on the file of the jobs")
            }
        }
    }
}

impl std::error::Error for InvalidInput {}
