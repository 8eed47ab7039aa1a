//! A hundred thousand orders that close themselves after 72 hours, unless they are paid first: a simulation
//! of more than three days in a moment.
//!
//! ```sh
//! cargo run --release --example order_timeouts
//! ```
//!
//! The wheel is manual: the program moves its clock, and the jobs run on the thread that does. The customers are
//! jobs too. The program prints how many orders were paid, how many closed, and how many payments came too
//! late. It fails unless each order has closed at its second, or was paid.
//!
//! What to know before this is copied:
//!
//! - **`cancel` decides between a payment and the deadline.** After `true` the order never closes. After
//!   `false` it has closed: the money goes back.
//! - **`Scheduler::now` is the clock of the wheel**, in a simulation and in production. Code that asks no
//!   other clock can be tested in this way.
//! - **The wheel is memory.** A program that must not forget its orders over a restart saves them
//!   (`save_and_reload.rs`), or takes the crate `tickwheel-jobs`.

#![forbid(unsafe_code)]

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

use tickwheel::{InsertErrorKind, Keyed, Scheduler, Wheel, When};

const ORDERS: u32 = 100_000;
const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);
const TIME_TO_PAY: Duration = Duration::from_secs(72 * 3600);

/// The part to copy. `closings` has a job for each unpaid order, by the number of the order.
struct Shop {
    closings: Keyed<u32>,
    paid: AtomicU32,
    closed: AtomicU32,
    paid_too_late: AtomicU32,
}

impl Shop {
    fn place(self: &Arc<Shop>, order: u32) -> Result<(), InsertErrorKind> {
        let shop = Arc::clone(self);
        let placed = self.timers().now();
        let close = move || {
            assert_eq!(shop.timers().now() - placed, TIME_TO_PAY);
            shop.closed.fetch_add(1, Relaxed);
        };
        let placed = self.closings.insert_if_absent(order, TIME_TO_PAY, close);
        placed.map_err(|refused| refused.kind())
    }

    fn pay(&self, order: u32) {
        let in_time = self.closings.cancel(&order);
        let count = if in_time { &self.paid } else { &self.paid_too_late };
        count.fetch_add(1, Relaxed);
    }

    fn timers(&self) -> &Scheduler {
        self.closings.scheduler()
    }
}

/// A customer places an order. Of a hundred, seventy pay in time, and one an hour too late.
fn customer(shop: &Arc<Shop>, order: u32) {
    shop.place(order).expect("the wheel has room, and no order has this number yet");
    let pays = match order % 100 {
        0..70 => When::after(SECOND).jitter(TIME_TO_PAY - HOUR),
        70 => When::after(TIME_TO_PAY + HOUR),
        _ => return,
    };
    let payer = Arc::clone(shop);
    shop.timers().insert(pays, move || payer.pay(order)).expect("the wheel has room");
}

fn main() -> Result<(), Box<dyn Error>> {
    let (wheel, driver) = Wheel::builder().tick(SECOND).manual()?;
    let shop = Arc::new(Shop {
        closings: Keyed::new(&wheel),
        paid: AtomicU32::new(0),
        closed: AtomicU32::new(0),
        paid_too_late: AtomicU32::new(0),
    });
    for order in 0..ORDERS {
        let shop = Arc::clone(&shop);
        wheel.insert(When::after(SECOND).jitter(6 * HOUR), move || customer(&shop, order));
    }
    driver.advance(80 * HOUR);

    let [paid, closed, too_late] =
        [&shop.paid, &shop.closed, &shop.paid_too_late].map(|count| count.load(Relaxed));
    println!("{ORDERS} orders within 6 hours: {paid} paid in time, {closed} closed after 72 hours");
    println!("{too_late} payments came after the order had closed");
    assert_eq!((paid, closed, too_late), (ORDERS / 100 * 70, ORDERS / 100 * 30, ORDERS / 100));
    assert!(wheel.is_empty() && wheel.stats().panicked == 0);
    Ok(())
}
