//! The helper: a thread that does work which would block a future, or delay a caller. It starts with its first
//! task, and ends with the jobs or with the last client.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError};

use crossbeam_channel::{Sender, unbounded};

use crate::values::error::StoreError;

/// Work for the thread, which does one task after the other.
pub(crate) type Task = Box<dyn FnOnce() + Send>;

/// The handle to the thread.
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
    /// Gives the thread a task, and starts it if it does not run yet. Returns an error after [`Helper::end`].
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

    /// Ends the thread after its last task.
    pub(crate) fn end(&self) {
        *self.stage.lock().unwrap_or_else(PoisonError::into_inner) = Stage::Ended;
    }
}

fn start() -> Result<Sender<Task>, StoreError> {
    let (sender, tasks) = unbounded::<Task>();
    // A panic ends only its task: the caller that waits for that task gets an error.
    let done = |task: Task| drop(catch_unwind(AssertUnwindSafe(task)));
    let work = move || tasks.iter().for_each(done);
    let started = std::thread::Builder::new().name("tickwheel-jobs-ask".to_owned()).spawn(work);
    match started {
        Ok(_) => Ok(sender),
        Err(error) => Err(StoreError::Other(format!("no thread for asynchronous calls: {error}"))),
    }
}
