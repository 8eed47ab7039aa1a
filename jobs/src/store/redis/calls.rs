//! Calls of scripts that change something, before they are sent.

use super::protocol::Operation;
use super::scripts::Name;

/// The most items of a call.
pub(super) const ITEMS: usize = 256;
/// The most bytes of a call, unless one operation has more.
pub(super) const BYTES: usize = 1 << 20;
/// The bytes of the number of ends with one token, and of the token.
const COUNT: usize = 2;
const TOKEN: usize = 16;

/// A call of a script that changes something.
pub(super) struct Call {
    pub(super) name: Name,
    /// The operations whose results are in its answer.
    pub(super) parts: Vec<Part>,
    pub(super) args: Vec<Vec<u8>>,
    pub(super) items: usize,
    pub(super) bytes: usize,
    /// Its operations need memory.
    pub(super) grows: bool,
    /// The script does nothing unless the call before has been done.
    pub(super) continues: bool,
    /// The list that the arguments end with.
    list: Option<List>,
    /// How many operations it has. The items of a list are one.
    operations: usize,
}

/// Items of one operation, which a script handles together.
struct List {
    operation: Operation,
    /// The argument that all items share: their kind, or the bounds of their kept jobs.
    common: Option<String>,
    many: usize,
    /// The index of the argument with the number of items.
    at: usize,
}

/// A part of a call's answer: the results of one operation.
#[derive(Clone, Copy)]
pub(super) struct Part {
    /// The index of the operation.
    pub(super) op: usize,
    pub(super) results: usize,
}

impl Call {
    pub(super) fn new(name: Name, grows: bool) -> Call {
        Call {
            name,
            parts: Vec::new(),
            args: Vec::new(),
            items: 0,
            bytes: 0,
            grows,
            continues: false,
            list: None,
            operations: 0,
        }
    }

    /// Returns the smallest script that has the operations of this call. `counted`: a claim of this process was counted.
    pub(super) fn script(&self, counted: bool) -> Name {
        match &self.list {
            Some(List { operation: Operation::InsertMany, .. }) if self.operations == 1 => {
                Name::InsertMany
            }
            Some(List { operation: Operation::InsertComing, .. }) if self.operations == 1 => {
                Name::InsertComing
            }
            Some(List { operation: Operation::Complete, .. }) if self.operations == 1 => {
                if counted { Name::CompleteCounted } else { Name::Complete }
            }
            _ => self.name,
        }
    }

    /// Begins an operation.
    pub(super) fn begin(&mut self, operation: Operation) {
        self.list = None;
        self.operations += 1;
        self.push(operation.word());
    }

    /// Begins an item of a list. Appends to the list at the end of the arguments if that has the same operation
    /// and the same `common`. Otherwise begins a list, and returns `true`.
    pub(super) fn item(&mut self, operation: Operation, common: Option<&str>) -> bool {
        let goes_on = |list: &List| list.operation == operation && list.common.as_deref() == common;
        let begins = !self.list.as_ref().is_some_and(goes_on);
        if begins {
            self.begin(operation);
            if let Some(common) = common {
                self.push(common);
            }
            let common = common.map(str::to_owned);
            self.list = Some(List { operation, common, many: 0, at: self.args.len() });
            self.push("0");
        }
        if let Some(list) = &mut self.list {
            list.many += 1;
            self.args[list.at] = list.many.to_string().into_bytes();
        }
        begins
    }

    /// Adds the end of a run that completed, as an item of a list. `complete.lua` has the form of the list. `operation`: that
    /// of a member of a group, or of any other job.
    pub(super) fn completed(
        &mut self,
        operation: Operation,
        id: [u8; 16],
        token: [u8; TOKEN],
        buckets: &[u8],
    ) {
        if self.item(operation, None) {
            self.push("");
            self.push("");
        }
        self.push(id);
        self.bytes += COUNT + TOKEN + buckets.len();
        let Some(List { at, .. }) = self.list else { return };
        let groups = &mut self.args[at + 1];
        let same =
            groups.last_chunk::<{ COUNT + TOKEN }>().is_some_and(|group| group[COUNT..] == token);
        if same && let Some([high, low, ..]) = groups.last_chunk_mut::<{ COUNT + TOKEN }>() {
            [*high, *low] = (u16::from_be_bytes([*high, *low]) + 1).to_be_bytes();
        } else {
            groups.extend(1_u16.to_be_bytes());
            groups.extend(token);
        }
        self.args[at + 2].extend(buckets);
    }

    /// Ends the list at the end of the arguments.
    pub(super) fn end_list(&mut self) {
        self.list = None;
    }

    pub(super) fn push(&mut self, arg: impl Into<Vec<u8>>) {
        let arg = arg.into();
        self.bytes += arg.len() + 8;
        self.args.push(arg);
    }

    pub(super) fn takes(&self, name: Name, grows: bool, items: usize, bytes: usize) -> bool {
        let fits = self.items + items <= ITEMS && self.bytes + bytes <= BYTES;
        self.name == name && self.grows == grows && !self.continues && fits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ends of the same claim that follow each other name its token once, and every end has its own buckets.
    #[test]
    fn ends_of_a_claim_name_its_token_once() {
        let mut call = Call::new(Name::Change, false);
        let ends = [(1, 7), (2, 7), (3, 8), (4, 7)];
        for (id, token) in ends {
            call.completed(Operation::Complete, [id; 16], [token; TOKEN], &[id, token]);
        }
        let group = |count: u8, token: u8| [&[0, count][..], &[token; TOKEN]].concat();
        let groups = [group(2, 7), group(1, 8), group(1, 7)].concat();
        let mut expected = vec![b"complete".to_vec(), b"4".to_vec(), groups];
        expected.push(ends.iter().flat_map(|(id, token)| [*id, *token]).collect());
        expected.extend(ends.iter().map(|(id, _)| vec![*id; 16]));
        assert_eq!(call.args, expected);
        assert_eq!(call.script(false), Name::Complete);
        assert_eq!(call.script(true), Name::CompleteCounted);
    }
}
