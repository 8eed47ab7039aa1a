//! The program of `docs/axum.md`, with the test that the page shows, and a test of it as a server.

mod served;
#[allow(dead_code, reason = "other tests use the rest")]
#[path = "../shared/mod.rs"]
mod shared;

include!("shop.rs");
