//! The snippets of `docs/sqlite.md` and `docs/axum.md`, as they stand on the pages.
#![doc = include_str!("../../../jobs/docs/sqlite.md")]
#![doc = include_str!("../../../jobs/docs/axum.md")]
