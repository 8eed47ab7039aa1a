//! Users of the nodes, who lack a right for a moment, and what that leaves behind.
//!
//! Without the channel, or without `EVALSHA`, nothing is half done. Without `ZADD` a script may end in its midst: then
//! a job may be in no set until `reset` files it anew, and the numbers of jobs of a kind may stay wrong.

use std::time::Duration;

use crate::deaths::lives::Result;
use crate::deaths::record::{Answer, Record, Verb};
use crate::outage::Outage;
use crate::parent::{NODES, Story};
use crate::queue;
use crate::server::{pause, user_of_the_manual};

/// What is taken, how it is given back, and whether a script may end in its midst without it.
const RIGHTS: [(&str, &str, bool); 4] = [
    ("resetchannels", "&tw:{jobs}:wake", false),
    ("-publish", "+publish", false),
    ("-evalsha", "+evalsha", false),
    ("-zadd", "+zadd", true),
];
/// The first number of a call of the parent's: those of children are lower.
const FIRST_NUMBER: u64 = 1 << 60;

impl Story {
    /// Makes a user for each node: the one of `docs/redis.md`, for this queue.
    pub(crate) fn make_users(&self) {
        let line = user_of_the_manual();
        for slot in 0..NODES {
            let line = line.replace("{shop}", "{jobs}").replace("shop", &user(slot));
            let words: Vec<&str> = line.split(' ').collect();
            let _: String = self.server.ask(&words);
        }
    }

    pub(crate) fn url_of(&self, slot: usize) -> String {
        match self.outage {
            Outage::Rights => {
                format!("redis://{}:secret@127.0.0.1:{}/", user(slot), self.front.port)
            }
            _ => self.front.url(),
        }
    }

    /// Takes a right from the user of a node for some time.
    pub(crate) fn deny(&mut self, time: Duration) -> Result<()> {
        let user = user(self.lives.draw.usize(..NODES));
        let (without, with, half_done) = RIGHTS[self.lives.draw.usize(..RIGHTS.len())];
        self.lives.note(0, Record::Rights { is_denied: true, half_done });
        let _: String = self.server.ask(&["ACL", "SETUSER", &user, without]);
        pause(time);
        let _: String = self.server.ask(&["ACL", "SETUSER", &user, with]);
        self.lives.note(0, Record::Rights { is_denied: false, half_done });
        Ok(())
    }

    /// Files anew what is in no set. Says whether there was something.
    pub(crate) fn mend(&mut self) -> Result<bool> {
        let mended = queue::mend(&self.server)?;
        for &(tag, due) in &mended {
            let (n, at) = (FIRST_NUMBER + self.mended, due * 1000);
            self.mended += 1;
            self.lives.note(0, Record::Call { n, at, verb: Verb::Reschedule { tag, due } });
            self.lives.note(0, Record::Answer { n, at, answer: Answer::Done(true) });
        }
        Ok(!mended.is_empty())
    }
}

fn user(slot: usize) -> String {
    format!("node{slot}")
}
