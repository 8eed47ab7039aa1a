//! A disk that is slow: a server whose syncs do not end answers what it has not written.
//!
//! A kill loses nothing that was written, because the system has it. With `appendfsync everysec` a
//! server waits with its writes while a sync is under way, for two seconds at most, and answers. So
//! what stands still here is the thread that syncs, and no other.

use crate::server::{Server, pause};

/// The syncs of a server stand still until it is killed.
pub(crate) struct SlowDisk {
    port: u16,
    #[cfg(target_os = "linux")]
    thread: nix::unistd::Pid,
}

impl SlowDisk {
    /// Stops the thread of the server that syncs. None, and a sentence, where that is not allowed.
    #[cfg(target_os = "linux")]
    pub(crate) fn of(server: &Server) -> Option<SlowDisk> {
        use nix::sys::ptrace;
        let stopped = thread_that_syncs(server.pid()).and_then(|thread| {
            ptrace::seize(thread, ptrace::Options::empty()).ok()?;
            ptrace::interrupt(thread).ok()?;
            Some(SlowDisk { port: server.port, thread })
        });
        if stopped.is_none() {
            eprintln!("the syncs of redis-server are not slowed: ptrace is not allowed here");
        }
        stopped
    }

    #[cfg(not(target_os = "linux"))]
    pub(crate) fn of(_server: &Server) -> Option<SlowDisk> {
        eprintln!("the syncs of redis-server are not slowed: that needs Linux");
        None
    }

    /// Waits until the server has answered commands of that number of bytes and not written them.
    /// Returns whether this came true within some seconds.
    pub(crate) fn wait_for_unwritten(&self, bytes: u64) -> bool {
        let url = format!("redis://127.0.0.1:{}/", self.port);
        let Ok(mut server) = redis::Client::open(url).and_then(|it| it.get_connection()) else {
            return false;
        };
        for _ in 0..1000 {
            let info: redis::RedisResult<String> =
                redis::cmd("INFO").arg("persistence").query(&mut server);
            let unwritten = info.ok().and_then(|info| {
                let line = info.lines().find_map(|line| line.strip_prefix("aof_buffer_length:"))?;
                line.trim().parse::<u64>().ok()
            });
            if unwritten.is_some_and(|unwritten| unwritten >= bytes) {
                return true;
            }
            pause(std::time::Duration::from_millis(5));
        }
        false
    }
}

#[cfg(target_os = "linux")]
impl SlowDisk {
    /// Kills the server. The tracer of a thread must wait for the thread's end.
    pub(crate) fn kill(self, server: &mut Server) {
        use nix::sys::signal::{Signal, kill};
        use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
        let process = nix::unistd::Pid::from_raw(server.pid());
        let _ = kill(process, Signal::SIGKILL);
        while let Ok(status) = waitpid(self.thread, Some(WaitPidFlag::__WALL)) {
            if matches!(status, WaitStatus::Exited(..) | WaitStatus::Signaled(..)) {
                break;
            }
        }
        server.kill();
    }
}

#[cfg(not(target_os = "linux"))]
impl SlowDisk {
    pub(crate) fn kill(self, server: &mut Server) {
        server.kill();
    }
}

#[cfg(target_os = "linux")]
fn thread_that_syncs(process: i32) -> Option<nix::unistd::Pid> {
    let threads = std::fs::read_dir(format!("/proc/{process}/task")).ok()?;
    for thread in threads.flatten() {
        let name = std::fs::read_to_string(thread.path().join("comm")).ok()?;
        if name.starts_with("bio_aof") {
            let number = thread.file_name().to_str()?.parse().ok()?;
            return Some(nix::unistd::Pid::from_raw(number));
        }
    }
    None
}
