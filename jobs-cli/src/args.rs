//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use crate::made::Made;
use crate::open::Target;
use crate::text;
use clap::{ArgGroup, Parser, Subcommand, ValueEnum, value_parser};
use tickwheel_jobs::GroupId;

/// Lists and changes the durable jobs of a file or a Redis server, while the application runs.
///
/// The application notices a change within a second. A job of a file may be claimed up to 50 ms before it
/// is due. Only the application knows whether a claimed job runs.
#[derive(Parser, Debug)]
#[command(name = "tickwheel-jobs", version, after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// The file of the jobs, which must exist, or redis://[user@]host[:port][/database]. Other URLs:
    /// redis-cluster://[user@]host[:port][,host[:port]..],
    /// redis-sentinel://[user@]host[:port][,..][/database]?master=NAME, and unix:///path[?db=NUMBER].
    /// Write a file whose name looks like a URL with its folder: ./unix:1.
    pub(crate) store: Target,
    /// A file with the server's password as its only line. See below.
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) store_password_file: Option<PathBuf>,
    /// The queue, if it is not the default one.
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) queue: Option<String>,
    /// Prints times in this machine's zone, and reads times without a zone as times of it. JSON stays UTC.
    #[arg(long, global = true)]
    pub(crate) local: bool,
    /// Appends one JSON object to this file after each command that may change the store: user, time and change.
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) audit_file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) made: Made,
    #[command(subcommand)]
    pub(crate) command: Command,
}

const AFTER_HELP: &str = "\
In an incident: `limit` makes jobs start more slowly. `hold` lets no job start for a time, and `pause` until \
`resume`. `stats` and `top` name the pauses, holds and limits set by hand. `limits` lists all stored limits.

Times: 2026-11-22T10:00:00Z, 2026-11-22T11:00:00+01:00, 2026-11-22 (midnight UTC, or of this \
machine's zone with --local), or from now on: 30s, \"2h 30m\", 3d, -1h. Jobs on a server go by its \
clock.

An id may be cut short, as long as no other job's id begins with what is left: the command \
then reads all pending, running and dead jobs, some seconds for a million. If several begin with it, they are \
listed. A completed job is found only by its whole id.

The password of a server is taken from --store-password-file, or from the environment variable
TICKWHEEL_STORE_PASSWORD, which a password in the URL goes before. A URL may have the password
itself (redis://[user]:password@host), but other users of this machine can read the arguments of a
command, in the list of processes. The command prints no password.

The environment variable TICKWHEEL_AUDIT_FILE has the effect of --audit-file.

Exit codes: 0 done; 1 not found, nothing changed, or too late to cancel; 2 error.";

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    // Commands that show jobs and settings.
    /// Lists jobs: pending and running ones in the order of due time, dead and ended ones the latest first.
    List(List),
    /// Shows everything about a job, by its id, the beginning of its id, or its key.
    Show {
        #[arg(value_name = "ID or KEY")]
        job: String,
        /// Prints one JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Follows a job: prints a line when its state, attempt, progress or error changes, until the job ends. The exit
    /// code is 0 if the job completed. It is 1 if the job died, expired, was cancelled or is gone.
    Follow {
        #[arg(value_name = "ID or KEY")]
        job: String,
        #[command(flatten)]
        how: Follow,
    },
    /// Prints counts, kinds, overdue kinds, sizes, the next due time, and the pauses, holds and limits set by hand.
    Stats {
        /// Prints one JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Lists the dead jobs by kind and first line of their error, those with the most jobs first.
    Errors {
        /// Lists this many groups at most.
        #[arg(long, value_name = "N", default_value_t = 100)]
        limit: usize,
        #[command(flatten)]
        output: AsLines,
    },
    /// Prints what happened to the jobs in each minute of the last hour, or in each hour of the last two days.
    History(History),
    /// Lists the queues of the file or the server, with counts.
    Queues(AsLines),
    /// Prints the metrics of the queue for Prometheus: jobs by kind and state, nodes, schedules.
    Metrics {
        /// Prints them for OpenMetrics.
        #[arg(long)]
        openmetrics: bool,
    },
    /// Lists the processes that run the jobs.
    Nodes(AsLines),
    /// Lists the groups of jobs, at most 1,000, those that were made last first.
    Groups(AsLines),
    /// Lists the limits and holds of the queue: how many jobs of each scope run, and when the next job may start.
    Limits(AsLines),
    /// Reads the whole store, and checks that it is consistent.
    Check,
    /// Shows the queue at present, refreshed once a second: rates, kinds, nodes, runs, dead jobs and
    /// schedules. The view needs a terminal and a build with the feature `top`; --once and --json do not.
    Top {
        /// Prints one page of text, and ends.
        #[arg(long)]
        once: bool,
        /// Prints the same as one JSON object, and ends.
        #[arg(long)]
        json: bool,
    },
    /// Serves the dashboard as web pages, until it is interrupted: on this machine without a password; on any other
    /// address with one, over HTTP Basic without TLS.
    #[cfg(feature = "serve")]
    Serve(Serve),
    // Commands that slow jobs down or stop them, and those that set a kind.
    /// Limits how often jobs start, and how many run at once, on all machines together.
    ///
    /// The store keeps the limit. Every node follows it within a second, also after a restart, until `--none` lifts it.
    /// Jobs that already run go on. A part of the limit stays as it is if no option names it. A rate and its burst are
    /// one part. `--kind` limits the flow of the kind: all kinds that share one limit.
    ///
    /// A stored limit replaces the limit that a program gives with `limit_unless_set`. `--none` brings that limit back.
    /// While a limit set by hand holds, a limit that a program sets with `Kind::limit` waits.
    Limit(Limit),
    /// Lets no further job start for a time. Jobs that already run go on. Of two holds, the one that ends later counts.
    /// A hold of 0s ends a hold.
    Hold(Hold),
    /// Ends a hold.
    Release(Release),
    /// Pauses the queue, a kind or a partition: after a second, no process starts a further job of it. Or pauses a
    /// schedule: no further occurrence of the schedule becomes a job.
    Pause(Paused),
    /// Ends a pause. A schedule leaves out the occurrences that fell into its pause.
    Resume(Paused),
    /// Starts the due jobs of a kind before the jobs of other kinds that became due up to TIME earlier.
    HeadStart(HeadStart),
    /// Sets how many completed jobs of a kind are kept. By default no completed job is kept. New bounds replace the old
    /// ones.
    Keep(Keep),
    // Commands that change jobs, groups and schedules.
    /// Cancels jobs. For a job that runs already, a cancel is requested, and the exit code is 1. With --all:
    /// cancels all pending jobs.
    Cancel(Selection),
    /// Gives pending jobs another due time.
    Reschedule(Reschedule),
    /// Makes dead jobs pending and due now. Their failures are counted from 0 again.
    Retry(Selection),
    /// Deletes dead jobs. With a whole id also a completed, cancelled or expired job that is kept.
    Delete(Selection),
    /// Inserts a job by hand. It is due now unless a time is given.
    Insert(Insert),
    /// Inserts an occurrence of a schedule that is due now. The schedule does not change.
    RunSchedule(Schedule),
    /// Removes a schedule. Its jobs stay. A program may store the schedule again when it starts. To stop the
    /// occurrences, pause the schedule instead.
    RemoveSchedule(Schedule),
    /// Seals a group: it takes no more members, and ends once every member has ended.
    SealGroup { id: GroupId },
    /// Cancels a group: it takes no more members, its pending members are cancelled, and the runs of the others are
    /// asked to stop. The group ends then, and its callback is inserted.
    CancelGroup { id: GroupId },
}

/// The output of a command that lists.
#[derive(clap::Args, Clone, Copy, Debug)]
pub(crate) struct AsLines {
    /// Prints one JSON object a line.
    #[arg(long)]
    pub(crate) json: bool,
}

#[cfg(feature = "serve")]
#[derive(clap::Args, Debug)]
pub(crate) struct Serve {
    /// The address. With the port 0 the system chooses one, which is printed.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:7171")]
    pub(crate) listen: String,
    /// A file with the password of the pages as its only line. The environment variable TICKWHEEL_PASSWORD has
    /// the same effect. On an address of other machines, a password is made and printed if there is none.
    #[arg(long, value_name = "FILE")]
    pub(crate) password_file: Option<PathBuf>,
    /// Shows the jobs, and refuses every change.
    #[arg(long)]
    pub(crate) read_only: bool,
}

#[derive(clap::Args, Debug)]
pub(crate) struct History {
    /// A line for each minute, of which there are those of 48 hours, or for each hour of 90 days.
    #[arg(long, value_enum, value_name = "STEP", default_value_t = StepName::Minute)]
    pub(crate) step: StepName,
    #[command(flatten)]
    pub(crate) of: OfKind,
    /// Begins at this time.
    #[arg(long, value_name = "TIME", value_parser = text::time, allow_hyphen_values = true)]
    pub(crate) from: Option<text::Moment>,
    /// Ends before this time.
    #[arg(long, value_name = "TIME", value_parser = text::time, allow_hyphen_values = true)]
    pub(crate) to: Option<text::Moment>,
    #[command(flatten)]
    pub(crate) output: AsLines,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum, Debug)]
pub(crate) enum StepName {
    Minute,
    Hour,
}

/// The queue, or one kind of it.
#[derive(clap::Args, Debug)]
pub(crate) struct OfKind {
    /// Takes only this kind. A kind that the store has never had is an error.
    #[arg(long, value_name = "NAME")]
    pub(crate) kind: Option<String>,
}

/// The queue, one kind of it, or one partition of a kind.
#[derive(clap::Args, Debug)]
pub(crate) struct Scope {
    #[command(flatten)]
    pub(crate) of: OfKind,
    /// Takes only this partition of the kind. The partition may have no job.
    #[arg(long, value_name = "NAME", requires = "kind")]
    pub(crate) partition: Option<String>,
}

/// The options for the output of a command that changes a setting.
#[derive(clap::Args, Debug)]
pub(crate) struct ChangeOutput {
    /// Prints the setting that the command would make, and changes nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Prints the setting before and after the change, as one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}

/// The limit of a scope.
#[derive(clap::Args, Debug)]
#[command(group = ArgGroup::new("parts").args(["rate", "burst", "running", "weight", "none"]).required(true).multiple(true))]
#[group(skip)]
pub(crate) struct Limit {
    #[command(flatten)]
    pub(crate) of: Scope,
    /// Gives each partition of the kind a limit of its own.
    #[arg(long, requires = "kind", conflicts_with = "partition")]
    pub(crate) each: bool,
    /// Lets at most N jobs start in any PERIOD, evenly spread: 10/1s, 600/1h.
    #[arg(long, value_name = "N/PERIOD", value_parser = text::rate)]
    pub(crate) rate: Option<(u32, Duration)>,
    /// Lets N jobs of the rate start at once after a quiet time. The default is 1.
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..=1_000_000))]
    pub(crate) burst: Option<u32>,
    /// Lets at most N jobs run at once.
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..))]
    pub(crate) running: Option<u32>,
    /// Gives the partition N turns for each turn of another partition.
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..=1000))]
    pub(crate) weight: Option<u32>,
    /// Removes each part of the limit that no other option sets. Without another option, it lifts the limit set by
    /// hand, and the earlier limit holds again.
    #[arg(long)]
    pub(crate) none: bool,
    /// With --none: also removes a limit that a program has stored.
    #[arg(long, requires = "none", conflicts_with_all = ["rate", "burst", "running", "weight"])]
    pub(crate) program: bool,
    #[command(flatten)]
    pub(crate) output: ChangeOutput,
}

#[derive(clap::Args, Debug)]
pub(crate) struct Hold {
    /// The length of the hold from now on: 30s, "2h 30m". 0s ends a hold.
    #[arg(value_name = "TIME", value_parser = text::delay)]
    pub(crate) time: Duration,
    #[command(flatten)]
    pub(crate) of: Release,
}

#[derive(clap::Args, Debug)]
pub(crate) struct Release {
    #[command(flatten)]
    pub(crate) of: Scope,
    #[command(flatten)]
    pub(crate) output: ChangeOutput,
}

#[derive(clap::Args, Debug)]
pub(crate) struct HeadStart {
    /// The head start: 1m. The jobs of the kind count as due earlier by this time. 0s removes the head start.
    #[arg(value_name = "TIME", value_parser = text::delay)]
    pub(crate) by: Duration,
    /// The kind. A kind that the store has never had is an error.
    #[arg(long, value_name = "NAME")]
    pub(crate) kind: String,
    #[command(flatten)]
    pub(crate) output: ChangeOutput,
}

#[derive(clap::Args, Debug)]
#[command(group = ArgGroup::new("bounds").args(["last", "age", "bytes"]).multiple(true).conflicts_with("none"))]
#[group(skip)]
pub(crate) struct Keep {
    /// The kind. A kind that the store has never had is an error.
    #[arg(long, value_name = "NAME")]
    pub(crate) kind: String,
    /// Keeps at most the last N jobs.
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(1..))]
    pub(crate) last: Option<u64>,
    /// Keeps a job for at most TIME: 7d.
    #[arg(long, value_name = "TIME", value_parser = text::delay, allow_hyphen_values = true)]
    pub(crate) age: Option<Duration>,
    /// Keeps jobs with at most SIZE of data together: 16M.
    #[arg(long, value_name = "SIZE", value_parser = text::size)]
    pub(crate) bytes: Option<u64>,
    /// Keeps no further completed job. Jobs that are already kept stay until their age ends.
    #[arg(long, required_unless_present = "bounds")]
    pub(crate) none: bool,
    #[command(flatten)]
    pub(crate) output: ChangeOutput,
}

#[derive(clap::Args, Debug)]
#[group(skip)]
pub(crate) struct Follow {
    /// Stops after this time, with the exit code 2, if the job has not ended.
    #[arg(long, value_name = "TIME", value_parser = text::delay)]
    pub(crate) timeout: Option<Duration>,
    /// Prints the job as one JSON object at each change.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(clap::Args, Debug)]
pub(crate) struct Schedule {
    pub(crate) name: String,
    /// Prints what would be done, and does nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// The queue, one kind of it, one partition, or a schedule.
#[derive(clap::Args, Debug)]
pub(crate) struct Paused {
    #[command(flatten)]
    pub(crate) of: Scope,
    /// Takes only this schedule.
    #[arg(long, value_name = "NAME", conflicts_with = "kind")]
    pub(crate) schedule: Option<String>,
}

#[derive(clap::Args, Debug)]
pub(crate) struct List {
    #[arg(value_enum, default_value_t = What::Pending)]
    pub(crate) what: What,
    #[command(flatten)]
    pub(crate) filter: Filter,
    /// Lists this many at most.
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub(crate) limit: usize,
    #[command(flatten)]
    pub(crate) output: AsLines,
}

/// Which jobs a command takes.
#[derive(clap::Args, Debug)]
pub(crate) struct Filter {
    /// Takes only this kind. A kind that the store has never had is an error.
    #[arg(long, value_name = "NAME")]
    pub(crate) kind: Option<String>,
    /// Leaves out jobs and schedules that are due before this time.
    #[arg(long, value_name = "TIME", value_parser = text::time, allow_hyphen_values = true)]
    pub(crate) from: Option<text::Moment>,
    /// Leaves out jobs and schedules that are due after this time.
    #[arg(long, value_name = "TIME", value_parser = text::time, allow_hyphen_values = true)]
    pub(crate) to: Option<text::Moment>,
    /// Takes only jobs with this key.
    #[arg(long, value_name = "KEY")]
    pub(crate) key: Option<String>,
    /// Takes only jobs whose last error contains this text.
    #[arg(long, value_name = "TEXT")]
    pub(crate) error: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum, Debug)]
pub(crate) enum What {
    Pending,
    Running,
    Dead,
    Ended,
    Schedules,
}

#[derive(clap::Args, Debug)]
#[group(skip)]
pub(crate) struct Reschedule {
    #[command(flatten)]
    pub(crate) jobs: Selection,
    #[command(flatten)]
    pub(crate) to: When,
}

/// Which jobs a command changes.
#[derive(clap::Args, Debug)]
#[group(skip)]
pub(crate) struct Selection {
    #[arg(required_unless_present = "all", conflicts_with = "all", value_name = "ID")]
    pub(crate) ids: Vec<String>,
    /// Takes every job in the state that the command is for, except those that the filters leave out. Each
    /// commit changes at most 256 jobs.
    #[arg(long)]
    pub(crate) all: bool,
    #[command(flatten)]
    pub(crate) filter: Filter,
    /// Lists the jobs that would be changed, and changes none.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Does not ask before more than one job is changed. Without a terminal to ask on, this is required.
    #[arg(long)]
    pub(crate) yes: bool,
    /// With --all: prints the counts as one JSON object.
    #[arg(long, conflicts_with = "dry_run")]
    pub(crate) json: bool,
}

#[derive(clap::Args, Debug)]
#[group(skip)]
pub(crate) struct Insert {
    /// The kind. A kind that the store has never had is an error.
    pub(crate) kind: String,
    /// The data of the job, in JSON as the handler decodes it.
    #[arg(allow_negative_numbers = true)]
    pub(crate) json: String,
    #[command(flatten)]
    pub(crate) when: When,
    /// The key. If it has a pending job already, nothing is inserted.
    #[arg(long, value_name = "KEY")]
    pub(crate) key: Option<String>,
    /// Replaces the pending job of the key.
    #[arg(long, requires = "key")]
    pub(crate) replace: bool,
    /// Starts no run of the job after this time, which is later than its due time: 2h, or 2026-11-22T10:00:00Z.
    #[arg(long, value_name = "TIME", value_parser = text::time)]
    pub(crate) expires: Option<text::Moment>,
    /// Follows the job to its end, as `follow` does. The store keeps the ended job for a minute.
    #[arg(long, conflicts_with = "dry_run")]
    pub(crate) follow: bool,
    /// Prints what would be done, and does nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// When a job is due.
#[derive(clap::Args, Debug)]
#[group(multiple = false)]
pub(crate) struct When {
    /// The delay from now on: 5m, "2h 30m", 3d.
    #[arg(long = "in", value_name = "DELAY", value_parser = text::delay, allow_hyphen_values = true)]
    pub(crate) delay: Option<Duration>,
    /// The due time. A time that has passed makes the job due now.
    #[arg(long, value_name = "TIME", value_parser = text::time, allow_hyphen_values = true)]
    pub(crate) at: Option<text::Moment>,
}

impl Filter {
    /// Says whether the filter leaves anything out.
    pub(crate) fn is_set(&self) -> bool {
        let Filter { kind, from, to, key, error } = self;
        let times = from.is_some() || to.is_some();
        times || kind.is_some() || key.is_some() || error.is_some()
    }
}

impl Command {
    /// Says whether the command changes nothing.
    pub(crate) fn only_looks(&self) -> bool {
        match self {
            Command::Cancel(jobs) | Command::Retry(jobs) | Command::Delete(jobs) => jobs.dry_run,
            Command::Reschedule(to) => to.jobs.dry_run,
            Command::Insert(insert) => insert.dry_run,
            Command::RunSchedule(schedule) | Command::RemoveSchedule(schedule) => schedule.dry_run,
            Command::Limit(limit) => limit.output.dry_run,
            Command::Hold(Hold { of, .. }) | Command::Release(of) => of.output.dry_run,
            Command::HeadStart(head_start) => head_start.output.dry_run,
            Command::Keep(keep) => keep.output.dry_run,
            Command::List(_) | Command::Show { .. } | Command::Stats { .. } => true,
            Command::Check | Command::Top { .. } | Command::Follow { .. } => true,
            Command::Errors { .. } | Command::Nodes(_) | Command::Metrics { .. } => true,
            Command::Queues(_) | Command::History(_) => true,
            Command::Groups(_) | Command::Limits(_) => true,
            #[cfg(feature = "serve")]
            Command::Serve(serve) => serve.read_only,
            Command::Pause(_) | Command::Resume(_) => false,
            Command::SealGroup { .. } | Command::CancelGroup { .. } => false,
        }
    }

    /// Says whether the command may make many commits.
    pub(crate) fn changes_many(&self) -> bool {
        match self {
            Command::Cancel(jobs) | Command::Retry(jobs) | Command::Delete(jobs) => jobs.all,
            Command::Reschedule(to) => to.jobs.all,
            _ => false,
        }
    }
}
