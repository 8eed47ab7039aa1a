//! One test for each promise of `docs/guarantees.md`, or more. What only a crash can show is in
//! `tests/kill/` and `tests/crash_points/`; what only a history can show is in `tests/model/`.

mod asked;
mod async_calls;
mod bad_input;
mod cancel;
mod crossing;
mod docs;
mod ends;
mod fails;
#[cfg(feature = "tokio")]
mod futures;
mod held_keys;
mod hooks;
mod in_transaction;
mod insert;
mod keys;
mod lists;
mod outbox;
mod schedules;
mod run_reports;
mod runs;
mod support;
mod suspects;
mod testing;
mod time_limits;
mod together;
