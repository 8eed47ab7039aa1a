use std::time::Duration;
use tickwheel_jobs::{Job, Jobs};

#[derive(serde::Serialize, serde::Deserialize)]
struct Mail { to: String }
impl Job for Mail { const KIND: &'static str = "mail"; }

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let urgent = Jobs::open("shop.db")?.queue("urgent").threads(2).handle(|_: Mail, _| Ok(())).start()?;
    let bulk = Jobs::open("shop.db")?.queue("bulk").threads(1).handle(|_: Mail, _| Ok(())).start()?;
    bulk.insert_batch((0..1000).map(|n| (Duration::from_secs(3600), Mail { to: n.to_string() })))?;
    urgent.insert(Duration::ZERO, Mail { to: "ann".to_owned() })?; // waits for none of the thousand
    urgent.shutdown()?;
    bulk.shutdown()?;
    Ok(())
}
