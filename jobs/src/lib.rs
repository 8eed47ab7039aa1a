#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]
#![warn(missing_docs)]
//! Durable delayed jobs: in a file without a server, or on a Redis server that several machines share.
//!
//! A job is data: a type with a [kind](Job::KIND), encoded by serde, with a due time of the wall clock and
//! perhaps a key. [`Jobs::open`] keeps jobs in a file, runs each at its due time with the handler of its kind,
//! retries failed jobs, and still has its jobs after a crash.
//!
//! [`Job`] is a trait here, for data. [`tickwheel::Job`] is another type: a struct, for a closure.
//!
//! ```
//! use std::time::Duration;
//! use serde::{Deserialize, Serialize};
//! use tickwheel_jobs::{Job, Jobs};
//!
//! #[derive(Serialize, Deserialize)]
//! struct CloseOrder {
//!     order: u64,
//! }
//!
//! impl Job for CloseOrder {
//!     const KIND: &'static str = "close-order";
//! }
//!
//! # let folder = std::env::temp_dir().join(format!("tickwheel-jobs-doc-{}", std::process::id()));
//! # std::fs::create_dir_all(&folder)?;
//! # let path = folder.join("shop.db");
//! let jobs = Jobs::open(&path)?
//!     .handle(|close: CloseOrder, run| {
//!         println!("order {} closes, {:?} late", close.order, run.late());
//!         Ok(())
//!     })
//!     .start()?;
//! let hours = Duration::from_secs(3600);
//! let id = jobs.insert(72 * hours, CloseOrder { order: 1001 })?; // it is on disk now
//! assert!(jobs.cancel(id)?.is_cancelled()); // paid: it will never run
//! jobs.shutdown()?;
//! # std::fs::remove_dir_all(&folder)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What to know
//!
//! - **A job runs at least once.** If its process ends after the handler's work and before the commit that
//!   records it, the job runs again. So handlers use [`Run::id`] as the idempotency key of their calls to other
//!   systems.
//! - **One process runs the jobs of a file.** Any number of processes run the jobs on a Redis server. Other
//!   processes insert, cancel and read jobs with a [`Client`], which needs no thread of its own unless several
//!   callers share it or a future calls it. The command `tickwheel-jobs` (crate `tickwheel-jobs-cli`) does the same.
//! - **Due times are times of the wall clock**, in whole milliseconds. If the clock is set, the jobs follow it.
//! - **Pending jobs are in the file.** Memory holds only the jobs that are due within 50 ms and the jobs that
//!   run: at most [`Builder::max_in_flight`].
//! - **An open write transaction of another connection blocks every insert and the end of every run** on a
//!   file, because SQLite has one writer at a time. On a thread that has such a transaction open itself, use
//!   `insert_in`: `insert` would wait for that transaction in vain.
//!
//! - **A handler returns `Ok` or a [`Fail`].** `?` converts nearly every error to a `Fail`, which leads to a
//!   retry by the policy, a retry after a delay, no retry, or a later run without a failure ([`Fail::snooze`]).
//!
//! - **A middleware has the code that every handler needs** ([`Builder::middleware`]): a tenant, a transaction, a
//!   report of errors.
//!
//! - **A verb that waits is a future too**: those of [`Client::asynchronous`] and of the handles' `asynchronous`, under
//!   the same names, on any runtime ([`Async`]). The other form blocks the thread. A [`view::View`] and the verbs in a
//!   transaction of the caller's have that form only.
//!
//! The `cookbook` has recipes.
//!
//! # Handles
//!
//! | handle | of | verbs |
//! | --- | --- | --- |
//! | [`Jobs`], [`Driver`] | the process that runs the jobs | shutdown; for a [`Driver`] the time of a test |
//! | [`Client`] | the jobs | insert, get, cancel, reschedule, retry, delete, wait and call; cancel many; lists ([`Pages`]), which change many jobs at once ([`Bulk`]) |
//! | [`Keyed`] | the job of a key | insert, replace, throttle, debounce, cancel, reschedule |
//! | [`Queue`], [`Kind`], [`Partition`] | the whole queue, a kind, a partition of a kind | pause, resume, limit, hold; history and more |
//! | [`Schedules`] | the schedules | list, run, pause, resume, remove |
//! | [`Group`], [`GroupHandle`] | a group of jobs, before and after its insert | add, seal, cancel, info, results ([`GroupResults`]) |
//! | [`Run`] | a run of a job, in its handler | key, state, progress, result, follow-ups, group, the end in a transaction |
//! | [`view::View`] | rows for pages and tables | overview, kinds, jobs, nodes, schedules, groups, history |
//!
//! # Features
//!
//! Without any feature there are only jobs in memory ([`Jobs::memory`]), which end with the process. [`Jobs::connect`]
//! takes a path or a URL, such as a setting of the program.
//!
//! | feature | brings | needs |
//! | --- | --- | --- |
//! | `sqlite` (default) | [`Jobs::open`]: jobs in a file; `insert_in`, `statement`: a job in a transaction of your own; the reexport `rusqlite` | a C compiler: SQLite is built with the crate |
//! | `sqlite-unbundled` | the same with the SQLite that the program links already | SQLite 3.51.3 or later |
//! | `redis` | `Jobs::redis`: jobs on a Redis server, in a cluster or behind sentinels, which several machines share | a server of version 6.2 or later |
//! | `redis-tls` | the same over TLS: URLs that begin with `rediss`; certificates of your own: `Jobs::redis_with_tls` and `Tls` | `redis`, which it turns on |
//! | `cron` | `Cron`: schedules by cron expression in a time zone | the system's time zones, or else those of `jiff` |
//! | `tokio` | `Builder::handle_async`: handlers that are futures | a tokio runtime that the program starts; this crate starts none |
//! | `tracing` | a span a run and events for the crate `tracing`; `Builder::trace_context`: a job carries the context of a trace to its runs | nothing more; for OpenTelemetry the recipe in `docs/traces.md` |
//!
//! A program that uses only Redis leaves out the default feature, and SQLite with it:
//! `default-features = false, features = ["redis"]`.

/// Named points of the code, at which tests end the process. Not a part of the interface.
#[doc(hidden)]
pub mod hook {
    #[cfg(feature = "redis")]
    pub use crate::store::redis::scripts::hash_of;
    pub use crate::values::hook::{at, set};
}

mod values;
mod store;
mod dispatch;
mod api;
pub mod view;

pub use api::asynchronous::Async;
pub use api::builder::Builder;
pub use api::bulk::{Bulk, BulkCounts};
#[doc(hidden)]
pub use api::by_hand::{ChangedByHand, JobByHand};
pub use api::client::Client;
#[doc(hidden)]
pub use api::connect::StoreUrl;
pub use api::driver::Driver;
pub use api::group::Group;
pub use api::group::GroupHandle;
pub use api::group::GroupResults;
pub use api::insert::{Inserted, NewJob, Until};
pub use api::jobs::Jobs;
pub use api::keyed::Keyed;
pub use api::kind::{Kind, Queue};
#[doc(hidden)]
pub use api::limits::HowChanged;
pub use api::limits::Partition;
pub use api::read::Pages;
pub use api::schedules::Schedules;
pub use api::test_run::TestRun;
#[cfg(feature = "sqlite-unbundled")]
pub use api::transaction::Statement;
pub use dispatch::events::Event;
pub use dispatch::metrics::KindStats;
pub use dispatch::metrics::Stats;
pub use dispatch::middleware::Next;
#[cfg(feature = "tokio")]
pub use dispatch::middleware::NextAsync;
pub use dispatch::run::{Cancelled, Run};
pub use values::error::CallError;
pub use values::error::{
    InsertError, InsertErrorKind, OpenError, ServerProblem, StoreError, Violation,
};
pub use values::fail_and_retry::AttemptError;
pub use values::fail_and_retry::Fail;
pub use values::fail_and_retry::Retry;
pub use values::group::GroupError;
pub use values::group::GroupId;
pub use values::group::GroupInfo;
pub use values::history::Buckets;
pub use values::history::{HistoryEntry, Step};
pub use values::id::Fence;
pub use values::id::JobId;
pub use values::info::{
    Cancel, Counts, DeadByError, Durability, JobInfo, JobState, MemberResult, Number, ScheduleInfo,
};
pub use values::invalid_input::InvalidInput;
pub use values::job::Job;
pub use values::limit::Limit;
#[doc(hidden)]
pub use values::limit::StoredLimit;
pub use values::node::NodeInfo;
pub use values::pending_reason::PendingReason;
pub use values::run_end::StopReason;
pub use values::run_end::{Outcome, RunReport};
#[cfg(feature = "cron")]
pub use values::schedule::Cron;
pub use values::schedule::{Missed, Schedule};
pub use values::setting::Keep;
pub use values::stored_limits::LimitInfo;
pub use values::stored_limits::LimitScope;
#[cfg(feature = "redis-tls")]
pub use values::tls::Tls;

#[cfg(all(doctest, feature = "sqlite-unbundled"))]
#[doc = include_str!("../README.md")]
mod readme {}

#[cfg(all(doctest, feature = "sqlite-unbundled", feature = "cron", feature = "tokio"))]
#[doc = include_str!("../docs/coming-from.md")]
mod coming_from_page {}

/// Compiles the examples of the page.
#[cfg(all(doctest, feature = "sqlite-unbundled"))]
#[doc = include_str!("../docs/metrics.md")]
mod metrics_page {}

/// Compiles the program of the page.
#[cfg(all(doctest, feature = "sqlite-unbundled"))]
#[doc = include_str!("../docs/deployment.md")]
mod deployment_page {}

#[cfg(all(not(doctest), feature = "sqlite-unbundled"))]
#[doc = include_str!("../docs/recipes-first-steps.md")]
#[doc = include_str!("../docs/recipes-failures.md")]
#[doc = include_str!("../docs/recipes-limits.md")]
#[doc = include_str!("../docs/recipes-middleware.md")]
#[doc = include_str!("../docs/recipes-tests.md")]
#[doc = include_str!("../docs/recipes-operation.md")]
#[doc(alias("backup", "cron", "idempotent", "outbox", "retry"))]
pub mod cookbook {}

/// Compiles the recipes, with all features that they use. A failure names its page, since each has a module.
#[cfg(all(
    doctest,
    feature = "sqlite-unbundled",
    feature = "cron",
    feature = "redis",
    feature = "tokio"
))]
mod cookbook {
    #[doc = include_str!("../docs/recipes-first-steps.md")]
    mod first_steps {}

    #[doc = include_str!("../docs/recipes-failures.md")]
    mod failures {}

    #[doc = include_str!("../docs/recipes-limits.md")]
    mod limits {}

    #[cfg(feature = "tracing")]
    #[doc = include_str!("../docs/recipes-middleware.md")]
    mod middleware {}

    #[doc = include_str!("../docs/recipes-tests.md")]
    mod tests {}

    #[doc = include_str!("../docs/recipes-operation.md")]
    mod operation {}
}

#[cfg(feature = "sqlite-unbundled")]
pub use rusqlite;
pub use tickwheel;
pub use tickwheel::{Lateness, Metrics};
