//! The clock of the jobs: that of a wheel, of the system, or of a server that several machines share.

#[cfg(feature = "redis")]
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use tickwheel::{Scheduler, When};

#[cfg(feature = "redis")]
use crate::values::server_time::ServerTime;
use crate::values::time::{Millis, Now};

/// The clocks of a process.
#[derive(Clone)]
pub(crate) struct Clock {
    host: Host,
    /// The wall clock, if it is a server's.
    #[cfg(feature = "redis")]
    server: Option<Arc<ServerTime>>,
}

#[derive(Clone)]
enum Host {
    Wheel(Scheduler),
    System,
}

impl Clock {
    pub(crate) fn of_wheel(wheel: Scheduler) -> Clock {
        Clock::of(Host::Wheel(wheel))
    }

    pub(crate) fn of_system() -> Clock {
        Clock::of(Host::System)
    }

    fn of(host: Host) -> Clock {
        Clock {
            host,
            #[cfg(feature = "redis")]
            server: None,
        }
    }

    /// Takes a server's clock as the wall clock, if there is one.
    #[cfg(feature = "redis")]
    pub(crate) fn by_server(self, server: Option<Arc<ServerTime>>) -> Clock {
        Clock { server, ..self }
    }

    #[expect(clippy::disallowed_methods, reason = "the one place that reads the system's clocks")]
    pub(crate) fn now(&self) -> Now {
        let now = match &self.host {
            Host::Wheel(wheel) => Now { wall: wheel.wall_now(), instant: wheel.now() },
            Host::System => Now { wall: SystemTime::now(), instant: Instant::now() },
        };
        #[cfg(feature = "redis")]
        if let Some(server) = &self.server {
            return Now { wall: server.at(now.instant), ..now };
        }
        now
    }

    /// Says whether the store should be asked for its time, with any question, before a delay counts from this
    /// clock.
    pub(crate) fn is_stale(&self) -> bool {
        #[cfg(feature = "redis")]
        if let Some(server) = &self.server {
            return server.is_stale(self.now().instant);
        }
        false
    }

    /// Returns the present, from which a delay counts: the wall clock does not read more than this.
    pub(crate) fn latest(&self) -> Now {
        let now = self.now();
        #[cfg(feature = "redis")]
        if let Some(server) = &self.server {
            return Now { wall: server.latest_at(now.instant), ..now };
        }
        now
    }

    /// Returns the time of a timer that is to fire when this clock reads `due`.
    pub(crate) fn when(&self, due: Millis) -> When {
        #[cfg(feature = "redis")]
        if self.server.is_some() {
            let wait = due.to_system().duration_since(self.now().wall);
            return When::after(wait.unwrap_or_default());
        }
        When::wall(due.to_system())
    }
}
