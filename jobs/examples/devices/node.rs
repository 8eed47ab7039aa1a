//! A node of the gateway: takes reports from devices, and notices which of them are silent.
//!
//! A report is a line on standard input, `device report`. The number of the report comes back on
//! standard output once the report is stored.

use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::Sender;
use std::time::{Duration, SystemTime};
use std::{env, thread};

use crate::alarms::Alarms;
use crate::shared::queue::{Queue, micros};
use crate::{Result, Silent};

/// The first argument of a node. The log, the node's number, the silence and the queue follow.
pub(crate) const FLAG: &str = "--node";

/// Serves devices until standard input ends.
pub(crate) fn main(args: &[String]) -> Result<()> {
    let [log, number, silence_ms, url, name, lease_ms] = args else {
        return Err("a node has a log and a queue".into());
    };
    let alarms = Alarms::open(Path::new(log), number.parse()?)?;
    let silence = Duration::from_millis(silence_ms.parse()?);
    let jobs = Queue::from_args(url, name, lease_ms)?
        .builder()?
        .handle(move |silent: Silent, run| Ok(alarms.append(&silent, run)?))
        .start()?;
    let mut out = io::stdout().lock();
    for line in io::stdin().lock().lines() {
        let line = line?;
        let (device, report) = line.split_once(' ').ok_or("a report has two numbers")?;
        let silent = Silent { device: device.parse()?, report: report.parse()? };
        // The job of the report before is replaced, unless it runs: then the device was silent.
        jobs.keyed(&format!("device-{device}")).insert(silence, silent)?;
        writeln!(out, "{report}")?;
        out.flush()?;
    }
    jobs.shutdown()?;
    Ok(())
}

/// A node, as the devices see it.
pub(crate) struct Node {
    number: usize,
    child: Child,
    reports: Option<ChildStdin>,
    /// When it was killed, in microseconds since 1970.
    pub(crate) killed: Option<u64>,
}

/// A report was stored: its number, and when that was known, in microseconds since 1970.
pub(crate) type Stored = (u64, u64);

impl Node {
    pub(crate) fn start(
        number: usize,
        queue: &Queue,
        log: &Path,
        silence: Duration,
        stored: Sender<Stored>,
    ) -> Result<Node> {
        let mut command = Command::new(env::current_exe()?);
        command.arg(FLAG).arg(log).arg(number.to_string());
        command.arg(silence.as_millis().to_string()).args(queue.to_args());
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let reports = child.stdin.take();
        let answers = child.stdout.take().ok_or("a node without an output")?;
        thread::spawn(move || {
            for line in BufReader::new(answers).lines().map_while(io::Result::ok) {
                let Ok(report) = line.parse() else { return };
                if stored.send((report, micros(SystemTime::now()))).is_err() {
                    return;
                }
            }
        });
        Ok(Node { number, child, reports, killed: None })
    }

    pub(crate) fn is_alive(&self) -> bool {
        self.reports.is_some()
    }

    /// Hands a report to the node.
    pub(crate) fn report(&mut self, device: u64, report: u64) -> Result<()> {
        let reports = self.reports.as_mut().ok_or("the node was killed")?;
        let sent = writeln!(reports, "{device} {report}").and_then(|()| reports.flush());
        sent.map_err(|error| format!("node {} ended by itself: {error}", self.number).into())
    }

    /// Ends the node with SIGKILL.
    pub(crate) fn kill(&mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        self.killed = Some(micros(SystemTime::now()));
        self.reports = None;
        Ok(())
    }

    /// Asks the node to shut down, and waits for it.
    pub(crate) fn end(&mut self) -> Result<()> {
        if self.reports.take().is_some() {
            let status = self.child.wait()?;
            if !status.success() {
                return Err(format!("node {} ended: {status}", self.number).into());
            }
        }
        Ok(())
    }
}

impl Drop for Node {
    /// Does not leave a node behind when the example fails.
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
