//! What a crash leaves on a disk.
//!
//! A kill leaves everything that was done. A power cut leaves, of each file, everything up to its last
//! sync, and of what was done to it since then any part: each write is kept, lost, torn, or garbled.
//!
//! Ground rules:
//!
//! - What happened to a name is certain once the folder is synced, and what was written is not.
//! - Within a file, what happened to its name (made, deleted) is kept in order: after the first such
//!   event that is lost, nothing of the file is kept.
//! - A write is torn at multiples of 512 or 4,096 bytes of its file: each piece is kept or not. A
//!   garbled piece has other bytes than were written, and than were there.
//! - Nothing touches bytes that were not written.

use std::sync::Arc;

use fastrand::Rng;

use super::{Event, Files, What, apply};

/// What happened to a disk until now, as far as a power cut is concerned.
#[derive(Clone, Default)]
pub(crate) struct Cut {
    /// What is on stable storage.
    pub(crate) synced: Files,
    /// What may be.
    pub(crate) pending: Vec<Pending>,
    /// What a kill leaves.
    pub(crate) all: Files,
}

#[derive(Clone, Debug)]
pub(crate) struct Pending {
    event: Event,
    /// A file was made or deleted, and the folder is synced since.
    certain: bool,
}

/// What becomes of a pending event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fate {
    Kept,
    Lost,
    /// Cut into pieces of `piece` bytes; bit `n % 64` says whether piece `n` is kept.
    Torn {
        piece: usize,
        kept: u64,
    },
    /// As torn, and the pieces that are not kept are garbled.
    Garbled {
        piece: usize,
        kept: u64,
    },
}

impl Cut {
    /// Takes the next event of the log.
    pub(crate) fn take(&mut self, event: &Event) {
        apply(&mut self.all, &event.file, &event.what);
        match event.what {
            What::Sync => {}
            What::Forget => {
                self.pending.retain(|Pending { event: pending, .. }| {
                    let name = matches!(pending.what, What::Create | What::Delete);
                    name || pending.file != event.file
                });
                return;
            }
            What::SyncFolder => {
                self.pending.iter_mut().for_each(|pending| pending.certain = true);
                return;
            }
            _ => {
                let event = event.clone();
                return self.pending.push(Pending { event, certain: false });
            }
        }
        let synced = &mut self.synced;
        self.pending.retain(|Pending { event: pending, .. }| {
            let of_this_file = pending.file == event.file;
            if of_this_file {
                apply(synced, &pending.file, &pending.what);
            }
            !of_this_file
        });
    }

    /// Returns what is left of a log by a power cut that keeps nothing it need not keep.
    pub(crate) fn worst(log: &[Event]) -> Files {
        let mut cut = Cut::default();
        log.iter().for_each(|event| cut.take(event));
        cut.image(&vec![Fate::Lost; cut.pending.len()])
    }

    /// Returns what a power cut leaves if these are the fates of the pending events.
    pub(crate) fn image(&self, fates: &[Fate]) -> Files {
        let mut files = self.synced.clone();
        let mut gone: Vec<&str> = Vec::new();
        for (Pending { event, certain }, fate) in self.pending.iter().zip(fates) {
            if gone.contains(&&*event.file) {
                continue;
            }
            match (&event.what, *fate) {
                (What::Create, Fate::Lost) if files.contains_key(&event.file) => {}
                (What::Create | What::Delete, Fate::Lost) if !certain => gone.push(&event.file),
                (What::Write { .. } | What::Truncate(_), Fate::Lost) => {}
                (What::Write { at, bytes }, Fate::Torn { piece, kept }) => {
                    write_pieces(&mut files, &event.file, *at, bytes, piece, kept, false);
                }
                (What::Write { at, bytes }, Fate::Garbled { piece, kept }) => {
                    write_pieces(&mut files, &event.file, *at, bytes, piece, kept, true);
                }
                (what, _) => apply(&mut files, &event.file, what),
            }
        }
        files
    }

    /// Returns what is pending, in words.
    pub(crate) fn told(&self) -> String {
        let what = |pending: &Pending| match &pending.event.what {
            What::Write { at, bytes } => format!("{} bytes at {at}", bytes.len()),
            other => format!("{other:?}"),
        };
        let told = |pending: &Pending| format!("\n  {}: {}", pending.event.file, what(pending));
        self.pending.iter().map(told).collect()
    }

    /// Returns which fates to look at: all of keeping and losing if they are few, and in any case the
    /// most telling ones and `more` at random.
    pub(crate) fn fates(&self, most_bits: u32, more: usize, random: &mut Rng) -> Vec<Vec<Fate>> {
        let k = self.pending.len();
        if k == 0 {
            return Vec::new();
        }
        let mut found = Vec::new();
        if k as u32 <= most_bits {
            let fate = |set: u32, bit: usize| match set >> bit & 1 {
                0 => Fate::Lost,
                _ => Fate::Kept,
            };
            found.extend((0..1 << k).map(|set| (0..k).map(|bit| fate(set, bit)).collect()));
        } else {
            found.push(vec![Fate::Lost; k]);
            // The last write alone, and all but the last one and all but the first one.
            let but = |one: usize, fate: Fate, other: Fate| {
                (0..k).map(|at| if at == one { fate } else { other }).collect::<Vec<_>>()
            };
            found.push(but(k - 1, Fate::Kept, Fate::Lost));
            found.push(but(k - 1, Fate::Lost, Fate::Kept));
            found.push(but(0, Fate::Lost, Fate::Kept));
        }
        // The last write torn, the rest there: what a process that is writing leaves most often.
        for piece in [512, 4096] {
            let kept = random.u64(..);
            let mut fates = vec![Fate::Kept; k];
            fates[k - 1] = Fate::Torn { piece, kept };
            found.push(fates);
        }
        for _ in 0..more {
            found.push((0..k).map(|_| any_fate(random)).collect());
        }
        found
    }
}

fn any_fate(random: &mut Rng) -> Fate {
    let piece = if random.u64(..2) == 0 { 512 } else { 4096 };
    match random.u64(..8) {
        0..=3 => Fate::Kept,
        4 | 5 => Fate::Lost,
        6 => Fate::Torn { piece, kept: random.u64(..) },
        _ => Fate::Garbled { piece, kept: random.u64(..) },
    }
}

fn write_pieces(
    files: &mut Files,
    file: &str,
    at: usize,
    bytes: &[u8],
    piece: usize,
    kept: u64,
    garble: bool,
) {
    let mut from = at;
    while from < at + bytes.len() {
        let to = (from / piece + 1) * piece;
        let to = to.min(at + bytes.len());
        let part = &bytes[from - at..to - at];
        let keep = kept >> (from / piece % 64) & 1 == 1;
        let part: Option<Arc<[u8]>> = match (keep, garble) {
            (true, _) => Some(Arc::from(part)),
            (false, true) => Some(part.iter().map(|byte| byte ^ 0xa5).collect()),
            (false, false) => None,
        };
        if let Some(bytes) = part {
            apply(files, file, &What::Write { at: from, bytes });
        }
        from = to;
    }
}
