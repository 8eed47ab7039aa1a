//! The log of alarms: one line for each, appended with one write. What a node has noticed is known
//! from it, whatever the store says.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;
use std::time::SystemTime;

use tickwheel_jobs::Run;

use crate::shared::queue::micros;
use crate::{Result, Silent};

/// A start of a job. The times are microseconds since 1970.
pub(crate) struct Alarm {
    pub(crate) device: u64,
    /// The report after which the device was silent.
    pub(crate) report: u64,
    pub(crate) start: u64,
    /// By the server's clock.
    pub(crate) due: u64,
    pub(crate) node: usize,
}

/// A log that this process appends to.
pub(crate) struct Alarms {
    file: File,
    node: usize,
}

impl Alarms {
    pub(crate) fn open(path: &Path, node: usize) -> io::Result<Alarms> {
        let file = File::options().append(true).create(true).open(path)?;
        Ok(Alarms { file, node })
    }

    /// Records that a device was found silent.
    pub(crate) fn append(&self, silent: &Silent, run: &Run) -> io::Result<()> {
        let (start, due) = (micros(SystemTime::now()), micros(run.due()));
        let Silent { device, report } = silent;
        let line = format!("{device} {report} {start} {due} {}\n", self.node);
        (&self.file).write_all(line.as_bytes())
    }
}

/// Reads a whole log.
pub(crate) fn read(path: &Path) -> Result<Vec<Alarm>> {
    let text = match fs::read_to_string(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        read => read?,
    };
    let alarm = |line: &str| {
        let words: Vec<u64> =
            line.split(' ').map(str::parse).collect::<std::result::Result<_, _>>()?;
        let &[device, report, start, due, node] = &words[..] else {
            return Err(format!("a line of the log is cut off: {line:?}").into());
        };
        Ok(Alarm { device, report, start, due, node: usize::try_from(node)? })
    };
    text.lines().map(alarm).collect()
}
