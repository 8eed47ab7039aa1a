//! The parent: makes children on one file, kills them, and keeps the log.

use std::error::Error;
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;
use std::{env, fs, process, thread};

use fastrand::Rng;

use super::child::{Doom, INSTRUCTIONS, Instructions, Periodic, now_us};
use super::file;
use super::recall;
use super::record::{Event, FileEnd, Level, Record};
use super::shutdown::Ending;

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// The named points, and at which passage of it at most a child dies.
pub(crate) const POINTS: &[(&str, i64)] = &[
    ("taken over", 1),
    ("recovery: before the commit", 1),
    ("before the commit", 30),
    ("after the commit", 30),
    ("claim: after the commit", 12),
    ("before the answers", 30),
    ("in the handler, before", 12),
    ("in the handler, after", 12),
    (BEFORE_CHECKPOINT, 2),
    (AFTER_CHECKPOINT, 2),
    (CLOSING, 1),
];

/// The points that a child passes while it makes the file.
pub(crate) const POINTS_OF_A_NEW_FILE: &[&str] =
    &["schema: before the commit", "new file: before the link", "new file: after the link"];

const BEFORE_CHECKPOINT: &str = "checkpoint: before";
const AFTER_CHECKPOINT: &str = "checkpoint: after";
const CLOSING: &str = "closing: before the checkpoint";

/// How long the longest handlers work: a third of this, and up to as long again.
const LONG_MS: u64 = 900;
/// A child that lives longer hangs.
const LONGEST_LIFE: Duration = Duration::from_secs(90);

/// The lives of one file.
pub(crate) struct Story {
    pub(crate) path: PathBuf,
    pub(crate) log: Vec<Event>,
    pub(crate) draw: Rng,
    pub(crate) schedules: Vec<Periodic>,
    pub(crate) deadly: bool,
    /// How many children ended without a shutdown.
    pub(crate) kills: usize,
    life: u32,
}

impl Story {
    pub(crate) fn new(name: &str, seed: u64) -> Story {
        let folder = env::temp_dir().join(format!("tickwheel-kill-{}-{name}", process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("jobs.db");
        let (draw, log, schedules) = (Rng::with_seed(seed), Vec::new(), Vec::new());
        Story { path, log, draw, schedules, deadly: false, kills: 0, life: 0 }
    }

    /// Returns instructions for a child that makes calls.
    pub(crate) fn instructions(&mut self) -> Instructions {
        let level = match self.draw.u64(..4) {
            0 | 1 => Level::Synced,
            2 => Level::Written,
            _ => Level::Buffered,
        };
        let in_flight = [2, 16, 2048][self.draw.usize(..3)];
        Instructions {
            path: self.path.clone(),
            seed: self.draw.u64(..),
            life: 0,
            level,
            in_flight,
            calls: 5 + self.draw.u64(..40),
            stay_ms: self.draw.u64(..60),
            ending: Ending::Quiet,
            long_ms: LONG_MS,
            rights_change: false,
            drain: false,
            deadly: self.deadly,
            doom: None,
            known: recall::known(&self.log),
            again: recall::unanswered(&self.log, self.life),
            schedules: self.schedules.clone(),
        }
    }

    /// One life: a child that dies at a named point, is killed at some time, or shuts down.
    pub(crate) fn one_life(&mut self) -> Result<()> {
        let mut life = self.instructions();
        let mut kill_after = Some(Duration::from_millis(500));
        let new = !self.path.exists();
        life.ending = self.ending();
        match self.draw.u64(..20) {
            _ if new && self.draw.u64(..4) > 0 => {
                let n = self.draw.u64(..POINTS_OF_A_NEW_FILE.len() as u64);
                life.doom = Some(self.doom(POINTS_OF_A_NEW_FILE[n as usize], 1));
            }
            0..12 => {
                let n = self.draw.usize(..POINTS.len());
                let (point, most) = POINTS[n];
                life.doom = Some(self.doom(point, most));
                if [BEFORE_CHECKPOINT, AFTER_CHECKPOINT].contains(&point) {
                    // A checkpoint waits for an idle moment, and schedules leave none.
                    (life.calls, life.stay_ms, life.ending) = (3, 450, Ending::Quiet);
                }
                if point == CLOSING {
                    life.stay_ms = 0;
                }
            }
            12..18 => kill_after = Some(Duration::from_micros(self.draw.u64(..90_000))),
            _ => kill_after = None,
        }
        self.live(life, kill_after)?;
        if self.draw.u64(..12) == 0 {
            self.look()?;
        }
        Ok(())
    }

    /// Returns how a child ends its jobs: mostly while its callers go on.
    fn ending(&mut self) -> Ending {
        let after = self.draw.u64(..40);
        match self.draw.u64(..6) {
            0 | 1 => Ending::Quiet,
            2 | 3 => Ending::Amid(after),
            4 => Ending::Soon(after, self.draw.u64(..20)),
            _ => Ending::Drop(after),
        }
    }

    fn doom(&mut self, point: &str, most: i64) -> Doom {
        let passage = 1 + self.draw.u64(..most as u64) as i64;
        let delay_us = self.draw.u64(..2) * self.draw.u64(..2000);
        Doom { point: point.to_owned(), passage, delay_us }
    }

    /// Lets children run until no job is left.
    pub(crate) fn drain(&mut self) -> Result<()> {
        for _ in 0..200 {
            let mut life = self.instructions();
            (life.drain, life.in_flight) = (true, 2048);
            let closed = self.live(life, None)?;
            if closed {
                return self.look();
            }
        }
        Err("200 children did not empty the file".into())
    }

    /// Makes a child, and lets it live. Returns whether it was shut down.
    pub(crate) fn live(
        &mut self,
        mut instructions: Instructions,
        kill_after: Option<Duration>,
    ) -> Result<bool> {
        self.life += 1;
        let life = self.life;
        instructions.life = life;
        self.note(Record::Born);
        let mut child = Command::new(env::current_exe()?)
            .args(["kill::child::life", "--exact", "--nocapture", "--test-threads=1"])
            .env(INSTRUCTIONS, serde_json::to_string(&instructions)?)
            .env("RUST_BACKTRACE", "0")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let lines = child.stdout.take().ok_or("a child without an output")?;
        let (ended, end) = mpsc::channel::<()>();
        let reader = thread::spawn(move || {
            let _ended = ended;
            let mut events = Vec::new();
            for line in BufReader::new(lines).lines().map_while(std::result::Result::ok) {
                // The test harness writes lines of its own.
                if let Ok(record) = serde_json::from_str(&line) {
                    events.push(Event { stamp: now_us(), life, record });
                }
            }
            events
        });
        let limit = kill_after.unwrap_or(LONGEST_LIFE);
        let timed_out = end.recv_timeout(limit) == Err(RecvTimeoutError::Timeout);
        if timed_out {
            child.kill()?;
        }
        let status = child.wait()?;
        self.log.extend(reader.join().map_err(|_| "the reader panicked")?);
        if timed_out && kill_after.is_none() {
            self.note(Record::Failed { text: format!("life {life} hangs") });
        }
        if let Some(code) = status.code().filter(|code| *code != 0) {
            self.note(Record::Failed { text: format!("life {life} ended with {code}") });
        }
        self.note(Record::Gone { by: status.to_string() });
        self.kills += usize::from(status.signal().is_some());
        Ok(status.success())
    }

    pub(crate) fn look(&mut self) -> Result<()> {
        let look = file::look(&self.path).map_err(|error| error.to_string())?;
        if let Some(look) = look {
            self.note(Record::Looked(look));
        }
        Ok(())
    }

    /// Returns the file at the end, and deletes it.
    pub(crate) fn end(&self) -> Result<FileEnd> {
        file::end(&self.path).map_err(|error| error.to_string().into())
    }

    pub(crate) fn remove(&self) {
        let _ = fs::remove_dir_all(self.path.parent().unwrap());
    }

    fn note(&mut self, record: Record) {
        self.log.push(Event { stamp: now_us(), life: self.life, record });
    }
}
