//! Runs that end in a transaction of their handler: the commit is the end, and after a rollback the handler's is.

use std::sync::Arc;

use tickwheel_jobs::rusqlite::{Connection, TransactionBehavior};
use tickwheel_jobs::{InvalidInput, JobState, Run, StoreError};

use crate::calls::ok;
use crate::ops::{Crash, Ending};
use crate::oracle::{Outcome, ensure};
use crate::run_sets::RunSets;
use crate::world::{Shared, end};

/// How a run ends: in a transaction before its handler returns, or with its handler.
pub(crate) enum Ended {
    /// A transaction has ended the run. The handler returns this, without effect.
    Before(Ending),
    /// The run ends as the handler returns.
    ByHandler(Ending, RunSets),
}

/// Ends a run in a transaction if its plan says so. Returns `None` after a crash.
pub(crate) fn transact(
    shared: &Arc<Shared>,
    ending: Ending,
    run: &Run,
    set: RunSets,
) -> Option<Ended> {
    let Ending::InTransaction { commits, crash, fails } = ending else {
        return Some(Ended::ByHandler(ending, set));
    };
    let returns = if fails { Ending::Fails } else { Ending::Done };
    let committed = commit(shared, run, commits, crash, &set);
    let committed = committed.unwrap_or_else(|wrong| {
        shared.note(Err(format!("{run:?} in a transaction: {wrong}")));
        false
    });
    if shared.is_over() {
        return None;
    }
    if !committed {
        return Some(Ended::ByHandler(returns, set));
    }
    end(shared, run, Ending::Done, set)?;
    if crash == Crash::After {
        shared.crash();
    }
    shared.note(is_gone(run));
    (!shared.is_over()).then_some(Ended::Before(returns))
}

/// Returns whether a transaction has ended the run.
fn commit(shared: &Shared, run: &Run, commits: bool, crash: Crash, set: &RunSets) -> Outcome<bool> {
    let failed = |error: tickwheel_jobs::rusqlite::Error| error.to_string();
    let Some(path) = shared.place.file() else {
        let mut file = Connection::open_in_memory().map_err(failed)?;
        let refused = run.end_in(&file.transaction().map_err(failed)?);
        let right = refused == Err(StoreError::Invalid(InvalidInput::NoFile));
        return ensure(right, || format!("without a file: {refused:?}")).map(|()| false);
    };
    if set.take_claimed_keys(&shared.lock().oracle) {
        return Ok(false);
    }
    let mut file = Connection::open(path).map_err(failed)?;
    let behavior = TransactionBehavior::Immediate;
    let transaction = file.transaction_with_behavior(behavior).map_err(failed)?;
    ok(run.end_in(&transaction))?;
    let again = run.end_in(&transaction);
    ensure(again == Err(StoreError::RunEnded), || format!("again: {again:?}"))?;
    if crash == Crash::Before {
        shared.crash();
    }
    if commits { transaction.commit() } else { transaction.rollback() }.map_err(failed)?;
    Ok(commits)
}

/// After the commit and before the end of the handler, the job is over for every process.
fn is_gone(run: &Run) -> Outcome {
    let client = run.client();
    let info = ok(client.get(run.id()))?;
    let is_over = info.as_ref().is_none_or(|info| info.state == JobState::Completed);
    ensure(is_over, || format!("after the end of {run:?}: {info:?}"))?;
    client.check().map_err(|violation| format!("check after the end of {run:?}: {violation}"))
}
