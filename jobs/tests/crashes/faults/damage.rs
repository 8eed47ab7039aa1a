//! Flipped bytes and cut files: a typed error that names the file, and leaves it as it is; or a store
//! that works, and whose `check` reports what is wrong, or has all jobs.
//!
//! A flip in the log is another matter. SQLite reads a log up to the first frame whose checksum is
//! wrong, as after a power cut, so the commits from there on are gone, and no error reports that.
//! The commits that are left must be a prefix, and in order.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fastrand::Rng;
use tickwheel_jobs::OpenError;

use super::files::{contents, file, is_refused, start};
use crate::disk::task::{Plan, Task};
use crate::stride;

const PAGE: usize = 4096;
const HOUR: Duration = Duration::from_secs(3600);

/// What became of a damaged file.
#[derive(Default, Debug)]
struct Tally {
    refused: usize,
    reported: usize,
    sound: usize,
}

/// Returns the bytes of a file with every kind of page, and how many jobs it has.
fn every_kind_of_page() -> (Vec<u8>, u64) {
    let (_folder, path) = file();
    let (jobs, driver) = start(&path).expect("a new file");
    let batch = |from: u64, to: u64| (from..to).map(|n| (HOUR, Task::new(n, Plan::Succeed)));
    jobs.insert_batch(batch(0, 200)).expect("a batch");
    for n in 0..40 {
        let key = format!("key {n}");
        jobs.keyed(&key).insert(HOUR, Task::new(n, Plan::Succeed)).expect("an insert");
    }
    jobs.schedule("schedule", HOUR, Task::new(1, Plan::Succeed)).expect("a repeat");
    // Pages that become free.
    for id in jobs.insert_batch(batch(200, 400)).expect("a batch") {
        assert!(jobs.cancel(id).expect("a cancel").is_cancelled());
    }
    let pending = jobs.count().expect("the jobs are counted").pending;
    jobs.shutdown().expect("the disk works");
    drop(driver);
    (fs::read(&path).expect("the file"), pending)
}

/// Opens a damaged file. Nothing may panic, and no job may vanish without a word.
fn open(damaged: &[u8], pending: u64, what: &str, tally: &mut Tally) {
    let (folder, path) = file();
    fs::write(&path, damaged).expect("there is room");
    let (jobs, driver) = match start(&path) {
        Ok(opened) => opened,
        Err(refused) => {
            fs::write(&path, damaged).expect("there is room");
            is_refused(&folder, &path, |error| {
                let typed = matches!(
                    error,
                    OpenError::Damaged { .. } | OpenError::Foreign { .. } | OpenError::Newer { .. }
                );
                assert!(typed, "{error:?}");
                typed
            });
            drop(refused);
            tally.refused += 1;
            return;
        }
    };
    let found = jobs.check();
    let count = jobs.count();
    let listed = jobs.pending().count();
    let _ = jobs.insert(HOUR, Task::new(1_000, Plan::Succeed));
    driver.advance(2 * HOUR);
    let _ = jobs.shutdown();
    match found {
        Err(_) => tally.reported += 1,
        Ok(()) => {
            assert_eq!(count.expect("check has passed").pending, pending, "{what}");
            assert_eq!(listed as u64, pending, "{what}");
            tally.sound += 1;
        }
    }
}

/// P20: A file with a flipped byte is refused, or `check` reports it, or no job is lost. By day one of ten places is
/// looked at, and each with `TICKWHEEL_STRIDE=1`.
#[test]
fn flipped_byte_in_any_page_is_reported_or_loses_no_job() {
    let (sound, pending) = every_kind_of_page();
    let pages = sound.len() / PAGE;
    assert!(pages > 80, "{pages} pages");
    let mut random = Rng::with_seed(1);
    let mut tally = Tally::default();
    let mut flipped = 0;
    for page in 0..pages {
        // The header of the page (of the file, on the first one), a pointer, and any two bytes.
        let mut places = vec![0, 5, 9, random.usize(..4096), random.usize(..4096)];
        if page == 0 {
            places.extend([0, 16, 18, 24, 28, 32, 36, 44, 52, 60, 64, 68, 92, 100, 103, 105]);
        }
        let is_looked_at = |n: usize| page == 0 || stride() == 1 || n == page % 10;
        for (_, place) in places.into_iter().enumerate().filter(|(n, _)| is_looked_at(*n)) {
            flipped += 1;
            let mut damaged = sound.clone();
            damaged[page * PAGE + place] ^= 1 << random.u64(..8);
            let what = format!("byte {place} of page {}", page + 1);
            open(&damaged, pending, &what, &mut tally);
        }
    }
    // Above 2, the file may only be read (18), or not be read at all (19), by the SQLite of today.
    for (place, version) in [(18, 3), (18, 255), (19, 3), (19, 255)] {
        let mut damaged = sound.clone();
        damaged[place] = version;
        open(&damaged, pending, &format!("byte {place} is {version}"), &mut tally);
    }
    println!("{tally:?}");
    assert!(tally.refused > flipped / 5, "{tally:?} of {flipped}");
}

/// P20: A file that is cut short is refused, or has all its jobs.
#[test]
fn truncated_file_is_refused_or_loses_no_job() {
    let (sound, pending) = every_kind_of_page();
    let mut random = Rng::with_seed(8);
    let mut tally = Tally::default();
    let lengths = [1, 15, 16, 99, 100, 512, 4095, 4096, 4097, sound.len() - 1, sound.len() - PAGE];
    let drawn = (0..40).map(|_| random.usize(..sound.len()));
    for length in lengths.into_iter().chain(drawn.collect::<Vec<_>>()) {
        open(&sound[..length], pending, &format!("the first {length} bytes"), &mut tally);
    }
    println!("{tally:?}");
    assert_eq!(tally.reported, 0, "{tally:?}");
}

/// Returns the file and its log, while the jobs run.
fn with_a_log() -> BTreeMap<PathBuf, Vec<u8>> {
    let (folder, path) = file();
    let (jobs, _driver) = start(&path).expect("a new file");
    for n in 0..40 {
        jobs.insert(HOUR, Task::new(n, Plan::Succeed)).expect("an insert");
    }
    let name = |path: &Path| path.file_name().expect("a name").into();
    let log = |path: &Path| !path.to_string_lossy().ends_with("-shm");
    let files = contents(folder.path()).into_iter().filter(|(path, _)| log(path));
    files.map(|(path, bytes)| (name(&path), bytes)).collect()
}

/// A flipped byte in the log leaves a prefix of the commits, in order, or the file is refused.
#[test]
fn flipped_byte_in_the_log_leaves_a_prefix() {
    let files = with_a_log();
    let log = PathBuf::from("jobs.db-wal");
    let mut random = Rng::with_seed(9);
    let mut lost = 0;
    for n in 0..120 {
        let mut files = files.clone();
        let bytes = files.get_mut(&log).expect("the log");
        // The header of the log, of a frame, or anything.
        let at = match n {
            0..32 => n,
            _ => random.usize(..bytes.len()),
        };
        bytes[at] ^= 1 << random.u64(..8);
        let folder = tempfile::tempdir().expect("there is room");
        for (name, bytes) in &files {
            fs::write(folder.path().join(name), bytes).expect("there is room");
        }
        let path = folder.path().join("jobs.db");
        let (jobs, _driver) = match start(&path) {
            Ok(opened) => opened,
            Err(OpenError::Damaged { .. } | OpenError::Foreign { .. } | OpenError::Io { .. }) => {
                continue;
            }
            Err(other) => panic!("byte {at} of the log: {other:?}"),
        };
        jobs.check().unwrap_or_else(|wrong| panic!("byte {at} of the log: {wrong}"));
        let mut left: Vec<u64> =
            jobs.pending().map(|job| job.job::<Task>().expect("a task").n).collect();
        left.sort_unstable();
        let prefix: Vec<u64> = (0..left.len() as u64).collect();
        assert_eq!(left, prefix, "byte {at} of the log");
        lost += usize::from(left.len() < 40);
    }
    assert!(lost > 60, "flips that end the log: {lost}");
}
