//! The common part of all comparisons with other libraries: measurements in rounds, a file of all
//! figures, and the tables and drawings that are made from it.
//!
//! A comparison implements [`report::Comparison`]. It supplies its cases, its contenders and the
//! way to measure each, as data and as functions.
//!
//! | file | what it does |
//! | --- | --- |
//! | `case.rs` | defines a measurement and its figures |
//! | `versions.rs` | finds the version of a package that was measured |
//! | `machine.rs` | says where and when it was measured |
//! | `options.rs` | reads the options that every comparison has |
//! | `process.rs` | runs a program, and reads what it prints |
//! | `results.rs` | keeps all values, in a file |
//! | `rounds.rs` | measures all cases in interleaved rounds |
//! | `table.rs` | makes tables in Markdown |
//! | `drawing.rs` | draws lines over a logarithmic axis |
//! | `report.rs` | writes the tables into the page, the drawings, and the file of figures |
//! | `queues/` | has what only the comparisons of job queues share |
//!
//! Ground rules:
//!
//! - Nothing here knows a contender, a row or a figure by its name, save `queues/`, which knows the
//!   figures that all queues have.
//! - A file uses only the files above it in this list.

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
