//! The command line.

use std::path::PathBuf;
use std::time::SystemTime;

use clap::{Parser, Subcommand, ValueEnum};
use tickwheel_jobs::JobId;

use crate::open::Target;
use crate::text;

/// Looks at the durable jobs of a file or a Redis server and changes them, while the application runs.
///
/// The application notices a change within a second. A job of a file that is due within 50 ms counts
/// as running, because the application has claimed it.
#[derive(Parser, Debug)]
#[command(version, after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// The file of the jobs, or redis://[user@]host[:port][/database]. It must exist. Other URLs:
    /// redis-cluster://[user@]host[:port][,host[:port]..],
    /// redis-sentinel://[user@]host[:port][,..][/database]?master=NAME, and unix:///path[?db=NUMBER].
    /// A file whose name looks like a URL is written with its folder: ./unix:1.
    pub(crate) store: Target,
    /// The file with the server's password: its first and only line. See below.
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) store_password_file: Option<PathBuf>,
    /// The queue, if it is not the default one.
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) queue: Option<String>,
    #[command(subcommand)]
    pub(crate) command: Command,
}

const AFTER_HELP: &str = "\
Times: 2026-11-22T10:00:00Z, 2026-11-22T11:00:00+01:00, 2026-11-22 (midnight UTC), or from now on: \
30s, \"2h 30m\", 3d, -1h. Jobs on a server go by its clock.

The password of a server is taken from --store-password-file, or from the environment variable
TICKWHEEL_STORE_PASSWORD, which a password in the URL goes before. A URL may have the password
itself (redis://[user]:password@host), but other users of this machine can read the arguments of a
command, in the list of processes. The command prints no password.

Exit codes: 0 done; 1 not found, nothing changed, or too late to cancel; 2 error.";

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Lists jobs: pending and running ones in the order of deadline, dead ones in the order of id.
    List(List),
    /// Shows everything about a job.
    Show {
        id: JobId,
        /// Prints one JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Cancels jobs. One that runs already is asked to stop; the exit code is 1 then.
    Cancel {
        #[arg(required = true, value_name = "ID")]
        ids: Vec<JobId>,
    },
    /// Gives a pending job another time.
    Move(Move),
    /// Makes dead jobs pending, due now, with all their tries before them.
    Revive(Dead),
    /// Deletes dead jobs.
    Discard(Dead),
    /// Prints counts, kinds, kinds that wait for a handler, sizes, and when the next job is due.
    Stats {
        /// Prints one JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Walks the whole store, and compares what should agree.
    Check,
    /// Prints the counts once a second, until it is interrupted.
    Watch {
        /// Ends after this many lines.
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
        times: Option<u64>,
        /// Prints one JSON object a line.
        #[arg(long)]
        json: bool,
    },
}

#[derive(clap::Args, Debug)]
pub(crate) struct List {
    #[arg(value_enum, default_value_t = What::Pending)]
    pub(crate) what: What,
    /// Leaves out other kinds.
    #[arg(long, value_name = "NAME")]
    pub(crate) kind: Option<String>,
    /// Leaves out what is due before this time.
    #[arg(long, value_name = "TIME", value_parser = text::time, allow_hyphen_values = true)]
    pub(crate) from: Option<SystemTime>,
    /// Leaves out what is due after this time.
    #[arg(long, value_name = "TIME", value_parser = text::time, allow_hyphen_values = true)]
    pub(crate) to: Option<SystemTime>,
    /// Lists this many at most.
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub(crate) limit: usize,
    /// Prints one JSON object a line.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum, Debug)]
pub(crate) enum What {
    Pending,
    Running,
    Dead,
    Schedules,
}

#[derive(clap::Args, Debug)]
#[group(skip)]
pub(crate) struct Move {
    pub(crate) id: JobId,
    #[command(flatten)]
    pub(crate) to: To,
}

#[derive(clap::Args, Debug)]
#[group(required = true, multiple = false)]
pub(crate) struct To {
    /// The delay from now on: 5m, "2h 30m", 3d.
    #[arg(long = "in", value_name = "DELAY", value_parser = text::delay, allow_hyphen_values = true)]
    pub(crate) delay: Option<std::time::Duration>,
    /// The time. One that has passed makes the job due now.
    #[arg(long, value_name = "TIME", value_parser = text::time, allow_hyphen_values = true)]
    pub(crate) at: Option<SystemTime>,
}

#[derive(clap::Args, Debug)]
pub(crate) struct Dead {
    #[arg(required_unless_present = "all", conflicts_with = "all", value_name = "ID")]
    pub(crate) ids: Vec<JobId>,
    /// Takes every dead job.
    #[arg(long)]
    pub(crate) all: bool,
    /// With --all: leaves out other kinds.
    #[arg(long, requires = "all", conflicts_with = "ids", value_name = "NAME")]
    pub(crate) kind: Option<String>,
}
