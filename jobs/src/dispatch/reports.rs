//! Reports of runs: each start and each end, for the program's function, the run's span and the counters.
//!
//! Ground rules:
//!
//! - The end of a run is reported after its start, and once. It may come while the start is being reported, on
//!   another thread: then the thread of the start reports the end as well.
//! - The function runs outside of every lock. A panic of it ends there.

use std::sync::Arc;

use super::events::call_user;
use super::metrics::Metrics;
use super::run_span::RunSpan;
use super::run_state::RunState;
use crate::values::run_end::{Outcome, RunReport};

/// The function that the user gave.
pub(crate) type OnRun = Arc<dyn Fn(&RunReport) + Send + Sync>;

/// Reports the start of a run, on the thread that is about to call its handler. A program with spans reports it
/// without a function too, because the span is then there for the end.
pub(crate) fn report_start(run: &RunState, on_run: Option<&OnRun>) {
    if let Some(on_run) = on_run {
        call(on_run, &report(run), &run.span, false);
    }
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
    if run.may_end_without_handler() {
        // The end of its handler was not counted.
        Metrics::add(match over.outcome {
            Outcome::Completed => &metrics.completed,
            Outcome::Snoozed => &metrics.snoozed,
            _ => &metrics.failed,
        });
    }
    if is_reported(on_run) && run.end_is_due() {
        call_with_end(run, on_run, threaded);
    }
}

/// Says whether anything learns of the starts and ends of runs.
pub(crate) fn is_reported(on_run: Option<&OnRun>) -> bool {
    on_run.is_some() || RunSpan::EXISTS
}

fn call_with_end(run: &RunState, on_run: Option<&OnRun>, threaded: bool) {
    let Some(over) = run.over() else { return };
    if let Some(on_run) = on_run {
        let (outcome, error) = (Some(over.outcome), over.error.as_ref());
        let (took, error) = (Some(over.took), error.map(|error| error.text.clone()));
        call(on_run, &RunReport { took, outcome, error, ..report(run) }, &run.span, threaded);
    }
    #[cfg(feature = "tracing")]
    call_user(threaded, || super::run_traces::end(run, over));
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

fn call(on_run: &OnRun, report: &RunReport, span: &RunSpan, threaded: bool) {
    call_user(threaded, || span.in_scope(|| on_run(report)));
}
