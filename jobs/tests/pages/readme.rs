use std::time::Duration;

use serde::{Deserialize, Serialize};
use tickwheel_jobs::{Job, Jobs};

#[derive(Serialize, Deserialize)]
struct CloseOrder {
    order: u64,
}

impl Job for CloseOrder {
    const KIND: &'static str = "close-order"; // stored with each job: do not change it after a release
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let jobs = Jobs::open("shop.db")? // makes the file if there is none
        .handle(|close: CloseOrder, _| {
            println!("order {} closes", close.order);
            Ok(()) // after an error the job is tried again
        })
        .start()?; // starts the jobs that came due while no process ran

    let (second, hour) = (Duration::from_secs(1), Duration::from_secs(3600));
    jobs.keyed("order-1001").insert(72 * hour, CloseOrder { order: 1001 })?; // on disk when it returns
    assert!(jobs.keyed("order-1001").cancel()?); // paid in time: it was pending, and will never run
    let id = jobs.insert(72 * hour, CloseOrder { order: 1002 })?; // a job without a key
    assert!(jobs.reschedule(id, second)?);

    std::thread::sleep(2 * second); // prints "order 1002 closes"
    jobs.shutdown()?; // waits for runs; pending jobs stay in the file
    Ok(())
}
