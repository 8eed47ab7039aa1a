//! A thread that does for futures what would block theirs: it starts with the first of them, and ends with
//! the last client.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError};

use crossbeam_channel::{Sender, unbounded};

use crate::values::error::StoreError;

/// What the thread does, one after the other.
pub(crate) type Task = Box<dyn FnOnce() + Send>;

/// The way to the thread.
#[derive(Default)]
pub(crate) struct Helper {
    stage: Mutex<Stage>,
}

#[derive(Default)]
enum Stage {
    /// The first task starts the thread.
    #[default]
    Idle,
    /// The thread lives as long as the sender does.
    Runs(Sender<Task>),
    Ended,
}

impl Helper {
    /// Gives the thread something to do, and starts it if it does not run yet. Refused once it was ended.
    pub(crate) fn run(&self, task: Task) -> Result<(), StoreError> {
        let mut stage = self.stage.lock().unwrap_or_else(PoisonError::into_inner);
        if matches!(*stage, Stage::Idle) {
            *stage = Stage::Runs(start()?);
        }
        match &*stage {
            Stage::Runs(sender) => sender.send(task).map_err(|_| StoreError::Closed),
            Stage::Idle | Stage::Ended => Err(StoreError::Closed),
        }
    }

    /// Ends the thread, once it has done what it was given.
    pub(crate) fn end(&self) {
        *self.stage.lock().unwrap_or_else(PoisonError::into_inner) = Stage::Ended;
    }
}

fn start() -> Result<Sender<Task>, StoreError> {
    let (sender, tasks) = unbounded::<Task>();
    // A panic is the end of its task alone: whoever waits for that learns of it.
    let done = |task: Task| drop(catch_unwind(AssertUnwindSafe(task)));
    let work = move || tasks.iter().for_each(done);
    let started = std::thread::Builder::new().name("tickwheel-jobs-ask".to_owned()).spawn(work);
    match started {
        Ok(_) => Ok(sender),
        Err(error) => Err(StoreError::Other(format!("no thread for asynchronous calls: {error}"))),
    }
}
