//! The follow-ups of a run: jobs that the commit of its end inserts, if it ends well.
//!
//! Ground rules:
//!
//! - A run takes follow-ups until its handler has returned, or has overrun its time limit. A later one is refused:
//!   the end may be in the store by then.
//! - The list stays with the run until the dispatcher forgets the run, because an end whose commit failed is written
//!   again.
//! - The limits are those of one call of a script, since a server knows no larger commit. They hold on every store, so
//!   that a program can move from one to another.

use std::sync::{Arc, Mutex, PoisonError};

use crate::store::NewJob;
use crate::values::error::FollowUpError;

/// The most follow-ups of a run. The end of the run is one more item of its call.
const MOST: usize = 255;

/// The most bytes of their payloads.
const MOST_BYTES: usize = 1 << 20;

/// The follow-ups of a run.
#[derive(Default)]
pub(crate) struct FollowUps(Mutex<List>);

#[derive(Default)]
struct List {
    /// Nearly every run has none, and needs no memory for them.
    jobs: Option<Arc<Vec<NewJob>>>,
    bytes: usize,
    is_closed: bool,
    /// The store has refused the end of the run with them.
    was_refused: bool,
}

impl FollowUps {
    /// Adds jobs: all, or none.
    pub(crate) fn add(&self, jobs: Vec<NewJob>) -> Result<(), FollowUpError> {
        let mut list = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let many = list.jobs.as_ref().map_or(0, |jobs| jobs.len()) + jobs.len();
        let added = jobs.iter().map(|job| job.payload.len());
        let bytes = added.fold(list.bytes, usize::saturating_add);
        if list.is_closed {
            return Err(FollowUpError::Ended);
        } else if many > MOST {
            return Err(FollowUpError::TooMany);
        } else if bytes > MOST_BYTES {
            return Err(FollowUpError::TooLarge);
        }
        list.bytes = bytes;
        Arc::make_mut(list.jobs.get_or_insert_default()).extend(jobs);
        Ok(())
    }

    /// Takes no more.
    pub(crate) fn close(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_closed = true;
    }

    /// Returns the jobs, if there are any.
    pub(crate) fn jobs(&self) -> Option<Arc<Vec<NewJob>>> {
        let list = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        list.jobs.clone().filter(|jobs| !jobs.is_empty())
    }

    /// Notes that the store has refused the end of the run.
    pub(crate) fn note_refused(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).was_refused = true;
    }

    /// Says whether the store has refused the end of the run before. Its slot is free only once the end is stored:
    /// otherwise a full server would let the process claim ever more.
    pub(crate) fn were_refused(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).was_refused
    }
}
