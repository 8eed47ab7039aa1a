use std::sync::mpsc;
use std::time::Duration;
use tickwheel_jobs::{Event, Fail, Job, Jobs, Run};

#[derive(serde::Serialize, serde::Deserialize)]
struct Export { table: String }
impl Job for Export { const KIND: &'static str = "export"; }

fn export(export: Export, run: &Run) -> Result<(), Fail> {
    for page in 0..600 {
        if run.is_cancelled() {
            return Err(Fail::interrupted()); // the job runs again after the restart
        }
        println!("{}, page {page}", export.table);
        std::thread::sleep(Duration::from_millis(100)); // in a program: a part of the work
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (ends, end) = mpsc::channel();
    let stopped = ends.clone();
    ctrlc::set_handler(move || _ = ends.send(()))?; // SIGTERM, SIGINT, SIGHUP (feature `termination`)
    let store = std::env::var("SHOP_STORE").unwrap_or_else(|_| "shop.db".to_owned());
    let jobs = Jobs::connect(store)? // a path, or the URL of a server
        .handle(export)
        .on_event(move |event| match event {
            Event::Stopped { .. } => _ = stopped.send(()),
            other => eprintln!("{other:?}"), // the journal, the log of the container
        })
        .start()?;
    end.recv()?; // a web server would serve here
    Ok(jobs.shutdown()?) // exit code 1, if the jobs had stopped by themselves or runs did not end in time
}
