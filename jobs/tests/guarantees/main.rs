//! One test for each promise of `docs/guarantees.md`, or more, each with the tags of its promises: `/// P6: A job ..`.
//! The tests that need a crash are in `tests/crashes/`, and those that need a random history are in `tests/model/`.

mod asked;
mod async_calls;
mod bad_input;
mod batches;
mod crossing;
mod docs;
mod end_in;
mod ended;
mod ends;
mod fails;
#[cfg(feature = "tokio")]
mod futures;
mod headers;
mod hooks;
mod in_transaction;
mod insert;
mod keys;
mod limits;
mod lists;
mod lone_caller;
mod metrics;
mod outbox;
#[path = "../scenarios/mod.rs"]
mod scenarios;
mod schedules;
mod run_reports;
mod runs;
mod support;
mod suspects;
mod testing;
mod time_limits;
mod together;
