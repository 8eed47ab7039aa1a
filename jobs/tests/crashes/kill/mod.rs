//! `kill -9` for real: children run jobs on a file and make calls, and are killed at random and at named
//! points of the code. Their reports from before the kill are compared with the file, and with the runs and
//! answers of the children after them.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `../../deaths/` | the child, its parent, and the rules: `tests/redis_kill` has them too |
//! | `story.rs` | the children of one file, and how they die |
//! | `file.rs` | the file, and what the parent sees in it |
//! | `doctored.rs`, `handmade.rs` | R14: logs with a violation each, which the rules must find |
//! | `scenes.rs` | single deaths, each with what must follow |
//!
//! | variable | says |
//! | --- | --- |
//! | `TICKWHEEL_KILLS` | the least number of kills: 200 unless it is set |
//! | `TICKWHEEL_KILL_SEED` | the seed; a test that fails prints its own |

mod doctored;
mod file;
mod handmade;
mod scenes;
mod story;

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::SystemTime;
use std::{env, thread};

use crate::deaths::child::{self, Periodic, WITHOUT_OVERLAP, now_us};
use crate::deaths::record::Record;
use crate::deaths::{lives, rules};
use file::File;
use story::{POINTS, POINTS_OF_A_NEW_FILE, Story};

/// How many children one file sees before it is emptied.
const LIVES: usize = 25;
/// How many files are worked on at once.
const STORIES_AT_ONCE: usize = 3;

fn variable(name: &str) -> Option<u64> {
    env::var(name).ok()?.parse().ok()
}

/// The child of these tests.
#[test]
fn life() {
    child::life::<File>();
}

/// P1, P2, P3, P6, P9, P17, P34, P37, P107: Jobs on a file keep the rules R1 to R20 through two hundred kills, at
/// random and at named points of the code. With `TICKWHEEL_KILLS=1000`, as at night, a child has died at each of these
/// points.
#[test]
fn kills_by_the_thousand_break_no_rule() {
    let seed = variable("TICKWHEEL_KILL_SEED").unwrap_or_else(now_us);
    let wanted = variable("TICKWHEEL_KILLS").unwrap_or(200) as usize;
    let begun = SystemTime::now();
    let (kills, stories) = (AtomicUsize::new(0), AtomicU64::new(0));
    let points: Mutex<BTreeMap<String, u64>> = Mutex::default();
    let failures: Mutex<Vec<String>> = Mutex::default();
    thread::scope(|scope| {
        for _ in 0..STORIES_AT_ONCE {
            scope.spawn(|| {
                while kills.load(Ordering::Relaxed) < wanted && failures.lock().unwrap().is_empty()
                {
                    let n = stories.fetch_add(1, Ordering::Relaxed);
                    let mut story = Story::new(&n.to_string(), seed.wrapping_add(n << 32));
                    let found = tell(&mut story, n);
                    kills.fetch_add(story.lives.kills, Ordering::Relaxed);
                    count_points(&story, &points);
                    if let Err(found) = found {
                        let log = story.path.with_extension("log");
                        lives::write(&story.lives.log(), &log);
                        let text = format!("story {n}, in {}:\n{found}", log.display());
                        failures.lock().unwrap().push(text);
                    } else {
                        story.remove();
                    }
                }
            });
        }
    });
    let (kills, stories) = (kills.into_inner(), stories.into_inner());
    let passed = begun.elapsed().unwrap_or_default().as_secs_f64();
    let rate = kills as f64 / passed;
    println!("{kills} kills on {stories} files in {passed:.1} s: {rate:.1} a second");
    let points = points.into_inner().unwrap();
    for (point, kills) in &points {
        println!("{kills:6} at {point:?}");
    }
    let failures = failures.into_inner().unwrap();
    assert!(failures.is_empty(), "seed {seed}:\n{}", failures.join("\n"));
    if wanted >= 500 {
        let all = POINTS.iter().map(|(point, _)| point).chain(POINTS_OF_A_NEW_FILE);
        let missed: Vec<_> = all.filter(|point| !points.contains_key(**point)).collect();
        assert!(missed.is_empty(), "no child died at {missed:?}");
    }
}

/// Lets children live and die on a file, empties it, and checks what they reported.
fn tell(story: &mut Story, n: u64) -> Result<(), String> {
    let told = (|| {
        story.lives.deadly = n % 3 == 1;
        if !n.is_multiple_of(3) {
            let repeat = |name, period_ms, missed| Periodic { name, period_ms, missed };
            story.lives.schedules = vec![
                repeat(1, 20, -1),
                repeat(2, 35, 0),
                repeat(3, 50, 3),
                repeat(WITHOUT_OVERLAP, 20, -1),
            ];
        }
        for _ in 0..LIVES {
            story.one_life()?;
        }
        story.drain()?;
        story.end()
    })();
    let end = told.as_ref().cloned().unwrap_or_default();
    let found = rules::check(&story.lives.log(), &end);
    let mut text: Vec<String> = found.iter().map(|found| format!("{found:?}")).collect();
    text.extend(told.err().map(|error| error.to_string()));
    text.truncate(20);
    if text.is_empty() { Ok(()) } else { Err(text.join("\n")) }
}

fn count_points(story: &Story, points: &Mutex<BTreeMap<String, u64>>) {
    let mut points = points.lock().unwrap();
    for event in story.lives.log() {
        if let Record::Dying { point } = event.record {
            *points.entry(point).or_default() += 1;
        }
    }
}
