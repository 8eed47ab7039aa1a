//! How a child ends its jobs: after its calls, or in their midst.

use std::error::Error;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tickwheel_jobs::{Fail, Jobs, Run, StopReason, StoreError};

use super::child::{Instructions, ended, now_us, report};
use super::record::{How, LATER_MS, Record, Tag};

/// How a child ends its jobs, unless it is killed.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub(crate) enum Ending {
    /// It shuts down after the last call.
    Quiet,
    /// It shuts down a number of milliseconds after its first calls, which go on meanwhile.
    Amid(u64),
    /// The same, and it waits for runs no longer than a second number of milliseconds.
    Soon(u64, u64),
    /// It drops the jobs a number of milliseconds after its first calls.
    Drop(u64),
}

/// Ends the jobs, and reports how. Longer than a child is stopped and the server away, one after the other: both
/// count.
pub(crate) fn end(jobs: Jobs, life: &Instructions) -> Result<(), Box<dyn Error>> {
    report(&Record::Ending { at: now_us() });
    let ended = match life.ending {
        Ending::Drop(_) => {
            drop(jobs);
            Err(StoreError::StillRunning(0))
        }
        Ending::Soon(_, wait) => jobs.shutdown_timeout(Duration::from_millis(wait)),
        Ending::Quiet | Ending::Amid(_) => jobs.shutdown_timeout(Duration::from_secs(30)),
    };
    match ended {
        Ok(()) => report(&Record::Closed),
        Err(StoreError::StillRunning(_)) => report(&Record::Dropped),
        // A server that is away, or that refuses the last commit.
        Err(StoreError::Unknown) if matches!(life.ending, Ending::Soon(..)) => {
            report(&Record::Dropped);
        }
        Err(_) if life.rights_change => report(&Record::Dropped),
        Err(error) => return Err(error.into()),
    }
    Ok(())
}

/// Reports that a run was asked to stop. The error that this returns does not count, unless the program ends:
/// then the job is put off.
pub(crate) fn told(tag: Tag, run: &Run) -> Fail {
    report(&Record::Told { at: now_us(), tag, fence: run.fence().get() });
    match run.stop_reason() {
        Some(StopReason::Shutdown) => {
            ended(tag, run, How::Snoozed);
            Fail::snooze(Duration::from_millis(LATER_MS))
        }
        _ => Fail::dead("told to stop"),
    }
}
