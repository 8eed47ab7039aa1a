//! A model of the protocol between the dispatcher and callers that are alone: every order of their steps is tried.
//!
//! The dispatcher plans, sleeps, takes commands and steps. Two callers each send a command without an answer, then make
//! two calls. A call may try the lock or go through the channel at any time, because the hints promise nothing.
//! Whatever happens under the lock between two looks at the channel is a step of its own.

use std::collections::HashSet;

/// A defect of the protocol, which the model must find.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fault {
    None,
    /// A caller does not look into the channel.
    ChannelIsNotLookedAt,
    /// The dispatcher takes commands and does not say so.
    HasCommandsIsNotSet,
    /// A caller does not wake the dispatcher for an earlier time.
    EarlierTimeWakesNobody,
    /// The dispatcher does not say until when it sleeps.
    SleepIsNotTold,
    /// A caller leaves an output, and does not wake the dispatcher for it.
    OutputWakesNobody,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Dispatcher {
    Plans,
    /// Until a time: `true` for soon, `false` for long after the end of the model.
    LooksThenSleeps(bool),
    Sleeps(bool),
    Begins,
    Takes,
    Steps,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Caller {
    Posts,
    Calls,
    HasLock,
    HasLookedAtChannel,
    Waits,
}

/// How many calls each caller makes, after the command without an answer.
const CALLS: usize = 2;

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct State {
    dispatcher: Dispatcher,
    callers: [Caller; 2],
    /// How many commands of each caller were sent or tried, and how many were stepped.
    sent: [usize; 2],
    stepped: [usize; 2],
    /// The caller that has the lock. The dispatcher has it for one step of the model at most.
    locked_by: Option<usize>,
    has_commands: bool,
    /// A job is due soon, and only a step of the dispatcher starts the next one.
    is_due_soon: bool,
    /// The dispatcher is known to wake soon.
    wakes_soon: bool,
    left: Vec<usize>,
    /// Commands, as the caller and the number of its command.
    channel: Vec<(usize, usize)>,
    taken: Vec<(usize, usize)>,
    is_woken: bool,
}

impl State {
    fn first() -> State {
        State {
            dispatcher: Dispatcher::Plans,
            callers: [Caller::Posts; 2],
            sent: [0; 2],
            stepped: [0; 2],
            locked_by: None,
            has_commands: false,
            is_due_soon: false,
            wakes_soon: false,
            left: Vec::new(),
            channel: Vec::new(),
            taken: Vec::new(),
            is_woken: false,
        }
    }

    fn step(&mut self, (caller, number): (usize, usize)) {
        assert_eq!(self.stepped[caller], number, "a command overtakes one before it");
        self.stepped[caller] += 1;
    }

    fn answer(&mut self, caller: usize) {
        if self.callers[caller] == Caller::Waits {
            self.callers[caller] = Caller::Calls;
        }
    }

    fn is_done(&self, caller: usize) -> bool {
        self.callers[caller] == Caller::Calls && self.sent[caller] == 1 + CALLS
    }

    /// Returns every state that a step of the dispatcher leads to: none or one.
    fn after_dispatcher(&self, fault: Fault) -> Option<State> {
        let mut next = self.clone();
        let is_free = self.locked_by.is_none();
        let has_come = !self.channel.is_empty() || self.is_woken;
        match self.dispatcher {
            Dispatcher::Plans if is_free => {
                next.dispatcher = match self.left.is_empty() {
                    true => Dispatcher::LooksThenSleeps(self.is_due_soon),
                    false => Dispatcher::Begins,
                };
                if fault != Fault::SleepIsNotTold {
                    next.wakes_soon = self.is_due_soon;
                }
            }
            Dispatcher::LooksThenSleeps(soon) => {
                next.dispatcher =
                    if has_come { Dispatcher::Begins } else { Dispatcher::Sleeps(soon) };
            }
            Dispatcher::Sleeps(soon) if has_come || soon => next.dispatcher = Dispatcher::Begins,
            Dispatcher::Begins if is_free && !self.left.is_empty() => {
                core::mem::take(&mut next.left).into_iter().for_each(|caller| next.answer(caller));
                next.dispatcher = Dispatcher::Plans;
            }
            Dispatcher::Begins if is_free => {
                next.has_commands = fault != Fault::HasCommandsIsNotSet;
                next.dispatcher = Dispatcher::Takes;
            }
            Dispatcher::Takes => {
                next.is_woken = false;
                next.taken = core::mem::take(&mut next.channel);
                next.dispatcher = Dispatcher::Steps;
            }
            Dispatcher::Steps if is_free => {
                for command in core::mem::take(&mut next.taken) {
                    next.step(command);
                    if command.1 > 0 {
                        next.answer(command.0);
                    }
                }
                (next.has_commands, next.is_due_soon) = (false, false);
                next.dispatcher = Dispatcher::Plans;
            }
            _ => return None,
        }
        Some(next)
    }

    /// Returns every state that a step of a caller leads to.
    fn after_caller(&self, caller: usize, fault: Fault) -> Vec<State> {
        let mut next = self.clone();
        let send = |mut state: State, then: Caller| {
            state.channel.push((caller, state.sent[caller]));
            state.sent[caller] += 1;
            state.callers[caller] = then;
            state
        };
        match self.callers[caller] {
            Caller::Posts => vec![send(next, Caller::Calls)],
            Caller::Calls if self.is_done(caller) => Vec::new(),
            Caller::Calls => {
                let sent = send(next.clone(), Caller::Waits);
                if self.locked_by.is_some() {
                    return vec![sent];
                }
                next.locked_by = Some(caller);
                next.callers[caller] = Caller::HasLock;
                vec![sent, next]
            }
            Caller::HasLock => {
                if !self.channel.is_empty() && fault != Fault::ChannelIsNotLookedAt {
                    next.locked_by = None;
                    return vec![send(next, Caller::Waits)];
                }
                next.callers[caller] = Caller::HasLookedAtChannel;
                vec![next]
            }
            Caller::HasLookedAtChannel => {
                next.locked_by = None;
                if self.has_commands || !self.left.is_empty() {
                    return vec![send(next, Caller::Waits)];
                }
                let number = next.sent[caller];
                next.sent[caller] += 1;
                next.step((caller, number));
                let with_more_and_soon =
                    [(false, false), (false, true), (true, false), (true, true)];
                let ends = with_more_and_soon.map(|(more, soon)| {
                    let mut end = next.clone();
                    end.is_due_soon |= soon;
                    if end.is_due_soon && !end.wakes_soon && fault != Fault::EarlierTimeWakesNobody
                    {
                        (end.wakes_soon, end.is_woken) = (true, true);
                    }
                    end.callers[caller] = if more { Caller::Waits } else { Caller::Calls };
                    if more {
                        end.left.push(caller);
                        end.is_woken |= fault != Fault::OutputWakesNobody;
                    }
                    end
                });
                ends.into()
            }
            Caller::Waits => Vec::new(),
        }
    }

    /// The conditions that hold in a state without a further step.
    fn check_end(&self) {
        let sleeps = matches!(self.dispatcher, Dispatcher::Sleeps(false));
        assert!(sleeps && self.locked_by.is_none(), "nobody goes on: {self:?}");
        assert!(!self.is_due_soon, "the dispatcher sleeps too long");
        assert!((0..2).all(|caller| self.is_done(caller)), "a caller waits in vain");
        assert_eq!(self.stepped, [1 + CALLS; 2], "a command is lost");
    }
}

/// Tries every order of the steps. Returns how many states there are.
fn try_all(fault: Fault) -> usize {
    let (mut known, mut open) = (HashSet::new(), vec![State::first()]);
    while let Some(state) = open.pop() {
        if known.contains(&state) {
            continue;
        }
        let mut next: Vec<State> = state.after_dispatcher(fault).into_iter().collect();
        (0..2).for_each(|caller| next.extend(state.after_caller(caller, fault)));
        if next.is_empty() {
            state.check_end();
        }
        known.insert(state);
        open.extend(next);
    }
    known.len()
}

/// No order of the steps loses a command, lets one overtake another, leaves a caller waiting, or lets the dispatcher
/// sleep past its time.
#[test]
fn every_order_of_callers_and_dispatcher_is_right() {
    let states = try_all(Fault::None);
    assert!(states > 1_000, "{states}");
}

/// The model finds each defect of the protocol that is planted.
#[test]
fn model_finds_each_defect() {
    for fault in [
        Fault::ChannelIsNotLookedAt,
        Fault::HasCommandsIsNotSet,
        Fault::EarlierTimeWakesNobody,
        Fault::SleepIsNotTold,
        Fault::OutputWakesNobody,
    ] {
        let found = std::panic::catch_unwind(|| try_all(fault));
        assert!(found.is_err(), "{fault:?} is not found");
    }
}
