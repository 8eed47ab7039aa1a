use std::time::Duration;
use serde::{Deserialize, Serialize};
use tickwheel_jobs::{Job, Jobs};

#[derive(Serialize, Deserialize)]
struct Mail {
    to: String,
}

impl Job for Mail {
    const KIND: &'static str = "mail";
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let urgent = Jobs::open("shop.db")?.queue("urgent").threads(2).handle(|_: Mail, _| Ok(())).start()?;
    let bulk = Jobs::open("shop.db")?.queue("bulk").threads(1).handle(|_: Mail, _| Ok(())).start()?;
    bulk.insert_batch((0..1000).map(|n| (Duration::from_secs(3600), Mail { to: n.to_string() })))?;
    urgent.insert(Duration::ZERO, Mail { to: "ann".to_owned() })?; // waits for none of the thousand
    println!("{} wait, and ann does not", bulk.count()?.pending);
    urgent.shutdown()?;
    bulk.shutdown()?;
    Ok(())
}
