use std::time::Duration;
use tickwheel_jobs::{Builder, Job, Jobs, OpenError};

#[derive(serde::Serialize, serde::Deserialize)]
struct CloseOrder {
    order: u64,
    #[serde(default)] // a field that older jobs do not have
    reason: String,
}
impl Job for CloseOrder {
    const KIND: &'static str = "close-order"; // stays, even if the type gets another name
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
    let jobs = start(|| Ok(Jobs::open("shop.db")?.handle(|_: CloseOrder, _| Ok(()))))?;
    println!("{:?} wait for a later version", jobs.unhandled()?); // the kinds without a handler
    jobs.shutdown()?;
    Ok(())
}
