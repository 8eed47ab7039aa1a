//! `follow`: prints each change of a job until the job ends.
//!
//! Ground rules:
//!
//! - `follow` reads the job four times a second, so it may miss a state that lasts a shorter time. It never misses the
//!   end: a job that is gone has ended.
//! - If the store does not answer, `follow` asks again for half a minute.

use std::io::{self, Write};
use std::time::{Duration, Instant};

use serde_json::json;
use tickwheel_jobs::{Client, JobId, JobInfo, JobState};

use crate::args::Follow;
use crate::text::{dated, json, now, plain, shown, span};
use crate::{Answer, Outcome};

const EVERY: Duration = Duration::from_millis(250);
/// The longest time for which `follow` asks a store that does not answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// Follows a job to its end. The outcome is `Done` if the job has completed.
#[expect(clippy::disallowed_methods, reason = "the command runs in real time, without a wheel")]
pub(crate) fn follow(client: &Client, id: JobId, how: &Follow, out: &mut impl Write) -> Answer {
    let begun = Instant::now();
    let (mut seen, mut answered, mut is_silent) = (None, begun, false);
    loop {
        match client.get(id) {
            Ok(None) => return gone(id, seen, how.json, out),
            Ok(Some(mut job)) => {
                (answered, is_silent) = (Instant::now(), false);
                // A renewal of the lease changes this field, and the job stays as it was.
                job.lease_ends = None;
                if seen.as_ref() != Some(&job) {
                    match how.json {
                        true => writeln!(out, "{}", json(&job)?)?,
                        false => writeln!(out, "{}", line(&job))?,
                    }
                    out.flush()?;
                }
                match job.state {
                    JobState::Completed => return Ok(Outcome::Done),
                    JobState::Dead | JobState::Cancelled | JobState::Expired => {
                        return Ok(Outcome::Missed);
                    }
                    _ => seen = Some(job),
                }
            }
            Err(error) if answered.elapsed() > PATIENCE => return Err(error.into()),
            Err(error) if !is_silent => {
                eprintln!("tickwheel-jobs: {}; asking again", plain(&error.to_string()));
                is_silent = true;
            }
            Err(_) => {}
        }
        let left = how.timeout.map(|timeout| timeout.saturating_sub(begun.elapsed()));
        if left == Some(Duration::ZERO) {
            return Err(format!("{id} has not ended after {}", span(begun.elapsed())).into());
        }
        if is_read_no_more() {
            return Err(io::Error::from(io::ErrorKind::BrokenPipe).into());
        }
        std::thread::sleep(left.unwrap_or(EVERY).min(EVERY));
    }
}

fn line(job: &JobInfo) -> String {
    let mut line =
        format!("{}  {:<9}  attempt {}", shown(now()), job.state.to_string(), job.attempt);
    if job.state == JobState::Pending {
        line += &format!("  due {}", dated(job.due, now()));
    }
    let text = |json: &Vec<u8>| String::from_utf8_lossy(json).into_owned();
    let parts = [
        ("took", job.took.map(span)),
        ("progress", job.progress.as_ref().map(text)),
        ("result", job.result.as_ref().map(text)),
        ("error", job.error.clone().filter(|_| job.state != JobState::Completed)),
    ];
    for (name, value) in parts {
        line += &value.map_or(String::new(), |value| format!("  {name} {value}"));
    }
    plain(&line).into_owned()
}

fn gone(id: JobId, seen: Option<JobInfo>, is_json: bool, out: &mut impl Write) -> Answer {
    // The job may have gone before the first read.
    let kind = seen.map_or("its kind".to_owned(), |job| format!("the kind {}", job.kind));
    match is_json {
        true => writeln!(out, "{}", json(&json!({ "id": id.to_string(), "state": "gone" }))?)?,
        false => writeln!(out, "{}  gone", shown(now()))?,
    }
    eprintln!(
        "tickwheel-jobs: {id} has completed, or was cancelled or deleted: {} keeps no such jobs, unless `keep` says so, \
         or its bounds were reached",
        plain(&kind)
    );
    Ok(Outcome::Missed)
}

/// Says whether the program that reads the output has closed it.
fn is_read_no_more() -> bool {
    #[cfg(unix)]
    {
        use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
        use std::os::fd::AsFd;

        let stdout = io::stdout();
        let mut fds = [PollFd::new(stdout.as_fd(), PollFlags::empty())];
        let is_closed =
            |fd: &PollFd<'_>| fd.revents().is_some_and(|it| it.contains(PollFlags::POLLERR));
        poll(&mut fds, PollTimeout::ZERO).is_ok() && is_closed(&fds[0])
    }
    #[cfg(not(unix))]
    {
        false
    }
}
