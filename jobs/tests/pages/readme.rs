use std::time::Duration;
use serde::{Deserialize, Serialize};
use tickwheel_jobs::{Job, Jobs, Missed, Schedule};

#[derive(Serialize, Deserialize)]
struct CloseOrder {
    order: u64,
}

impl Job for CloseOrder {
    const KIND: &'static str = "close-order"; // leads from the file to the handler: it never changes
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let jobs = Jobs::open("shop.db")? // made if it is absent
        .handle(|close: CloseOrder, run| {
            println!("order {} closes, try {}", close.order, run.attempt());
            Ok(()) // an error: tried again, later and later
        })
        .start()?; // what came due meanwhile runs now

    let hour = Duration::from_secs(3600);
    let id = jobs.insert(72 * hour, CloseOrder { order: 1001 })?; // returns when it is on disk
    assert!(jobs.reschedule(id, 24 * hour)?);
    assert!(jobs.cancel(id)?.is_cancelled()); // paid: it will never run

    jobs.keyed("order-1002").insert(72 * hour, CloseOrder { order: 1002 })?; // replaces
    jobs.insert_batch((2000..3000).map(|order| (72 * hour, CloseOrder { order })))?; // one commit
    let daily = Schedule::every(24 * hour).missed(Missed::Once);
    jobs.schedule("sweep", daily, CloseOrder { order: 0 })?;
    jobs.shutdown()?; // waits for runs; everything else stays in the file
    Ok(())
}
