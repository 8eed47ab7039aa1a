//! A child process: this program with one of its tests, which finds the place of its work in a variable.

use std::ffi::OsStr;
use std::io::{self, BufRead, BufReader};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::{self, JoinHandle};

/// A process, and the thread that reads what it writes. It is killed when it is dropped.
pub(crate) struct Process {
    pub(crate) child: Child,
    reader: Option<JoinHandle<()>>,
}

impl Process {
    /// Starts a test, and calls a function with each line that it writes. The harness of the tests writes lines too.
    pub(crate) fn start(
        test: &str,
        variable: &str,
        value: impl AsRef<OsStr>,
        mut each: impl FnMut(&str) + Send + 'static,
    ) -> io::Result<Process> {
        let mut child = Command::new(std::env::current_exe()?)
            .args([test, "--exact", "--nocapture", "--test-threads=1"])
            .env(variable, value)
            .env("RUST_BACKTRACE", "0")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let lines = child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
        let reader = thread::spawn(move || {
            BufReader::new(lines).lines().map_while(Result::ok).for_each(|line| each(&line));
        });
        Ok(Process { child, reader: Some(reader) })
    }

    /// Waits for the end of the process, and of what it wrote.
    pub(crate) fn wait(&mut self) -> io::Result<ExitStatus> {
        let status = self.child.wait();
        if let Some(reader) = self.reader.take() {
            reader.join().map_err(|_| io::Error::other("the reader panicked"))?;
        }
        status
    }

    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}
