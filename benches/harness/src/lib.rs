//! What the comparisons with other libraries have in common: measurements in rounds, a file of all
//! figures, and the tables and drawings that are made from it.
//!
//! A comparison brings what differs: its cases, its contenders and how each is measured, as data and
//! as functions. [`report::Comparison`] is what it implements.
//!
//! | file | what it does |
//! | --- | --- |
//! | `case.rs` | says what a measurement is, and what comes out of it |
//! | `versions.rs` | finds the version of a package that was measured |
//! | `machine.rs` | says where and when it was measured |
//! | `options.rs` | reads the options that every comparison has |
//! | `process.rs` | runs a program, and reads what it prints |
//! | `results.rs` | keeps all values, in a file beside the page |
//! | `rounds.rs` | measures all cases in interleaved rounds |
//! | `table.rs` | makes tables in Markdown |
//! | `drawing.rs` | draws lines over a logarithmic axis |
//! | `report.rs` | puts tables into the page, and files where they belong |
//! | `queues/` | what the comparisons of job queues have in common besides |
//!
//! Ground rules:
//!
//! - Nothing here knows a contender, a row or a figure by its name, save `queues/`, which knows the
//!   figures that all queues have.
//! - A file names only what stands above it in this list.

#![forbid(unsafe_code)]

pub mod case;
pub mod versions;
pub mod machine;
pub mod options;
pub mod process;
pub mod results;
pub mod rounds;
pub mod table;
pub mod drawing;
pub mod report;
pub mod queues;

/// A result whose error is a sentence for the user.
pub type Fallible<T = ()> = Result<T, String>;
