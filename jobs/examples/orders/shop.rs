//! The shop: inserts the orders and takes payments, while its workers have their incidents.

use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, SystemTime};

use tickwheel_jobs::{Cancel, Client, JobId, StoreError};

use crate::log::{self, micros};
use crate::place::Place;
use crate::worker::{Process, Workers};
use crate::{CloseOrder, Plan, Result, incidents};

/// What the shop knows of an order.
#[derive(Clone, Copy)]
pub(crate) struct Order {
    id: JobId,
    /// The earliest time at which it may be closed, in microseconds since 1970.
    pub(crate) due: u64,
    pub(crate) state: State,
    /// A reset of it answered `true`.
    pub(crate) was_reset: bool,
    /// When the shop had the answer that led to `state` or to `deadline`, in microseconds since 1970.
    /// A run before that, which a kill cut off, is none that the answer forbids.
    pub(crate) since: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// It closes.
    Open,
    /// A cancel answered `Cancelled`: the order was paid, or its customer has withdrawn it.
    Paid,
    Withdrawn,
    /// A cancel answered `Running`: it may close all the same.
    TooLate,
    /// A cancel answered `Gone`: it has closed before.
    Closed,
    /// A cancel was not answered.
    Unknown,
}

/// What happened.
pub(crate) struct Day {
    pub(crate) orders: Vec<Order>,
    /// The processes of the workers, by their numbers.
    pub(crate) processes: Vec<Process>,
    /// Between which times the server was away, in microseconds since 1970.
    pub(crate) away: Vec<(u64, u64)>,
    /// How far the clock of the store is ahead of the shop's, in microseconds.
    pub(crate) skew: i64,
    pub(crate) is_shared: bool,
    /// How many orders were open when the shop stopped to wait.
    pub(crate) left: u64,
    pub(crate) inserted_in: Duration,
    pub(crate) answers_in: Duration,
    pub(crate) calls: u64,
    /// How many cancels and resets ended with an error.
    pub(crate) unanswered: u64,
    /// The size of the store with all orders in it, and at the end.
    pub(crate) bytes: (u64, u64),
}

/// What a customer does.
#[derive(Clone, Copy)]
enum Act {
    Pay,
    Withdraw,
    /// Asks for more time.
    Reschedule,
}

/// How many orders one insert takes.
const ORDERS_PER_BATCH: usize = 2_000;
/// How long the shop waits for the last orders to close.
const PATIENCE: Duration = Duration::from_secs(15);
/// How many customers are served at once, of jobs on a server.
const TILLS: usize = 4;
const PROGRESS_INTERVAL: Duration = Duration::from_secs(2);

pub(crate) fn open(plan: &Plan, place: &Place, log: &Path) -> Result<Day> {
    let begun = SystemTime::now();
    let mut workers = Workers::start(place, log, plan.workers)?;
    // A call to a server waits for its answer, so several tills serve more customers in time.
    let tills = if place.is_shared() { TILLS } else { 1 };
    let clients: Vec<Client> =
        (0..tills).map(|_| Ok(place.builder()?.client()?)).collect::<Result<_>>()?;
    let shop = Shop { client: &clients[0], skew: place.skew() };
    let mut draw = Draw(0x0dd5);
    let mut orders = insert_all(plan, &shop, begun, &mut draw)?;
    let inserted_in = begun.elapsed()?;
    let full = place.bytes();
    println!("{:5.1} s: {} orders inserted", inserted_in.as_secs_f64(), orders.len());

    let acts = acts(plan, &orders, &mut draw);
    let taken = AtomicU64::new(0);
    // If the insert took longer than planned, everything else comes later.
    let opened = begun.max(SystemTime::now() - plan.lead);
    let last = opened + plan.window;
    let (served, away) = thread::scope(|scope| -> Result<_> {
        let parts = orders.chunks_mut(plan.orders.div_ceil(tills as u64) as usize);
        let mut first = 0;
        let mut serving = Vec::new();
        for (part, client) in parts.zip(&clients) {
            let range = first..first + part.len();
            first = range.end;
            let of_part = |&(at, n, act): &(u64, usize, Act)| {
                range.contains(&n).then(|| (at, n - range.start, act))
            };
            let acts: Vec<_> = acts.iter().filter_map(of_part).collect();
            let (shop, taken) = (Shop { client, skew: shop.skew }, &taken);
            serving.push(scope.spawn(move || serve(&shop, &acts, part, begun, last, taken)));
        }
        let tell = |kills| progress(begun, log, &taken, kills);
        let away = incidents::happen(plan, place, opened, &mut draw, &mut workers, &tell)?;
        let mut served = Served::default();
        for till in serving {
            let its = till.join().map_err(|_| "the shop panicked")?;
            served.busy += its.busy;
            served.unanswered += its.unanswered;
        }
        Ok((served, away))
    })?;
    let left = wait_until_empty(shop.client, begun)?;
    workers.end()?;
    Ok(Day {
        orders,
        processes: core::mem::take(&mut workers.processes),
        away,
        skew: shop.skew,
        is_shared: place.is_shared(),
        left,
        inserted_in,
        answers_in: served.busy,
        calls: acts.len() as u64,
        unanswered: served.unanswered,
        bytes: (full, place.bytes()),
    })
}

/// The shop's way to its jobs. The times of the store are those of its own clock.
struct Shop<'a> {
    client: &'a Client,
    skew: i64,
}

impl Shop<'_> {
    /// Returns what the store's clock reads at a time of this machine's.
    fn at(&self, micros: u64) -> SystemTime {
        time(micros.saturating_add_signed(self.skew))
    }
}

fn insert_all(
    plan: &Plan,
    shop: &Shop<'_>,
    begun: SystemTime,
    draw: &mut Draw,
) -> Result<Vec<Order>> {
    let due = |draw: &mut Draw| {
        let after = plan.lead + (plan.window - plan.lead).mul_f64(draw.fraction());
        micros(begun + after)
    };
    let dues: Vec<u64> = (0..plan.orders).map(|_| due(draw)).collect();
    let mut orders = Vec::new();
    for dues in dues.chunks(ORDERS_PER_BATCH) {
        let first = orders.len() as u64;
        let jobs = (first..).zip(dues);
        let jobs = jobs.map(|(order, due)| (shop.at(*due), CloseOrder { order }));
        let ids = shop.client.insert_batch(jobs)?;
        orders.extend(ids.into_iter().zip(dues).map(|(id, &due)| Order {
            id,
            due,
            state: State::Open,
            was_reset: false,
            since: 0,
        }));
    }
    Ok(orders)
}

/// Draws what customers do, and when: of 100 orders 20 are paid, 2 withdrawn and 5 reset. One
/// payment in ten comes around the deadline, at which the worker may be faster.
fn acts(plan: &Plan, orders: &[Order], draw: &mut Draw) -> Vec<(u64, usize, Act)> {
    let mut acts = Vec::new();
    for (n, order) in orders.iter().enumerate() {
        let act = match draw.below(100) {
            0..20 => Act::Pay,
            20..22 => Act::Withdraw,
            22..27 => Act::Reschedule,
            _ => continue,
        };
        let lead = micros(SystemTime::UNIX_EPOCH + plan.lead);
        let at = match draw.below(10) {
            0 => order.due - 100_000 + draw.below(150_000),
            _ => order.due - draw.below(lead.min(4_000_000)),
        };
        acts.push((at, n, act));
    }
    acts.sort_unstable_by_key(|(at, ..)| *at);
    acts
}

/// What it took to serve the customers.
#[derive(Default)]
struct Served {
    /// How long all calls took together.
    busy: Duration,
    unanswered: u64,
}

/// Does what the customers want, at its time.
fn serve(
    shop: &Shop<'_>,
    acts: &[(u64, usize, Act)],
    orders: &mut [Order],
    begun: SystemTime,
    last: SystemTime,
    taken: &AtomicU64,
) -> Served {
    let mut served = Served::default();
    for &(at, n, act) in acts {
        sleep_until(time(at), begun, &|| ());
        let order = &mut orders[n];
        let before = SystemTime::now();
        match act {
            Act::Pay | Act::Withdraw => {
                order.state = match (shop.client.cancel(order.id), act) {
                    (Ok(Cancel::Cancelled), Act::Withdraw) => State::Withdrawn,
                    (Ok(Cancel::Cancelled), _) => State::Paid,
                    (Ok(Cancel::Running), _) => State::TooLate,
                    (Ok(Cancel::Gone), _) => State::Closed,
                    (Err(error), _) => {
                        served.failed("cancel", &error);
                        State::Unknown
                    }
                };
                order.since = micros(SystemTime::now());
            }
            Act::Reschedule => {
                let later = last.min(before + Duration::from_secs(3)).max(time(order.due));
                let later = micros(later);
                match shop.client.reschedule(order.id, shop.at(later)) {
                    Ok(true) => {
                        order.due = later;
                        order.was_reset = true;
                        order.since = micros(SystemTime::now());
                    }
                    Ok(false) => {}
                    Err(error) => served.failed("reschedule", &error),
                }
            }
        }
        served.busy += before.elapsed().unwrap_or_default();
        taken.fetch_add(1, Ordering::Relaxed);
    }
    served
}

impl Served {
    fn failed(&mut self, verb: &str, error: &StoreError) {
        self.unanswered += 1;
        if self.unanswered <= 3 {
            println!("a {verb} was not answered: {error}");
        }
    }
}

/// Waits until no order is open any more. Returns how many are open after all.
fn wait_until_empty(shop: &Client, begun: SystemTime) -> Result<u64> {
    let end = SystemTime::now() + PATIENCE;
    loop {
        let left = shop.count()?;
        if left.pending + left.running == 0 {
            return Ok(0);
        }
        if SystemTime::now() > end {
            println!("{} orders are still open after {:?}", left.pending + left.running, PATIENCE);
            return Ok(left.pending + left.running);
        }
        sleep_until(SystemTime::now() + Duration::from_millis(50), begun, &|| ());
    }
}

fn progress(begun: SystemTime, log: &Path, taken: &AtomicU64, kills: usize) {
    let passed = begun.elapsed().unwrap_or_default().as_secs_f64();
    let (runs, calls) = (log::count(log), taken.load(Ordering::Relaxed));
    println!("{passed:5.1} s: {runs} runs, {calls} cancels and resets, {kills} kills");
    let _ = std::io::stdout().flush();
}

/// Sleeps, and calls `tell` every two seconds since `begun`.
pub(crate) fn sleep_until(end: SystemTime, begun: SystemTime, tell: &dyn Fn()) {
    loop {
        let passed = begun.elapsed().unwrap_or_default();
        let intervals = passed.as_millis() / PROGRESS_INTERVAL.as_millis() + 1;
        let next = begun + PROGRESS_INTERVAL * u32::try_from(intervals).unwrap_or(u32::MAX);
        let left = end.min(next).duration_since(SystemTime::now()).unwrap_or_default();
        thread::sleep(left);
        if end <= next {
            return;
        }
        tell();
    }
}

fn time(micros: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_micros(micros)
}

/// Numbers at random, the same each time: splitmix64 (Steele, Lea and Flood, 2014).
pub(crate) struct Draw(pub(crate) u64);

impl Draw {
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ mixed >> 31) % limit
    }

    pub(crate) fn fraction(&mut self) -> f64 {
        self.below(1 << 32) as f64 / (1_u64 << 32) as f64
    }
}
