//! The operations of a history, from bytes. The weights are those of the numbers in each range.

use arbitrary::{Arbitrary, Result, Unstructured};
use tickwheel::Missed;

use super::truth::TICK;
use super::{
    Act, Answer, Ending, EventOp, KEYS, Key, LastWill, Op, Place, Plan, Room, Setup, Time,
};
#[cfg(feature = "async")]
use super::{Beats, SleeperOp};

type Bytes<'a> = Unstructured<'a>;

/// Mostly few ticks, so that timers meet.
fn delay(data: &mut Bytes<'_>) -> Result<u64> {
    Ok(match data.int_in_range(0..=10)? {
        0 => 0,
        1..=4 => data.int_in_range(1..=5 * TICK - 1)?,
        5..=7 => data.int_in_range(0..=29)? * TICK,
        8..=9 => data.int_in_range(0..=500 * TICK - 1)?,
        _ => u64::MAX,
    })
}

fn slack(data: &mut Bytes<'_>) -> Result<u64> {
    data.int_in_range(0..=200 * TICK - 1)
}

/// Counted from now; may be negative.
fn ahead(data: &mut Bytes<'_>) -> Result<i64> {
    let ticks = TICK as i64;
    match data.int_in_range(0..=2)? {
        0 => data.int_in_range(-20 * ticks..=20 * ticks - 1),
        1 => Ok(data.int_in_range(-20..=19)? * ticks),
        _ => data.int_in_range(0..=500 * ticks - 1),
    }
}

fn which(data: &mut Bytes<'_>) -> Result<usize> {
    data.arbitrary::<u8>().map(usize::from)
}

fn group(data: &mut Bytes<'_>) -> Result<usize> {
    data.int_in_range(0..=1)
}

/// Calls `item` for each of some items, mostly of a few.
fn some<T>(data: &mut Bytes<'_>, item: impl Fn(&mut Bytes<'_>) -> Result<T>) -> Result<Vec<T>> {
    let most = if data.int_in_range(0..=7)? == 0 { 20 } else { 4 };
    (0..data.int_in_range(0..=most)?).map(|_| item(data)).collect()
}

impl<'a> Arbitrary<'a> for Key {
    fn arbitrary(data: &mut Bytes<'a>) -> Result<Key> {
        data.int_in_range(0..=KEYS - 1).map(Key)
    }
}

impl<'a> Arbitrary<'a> for Time {
    fn arbitrary(data: &mut Bytes<'a>) -> Result<Time> {
        Ok(match data.int_in_range(0..=15)? {
            0..=9 => Time::After(delay(data)?),
            10 => Time::Within(delay(data)?, slack(data)?),
            11..=12 => Time::At(ahead(data)?),
            _ => Time::Wall(ahead(data)?),
        })
    }
}

impl<'a> Arbitrary<'a> for Act {
    fn arbitrary(data: &mut Bytes<'a>) -> Result<Act> {
        Ok(match data.int_in_range(0..=24)? {
            0..=2 => Act::Nothing,
            3..=4 => Act::Insert(delay(data)?),
            5 => Act::InsertKey(data.arbitrary()?, delay(data)?),
            6 => Act::Again(data.arbitrary()?, data.int_in_range(0..=3)?, delay(data)?),
            7 => Act::CancelItself,
            8 => Act::ResetItself(delay(data)?),
            9..=10 => Act::Cancel(which(data)?),
            11 => Act::CancelGroup(group(data)?),
            12 => Act::Take(which(data)?),
            13..=14 => Act::Reset(which(data)?, delay(data)?),
            15 => Act::Panic,
            16..=19 => Act::Event(data.arbitrary()?),
            #[cfg(feature = "async")]
            20..=23 => Act::Sleeper(data.arbitrary()?),
            _ => Act::Advance(data.int_in_range(0..=20 * TICK - 1)?),
        })
    }
}

impl<'a> Arbitrary<'a> for LastWill {
    fn arbitrary(data: &mut Bytes<'a>) -> Result<LastWill> {
        Ok(match data.int_in_range(0..=9)? {
            0..=5 => LastWill::Nothing,
            6 => LastWill::Insert(delay(data)?),
            7 => LastWill::Cancel(which(data)?),
            8 => LastWill::CancelKey(data.arbitrary()?),
            _ => LastWill::Panic,
        })
    }
}

/// A job that always answers a delay of zero runs at every tick, up to `MAX_RUNS`.
fn answer(data: &mut Bytes<'_>) -> Result<Answer> {
    Ok(match data.int_in_range(0..=10)? {
        0..=5 => Answer::Period,
        6..=7 => Answer::After(delay(data)?),
        8 => Answer::At(ahead(data)?),
        9 => Answer::Wall(ahead(data)?),
        _ => Answer::Stop,
    })
}

fn missed(data: &mut Bytes<'_>) -> Result<Missed> {
    data.choose(&[Missed::Burst, Missed::Skip, Missed::Delay]).copied()
}

impl<'a> Arbitrary<'a> for Plan {
    fn arbitrary(data: &mut Bytes<'a>) -> Result<Plan> {
        let period = match data.int_in_range(0..=15)? {
            0 => None,
            1 => Some(0),
            2..=3 => Some(data.int_in_range(1..=2 * TICK - 1)?),
            4..=9 => Some(data.int_in_range(1..=20 * TICK - 1)?),
            10..=11 => Some(data.int_in_range(1..=19)? * TICK),
            // It cannot stop by its answer, so it repeats seldom.
            _ => return Ok(Plan::every(data.int_in_range(10 * TICK..=200 * TICK)?)),
        };
        let first = match data.int_in_range(0..=3)? {
            0 => Time::At(-data.int_in_range(0..=100 * TICK as i64)?),
            1 => Time::At(ahead(data)?),
            _ => Time::After(delay(data)?),
        };
        Ok(Plan {
            is_every: false,
            period,
            missed: missed(data)?,
            first,
            despite_panics: data.arbitrary()?,
            answers: (0..data.int_in_range(1..=3)?).map(|_| answer(data)).collect::<Result<_>>()?,
        })
    }
}

impl<'a> Arbitrary<'a> for Place {
    fn arbitrary(data: &mut Bytes<'a>) -> Result<Place> {
        Ok(match data.int_in_range(0..=8)? {
            0..=3 => Place::Wheel,
            4..=6 => Place::Group(group(data)?),
            _ => Place::Key(data.arbitrary()?),
        })
    }
}

impl<'a> Arbitrary<'a> for Op {
    fn arbitrary(data: &mut Bytes<'a>) -> Result<Op> {
        Ok(match data.int_in_range(0..=79)? {
            0..=7 => Op::Insert(data.arbitrary()?, data.arbitrary()?, data.arbitrary()?),
            8..=9 => Op::InsertElsewhere(data.arbitrary()?, data.arbitrary()?, data.arbitrary()?),
            10 => Op::InsertWith(delay(data)?, data.arbitrary()?, data.arbitrary()?),
            11 => {
                let item = |data: &mut Bytes<'_>| {
                    Ok((data.arbitrary()?, data.arbitrary()?, data.arbitrary()?))
                };
                Op::InsertBatch(some(data, item)?)
            }
            12..=13 => Op::InsertIntoGroup(group(data)?, data.arbitrary()?, data.arbitrary()?),
            14..=17 => Op::Repeat(
                data.arbitrary()?,
                data.arbitrary()?,
                data.arbitrary()?,
                data.arbitrary()?,
            ),
            18..=19 => Op::Cancel(which(data)?),
            20 => Op::CancelBatch(some(data, which)?),
            21 => Op::CancelGroup(group(data)?),
            22 => Op::Guard(which(data)?, data.arbitrary()?),
            23..=24 => Op::Take(which(data)?, data.arbitrary()?),
            25..=26 => Op::Move(which(data)?, data.arbitrary()?),
            27..=31 => Op::Reset(which(data)?, data.arbitrary()?),
            32 => Op::ResetBatch(some(data, |data| Ok((which(data)?, data.arbitrary()?)))?),
            33 => Op::Foreign(which(data)?),
            34..=35 => Op::SetWall(ahead(data)?),
            36..=40 => Op::Advance(Some(delay(data)?).filter(|&by| by < u64::MAX).unwrap_or(TICK)),
            41 => Op::AdvanceToNext,
            42..=48 => key_op(data)?,
            49..=60 => Op::Event(data.arbitrary()?),
            #[cfg(feature = "async")]
            61..=70 => Op::Sleeper(data.arbitrary()?),
            #[cfg(feature = "async")]
            71..=78 => Op::Poll(which(data)?, data.arbitrary()?),
            _ => Op::Event(data.arbitrary()?),
        })
    }
}

fn key_op(data: &mut Bytes<'_>) -> Result<Op> {
    Ok(match data.int_in_range(0..=13)? {
        0..=3 => {
            let (key, time, if_absent) = (data.arbitrary()?, data.arbitrary()?, data.arbitrary()?);
            let act = match data.int_in_range(0..=2)? {
                0 => Act::Again(key, data.int_in_range(1..=3)?, delay(data)?),
                _ => data.arbitrary()?,
            };
            Op::InsertKey(key, time, if_absent, act, data.arbitrary()?)
        }
        4 => Op::InsertKeys(some(data, |data| Ok((data.arbitrary()?, delay(data)?)))?),
        5 => Op::Repeat(
            Place::Key(data.arbitrary()?),
            data.arbitrary()?,
            data.arbitrary()?,
            data.arbitrary()?,
        ),
        6 => Op::CancelKey(data.arbitrary()?),
        7 => Op::CancelKeys(data.arbitrary()?),
        8 => Op::CancelAllKeys,
        9 => Op::TakeKey(data.arbitrary()?),
        10 => Op::CancelKeyByHandle(data.arbitrary()?),
        11..=12 => Op::ResetKey(data.arbitrary()?, data.arbitrary()?),
        _ => Op::ResetKeys(data.arbitrary()?, delay(data)?),
    })
}

/// Mostly an operation of one kind, on few ticks.
fn mostly(data: &mut Bytes<'_>, op: fn(&mut Bytes<'_>) -> Result<Op>) -> Result<Op> {
    match data.int_in_range(0..=7)? {
        0..=4 => op(data),
        5 => Ok(Op::Advance(data.int_in_range(0..=30 * TICK)?)),
        6 if data.arbitrary()? => Ok(Op::AdvanceToNext),
        6 => Ok(Op::Advance(data.int_in_range(0..=30)? * TICK)),
        _ => data.arbitrary(),
    }
}

/// An operation of a history that is mostly about keys.
#[derive(Debug)]
pub(crate) struct KeyOp(pub(crate) Op);

impl<'a> Arbitrary<'a> for KeyOp {
    fn arbitrary(data: &mut Bytes<'a>) -> Result<KeyOp> {
        mostly(data, key_op).map(KeyOp)
    }
}

/// An operation of a history that is mostly about events.
#[derive(Debug)]
pub(crate) struct EventsOp(pub(crate) Op);

impl<'a> Arbitrary<'a> for EventsOp {
    fn arbitrary(data: &mut Bytes<'a>) -> Result<EventsOp> {
        mostly(data, |data| data.arbitrary().map(Op::Event)).map(EventsOp)
    }
}

/// An operation of a history that is mostly about sleepers.
#[cfg(feature = "async")]
#[derive(Debug)]
pub(crate) struct SleepersOp(pub(crate) Op);

#[cfg(feature = "async")]
impl<'a> Arbitrary<'a> for SleepersOp {
    fn arbitrary(data: &mut Bytes<'a>) -> Result<SleepersOp> {
        mostly(data, |data| data.arbitrary().map(Op::Sleeper)).map(SleepersOp)
    }
}

impl<'a> Arbitrary<'a> for EventOp {
    fn arbitrary(data: &mut Bytes<'a>) -> Result<EventOp> {
        Ok(match data.int_in_range(0..=24)? {
            0..=8 => EventOp::Insert(data.arbitrary()?, data.arbitrary()?),
            9..=10 => EventOp::Batch([delay(data)?, delay(data)?, delay(data)?]),
            11..=13 => EventOp::Cancel(which(data)?),
            14..=15 => EventOp::Take(which(data)?),
            16..=20 => EventOp::Reset(which(data)?, data.arbitrary()?),
            _ => EventOp::Receive(data.int_in_range(1..=4)?),
        })
    }
}

#[cfg(feature = "async")]
impl<'a> Arbitrary<'a> for SleeperOp {
    fn arbitrary(data: &mut Bytes<'a>) -> Result<SleeperOp> {
        Ok(match data.int_in_range(0..=28)? {
            0..=2 => SleeperOp::Sleep(delay(data)?),
            3..=4 => SleeperOp::SleepUntil(ahead(data)?),
            5 => SleeperOp::SleepWithin(delay(data)?, slack(data)?),
            6..=7 => SleeperOp::Timeout(delay(data)?),
            8 => SleeperOp::TimeoutAt(ahead(data)?),
            9..=10 => {
                let period = data.int_in_range(100..=20 * TICK - 1)?;
                let first = if data.arbitrary()? { Some(delay(data)?) } else { None };
                SleeperOp::Interval(Beats { period, first, missed: missed(data)? })
            }
            11 => SleeperOp::GetReady(which(data)?),
            12..=20 => SleeperOp::Poll(which(data)?),
            21..=23 => SleeperOp::Reset(which(data)?, delay(data)?, data.arbitrary()?),
            24..=26 => SleeperOp::ResetAt(which(data)?, ahead(data)?, data.arbitrary()?),
            _ => SleeperOp::Drop(which(data)?),
        })
    }
}

impl<'a> Arbitrary<'a> for Setup {
    fn arbitrary(data: &mut Bytes<'a>) -> Result<Setup> {
        let sizes = (0..data.int_in_range(1..=3)?).map(|_| data.int_in_range(1..=6));
        let sizes = sizes.collect::<Result<_>>()?;
        let room = |data: &mut Bytes<'_>| data.int_in_range(1..=3);
        Ok(Setup {
            sizes,
            shards: data.int_in_range(1..=3)?,
            // One that no history reaches, or one that most reach.
            bound: if data.int_in_range(0..=3)? == 0 { 10_000 } else { data.int_in_range(1..=20)? },
            room: match data.int_in_range(0..=5)? {
                0..=1 => Room { events: usize::MAX, gives: false },
                2..=4 => Room { events: room(data)?, gives: false },
                _ => Room { events: room(data)?, gives: true },
            },
            hook: data.arbitrary()?,
            ending: if data.arbitrary()? { Ending::Shutdown } else { Ending::Drop },
        })
    }
}
