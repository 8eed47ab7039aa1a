use std::time::Duration;
use serde::{Deserialize, Serialize};
use tickwheel_jobs::{Job, Jobs, OpenError};

#[derive(Serialize, Deserialize)]
struct Thumbnail {
    photo: u64,
}

impl Job for Thumbnail {
    const KIND: &'static str = "thumbnail";
}

const MS: Duration = Duration::from_millis(1);

/// A node: each machine starts one.
fn node(url: &str, name: &'static str) -> Result<Jobs, OpenError> {
    Jobs::redis(url)?
        .queue("photos")
        .threads(2) // the default is one for each processor
        .handle(move |job: Thumbnail, _| {
            std::thread::sleep(50 * MS); // in a program: the work
            Ok(println!("node {name}: photo {}", job.photo))
        })
        .start()
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::var("REDIS_URL").unwrap_or_else(|_| "redis://127.0.0.1/".to_owned());
    // The producer, a web server say, has no handlers and no thread.
    let producer = Jobs::redis(&url)?.queue("photos").client()?;
    // Here both nodes are in one process; elsewhere the same program runs on each machine.
    let nodes = [node(&url, "ann")?, node(&url, "ben")?];
    producer.insert_batch((0..40).map(|photo| (Duration::ZERO, Thumbnail { photo })))?;
    loop {
        let counts = producer.count()?;
        println!("{} wait, {} are claimed", counts.pending, counts.claimed);
        if counts.pending + counts.claimed == 0 {
            break;
        }
        std::thread::sleep(100 * MS);
    }
    for node in nodes {
        println!("a node has started {} runs", node.stats().started);
        node.shutdown()?; // waits for its runs; what it has claimed and not started goes back
    }
    Ok(())
}
