//! Children that run jobs, report them and are killed, and the rules that judge their reports: for `tests/crashes`,
//! where the jobs are on a file, and for `tests/redis_kill`, where they are on a server.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `record.rs` | what a child reports |
//! | `child.rs`, `calls.rs`, `shutdown.rs`, `hooks.rs` | the child: its handlers, its end, its calls, its `on_event` |
//! | `place.rs` | where the jobs are |
//! | `process.rs`, `lives.rs`, `recall.rs` | the parent: starts children, tells them what to do, and kills them |
//! | `contents.rs` | what the parent sees of the jobs |
//! | `history.rs` | the log as the rules want it |
//! | `rules.rs`, `schedules.rs`, `shared.rs` | the rules R1 to R13, and R15 to R20 |
//! | `judge.rs` | what the persistence of a server explains |
//!
//! R14 is a test of the rules: `tests/crashes/kill/doctored.rs`.

pub(crate) mod record;
pub(crate) mod place;
pub(crate) mod child;
pub(crate) mod calls;
pub(crate) mod hooks;
pub(crate) mod shutdown;
pub(crate) mod process;
pub(crate) mod recall;
pub(crate) mod lives;
pub(crate) mod contents;
pub(crate) mod history;
pub(crate) mod shared;
pub(crate) mod rules;
pub(crate) mod schedules;
pub(crate) mod judge;
