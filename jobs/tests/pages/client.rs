use std::time::Duration;
use tickwheel_jobs::{Cancel, Job, Jobs};

#[derive(serde::Serialize, serde::Deserialize)]
struct CloseOrder { order: u64 }
impl Job for CloseOrder { const KIND: &'static str = "close-order"; }

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let client = Jobs::open("shop.db")?.client()?; // no handlers, no thread
    let id = client.insert(Duration::from_secs(3600), CloseOrder { order: 1001 })?;
    println!("{:?}", client.get(id)?);
    match client.cancel(id)? {
        Cancel::Cancelled => {}               // it will never run
        Cancel::Running => println!("asked"), // it may run to its end
        Cancel::Gone => println!("too late"),
    }
    Ok(())
}
