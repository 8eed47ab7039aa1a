//! A hundred thousand orders that close themselves after 72 hours, unless they are paid first: one
//! timer each, cancelled by the payment. More than three days pass in a fraction of a second,
//! because the program moves the clock.
//!
//! ```sh
//! cargo run --release --example order_timeouts
//! ```

#![forbid(unsafe_code)]
// A program may read the clock, here to print how long it took; the library may not.
#![allow(clippy::disallowed_methods)]

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tickwheel::{ConfigError, Driver, Handle, Wheel};

const ORDERS: usize = 100_000;

/// All orders arrive within this number of seconds.
const ARRIVALS: u64 = 6 * 3600;

/// An order waits this number of seconds for its payment.
const PATIENCE: u64 = 72 * 3600;

/// The percentage of orders that are paid in time.
const PAID_IN_TIME: usize = 70;

/// This order is paid this number of seconds too late.
const LATE: usize = 99;
const LATE_BY: u64 = 3600;

fn main() -> Result<(), ConfigError> {
    let began = Instant::now();
    let (wheel, driver) = Wheel::builder().tick(Duration::from_secs(1)).manual()?;
    let shop = Arc::new(Shop::new(driver));
    let orders = draw_orders();
    let mut timers: Vec<Option<Handle>> = vec![None; ORDERS];
    for (at, event) in timeline(&orders) {
        shop.advance_to(at);
        match event {
            Event::Arrival(number) => timers[number] = Some(shop.open(&wheel, number)),
            Event::Payment(number) => shop.pay(&wheel, number, timers[number]),
        }
    }
    shop.advance_to(Duration::from_secs(ARRIVALS + PATIENCE + LATE_BY));

    assert!(wheel.is_empty(), "every order was paid or has closed");
    assert_eq!(wheel.stats().panicked, 0, "no job found its order paid");
    let (paid, closed) = shop.count(&orders);
    assert_eq!(paid + closed, ORDERS);
    println!("orders {ORDERS:>10}  within {} hours", ARRIVALS / 3600);
    println!("paid   {paid:>10}  in time");
    println!("closed {closed:>10}  each at its second, {} hours after it arrived", PATIENCE / 3600);
    println!("{:.1} hours took {:.0?}", shop.now().as_secs_f64() / 3600.0, began.elapsed());
    Ok(())
}

/// An order: its arrival and its payment, if there is one, in simulated time.
struct Order {
    arrival: Duration,
    payment: Option<Duration>,
}

impl Order {
    fn deadline(&self) -> Duration {
        self.arrival + Duration::from_secs(PATIENCE)
    }
}

enum Event {
    Arrival(usize),
    Payment(usize),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Awaited,
    Open,
    Paid,
    Closed { at: Duration },
}

struct Shop {
    driver: Driver,
    opened: Instant,
    states: Mutex<Vec<State>>,
}

impl Shop {
    fn new(driver: Driver) -> Shop {
        let opened = driver.now();
        Shop { driver, opened, states: Mutex::new(vec![State::Awaited; ORDERS]) }
    }

    fn now(&self) -> Duration {
        self.driver.now() - self.opened
    }

    fn advance_to(&self, at: Duration) {
        self.driver.advance(at - self.now());
    }

    fn open(self: &Arc<Shop>, wheel: &Wheel, number: usize) -> Handle {
        self.change(number, State::Awaited, State::Open);
        let shop = Arc::clone(self);
        wheel.insert(Duration::from_secs(PATIENCE), move || shop.close(number))
    }

    /// The job of the timer.
    fn close(&self, number: usize) {
        self.change(number, State::Open, State::Closed { at: self.now() });
    }

    fn pay(&self, wheel: &Wheel, number: usize, timer: Option<Handle>) {
        // The wheel decides which came first, the payment or the deadline.
        if timer.is_some_and(|timer| wheel.cancel(timer)) {
            self.change(number, State::Open, State::Paid);
        } else if let State::Closed { at } = self.states.lock().unwrap()[number] {
            println!("order {number} is paid {:?} after it closed: too late", self.now() - at);
        }
    }

    fn change(&self, number: usize, from: State, to: State) {
        let state = &mut self.states.lock().unwrap()[number];
        assert_eq!(*state, from, "order {number} was to become {to:?}");
        *state = to;
    }

    /// Checks that every order ended as it was drawn, and at the right time. Returns how many were
    /// paid and how many closed themselves.
    fn count(&self, orders: &[Order]) -> (usize, usize) {
        let (mut paid, mut closed) = (0, 0);
        for (order, &state) in orders.iter().zip(&*self.states.lock().unwrap()) {
            match order.payment {
                Some(payment) if payment < order.deadline() => {
                    assert_eq!(state, State::Paid);
                    paid += 1;
                }
                _ => {
                    assert_eq!(state, State::Closed { at: order.deadline() });
                    closed += 1;
                }
            }
        }
        (paid, closed)
    }
}

fn draw_orders() -> Vec<Order> {
    let mut random = Random(0);
    let mut draw = |number| {
        let arrival = Duration::from_secs(random.below(ARRIVALS));
        let payment = if number % 100 < PAID_IN_TIME {
            Some(arrival + Duration::from_secs(random.below(PATIENCE)))
        } else if number == LATE {
            Some(arrival + Duration::from_secs(PATIENCE + LATE_BY))
        } else {
            None
        };
        Order { arrival, payment }
    };
    (0..ORDERS).map(&mut draw).collect()
}

/// Returns arrivals and payments in the order of time. Within a second, arrivals come first.
fn timeline(orders: &[Order]) -> Vec<(Duration, Event)> {
    let numbered = || orders.iter().enumerate();
    let arrivals = numbered().map(|(number, order)| (order.arrival, Event::Arrival(number)));
    let payments = numbered()
        .filter_map(|(number, order)| order.payment.map(|at| (at, Event::Payment(number))));
    let mut events: Vec<_> = arrivals.chain(payments).collect();
    events.sort_by_key(|&(at, _)| at);
    events
}

/// The pseudo-random numbers of splitmix64, the same in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (bits ^ (bits >> 31)) % bound
    }
}
