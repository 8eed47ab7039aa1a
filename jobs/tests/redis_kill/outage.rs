//! What becomes of the server: it is killed and starts again, before or after it has written what
//! it answered; or a replica takes over, which lacks some of it; or the user of a node lacks a right
//! for a moment (`rights.rs`).

use std::time::Duration;

use crate::deaths::child::now_us;
use crate::deaths::lives::Result;
use crate::deaths::record::Record;
use crate::parent::Story;
use crate::server::pause;
use crate::slow_disk::SlowDisk;

/// How the server goes away and comes back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Outage {
    Restart,
    /// While the disk is so slow that it has answered what it has not written.
    BeforeTheWrite,
    FailOver,
    Rights,
}

/// How long the replica is sent nothing.
const LINK_STANDS: Duration = Duration::from_secs(1);
/// What else it may lack: the link is asynchronous.
const LINK_TAKES_US: u64 = 500_000;

impl Story {
    /// Makes the server go away, and come back after some time.
    pub(crate) fn go_away(&mut self, away: Duration) -> Result<()> {
        match self.outage {
            Outage::Rights => return self.deny(away),
            Outage::Restart => self.kill_server(),
            Outage::BeforeTheWrite => {
                let disk = SlowDisk::of(&self.server);
                let is_unwritten =
                    disk.as_ref().is_some_and(|disk| disk.wait_for_unwritten(40_000));
                self.unwritten += usize::from(is_unwritten);
                if let Some(disk) = disk {
                    disk.kill(&mut self.server);
                }
                self.kill_server();
            }
            Outage::FailOver => {
                let replica = self.replica.take().ok_or("no replica")?;
                replica.stop_link();
                let since = now_us();
                pause(LINK_STANDS);
                self.kill_server();
                self.lack = self.lack.max(now_us() - since + LINK_TAKES_US);
                self.server = replica.promote();
                self.front.retarget(self.server.port);
                self.lives.note(0, Record::Server { is_up: true });
                return Ok(());
            }
        }
        pause(away);
        self.server.run();
        self.lives.note(0, Record::Server { is_up: true });
        Ok(())
    }

    fn kill_server(&mut self) {
        self.server.kill();
        self.lives.note(0, Record::Server { is_up: false });
    }
}
