//! The settings of a queue that are stored, so that they hold in every process: pauses, head starts, and what is
//! kept.
//!
//! | name | value |
//! | --- | --- |
//! | `pause` | the queue is paused; when, in milliseconds since 1970 |
//! | `pause:KIND` | the kind is paused; when |
//! | `pause-schedule:NAME` | the schedule is paused; when |
//! | `keep:KIND` | how many completed jobs of the kind are kept, as JSON: `last`, `age_ms`, `bytes` |
//! | `head:KIND` | the head start of the kind, in milliseconds |
//!
//! A setting with another name is ignored: a later version wrote it.

use std::collections::{HashMap, HashSet};

use super::head_start::{HeadStart, HeadStarts};
use super::keep::Keep;

/// The settings of a queue.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub(crate) struct Settings {
    pub(crate) is_paused: bool,
    pub(crate) paused_kinds: HashSet<String>,
    pub(crate) paused_schedules: HashSet<String>,
    pub(crate) keeps: HashMap<String, Keep>,
    pub(crate) head_starts: HeadStarts,
}

/// Returns the name of the setting that pauses a kind, or the queue.
pub(crate) fn pause(kind: Option<&str>) -> String {
    kind.map_or_else(|| "pause".to_owned(), |kind| format!("pause:{kind}"))
}

/// Returns the name of the setting that pauses a schedule.
pub(crate) fn pause_schedule(name: &str) -> String {
    format!("pause-schedule:{name}")
}

/// Returns the name of the setting that says how many completed jobs of a kind are kept.
pub(crate) fn keep(kind: &str) -> String {
    format!("keep:{kind}")
}

/// Returns the name of the setting that is the head start of a kind.
pub(crate) fn head_start(kind: &str) -> String {
    format!("head:{kind}")
}

impl Settings {
    /// Reads the stored settings.
    pub(crate) fn of(stored: &[(String, String)]) -> Settings {
        let mut settings = Settings::default();
        let mut head_starts = HashMap::new();
        for (name, value) in stored {
            match name.split_once(':') {
                None if name == "pause" => settings.is_paused = true,
                Some(("pause", kind)) => drop(settings.paused_kinds.insert(kind.to_owned())),
                Some(("pause-schedule", name)) => {
                    settings.paused_schedules.insert(name.to_owned());
                }
                Some(("keep", kind)) => {
                    let keep = Keep::from_text(value).filter(|keep| !keep.is_nothing());
                    settings.keeps.extend(keep.map(|keep| (kind.to_owned(), keep)));
                }
                Some(("head", kind)) => {
                    let its = HeadStart::from_text(value).filter(|its| !its.is_none());
                    head_starts.extend(its.map(|its| (kind.to_owned(), its)));
                }
                _ => {}
            }
        }
        settings.head_starts = HeadStarts::new(head_starts);
        settings
    }
}
