//! The handler of batches. Its runs begin together, each does what its plan says, and then each ends as its own plan
//! says.

use std::sync::Arc;

use tickwheel_jobs::{Fail, Run};

use crate::end_in::{Ended, transact};
use crate::ops::{Ending, QUICK, Task};
use crate::world::{Shared, act, begin, end, result};

pub(crate) fn handle(shared: &Arc<Shared>, jobs: &[(Task<1>, Run)]) -> Result<(), Fail> {
    if shared.is_over() {
        return Ok(());
    }
    shared.look_at_the_clocks(false);
    let mut begun = Vec::new();
    for (Task(plan), run) in jobs {
        match begin(shared, QUICK, plan, run) {
            Ok(starts) => begun.push((plan, run, starts)),
            Err(wrong) => {
                shared.note(Err(wrong));
                return Ok(());
            }
        }
    }
    let mut acted = Vec::new();
    for (plan, run, starts) in begun {
        let Some(set) = act(shared, plan, run) else { return Ok(()) };
        acted.push((plan, run, starts, set));
    }
    // The ends in transactions come before the others, which come when the handler returns.
    let mut ended = Vec::new();
    for (plan, run, starts, set) in acted {
        let Some(its) = transact(shared, plan.ending(starts), run, set) else { return Ok(()) };
        ended.push((run, its));
    }
    let mut endings = Vec::new();
    for (run, its) in ended {
        let ending = match its {
            Ended::Before(ending) => ending,
            Ended::ByHandler(ending, set) => match end(shared, run, ending, set) {
                Some(ending) => ending,
                None => return Ok(()),
            },
        };
        endings.push((run, ending));
    }
    shared.lock().batch_ends = endings.len() > 1;
    let (_, first) = endings[0];
    // If all runs end in the same way, the result of the handler ends them all.
    if endings.iter().all(|(_, ending)| *ending == first) {
        return result(first);
    }
    for (run, ending) in endings {
        match ending {
            Ending::Panics => run.fail(Fail::retry("panicked: as planned")),
            ending => {
                if let Err(failure) = result(ending) {
                    run.fail(failure);
                }
            }
        }
    }
    Ok(())
}
