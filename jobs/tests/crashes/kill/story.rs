//! The parent: makes children on one file, and kills them.

use std::path::PathBuf;
use std::time::Duration;
use std::{env, fs, process};

use super::file;
use crate::deaths::child::Instructions;
use crate::deaths::lives::{Lives, Result};
use crate::deaths::record::{FileEnd, Record};
use crate::deaths::shutdown::Ending;

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

/// The lives of one file.
pub(crate) struct Story {
    pub(crate) path: PathBuf,
    pub(crate) lives: Lives,
}

impl Story {
    pub(crate) fn new(name: &str, seed: u64) -> Story {
        let folder = env::temp_dir().join(format!("tickwheel-kill-{}-{name}", process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        Story { path: folder.join("jobs.db"), lives: Lives::new("kill::life", seed) }
    }

    /// Returns instructions for a child that makes calls.
    pub(crate) fn instructions(&mut self) -> Instructions {
        let mut life = self.lives.instructions(self.path.clone(), LONG_MS);
        self.lives.let_call(&mut life, 5, 40);
        life
    }

    /// One life: a child that dies at a named point, is killed at some time, or shuts down.
    pub(crate) fn one_life(&mut self) -> Result<()> {
        let mut life = self.instructions();
        let mut kill_after = Some(Duration::from_millis(500));
        let new = !self.path.exists();
        life.ending = self.ending();
        let lives = &mut self.lives;
        match lives.draw.u64(..20) {
            _ if new && lives.draw.u64(..4) > 0 => {
                let n = lives.draw.usize(..POINTS_OF_A_NEW_FILE.len());
                life.doom = Some(lives.doom(POINTS_OF_A_NEW_FILE[n], 1));
            }
            0..12 => {
                let (point, most) = POINTS[lives.draw.usize(..POINTS.len())];
                life.doom = Some(lives.doom(point, most));
                if [BEFORE_CHECKPOINT, AFTER_CHECKPOINT].contains(&point) {
                    // A checkpoint waits for an idle moment, and schedules leave none.
                    (life.calls, life.stay_ms, life.ending) = (3, 450, Ending::Quiet);
                }
                if point == CLOSING {
                    life.stay_ms = 0;
                }
            }
            12..18 => kill_after = Some(Duration::from_micros(lives.draw.u64(..90_000))),
            _ => kill_after = None,
        }
        lives.live(life, kill_after)?;
        if lives.draw.u64(..12) == 0 {
            self.look()?;
        }
        Ok(())
    }

    /// Returns how a child ends its jobs: mostly while its callers go on.
    fn ending(&mut self) -> Ending {
        let after = self.lives.draw.u64(..40);
        match self.lives.draw.u64(..6) {
            0 | 1 => Ending::Quiet,
            2 | 3 => Ending::Amid(after),
            4 => Ending::Soon(after, self.lives.draw.u64(..20)),
            _ => Ending::Drop(after),
        }
    }

    /// Lets children run until no job is left.
    pub(crate) fn drain(&mut self) -> Result<()> {
        let path = self.path.clone();
        self.lives.drain(|lives| lives.instructions(path.clone(), LONG_MS))?;
        self.look()
    }

    fn look(&self) -> Result<()> {
        if let Some(look) = file::look(&self.path)? {
            self.lives.note(0, Record::Looked(look));
        }
        Ok(())
    }

    /// Purges the file, and returns the rest of its contents.
    pub(crate) fn end(&self) -> Result<FileEnd> {
        file::end(&self.path)
    }

    pub(crate) fn remove(&self) {
        let _ = fs::remove_dir_all(self.path.parent().unwrap());
    }
}
