#![forbid(unsafe_code)]
#![warn(missing_docs)]
//! The dashboard of [`tickwheel_jobs`]: pages and JSON about the jobs of one or more queues, as a service for any web
//! server. [`Dashboard`] shows how a program serves it.
//!
//! Ground rules, of the service and of the pages:
//!
//! - A page and its JSON are made from the same rows, those of [`tickwheel_jobs::view`]. A page is a function of its
//!   frame and its rows, and reads nothing else.
//! - Every link and every form is made by `Frame::link`, so a dashboard works under any prefix.
//! - A form posts to the same path as a JSON client, `api/v1/jobs/{id}/retry`, with the field `back`: the page that the
//!   answer leads to (`Frame::here`). The answer may be a question (`act.rs` says before what), which the reader
//!   confirms: the field `confirm`. The field `once` is the id of the form. A form whose fields may be empty has the
//!   field `form`, with the value `set`.
//!
//! | form | posts to | fields |
//! | --- | --- | --- |
//! | one job | `api/v1/jobs/{id}/retry`, `/again`, `/delete`, `/cancel`, `/reschedule` | `back`; `when` of a reschedule: `5m`, `2h 30m`, `3d`, or RFC 3339; without it: now |
//! | some jobs of a list | `api/v1/bulk` | `back`, `action`, `id` once for each job, `when` |
//! | all jobs of a list or a group | `api/v1/bulk` | `back`, `action`, `when`, and the parameters of the list: `state`, `kind`, `key`, `text`, `group`, `member`, `node`, `from`, `to`; `all` without a filter |
//! | the queue | `api/v1/queue/pause`, `/resume` | `back` |
//! | a kind | `api/v1/kinds/pause`, `/resume` | `back`, `kind` |
//! | a scope | `api/v1/scopes/limit`, `/lift`, `/hold`, `/release`, `/pause`, `/resume` | `back`, `scope` with `kind`, `flow`, `partition`; `running`, `rate`, `per`, `burst`, `weight`; `for` of a hold; `program` of a lift |
//! | settings of a kind | `api/v1/kinds/keep`, `/head-start` | `back`, `kind`; `last`, `age`, `bytes`; `by` |
//! | a job by hand | `api/v1/kinds/insert` | `back`, `kind`, `payload`, `when`, `key`, `replace`, `partition`, `headers` |
//! | a schedule | `api/v1/schedules/run`, `/pause`, `/resume`, `/unschedule` | `back`, `schedule` |
//! | a group | `api/v1/groups/{id}/seal`, `/cancel` | `back` |
//! | a question | `Question::target` | its fields |
//! | the end of a bulk | `api/v1/bulk/{id}/stop` | `back` |
//!
//! Pages that are not in the menu: `bulk` lists the bulks, `bulk/{id}` shows one; `jobs/{id}/payload` and
//! `jobs/{id}/result` are downloads.

pub(crate) mod views;
pub(crate) mod params;
pub(crate) mod route;
pub(crate) mod page;
pub(crate) mod options;
pub(crate) mod read;
pub(crate) mod request;
pub(crate) mod bulks;
pub(crate) mod settings;
pub(crate) mod act;
pub(crate) mod respond;
pub(crate) mod dashboard;

pub use dashboard::Dashboard;
pub use options::{Access, Action};
pub use request::{Body, refusal};
pub use tickwheel_jobs::view::Part;

/// Compiles the examples of the page.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
