//! The command `tickwheel-jobs`: lists and changes the jobs of a file or of a Redis server, while the
//! application runs.
//!
//! Ground rules:
//!
//! - A file, a queue or a kind that does not exist is an error. The command makes none of them.
//! - Results go to the standard output, everything else to the standard error.
//! - In text from a store (a job, a schedule, the name of a queue, an error), the characters that steer a
//!   terminal are escaped, also in JSON.
//! - No password is printed. An error of the command line parser may quote any argument, so before it is
//!   printed, every URL is replaced by its printable part.

#![forbid(unsafe_code)]

mod text;
#[cfg_attr(not(feature = "redis"), allow(dead_code, reason = "no server is connected to"))]
mod open;
#[cfg(feature = "redis")]
mod open_server;
mod made;
mod args;
mod find;
mod audit;
mod settings;
mod inspect;
mod queue;
mod edit;
mod follow;
mod top;
#[cfg(feature = "serve")]
mod serve;

use std::error::Error;
use std::ffi::OsString;
use std::io::{self, BufWriter, Write};
use std::process::ExitCode;

use clap::{CommandFactory, Parser};
use tickwheel_jobs::{Client, Durability, JobId};

use args::{Args, Command};
use audit::{Audit, Kept};
use edit::Change;
use made::Made;
use open::{Access, Place, ServerUrl};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
enum Outcome {
    Done,
    /// A job was not found, is in a state in which it cannot be changed, or runs already.
    Missed,
}

/// The result of a command, or of a step of it. The error is printed.
type Answer<T = Outcome> = Result<T, Box<dyn Error>>;

const MISSED: u8 = 1;
const FAILED: u8 = 2;

fn main() -> ExitCode {
    let args: Vec<OsString> = std::env::args_os().collect();
    // Neither needs a store.
    if let Some(made) = Made::only(&args) {
        let made = made.make(Args::command(), &mut io::stdout());
        return exit(made.map(|()| Outcome::Done).map_err(Into::into), false);
    }
    let arguments = store_first(args);
    let parsed = match parse(arguments.clone()) {
        // The arguments are parsed again, now that times without a zone belong to the local one.
        Ok(parsed) if parsed.local => match text::set_local() {
            Ok(()) => parse(arguments.clone()),
            Err(error) => return exit(Err(format!("--local: {error}").into()), false),
        },
        other => other,
    };
    let args = parsed.unwrap_or_else(|error| error.exit());
    // Not locked: a panic of a thread of `top` gives back the terminal, which is the standard output.
    let mut out = BufWriter::new(io::stdout());
    let follows = match &args.command {
        Command::Follow { .. } => true,
        Command::Insert(insert) => insert.follow,
        _ => false,
    };
    let ended = run(args, &arguments, &mut out).and_then(|outcome| match out.flush() {
        Err(error) if !is_broken_pipe(&error) => Err(error.into()),
        _ => Ok(outcome),
    });
    if ended.is_err() {
        let _ = out.flush();
    }
    exit(ended, follows)
}

fn exit(ended: Answer, follows: bool) -> ExitCode {
    match ended {
        Ok(Outcome::Done) => ExitCode::SUCCESS,
        Ok(Outcome::Missed) => ExitCode::from(MISSED),
        // The program that reads the output has closed it, as `head` does. For a followed job this is an error: the
        // command does not know how the job ends.
        Err(error) if is_broken_pipe(&*error) => match follows {
            true => ExitCode::from(FAILED),
            false => ExitCode::SUCCESS,
        },
        Err(error) => {
            // The error may quote text from a file that another user has made.
            eprintln!("tickwheel-jobs: {}", text::plain(&error.to_string()));
            ExitCode::from(FAILED)
        }
    }
}

/// Puts the store before the command where it stands behind it: `tickwheel-jobs top shop.db`.
fn store_first(mut args: Vec<OsString>) -> Vec<OsString> {
    let commands = Args::command();
    let is_command =
        |arg: &OsString| commands.get_subcommands().any(|command| arg == command.get_name());
    if let [_, command, store, ..] = &*args
        && is_command(command)
        && !is_command(store)
        && !store.to_string_lossy().starts_with('-')
    {
        args.swap(1, 2);
    }
    args
}

/// Parses the command line. An error never quotes a URL, wherever it stands on the command line. Without a command that
/// is valid, any argument but an option may be the store.
fn parse(args: Vec<OsString>) -> Result<Args, clap::Error> {
    Args::try_parse_from(&args).map_err(|error| {
        let url = |text: &str| match text.starts_with('-') {
            true => ServerUrl::parse(text),
            false => ServerUrl::of_store(text),
        };
        let printable = |arg: OsString| match url(&arg.to_string_lossy()) {
            Some(url) => url.printable().into(),
            None => arg,
        };
        match Args::try_parse_from(args.into_iter().map(printable)) {
            Err(error) => error,
            Ok(_) => clap::Error::new(error.kind()),
        }
    })
}

fn run(args: Args, arguments: &[OsString], out: &mut impl Write) -> Answer {
    #[cfg(feature = "serve")]
    if args.local && matches!(args.command, Command::Serve(_)) {
        return Err("--local: the pages of `serve` have their times in UTC".into());
    }
    let Args { store, store_password_file, queue, command, audit_file, local: _, made: _ } = args;
    let access = match (command.only_looks(), command.changes_many()) {
        (true, _) => Access::Look,
        // The command waits for the disk once, at the end of its commits.
        (false, true) => Access::Change(Durability::Written),
        (false, false) => Access::Change(Durability::Synced),
    };
    let password_file = store_password_file.as_deref();
    // Queues are named without regard to case.
    let queue = queue.map(|queue| queue.to_ascii_lowercase());
    if let Command::Queues(output) = command {
        if queue.is_some() {
            return Err("--queue: `queues` lists every queue".into());
        }
        return queue::queues(&open::queues(&store, password_file)?, output.json, out);
    }
    let audit = match access {
        Access::Look => None,
        Access::Change(_) => Audit::open(audit_file.as_deref(), arguments, &store)?,
    };
    #[cfg(feature = "serve")]
    if let Command::Serve(serve) = &command {
        return serve::serve(&store, password_file, queue.as_deref(), serve, audit, out);
    }
    let opened = open::client(&store, password_file, queue.as_deref(), access);
    if let Command::Top { once: false, json: false } = command {
        let (client, place) = opened?;
        let (of, arguments) = ((place.name.clone(), queue.clone()), arguments.to_vec());
        // The view opens the store for writing, and the audit file, only for a change.
        let writer = move || -> Answer<_> {
            let audit = Audit::open(audit_file.as_deref(), &arguments, &store)?;
            let (password_file, queue) = (store_password_file.as_deref(), queue.as_deref());
            let access = Access::Change(Durability::Synced);
            let opened = open::client(&store, password_file, queue, access);
            Ok((opened.map(|(client, _)| client), audit, of.clone()))
        };
        return top::live(client, &place, writer);
    }
    // A change of many jobs goes on to its end if the reader of the output has gone.
    let ignores_closed_reader = matches!(access, Access::Change(_));
    let mut out = Kept { out, kept: Vec::new(), ignores_closed_reader };
    let (mut follows, mut name) = (None, store.printable());
    let ended = match &opened {
        Ok((client, place)) => {
            name.clone_from(&place.name);
            call(command, client, place, &mut follows, &mut out)
        }
        Err(error) => Err(error.to_string().into()),
    };
    if let Some(audit) = audit {
        let problem = match &ended {
            Ok(Outcome::Done) => None,
            Ok(Outcome::Missed) => Some("not all of it was done: the exit code is 1".to_owned()),
            Err(error) => Some(error.to_string()),
        };
        let changed = String::from_utf8_lossy(&out.kept);
        let of = (&*name, queue.as_deref());
        let written = audit.write(of, &audit.command, &changed, problem.as_deref());
        match (&ended, written) {
            (Ok(_), written) => written?,
            (Err(_), Err(unwritten)) => eprintln!("tickwheel-jobs: {unwritten}"),
            (Err(_), Ok(())) => {}
        }
    }
    match (ended, follows, opened) {
        (Ok(Outcome::Done), Some(id), Ok((client, _))) => {
            out.ignores_closed_reader = false;
            out.flush()?;
            follow::follow(&client, id, &args::Follow { timeout: None, json: false }, &mut out)
        }
        (ended, ..) => ended,
    }
}

/// Runs the command. Sets `follows` to the job that `run` follows afterwards.
fn call(
    command: Command,
    client: &Client,
    place: &Place,
    follows: &mut Option<JobId>,
    out: &mut impl Write,
) -> Answer {
    match command {
        Command::List(list) => inspect::list(client, &list, out),
        Command::Show { job, json } => inspect::show(client, &job, json, out),
        Command::Follow { job, how } => match find::job(client, &job)? {
            Some(job) => follow::follow(client, job.id, &how, out),
            None => Ok(Outcome::Missed),
        },
        Command::Stats { json } => inspect::stats(client, place, json, out),
        Command::Errors { limit, output } => queue::errors(client, limit, output.json, out),
        Command::History(args) => queue::history(client, &args, out),
        // `run` has done it: it needs no queue, or several.
        Command::Queues(_) => Ok(Outcome::Done),
        #[cfg(feature = "serve")]
        Command::Serve(_) => Ok(Outcome::Done),
        Command::Metrics { openmetrics } => queue::metrics(client, openmetrics, out),
        Command::Nodes(output) => queue::nodes(client, output.json, out),
        Command::Groups(output) => queue::groups(client, output.json, out),
        Command::SealGroup { id } => queue::seal_group(client, id, out),
        Command::CancelGroup { id } => queue::cancel_group(client, id, out),
        Command::Limits(output) => queue::limits(client, output.json, out),
        Command::Check => inspect::check(client, out),
        Command::Top { json, .. } => top::once(client.clone(), place, json, out),
        Command::Limit(limit) => settings::limit(client, &limit, out),
        Command::Hold(hold) => settings::hold(client, &hold, out),
        Command::Release(of) => settings::release(client, of, out),
        Command::Pause(of) => settings::pause(client, &of, true, out),
        Command::Resume(of) => settings::pause(client, &of, false, out),
        Command::HeadStart(args) => settings::head_start(client, &args, out),
        Command::Keep(args) => settings::keep(client, &args, out),
        Command::Cancel(jobs) => edit::change(client, &jobs, &Change::Cancel, out),
        Command::Reschedule(to) => edit::reschedule(client, &to, out),
        Command::Retry(jobs) => edit::change(client, &jobs, &Change::Retry, out),
        Command::Delete(jobs) => edit::change(client, &jobs, &Change::Delete, out),
        Command::Insert(job) => edit::insert(client, &job, follows, out),
        Command::RunSchedule(args) => edit::run_schedule(client, &args, out),
        Command::RemoveSchedule(args) => edit::remove_schedule(client, &args, out),
    }
}

fn is_broken_pipe(error: &(dyn Error + 'static)) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}
