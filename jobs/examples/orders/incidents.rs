//! What the shop does to its workers, and to its server: kills, a stop past the lease, a restart.

use std::time::{Duration, SystemTime};

use crate::log::micros;
use crate::place::Place;
use crate::shop::{Draw, sleep_until};
use crate::worker::Workers;
use crate::{Plan, Result};

#[derive(Clone, Copy)]
enum Incident {
    /// A worker is killed, and started again.
    Kill,
    /// A worker is stopped.
    Stop,
    /// The stopped worker goes on, which has lost its leases.
    GoOn,
    /// The server is killed, and started again.
    Restart,
}

/// A stop takes so much longer than a lease.
const BEYOND_LEASE: Duration = Duration::from_millis(1500);

/// Draws when what happens.
fn incidents(plan: &Plan, draw: &mut Draw) -> Vec<(Duration, Incident)> {
    let open = plan.window - plan.lead;
    let spread = open.div_f64(plan.kills.max(1) as f64);
    let mut incidents = Vec::new();
    for kill in 0..plan.kills {
        let within = 0.2 + 0.6 * draw.fraction();
        incidents.push((plan.lead + spread.mul_f64(kill as f64 + within), Incident::Kill));
    }
    for stop in 0..plan.stops {
        let at = plan.lead + open.mul_f64((stop as f64 + 0.25) / plan.stops as f64);
        incidents.push((at, Incident::Stop));
        incidents.push((at + plan.lease + BEYOND_LEASE, Incident::GoOn));
    }
    for restart in 0..plan.restarts {
        let at = plan.lead + open.mul_f64((restart as f64 + 0.7) / plan.restarts as f64);
        incidents.push((at, Incident::Restart));
    }
    incidents.sort_by_key(|(at, _)| *at);
    incidents
}

/// Lets everything happen, each at its time. Returns between which times the server was away.
pub(crate) fn happen(
    plan: &Plan,
    place: &Place,
    opened: SystemTime,
    draw: &mut Draw,
    workers: &mut Workers<'_>,
    tell: &dyn Fn(usize),
) -> Result<Vec<(u64, u64)>> {
    let mut away = Vec::new();
    let mut kills = 0;
    for (at, incident) in incidents(plan, draw) {
        sleep_until(opened + at, opened, &|| tell(kills));
        match incident {
            Incident::Kill => {
                workers.kill(kills)?;
                kills += 1;
            }
            Incident::Stop => {
                println!("{:5.1} s: a worker is stopped past its lease", at.as_secs_f64());
                workers.stop(kills + 1)?;
            }
            Incident::GoOn => workers.go_on()?,
            Incident::Restart => {
                let from = micros(SystemTime::now());
                place.restart()?;
                let to = micros(SystemTime::now());
                away.push((from, to));
                let took = Duration::from_micros(to - from).as_secs_f64();
                println!(
                    "{:5.1} s: the server was killed, and answers {took:.2} s after",
                    at.as_secs_f64()
                );
            }
        }
    }
    sleep_until(opened + plan.window, opened, &|| tell(kills));
    workers.go_on()?;
    Ok(away)
}
