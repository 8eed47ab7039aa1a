//! Why a job has not started: the answer to a question about one job, from the data of the store.

use core::fmt;
use std::time::SystemTime;

use serde::Serialize;
use serde::ser::{SerializeStruct, Serializer};

use super::info::JobInfo;
use super::node::NodeInfo;
use super::setting;
use super::stored_limits::{self, LimitInfo, LimitScope};
use super::time::Rfc3339;

/// Why a pending job has not started: see [`Client::why_pending`](crate::Client::why_pending).
///
/// It prints as a sentence. Its serialized form has the members `reason`, which is its [name](PendingReason::name), and
/// `text`, which is the sentence.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum PendingReason {
    /// It is due at this time.
    NotDue(SystemTime),
    /// The queue is paused: see [`Queue::pause`](crate::Queue::pause).
    QueuePaused,
    /// Its kind is paused: see [`Kind::pause`](crate::Kind::pause).
    KindPaused,
    /// Its partition is paused: see [`Partition::pause`](crate::Partition::pause).
    PartitionPaused,
    /// The stored limit of this scope lets no job start now: as many of its jobs are claimed as may run at once, its
    /// rate allows no start yet, or it is held. For [`LimitScope::Each`], the jobs of the job's own partition count.
    Limit(LimitInfo),
    /// No process handles its kind: none has said so on this file, or none was seen on this server in the last 30
    /// seconds.
    NoNode,
    /// This many of its runs in a row ended with their process. Few interrupted jobs start at a time, because one
    /// of them may have ended the process: see [`JobInfo::interruptions`].
    Interrupted(u32),
    /// It is due, and waits for its turn.
    Turn {
        /// How many processes handle its kind.
        nodes: usize,
        /// How many jobs these had claimed when they were last seen.
        in_flight: usize,
        /// How many runs they can have under way at once.
        most_runs: usize,
        /// When the latest of them was seen. On a file an idle process is not seen.
        seen: SystemTime,
    },
}

impl PendingReason {
    /// Returns the name of the reason: `not_due`, `queue_paused`, `kind_paused`, `partition_paused`,
    /// `limit`, `no_node`, `interrupted`, `turn`.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            PendingReason::NotDue(_) => "not_due",
            PendingReason::QueuePaused => "queue_paused",
            PendingReason::KindPaused => "kind_paused",
            PendingReason::PartitionPaused => "partition_paused",
            PendingReason::Limit(_) => "limit",
            PendingReason::NoNode => "no_node",
            PendingReason::Interrupted(_) => "interrupted",
            PendingReason::Turn { .. } => "turn",
        }
    }

    /// Returns the reasons that follow from the due time of a pending job and from the stored settings.
    pub(crate) fn of_settings(
        job: &JobInfo,
        stored: &[(String, String)],
        now: SystemTime,
    ) -> Vec<PendingReason> {
        let is_stored = |name: &str| stored.iter().any(|(its, _)| its == name);
        let is_paused = |partition: &String| {
            is_stored(&stored_limits::partition_pause_setting(&job.kind, partition))
        };
        let mut reasons = Vec::new();
        if job.due > now {
            reasons.push(PendingReason::NotDue(job.due));
        }
        if is_stored(&setting::pause_setting(None)) {
            reasons.push(PendingReason::QueuePaused);
        }
        if is_stored(&setting::pause_setting(Some(&job.kind))) {
            reasons.push(PendingReason::KindPaused);
        }
        if job.partition.as_ref().is_some_and(is_paused) {
            reasons.push(PendingReason::PartitionPaused);
        }
        reasons
    }

    /// Adds the reason that follows from the nodes: no node handles the kind of the job, or nothing else holds back
    /// the job. `shared`: its store is a server, whose nodes say regularly that they are there.
    pub(crate) fn add_nodes(
        reasons: &mut Vec<PendingReason>,
        job: &JobInfo,
        nodes: &[NodeInfo],
        shared: bool,
        now: SystemTime,
    ) {
        let handles =
            |node: &&NodeInfo| node.kinds.contains(&job.kind) && node.is_there(shared, now);
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
                most_runs: nodes.iter().map(|node| node.most_runs).sum(),
                seen,
            }),
        }
    }
}

impl fmt::Display for PendingReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PendingReason::NotDue(due) => write!(f, "it is due at {}", Rfc3339(*due)),
            PendingReason::QueuePaused => f.write_str("the queue is paused"),
            PendingReason::KindPaused => f.write_str("its kind is paused"),
            PendingReason::PartitionPaused => f.write_str("its partition is paused"),
            PendingReason::Limit(info @ LimitInfo { scope, limit, running, .. }) => {
                let most = limit.most_running().unwrap_or(0);
                let scope = match scope {
                    LimitScope::Queue => "the queue".to_owned(),
                    LimitScope::Flow(flow) => format!("the flow {flow}"),
                    LimitScope::Each(_) => "its partition".to_owned(),
                    LimitScope::Partition { partition, .. } => format!("its partition {partition}"),
                };
                let mut and = "";
                if info.is_full() {
                    write!(f, "{running} of {most} jobs of {scope} run")?;
                    and = "; ";
                }
                if let Some(next) = info.next_start {
                    let next = Rfc3339(next);
                    write!(f, "{and}by its rate, {scope} starts the next job at {next}")?;
                    and = "; ";
                }
                match info.held_until {
                    Some(until) => write!(f, "{and}{scope} is held until {}", Rfc3339(until)),
                    None => Ok(()),
                }
            }
            PendingReason::NoNode => f.write_str("no process handles its kind"),
            PendingReason::Interrupted(runs) => write!(
                f,
                "{runs} of its runs in a row ended with their process, so it may have to wait for other such jobs"
            ),
            PendingReason::Turn { nodes, in_flight, most_runs, seen } => {
                let processes =
                    if *nodes == 1 { "process that handles" } else { "processes that handle" };
                write!(
                    f,
                    "it waits for its turn: the {nodes} {processes} its kind had claimed {in_flight} jobs at {}, \
                     and can run {most_runs} at once",
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
    use super::{JobInfo, NodeInfo, PendingReason, SystemTime};
    use crate::values::fail_and_retry::AttemptErrors;
    use crate::values::info::JobState;
    use crate::values::job::Shown;
    use crate::values::node::StoredNode;
    use crate::values::time::Millis;
    use std::time::Duration;

    fn mail(due: Millis, interruptions: u32) -> JobInfo {
        let (id, kind) = (crate::values::id::JobId::from_u128(7), "mail".to_owned());
        let (errors, shown) = (AttemptErrors::default(), Shown::default());
        let job = JobInfo::new(id, kind, JobState::Pending, due, &errors, shown);
        JobInfo { interruptions, ..job }
    }

    fn node(kind: &str, seen: Millis) -> NodeInfo {
        let stored =
            StoredNode::of_this_process([(kind.to_owned(), 20)].into(), Some(4), 4, 64, seen);
        NodeInfo { in_flight: 3, ..StoredNode::info(&stored.to_text(), seen).unwrap() }
    }

    /// P38: The answer has each reason by itself, and all of them together. A due job without any other reason waits
    /// for its turn.
    #[test]
    fn every_reason_why_a_job_waits_is_told() {
        let now = Millis::clamped(1_800_000_000_000);
        let ago = |ms| now.minus(Duration::from_millis(ms));
        let why = |job: &JobInfo, stored: &[(&str, &str)], nodes: &[NodeInfo], shared| {
            let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
            let stored: Vec<(String, String)> = stored.iter().map(own).collect();
            let mut reasons = PendingReason::of_settings(job, &stored, now.to_system());
            PendingReason::add_nodes(&mut reasons, job, nodes, shared, now.to_system());
            reasons
        };
        let due = mail(ago(10), 0);
        let nodes = [node("mail", ago(5_000)), node("mail", ago(20_000)), node("other", ago(1))];
        let seen: SystemTime = ago(5_000).to_system();
        let turn = PendingReason::Turn { nodes: 2, in_flight: 6, most_runs: 8, seen };
        assert_eq!(why(&due, &[("pause:other", "1")], &nodes, true), [turn]);
        assert_eq!(why(&due, &[], &nodes[2..], true), [PendingReason::NoNode]);
        let quiet = [node("mail", ago(31_000))];
        assert_eq!(why(&due, &[], &quiet, true), [PendingReason::NoNode]);
        assert_eq!(why(&due, &[], &quiet, false)[0].name(), "turn", "it may be idle");
        let stopped = [("pause", "1"), ("pause:mail", "1")];
        let later = mail(now.plus(Duration::from_secs(1)), 2);
        let all = [
            PendingReason::NotDue(later.due),
            PendingReason::QueuePaused,
            PendingReason::KindPaused,
            PendingReason::NoNode,
        ];
        assert_eq!(why(&later, &stopped, &[], true), all);
        assert_eq!(why(&later, &[], &nodes, true), [PendingReason::NotDue(later.due)]);
        let interrupted = mail(ago(10), 2);
        assert_eq!(why(&interrupted, &[], &nodes, true), [PendingReason::Interrupted(2)]);
        let of_acme = JobInfo { partition: Some("acme".to_owned()), ..due };
        let paused = [("pause-part:4:mail:acme", "1"), ("pause-part:4:mail:other", "1")];
        assert_eq!(why(&of_acme, &paused, &nodes, true), [PendingReason::PartitionPaused]);
        assert_eq!(why(&of_acme, &paused[1..], &nodes, true)[0].name(), "turn");
    }
}
