//! A wheel behind the timers that other crates ask for: a file for each crate, with the code that
//! fits the two together and a test that runs it. `docs/with.md` says what each costs.
//!
//! ```sh
//! cargo test --manifest-path compare/with/Cargo.toml            # all
//! cargo test --manifest-path compare/with/Cargo.toml quinn      # one
//! ```

#![forbid(unsafe_code)]

pub mod backon;
pub mod calloop;
pub mod futures_timer;
pub mod hyper;
pub mod mio;
pub mod quinn;
pub mod smol;
pub mod tokio;
pub mod tower;

/// Compiles the snippets of the page.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/with.md")]
mod page {}
