//! A picture in three steps, each the follow-up of the one before; and a search index that waits for the end of a
//! burst of changes.
//!
//! ```sh
//! cargo run --release -p tickwheel-jobs --example pictures
//! ```
//!
//! The clock is one that the program moves, so that minutes pass in a moment. It prints its results, and exits with 1
//! if a promise is broken.
//!
//! What to know before this is copied:
//!
//! - **A follow-up is stored with the end of its run**, in one commit, and only if the run ends well. So no crash comes
//!   between two steps, and a step that fails adds its follow-up once, however often it is retried.
//! - **Each step is a kind of its own**, with its own retries. The picture is not made anew because a network failed.
//! - **A step may run twice**: if its process ends before the commit of its end. So it writes under a name that a
//!   second run writes again.
//! - **A debounced job carries the data of the last call.** The handler reads the album when it runs, so the index is
//!   never older than the last change. A change during the run begins the next burst.
//! - **Without a longest wait** a stream of changes without a pause would never be indexed.

#![forbid(unsafe_code)]

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use std::{env, fs, process};

use serde::{Deserialize, Serialize};
use tickwheel_jobs::{Driver, Fail, Job, Jobs, Retry, Run};

type Result<T, E = Box<dyn Error>> = std::result::Result<T, E>;

#[derive(Serialize, Deserialize)]
struct Resize {
    picture: u64,
}

impl Job for Resize {
    const KIND: &'static str = "resize";
}

#[derive(Serialize, Deserialize)]
struct Upload {
    picture: u64,
}

impl Job for Upload {
    const KIND: &'static str = "upload";
}

#[derive(Serialize, Deserialize)]
struct Notify {
    album: u64,
}

impl Job for Notify {
    const KIND: &'static str = "notify";
}

#[derive(Serialize, Deserialize)]
struct Index {
    album: u64,
}

impl Job for Index {
    const KIND: &'static str = "index";
}

/// The services of this program: the work that they have done, and whether the network works.
#[derive(Default)]
struct World {
    network_works: bool,
    resized: Vec<u64>,
    uploaded: BTreeSet<u64>,
    notices: Vec<u64>,
    /// The title of each album.
    titles: BTreeMap<u64, String>,
    /// The titles that were indexed, in order.
    indexed: Vec<String>,
}

/// Services that all handlers share.
type Services = Arc<Mutex<World>>;

const SECOND: Duration = Duration::from_secs(1);

fn of(services: &Services) -> std::sync::MutexGuard<'_, World> {
    services.lock().unwrap_or_else(PoisonError::into_inner)
}

fn main() -> Result<()> {
    let folder = env::temp_dir().join(format!("tickwheel-pictures-{}", process::id()));
    fs::create_dir_all(&folder)?;
    let result = three_steps(&folder.join("jobs.db")).and_then(|()| an_index());
    fs::remove_dir_all(&folder)?;
    result
}

/// Starts the program.
fn start(builder: tickwheel_jobs::Builder, services: &Services) -> Result<(Jobs, Driver)> {
    let started = builder
        .state(Arc::clone(services))
        .handle(resize)
        .handle_with(Retry::fixed(30 * SECOND), upload)
        .handle(|job: Notify, run| {
            of(run.state::<Services>()?).notices.push(job.album);
            Ok(())
        })
        .handle(|job: Index, run| {
            let mut world = of(run.state::<Services>()?);
            let title = world.titles.get(&job.album).cloned().unwrap_or_default();
            world.indexed.push(title);
            Ok(())
        })
        .manual()?;
    Ok(started)
}

fn resize(job: Resize, run: &Run) -> Result<(), Fail> {
    of(run.state::<Services>()?).resized.push(job.picture);
    run.then(Duration::ZERO, Upload { picture: job.picture })?;
    Ok(())
}

fn upload(job: Upload, run: &Run) -> Result<(), Fail> {
    // Ten pictures of one album are one notice, a minute after the last of them.
    run.next().keyed("album-7").insert(60 * SECOND, Notify { album: 7 })?;
    let mut world = of(run.state::<Services>()?);
    if !world.network_works {
        return Err(Fail::retry("the network is down")); // no notice then
    }
    world.uploaded.insert(job.picture);
    Ok(())
}

fn three_steps(file: &Path) -> Result<()> {
    let services = Services::default();
    let (jobs, driver) = start(Jobs::open(file)?, &services)?;
    println!("three pictures come, and the network is down");
    jobs.insert_batch([1, 2, 3].map(|picture| (Duration::ZERO, Resize { picture })))?;
    driver.advance(SECOND);
    promise("each picture is resized", of(&services).resized == [1, 2, 3])?;
    promise("none is uploaded", of(&services).uploaded.is_empty())?;
    promise("each upload waits for its next attempt, and no notice", jobs.count()?.pending == 3)?;
    let now = driver.wall_now();
    jobs.shutdown()?;

    println!("the program starts again, and the network works");
    of(&services).network_works = true;
    let (jobs, driver) = start(Jobs::open(file)?, &services)?;
    driver.set_wall(now + 60 * SECOND);
    driver.advance(SECOND);
    promise("no picture is resized again", of(&services).resized.len() == 3)?;
    promise("each picture is uploaded", of(&services).uploaded == BTreeSet::from([1, 2, 3]))?;
    driver.advance(120 * SECOND);
    promise("there is one notice", of(&services).notices == [7] && jobs.count()?.pending == 0)?;
    jobs.check()?;
    Ok(jobs.shutdown()?)
}

fn an_index() -> Result<()> {
    let services = Services::default();
    let (jobs, driver) = start(Jobs::memory(), &services)?;
    let change = |title: &str| -> Result<()> {
        of(&services).titles.insert(7, title.to_owned());
        // Two quiet seconds, and ten seconds at most after the first change.
        jobs.keyed("index-7").debounce(2 * SECOND, 10 * SECOND, Index { album: 7 })?;
        Ok(())
    };
    println!("twenty changes in a second");
    for n in 1..=20 {
        change(&format!("title {n}"))?;
        driver.advance(SECOND / 20);
    }
    promise("nothing is indexed yet", of(&services).indexed.is_empty())?;
    driver.advance(2 * SECOND);
    promise("the last change is indexed, once", of(&services).indexed == ["title 20"])?;

    println!("a change each second, for half a minute");
    of(&services).indexed.clear();
    for n in 1..=30 {
        change(&format!("second {n}"))?;
        driver.advance(SECOND);
    }
    let indexed = of(&services).indexed.len();
    promise("the index follows each ten seconds or so", (2..=4).contains(&indexed))?;
    driver.advance(10 * SECOND);
    let last = of(&services).indexed.last().cloned();
    promise("the last change is indexed", last.as_deref() == Some("second 30"))?;
    jobs.check()?;
    Ok(jobs.shutdown()?)
}

fn promise(what: &str, holds: bool) -> Result<()> {
    println!("    {}: {what}", if holds { "ok" } else { "BROKEN" });
    if holds { Ok(()) } else { Err(format!("a promise is broken: {what}").into()) }
}
