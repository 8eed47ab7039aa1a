//! The snippets of `docs/sqlite.md`, as they stand on the page.
#![doc = include_str!("../../docs/sqlite.md")]
