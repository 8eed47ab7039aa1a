//! The recipe of `docs/traces.md`, and its snippets as they stand on the page.
#![doc = include_str!("../../../../jobs/docs/traces.md")]

pub mod recipe;
