//! The proxy closes what it has to close, and nothing else, with both kinds of timers.

use std::process::Command;

#[test]
fn no_timeout_is_wrong() {
    let run = Command::new(env!("CARGO_BIN_EXE_proxy")).arg("--short").output().unwrap();
    let output = String::from_utf8_lossy(&run.stdout);
    assert!(run.status.success(), "{output}{}", String::from_utf8_lossy(&run.stderr));
    assert!(output.contains("| tokio |") && output.contains("| tickwheel |"), "{output}");
}
