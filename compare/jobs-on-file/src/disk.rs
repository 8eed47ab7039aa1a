//! The rate of the disk alone: 4096 bytes and `fdatasync`, again and again.
//!
//! First over a file that has its size already, which is the rate of the row; then the same with
//! `fsync`, which records the time of the write as well, and is what SQLite calls as `libsqlite3-sys`
//! builds it; then at the end of a file, where the file system has to record the new size.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use harness::Fallible;
use harness::case::{Figures, figure};

const PAGE: usize = 4096;
const PAGES: u64 = 4096;

/// Measures for a time, in a directory that exists.
pub(crate) fn measure(directory: &Path, length: Duration) -> Fallible<Figures> {
    in_directory(directory, length).map_err(|error| format!("disk: {error}"))
}

fn in_directory(directory: &Path, length: Duration) -> io::Result<Figures> {
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
    Ok(vec![
        figure("jobs_per_s", rate(&over)),
        figure("syncs_per_job", 1.0),
        figure("sync_us", micros(500)),
        figure("sync_p99_us", micros(990)),
        figure("fsync_per_s", rate(&whole)),
        figure("growing_per_s", rate(&growing)),
    ])
}

/// Returns how long each repetition took, in order.
fn repeated(
    length: Duration,
    mut act: impl FnMut(u64) -> io::Result<()>,
) -> io::Result<Vec<Duration>> {
    let (start, mut times) = (Instant::now(), Vec::new());
    while start.elapsed() < length {
        let began = Instant::now();
        act(times.len() as u64)?;
        times.push(began.elapsed());
    }
    times.sort_unstable();
    Ok(times)
}
