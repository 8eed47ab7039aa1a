//! Why a job has not started: the answer to a question about one job, from what the store knows.

use core::fmt;
use std::time::SystemTime;

use serde::Serialize;
use serde::ser::{SerializeStruct, Serializer};

use super::info::{JobInfo, JobState};
use super::json::Rfc3339;
use super::node::NodeInfo;
use super::setting::Settings;

/// Why a pending job has not started: see [`Client::why_pending`](crate::Client::why_pending).
///
/// It prints as a sentence. Its serialized form has the members `reason`, which is its [name](PendingReason::name), and
/// `text`, which is the sentence.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum PendingReason {
    /// It is due at this time.
    NotDue(SystemTime),
    /// The queue is paused: see [`Client::pause`](crate::Client::pause).
    QueuePaused,
    /// Its kind is paused: see [`Kind::pause`](crate::Kind::pause).
    KindPaused,
    /// No process handles its kind: none has said so on this file, or none was seen on this server in the last 30 seconds.
    NoNode,
    /// So many of its runs in a row ended with their process. Such jobs start one after another, because one of them may
    /// have ended the process: see [`JobInfo::interruptions`].
    Interrupted(u32),
    /// It is due, and waits for its turn.
    Turn {
        /// How many processes handle its kind.
        nodes: usize,
        /// How many jobs these had claimed when they were last seen.
        in_flight: usize,
        /// How many they claim at most.
        max_in_flight: usize,
        /// When the latest of them was seen. On a file an idle process is not seen.
        seen: SystemTime,
    },
}

impl PendingReason {
    /// Returns the name of the reason: `not_due`, `queue_paused`, `kind_paused`, `no_node`, `interrupted`, `turn`.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            PendingReason::NotDue(_) => "not_due",
            PendingReason::QueuePaused => "queue_paused",
            PendingReason::KindPaused => "kind_paused",
            PendingReason::NoNode => "no_node",
            PendingReason::Interrupted(_) => "interrupted",
            PendingReason::Turn { .. } => "turn",
        }
    }

    /// Returns every reason why a job has not started. `shared`: its store is a server, whose nodes say regularly that
    /// they are there.
    pub(crate) fn all(
        job: &JobInfo,
        settings: &Settings,
        nodes: &[NodeInfo],
        shared: bool,
        now: SystemTime,
    ) -> Vec<PendingReason> {
        if job.state != JobState::Pending {
            return Vec::new();
        }
        let mut reasons = Vec::new();
        if job.due > now {
            reasons.push(PendingReason::NotDue(job.due));
        }
        if settings.is_paused {
            reasons.push(PendingReason::QueuePaused);
        }
        if settings.paused_kinds.contains(&job.kind) {
            reasons.push(PendingReason::KindPaused);
        }
        let handles = |node: &&NodeInfo| {
            node.kinds.contains(&job.kind) && (!shared || node.was_seen_lately(now))
        };
        let nodes: Vec<&NodeInfo> = nodes.iter().filter(handles).collect();
        match nodes.iter().map(|node| node.seen).max() {
            None => reasons.push(PendingReason::NoNode),
            Some(_) if !reasons.is_empty() => {}
            Some(_) if job.interruptions > 0 => {
                reasons.push(PendingReason::Interrupted(job.interruptions));
            }
            Some(seen) => reasons.push(PendingReason::Turn {
                nodes: nodes.len(),
                in_flight: nodes.iter().map(|node| node.in_flight).sum(),
                max_in_flight: nodes.iter().map(|node| node.max_in_flight).sum(),
                seen,
            }),
        }
        reasons
    }
}

impl fmt::Display for PendingReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PendingReason::NotDue(due) => write!(f, "it is due at {}", Rfc3339(*due)),
            PendingReason::QueuePaused => f.write_str("the queue is paused"),
            PendingReason::KindPaused => f.write_str("its kind is paused"),
            PendingReason::NoNode => f.write_str("no process handles its kind"),
            PendingReason::Interrupted(runs) => write!(
                f,
                "{runs} of its runs in a row ended with their process, so it starts when no other such job runs"
            ),
            PendingReason::Turn { nodes, in_flight, max_in_flight, seen } => {
                let processes =
                    if *nodes == 1 { "process that handles" } else { "processes that handle" };
                write!(
                    f,
                    "it waits for its turn: the {nodes} {processes} its kind had claimed {in_flight} jobs, \
                     {max_in_flight} at most, at {}",
                    Rfc3339(*seen)
                )
            }
        }
    }
}

impl Serialize for PendingReason {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut reason = serializer.serialize_struct("PendingReason", 2)?;
        reason.serialize_field("reason", self.name())?;
        reason.serialize_field("text", &self.to_string())?;
        reason.end()
    }
}

#[cfg(test)]
mod tests {
    use super::{JobInfo, JobState, NodeInfo, PendingReason, Settings, SystemTime};
    use crate::values::node::Stored;
    use crate::values::time::Millis;
    use std::time::Duration;

    fn mail(state: JobState, due: Millis, interruptions: u32) -> JobInfo {
        JobInfo {
            id: crate::values::id::JobId::from_u128(7),
            kind: "mail".to_owned(),
            state,
            due: due.to_system(),
            failures: 0,
            attempt: 0,
            interruptions,
            key: None,
            error: None,
            errors: Vec::new(),
            headers: Default::default(),
            claimed: None,
            lease_ends: None,
            died: None,
            ended: None,
            took: None,
            result: None,
            progress: None,
            payload: Vec::new(),
        }
    }

    fn node(kind: &str, seen: Millis) -> NodeInfo {
        let stored = Stored::of_this_process(vec![kind.to_owned()], Some(4), 64, seen);
        NodeInfo { in_flight: 3, ..Stored::info(&stored.to_text(), seen).unwrap() }
    }

    /// Each reason holds by itself, and all that hold are told. A job that is due waits for its turn if nothing else
    /// holds it back.
    #[test]
    fn every_reason_why_a_job_waits_is_told() {
        let now = Millis::clamped(1_800_000_000_000);
        let ago = |ms| now.minus(Duration::from_millis(ms));
        let settings = |stored: &[(&str, &str)]| {
            let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
            Settings::of(&stored.iter().map(own).collect::<Vec<_>>())
        };
        let why = |job: &JobInfo, stored: &[(&str, &str)], nodes: &[NodeInfo], shared| {
            PendingReason::all(job, &settings(stored), nodes, shared, now.to_system())
        };
        let due = mail(JobState::Pending, ago(10), 0);
        let nodes = [node("mail", ago(5_000)), node("mail", ago(20_000)), node("other", ago(1))];
        let seen: SystemTime = ago(5_000).to_system();
        let turn = PendingReason::Turn { nodes: 2, in_flight: 6, max_in_flight: 128, seen };
        assert_eq!(why(&due, &[("pause:other", "1")], &nodes, true), [turn]);
        assert_eq!(why(&due, &[], &nodes[2..], true), [PendingReason::NoNode]);
        let quiet = [node("mail", ago(31_000))];
        assert_eq!(why(&due, &[], &quiet, true), [PendingReason::NoNode]);
        assert_eq!(why(&due, &[], &quiet, false)[0].name(), "turn", "it may be idle");
        let stopped = [("pause", "1"), ("pause:mail", "1")];
        let later = mail(JobState::Pending, now.plus(Duration::from_secs(1)), 2);
        let all = [
            PendingReason::NotDue(later.due),
            PendingReason::QueuePaused,
            PendingReason::KindPaused,
            PendingReason::NoNode,
        ];
        assert_eq!(why(&later, &stopped, &[], true), all);
        assert_eq!(why(&later, &[], &nodes, true), [PendingReason::NotDue(later.due)]);
        let interrupted = mail(JobState::Pending, ago(10), 2);
        assert_eq!(why(&interrupted, &[], &nodes, true), [PendingReason::Interrupted(2)]);
        for state in [JobState::Claimed, JobState::Running, JobState::Dead, JobState::Completed] {
            assert_eq!(why(&mail(state, ago(10), 0), &stopped, &[], true), []);
        }
    }
}
