//! Measures the libraries that could keep the file of `tickwheel-jobs`: SQLite, redb, fjall.
//!
//! ```text
//! cargo run --release                        measure everything; write `results/`
//! cargo run --release -- --write             and put the tables into `jobs/docs/store.md`
//! cargo run --release -- --short             one round, short cells, small files; writes nothing
//! cargo run --release -- --only speed        one part: speed, settings, schemas,
//!                                            settings-s4, reopen, syncs or churn
//! cargo run --release -- --report --write    the tables again, from the figures there are
//! ```
//!
//! | file | what it does |
//! | --- | --- |
//! | `candidate.rs` | says which stores are measured, with which settings |
//! | `workload.rs` | makes the jobs: their keys, their delays, their payload |
//! | `store.rs` | the verbs that every store has |
//! | `sqlite.rs`, `redb.rs`, `fjall.rs` | the stores |
//! | `child.rs` | measures one candidate, in a process of its own |
//! | `plan.rs` | starts the children, in rounds |
//! | `report.rs` | makes the tables of `jobs/docs/store.md` |
//! | `process.rs` | reads CPU time, bytes written and memory from the system |

#![forbid(unsafe_code)]

mod candidate;
mod child;
mod fjall;
mod plan;
mod process;
mod redb;
mod report;
mod sqlite;
mod store;
mod workload;

use std::process::ExitCode;

/// Whatever goes wrong ends the measurement.
type Fallible<T> = Result<T, Box<dyn std::error::Error>>;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let done = match arguments.first().map(String::as_str) {
        Some("child") => child::run(&arguments[1..]),
        _ => plan::run(&arguments),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("store-bench: {error}");
            ExitCode::FAILURE
        }
    }
}
