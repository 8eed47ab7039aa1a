//! What the disk gives alone: 4096 bytes written over a file that has its size already, and
//! `fdatasync`, again and again.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use crate::{Fallible, run};

const PAGE: usize = 4096;
const PAGES: u64 = 4096;

pub(crate) fn measure(seconds: f64) -> Fallible {
    let directory = run::work_directory().join("disk");
    let measured = in_directory(&directory, Duration::from_secs_f64(seconds));
    let _ = fs::remove_dir_all(&directory);
    measured.map_err(|error| format!("disk: {error}"))
}

fn in_directory(directory: &std::path::Path, length: Duration) -> std::io::Result<()> {
    fs::create_dir_all(directory)?;
    let file = File::create(directory.join("pages"))?;
    let page = [0x5a; PAGE];
    for number in 0..PAGES {
        file.write_all_at(&page, number * PAGE as u64)?;
    }
    file.sync_all()?;
    let (start, mut times) = (Instant::now(), Vec::new());
    while start.elapsed() < length {
        let began = Instant::now();
        file.write_all_at(&page, times.len() as u64 % PAGES * PAGE as u64)?;
        file.sync_data()?;
        times.push(began.elapsed());
    }
    let elapsed = start.elapsed().as_secs_f64();
    times.sort_unstable();
    let micros = |part: usize| times[times.len() * part / 1000].as_secs_f64() * 1e6;
    println!("jobs_per_s {}", times.len() as f64 / elapsed);
    println!("syncs_per_job 1");
    println!("sync_us {}", micros(500));
    println!("sync_p99_us {}", micros(990));
    Ok(())
}
