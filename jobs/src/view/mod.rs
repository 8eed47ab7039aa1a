//! Rows about a queue, for pages, tables and JSON: each is asked for once, and has only to be drawn. The dashboard, the
//! command and its `top` show these rows; a program draws a page of its own from the same.
//!
//! ```
//! # use std::time::Duration;
//! # use serde::{Deserialize, Serialize};
//! # use tickwheel_jobs::{Job, Jobs};
//! # #[derive(Serialize, Deserialize)]
//! # struct Mail(u64);
//! # impl Job for Mail { const KIND: &'static str = "mail"; }
//! use tickwheel_jobs::view::{JobFilter, KindFilter, ListState, View};
//!
//! # let (jobs, driver) = Jobs::memory().handle(|_: Mail, _| Ok(())).manual()?;
//! jobs.insert_batch((0..3).map(|number| (Duration::from_secs(3600), Mail(number))))?;
//! let view = View::new(jobs.client());
//! let overview = view.overview()?;
//! println!("{} pending, {} of {} run", overview.pending, overview.running, overview.capacity);
//! for kind in view.kinds(&KindFilter::default(), None, 100)?.rows {
//!     println!("{}: {} pending, late {:?} ms", kind.kind, kind.pending, kind.hour.late_p99_ms);
//! }
//! let mut of_mail = JobFilter::new(ListState::Pending);
//! of_mail.kind = Some("mail".to_owned());
//! let list = view.jobs(&of_mail, None, 100)?;
//! println!("{}", serde_json::to_string(&list)?); // the JSON of the dashboard
//! assert_eq!(list.rows.len(), 3);
//! # drop(driver);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Ground rules:
//!
//! - A fact has one name in every row, and a state one word: `late_p99_ms`, `waits_for_the_dead`. So it has in JSON.
//! - A time serializes as RFC 3339 in UTC with milliseconds, a duration as milliseconds in a field whose name ends in
//!   `_ms`.
//! - Every text from a job is in its redacted form ([`View::redact`]). It is not escaped.
//! - No row costs more for a longer queue: a list has as many rows as are asked for, and a search reads at most 6,000
//!   records (1,000 on a server), or 8 MiB of them.
//! - A job is overdue if its due time has passed. After two seconds of that a warning says why.

pub(crate) mod values;
pub(crate) mod redact;
pub(crate) mod queue;
pub(crate) mod history;
pub(crate) mod kinds_and_limits;
pub(crate) mod overview;
pub(crate) mod jobs;
pub(crate) mod groups;
pub(crate) mod nodes_and_schedules;
#[cfg(all(test, feature = "sqlite"))]
mod costs;

pub use groups::{Dead, DeadGroup, GroupRow, GroupState, Groups};
pub use history::{History, HistoryRow, Rates};
pub use jobs::{JobFilter, JobList, JobPage, JobRow, ListState, Place, Searched, TimelineStep};
pub use kinds_and_limits::{KindFilter, KindPage, KindRow, Kinds, LimitRow, Limits};
pub use nodes_and_schedules::{NodeRow, Nodes, ScheduleRow, Schedules, Store};
pub use overview::{About, Overview, Slowdowns, Warning};
pub use queue::View;
pub use redact::{Content, Part};
pub use values::{Bound, Time};

pub use crate::values::info::Number;
