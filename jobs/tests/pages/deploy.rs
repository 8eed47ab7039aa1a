use std::time::Duration;
use serde::{Deserialize, Serialize};
use tickwheel_jobs::{Builder, Job, Jobs, OpenError};

#[derive(Serialize, Deserialize)]
struct CloseOrder {
    order: u64,
    #[serde(default)] // a field that older jobs do not have
    reason: String,
}

impl Job for CloseOrder {
    const KIND: &'static str = "close-order"; // stays, even if the type gets another name
}

/// A kind that only the new version handles.
#[derive(Serialize, Deserialize)]
struct Rate {
    order: u64,
}

impl Job for Rate {
    const KIND: &'static str = "rate";
}

/// Starts once the process before has ended.
fn start(builder: impl Fn() -> Result<Builder, OpenError>) -> Result<Jobs, OpenError> {
    loop {
        match builder()?.start() {
            Err(OpenError::InUse { .. }) => std::thread::sleep(Duration::from_millis(100)),
            other => return other,
        }
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let old = start(|| Ok(Jobs::open("shop.db")?.handle(|_: CloseOrder, _| Ok(()))))?;
    // A web server of the new version inserts a job that the worker of the old one does not know.
    Jobs::open("shop.db")?.client()?.insert(Duration::ZERO, Rate { order: 1001 })?;
    println!("{:?} wait", old.unhandled()?); // [("rate", 1)]
    old.shutdown()?;

    let new = start(|| {
        Ok(Jobs::open("shop.db")?
            .handle(|_: CloseOrder, _| Ok(()))
            .handle(|rate: Rate, _| Ok(println!("order {} is to be rated", rate.order))))
    })?;
    new.shutdown()?;
    Ok(())
}
