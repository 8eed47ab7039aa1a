//! What the disk gives alone: 4096 bytes and `fdatasync`, again and again.
//!
//! First over a file that has its size already, which is the rate of the row; then the same with
//! `fsync`, which records the time of the write as well, and is what SQLite calls as `libsqlite3-sys`
//! builds it; then at the end of a file, where the file system has to record the new size.

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
    let page = [0x5a; PAGE];
    let file = File::create(directory.join("pages"))?;
    for number in 0..PAGES {
        file.write_all_at(&page, number * PAGE as u64)?;
    }
    file.sync_all()?;
    let over = repeated(length / 3, |times| {
        file.write_all_at(&page, times % PAGES * PAGE as u64)?;
        file.sync_data()
    })?;
    let whole = repeated(length / 3, |times| {
        file.write_all_at(&page, times % PAGES * PAGE as u64)?;
        file.sync_all()
    })?;
    let file = File::create(directory.join("growing"))?;
    let growing = repeated(length / 3, |times| {
        file.write_all_at(&page, times * PAGE as u64)?;
        file.sync_data()
    })?;
    let rate = |times: &[Duration]| {
        1.0 / times.iter().sum::<Duration>().as_secs_f64() * times.len() as f64
    };
    let micros = |part: usize| over[over.len() * part / 1000].as_secs_f64() * 1e6;
    println!("jobs_per_s {}", rate(&over));
    println!("syncs_per_job 1");
    println!("sync_us {}", micros(500));
    println!("sync_p99_us {}", micros(990));
    println!("fsync_per_s {}", rate(&whole));
    println!("growing_per_s {}", rate(&growing));
    Ok(())
}

/// Returns how long each repetition took, in order.
fn repeated(
    length: Duration,
    mut act: impl FnMut(u64) -> std::io::Result<()>,
) -> std::io::Result<Vec<Duration>> {
    let (start, mut times) = (Instant::now(), Vec::new());
    while start.elapsed() < length {
        let began = Instant::now();
        act(times.len() as u64)?;
        times.push(began.elapsed());
    }
    times.sort_unstable();
    Ok(times)
}
