//! What a page of pending jobs costs: with many jobs in one hour, and with few.

use std::error::Error;
use std::time::{Duration, Instant};

use crate::Options;
use crate::open::{Filled, Place, Task, fill, hour_in, task};

/// With how many jobs a store of few is compared.
const FEW: usize = 10_000;
/// How many pages follow the first one.
const FOLLOWING: usize = 30;

/// Measures the first page of 256 jobs, and those that follow it, of all kinds and of one.
pub(crate) fn measure(options: &Options) -> Result<(), Box<dyn Error>> {
    println!(
        "| pending in one hour | level | list | first page (ms) | a page that follows (ms), and the longest |"
    );
    println!("| ---: | --- | --- | ---: | ---: |");
    for &level in options.levels() {
        for jobs in [FEW.min(options.jobs), options.jobs] {
            let filled = Filled::default();
            let place = Place::new(&options.dir, level, &filled)?;
            let client = place.client()?;
            let hour = Duration::from_secs(3600);
            client.insert(240 * hour, task(0)).map_err(|error| error.to_string())?;
            fill(&client, jobs, hour_in(3), hour)?;
            for one_kind in [false, true] {
                let mut pages = client.pending();
                if one_kind {
                    pages = pages.kind::<Task>();
                }
                let mut times = Vec::new();
                for _ in 0..=FOLLOWING {
                    let begun = now();
                    pages.next_page()?;
                    times.push(begun.elapsed().as_secs_f64() * 1e3);
                }
                let (first, rest) = (times[0], &times[1..]);
                let mean = rest.iter().sum::<f64>() / rest.len() as f64;
                let longest = rest.iter().copied().fold(0.0, f64::max);
                let list = if one_kind { "one kind" } else { "all" };
                println!("| {jobs} | {level} | {list} | {first:.2} | {mean:.2}, {longest:.2} |");
            }
        }
    }
    println!();
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "real time is what is measured")]
fn now() -> Instant {
    Instant::now()
}
