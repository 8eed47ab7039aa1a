use std::time::Duration;
use tickwheel_jobs::{Job, Jobs, OpenError};

#[derive(serde::Serialize, serde::Deserialize)]
struct Thumbnail { photo: u64 }
impl Job for Thumbnail { const KIND: &'static str = "thumbnail"; }

/// A node: each machine starts one.
fn node(url: &str, name: &'static str) -> Result<Jobs, OpenError> {
    Jobs::redis(url)?
        .queue("photos")
        .threads(2) // the default is one for each processor
        .handle(move |job: Thumbnail, _| {
            std::thread::sleep(Duration::from_millis(50)); // in a program: the work
            Ok(println!("node {name}: photo {}", job.photo))
        })
        .start()
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::var("REDIS_URL").unwrap_or_else(|_| "redis://127.0.0.1/".to_owned());
    let producer = Jobs::redis(&url)?.queue("photos").client()?; // a web server, say: it has no handlers
    // Here both nodes are in one process; elsewhere the same program runs on each machine.
    let nodes = [node(&url, "ann")?, node(&url, "ben")?];
    producer.insert_batch((0..40).map(|photo| (Duration::ZERO, Thumbnail { photo })))?;
    let left = || producer.count().map(|now| now.pending + now.claimed);
    while left()? > 0 {
        std::thread::sleep(Duration::from_millis(100));
    }
    for node in nodes {
        node.shutdown()?; // waits for its runs; what it has claimed and not started goes back
    }
    Ok(())
}
