//! Reports of runs: each start and each end, for the program's function and for the counters.
//!
//! Ground rules:
//!
//! - The end of a run is reported after its start, and once. It may come while the start is being reported, on
//!   another thread: then the thread of the start reports the end as well.
//! - The function runs outside of every lock. A panic of it ends there.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use super::events::call_hook;
use super::metrics::Metrics;
use super::run_state::RunState;
use crate::values::run_report::RunReport;

/// The function that the user gave.
pub(crate) type OnRun = Arc<dyn Fn(&RunReport) + Send + Sync>;

/// Reports the start of a run, on the thread that is about to call its handler.
pub(crate) fn report_start(run: &RunState, on_run: &OnRun) {
    call(on_run, &report(run), false);
    if run.start_was_reported() {
        call_with_end(run, on_run, false);
    }
}

/// Counts the end of a run, and reports it. `threaded`: on a dispatcher's thread.
pub(crate) fn report_end(
    run: &RunState,
    metrics: &Metrics,
    on_run: Option<&OnRun>,
    threaded: bool,
) {
    let Some(over) = run.over() else { return };
    metrics.kinds.ended(&run.kind, over.outcome, over.took);
    if run.has_overrun() {
        // The end of its handler is not counted.
        Metrics::add(&metrics.failed);
    }
    if let Some(on_run) = on_run
        && run.end_is_due()
    {
        call_with_end(run, on_run, threaded);
    }
}

fn call_with_end(run: &RunState, on_run: &OnRun, threaded: bool) {
    let Some(over) = run.over() else { return };
    let (outcome, error) = (Some(over.outcome), over.error.clone());
    call(on_run, &RunReport { took: Some(over.took), outcome, error, ..report(run) }, threaded);
}

/// Returns the report of the start.
fn report(run: &RunState) -> RunReport {
    RunReport {
        id: run.id,
        kind: run.kind.to_string(),
        key: run.key.clone(),
        attempt: run.attempt,
        fence: run.fence,
        due: run.due.to_system(),
        late: run.late(),
        took: None,
        outcome: None,
        error: None,
    }
}

fn call(on_run: &OnRun, report: &RunReport, threaded: bool) {
    if threaded {
        call_hook(|| on_run(report));
    } else if let Err(panic) = catch_unwind(AssertUnwindSafe(|| on_run(report))) {
        // The payload's drop may panic as well.
        let _ = catch_unwind(AssertUnwindSafe(|| drop(panic)));
    }
}
