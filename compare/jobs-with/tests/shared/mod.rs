//! A shop whose orders and jobs are in one file.

use std::path::PathBuf;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tickwheel_jobs::{Job, Jobs};

/// Longer than anything takes on a loaded machine.
pub const LONG: Duration = Duration::from_secs(60);

#[derive(Serialize, Deserialize)]
pub struct CloseOrder {
    pub order: i64,
}

impl Job for CloseOrder {
    const KIND: &'static str = "close-order";
}

/// A folder that is removed when it is dropped.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("jobs-with-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    pub fn shop(&self) -> PathBuf {
        self.0.join("shop.db")
    }

    /// Returns jobs on the file of the shop, and the orders that they close.
    pub fn jobs(&self) -> (Jobs, Receiver<i64>) {
        let (sender, receiver) = channel();
        let jobs = Jobs::open(self.shop()).unwrap();
        let jobs = jobs.handle(move |close: CloseOrder, _| Ok(sender.send(close.order)?));
        (jobs.start().unwrap(), receiver)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
