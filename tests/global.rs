//! The wheel of the process. A process has only one, so this test is a program of its own.
#![cfg(feature = "async")]

use std::future::pending;
use std::time::Duration;

use tickwheel::{Repeat, Wheel, global, testing};

/// C82: The wheel of the process can be installed once, and its futures run on it.
#[test]
fn wheel_is_installed_once_and_before_the_first_use() {
    let ms = Duration::from_millis(1);
    let (wheel, driver) = Wheel::builder().manual().unwrap();
    global::install(wheel).expect("nobody has used it");
    assert!(global::install(Wheel::builder().manual().unwrap().0).is_err());
    let begin = driver.now();
    assert_eq!(global::wheel().now(), begin);
    testing::run(&driver, async {
        global::sleep(ms).await;
        global::sleep_until(begin + 3 * ms).await;
        assert_eq!(global::wheel().now(), begin + 3 * ms);
        global::sleep_within(2 * ms, 4 * ms).await;
        assert_eq!(global::wheel().now(), begin + 8 * ms);
        assert!(global::timeout(ms, pending::<()>()).await.is_err());
        assert!(global::timeout_at(begin + 10 * ms, pending::<()>()).await.is_err());
        let mut interval = global::interval(Repeat::every(5 * ms)).unwrap();
        assert_eq!(interval.tick().await.unwrap().deadline, begin + 15 * ms);
    });
    assert_eq!(driver.now(), begin + 15 * ms);
    let kept: tickwheel::Timeout<'static, _> = global::timeout(ms, pending::<()>());
    drop(kept);
    assert_eq!(global::wheel().close().len(), 0);
    assert!(global::install(Wheel::builder().manual().unwrap().0).is_err(), "it stays");
}
