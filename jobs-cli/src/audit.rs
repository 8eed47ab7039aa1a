//! The file that gets a line of JSON for each command that may change something.
//!
//! Ground rules:
//!
//! - The file is opened before the change: if it cannot be, nothing is changed. The line is written after the change,
//!   so a command that is interrupted has none.
//! - A line is one write at the end of the file, so commands that end at once do not mix their lines.
//! - A file that is made here is readable for its user only. One that is there keeps its rights.
//! - No password is in a line: of a URL only the scheme is.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;
use tickwheel_jobs::view::Time;

use crate::Answer;
use crate::open::ServerUrl;
use crate::text::{json, now};

/// The environment variable with the path of the file.
const VARIABLE: &str = "TICKWHEEL_AUDIT_FILE";

/// An open file, and what is the same in all lines of a command.
pub(crate) struct Audit {
    file: File,
    path: PathBuf,
    /// The arguments.
    pub(crate) command: String,
}

#[derive(Serialize)]
struct Line<'a> {
    time: Time,
    user: String,
    /// The user who called `sudo`, if one did.
    #[serde(skip_serializing_if = "Option::is_none")]
    sudo_user: Option<String>,
    host: String,
    store: &'a str,
    queue: Option<&'a str>,
    command: &'a str,
    changed: &'a str,
    problem: Option<&'a str>,
}

impl Audit {
    /// Opens the file of the command line or of the environment, if either names one.
    pub(crate) fn open(path: Option<&Path>, args: &[OsString]) -> Answer<Option<Audit>> {
        let variable = std::env::var_os(VARIABLE).filter(|path| !path.is_empty());
        let Some(path) = path.map(Path::to_owned).or(variable.map(PathBuf::from)) else {
            return Ok(None);
        };
        let mut options = File::options();
        options.create(true).append(true);
        // The payloads of inserts are in it.
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options.open(&path);
        let file = file.map_err(|error| format!("--audit-file {}: {error}", path.display()))?;
        let words: Vec<String> = args.iter().skip(1).map(word).collect();
        Ok(Some(Audit { file, path, command: words.join(" ") }))
    }

    /// Appends a line. `changed` is what the command has printed, `problem` why it did not do all.
    pub(crate) fn write(
        &self,
        (store, queue): (&str, Option<&str>),
        command: &str,
        changed: &str,
        problem: Option<&str>,
    ) -> Answer<()> {
        let host = gethostname::gethostname().to_string_lossy().into_owned();
        let sudo_user = std::env::var("SUDO_USER").ok();
        let time = Time::from(now());
        // A file is named by its whole path.
        let path = std::fs::canonicalize(store).map(|path| path.display().to_string());
        let store = path.as_deref().unwrap_or(store);
        let changed = changed.trim_end();
        let line =
            Line { time, user: user(), sudo_user, host, store, queue, command, changed, problem };
        let line = json(&line)? + "\n";
        let written = (&self.file).write_all(line.as_bytes());
        written.map_err(|error| {
            format!("the command is done, but {}: {error}", self.path.display()).into()
        })
    }
}

/// Returns an argument as it is written to the file.
fn word(arg: &OsString) -> String {
    let arg = arg.to_string_lossy();
    match ServerUrl::parse(&arg) {
        Some(url) => url.printable(),
        None if arg.is_empty() || arg.contains(char::is_whitespace) => format!("{arg:?}"),
        None => arg.into_owned(),
    }
}

/// Returns the name of the user of this process.
fn user() -> String {
    #[cfg(unix)]
    {
        let id = nix::unistd::Uid::current();
        let user = nix::unistd::User::from_uid(id).ok().flatten();
        user.map_or_else(|| id.to_string(), |user| user.name)
    }
    #[cfg(not(unix))]
    {
        std::env::var("USERNAME").unwrap_or_default()
    }
}

/// An output that keeps the first of what is written to it.
pub(crate) struct Kept<'a, W> {
    pub(crate) out: &'a mut W,
    pub(crate) kept: Vec<u8>,
    /// The command goes on if nobody reads its output any more.
    pub(crate) goes_on: bool,
}

/// How many bytes are kept.
const MOST_KEPT: usize = 64 << 10;

impl<W: Write> Write for Kept<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = match self.out.write(bytes) {
            Err(error) if self.goes_on && error.kind() == io::ErrorKind::BrokenPipe => bytes.len(),
            written => written?,
        };
        let room = MOST_KEPT.saturating_sub(self.kept.len());
        self.kept.extend(bytes[..written].iter().take(room));
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
