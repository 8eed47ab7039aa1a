//! Jobs that have ended, waits for them, pauses and head starts, on a server; the scenarios are those of the other stores.

use std::time::Duration;

use tickwheel_jobs::{Builder, Jobs};

use crate::scenarios::{self, Charge};
use crate::server::{Server, pause, wait_until};
use crate::support::open;

const LONG: Duration = Duration::from_secs(60);

/// Runs a scenario on a server.
fn on_a_server(scenario: impl Fn(&dyn Fn() -> Builder)) {
    let server = Server::start();
    scenario(&|| open(&server));
}

/// See the scenario.
#[test]
fn completed_jobs_are_kept_by_number_age_and_bytes() {
    on_a_server(|open| scenarios::completed_jobs_are_kept_by_number_age_and_bytes(open));
}

/// See the scenario.
#[test]
fn kept_job_that_is_removed_leaves_its_chosen_id() {
    on_a_server(|open| scenarios::kept_job_that_is_removed_leaves_its_chosen_id(open));
}

/// See the scenario.
#[test]
fn kept_job_ages_from_its_end() {
    on_a_server(|open| scenarios::kept_job_ages_from_its_end(open));
}

/// See the scenario.
#[test]
fn kept_job_is_deleted_and_not_retried() {
    on_a_server(|open| scenarios::kept_job_is_deleted_and_not_retried(open));
}

/// See the scenario.
#[test]
fn list_of_ended_jobs_has_each_once() {
    on_a_server(|open| scenarios::list_of_ended_jobs_has_each_once(open));
}

/// See the scenario.
#[test]
fn dead_jobs_are_counted_by_kind_and_error() {
    on_a_server(|open| scenarios::dead_jobs_are_counted_by_kind_and_error(open));
}

/// See the scenario.
#[test]
fn paused_kinds_and_queues_start_nothing() {
    on_a_server(|open| scenarios::paused_kinds_and_queues_start_nothing(open, true));
}

/// See the scenario.
#[test]
fn pause_holds_back_claimed_jobs() {
    on_a_server(|open| scenarios::pause_holds_back_claimed_jobs(open));
}

/// See the scenario.
#[test]
fn head_start_orders_the_due_jobs_of_kinds() {
    on_a_server(|open| scenarios::head_start_orders_the_due_jobs_of_kinds(open, true));
}

/// See the scenario.
#[test]
fn head_start_takes_no_slot_before_the_due_time() {
    on_a_server(|open| scenarios::head_start_takes_no_slot_before_the_due_time(open));
}

/// See the scenario.
#[test]
fn late_job_with_a_head_start_passes_those_that_wait() {
    on_a_server(|open| {
        scenarios::late_job_with_a_head_start_passes_those_that_wait(open, false);
    });
}

/// See the scenario.
#[test]
fn head_start_holds_in_every_process_within_a_second() {
    let client = |open: &dyn Fn() -> Builder| open().client().unwrap();
    on_a_server(|open| {
        scenarios::head_start_holds_in_every_process_within_a_second(open, || client(open));
    });
}

/// See the scenario.
#[test]
fn nodes_are_listed_while_they_run() {
    on_a_server(|open| scenarios::nodes_are_listed_while_they_run(open));
}

/// See the scenario.
#[test]
fn call_returns_the_result_of_its_job() {
    on_a_server(|open| scenarios::call_returns_the_result_of_its_job(open));
}

/// See the scenario.
#[test]
fn called_job_outlasts_the_bounds_of_its_kind() {
    on_a_server(|open| scenarios::called_job_outlasts_the_bounds_of_its_kind(open));
}

/// See the scenario.
#[test]
fn wait_ends_when_its_job_is_cancelled() {
    on_a_server(|open| scenarios::wait_ends_when_its_job_is_cancelled(open));
}

/// See the scenario.
#[test]
fn progress_is_shown_while_its_run_lasts() {
    on_a_server(|open| scenarios::progress_is_shown_while_its_run_lasts(open, true));
}

/// See the scenario.
#[test]
fn progress_is_gone_with_its_run() {
    on_a_server(|open| scenarios::progress_is_gone_with_its_run(open));
}

/// See the scenario.
#[test]
fn overdue_jobs_are_counted() {
    on_a_server(|open| scenarios::overdue_jobs_are_counted(open));
}

/// See the scenario.
#[test]
fn many_overdue_jobs_are_ten_thousand_or_more() {
    on_a_server(|open| scenarios::many_overdue_jobs_are_ten_thousand_or_more(open));
}

/// A process that runs no jobs calls one that another process runs. A pause by a third one reaches the node.
#[test]
fn calls_and_pauses_cross_processes() {
    let server = Server::start();
    let node = || open(&server).handle(|charge: Charge, run| run.set_result(&charge.0)).start();
    let nodes: [Jobs; 2] = [node().unwrap(), node().unwrap()];
    let (caller, operator) = (open(&server).client().unwrap(), open(&server).client().unwrap());
    assert_eq!(caller.call::<_, u64>(Charge(7), LONG).unwrap(), 7);
    operator.kind::<Charge>().pause().unwrap();
    pause(Duration::from_millis(1500));
    let id = caller.insert(Duration::ZERO, Charge(8)).unwrap();
    pause(Duration::from_millis(300));
    assert!(caller.get(id).unwrap().is_some(), "a second after the pause nothing starts");
    operator.kind::<Charge>().resume().unwrap();
    wait_until("it has run", || caller.get(id).unwrap().is_none());
    caller.check().unwrap();
    for node in nodes {
        node.shutdown().unwrap();
    }
}

/// See the scenario.
#[test]
fn history_counts_every_event_in_its_minute() {
    on_a_server(|open| scenarios::history::history_counts_every_event_in_its_minute(open));
}

/// See the scenario.
#[test]
fn history_lasts_for_ninety_days_and_can_be_turned_off() {
    on_a_server(|open| {
        scenarios::history::history_lasts_for_ninety_days_and_can_be_turned_off(open)
    });
}

/// See the scenario.
#[test]
fn history_counts_interrupted_runs() {
    on_a_server(|open| scenarios::history::history_counts_interrupted_runs(open));
}

/// See the scenario.
#[test]
fn run_that_fails_after_a_cancel_counts_as_cancelled() {
    on_a_server(|open| scenarios::history::run_that_fails_after_a_cancel_counts_as_cancelled(open));
}
