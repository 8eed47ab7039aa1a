//! Functions of the program that run on the threads of the jobs: `on_event`, which reports its events, and handlers that
//! are futures.

use std::sync::{Arc, OnceLock};

use tickwheel_jobs::{Builder, Client, Event, Retry};

use super::calls::{call, one};
use super::child::{Act, Work, now_us, number, report, time};
use super::record::{Answer, Record, Verb};

/// How many ids a line has at most: it is shorter than what a pipe takes at once.
const IDS_A_LINE: usize = 32;

/// Adds the function that gets the events.
pub(crate) fn listening(builder: Builder, client: &Arc<OnceLock<Client>>) -> Builder {
    let client = Arc::clone(client);
    builder.on_event(move |event| {
        match event {
            Event::InsertsDropped { ids } => {
                for ids in ids.chunks(IDS_A_LINE) {
                    report(&Record::InsertsLost { ids: ids.to_vec() });
                }
            }
            Event::Unreadable { what, .. } => report(&Record::Unreadable { what }),
            _ => {}
        }
        if let Some(client) = client.get() {
            insert_is_refused(client);
        }
    })
}

/// An insert on a thread of the jobs would wait for that thread, so it is refused.
fn insert_is_refused(client: &Client) {
    let (tag, due) = (number(), now_us() / 1000);
    let answer = call(Verb::Insert { tag, due }, || {
        let job = Work { tag, act: Act::Done };
        one(client.insert(time(due), job))
    });
    if !matches!(answer, Answer::Refused(_)) {
        report(&Record::Failed { text: format!("on_event: an insert answered {answer:?}") });
    }
}

#[cfg(not(feature = "tokio"))]
pub(crate) fn futures(builder: Builder, _: Retry) -> Builder {
    builder
}

/// Adds the handler that is a future.
#[cfg(feature = "tokio")]
pub(crate) fn futures(builder: Builder, retry: Retry) -> Builder {
    use std::time::Duration;

    use tickwheel_jobs::Run;
    use tokio::runtime::{Builder as RuntimeBuilder, Runtime};

    use super::child::{Waits, ended, started};
    use super::record::How;
    use super::shutdown::told;

    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    let runtime = RUNTIME.get_or_init(|| {
        RuntimeBuilder::new_multi_thread().worker_threads(1).enable_time().build().unwrap()
    });
    let handler = |Waits(job): Waits, run: Run| async move {
        started(job.tag, &run);
        if let Act::Nap(ms) | Act::Long(ms) = job.act {
            tokio::select! {
                () = tokio::time::sleep(Duration::from_millis(ms)) => {}
                _ = run.cancelled() => return Err(told(job.tag, &run)),
            }
        }
        ended(job.tag, &run, How::Done);
        Ok(())
    };
    builder.runtime(runtime.handle().clone()).handle_async_with(retry, handler)
}
