//! The audit file. Each command that may change the store appends a line of JSON to it.
//!
//! Ground rules:
//!
//! - The command opens the file before the change, and changes nothing if the file cannot be opened. It writes the line
//!   after the change, so an interrupted command has no line.
//! - A line is one write at the end of the file, so commands that end at the same time do not mix their lines.
//! - Only the user of the command may read a file that the command creates. An existing file keeps its rights.
//! - A line has no password: of a URL it has only the scheme.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;
use tickwheel_jobs::view::Time;

use crate::Answer;
use crate::open::Target;
use crate::text::{json, now};

const VARIABLE: &str = "TICKWHEEL_AUDIT_FILE";

/// The open audit file, and the command that its lines name.
pub(crate) struct Audit {
    file: File,
    path: PathBuf,
    /// The arguments of the command, without passwords.
    pub(crate) command: String,
}

#[derive(Serialize)]
struct Line<'a> {
    time: Time,
    user: String,
    /// The user who called `sudo`, if the command runs under `sudo`.
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
    /// Opens the file that `--audit-file` or the environment variable names. Returns `None` if neither names a file.
    /// `args`: the command line, which names the store.
    pub(crate) fn open(
        path: Option<&Path>,
        args: &[OsString],
        store: &Target,
    ) -> Answer<Option<Audit>> {
        let variable = std::env::var_os(VARIABLE).filter(|path| !path.is_empty());
        let Some(path) = path.map(Path::to_owned).or(variable.map(PathBuf::from)) else {
            return Ok(None);
        };
        let mut options = File::options();
        options.create(true).append(true);
        // The file has the payloads of inserted jobs.
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options.open(&path);
        let file = file.map_err(|error| format!("--audit-file {}: {error}", path.display()))?;
        let arguments = args.iter().skip(1).map(|arg| argument(arg, store));
        let arguments: Vec<String> = arguments.collect();
        Ok(Some(Audit { file, path, command: arguments.join(" ") }))
    }

    /// Appends a line. `changed` is the output of the command. `problem` is the reason why it did not do everything.
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
        // The line has the absolute path of a store that is a file.
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

/// Returns an argument for the audit file: of a URL only the scheme, and a text with spaces in quotation marks.
fn argument(arg: &OsString, store: &Target) -> String {
    let arg = arg.to_string_lossy();
    match store.url_of(&arg) {
        Some(url) => url.printable(),
        None if arg.is_empty() || arg.contains(char::is_whitespace) => format!("{arg:?}"),
        None => arg.into_owned(),
    }
}

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

/// An output that passes all bytes on, and keeps a copy of the first `MOST_KEPT` bytes.
pub(crate) struct Kept<'a, W> {
    pub(crate) out: &'a mut W,
    pub(crate) kept: Vec<u8>,
    /// A write succeeds although the reader has closed the output, so the command goes on.
    pub(crate) ignores_closed_reader: bool,
}

const MOST_KEPT: usize = 64 << 10;

impl<W: Write> Write for Kept<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = match self.out.write(bytes) {
            Err(error)
                if self.ignores_closed_reader && error.kind() == io::ErrorKind::BrokenPipe =>
            {
                bytes.len()
            }
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
